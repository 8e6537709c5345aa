"""Query that counts units in the cells of the table of what bounding left out: for engines that count them in SQL.

It is an ordinary final aggregation, made of nodes that every engine knows::

    per unit and key: number of values, values beyond max_rows, clipping  (UnitAggregate)
    per unit:         the same added up over listed keys, number of keys  (UnitAggregate)
    cell:             which causes apply, and the power of two of the loss (ProjectColumns)
    final:            COUNT(*) of each cell, one row of one group per unit
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tacit.query.aggregate_family import AggregateCall
from tacit.query.aggregates import unit_call
from tacit.query.planning.bias import (
    CASTS,
    CLIPPING,
    EXCESSES,
    GROUPS,
    JOINS,
    KEYS,
    LONG_LIST,
    MOST_LISTED,
    ROWS,
    BiasTable,
    CountedValues,
    Interval,
    cell_counts,
    counted_values,
    excess_limits,
    total_argument,
    total_limits,
)
from tacit.query.planning.measures import Measure
from tacit.query.query import FinalAggregation, GroupKey
from tacit.query.relational import ownership
from tacit.query.relational.algebra import FirstRows, RelationNode, UnitCall, reference, walk_relations
from tacit.query.relational.expressions import TRUE, Expression, Literal, literal, shift
from tacit.query.relational.functions import call, case, in_list
from tacit.query.types import BOOLEAN, INTEGER, Domain

#: Queries about tables that are kept.
_MOST_RECENT: Final = 32
_RECENT: OrderedDict[int, tuple[FinalAggregation, BiasTable, FinalAggregation]] = OrderedDict()
_LOCK: Final = threading.Lock()


def bias_query(final: FinalAggregation, table: BiasTable) -> FinalAggregation:
    """The final aggregation that counts units in the cells of the table, over the same rows as ``final``.

    The last ones are kept, so that other prices of one query find what engines have remembered about it.
    """
    with _LOCK:
        known = _RECENT.get(id(final))
    if known is not None and known[:2] == (final, table):
        return known[2]
    made = _query(final, table)
    with _LOCK:
        # The aggregation is kept with its id, so that the id stays its own.
        _RECENT[id(final)] = final, table, made
        while len(_RECENT) > _MOST_RECENT:
            _RECENT.popitem(last=False)
    return made


def _query(final: FinalAggregation, table: BiasTable) -> FinalAggregation:
    source, stages = _staged(final, table)
    return cell_counts(source, stages.cell, table)


@dataclass(frozen=True, slots=True)
class LossStages:
    """The query step by step, for an engine that goes along with it while it measures another one.

    Columns of each step are numbered from 0 on, in the order given, and constants are no columns.

    Args:
        calls: aggregates over the rows of a unit and a group; they come after the unit and the keys.
        pair: of a unit and a group, over unit, keys and ``calls``.
        totals: for each call the measurement whose total it is, of values within their bounds; None for other calls.
            The total comes right after the number of its values.
        of_unit: over the sums of ``pair`` over a unit's listed groups, the number of its other groups if there may be
            any, and that of its listed groups if there are keys.
        cell: for each cause whether it applies, and the bucket; over ``of_unit``.
    """

    calls: tuple[UnitCall, ...]
    totals: tuple[Measure | None, ...]
    pair: tuple[Expression, ...]
    of_unit: tuple[Expression, ...]
    cell: tuple[Expression, ...]


def loss_stages(final: FinalAggregation, table: BiasTable) -> LossStages:
    """The steps of the query about a table."""
    return _staged(final, table)[1]


def _staged(final: FinalAggregation, table: BiasTable) -> tuple[RelationNode, LossStages]:
    """The relation with one row per unit, and the steps to it."""
    unit = final.source.unit
    if unit is None:
        raise AssertionError("a final aggregation needs an owned source")
    counted = [(each, _calls(each)) for each in counted_values(final, table)]
    calls = [made for _, own in counted for made in own]
    keys = [(None, reference(final.source, unit)), *((None, key.expression) for key in final.keys)]
    source = ownership.group(final.source, keys, calls)
    found = _losses(source, counted, len(source.fields) - len(calls))
    source, parts = _computed(source, found, final, table)
    groups, others = parts.pop(), parts.pop()
    # Rows are turned into parts of rows once for a unit, not for each of its groups.
    losses = [
        _Loss(
            _parts(number, table),
            cut if each.has_total else _parts(_beyond_all(each, number, cut), table),
            excess,
            _parts(unread, table),
        )
        for (each, _), number, cut, excess, unread in zip(
            counted, parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True
        )
    ]
    # One step more, so that an engine computes a loss once and not for every power of two.
    flags, loss, one = _flags(losses, groups, others, final, table)
    of_unit = [*flags, loss, one]
    source, (*flags, loss, one) = _named(source, of_unit)
    if JOINS in table.causes:
        source, marks = _cut_before_joins(source, final)
        flags[table.causes.index(JOINS)] = marks
    cell = (*flags, _bucket(loss, one, table))
    pair = _columns(part for each in found for part in each)
    totals = [each.measure if i == 1 and each.has_total else None for each, own in counted for i in range(len(own))]
    return source, LossStages(tuple(made for made, _ in calls), tuple(totals), pair, _columns(of_unit), cell)


def _cut_before_joins(source: RelationNode, final: FinalAggregation) -> tuple[RelationNode, Expression]:
    """One row per unit, and whether it has more rows than may enter a join that multiplies them."""
    parts: list[Expression] = []
    for node in dict.fromkeys(each for each in walk_relations(final.source) if isinstance(each, FirstRows)):
        below = node.source
        if below.unit is None or source.unit is None:
            raise AssertionError("rows of persons are cut")
        counted = ownership.group(below, [(None, reference(below, below.unit))], [_called("count_rows", None, None)])
        many = ownership.keep(counted, call("gt", reference(counted, 1), _whole(node.most)))
        width = len(source.fields)
        same = call("eq", reference(source, source.unit), shift(reference(many, 0), width))
        source = ownership.mark(source, many, same)
        parts.append(reference(source, width))
    return source, parts[0] if len(parts) == 1 else call("or", *parts)


def _columns(parts: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(part for part in parts if not isinstance(part, Literal))


def _named(source: RelationNode, parts: Sequence[Expression]) -> tuple[RelationNode, list[Expression]]:
    """The relation of some expressions, and references to them; constants stay what they are."""
    kept = _columns(parts)
    made = ownership.compute(source, [(None, part) for part in kept])
    places = iter(range(len(kept)))
    return made, [part if isinstance(part, Literal) else reference(made, next(places)) for part in parts]


class _Loss(NamedTuple):
    """For one kind of measurement: all values, values that are cut in their group, excess, and texts that are not read.

    In parts of a row; of a single group, values, those of them that are cut by their number and texts in rows.
    """

    all: Expression
    cut: Expression
    excess: Expression
    unread: Expression

    @property
    def beside(self) -> Expression:
        """What is lost of rows that are kept."""
        return _plus(self.excess, self.unread)


def _calls(each: CountedValues) -> list[tuple[UnitCall, Domain]]:
    """Number of values, then the total of a sum, the excess, and the number of unread texts; as far as there are."""
    measure = each.measure
    calls = [_called(*each.values)]
    if each.has_total:
        calls.append(_called("sum", total_argument(measure), measure.where))
    if each.clipped and measure.argument is not None:
        limits = excess_limits(measure)
        outside = _outside(measure.argument, limits[0])
        where = outside if measure.where is None else call("and", measure.where, outside)
        calls.append(_called("sum", _beyond(measure.argument, limits), where))
    if each.unread is not None:
        calls.append(_called("count_rows", None, each.unread))
    return calls


def _outside(value: Expression, bounds: Interval) -> Expression:
    """Whether a value is outside its bounds: few are, so that little is added up. NULL is not."""
    low, high = bounds
    parts = [] if low is None else [call("lt", value, literal(low, value.type))]
    parts += [] if high is None else [call("gt", value, literal(high, value.type))]
    return call("or", *parts) if len(parts) > 1 else parts[0] if parts else _FALSE


def _called(function: str, argument: Expression | None, where: Expression | None) -> tuple[UnitCall, Domain]:
    return unit_call(AggregateCall(function, argument, where, None, None, None), None)


def _whole(number: int) -> Literal:
    return literal(number, INTEGER)


def _beyond(value: Expression, limits: Sequence[Interval]) -> Expression:
    """Quarters outside some ends, rounded up to a power of two; comparisons alone, so that nothing can overflow."""
    branches = []
    for steps, (low, high) in zip(EXCESSES, limits, strict=False):
        inside = [] if low is None else [call("ge", value, literal(low, value.type))]
        inside += [] if high is None else [call("le", value, literal(high, value.type))]
        branches.append((call("and", *inside) if len(inside) > 1 else inside[0] if inside else TRUE, _whole(steps)))
    return case(branches, _whole(EXCESSES[-1]))


def _losses(
    relation: RelationNode,
    counted: Sequence[tuple[CountedValues, Sequence[object]]],
    first: int,
) -> list[_Loss]:
    """The losses in one group of a unit, from the columns of the calls."""
    found, slot = [], first
    for each, calls in counted:
        columns = [reference(relation, slot + i) for i in range(len(calls))]
        slot += len(columns)
        number: Expression = columns[0]
        if each.once:
            number = case([(call("gt", number, _whole(0)), _whole(1))], _whole(0))
        cut: Expression = _whole(0)
        if each.has_total:
            total = columns[1]
            cut = case([(call("is_null", total), _whole(0))], _beyond(total, total_limits(each.measure, total.type)))
        elif not each.once and each.cut and each.most is None:
            most = _whole(each.measure.rows)
            cut = call("sub", call("greatest", number, most), most)
        unread = columns.pop() if each.unread is not None else _whole(0)
        excess = call("coalesce", columns[-1], _whole(0)) if each.clipped else _whole(0)
        found.append(_Loss(number, cut, excess, unread))
    return found


def _beyond_all(each: CountedValues, number: Expression, cut: Expression) -> Expression:
    """Values of a unit that are cut, where they are counted in all groups together."""
    if each.most is None or not each.cut:
        return cut
    return call("sub", call("greatest", number, _whole(each.most)), _whole(each.most))


def _parts(rows: Expression, table: BiasTable) -> Expression:
    return rows if table.parts == 1 or rows == _whole(0) else call("mul", rows, _whole(table.parts))


def _computed(
    paired: RelationNode, losses: Sequence[_Loss], final: FinalAggregation, table: BiasTable
) -> tuple[RelationNode, list[Expression]]:
    """One row per unit: its losses over all listed keys, then the number of other keys, then of listed ones."""
    columns: list[Expression] = [part for loss in losses for part in loss]
    if not final.keys:
        # One group, and nothing to add up.
        source, parts = _named(paired, columns)
        return source, [*parts, _whole(0), _whole(1)]
    listed: Expression = TRUE
    if KEYS in table.causes:
        listed = _listed([reference(paired, 1 + i) for i in range(len(final.keys))], final.keys)
    source, (owner, holds, *columns) = _named(paired, [reference(paired, 0), listed, *columns])
    where = None if listed == TRUE else holds
    summed = [part for part in columns if not isinstance(part, Literal)]
    calls = [_called("sum", part, where) for part in summed] + [_called("count_rows", None, where)]
    if where is not None:
        calls.append(_called("count_rows", None, call("not", where)))
    source = ownership.group(source, [(None, owner)], calls)
    places = iter(range(1, 1 + len(calls)))
    # A sum over no rows is NULL.
    added = [
        part if isinstance(part, Literal) else call("coalesce", reference(source, next(places)), _whole(0))
        for part in columns
    ]
    groups = reference(source, next(places))
    others = _whole(0) if where is None else reference(source, next(places))
    return _named(source, [*added, others, groups])


def _listed(values: Sequence[Expression], keys: Sequence[GroupKey]) -> Expression:
    """Whether all keys of a row are on their public lists; never NULL."""
    parts = [_is_listed(value, key, MOST_LISTED // len(keys)) for value, key in zip(values, keys, strict=True)]
    return call("coalesce", call("and", *parts) if len(parts) > 1 else parts[0], _FALSE)


_FALSE: Final = literal(False, BOOLEAN)


def _is_listed(value: Expression, key: GroupKey, most: int) -> Expression:
    listed = [item for item in key.values or () if item is not None]
    ordered = value.type.is_numeric or value.type.is_temporal
    if not listed:
        found: Expression = _FALSE
    elif len(listed) > LONG_LIST and ordered:
        # Keys of so many values are days, numbers and the like, without gaps.
        low, high = (literal(end(listed), value.type) for end in (min, max))
        found = call("and", call("ge", value, low), call("le", value, high))
    elif len(listed) > most:
        found = call("not", call("is_null", value))
    else:
        found = in_list(value, [literal(item, value.type) for item in listed])
    if None in (key.values or ()):
        found = call("or", call("is_null", value), call("coalesce", found, _FALSE))
    return found


def _flags(
    losses: Sequence[_Loss], groups: Expression, others: Expression, final: FinalAggregation, table: BiasTable
) -> tuple[list[Expression], Expression, Expression]:
    """For each cause whether it applies; the loss; and what one part of it is worth there."""
    kept = _whole(final.max_groups)
    applies = {
        GROUPS: call("gt", groups, kept),
        ROWS: _any(loss.cut for loss in losses),
        CLIPPING: _any(loss.excess for loss in losses),
        KEYS: call("gt", others, _whole(0)),
        CASTS: _any(loss.unread for loss in losses),
        JOINS: _FALSE,
    }
    cut = GROUPS in table.causes
    amounts = [_amount(loss, groups, kept) if cut else _plus(loss.cut, loss.beside) for loss in losses]
    loss = amounts[0] if len(amounts) == 1 else call("greatest", *amounts)
    one: Expression = _whole(1)
    # A unit may be in no listed group at all.
    return [applies[cause] for cause in table.causes], loss, call("greatest", groups, one) if cut else one


def _plus(one: Expression, other: Expression) -> Expression:
    nothing = _whole(0)
    return other if one == nothing else one if other == nothing else call("add", one, other)


def _bucket(loss: Expression, one: Expression, table: BiasTable) -> Expression:
    """The power of two of a loss; one that is NULL, because it is too large, is in the last bucket."""
    limits = [call("mul", one, _whole(2 ** (i + 1))) for i in range(table.buckets - 1)]
    return case([(call("lt", loss, limit), _whole(i)) for i, limit in enumerate(limits)], _whole(len(limits)))


def _any(amounts: Iterable[Expression]) -> Expression:
    """Whether any amount is above 0."""
    parts = [call("gt", amount, _whole(0)) for amount in amounts if not isinstance(amount, Literal)]
    return _FALSE if not parts else parts[0] if len(parts) == 1 else call("or", *parts)


def _amount(loss: _Loss, groups: Expression, kept: Expression) -> Expression:
    """The loss times the number of groups: all, less what stays of each group over the groups that stay; and excess."""
    remaining = loss.all if loss.cut == _whole(0) else call("sub", loss.all, loss.cut)
    stays = call("mul", remaining, call("least", groups, kept))
    missing = call("sub", call("mul", loss.all, groups), stays)
    return missing if loss.beside == _whole(0) else _plus(missing, call("mul", loss.beside, groups))
