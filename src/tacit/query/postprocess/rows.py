"""Rows of released cells: expressions, aggregates, windows and joins, with intervals.

*Expressions.* The registry has the range of each function for ranges of its arguments, so an enclosure of the arguments
gives one of the result; a function of known finite sets is evaluated on all their values. Five cases are tighter than
this general rule: sums of released integers are treated as one draw of summed noise, quotients of such sums as one
test, a nonzero divisor on a grid is at least one step away from 0, comparisons of ranges that do not overlap are
decided, and CASE follows only the branches that can be taken.

*Aggregates and windows.* The set of rows is fixed, except for conditions on noisy cells, which leave rows in doubt.
Sums and means of released integers have the noise of a sum, which is far smaller than the sum of the intervals. Other
functions are monotone in each argument, so their values at the low ends and at the high ends enclose the result; a
standard deviation moves by at most the root mean square of the moves of its arguments.

Windows over released rows are aggregates of a partition, of its rows so far or of the rows around the current one,
ranks, and neighbouring rows. A rank by noisy numbers is a rank of released values; the true rank could be any rank in
its partition, and that is its interval.

*Joins* are with public rows, and with released rows of another part. Equalities between a released and a public
expression are looked up; the remaining condition is tested on the pairs that match. Rows come in the order of the
released rows, and for each released row in the order of the public rows; public rows without a match come last. Public
values are exact, so the interval of a cell does not change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from tacit.core.numbers import sqrt_bounds
from tacit.query import limits
from tacit.query.aggregates import AGGREGATES
from tacit.query.aggregates.family import AggregateEntry, SpreadForm
from tacit.query.postprocess.cells import (
    Affine,
    Cell,
    CellConfidence,
    Event,
    Exact,
    linear_events,
    ratio_event,
    ratio_range,
    value_at,
)
from tacit.query.query import Combine, Match
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import JoinKind, SortKey, WindowCall, WindowFrame
from tacit.query.relational.expressions import (
    TRUE,
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Interval,
    Literal,
    Reference,
    children,
    references,
    rewrite,
)
from tacit.query.relational.functions import REGISTRY, cast, evaluate
from tacit.query.relational.functions.registry import cast_value
from tacit.query.relational.narrowing import conjuncts
from tacit.query.types import (
    BOOLEAN,
    INTEGER,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    as_value,
    finite,
    hull,
    ordinal,
    sort_key,
    truth,
    union,
)

Row = Sequence[Cell]
#: Function that returns the low (for True, the high) end of a cell's interval.
EndOf = Callable[[Cell, bool], Value | None]
#: Largest number of combinations of known values on which a function is evaluated.
_IMAGE = 128
#: Length of the longest sum of draws whose terms are merged into another sum.
_MOST_WEIGHTS = 64
_BOTH = truth(nullable=False)


def derive(node: Expression, row: Row, ends: EndOf | None = None) -> Cell:
    """Return the cell of an expression over a row; for a plain reference, the referenced cell itself.

    ``ends`` gives the low (or, for True, high) end of a cell's interval, for DP_INTERVAL_LOW and DP_INTERVAL_HIGH. An
    end is a statement about the answer, not an estimate, so it counts as a constant.
    """
    if ends is not None and any(isinstance(part, Interval) for part in _parts(node)):
        node = rewrite(node, lambda part: _constant_end(part, row, ends))
    if isinstance(node, Reference):
        return row[node.slot]
    if isinstance(node, Literal):
        return Exact(node.value, node.type)
    cell = Derived(node, row)
    return cell if cell.events else Exact(cell.value, cell.type)


@dataclass(frozen=True, eq=False)
class Derived(Cell):
    """A cell computed from other cells by an expression."""

    node: Expression
    row: Row

    @property
    def type(self) -> SqlType:  # type: ignore[override]
        return self.node.type

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """Value of the expression on the released values."""
        return evaluate(self.node, [cell.value for cell in self.row])

    @cached_property
    def affine(self) -> Affine | None:
        """Weighted sum of draws, if the expression only adds up and scales released integers; None otherwise."""
        return _affine(self.node, self.row)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Events of the subexpressions; every sum of released integers is one event."""
        return _events(self.node, self.row)

    def _enclose(self, level: CellConfidence) -> Domain:
        return _enclose(self.node, self.row, level)


