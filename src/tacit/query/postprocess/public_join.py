"""Joins of released rows with public rows, and with released rows of another part of the query.

Equalities between a released and a public expression are looked up; what is left of the condition is tried on the
pairs they leave. Rows come in the order of the released rows, and for each of them in that of the public ones; public
rows that no released row meets come last. Public values are exact, so a cell's interval is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tacit.query import limits
from tacit.query.postprocess.cell_expressions import Row
from tacit.query.postprocess.cells import Exact
from tacit.query.query import Combine, Match
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import JoinKind
from tacit.query.relational.expressions import TRUE, Call, Expression, references
from tacit.query.relational.functions import evaluate
from tacit.query.relational.narrowing import conjuncts
from tacit.query.types import SqlType, Value

Values = tuple[Value | None, ...]
#: The rows of a public relation, canonical values in the order of its columns.
PublicRows = Sequence[Values]


def matched(step: Match, rows: Sequence[Row], types: Sequence[SqlType], public: PublicRows) -> list[Row]:
    """The rows of a join.

    Raises:
        Refusal: when there are too many, or when too many pairs would have to be tried.
    """
    kinds = [column.type for column in step.relation.fields]
    beside: list[Row] = [
        tuple(Exact(value, kind) for value, kind in zip(values, kinds, strict=True)) for values in public
    ]
    return _joined(step, rows, types, beside, kinds, public)


def combined(step: Combine, rows: Sequence[Row], types: Sequence[SqlType], others: Sequence[Row]) -> list[Row]:
    """The rows of a join with those of another query; cells keep their noise and so their intervals.

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
    """Rows beside others, whose values decide which ones meet."""
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
    """For each released row the public rows it meets, in their order."""
    equal, rest = _split(condition, width)
    by_key: dict[Values, list[int]] = {}
    for place, values in enumerate(public):
        # Expressions count public columns from the width of the released ones on.
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
    """Equalities (of released columns, of public ones), and the other parts of a condition."""
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
