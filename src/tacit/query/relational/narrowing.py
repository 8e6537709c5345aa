"""Narrowing: knowledge about columns and keys that follows from conditions in the text.

Rows that remain after a condition meet it, so ``month BETWEEN 1 AND 3`` leaves three months, ``country IN (…)`` the
countries it lists whatever is declared, and ``cost < 50`` a range up to 50. The condition is part of the text and
the knowledge is a function of it, so it is public. It is used as declared bounds are: to choose clamps, and which keys
are listed; a key that is not listed here cannot be the key of a row that is left.

Derived ranges: whether the range of a value follows from several columns, or from the most rows of a person.

The range of a plain column is declared by the owner. That of a computed value follows from the ranges of its parts by
interval arithmetic, which assumes all parts at their worst ends at once: the difference of two dates within two years
has a range of four years, and a person's number of rows has one of ``unit_rows``. Such ranges are safe and much wider
than the values, so an aggregate over one searches narrower bounds (:mod:`tacit.query.planning.auto_bounds`) unless the
query states some by CLAMP or by a condition.

The answer is a function of the query's text and of metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tacit.query.relational.algebra import (
    ExistsColumn,
    Field,
    FilterRows,
    FirstRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    UnionAll,
    UnitAggregate,
    UnitWindow,
)
from tacit.query.relational.expressions import (
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Literal,
    Reference,
    references,
    rewrite,
    shift,
    size,
)
from tacit.query.relational.functions import evaluate
from tacit.query.types import Domain, Range, SqlType, Value, finite, ordinal

# -- narrowing

#: Comparisons, and the equivalent comparison with the two sides exchanged.
_MIRRORED: Final = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

#: Most evaluations for narrowing one column by one condition; beyond, the column keeps its domain.
_MOST_TRIED: Final = 20_000


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """Return the operands of a chain of AND, which must all be true."""
    if isinstance(condition, Call) and condition.function == "and":
        return tuple(part for arg in condition.args for part in conjuncts(arg))
    return (condition,)


def narrowed_fields(fields: tuple[Field, ...], condition: Expression) -> tuple[Field, ...]:
    """Return the columns of the rows for which ``condition`` is true, with narrower domains."""
    known = list(fields)
    for part in conjuncts(condition):
        slots = {column.slot for column in references(part)}
        if len(slots) == 1:
            slot = slots.pop()
            column = known[slot]
            known[slot] = replace(column, domain=_narrowed(column.domain, column.type, part, slot))
    return tuple(known)


def _narrowed(domain: Domain, kind: SqlType, condition: Expression, slot: int) -> Domain:
    """Return the domain of column ``slot`` where a condition that reads it alone is true."""
    listed = _listed(condition)
    values = domain.values
    if domain.nullable and _asks_for_null(condition):
        values = _with_null(values)
    if values is None:
        values = listed
    nullable = domain.nullable and _holds(condition, slot, None)
    outer = domain.null_is_key and nullable
    if values is not None and len(values) * size(condition) <= _MOST_TRIED:
        left = [value for value in values if _holds(condition, slot, value)]
        if not left:
            # A condition that no public value meets does not narrow the domain.
            return domain
        found = replace(finite(left, kind, nullable=nullable, growth=domain.growth), null_is_key=outer)
        # NULL has no ordinal, and an aggregate of NULLs alone keeps its bounds.
        return replace(found, range=domain.range) if left == [None] else found
    if domain.values is not None and not nullable:
        domain = replace(domain, values=tuple(value for value in domain.values if value is not None))
    compared = _compared(condition)
    if compared is None or not kind.is_ordered or domain.values is not None:
        return replace(domain, nullable=nullable, null_is_key=outer)
    return replace(domain, nullable=nullable, null_is_key=outer, range=_cut(domain.range, kind, *compared))


def _with_null(values: tuple[Value | None, ...] | None) -> tuple[Value | None, ...] | None:
    return values if values is None or None in values else (*values, None)


def _asks_for_null(condition: Expression) -> bool:
    """Whether a condition on one column is ``IS NULL``, or an OR with that among its operands."""
    if not isinstance(condition, Call):
        return False
    if condition.function == "or":
        return any(map(_asks_for_null, condition.args))
    return condition.function == "is_null" and isinstance(condition.args[0], Reference)


def _holds(condition: Expression, slot: int, value: Value | None) -> bool:
    return evaluate(condition, [None] * slot + [value]) is True


def _compared(condition: Expression) -> tuple[str, Value] | None:
    """Return the comparison of a plain column with a constant of its type, the column first; None for others."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    one, other = condition.args
    name = condition.function
    if isinstance(other, Reference):
        one, other, name = other, one, _MIRRORED[name]
    if not isinstance(one, Reference) or not isinstance(other, Literal) or other.value is None:
        return None
    return (name, other.value) if one.type == other.type else None