def _constant_end(part: Expression, row: Row, ends: EndOf) -> Literal | None:
    if not isinstance(part, Interval):
        return None
    value = cast_value(ends(derive(part.operand, row, ends), part.high), part.operand.type, part.type)
    return Literal(part.type, part.domain, value)


def _parts(node: Expression) -> Iterator[Expression]:
    yield node
    for part in children(node):
        yield from _parts(part)


def _sum(node: Expression, row: Row) -> Affine | None:
    """Return a subexpression as one weighted sum of draws; None if it is not treated as one.

    A multiple of a single cell is not: the cell may have more information, such as that it is not negative.
    """
    affine = _affine(node, row) if isinstance(node, Call) else None
    if affine is None or (len(affine.weights) == 1 and len(references(node)) == 1):
        return None
    return affine


def _forms(node: Expression, row: Row) -> tuple[Affine, Affine] | None:
    """Return dividend and divisor of a quotient of two weighted sums of draws; None for another expression."""
    if not isinstance(node, Call) or node.function != "div":
        return None
    top, bottom = _long(node.args[0], row), _long(node.args[1], row)
    if top is None or bottom is None or not top.weights or not bottom.weights:
        return None
    return top, bottom


def _long(node: Expression, row: Row) -> Affine | None:
    """Return :func:`_affine` of an expression, without a copy if it is a cell that is a long sum."""
    if isinstance(node, Cast) and _widens(node):
        return _long(node.operand, row)
    return row[node.slot].affine if isinstance(node, Reference) else _affine(node, row)


def _events(node: Expression, row: Row) -> frozenset[Event]:
    affine = _sum(node, row)
    if affine is not None:
        return linear_events(affine)
    if isinstance(node, Reference):
        return row[node.slot].events
    forms = _forms(node, row)
    if forms is not None:
        return frozenset((ratio_event(*forms),))
    return frozenset().union(*(_events(part, row) for part in children(node)))


def _affine(node: Expression, row: Row) -> Affine | None:
    match node:
        case Reference():
            found = row[node.slot].affine
            # A long sum stays a separate cell: every row that reads it would copy all its weights.
            return found if found is not None and len(found.weights) <= _MOST_WEIGHTS else None
        case Literal():
            return Exact(node.value, node.type).affine
        case Cast() if _widens(node):
            return _affine(node.operand, row)
        case Call(function="add" | "sub" | "neg" | "mul"):
            return _affine_call(node, row)
        case _:
            return None


def _widens(node: Cast) -> bool:
    """Whether a cast between numbers preserves every value; a cast that could round would not be affine."""
    kind, given = node.type, node.operand.type
    if kind.kind not in (Kind.DOUBLE, Kind.DECIMAL) or not given.is_numeric or given.kind is Kind.DOUBLE:
        return False
    return kind.kind is Kind.DOUBLE or given.scale <= kind.scale


