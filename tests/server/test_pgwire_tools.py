"""Tools that look at the whole catalogue: pgcli with its completion, dashboards; and what is kept of the answers."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.pg_served import PgServed, pg_serve
from support.served import BUDGETS, COUNT
from tacit.server.pgwire import session as client_queries

BUDGET = {**BUDGETS, "patients": {"accounting": "approx", "epsilon": "100000", "delta": "1e-6"}}
NAMES = "SELECT relname FROM pg_class WHERE relnamespace = 2200 AND relkind = 'r' ORDER BY 1"


@pytest.fixture(scope="module")
def pg() -> Iterator[PgServed]:
    with pg_serve(budgets=BUDGET) as made:
        yield made


@pytest.fixture(scope="module")
def pgcli(pg: PgServed) -> Iterator[Any]:
    from pgcli.pgexecute import PGExecute

    words = pg.words()
    made = PGExecute(
        words["dbname"], words["user"], words["password"], words["host"], words["port"], None,
        options="-c tacit.epsilon=0.5",
    )  # fmt: skip
    yield made
    made.conn.close()


def test_pgcli_completes_tables_columns_keys_and_types(pgcli: Any) -> None:
    assert pgcli.search_path() == ["pg_catalog", "public"]
    assert pgcli.databases() == ["hospital"]
    assert set(pgcli.schemata()) == {"public", "tacit", "pg_catalog", "information_schema"}
    own = {name for schema, name in pgcli.tables() if schema == "public"}
    assert own == {"visits", "staff", "wards"}
    assert ("information_schema", "columns") in list(pgcli.views())
    columns = [row[:4] for row in pgcli.table_columns() if row[:2] == ("public", "visits")]
    assert ("public", "visits", "cost", "numeric") in columns
    (key,) = pgcli.foreignkeys()
    assert (key.childtable, key.childcolumn, key.parenttable, key.parentcolumn) == ("visits", "nurse", "staff", "id")
    assert list(pgcli.functions()) == []
    assert list(pgcli.datatypes()) == []
    assert len(list(pgcli.view_columns())) > 50


def test_pgcli_describes_and_asks(pgcli: Any, pg: PgServed) -> None:
    def told(command: str) -> tuple[list[Any], list[str]]:
        ((_, rows, headers, _, _, success, _),) = pgcli.run(command, pgspecial())
        assert success, command
        return list(rows or []), headers

    def pgspecial() -> Any:
        from pgspecial.main import PGSpecial

        return PGSpecial()

    assert [row[1] for row in told("\\dt")[0]] == ["staff", "visits", "wards"]
    assert [row[0] for row in told("\\d visits")[0]][:3] == ["patient", "ward", "cost"]
    for command in ("\\d", "\\dt+", "\\d+ visits", "\\dn+", "\\du", "\\l+", "\\df", "\\dT", "\\dv", "\\di", "\\ds",
                    "\\dm", "\\dx", "\\dp", "\\db", "\\dD", "\\dE", "\\ddp"):  # fmt: skip
        told(command)
    rows, headers = told(COUNT)
    assert (headers, [row[0] for row in rows]) == (["ward", "n"], ["a", "b", "c"])
    assert pg.served.spent() > 0


def test_lists_without_a_type_and_names_of_types(pg: PgServed) -> None:
    with psycopg.connect(**pg.words(), autocommit=True) as connection:
        ask = connection.execute
        kinds = "SELECT count(*) FROM pg_class WHERE relnamespace = 2200 AND relkind = ANY('{r,\"p\"}')"
        assert ask(kinds).fetchone() == (3,)
        assert ask(kinds.replace("'{r,\"p\"}'", "%s"), [["r", "v"]]).fetchone() == (3,)
        assert ask("SELECT count(*) FROM pg_namespace WHERE oid = ANY('{11,2200}')").fetchone() == (2,)
        assert ask("SELECT count(*) FROM pg_class WHERE relkind = ANY('{}')").fetchone() == (0,)
        assert ask("SELECT * FROM unnest(current_schemas(true))").fetchall() == [("pg_catalog",), ("public",)]
        assert ask("SELECT 'trigger'::regtype::oid = 2279 FROM pg_am LIMIT 1").fetchone() == (True,)
        # A text here, as SQLAlchemy 1.4 asks for it; DuckDB's own table of this name has a list.
        assert ask("SELECT indkey::varchar, indoption::varchar FROM pg_index").fetchall() == [("1", "0")]
        assert ask("SELECT proargtypes::regtype[]::text[] FROM pg_proc").fetchall() == []


def test_what_is_kept_of_the_catalogue_is_the_persons_own(pg: PgServed) -> None:
    expected = {"alice": ["staff", "visits", "wards"], "carol": ["visits", "wards"], "dan": ["staff", "wards"]}
    who = "SELECT current_user, relname FROM pg_class WHERE relnamespace = 2200 AND relkind = %s ORDER BY 2"
    connections = {name: psycopg.connect(**pg.words(name), autocommit=True) for name in expected}
    for _ in range(3):
        for name, connection in connections.items():
            for binary in (False, True):
                with connection.cursor(binary=binary) as cursor:
                    assert [row[0] for row in cursor.execute(NAMES).fetchall()] == expected[name]
                    told = cursor.execute(who, ["r"]).fetchall()
                    assert told == [(name, each) for each in expected[name]]
                    assert cursor.execute(who, ["v"]).fetchall() == []
    for connection in connections.values():
        connection.close()


def test_settings_and_budgets_are_never_kept(pg: PgServed) -> None:
    with psycopg.connect(**pg.words(), autocommit=True) as connection:
        ask = connection.execute
        for value in ("0.25", "0.75"):
            ask(f"SET tacit.epsilon = '{value}'")
            assert ask("SELECT current_setting('tacit.epsilon')").fetchone() == (value,)
            before = ask("SELECT spent FROM tacit.budget WHERE population = 'patients'").fetchone()
            ask(f"SELECT COUNT(*) AS n FROM visits WHERE cost < {value}")
            assert ask("SELECT spent FROM tacit.budget WHERE population = 'patients'").fetchone() != before


def test_a_change_of_rights_reaches_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_queries, "_FRESH", 0.2)
    with pg_serve(budgets=BUDGET) as pg:
        people, role = pg.served.people, pg.served.people.person("bob").role
        with psycopg.connect(**pg.words("bob"), autocommit=True) as connection:
            assert len(connection.execute(NAMES).fetchall()) == 3
            people.add("bob", role, populations=frozenset({"employees"}), operator="olga")
            time.sleep(0.25)
            assert connection.execute(NAMES).fetchall() == [("staff",), ("wards",)]
            # A text that was not asked before is looked up with the rights of now, however short ago they changed.
            people.add("bob", role, populations=frozenset({"patients"}), operator="olga")
            assert connection.execute(f"{NAMES} LIMIT 9").fetchall() == [("visits",), ("wards",)]
            people.withdraw(people.tokens("bob")[0].id, operator="olga")
            time.sleep(0.25)
            with pytest.raises(psycopg.errors.InvalidAuthorizationSpecification):
                connection.execute(NAMES)


def test_kept_answers_do_not_grow_without_end(pg: PgServed) -> None:
    with psycopg.connect(**pg.words(), autocommit=True) as connection:
        for number in range(300):
            connection.execute(f"SELECT {number} AS x, '{'y' * 1000}' AS y")
            connection.execute("SELECT %s AS x", [number])
            connection.execute("SELECT relname, %s AS z FROM pg_class", ["z" * (1000 + number)])
    kept = pg.server._catalogues.results
    assert kept.weight <= 8_000_000
    assert len(kept) < 800


def test_buckets_as_a_dashboard_writes_them(pg: PgServed) -> None:
    """Bins of numbers and of days, and a table in a subquery, with every name in quotes, as Metabase sends them."""
    cost, day = '"public"."visits"."cost"', '"public"."visits"."day"'
    month = f"CAST(DATE_TRUNC('month', {day}) AS date)"
    ask = 'SELECT {0} AS "bin", COUNT(*) AS "count" FROM "public"."visits" {1} GROUP BY {0} ORDER BY {0} ASC'
    inner = f'SELECT "public"."visits"."ward" AS "ward", {cost} AS "cost" FROM "public"."visits"'
    with psycopg.connect(**pg.words(options="-c tacit.epsilon=500"), autocommit=True) as connection:

        def bins(sql: str) -> list[object]:
            return [row[0] for row in connection.execute(sql.encode()).fetchall()]

        assert bins(ask.format(f"(FLOOR((({cost} - 0.0) / 25.0)) * 25.0) + 0.0", "")) == [0, 25, 50, 75, 100]
        days = f"WHERE {day} >= DATE '2025-01-01' AND {day} < DATE '2025-03-01'"
        assert bins(ask.format(month, days)) == [dt.date(2025, 1, 1), dt.date(2025, 2, 1)]
        mean = f'SELECT "source"."ward" AS "ward", AVG("source"."cost") AS "avg" FROM ({inner}) AS "source"'
        assert bins(f'{mean} GROUP BY "source"."ward" ORDER BY "source"."ward" ASC') == ["a", "b", "c"]
