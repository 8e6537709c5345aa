"""Stored values of PostgreSQL, read totally and by one rule: types, padding, case, collations, infinities, views, who a table is."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from engines.makers import database
from tacit.core.errors import InputError
from tacit.engines.postgres import PostgresEngine
from tacit.engines.postgres.engine import read_types
from tacit.engines.postgres.tables import Described, open_table
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, SqlType, Value, decimal

WIDE = "1" + "0" * 400
#: Declared type, stored type, stored values as SQL, and what they mean.
STORED: list[tuple[SqlType, str, list[str], list[Value | None]]] = [
    (INTEGER, "smallint", ["-32768", "7"], [-32768, 7]),
    (INTEGER, "integer", ["2147483647", "NULL"], [2**31 - 1, None]),
    (INTEGER, "bigint", ["9007199254740993", "-9223372036854775808"], [2**53 + 1, -(2**63)]),
    (INTEGER, "numeric", ["2.5", "-2.5", "'NaN'", "'Infinity'", "'-Infinity'", WIDE, "9223372036854775807.4"],
     [3, -3, None, None, None, None, 2**63 - 1]),
    (INTEGER, "double precision", ["2.5", "3.5", "'NaN'", "'Infinity'", "1e19"], [2, 4, None, None, None]),
    (INTEGER, "text", ["' 12 '", "'1e3'", "'x'", "'9999999999999999999'"], [12, 1000, None, None]),
    (INTEGER, "boolean", ["true", "false"], [1, 0]),
    (decimal(2), "numeric(20,4)", ["1.005", "-1.005", "9999999999999999.9999", "'NaN'"], [Fraction(101, 100), Fraction(-101, 100), None, None]),
    (decimal(2), "numeric", ["12.345", "1e30", "'Infinity'", "1e131071", "-1e-16000", "9999999999999999.994"],
     [Fraction(1235, 100), None, None, None, Fraction(0), Fraction(10**18 - 1, 100)]),
    (DOUBLE, "numeric", ["1e131071", "1e-16000"], [None, 0.0]),
    (INTEGER, "numeric", ["1e131071", "-1e131071"], [None, None]),
    (decimal(2), "bigint", ["5", "9223372036854775807"], [Fraction(5), None]),
    (DOUBLE, "double precision", ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "5e-324", "1.7976931348623157e308", "0.1"],
     [None, None, None, 0.0, 5e-324, 1.7976931348623157e308, 0.1]),
    (DOUBLE, "real", ["0.1", "'NaN'", "3.4028235e38"], [0.10000000149011612, None, 3.4028234663852886e38]),
    (DOUBLE, "numeric", ["0.1", "'NaN'", "'-Infinity'", WIDE, f"1 / {WIDE}.0", "-2.5"], [0.1, None, None, None, 0.0, -2.5]),
    (DOUBLE, "text", ["'1e400'", "'1e-400'", "'.5'", "'nan'"], [None, 0.0, 0.5, None]),
    (TEXT, "text", ["'a'", "'A'", "'a '", "''", "'é'", "'e' || chr(769)", "NULL"], ["a", "A", "a ", "", "é", "e\u0301", None]),
    (TEXT, "char(5)", ["'a'", "'a  '", "' a'"], ["a", "a", " a"]),
    (TEXT, "varchar(5)", ["'a '"], ["a "]),
    (TEXT, 'text COLLATE "C.utf8"', ["'Ä'", "'z'"], ["Ä", "z"]),
    (TEXT, "uuid", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    (TEXT, "mood", ["'sad'", "NULL"], ["sad", None]),
    (TEXT, "short", ["'sub'"], ["sub"]),
    (TEXT, "integer", ["-5"], ["-5"]),
    (TEXT, "boolean", ["true"], ["true"]),
    (TEXT, "date", ["'2024-02-29'"], ["2024-02-29"]),
    (TEXT, "json", ["'{\"a\":1.0}'", "NULL"], ['{"a":1.0}', None]),
    (TEXT, "jsonb", ["'{\"b\":1,\"a\":2}'"], ['{"a": 2, "b": 1}']),
    (TEXT, "text[]", ["ARRAY['a', NULL, '', 'b']", "ARRAY[]::text[]", "NULL"], ["\x1fa\x1fb", "", None]),
    (TEXT, "int[]", ["ARRAY[3, -1]"], ["\x1f3\x1f-1"]),
    (BOOLEAN, "boolean", ["true", "NULL"], [True, None]),
    (BOOLEAN, "integer", ["0", "3"], [False, True]),
    (DATE, "date", ["'0001-01-01'", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'", "'9999-12-31'"],
     [dt.date(1, 1, 1), None, None, None, None, dt.date(9999, 12, 31)]),
    (DATE, "timestamp", ["'2024-02-29 23:59:59.999999'", "'infinity'"], [dt.date(2024, 2, 29), None]),
    (TIMESTAMP, "timestamp", ["'2024-02-29 12:00:00.000001'", "'-infinity'", "'294276-12-31'"], [dt.datetime(2024, 2, 29, 12, 0, 0, 1), None, None]),
    (TIMESTAMP, "timestamptz", ["'2024-03-31 01:30:00+02'", "'infinity'"], [dt.datetime(2024, 3, 30, 23, 30), None]),
    (TIMESTAMP, "date", ["'2024-02-29'", "'5874897-12-31'", "'infinity'"], [dt.datetime(2024, 2, 29), None, None]),
]  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> Any:
    with psycopg.connect(database(), autocommit=True) as made:
        made.execute("CREATE SCHEMA kinds")
        made.execute("SET search_path = kinds, public; SET timezone = 'Asia/Tokyo'")
        made.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        made.execute("CREATE DOMAIN short AS varchar(10)")
        yield made


def public(kind: SqlType) -> Catalog:
    return Catalog((Table("t", (Column("i", INTEGER), Column("x", kind)), public=True),), ())


@pytest.mark.parametrize(("kind", "stored", "values", "meant"), STORED, ids=lambda value: str(value)[:40])
def test_every_type_is_read_totally(
    connection: Any, kind: SqlType, stored: str, values: list[str], meant: list[Value | None]
) -> None:
    connection.execute("DROP TABLE IF EXISTS kinds.one")
    connection.execute(f"CREATE TABLE kinds.one (i bigint, x {stored})".encode())
    for number, value in enumerate(values):
        connection.execute(f"INSERT INTO kinds.one VALUES ({number}, {value})".encode())
    catalog = Catalog(
        (*public(kind).tables, Table("p", (Column("i", INTEGER),), population="q", unit="row")), (Population("q"),)
    )
    with PostgresEngine(catalog, {"t": "kinds.one", "p": "kinds.one"}, database()) as engine:
        relation = resolve("SELECT a.i, a.x, s.n FROM (SELECT COUNT(*) AS n FROM p) s JOIN t a ON TRUE", catalog).reads[
            0
        ]
        found = engine.rows(relation, most=100)
    by_name = [field.name for field in relation.fields]
    places = by_name.index("i"), by_name.index("x")
    got = [row[places[1]] for row in sorted(found, key=lambda row: row[places[0]])]  # type: ignore[arg-type, return-value]
    assert [repr(value) for value in got] == [repr(value) for value in meant]


def test_types_that_are_not_stated(connection: Any) -> None:
    connection.execute(
        'CREATE TABLE kinds.many (a int, b numeric(10,2), c numeric, d short, e mood, f json, n int[], "G h" text, h bytea, k char(3), l timestamptz, m numeric(30,20))'
    )
    found = read_types(database(), {"t": "kinds.many"})["t"]
    assert found == {
        "a": INTEGER, "b": decimal(2), "c": DOUBLE, "d": TEXT, "e": TEXT, "f": TEXT, "n": None, "G h": TEXT, "h": None, "k": TEXT,
        "l": TIMESTAMP, "m": DOUBLE,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("kinds.nothing", TEXT, "there is no table or view kinds.nothing"),
        ("a.b.c", TEXT, "must be 'table' or 'schema.table'"),
        ('kinds."one', TEXT, "double quotes around a part that has dots"),
        ('kinds.one"; DROP TABLE many; --', TEXT, "there is no table or view"),
        ("kinds.odd", DATE, "cannot read a column of type int8 as DATE"),
    ],
)
def test_tables_that_are_not_there(connection: Any, name: str, kind: SqlType, message: str) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS kinds.odd (i bigint, x bigint)")
    with pytest.raises(InputError, match=message):
        PostgresEngine(public(kind), {"t": name}, database())


@pytest.mark.parametrize(
    ("stored", "source"), [('"A ""b"""', 'kinds.A "b"'), ('"A ""b"".2024"', 'kinds."A ""b"".2024"')]
)
def test_names_that_need_quotes(connection: Any, stored: str, source: str) -> None:
    connection.execute(f'CREATE TABLE kinds.{stored} (i bigint, "X" text)')
    connection.execute(f"INSERT INTO kinds.{stored} VALUES (1, %s)", ("x",))
    catalog = Catalog(
        (Table("t", (Column("X", TEXT), Column("i", INTEGER)), population="q", unit="i"),), (Population("q"),)
    )
    with PostgresEngine(catalog, {"t": source}, database()) as engine:
        found = engine.measure(MeasurementTask(resolve("SELECT COUNT(X) FROM t", catalog).final, b"k"))
    assert found.raw[0].tolist() == [1]


