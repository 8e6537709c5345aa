"""Exact counts of combinations of public values, from the engine, for workloads and synthetic tables.

The rows of a table or of a SELECT are prepared once: rows with a value outside the public lists are left out, and at
most a public number of rows of each unit is kept, chosen by a keyed hash. Every marginal counts these same rows, so
that all marginals agree, and one unit adds at most this number of rows to each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from time import monotonic
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError, InternalError
from tacit.core.names import is_name
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.query.catalog import Catalog
from tacit.query.contribution import ContributionNumber
from tacit.query.limits import MAX_EXPRESSION, MAX_KEYS
from tacit.query.planning.measures import COUNT_ROWS, ContributionLimit, MeasureKind, count_measure
from tacit.query.planning.work import Sizes, WholeWork, first_rows, unit_work, whole_work
from tacit.query.query import Aggregate, FinalAggregation, GroupKey
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, reference, relation_text, scanned
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call, in_list
from tacit.query.relational.ownership import keep
from tacit.query.request import Account
from tacit.query.resolve import resolve_rows
from tacit.query.resolve.aggregation import EnumerationBudget, check_key, public_values
from tacit.query.types import INTEGER, Kind, SqlType, Value

#: Least time limit of a statement, in seconds, where earlier statements have used up the whole limit.
_LEAST_SECONDS: Final = 0.001
#: Largest number of cells that one statement counts; several small marginals are summed from one larger count.
_MOST_CELLS: Final = 250_000

#: SQL expressions with few possible values, by kind.
_FEW_VALUES: Final = {
    Kind.INTEGER: ", or select an expression with few values, such as FLOOR({} / 10)",
    Kind.DECIMAL: ", or select an expression with few values, such as FLOOR({} / 10)",
    Kind.DOUBLE: ", or select an expression with few values, such as FLOOR({} / 10)",
    Kind.DATE: ", or select an expression with few values, such as EXTRACT(MONTH FROM {})",
    Kind.TIMESTAMP: ", or select an expression with few values, such as CAST({} AS DATE)",
}


class GroupSecrets(Protocol):
    """Part of a curator's keys: the secrets that choose the rows of a unit."""

    def group_secret(self, population: str, /) -> bytes:
        """Return the key of the hash that chooses the rows of a unit."""


class CountingContext(Protocol):
    """Part of a curator's context: public metadata, kinds of accounts, the engine and the keys."""

    @property
    def catalog(self) -> Catalog:
        """Public metadata."""

    @property
    def measured_catalog(self) -> Catalog:
        """Public metadata, with the present sizes of public tables."""

    @property
    def accounts(self) -> Mapping[str, Account]:
        """Kind of the account of each population."""

    @property
    def engine(self) -> Engine:
        """Engine, the only object that reads data."""

    @property
    def keys(self) -> GroupSecrets:
        """Secrets that choose the rows of a unit that count."""


@dataclass(frozen=True)
class PublicColumn:
    """A column with a public list of values.

    Args:
        name: name of the column for display.
        slot: index of the column in the rows.
        type: type of its values.
        values: all values that count, sorted, NULL last where it is declared.
    """

    name: str
    slot: int
    type: SqlType
    values: tuple[Value | None, ...]


@dataclass(frozen=True)
class CountingWork:
    """A set of counting statements as a computation on data: its first aggregation, and the work of all statements."""

    final: FinalAggregation
    unit_work: int
    whole_work: WholeWork


