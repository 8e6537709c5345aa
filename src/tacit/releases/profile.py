"""Profiles: what a table holds that nobody has described, as a set of ordinary queries under one charge.

1. Numbers of rows and people, and ``max_rows`` where AUTO is to find it.
2. For a TEXT column without categories: numbers of NULLs, integers, other numbers, dates, timestamps and other texts.
3. For each column, by its type: magnitude and mean of numbers and dates, with quartiles where their rank error, for the
   noisy number of rows, is at most an eighth of all rows; or counts of its values.

*Privacy.* Each query has a fixed share of the total, so that the charge is known before data is read. The query that a
share is spent on depends on released numbers alone: adaptive composition of ε, ρ and μ² at fixed amounts. An unused
share is not refunded.
"""

# ruff: noqa: S608 - queries to Tacit's own planner, from declared names in quotes
from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import Field

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.core.canonical import canonical
from tacit.core.charts import altair, offline
from tacit.core.errors import InputError, InternalError
from tacit.core.text_files import table_bytes
from tacit.engines.files import CsvFormat
from tacit.ledger import Outcome, Reservation
from tacit.mechanisms.base import per_output_beta
from tacit.project.project_template import Draft, DraftColumn, DraftTable, project_text
from tacit.query.catalog import Column, Table
from tacit.query.contribution import ContributionNumber
from tacit.query.planning.auto_bounds import FALSE_CELL
from tacit.query.planning.plan import Plan, outline, plan_query
from tacit.query.planning.pricing import root_down
from tacit.query.request import OPTIONS, Account, Request, Terms
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, TEXT, Kind
from tacit.releases.accounts import Entry, typed_epsilon
from tacit.releases.answer import to_arrow
from tacit.releases.api_types import Amount, Count, RequestModel, ResponseModel, Text, maybe
from tacit.releases.payment import Caller, ReleaseTimer, hide_internal_errors, paid_at, pay_release
from tacit.releases.query import QueryContext, ReadAnswer, read_back, run
from tacit.releases.receipt import Receipt, about_plan
from tacit.releases.release import TABLE_FORMS, Files, ReleaseKind
from tacit.releases.release_format import released_to_text
from tacit.synth.count_measurement import count_price, settled, value_delta

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT: Final = "tacit-profile"
_LABEL: Final = "profile of "
_HEEDED: Final = ("epsilon", "delta", "rho", "mu", "confidence", "suppose")
_MOST_COLUMNS: Final = 100
#: Default number of rows for which errors are stated.
_SUPPOSED: Final = 1000
#: Day 0 of dates as numbers: near the dates that tables hold, so that powers of two are fine steps.
_DAY: Final = dt.date(2000, 1, 1)
#: Weight of a search for bounds: a wrong magnitude costs more than a coarse mean.
_SEARCH: Final = 3
#: A TEXT column holds numbers or dates if this share of its values can be read so.
_MOST_OF: Final = 0.8
#: Bounds where the search found no cell whose count exceeds the noise.
_NOTHING: Final = (Fraction(-1), Fraction(1))
#: Useful errors: of a share 1/10, of a mean 1/10 of its bound, of a quartile 1/8 in rank.
_SHARE, _MEAN, _RANK = Fraction(1, 10), Fraction(1, 10), Fraction(1, 8)


class Estimate(NamedTuple):
    """A number with its interval; both ends are None where there is no interval."""

    value: Any
    low: Any = None
    high: Any = None

    def __str__(self) -> str:
        ends = "" if self.low is None else f" ({_shown(self.low)} to {_shown(self.high)})"
        return f"{_shown(self.value)}{ends}"