def _cut(known: Range, kind: SqlType, name: str, value: Value) -> Range:
    place, step = ordinal(value, kind), kind.step or Fraction(0)
    low, high = known.low, known.high
    if name in ("eq", "ge", "gt"):
        least = place + step if name == "gt" else place
        low = least if low is None else max(low, least)
    if name in ("eq", "le", "lt"):
        most = place - step if name == "lt" else place
        high = most if high is None else min(high, most)
    # A condition that no value in the range meets does not narrow the range.
    return known if low is not None and high is not None and low > high else Range(low, high)


def _listed(condition: Expression) -> tuple[Value | None, ...] | None:
    """Return the values that IN, =, IS NULL, or an OR of these lists for one column; None for other conditions."""
    if isinstance(condition, InList) and isinstance(condition.operand, Reference):
        return tuple(item.value for item in condition.items if item.value is not None)
    if not isinstance(condition, Call):
        return None
    if condition.function == "or":
        found = [_listed(arg) for arg in condition.args]
        known = [values for values in found if values is not None]
        return tuple(value for values in known for value in values) if len(known) == len(found) else None
    if _asks_for_null(condition):
        return (None,)
    if condition.function == "eq":
        for one, other in (condition.args, condition.args[::-1]):
            if isinstance(one, Reference) and isinstance(other, Literal) and other.value is not None:
                return (other.value,)
    return None


def true_of_all(node: RelationNode) -> list[Expression]:
    """Return conditions over the columns of a relation that all of its rows meet."""
    match node:
        case FilterRows():
            return [*conjuncts(node.condition), *true_of_all(node.source)]
        case FirstRows() | ExistsColumn() | UnitWindow():
            return true_of_all(node.source)
        case ProjectColumns():
            return _lifted(true_of_all(node.source), node.expressions)
        case UnitAggregate():
            return _lifted(true_of_all(node.source), node.keys)
        case Join(kind=JoinKind.INNER):
            width = len(node.left.fields)
            right = [shift(part, width) for part in true_of_all(node.right)]
            return [*conjuncts(node.condition), *true_of_all(node.left), *right]
        case Join(kind=JoinKind.LEFT):
            return true_of_all(node.left)
        case _:
            return []


def _lifted(conditions: Sequence[Expression], computed: Sequence[Expression]) -> list[Expression]:
    """Rewrite conditions over the columns of a source to conditions over expressions of them; drop the others."""
    found = [
        _over(condition, {expression: slot for slot, expression in enumerate(computed)}) for condition in conditions
    ]
    return [condition for condition in found if condition is not None]


def _over(condition: Expression, slots: dict[Expression, int]) -> Expression | None:
    """Return a condition over these expressions as columns; None where it reads anything else."""
    others = False

    def change(part: Expression) -> Expression | None:
        nonlocal others
        if part in slots and not isinstance(part, Literal):
            return Reference(part.type, part.domain, slots[part], "")
        others = others or isinstance(part, Reference)
        return None

    lifted = rewrite(condition, change)
    return None if others else lifted


