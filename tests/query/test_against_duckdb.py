"""Without noise, and on data within bounds, the answers are those of plain DuckDB to the analyst's own text.

The whole corpus goes through planning, the real engine, the real release with its noise taken out
(``support/noiseless.py``) and the real post-processing. The same text, respelled only where DuckDB has no such word
(``plain_sql.py``), goes to DuckDB itself. What may differ, and by how much:

* counts, sums of whole numbers and decimals, keys, dates, texts: not at all;
* sums and means of DOUBLE values: by half a step of their public grid per value that enters;
* MIN, MAX, medians and quantiles: by half a leaf;
* other DOUBLE results: by a relative 1e-9, since they are rounded in another order;
* a sum of nothing is 0, where SQL says NULL; a quotient that is no number is NULL.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from query.corpus.accepted import ACCEPTED, GENERATED, WRITTEN
from query.corpus.analysts import ASKED as ANALYSTS
from query.corpus.bounded import BOUNDED, arrow
from query.corpus.by_value import BY_VALUE, STRUCTURES
from query.corpus.clinic import CATALOG
from query.corpus.several import SEVERAL, VALUED
from query.plain_sql import plain_connection, plain_sql
from support.noiseless import without_noise
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.planning.auto_bounds import sought
from tacit.query.planning.plan import Plan, make_plan, with_bounds
from tacit.query.postprocess.result import finish, in_turn
from tacit.query.query import (
    Aggregate,
    Append,
    Combine,
    Derive,
    Extend,
    FinalAggregation,
    Match,
    Query,
    Regroup,
    Sort,
)
from tacit.query.relational.expressions import Reference, references
from tacit.query.release import NoisyRelease
from tacit.query.request import Account, Request
from tacit.query.types import DATE, Kind, SqlType, ordinal

#: Queries that are left out, with the reason; the test counts them.
BIAS = {
    "SELECT DISTINCT ward, urgent FROM visits ORDER BY ward DESC LIMIT 3": "which rows LIMIT takes from ties is open",
    "SELECT s.ward, DP_INTERVAL_LOW(x) AS low, s.n / w.beds AS x FROM (SELECT ward, COUNT(*) AS n FROM visits "
    "GROUP BY ward) s JOIN wards w ON w.ward = s.ward AND w.beds > 0": "DuckDB wants an alias before its use",
}
#: Which part of the corpus each database is asked.
ASKED = {"many": ACCEPTED, "odd": WRITTEN + GENERATED[::3], "one": WRITTEN[::2], "empty": WRITTEN[1::2]}
#: No value of the databases is larger than this.
WIDE = Fraction(2**22)
#: The most rows that a visit becomes in any join of the corpus.
FAN_OUT = 5
RANKS = ("min", "max", "quantile")
MOMENTS = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")


class Clinic:
    """One database, behind Tacit's engine and behind plain DuckDB."""

    def __init__(self, name: str) -> None:
        frames = arrow(BOUNDED[name])
        self.plain = plain_connection(frames)
        sources = {table: DataSource("frame", None, frame) for table, frame in frames.items()}
        self.engine = DuckDBEngine(CATALOG, sources, Limits(threads=1))
        self.rows = FAN_OUT * max(1, len(BOUNDED[name]["visits"]))

    def close(self) -> None:
        self.engine.close()
        self.plain.close()

    def measure(self, plan: Plan) -> Measurements:
        return self.engine.measure(MeasurementTask(plan.final, b"an owner's secret"))

    def bounded(self, plan: Plan) -> Plan:
        """The plan with AUTO bounds that hold every value; a search reads one value of each unit and may miss some."""
        if plan.first is None:
            return plan
        return with_bounds(plan, [(-WIDE, WIDE)] * len(sought(plan.final)))

    def difference(self, sql: str, spoil: int = 0) -> str | None:
        """Faults of our answer to a query, if any; ``spoil`` is added to every measurement."""
        asked = planned(sql)

        def exact(_: int, part: Plan) -> NoisyRelease:
            found = self.bounded(part)
            return without_noise(found, spoiled(self.measure(found), spoil))

        released = in_turn(asked, exact)
        plan = released.plan
        public = [self.engine.rows(relation, most=1000) for relation in plan.query.reads]
        ours = finish(plan.query, released, confidence="0.95", public=public).values
        width = len(plan.query.columns)
        theirs = [flattened(row, width) for row in self.plain.execute(plain_sql(sql, plan.final)).fetchall()]
        return compare(plan.query, ours, theirs, self.rows)


