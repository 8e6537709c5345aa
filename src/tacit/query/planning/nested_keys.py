"""Keys that follow from released keys: quarters of months, wider buckets of integers, classes of categories.

A group by a coarser key is a union of released groups where its key is a function of released keys *and* no row outside
the released groups belongs to it. Rows outside are rows with another value than those listed: an undeclared category,
a day outside declared bounds. So a coarser key is accepted in two forms, in which both can be seen from public lists:

* *steps*: DATE_TRUNC, YEAR and integer division of a column, over released steps of the same column that nest in them.
  Such a key never falls as the column grows; the released list has no gap, and the values next to its ends belong to
  groups that are not asked for. Division goes towards 0, so that a wider group of 0 has more numbers below 0: where the
  list begins at 0, such a key follows only if a condition of the release keeps no number below 0.
* *classes*: CASE over equalities of a released column with constants, joined by OR and AND. All values that are not
  named there, listed or not, have the key of ELSE; no group that is asked for may have it unless none is unlisted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tacit.query.question import GroupKey
from tacit.query.relational.expressions import (
    Call,
    Case,
    Expression,
    InList,
    Literal,
    Reference,
    literal,
    references,
    rewrite,
)
from tacit.query.relational.functions import call, evaluate
from tacit.query.types import BOOLEAN, INTEGER, Kind, Value, sort_key

__all__ = ["nested_key"]

#: Units of DATE_TRUNC in which those before nest; weeks hold days and nest in nothing.
_UNITS: Final = ("second", "minute", "hour", "day", "month", "quarter", "year")
_SPANS: Final = {
    "second": dt.timedelta(seconds=1),
    "minute": dt.timedelta(minutes=1),
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
    "week": dt.timedelta(days=7),
}
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
#: A text that no constant of a question is: texts of questions have no NUL.
_UNNAMED: Final = "\x00"


def nested_key(
    wanted: GroupKey, keys: Sequence[GroupKey], *, not_negative: Collection[int] = ()
) -> tuple[int, Expression] | None:
    """The released key that a wanted key follows from, and the wanted key as a function of all released keys by index.

    None where no released key gives it, or rows outside the released groups could belong to groups that are asked for.

    Args:
        wanted: the key asked for.
        keys: those of the release.
        not_negative: slots of columns that are 0 or more in every row of the release, by a condition that it has.
    """
    named = {part.name for part in references(wanted.expression)}
    if len(named) != 1 or wanted.values is None:
        return None
    for index, key in enumerate(keys):
        if key.values is None or {part.name for part in references(key.expression)} != named:
            continue
        from_zero = all(part.slot in not_negative for part in references(key.expression))
        made = _steps(wanted, key, index, from_zero=from_zero) or _classes(wanted, key, index)
        if made is not None and {_at(made, index, value) for value in key.values} == set(wanted.values):
            return index, made
    return None


def _at(made: Expression, index: int, value: Value | None) -> Value | None:
    """The wanted key of a released one."""
    cell: list[Value | None] = [None] * index
    return evaluate(made, (*cell, value))


def _classes(wanted: GroupKey, key: GroupKey, index: int) -> Expression | None:
    """CASE over equalities of a plain column of text, or of one that is true or false."""
    if not isinstance(key.expression, Reference) or not isinstance(wanted.expression, Case):
        return None
    results = (*(then for _, then in wanted.expression.branches), wanted.expression.otherwise)
    if not all(isinstance(part, Literal) for part in results):
        return None
    if not all(_is_naming(condition) for condition, _ in wanted.expression.branches):
        return None
    made = _over(wanted.expression, index)
    kind, listed = key.expression.type, key.values or ()
    others: list[Value | None] = [None] if key.expression.nullable and None not in listed else []
    others += [_UNNAMED] if kind.kind is Kind.TEXT else [v for v in (False, True) if v not in listed]
    if kind.kind is not Kind.TEXT and kind != BOOLEAN:
        return None
    return None if any(_at(made, index, value) in (wanted.values or ()) for value in others) else made


def _is_naming(condition: Expression) -> bool:
    """Whether a condition is true of named values alone."""
    if isinstance(condition, Call) and condition.function in ("or", "and"):
        return all(map(_is_naming, condition.args))
    if isinstance(condition, Reference):
        return condition.type == BOOLEAN
    if isinstance(condition, InList):
        return isinstance(condition.operand, Reference)
    return (
        isinstance(condition, Call)
        and condition.function == "eq"
        and {type(part) for part in condition.args} == {Reference, Literal}
    )


def _steps(wanted: GroupKey, key: GroupKey, index: int, *, from_zero: bool) -> Expression | None:
    """Steps of a column that hold released steps of it; ``from_zero``: the column has no numbers below 0."""
    made, following = _nested(wanted.expression, key.expression, index)
    if made is None or following is None:
        return None
    listed = sorted(
        (value for value in key.values or () if value is not None), key=lambda v: sort_key(v, key.expression.type)
    )
    if not listed or (None in (key.values or ())) != (None in (wanted.values or ())):
        return None
    try:
        if any(following(low, 1) != high for low, high in pairwise(listed)):
            return None
        ends = [] if listed[0] == 0 and from_zero else [(listed[0], -1)]
        outside = [following(value, by) for value, by in (*ends, (listed[-1], 1))]
    except (OverflowError, ValueError):
        # Before the first or after the last day there is.
        return None
    return None if any(_at(made, index, value) in (wanted.values or ()) for value in outside) else made


_Following = Callable[[Value, int], Value]


def _nested(wanted: Expression, fine: Expression, index: int) -> tuple[Expression | None, _Following | None]:
    """The wanted steps as a function of the finer ones, and the finer step after or before one."""
    if not isinstance(wanted, Call) or not wanted.args:
        return None, None
    if wanted.function == "int_div":
        large, small = _divisor(wanted), 1 if isinstance(fine, Reference) else _divisor(fine)
        if fine.type != INTEGER or not large or not small or large % small:
            return None, None
        slot = Reference(INTEGER, fine.domain, index, "") if isinstance(fine, Call) else _over(fine, index)
        return call("int_div", slot, literal(large // small, INTEGER)), lambda value, by: int(value) + by
    coarse, unit = _unit(wanted), _unit(fine) if isinstance(fine, Call) else "day"
    if coarse is None or unit is None or fine.type != wanted.args[-1].type:
        return None, None
    if isinstance(fine, Reference) and fine.type.kind is not Kind.DATE:
        return None, None
    if not _nests(unit, coarse):
        return None, None
    return _over(wanted, index), lambda value, by: _moved(value, unit, by)


def _divisor(node: Expression) -> int:
    """The positive constant that a column is divided by; 0 for another form."""
    if not isinstance(node, Call) or node.function != "int_div" or not isinstance(node.args[0], Reference):
        return 0
    by = node.args[1]
    return by.value if isinstance(by, Literal) and isinstance(by.value, int) and by.value > 0 else 0


def _unit(node: Call) -> str | None:
    """The unit of DATE_TRUNC of a column, or of YEAR."""
    if not isinstance(node.args[-1], Reference):
        return None
    if node.function == "year":
        return "year"
    unit = node.args[0]
    return str(unit.value) if node.function == "date_trunc" and isinstance(unit, Literal) else None


def _nests(fine: str, coarse: str) -> bool:
    if coarse == "week":
        return fine in _UNITS[:4]
    return fine in _UNITS and coarse in _UNITS and _UNITS.index(fine) <= _UNITS.index(coarse)


def _moved(value: Value, unit: str, by: int) -> Value:
    if not isinstance(value, dt.date):
        raise ValueError("a step of time is a date")
    if unit in _SPANS:
        return value + by * _SPANS[unit]
    months = 12 * value.year + value.month - 1 + by * _MONTHS[unit]
    return value.replace(year=months // 12, month=months % 12 + 1)


def _over(node: Expression, index: int) -> Expression:
    """The same function of the released key at a place."""
    return rewrite(node, lambda part: replace(part, slot=index) if isinstance(part, Reference) else None)