def narrowed_keys(
    key: Expression,
    values: tuple[Value | None, ...] | None,
    conditions: Sequence[Expression],
    allows: Callable[[int], bool],
) -> tuple[Value | None, ...] | None:
    """Return the values of a key in rows that meet all conditions; None where they are not public.

    Args:
        key: an expression over some relation.
        values: its public values, None where there are none.
        conditions: true of all rows; see :func:`true_of_all`.
        allows: whether this number of evaluations may be made.
    """
    about = [part for part in (_over(condition, {key: 0}) for condition in conditions) if part is not None]
    about = [part for part in about if references(part)]
    lists = [_listed(part) for part in about]
    if any(map(_asks_for_null, about)):
        values = _with_null(values)
    if values is None:
        known = [listed for listed in lists if listed is not None]
        if not known:
            return None
        # The remaining conditions are tested on each value of the first list.
        values = tuple(dict.fromkeys(known[0]))
    if not allows(len(values) * sum(map(size, about))):
        return values
    left = tuple(value for value in values if all(evaluate(part, [value]) is True for part in about))
    # Conditions that no key meets do not narrow the list.
    return left or values


# -- derived ranges

#: Functions of several columns whose range assumes the worst ends of all of them at once.
_COMBINING: Final = frozenset({"add", "sub", "mul", "div", "int_div", "date_diff", "power"})
#: Aggregates and windows within a person whose range follows from the most rows that a person may have.
_COUNTING: Final = frozenset({"count_rows", "count", "count_distinct", "sum", "row_number", "rank", "dense_rank"})


def is_derived(source: RelationNode, value: Expression) -> bool:
    """Whether the range of a value over ``source`` is derived, neither declared nor stated in the query."""
    match value:
        case Reference():
            return _is_derived_column(source, value.slot, value.range)
        case Call(function="clamp"):
            return False
        case Call():
            read = [arg for arg in value.args if references(arg)]
            combines = value.function in _COMBINING and len({part for arg in read for part in references(arg)}) > 1
            return combines or any(is_derived(source, arg) for arg in read)
        case Cast():
            return is_derived(source, value.operand)
        case Case():
            return any(is_derived(source, then) for then in (*(then for _, then in value.branches), value.otherwise))
        case _:
            return False


def _is_derived_column(source: RelationNode, slot: int, known: Range) -> bool:
    """As :func:`is_derived`, for a column; a ``known`` range narrower than the column's comes from a condition."""
    match source:
        case FilterRows() | FirstRows() | ExistsColumn() if slot < len(source.source.fields):
            return _is_derived_column(source.source, slot, known)
        case ProjectColumns():
            computed = source.expressions[slot]
            return _is_as_wide(known, computed.range) and is_derived(source.source, computed)
        case Join() if slot < len(source.left.fields) + len(source.right.fields):
            width = len(source.left.fields)
            side, place = (source.left, slot) if slot < width else (source.right, slot - width)
            return _is_derived_column(side, place, known)
        case UnionAll():
            return any(_is_derived_column(part, slot, known) for part in source.parts)
        case UnitAggregate():
            if slot < len(source.keys):
                return is_derived(source.source, source.keys[slot])
            call = source.calls[slot - len(source.keys)]
        case UnitWindow():
            if slot < len(source.source.fields):
                return _is_derived_column(source.source, slot, known)
            window = source.calls[slot - len(source.source.fields)]
            if window.function in _COUNTING:
                return _is_as_wide(known, source.fields[slot].domain.range)
            return window.argument is not None and is_derived(source.source, window.argument)
        case _:
            return False
    if call.function in _COUNTING:
        return _is_as_wide(known, source.fields[slot].domain.range)
    return call.argument is not None and is_derived(source.source, call.argument)


def _is_as_wide(known: Range, own: Range) -> bool:
    """Whether a range is that of the column itself, up to rounding of its ends."""
    if own.ends is None or known.ends is None:
        return own.ends is None and known.ends is None
    return 100 * (known.ends[1] - known.ends[0]) >= 99 * (own.ends[1] - own.ends[0])