def planned(sql: str) -> Plan:
    priced = any(f"{word} =" in sql or f"{word}=" in sql for word in ("epsilon", "rho", "within"))
    return make_plan(sql, CATALOG, Request(epsilon=None if priced else "1", account=Account("zcdp", "1e-6")))


def spoiled(measured: Measurements, by: int) -> Measurements:
    return replace(measured, raw=tuple(_more(array, by) for array in measured.raw)) if by else measured


def _more(array: NDArray[Any], by: int) -> NDArray[Any]:
    """Every count a little larger; of places, those that occur and the first of all."""
    if array.dtype != object or not len(array) or not isinstance(array[0], np.ndarray):
        return array + by
    changed = np.empty(len(array), dtype=object)
    for group, pairs in enumerate(array):
        changed[group] = tuple(sorted({0: by, **{place: count + by for place, count in pairs.tolist()}}.items()))
    return changed


def flattened(row: Sequence[Any], width: int) -> tuple[Any, ...]:
    """Lists of quantiles and of the most common values are columns of their own, NULL where there are fewer."""
    cells = tuple(cell for part in row for cell in (part if isinstance(part, list) else [part]))
    return cells + (None,) * (width - len(cells))


def compare(query: Query, ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]], rows: int) -> str | None:
    if len(ours) != len(theirs):
        return f"{len(ours)} rows instead of {len(theirs)}"
    if not any(isinstance(step, Sort) for step in query.steps[2 * keys_are_ordered(query) :]):
        ours, theirs = arranged(query, ours), arranged(query, theirs)
    slack = [slack_of(query, i, rows) for i in range(len(query.columns))]
    sums = [is_sum(query, i) for i in range(len(query.columns))]
    for mine, other in zip(ours, theirs, strict=True):
        if len(mine) != len(other):
            return f"{len(mine)} columns instead of {len(other)}"
        for i, column in enumerate(query.columns):
            if not agree(mine[i], other[i], column.type, slack[i], sums[i]):
                return f"{column.name}: {mine[i]!r} instead of {other[i]!r}, in {mine}"
    return None


def keys_are_ordered(query: Query) -> bool:
    """Whether the first two steps restore the order in which keys were written; plain SQL has no such order."""
    first = query.steps[:2]
    if [type(step) for step in first] != [Derive, Sort] or not isinstance(first[0], Derive):
        return False
    slots = [part.slot if isinstance(part, Reference) else -1 for part in first[0].expressions]
    return sorted(slots) == list(range(len(query.final.types))) != slots