@dataclass(frozen=True)
class ColumnProfile:
    """Private statistics of one column.

    Args:
        name: name of the column.
        holds: ``"integer"``, ``"double"``, ``"date"``, ``"timestamp"``, ``"boolean"`` or ``"text"``: the declared type
            or, for an undeclared TEXT column, the type that most values can be cast to.
        nulls: share of NULLs.
        bounds: powers of two between which values lie, or the declared bounds; dates for dates.
        mean: mean of the values clamped to the bounds.
        quartiles: three estimates, or empty where they were not worth their cost.
        values: the values found, the most frequent first, each with its number of rows.
        known: whether bounds or values were declared, and not found here.
    """

    name: str
    holds: str
    nulls: Estimate
    bounds: tuple[Any, Any] | None = None
    mean: Estimate | None = None
    quartiles: tuple[Estimate, ...] = ()
    values: tuple[tuple[Any, Estimate], ...] = ()
    known: bool = False

    @property
    def missing(self) -> str:
        """Reason why there are no bounds; empty for columns that need none."""
        return "" if self.holds in ("text", "boolean") or self.values else "too few people to tell"

    def plot(self) -> Any:
        """Return an Altair chart: bars of the values found, or bounds, quartiles and mean on one line."""
        alt = altair()
        if self.values:
            rows = [{"value": str(v), "rows": c.value, "low": c.low, "high": c.high} for v, c in self.values]
            base = alt.Chart(alt.Data(values=rows), title=self.name).encode(y=alt.Y("value:N", sort=None, title=None))
            bars = base.mark_bar().encode(x=alt.X("rows:Q", title="rows"))
            return offline(bars + base.mark_rule().encode(x="low:Q", x2="high:Q"))
        marks = [("bounds", *(self.bounds or (0, 0))), *_between(self.quartiles)]
        if self.mean is not None:
            marks.append(("mean", self.mean.low, self.mean.high))
        kind = "T" if self.holds in ("date", "timestamp") else "Q"
        rows = [{"what": what, "low": _plain(low), "high": _plain(high)} for what, low, high in marks]
        chart = alt.Chart(alt.Data(values=rows), title=self.name).mark_bar(height=8).encode(
            x=alt.X(f"low:{kind}", title=None), x2="high", y=alt.Y("what:N", sort=None, title=None)
        )  # fmt: skip
        return offline(chart)


def _between(quartiles: Sequence[Estimate]) -> list[tuple[str, Any, Any]]:
    return [("middle half", quartiles[0].value, quartiles[2].value)] if quartiles else []


