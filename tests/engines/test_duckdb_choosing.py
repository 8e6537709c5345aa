"""The choice of a unit's groups: an order of its own for every unit, the first few kept, by bit sets exactly."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict

import duckdb
import pyarrow as pa
import pytest

from engines.slow_engine import Rule
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.bitset_bounding import kept_clauses
from tacit.engines.sql.group_choice import Chooser, canonical_text, position_sql
from tacit.query.types import DATE, INTEGER, TEXT, TIMESTAMP

UNITS = [0, 1, -1, 7, 2**30, 2**53 + 1, 2**63 - 1, -(2**63), 123456789012345]


@pytest.mark.parametrize("groups", [1, 2, 5, 64, 65, 200, 20_000])
def test_places_are_a_permutation_for_every_unit(groups: int) -> None:
    chooser, rule = Chooser(b"secret", INTEGER, numbered=False), Rule(b"secret", INTEGER, False)
    places = chooser.place("h", "g", groups)
    with duckdb.connect() as made:
        made.register("units", pa.table({"u": pa.array(UNITS, type=pa.int64())}))
        rows = made.execute(
            f"SELECT u, g, {places} FROM (SELECT u, {chooser.parameters(DUCKDB, 'u')} AS h, g FROM units, range({groups}) AS r(g))"
        ).fetchall()
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for unit, group, place in rows:
        found[unit][group] = place
    assert set(found) == set(UNITS)
    for unit, order in found.items():
        assert len(set(order.values())) == groups
        assert min(order.values()) >= 0
        assert max(order.values()) < 2 ** Chooser.bits(groups)
        some = list(order)[:: max(1, groups // 50)]
        assert [order[g] for g in some] == [rule.place(unit, g, groups) for g in some]


@pytest.mark.parametrize("value", ["u", "u + 0", "u + 0" + " + 0" * 200])
@pytest.mark.parametrize(("first", "count"), [(-3, 8), (-40, 100), (2**63 - 100, 100), (-(2**63), 70)])
def test_a_run_of_keys_is_computed_with(value: str, first: int, count: int) -> None:
    """A column, a short and a long expression, at both ends of a run and beyond; never a list of a long run."""
    values = tuple(range(first, first + count))
    sql = position_sql(DUCKDB, value, values, INTEGER)
    assert len(sql) < 2500
    asked = [*{max(first - 1, -(2**63)), first, first + 7, first + count - 1, min(first + count, 2**63 - 1)}, None]
    with duckdb.connect() as made:
        made.register("units", pa.table({"u": pa.array(asked, type=pa.int64())}))
        found = made.execute(f"SELECT u, {sql} FROM units").fetchall()
    assert sorted(found, key=repr) == sorted(((u, values.index(u) if u in values else None) for u in asked), key=repr)


@pytest.mark.parametrize("value", ["k", "k + 0", "k + 0" + " + 0" * 100])
def test_keys_with_gaps_are_looked_up_by_their_distance(value: str) -> None:
    """In any order, at both ends and beyond them, in gaps and for NULL; days as well."""
    values = [3 * i for i in range(-40, 60)] + [5]
    asked = [*range(-130, 200), 2**63 - 1, -(2**63), None]
    days = [dt.date(2020, 2, 1) + dt.timedelta(i) for i in range(150) if i % 7]
    with duckdb.connect() as made:
        made.register("whole", pa.table({"k": pa.array(asked, type=pa.int64())}))
        sql = position_sql(DUCKDB, value, tuple(values), INTEGER)
        assert "list_position" not in sql
        found = made.execute(f"SELECT k, {sql} FROM whole").fetchall()
        assert found == [(k, values.index(k) if k in values else None) for k in asked]
        made.execute("CREATE TABLE dates AS SELECT DATE '2020-01-01' + CAST(i AS INTEGER) AS k FROM range(300) AS r(i)")
        sql = position_sql(DUCKDB, "k", tuple(days), DATE)
        for day, place in made.execute(f"SELECT k, {sql} FROM dates").fetchall():
            assert place == (days.index(day) if day in days else None)
        times = [dt.datetime(2020, 2, 1, 3) + dt.timedelta(hours=6 * i) for i in range(150) if i % 7]
        hours = "SELECT TIMESTAMP '2020-01-31' + INTERVAL 3 HOUR * i AS k FROM range(400) AS r(i)"
        sql = position_sql(DUCKDB, "k", tuple(times), TIMESTAMP)
        assert "list_position" not in sql
        for time, place in made.execute(f"SELECT k, {sql} FROM ({hours})").fetchall():
            assert place == (times.index(time) if time in times else None)


@pytest.mark.parametrize(
    ("groups", "bits", "most"),
    [(5, 6, 1), (5, 6, 4), (50, 6, 10), (60, 6, 40), (64, 6, 63), (90, 7, 3), (200, 8, 10), (200, 8, 60), (500, 9, 16),
     (500, 9, 200), (1000, 10, 5), (1000, 10, 300), (20_000, 15, 2)],
)  # fmt: skip
@pytest.mark.parametrize("large", [False, True])
def test_bit_sets_keep_the_first_places(groups: int, bits: int, most: int, large: bool) -> None:
    pick = random.Random(groups * most)
    rows = []
    for unit in range(60):
        breadth = pick.choice((1, most, most + 1, groups))
        places = pick.sample(range(2**bits), min(breadth, groups))
        rows += [
            (unit, place, number) for number, place in enumerate(pick.choices(places, k=min(600, 3 * len(places))))
        ]
    rows += [(99, 63, 0), (99, 0, 1), (98, 2**bits - 1, 2)]
    first: dict[int, list[int]] = {u: sorted({p for v, p, _ in rows if v == u})[:most] for u in {u for u, _, _ in rows}}
    clauses = ", ".join(f"{name} ({sql})" for name, sql in kept_clauses(groups, bits, most, ["g"], large=large).items())
    with duckdb.connect() as made:
        arrays = [
            pa.array(column, type=kind)
            for column, kind in zip(zip(*rows, strict=True), (pa.int64(), pa.int16(), pa.int64()), strict=True)
        ]
        made.register("p", pa.Table.from_arrays(arrays, names=["u", "p", "g"]))
        got = made.execute(f"WITH {clauses} SELECT u, g FROM kept").fetchall()
    assert Counter(got) == Counter((u, g) for u, p, g in rows if p in first[u])


def test_every_group_is_kept_about_as_often() -> None:
    """30,000 units in all of 12 groups keep 3: each group 7,500 times, give or take 6 standard deviations (450)."""
    chooser = Chooser(b"some secret", INTEGER, numbered=False)
    placed = f"SELECT u, g, {chooser.place('h', 'g', 12)} AS p FROM (SELECT u, {chooser.parameters(DUCKDB, 'u')} AS h, g FROM range(30000) a(u), range(12) b(g))"
    clauses = ", ".join(f"{name} ({sql})" for name, sql in kept_clauses(12, 6, 3, ["g"], large=False).items())
    with duckdb.connect() as made:
        rows = made.execute(f"WITH p AS ({placed}), {clauses} SELECT g, count(*) FROM kept GROUP BY g").fetchall()
    assert sum(count for _, count in rows) == 90_000
    assert all(abs(count - 7500) < 450 for _, count in rows), rows


def test_texts_of_neighbouring_values_stay_apart() -> None:
    with duckdb.connect() as made:
        one, other = (
            made.execute(
                f"SELECT {canonical_text(DUCKDB, 'a', TEXT)} || {canonical_text(DUCKDB, 'b', TEXT)} FROM (SELECT {a} AS a, {b} AS b)"
            ).fetchall()
            for a, b in (("'1:x'", "'y'"), ("'1'", "'x1:y'"))
        )
        assert one != other
        assert made.execute(f"SELECT {canonical_text(DUCKDB, 'NULL::VARCHAR', TEXT)}").fetchall() == [("-",)]


def test_units_that_are_row_numbers_decide_nothing() -> None:
    chooser = Chooser(b"secret", INTEGER, numbered=True)
    assert "u" not in chooser.parameters(DUCKDB, "u").replace("AS BIGINT", "")
    assert "CAST(u" not in chooser.digest(DUCKDB, "groups", "u", [("k", TEXT)])