@dataclass(frozen=True)
class MarginalCounts:
    """Rows that can be counted by combinations of public values.

    Args:
        source: the rows that count: a bounded number of rows of each unit, every value on its public list.
        columns: columns by name in lower case.
        rows: the most rows of one unit that count.
    """

    source: RelationNode
    columns: dict[str, PublicColumn]
    rows: int

    @property
    def population(self) -> str:
        """Name of the population whose account is charged."""
        if self.source.population is None:
            raise InternalError("rows that are counted belong to a population")
        return self.source.population

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(column.values) for name, column in self.columns.items()}

    @cached_property
    def text(self) -> str:
        """Canonical text of the rows, columns and bound."""
        return "\n".join(
            [
                relation_text(self.source),
                *(f"{c.name} {c.slot}={c.values!r}" for c in self.columns.values()),
                str(self.rows),
            ]
        )

    @property
    def bounding(self) -> str:
        """Description of the contribution bound of one unit."""
        if self.source.row_units:
            return "every row is a unit"
        return f"at most {self.rows} {'row' if self.rows == 1 else 'rows'} of a unit, chosen by a keyed hash"

    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(scanned(self.source)))

    def final(self, names: Sequence[str]) -> FinalAggregation:
        """Return the aggregation that counts rows by some columns."""
        keys = tuple(
            GroupKey(column.name, reference(self.source, column.slot), column.values)
            for column in (self.columns[name] for name in names)
        )
        cells = math.prod(len(key.values or ()) for key in keys)
        counted = count_measure(MeasureKind.ROWS, None, None, rows=self.rows)
        shown = Aggregate(COUNT_ROWS, (0,), None, INTEGER, None, "count(*)")
        # The source holds no more rows of a unit than count, so that there are no groups to choose among: the order
        # in which an engine would choose them is made for fewer groups than a marginal may have.
        return FinalAggregation(self.source, keys, (counted,), (shown,), max(cells, 1), True, max(cells, 1))

    def check(self, context: CountingContext, sets: Iterable[tuple[str, ...]]) -> None:
        """Refuse marginals that are too large or that the engine cannot count; reads no data."""
        for names in self._statements(sets):
            cells = math.prod(self.sizes[name] for name in names)
            if cells > _MOST_CELLS:
                raise Refusal(
                    "too_many_keys",
                    f"{', '.join(names)} have {cells:,} combinations, and {_MOST_CELLS:,} is the most; leave a column "
                    "out, or give one fewer values.",
                )
            context.engine.check(self.final(names))

    def work(self, sets: Iterable[tuple[str, ...]]) -> CountingWork:
        """Return the counting of sets of columns as a computation with a public bound on the work of one unit."""
        finals = [self.final(names) for names in self._statements(sets)]
        whole = reduce(WholeWork.__add__, map(whole_work, finals))
        return CountingWork(finals[0], sum(map(unit_work, finals)), whole)

    def count(
        self, context: CountingContext, sets: Iterable[tuple[str, ...]], *, seconds: float | None = None
    ) -> dict[tuple[str, ...], NDArray[np.int64]]:
        """Return exact counts for each set of columns, one axis for each column in the order of the set.

        The statements that run are a function of public sizes alone.

        Args:
            context: engine and keys.
            sets: sets of columns.
            seconds: time limit of all statements together; None for the engine's own limit of each.
        """
        end = None if seconds is None else monotonic() + seconds
        wanted = list(dict.fromkeys(sets))
        secret = context.keys.group_secret(self.population)
        found: dict[tuple[str, ...], NDArray[np.int64]] = {}
        for names in self._statements(wanted):
            final = self.final(names)
            left = None if end is None else max(end - monotonic(), _LEAST_SECONDS)
            measured = context.engine.measure(MeasurementTask(final, secret, timeout=left))
            raw = np.asarray(measured.raw[0])
            if raw.dtype.kind not in "iu" or raw.size != final.group_count:
                raise InternalError("the engine returned something else than a count for each combination")
            raw_cells = raw.astype(np.int64).reshape(tuple(self.sizes[name] for name in names))
            for mine in wanted:
                if mine not in found and set(mine) <= set(names):
                    found[mine] = _summed(raw_cells, names, mine)
        return found

    def _statements(self, sets: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return sets of columns to count, such that every requested set is a subset of one of them."""
        sizes, merged = self.sizes, list[frozenset[str]]()
        ordered = sorted(set(map(frozenset, sets)), key=lambda names: (-len(names), sorted(names)))
        for names in ordered:
            if any(names <= other for other in merged):
                continue
            grown = [(math.prod(sizes[name] for name in names | other), place) for place, other in enumerate(merged)]
            cells, place = min(grown, default=(MAX_KEYS + 1, 0))
            if cells <= MAX_KEYS:
                merged[place] |= names
            else:
                merged.append(names)
        return [tuple(name for name in self.columns if name in names) for names in merged]


def _summed(raw_cells: NDArray[np.int64], names: tuple[str, ...], wanted: tuple[str, ...]) -> NDArray[np.int64]:
    others = tuple(axis for axis, name in enumerate(names) if name not in wanted)
    left = [name for name in names if name in wanted]
    summed = np.asarray(raw_cells.sum(axis=others, dtype=np.int64))
    return summed.transpose([left.index(name) for name in wanted])


def countable_rows(
    context: CountingContext,
    source: str,
    columns: Sequence[str] | None = None,
    *,
    max_rows: ContributionNumber | None = None,
    numbers: Mapping[str, range] | None = None,
) -> MarginalCounts:
    """Resolve a table or a SELECT into rows that can be counted; reads no data.

    Args:
        context: metadata and engine.
        source: the name of a table, or a SELECT of rows.
        columns: columns to count by; None for all that the SELECT names.
        max_rows: the most rows of one unit that count, if other than declared.
        numbers: columns that hold bin numbers, with the numbers that count. The possible values of the SQL expression
            include others: NULL for a value outside the bounds, or one more bin where the upper bound is inside a bin.

    Raises:
        Refusal, InputError: a column does not exist or has no public list of values, or ``max_rows`` is AUTO.
    """
    if is_name(source):
        listed = ", ".join(f'"{name}"' for name in columns or _column_names(context, source)) or "1"
        # The text is resolved by our own parser and never reaches an engine.
        source = f'SELECT {listed} FROM "{source}"'  # noqa: S608
    rows = resolve_rows(source, context.measured_catalog)
    named = {(part.name or "").lower(): slot for slot, part in enumerate(rows.fields) if part.name is not None}
    wanted = [name.lower() for name in columns] if columns is not None else list(named)
    work = EnumerationBudget()
    found: dict[str, PublicColumn] = {}
    for name in wanted:
        if name not in named:
            raise Refusal(
                "unknown_column", f"There is no column {name[:63]!r} in the rows; those are {', '.join(named)}."
            )
        found[name] = _public_column(rows, named[name], work, (numbers or {}).get(name))
    limit = ContributionLimit("max_rows", rows.max_rows, rows.row_units).stating(max_rows, rows)
    known = Sizes().rows(rows)
    if limit.is_auto and known > 1:
        raise InputError(
            "max_rows",
            "is AUTO, which queries in SQL alone can find: state how many rows of one person count, here or in the "
            "project file",
        )
    most = min(limit.number, known)
    kept = keep(rows, _all_public(rows, list(found.values()))) if found else rows
    if not kept.row_units:
        kept = first_rows(kept, most)
    return MarginalCounts(kept, found, most)


def _column_names(context: CountingContext, table: str) -> list[str]:
    known = context.measured_catalog.table(table)
    if known is None:
        raise Refusal("unknown_table", f"There is no table {table!r} that you can ask about.")
    return [column.name for column in known.columns if column.name != known.unit]


def _public_column(
    rows: RelationNode, slot: int, work: EnumerationBudget, numbers: range | None = None
) -> PublicColumn:
    part = rows.fields[slot]
    name = part.name or ""
    if slot == rows.unit or (part.identifies or "").startswith("unit "):
        raise Refusal("unit_exposed", f"{name} is the unit itself; leave it out.")
    expression = reference(rows, slot)
    check_key(name, expression)
    values = public_values(expression, work)
    few = _FEW_VALUES.get(part.type.kind, "")
    if len(values or ()) >= MAX_EXPRESSION:
        # The counting SQL statement names every value of the list.
        raise Refusal(
            "too_many_keys",
            f"{name} has {len(values or ()):,} values, and fewer than {MAX_EXPRESSION:,} can be counted one by one; "
            f"name the table, whose columns are put into bins, or leave {name} out{few.format(name)}.",
        )
    if not values:
        raise Refusal(
            "no_categories",
            f"The values of {name} are not a public list; declare its categories{few and ' or bounds'}, or leave it out"
            f"{few.format(name)}.",
        )
    if numbers is not None:
        values = tuple(value for value in values if value in numbers)
    return PublicColumn(name, slot, part.type, values)


def _all_public(rows: RelationNode, columns: Sequence[PublicColumn]) -> Expression:
    """Return the condition that every column of a row has a value of its public list."""
    conditions: list[Expression] = []
    for column in columns:
        read = reference(rows, column.slot)
        listed = [literal(value, column.type) for value in column.values if value is not None]
        known = [in_list(read, listed)] if listed else []
        if None in column.values:
            known.append(call("is_null", read))
        conditions.append(reduce(lambda left, right: call("or", left, right), known))
    return reduce(lambda left, right: call("and", left, right), conditions)