@dataclass(frozen=True)
class Profile:
    """Private statistics of a table and its columns.

    Args:
        table: name of the table.
        rows: number of rows.
        people: number of people, or None where every row is a person.
        columns: profiles of the columns, without that of the unit.
        max_rows: ``max_rows`` as found by AUTO, or as declared.
        unit: name of the column of the unit; None where the unit is reached through another table.
        described: the table as declared.
        population: population whose account was charged.
        confidence: confidence of the intervals.
        charge: ledger entry of the charge.
        receipt: receipt of the charge.
    """

    table: str
    rows: Estimate
    people: Estimate | None
    columns: tuple[ColumnProfile, ...]
    max_rows: ContributionNumber
    unit: str | None
    population: str
    confidence: Fraction
    charge: Entry = field(repr=False)
    receipt: Receipt = field(repr=False)
    described: Table = field(repr=False)

    def column(self, name: str) -> ColumnProfile:
        for each in self.columns:
            if each.name == name:
                return each
        raise InputError("name", f"must be one of {', '.join(each.name for each in self.columns)}")

    def lines(self) -> list[tuple[str, str, str, str, str, str, str]]:
        """Column, type, share of NULLs, bounds, mean, quartiles and values of each column, as text."""
        return [
            (
                each.name,
                each.holds,
                _percents(each.nulls),
                f"{_shown(each.bounds[0])} to {_shown(each.bounds[1])}" if each.bounds else each.missing,
                "" if each.mean is None else str(each.mean),
                ", ".join(_shown(quartile.value) for quartile in each.quartiles),
                ", ".join(f"{value} {_shown(count.value)}" for value, count in each.values[:6])
                + (f" and {len(each.values) - 6} more" if len(each.values) > 6 else ""),
            )
            for each in self.columns
        ]

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with one row per column; bounds, means and quartiles are text, NULL shares numbers."""
        names = ["column", "type", "nulls", "nulls_low", "nulls_high", "lowest", "highest", "mean", "mean_low",
                 "mean_high", "q1", "median", "q3", "values"]  # fmt: skip
        kinds = [TEXT, TEXT, DOUBLE, DOUBLE, DOUBLE, *[TEXT] * 9]
        rows = []
        for each in self.columns:
            mean = each.mean or Estimate(None)
            middle = [quartile.value for quartile in each.quartiles] or [None] * 3
            found = json.dumps({str(v): count.value for v, count in each.values}, ensure_ascii=False)
            told = [*(each.bounds or (None, None)), *mean, *middle]
            rows.append([each.name, each.holds, *each.nulls, *(None if t is None else _exact(t) for t in told), found])
        return to_arrow(names, kinds, rows)

    def draft(self, source: str = "?", *, name: str = "project") -> str:
        """Return the text of a project file with the bounds and categories found; the owner fills in each ``"?"``."""
        return draft_text(self, source, name, CsvFormat())

    def __str__(self) -> str:
        sure = f"{float(100 * self.confidence):g}% intervals over the noise"
        people = "" if self.people is None else f", {self.people} people"
        heads = ("column", "type", "NULL", "between", "mean", "quartiles", "values")
        table = [heads, *self.lines()]
        widths = [min(max(len(row[i]) for row in table), 44) for i in range(len(heads))]
        shown = ["  ".join(f"{text:<{w}}" for text, w in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join([f"{self.table}: {self.rows} rows{people}", *shown, f"{self.charge.text}. {sure}."])


def draft_text(found: Profile, source: str, name: str, form: CsvFormat) -> str:
    """Return the draft of a project file, with the source of the table and the format of its CSV files."""
    known = {column.name: column.type for column in found.described.columns}
    stored = {column.name: column.stored for column in found.described.columns}
    columns = []
    if found.unit in known:
        columns.append(DraftColumn(str(found.unit), known[str(found.unit)].kind.value, source=stored[str(found.unit)]))
    for each in found.columns:
        bounds = None if each.bounds is None else (_exact(each.bounds[0]), _exact(each.bounds[1]))
        values = tuple(str(v) for v, _ in each.values if v is not None) if each.holds == "text" else ()
        step = str(Decimal(1).scaleb(-known[each.name].scale)) if each.holds == "decimal" else None
        columns.append(
            DraftColumn(
                each.name,
                each.holds,
                step,
                bounds=bounds,
                categories=values or None,
                source=stored[each.name],
                date_format=form.date_formats.get((stored[each.name] or each.name).lower()),
            )
        )
    table = DraftTable(
        found.table, source, tuple(columns), unit=found.unit, max_groups=found.described.max_groups,
        max_rows=found.max_rows, form=form,
    )  # fmt: skip
    note = f"# Bounds and categories were found privately: release {found.receipt.position}, {found.charge.text}.\n"
    return note + project_text(Draft(name, (table,), found.population))


def _percents(share: Estimate) -> str:
    if share.value is None:
        return ""
    low, value, high = (min(max(100 * x, 0), 100) for x in (share.low, share.value, share.high))
    return f"{value:.0f}% ({low:.0f} to {high:.0f})"


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return str(value)
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 1000 or number == int(number) else f"{number:.4g}"


def _exact(value: Any) -> str:
    if isinstance(value, Fraction | float):
        return str(int(value)) if value == int(value) else repr(float(value))
    return str(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, dt.date) else None if value is None else float(value)


# Cost -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Priced:
    """A table with the total cost of its profile, divided among queries."""

    context: QueryContext
    table: Table
    columns: tuple[Column, ...]
    terms: Terms
    currency: str
    amount: Fraction
    delta: Fraction
    guarantee: AccountGuarantee

    @property
    def population(self) -> str:
        return self.table.population or ""

    @property
    def typed(self) -> str:
        """The epsilon of the request, where the account counts another unit; else empty."""
        relaxed = currency_of(self.guarantee).relaxed and self.terms.currency == "epsilon"
        return f"epsilon {float(self.terms.amount):.6g}" if relaxed else ""

    def plan(self, sql: str, share: Fraction, rows: int | None = None, *, total: bool = False) -> Plan:
        """Plan a query at its share of the cost.

        Args:
            sql: the query.
            share: share of the query, in units of 1 / (1 + 2 · number of columns) of the total.
            rows: ``max_rows`` found by the first query; None where it is declared.
            total: whether ``rows`` bounds the rows of a unit in all groups together.
        """
        catalog = self.context.measured_catalog
        # One share counts rows and people; each column has two shares of the same size.
        amount = self.amount * share / (1 + 2 * len(self.columns))
        private = sum(_is_open_text(each) for each in self.columns) or 1
        delta = self.delta / private or None
        kind = {"epsilon": "pure", "rho": "zcdp", "mu2": "gdp"}[self.currency]
        options: dict[str, Any] = {
            **({"mu": root_down(amount)} if kind == "gdp" else {self.currency: amount}),
            "weights": {"bounds": _SEARCH},
            "confidence": self.terms.confidence,
            "suppose": self.terms.suppose or _SUPPOSED,
            "delta": delta if kind == "zcdp" else None,
            "max_rows_total" if total else "max_rows": rows,
        }
        request = Request(**options, account=Account(kind, options["delta"]))
        query = resolve(sql, catalog, max_rows=request.stated_rows)
        population = catalog.population(query.final.population)
        plan = plan_query(query, population.relation, request, catalog=catalog.digest)
        for final, table in plan.measured:
            self.context.engine.check(final)
            if table is not None:
                self.context.engine.check_bias(final, table)
        return plan


def _price(context: QueryContext, source: str, options: Mapping[str, Any]) -> _Priced:
    table = next((each for each in context.catalog.tables if each.name.lower() == source.strip().lower()), None)
    if table is None or table.public:
        names = ", ".join(each.name for each in context.catalog.tables if not each.public)
        raise InputError("source", f"must be the name of a protected table: {names}")
    columns = tuple(each for each in table.columns if each.name != table.unit)
    if not 0 < len(columns) <= _MOST_COLUMNS:
        raise InputError("source", f"a profile is of 1 to {_MOST_COLUMNS} columns; this table has {len(columns)}")
    name = table.population or ""
    relation, terms = context.catalog.population(name).relation, settled(context, name, options, _HEEDED)
    own = value_delta(terms) if any(map(_is_open_text, columns)) else Fraction(0)
    amount, noise, guarantee = count_price(terms, relation, own)
    return _Priced(context, table, columns, terms, noise.name, amount, own, guarantee)


# Queries --------------------------------------------------------------------------------------------------------------


def _is_open_text(column: Column) -> bool:
    """Return whether a column is TEXT without declared categories."""
    return column.type.kind is Kind.TEXT and column.categories is None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as(column: str, holds: str) -> str:
    """Return SQL that casts a TEXT column to the type of most of its values."""
    kinds = {"integer": "DOUBLE", "double": "DOUBLE", "date": "DATE", "timestamp": "TIMESTAMP"}
    return f"TRY_CAST({column} AS {kinds[holds]})"


def _counts_sql(table: Table) -> str:
    people = f", COUNT(DISTINCT {_quoted(table.unit)}) AS people" if table.unit not in (None, "row") else ""
    return f"SELECT COUNT(*) AS n{people} FROM {_quoted(table.name)}"


def _nulls_sql(table: Table, column: Column) -> str:
    return f"SELECT 1.0 * COUNT_IF({_quoted(column.name)} IS NULL) / COUNT(*) AS nulls FROM {_quoted(table.name)}"


def _kinds_sql(table: Table, column: Column) -> str:
    """Return the query that counts texts by the type they can be cast to, each once."""
    name = _quoted(column.name)
    number = _as(name, "double")
    return (
        f"SELECT CASE WHEN {name} IS NULL THEN 'null' WHEN {number} = FLOOR({number}) THEN 'integer' "
        f"WHEN {number} IS NOT NULL THEN 'double' WHEN {_as(name, 'date')} IS NOT NULL THEN 'date' "
        f"WHEN {_as(name, 'timestamp')} IS NOT NULL THEN 'timestamp' ELSE 'text' END AS holds, COUNT(*) AS n "
        f"FROM {_quoted(table.name)} GROUP BY holds"
    )


def _values_sql(table: Table, column: Column) -> str:
    name = _quoted(column.name)
    return f"SELECT {name}, COUNT(*) AS n FROM {_quoted(table.name)} GROUP BY {name} ORDER BY n DESC"


def _numbers_sql(table: Table, column: Column, holds: str, *, quartiles: bool) -> str:
    """Return the query for the share of NULLs (of typed columns), the mean and optionally the quartiles of a column."""
    name = _quoted(column.name)
    nulls = "" if _is_open_text(column) else f"1.0 * COUNT_IF({name} IS NULL) / COUNT(*) AS nulls, "
    value = _as(name, holds) if _is_open_text(column) else name
    if holds in ("date", "timestamp"):
        value = f"DATE_DIFF('day', DATE '{_DAY}', {value})"
    if column.bounds is None:
        value = f"CLAMP({value}, AUTO)"
    asked = [f"AVG({value}) AS mean"]
    if quartiles:
        asked += [f"QUANTILE_CONT({value}, {part}) AS q{n}" for n, part in enumerate(("0.25", "0.5", "0.75"), 1)]
    return f"SELECT {nulls}{', '.join(asked)} FROM {_quoted(table.name)}"


# Errors ---------------------------------------------------------------------------------------------------------------


class Worth(NamedTuple):
    """Number of rows (or of people, for private selections) from which a part of a profile is worth its cost."""

    column: str
    part: str
    least: int
    unit: str


@dataclass(frozen=True)
class ProfileQuote:
    """Parts of a profile with the numbers of rows from which they are worth their cost; ``str`` for people."""

    table: str
    parts: tuple[Worth, ...]
    guarantee: AccountGuarantee
    supposed: int | None

    typed: str = ""

    @property
    def charge(self) -> str:
        currency = currency_of(self.guarantee)
        counted = currency.text(currency.amounts_of(self.guarantee))
        return f"{self.typed} ({counted})" if self.typed else counted

    def __str__(self) -> str:
        lines = [f"profile of {self.table}: how much data each part needs, while one row of a person counts"]
        for column in dict.fromkeys(each.column for each in self.parts):
            own = [each for each in self.parts if each.column == column]
            lines.append(f"  {column}: {'; '.join(f'{each.part} {each.least:,} {each.unit}' for each in own)}")
            small = [each.part for each in own if self.supposed is not None and self.supposed < each.least]
            lines += [f"    not worth it at {self.supposed:,}: {', '.join(small)}"] if small else []
        return "\n".join(
            [*lines, "quartiles are asked if the noisy number of rows is enough", f"charge: {self.charge}"]
        )


def _parts(priced: _Priced) -> Iterator[Worth]:
    """Yield the parts of all columns with the worst case of each; all variants are planned: none is refused later."""
    two = Fraction(2)
    for column in priced.columns:
        name, is_open = column.name, _is_open_text(column)
        if is_open or column.categories is not None or column.type.kind is Kind.BOOLEAN:
            first = _kinds_sql(priced.table, column) if is_open else _nulls_sql(priced.table, column)
            error = max(_errors(priced.plan(first, Fraction(1)), "value"))
            yield Worth(name, "share of NULLs" + (" and type" if is_open else ""), _up(error / _SHARE), "rows")
            if not is_open or priced.delta:
                plan = priced.plan(_values_sql(priced.table, column), Fraction(1))
                if plan.keys is not None:
                    least = Fraction(plan.keys.mechanism().error(1 - plan.terms.confidence))
                    yield Worth(name, "a value", _up(least), "people who have it")
                else:
                    yield Worth(name, "counts of values", _up(max(_errors(plan, "value")) / _SHARE), "rows")
        if column.type.kind in (Kind.BOOLEAN,) or column.categories is not None:
            continue
        share, holds = (Fraction(1), "double") if is_open else (two, str(column.type.kind.value))
        plan = priced.plan(_numbers_sql(priced.table, column, holds, quartiles=False), share)
        if not is_open:
            yield Worth(name, "share of NULLs", _up(max(_errors(plan, "value", "count")) / _SHARE), "rows")
        if column.bounds is None:
            yield Worth(name, "order of magnitude", _cells(plan), "people with values of one size")
        yield Worth(name, "mean within a tenth of its bound", _mean_rows(plan, column), "rows")
        plan = priced.plan(_numbers_sql(priced.table, column, holds, quartiles=True), share)
        yield Worth(name, "quartiles", _up(_rank(plan) / _RANK), "rows")
        if is_open:
            priced.plan(_numbers_sql(priced.table, column, "timestamp", quartiles=True), share)


def _up(number: Fraction) -> int:
    """Round up to two significant digits; at least 1."""
    whole = max(-(-number.numerator // number.denominator), 1)
    unit: int = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // unit) * unit


def _errors(plan: Plan, kind: str, label: str = "") -> list[Fraction]:
    found = [e.bound for e in plan.errors if e.bound is not None and e.kind == kind and e.label.startswith(label)]
    return found or [Fraction(10**9)]


def _rank(plan: Plan) -> Fraction:
    return max(_errors(plan, "rank"))


def _cells(plan: Plan) -> int:
    """Return the number of people with which one cell of the search for bounds exceeds the noise of all empty cells."""
    for search in plan.searches:
        measure = search.final.measures[0]
        if search.priced is plan.priced.first:
            law = search.priced.release_of[0].law(0)
            return _up(2 * Fraction(law.error(2 * per_output_beta(FALSE_CELL, measure.width))))
    return 1


def _mean_rows(plan: Plan, column: Column) -> int:
    """Return the number of rows from which the error of a mean is at most a tenth of its bound."""
    found = next((e for e in plan.errors if e.label.startswith("avg")), None)
    if found is None or found.bound is None:
        return 10**9
    span = Fraction(1)
    if column.bounds is not None:
        low, high = (Fraction(_plain_day(end)) for end in column.bounds)
        span = max(high - low, Fraction(1, 10**9))
    return _up(found.bound / span * (found.supposing or _SUPPOSED) / _MEAN)


def _plain_day(value: Any) -> Any:
    return (dt.date(value.year, value.month, value.day) - _DAY).days if isinstance(value, dt.date) else value


# Life -----------------------------------------------------------------------------------------------------------------

#: Function that answers a query of a profile: it runs the query, or reads its answer from the ledger.
_Ask = Callable[[str, Plan], ReadAnswer]


def _walk(priced: _Priced, ask: _Ask) -> tuple[Estimate, Estimate | None, list[ColumnProfile], int | None]:
    """Ask all queries of a profile in turn; the releases so far decide the next query."""
    table = priced.table

    def asked(sql: str, share: int, *, total: bool = False) -> ReadAnswer:
        return ask(sql, priced.plan(sql, Fraction(share), limit, total=total))

    limit: int | None = None
    first = asked(_counts_sql(table), 1)
    if first.plan.limits is not None:
        limit = first.plan.limits.rows
    rows, *people = _cells_of(first)[0]
    columns = []
    for column in priced.columns:
        holds, shares = str(column.type.kind.value), 2
        found = ColumnProfile(column.name, holds, Estimate(None), known=column.bounds is not None)
        if _is_open_text(column):
            counts = {each[0].value: each[1] for each in _cells_of(asked(_kinds_sql(table, column), 1, total=True))}
            holds, shares = _kind_of(counts), 1
            found = ColumnProfile(column.name, holds, _share_of(counts["null"], rows), known=False)
        if holds == "boolean" or column.categories is not None:
            (nulls,) = _cells_of(asked(_nulls_sql(table, column), 1))
            found = ColumnProfile(column.name, holds, nulls[0], values=_values(asked, table, column), known=True)
        elif holds == "text":
            if priced.delta:
                found = ColumnProfile(column.name, holds, found.nulls, values=_values(asked, table, column))
        else:
            found = _numbers(priced, asked, column, found, shares, rows, limit)
        columns.append(found)
    return rows, people[0] if people else None, columns, limit


def _values(asked: Callable[..., ReadAnswer], table: Table, column: Column) -> tuple[tuple[Any, Estimate], ...]:
    return tuple((each[0].value, each[1]) for each in _cells_of(asked(_values_sql(table, column), 1, total=True)))


def _numbers(
    priced: _Priced, asked: Callable[..., ReadAnswer], column: Column, found: ColumnProfile, shares: int,
    rows: Estimate, limit: int | None,
) -> ColumnProfile:  # fmt: skip
    holds, table = found.holds, priced.table
    with_quartiles = _numbers_sql(table, column, holds, quartiles=True)
    is_worth = _rank(priced.plan(with_quartiles, Fraction(shares), limit)) <= _RANK * Fraction(rows.value)
    read = asked(with_quartiles if is_worth else _numbers_sql(table, column, holds, quartiles=False), shares)
    cells = list(_cells_of(read)[0])
    nulls = found.nulls if _is_open_text(column) else cells.pop(0)
    bounds: tuple[Any, Any] | None = column.bounds
    is_day = holds in ("date", "timestamp")
    if bounds is None:
        bounds = read.plan.found[0].low, read.plan.found[0].high
        if bounds == _NOTHING:
            return ColumnProfile(column.name, holds, nulls)
        if is_day:
            bounds = _day(bounds[0]), _day(bounds[1])
    if is_day:
        cells = [Estimate(*(None if end is None else _day(end) for end in cell)) for cell in cells]
    mean, *quartiles = cells
    return ColumnProfile(column.name, holds, nulls, bounds, mean, tuple(quartiles), known=column.bounds is not None)


def _day(days: Any) -> dt.date:
    return _DAY + dt.timedelta(days=min(max(round(days), -700_000), 2_900_000))


def _cells_of(read: ReadAnswer) -> list[tuple[Estimate, ...]]:
    finished, rows = read.finished, []
    for row, ends in zip(read.finished.values, read.finished.intervals(), strict=True):
        cells = zip(row, ends, finished.has_interval, strict=True)
        rows.append(tuple(Estimate(value, *pair) if known else Estimate(value) for value, pair, known in cells))
    return rows


def _kind_of(counts: Mapping[Any, Estimate]) -> str:
    """Return the type that most values of a TEXT column can be cast to."""
    n = {name: max(float(each.value), 0.0) for name, each in counts.items()}
    filled = sum(n.values()) - n["null"]
    numbers, days = n["integer"] + n["double"], n["date"] + n["timestamp"]
    if numbers > _MOST_OF * filled:
        return "integer" if n["integer"] > _MOST_OF * numbers + (1 - _MOST_OF) * n["double"] else "double"
    return ("date" if n["date"] >= n["timestamp"] else "timestamp") if days > _MOST_OF * filled else "text"


def _share_of(count: Estimate, rows: Estimate) -> Estimate:
    total = max(float(rows.value), 1.0)
    return Estimate(*(min(max(float(each) / total, 0.0), 1.0) for each in count))


def quote_profile(context: QueryContext, source: str, options: Mapping[str, Any]) -> ProfileQuote:
    """Return the number of rows from which each part is worth its cost. Free; reads no data."""
    with hide_internal_errors():
        priced = _price(context, source, options)
        parts = tuple(_parts(priced))
        return ProfileQuote(priced.table.name, parts, priced.guarantee, priced.terms.suppose, priced.typed)


def make_profile(context: QueryContext, source: str, options: Mapping[str, Any], caller: Caller) -> Profile:
    """Charge for a profile and make it; see :meth:`tacit.curator.curator.Curator.profile`."""
    with hide_internal_errors():
        priced = _price(context, source, options)
        for _ in _parts(priced):
            pass
        first = priced.plan(_counts_sql(priced.table), Fraction(1))
        label = f"{_LABEL}{priced.table.name}"
        told = {"source": priced.table.name, "options": Request.of("", options).stated}
        version = context.version([priced.table.name])

        def made(_: Reservation) -> list[tuple[str, str, Plan]]:
            done: list[tuple[str, str, Plan]] = []

            def ask(sql: str, plan: Plan) -> ReadAnswer:
                released = run(context, plan)
                text = released_to_text(released)
                done.append((sql, text, released.plan))
                return read_back(plan, text.encode())

            _walk(priced, ask)
            return done

        def answers(done: list[tuple[str, str, Plan]] | None, digest: str) -> list[dict[str, Any]]:
            return [
                about_plan(outline(plan), plan, sql, released=digest, name=f"{number} of {label}")
                for number, (sql, _, plan) in enumerate(done or [(_counts_sql(priced.table), "", first)], 1)
            ]

        paid, entry = pay_release(
            context, caller, made, _to_text, answers, population=priced.population, guarantee=priced.guarantee,
            unit=outline(first).unit, label=label, plan=first.digest, quote={"profile": told, **typed_epsilon(options)},
            request=[label, first.digest],
            repeat=[_FORMAT, first.digest, repr(priced.guarantee), context.catalog.digest, repr(version)],
        )  # fmt: skip
        return _read(priced, paid.outcome, entry)


def _to_text(done: Sequence[tuple[str, str, Plan]]) -> str:
    return canonical({"format": _FORMAT, "version": 1, "queries": [[sql, text] for sql, text, _ in done]})


def _read(priced: _Priced, outcome: Outcome, charge: Entry) -> Profile:
    """Read a profile from the bytes that the ledger holds."""
    content = json.loads(outcome.result)
    if content.get("format") != _FORMAT or content.get("version") != 1:
        raise InternalError("the ledger holds something else than a profile")
    stored = iter(content["queries"])

    def ask(sql: str, plan: Plan) -> ReadAnswer:
        query, text = next(stored)
        if query != sql:
            raise InternalError("the ledger holds other queries than the profile asks")
        return read_back(plan, text.encode())

    rows, people, columns, limit = _walk(priced, ask)
    table, receipt = priced.table, Receipt.from_json(outcome.receipt)
    return Profile(
        table.name, rows, people, tuple(columns), limit or table.max_rows, table.unit, priced.population,
        priced.terms.confidence, charge, receipt, table,
    )  # fmt: skip


class ProfileRequest(RequestModel):
    """A table to profile, and one of epsilon, rho and mu."""

    kind: Literal["profile"]
    source: Text = Field(description="a protected table")
    epsilon: Amount = maybe()
    delta: Amount = maybe()
    rho: Amount = maybe()
    mu: Amount = maybe()
    confidence: Amount = maybe()
    suppose: Count = maybe(description="number of rows, about, for the verdicts of the quote")

    @property
    def arguments(self) -> tuple[str, dict[str, Any]]:
        return self.source, {name: value for name, value in self.stated.items() if name in OPTIONS}


class ColumnProfileResponse(ResponseModel):
    """A column, in words."""

    column: str
    type: str
    nulls: str
    bounds: str
    mean: str
    quartiles: str
    values: str


class ProfileResponse(ResponseModel):
    """A profile: the numbers are its files."""

    table: str
    rows: str
    people: str = maybe()
    columns: list[ColumnProfileResponse]


class ProfileKind(ReleaseKind[ProfileRequest, Profile]):
    """Profiles of tables."""

    name = "profile"
    label = _LABEL
    request: ClassVar = ProfileRequest
    response: ClassVar = ProfileResponse

    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"{kept['source']}_profile",)

    def quote(self, context: QueryContext, request: ProfileRequest) -> str:
        return str(quote_profile(context, *request.arguments))

    def make(
        self,
        context: QueryContext,
        request: ProfileRequest,
        caller: Caller,
        timer: ReleaseTimer | None = None,  # noqa: ARG002 - owners need not wait
    ) -> Profile:
        return make_profile(context, *request.arguments, caller)

    def read(self, context: QueryContext, position: int) -> Profile:
        with hide_internal_errors():
            charged, told, outcome, entry = paid_at(context, position, "profile")
            priced = _price(context, told["source"], told["options"])
            if priced.plan(_counts_sql(priced.table), Fraction(1)).digest != charged.record.plan:
                raise InputError("position", f"{told['source']} is declared otherwise than at {position}")
            return _read(priced, outcome, entry)

    def describe(self, made: Profile) -> ProfileResponse:
        names = ColumnProfileResponse.model_fields
        columns = [ColumnProfileResponse(**dict(zip(names, line, strict=True))) for line in made.lines()]
        people = {} if made.people is None else {"people": str(made.people)}
        return ProfileResponse(table=made.table, rows=str(made.rows), columns=columns, **people)

    def numbers(self, made: Profile) -> Iterator[tuple[str, Any, Any, Any]]:
        """Yield name, value and interval ends of the profile's numbers."""
        yield "rows", *made.rows
        if made.people is not None:
            yield "people", *made.people
        for each in made.columns:
            yield from ((f"{each.name}: NULLs", *each.nulls), (f"{each.name}: mean", *(each.mean or Estimate(None))))
            yield from ((f"{each.name}: quartile {n}", *found) for n, found in enumerate(each.quartiles, 1))
            yield from ((f"{each.name} = {value}", *count) for value, count in each.values)

    def files(self, made: Profile) -> Files:
        def table(form: str) -> bytes:
            return table_bytes(made.to_arrow(), form)

        tables = {f"profile.{form}": partial(table, form) for form in TABLE_FORMS}
        return {**tables, "tacit.toml": lambda: made.draft().encode()}


PROFILE: Final = ProfileKind()