def _affine_call(node: Call, row: Row) -> Affine | None:
    parts = [_affine(arg, row) for arg in node.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if node.function == "neg":
        return known[0].scaled(Fraction(-1))
    left, right = known
    if node.function == "mul":
        if left.weights and right.weights:
            return None
        return left.scaled(right.value) if left.weights else right.scaled(left.value)
    return left.plus(right if node.function == "add" else right.scaled(Fraction(-1)))


def _enclose(node: Expression, row: Row, level: CellConfidence) -> Domain:
    affine = _sum(node, row)
    if affine is not None:
        return affine.enclose(level)
    match node:
        case Reference():
            return row[node.slot].enclose(level)
        case Literal():
            return Exact(node.value, node.type).enclose(level)
        case Call():
            forms = _forms(node, row)
            if forms is not None:
                return Domain(_ratio(*forms, level), True, None, None)
            return _call(node, [_enclose(arg, row, level) for arg in node.args])
        case Cast():
            return _cast(node, _enclose(node.operand, row, level))
        case Case():
            return _case(node, row, level)
        case InList():
            return _among(node, _enclose(node.operand, row, level))
        case _:
            raise TypeError(f"{type(node).__name__} has no enclosure")


def _call(node: Call, domains: list[Domain]) -> Domain:
    function = REGISTRY[node.function]
    sets = [_possible(domain) for domain in domains]
    if math.prod(math.inf if values is None else len(values) for values in sets) <= _IMAGE:
        known = [values or () for values in sets]
        results = [_apply(node, arguments) for arguments in itertools.product(*known)]
        return finite(results, node.type, nullable=None in results)
    nullable = not function.never_null and (function.partial or any(domain.nullable for domain in domains))
    if node.function in _COMPARISONS:
        return _compare(node, domains)
    if node.type == BOOLEAN:
        return truth(nullable=nullable)
    if node.function == "div":
        return Domain(_quotient(*domains), True, None, None)
    args = tuple(
        arg if isinstance(arg, Literal) else Expression(arg.type, domain)
        for arg, domain in zip(node.args, domains, strict=True)
    )
    return Domain(function.range(args), nullable, None, function.step(args, node.type))


def _possible(domain: Domain) -> tuple[Value | None, ...] | None:
    if domain.values is None:
        return None
    return domain.values + ((None,) if domain.nullable and None not in domain.values else ())


def _apply(node: Call, arguments: tuple[Value | None, ...]) -> Value | None:
    function = REGISTRY[node.function]
    if function.strict and None in arguments:
        return None
    return as_value(function.evaluate(*arguments), node.type)


def _ratio(top: Affine, bottom: Affine, level: CellConfidence) -> Range:
    """Enclose a quotient by one test if the noises are independent; otherwise by a box, at β/2 for each side."""
    found = ratio_range(top, bottom, level) if level.biases is None else None
    if found is not None:
        return found
    halves = level.at(level.beta / 2)
    return _quotient(top.enclose(halves), bottom.enclose(halves))


def _quotient(top: Domain, bottom: Domain) -> Range:
    """Enclose quotients by nonzero divisors; a nonzero divisor on a grid is at least one step away from 0."""
    span = bottom.range
    if Fraction(0) not in span:
        return top.range.divided_by(span)
    if bottom.step is None or span.ends is None:
        return UNKNOWN
    low, high = span.ends
    sides = [Range(low, -bottom.step)] if low <= -bottom.step else []
    sides += [Range(bottom.step, high)] if high >= bottom.step else []
    return hull(top.range.divided_by(side) for side in sides) if sides else UNKNOWN


#: For comparisons x ? y: whether x < y, x = y, x > y makes them true.
_COMPARISONS = {
    "lt": (True, False, False), "le": (True, True, False), "gt": (False, False, True),
    "ge": (False, True, True), "eq": (False, True, False), "ne": (True, False, True),
}  # fmt: skip


def _compare(node: Call, domains: list[Domain]) -> Domain:
    left, right = (domain.range for domain in domains)
    nullable = any(domain.nullable for domain in domains)
    if left.ends is None or right.ends is None:
        return truth(nullable=nullable)
    may_be = (
        left.ends[0] < right.ends[1],
        left.ends[1] >= right.ends[0] and right.ends[1] >= left.ends[0],
        left.ends[1] > right.ends[0],
    )
    results = {truth for possible, truth in zip(may_be, _COMPARISONS[node.function], strict=True) if possible}
    return finite(results, BOOLEAN, nullable=nullable)


def _cast(node: Cast, domain: Domain) -> Domain:
    values = _possible(domain)
    if values is not None and len(values) <= _IMAGE:
        results = [cast_value(value, node.operand.type, node.type) for value in values]
        return finite(results, node.type, nullable=None in results)
    moved = cast(Expression(node.operand.type, domain), node.type).domain
    # A cast that preserves values keeps the grid, which keeps divisors away from 0.
    step = domain.step if node.operand.type.is_numeric and node.type.kind is Kind.DOUBLE else moved.step
    return Domain(moved.range, moved.nullable, None, step)


def _case(node: Case, row: Row, level: CellConfidence) -> Domain:
    reachable = []
    for when, then in node.branches:
        condition = _enclose(when, row, level)
        possible = _possible(condition) or _BOTH.values or ()
        if True in possible:
            reachable.append(_enclose(then, row, level))
        if set(possible) == {True}:
            return union(reachable, node.type)
    reachable.append(_enclose(node.otherwise, row, level))
    return union(reachable, node.type)


def _among(node: InList, domain: Domain) -> Domain:
    items = [item.value for item in node.items]
    values = _possible(domain)
    if values is None:
        return truth(nullable=domain.nullable or None in items)
    results = [None if value is None or (value not in items and None in items) else value in items for value in values]
    return finite(results, BOOLEAN, nullable=None in results)


# -- aggregates


def pool(function: str, cells: Sequence[Cell], parameter: Value | None, kind: SqlType) -> Cell:
    """Return the aggregate of some cells; NULL values are left out as in SQL.

    Args:
        function: a name of :class:`~tacit.query.relational.algebra.UnitCall`, other than ``count_rows``; or ``median``.
        cells: the arguments.
        parameter: the fraction of ``quantile``.
        kind: the type of the result.
    """
    if function == "count":
        number = _Number(tuple(cells), kind)
        return number if number.events else Exact(number.value, kind)
    if function == "count_distinct":
        return _Distinct(tuple(cells), kind)
    if function == "median":
        function, parameter = "quantile", Fraction(1, 2)
    fraction = Fraction(parameter) if isinstance(parameter, (int, float, Fraction)) else None
    cell = _Pool(function, tuple(cells), fraction, kind)
    return cell if cell.events else Exact(cell.value, kind)


@dataclass(frozen=True, eq=False)
class _Number(Cell):
    """The number of cells that are not NULL; noise may decide which cells are NULL."""

    cells: tuple[Cell, ...]
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        return sum(cell.value is not None for cell in self.cells)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset().union(*(cell.events for cell in self.cells))

    def _enclose(self, level: CellConfidence) -> Domain:
        domains = [cell.enclose(level) for cell in self.cells]
        there = [domain for domain in domains if set(domain.values or (0,)) != {None}]
        certain = sum(not domain.nullable for domain in there)
        return Domain(Range(Fraction(certain), Fraction(len(there))), False, None, Fraction(1))


@dataclass(frozen=True, eq=False)
class _Distinct(Cell):
    """The number of distinct released values; as they are noisy, the truth is between 0 and the number of rows."""

    cells: tuple[Cell, ...]
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        return len({cell.value for cell in self.cells} - {None})

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset().union(*(cell.events for cell in self.cells))

    def _enclose(self, level: CellConfidence) -> Domain:  # noqa: ARG002 - the same at every level
        return Domain(Range(Fraction(0), Fraction(len(self.cells))), False, None, Fraction(1))


@dataclass(frozen=True, eq=False)
class _Pool(Cell):
    function: str
    cells: tuple[Cell, ...]
    fraction: Fraction | None
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        present = [cell for cell in self.cells if cell.value is not None]
        if present and not present[0].type.is_ordered:
            # Text: MIN and MAX only.
            choose = min if self.function == "min" else max
            return choose((cell.value for cell in present), key=lambda value: sort_key(value, present[0].type))
        places = [ordinal(cell.value, cell.type) for cell in present if cell.value is not None]
        place = self._fold(places)
        return None if place is None else value_at(place, self.type)

    @cached_property
    def affine(self) -> Affine | None:
        parts = [cell.affine for cell in self.cells]
        known = [part for part in parts if part is not None]
        if not self._entry.linear or not known or len(known) < len(parts):
            return None
        total = Affine.total(known)
        return total if self.function == "sum" else total.scaled(Fraction(1, len(known)))

    @property
    def _linear(self) -> bool:
        return self.affine is not None and len(self.affine.weights) > 1

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        if self.affine is not None and self._linear:
            return linear_events(self.affine)
        return frozenset().union(*(cell.events for cell in self.cells))

    @property
    def _entry(self) -> AggregateEntry:
        return AGGREGATES[self.function]

    def _fold(self, places: list[Fraction]) -> Fraction | None:
        entry = self._entry
        if not places:
            return None
        if entry.spread is not None:
            count = len(places)
            if count < 1 + entry.spread.sample:
                return None
            variance = _variance(places) * (Fraction(count, count - 1) if entry.spread.sample else 1)
            return sum(_root(variance), Fraction(0)) / 2 if entry.spread.root else variance
        if entry.fold is None:
            raise AssertionError("counts are pooled above")
        return entry.fold(places, self.fraction)

    def _enclose(self, level: CellConfidence) -> Domain:
        if self.affine is not None and self._linear:
            return self.affine.enclose(level)
        domains = [(cell, cell.enclose(level)) for cell in self.cells]
        # A cell that is certainly NULL is left out, as in SQL.
        there = [(cell, domain) for cell, domain in domains if set(domain.values or (0,)) != {None}]
        doubts = [domain.nullable or cell.value is None for cell, domain in there]
        spans = [domain.range for _, domain in there]
        if not spans or any(span.ends is None for span in spans):
            return Domain(UNKNOWN, True, None, None)
        ends = [span.ends for span in spans if span.ends is not None]
        return Domain(self._span(ends, hull(spans), doubts), any(doubts), None, None)

    def _span(self, ends: list[tuple[Fraction, Fraction]], whole: Range, doubts: list[bool]) -> Range:
        if self._entry.spread is not None:
            return self._spread(ends, whole, any(doubts), self._entry.spread)
        if self.function == "sum":
            # A cell that may be NULL may contribute 0.
            zero = Fraction(0)
            lows = [min(low, zero) if doubt else low for (low, _), doubt in zip(ends, doubts, strict=True)]
            highs = [max(high, zero) if doubt else high for (_, high), doubt in zip(ends, doubts, strict=True)]
            return Range(sum(lows, zero), sum(highs, zero))
        if any(doubts):
            return self._of_doubtful(ends, whole, doubts)
        return Range(self._fold([low for low, _ in ends]), self._fold([high for _, high in ends]))

    def _of_doubtful(self, ends: list[tuple[Fraction, Fraction]], whole: Range, doubts: list[bool]) -> Range:
        """Return the range of the aggregate over the certain cells with any subset of the doubtful cells."""
        lows, highs = ([end[i] for end, doubt in zip(ends, doubts, strict=True) if not doubt] for i in range(2))
        if not lows or self.function not in ("min", "max", "avg"):
            return whole
        if self.function == "min":
            return Range(whole.low, min(highs))
        if self.function == "max":
            return Range(max(lows), whole.high)
        doubtful = [end for end, doubt in zip(ends, doubts, strict=True) if doubt]
        least = _least_mean(lows, [low for low, _ in doubtful])
        return Range(least, -_least_mean([-high for high in highs], [-high for _, high in doubtful]))

    def _spread(self, ends: list[tuple[Fraction, Fraction]], whole: Range, doubtful: bool, form: SpreadForm) -> Range:
        sample, root = form
        count = len(ends)
        if doubtful or count < 1 + sample:
            width = (whole.ends[1] - whole.ends[0]) if whole.ends else Fraction(0)
            low, high = Fraction(0), width / 2
            factor = Fraction(2) if sample else Fraction(1)
        else:
            deviation = _root(_variance([(low + high) / 2 for low, high in ends]))
            move = _root(sum(((high - low) / 2) ** 2 for low, high in ends) / Fraction(count))
            low, high = max(deviation[0] - move[1], Fraction(0)), deviation[1] + move[1]
            factor = Fraction(count, count - 1) if sample else Fraction(1)
        if root:
            return Range(low * _root(factor)[0], high * _root(factor)[1])
        return Range(low**2 * factor, high**2 * factor)


def _least_mean(certain: list[Fraction], doubtful: list[Fraction]) -> Fraction:
    """Return the least mean of all certain values with any of the doubtful values: a value below the mean lowers it."""
    total, count = sum(certain, Fraction(0)), len(certain)
    for value in sorted(doubtful):
        if value * count >= total:
            break
        total, count = total + value, count + 1
    return total / count


def _variance(places: list[Fraction]) -> Fraction:
    mean = sum(places, Fraction(0)) / len(places)
    return sum(((place - mean) ** 2 for place in places), Fraction(0)) / len(places)


def _root(value: Fraction) -> tuple[Fraction, Fraction]:
    return sqrt_bounds(value) if value else (value, value)


# -- windows


_RANKS = ("row_number", "rank", "dense_rank")
Around = tuple[int | None, int | None]


@dataclass(frozen=True, eq=False)
class _RankCell(Cell):
    """A rank among ``size`` rows whose order may depend on noise."""

    value: Value | None
    size: int
    events: frozenset[Event]
    type: SqlType = field(default=INTEGER)

    def _enclose(self, level: CellConfidence) -> Domain:  # noqa: ARG002 - the same at every level
        return Domain(Range(Fraction(1), Fraction(self.size)), False, None, Fraction(1))


def in_order(rows: Sequence[Row], keys: Sequence[SortKey], ends: EndOf | None = None) -> list[int]:
    """Return the indices of the rows sorted by some keys; the sort is stable."""
    order = list(range(len(rows)))
    for key in reversed(keys):
        values = [derive(key.expression, row, ends).value for row in rows]
        known = [index for index in order if values[index] is not None]
        missing = [index for index in order if values[index] is None]
        known.sort(key=lambda i: sort_key(values[i], key.expression.type), reverse=key.descending)
        order = missing + known if key.nulls_first else known + missing
    return order


def partitions(indices: Sequence[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """Group the indices of rows by equal keys, in order of first occurrence."""
    groups: dict[Hashable, list[int]] = {}
    for index in indices:
        groups.setdefault(keys[index], []).append(index)
    return list(groups.values())


def window_cells(call: WindowCall, rows: Sequence[Row], ends: EndOf | None = None) -> list[Cell]:
    """Return the window function's cell of each row, in the order of the rows."""
    order = in_order(rows, call.order, ends)
    keys = [tuple(derive(part, row, ends).value for part in call.partition) for row in rows]
    cells: list[Cell] = [Exact(None, call.type)] * len(rows)
    for part in partitions(order, keys):
        made = _partition(call, [rows[index] for index in part], ends)
        for index, cell in zip(part, made, strict=True):
            cells[index] = cell
    return cells


def _partition(call: WindowCall, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    if call.function in _RANKS:
        return _ranks(call, rows, ends)
    if call.around is not None:
        return _around(call, call.around, rows, ends)
    if call.argument is None:
        counts = range(1, len(rows) + 1) if call.frame is WindowFrame.RUNNING else [len(rows)] * len(rows)
        return [Exact(count, call.type) for count in counts]
    arguments = [derive(call.argument, row, ends) for row in rows]
    if call.function in ("lag", "lead"):
        shift = (call.offset if call.offset is not None else 1) * (-1 if call.function == "lag" else 1)
        return [_at(arguments, index + shift, call.type) for index in range(len(rows))]
    if call.function == "first_value":
        return [arguments[0]] * len(rows)
    if call.function == "last_value":
        return arguments if call.frame is WindowFrame.RUNNING else [arguments[-1]] * len(rows)
    if call.frame is WindowFrame.RUNNING:
        _check_running(len(rows))
        return [pool(call.function, arguments[: end + 1], None, call.type) for end in range(len(rows))]
    return [pool(call.function, arguments, None, call.type)] * len(rows)


def _around(call: WindowCall, around: Around, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    """Return a moving aggregate: each cell aggregates the rows of its frame; empty frames as in SQL."""
    count, (first, last) = len(rows), around
    spans = [
        (
            0 if first is None else min(max(i + first, 0), count),
            count if last is None else min(max(i + last + 1, 0), count),
        )
        for i in range(count)
    ]
    if sum(end - begin for begin, end in spans) > limits.MAX_PAIRS:
        raise Refusal(
            "too_large",
            f"The frames of a moving aggregate take at most {limits.MAX_PAIRS} rows together; use a narrower frame. "
            "What was released is kept, so asking again with another window is free.",
        )
    if call.argument is None:
        return [Exact(end - begin, call.type) for begin, end in spans]
    arguments = [derive(call.argument, row, ends) for row in rows]
    nothing = Exact(0 if AGGREGATES[call.function].counts else None, call.type)
    return [
        pool(call.function, arguments[begin:end], None, call.type) if begin < end else nothing for begin, end in spans
    ]


def _check_running(count: int) -> None:
    """Refuse too long running aggregates: the interval of each cell needs all rows so far."""
    if count * (count + 1) // 2 > limits.MAX_PAIRS:
        most = (math.isqrt(8 * limits.MAX_PAIRS + 1) - 1) // 2
        raise Refusal(
            "too_large",
            f"A running aggregate of released rows takes at most {most} rows of a partition; add a PARTITION BY, or "
            "group more coarsely before it. What was released is kept, so asking again with another window is free.",
        )


def _at(cells: list[Cell], index: int, kind: SqlType) -> Cell:
    return cells[index] if 0 <= index < len(cells) else Exact(None, kind)


def _ranks(call: WindowCall, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    by = [[derive(key.expression, row, ends) for key in call.order] for row in rows]
    events = frozenset().union(*(cell.events for cells in by for cell in cells))
    numbers, rank, dense = [], 0, 0
    for index, cells in enumerate(by):
        if index == 0 or [cell.value for cell in cells] != [cell.value for cell in by[index - 1]]:
            rank, dense = index + 1, dense + 1
        numbers.append({"row_number": index + 1, "rank": rank, "dense_rank": dense}[call.function])
    if not events:
        return [Exact(number, call.type) for number in numbers]
    return [_RankCell(number, len(rows), events) for number in numbers]


# -- joins


Values = tuple[Value | None, ...]
#: Rows of a public relation: canonical values in the order of its columns.
PublicRows = Sequence[Values]


def matched(step: Match, rows: Sequence[Row], types: Sequence[SqlType], public: PublicRows) -> list[Row]:
    """Return the rows of a join with public rows.

    Raises:
        Refusal: the join has too many rows, or too many pairs to test.
    """
    kinds = [column.type for column in step.relation.fields]
    beside: list[Row] = [
        tuple(Exact(value, kind) for value, kind in zip(values, kinds, strict=True)) for values in public
    ]
    return _joined(step, rows, types, beside, kinds, public)


def combined(step: Combine, rows: Sequence[Row], types: Sequence[SqlType], others: Sequence[Row]) -> list[Row]:
    """Return the rows of a join with those of another query; cells keep their noise and so their intervals.

    Raises:
        Refusal: as :func:`matched`.
    """
    kinds = [column.type for column in step.other.columns]
    return _joined(step, rows, types, others, kinds, [tuple(cell.value for cell in row) for row in others])


def _joined(
    step: Match | Combine,
    rows: Sequence[Row],
    types: Sequence[SqlType],
    beside: Sequence[Row],
    kinds: Sequence[SqlType],
    values: PublicRows,
) -> list[Row]:
    """Join ``rows`` with ``beside``; ``values``, the values of ``beside``, decide which rows match."""
    missing = tuple(Exact(None, kind) for kind in kinds)
    outer = step.kind in (JoinKind.LEFT, JoinKind.FULL)
    met = [False] * len(beside)
    found: list[Row] = []
    for row, places in zip(rows, _places(step.condition, rows, len(types), values), strict=True):
        for place in places:
            met[place] = True
            found.append((*row, *beside[place]))
        if outer and not places:
            found.append((*row, *missing))
        _check(len(found), limits.MAX_JOINED, "makes more than {} rows")
    if step.kind in (JoinKind.RIGHT, JoinKind.FULL):
        nothing = tuple(Exact(None, kind) for kind in types)
        found.extend((*nothing, *cells) for cells, seen in zip(beside, met, strict=True) if not seen)
        _check(len(found), limits.MAX_JOINED, "makes more than {} rows")
    return found


def _places(condition: Expression, rows: Sequence[Row], width: int, public: PublicRows) -> Iterator[list[int]]:
    """Yield, for each released row, the indices of the public rows that match it, in order."""
    equal, rest = _split(condition, width)
    by_key: dict[Values, list[int]] = {}
    for place, values in enumerate(public):
        # Expressions number public columns after the released ones.
        padded = (None,) * width + values
        key = tuple(evaluate(right, padded) for _, right in equal)
        if None not in key:
            by_key.setdefault(key, []).append(place)
    tried = 0
    for row in rows:
        mine = tuple(cell.value for cell in row)
        near = by_key.get(tuple(evaluate(left, mine) for left, _ in equal), [])
        if rest:
            tried += len(near)
            _check(tried, limits.MAX_PAIRS, "tries more than {} pairs of rows")
            near = [p for p in near if all(evaluate(part, mine + public[p]) is True for part in rest)]
        yield near


def _split(condition: Expression, width: int) -> tuple[list[tuple[Expression, Expression]], list[Expression]]:
    """Split a condition into equalities (released expression, public expression) and its other parts."""
    equal: list[tuple[Expression, Expression]] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        if part == TRUE:
            continue
        sides = part.args if isinstance(part, Call) and part.function == "eq" else ()
        slots = [[reference.slot for reference in references(side)] for side in sides]
        if slots and all(slots):
            below = [all(slot < width for slot in each) for each in slots]
            above = [all(slot >= width for slot in each) for each in slots]
            if below[0] and above[1]:
                equal.append((sides[0], sides[1]))
                continue
            if below[1] and above[0]:
                equal.append((sides[1], sides[0]))
                continue
        rest.append(part)
    return equal, rest


def _check(count: int, limit: int, what: str) -> None:
    if count > limit:
        raise Refusal(
            "too_large",
            f"A join of released rows {what.format(limit)}; add an equality to its condition or filter before it. "
            "What was released is kept, so asking again with another join is free.",
        )