def owned(unit: str = "id") -> Catalog:
    return Catalog(
        (
            Table(
                "t", (Column("id", INTEGER), Column("x", INTEGER, bounds=(0, 9))), population="q", unit=unit, max_rows=3
            ),
        ),
        (Population("q"),),
    )


def test_a_table_and_its_views_share_marks(connection: Any) -> None:
    connection.execute("CREATE TABLE kinds.base (id bigint, x bigint); CREATE TABLE kinds.other (id bigint, x bigint)")
    connection.execute(
        "CREATE VIEW kinds.v AS SELECT * FROM kinds.base WHERE x > 0; CREATE VIEW kinds.w AS SELECT * FROM kinds.v"
    )
    connection.execute("CREATE MATERIALIZED VIEW kinds.m AS SELECT * FROM kinds.w")

    def marks(name: str) -> set[str]:
        with PostgresEngine(owned(), {"t": name}, database()) as engine:
            return set(engine.marks("t").marks)

    base = marks("kinds.base")
    assert len(base) == 2
    assert all(base < marks(name) for name in ("kinds.v", "kinds.w", "kinds.m"))
    assert not base & marks("kinds.other")
    connection.execute("ALTER TABLE kinds.base RENAME TO renamed")
    assert len(base & marks("kinds.renamed")) == 1
    connection.execute("CREATE TABLE kinds.base (id bigint, x bigint)")
    assert len(base & marks("kinds.base")) == 1


