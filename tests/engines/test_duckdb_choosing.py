"""The choice of a unit's groups: an order of its own for every unit, of which the first few are kept."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from engines.slow_engine import Rule
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.segments import kept_items
from tacit.engines.sql.bounding import Chooser, canonical_text, position_sql
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


@pytest.mark.parametrize("most", [1, 3, 10, 39])
@pytest.mark.parametrize("groups", [1, 5, 40, 3000])
def test_the_first_of_each_owner_are_kept(groups: int, most: int) -> None:
    """Whether an owner has few items or many, ranks that differ or not."""
    pick = random.Random(groups * most)
    lengths = [pick.choice((0, 1, most, most + 1, groups)) for _ in range(60)]
    rank = [pick.randrange(2**31) if i % 3 else 7 for i in range(sum(lengths))]
    first, want = 0, []
    for length in lengths:
        own = sorted(range(first, first + length), key=lambda i: (rank[i], i))[:most]
        want += [i in own for i in range(first, first + length)]
        first += length
    ranks = np.array(rank, dtype=np.uint64)
    kept = kept_items(np.array(lengths), most, lambda _, some: ranks[some])
    assert (want if kept is None else kept.tolist()) == want
    assert (kept is None) == all(want)


def test_every_group_is_kept_about_as_often() -> None:
    """30,000 units in all of 12 groups keep 3: each group 7,500 times, give or take 6 standard deviations (450)."""
    chooser = Chooser(b"some secret", INTEGER, numbered=False)
    folded, groups = chooser.folded(np.repeat(np.arange(30_000), 12)), np.tile(np.arange(12, dtype=np.int16), 30_000)
    places = chooser.places(folded, groups, 12).reshape(30_000, 12)
    counts = np.bincount(np.argsort(places, axis=1)[:, :3].ravel())
    assert len(counts) == 12
    assert all(abs(count - 7500) < 450 for count in counts), counts


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