def arranged(query: Query, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Sorted by the columns without noise, then by the others as far as rounding goes."""
    exact = [i for i, column in enumerate(query.columns) if not column.noisy]
    other = [i for i, column in enumerate(query.columns) if column.noisy]
    return sorted(rows, key=lambda row: ([place(row[i]) for i in exact], [place(row[i], 3) for i in other]))


def place(cell: Any, digits: int = 12) -> tuple[bool, float, str]:
    if isinstance(cell, (int, float, Fraction, Decimal)):
        return (False, float(f"{float(cell):.{digits}g}"), "")
    return (cell is None, 0.0, str(moment(cell)))


def agree(mine: Any, other: Any, kind: SqlType, slack: Fraction, is_total: bool) -> bool:
    if other is None or (isinstance(other, float) and math.isnan(other)):
        return mine is None or (is_total and mine == 0)
    if mine is None:
        return False
    if kind.is_temporal:
        return abs(ordinal(moment(mine), kind) - ordinal(moment(other), kind)) <= slack
    if not kind.is_numeric:
        return bool(mine == other)
    exact = Fraction(other)
    if kind.kind is Kind.DOUBLE:
        slack += abs(exact) / 10**9 + Fraction(1, 10**12)
    return abs(Fraction(mine) - exact) <= slack


def moment(cell: Any) -> Any:
    """Dates as the moments they start at; DATE_TRUNC of a DATE is one or the other."""
    is_day = isinstance(cell, dt.date) and not isinstance(cell, dt.datetime)
    return dt.datetime.combine(cell, dt.time()) if is_day else cell


def slack_of(query: Query, column: int, rows: int) -> Fraction:
    """Distance by which a column may be off because values were rounded to a grid."""
    final = query.final
    parts = [part_slack(final, final.aggregates[index], rows) for index in aggregates_of(query, column)]
    kind = query.columns[column].type
    # Days and microseconds are rounded to; places of a DATE are compared as moments.
    unit = Fraction(86_400_000_000) if kind == DATE else Fraction(1)
    return sum(parts, Fraction(0)) * unit


def part_slack(final: FinalAggregation, aggregate: Aggregate, rows: int) -> Fraction:
    measure = final.measures[aggregate.measures[-1]]
    half = measure.step / 2
    if aggregate.kind in RANKS:
        return (measure.leaf + 1) * half
    if measure.argument is None or measure.argument.type.kind is not Kind.DOUBLE:
        return Fraction(0)
    if aggregate.kind == "sum":
        return rows * half
    if aggregate.kind == "geometric_mean" and aggregate.bounds is not None:
        return half * aggregate.bounds[1]
    width = (measure.high - measure.low) * measure.step
    return 4 * half * max(width, Fraction(1)) if aggregate.kind in MOMENTS else half


def aggregates_of(query: Query, column: int) -> set[int]:
    """The aggregates that a column of the answer reads; all of them where cells were aggregated or joined once more."""
    keys, count = len(query.final.keys), len(query.final.aggregates)
    if query.totals is not None:
        keys *= 2
    slots = {column}
    for step in reversed(query.steps):
        if isinstance(step, Extend | Match | Regroup | Combine | Append):
            return set(range(count))
        if isinstance(step, Derive):
            slots = {ref.slot for slot in slots for ref in references(step.expressions[slot])}
    return {slot - keys for slot in slots if slot >= keys}


def is_sum(query: Query, column: int) -> bool:
    """Whether a column is a sum or a count itself, and so never NULL."""
    derived = [step for step in query.steps if isinstance(step, Derive)]
    plain = not derived or isinstance(derived[-1].expressions[column], Reference)
    kinds = {query.final.aggregates[index].kind for index in aggregates_of(query, column)}
    return plain and kinds <= {"sum", "sum_distinct", "count_rows"} and bool(kinds)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", ASKED)
def test_answers_without_noise_are_those_of_plain_duckdb(name: str, every: int) -> None:
    clinic = Clinic(name)
    asked = list(dict.fromkeys(ASKED[name]))[::every]
    wrong = {sql: clinic.difference(sql) for sql in asked if sql not in BIAS}
    clinic.close()
    assert {sql: problem for sql, problem in wrong.items() if problem} == {}


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.deep)])
def test_functions_and_structures_beyond_the_corpus(every: int) -> None:
    clinic = Clinic("odd")
    wrong = {sql: clinic.difference(sql) for sql in (BY_VALUE + STRUCTURES)[::every]}
    clinic.close()
    assert len(wrong) >= 180 // every
    assert {sql: problem for sql, problem in wrong.items() if problem} == {}


def test_queries_as_analysts_combine_them() -> None:
    clinic = Clinic("many")
    # DuckDB has no WIDTH_BUCKET.
    wrong = {sql: clinic.difference(sql) for sql in ANALYSTS[::9] if "WIDTH_BUCKET" not in sql}
    clinic.close()
    assert {sql: problem for sql, problem in wrong.items() if problem} == {}


@pytest.mark.parametrize("name", ["many", "odd"])
def test_queries_with_several_parts(name: str) -> None:
    clinic = Clinic(name)
    wrong = {sql: clinic.difference(sql) for sql in SEVERAL + VALUED}
    unseen = [sql for sql in SEVERAL if clinic.difference(sql, spoil=1) is None] if name == "many" else []
    clinic.close()
    assert {sql: problem for sql, problem in wrong.items() if problem} == {}
    assert len(unseen) <= len(SEVERAL) // 3, "differences of two counts are off by nothing"


def test_next_to_nothing_is_bias() -> None:
    assert set(BIAS) <= set(ACCEPTED)
    assert len(BIAS) == 2
    assert len(ASKED["many"]) == len(ACCEPTED) >= 450


def test_the_comparison_sees_an_engine_that_is_off_by_one() -> None:
    """Every measurement one too large: nearly all answers differ; constants and most common values need not."""
    clinic = Clinic("many")
    asked = [sql for sql in ACCEPTED[::9] if sql not in BIAS]
    unseen = [sql for sql in asked if clinic.difference(sql, spoil=1) is None]
    clinic.close()
    assert len(unseen) <= len(asked) // 5, unseen


def test_plain_duckdb_is_really_another_way() -> None:
    """The respelled text goes to tables that Tacit never sees, and mistakes in it are DuckDB's to report."""
    clinic = Clinic("one")
    with pytest.raises(duckdb.Error):
        clinic.plain.execute(plain_sql("SELECT NO_SUCH(cost) FROM visits", planned(WRITTEN[0]).final))
    clinic.close()