def test_rows_without_an_address(connection: Any) -> None:
    """Of a view rows can be counted and added up, and nothing that would need their numbers."""
    connection.execute("CREATE TABLE kinds.parts (id bigint, x bigint) PARTITION BY RANGE (id)")
    connection.execute("CREATE TABLE kinds.part1 PARTITION OF kinds.parts FOR VALUES FROM (0) TO (100)")
    connection.execute("INSERT INTO kinds.parts SELECT i, i % 10 FROM generate_series(0, 49) AS s(i)")
    connection.execute("CREATE VIEW kinds.seen AS SELECT * FROM kinds.parts")
    catalog = owned("row")
    doubled = "SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT x FROM t)"
    for name in ("kinds.parts", "kinds.seen", "kinds.part1"):
        with PostgresEngine(catalog, {"t": name}, database()) as engine:
            for sql, want in (("SELECT COUNT(*), SUM(x) FROM t", [50, 225]), ("SELECT AVG(x), MEDIAN(x) FROM t", None)):
                found = engine.measure(MeasurementTask(resolve(sql, catalog).final, b"k"))
                assert want is None or [array.tolist() for array in found.raw] == [[n] for n in want]
            final = resolve(doubled, catalog).final
            if name != "kinds.seen":
                assert engine.measure(MeasurementTask(final, b"k")).raw_units.tolist() == [50]
            else:
                with pytest.raises(Refusal, match="have no address"):
                    engine.check(final)


def test_bounding_by_rows_of_one_table_read_twice(connection: Any) -> None:
    """A row that is read twice is one unit: it counts once per group, however the scans went."""
    connection.execute("CREATE TABLE kinds.twice AS SELECT i AS id, i % 10 AS x FROM generate_series(1, 3000) AS s(i)")
    catalog = owned("row")
    sql = "SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT x FROM t UNION ALL SELECT x FROM t UNION ALL SELECT x FROM t)"
    with PostgresEngine(catalog, {"t": "kinds.twice"}, database()) as engine:
        found = engine.measure(MeasurementTask(resolve(sql, catalog).final, b"k"))
    assert found.raw_units.tolist() == [3000]
    assert found.raw[0].tolist() == [9000]


def test_a_unit_that_is_compared_regardless_of_case_is_refused() -> None:
    """``citext`` and collations without a fixed order of bytes: one person under two spellings would be two."""
    described = Described(
        1, "s", "t", "r", {"id": ("citext", -1), "x": ("int8", -1)}, (), (1, [], [], []), frozenset({"id"}), {}
    )
    text = Catalog(
        (Table("t", (Column("id", TEXT), Column("x", INTEGER)), population="q", unit="id"),), (Population("q"),)
    )
    with pytest.raises(InputError, match=r"tables\.t\.unit: id is compared regardless of case"):
        open_table(described, text.tables[0], 0)
    open_table(described, Table("t", (Column("id", TEXT), Column("x", INTEGER)), population="q", unit="x"), 0)
