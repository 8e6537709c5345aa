"""Bias table: noisy counts of units by what bounding left out of them, which every user-level query buys.

Bounding causes bias, not noise: rows beyond ``max_rows``, groups beyond ``max_groups``, values outside their bounds and
rows whose key is NULL or not listed are left out, and no interval covers them. A small share of the cost
(``bias_share``) buys noisy counts of units in the cells of one public table. Each unit is in exactly one cell, so that
one unit moves the table by 1 (by 2 under replace-one).

The table is an ordinary final aggregation (:func:`bias_query`); engines may count it from the rows of the query
instead.

The *loss* of a unit is the part of its contribution that the released numbers lack, in rows: for counts, rows; for
sums and means, multiples of the largest value within the bounds, in quarters. It is the largest loss of all
measurements. A keyed hash that no relation can express chooses the groups that a unit keeps, so the expected loss over
all choices is used: a unit with N values in g groups, K of them within ``max_rows``, keeps K·min(g, max_groups)/g.

The possible causes, and so the cells and the cost, follow from text and metadata.

The *query* that counts units in the cells, for engines that count them in SQL, of nodes that every engine supports::

    per unit and key: number of values, values beyond max_rows, clipping  (UnitAggregate)
    per unit:         their sums over listed keys, number of keys         (UnitAggregate)
    cell:             which causes apply, and the power of two of the loss (ProjectColumns)
    final:            COUNT(*) of each cell, one row of one group per unit

Proof: ``bias.proof.md``.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Final, NamedTuple

from tacit.query.aggregates import unit_call
from tacit.query.aggregates.family import AggregateCall
from tacit.query.limits import MAX_RELATIONS
from tacit.query.planning.auto_limits import TOTAL, searched_cause
from tacit.query.planning.measures import COUNT_ROWS, Measure, MeasureKind, count_measure
from tacit.query.planning.work import Sizes, cuts
from tacit.query.query import Aggregate, FinalAggregation, GroupKey
from tacit.query.relational import ownership
from tacit.query.relational.algebra import FirstRows, RelationNode, Scan, UnitCall, reference, walk_relations
from tacit.query.relational.expressions import (
    TRUE,
    Call,
    Case,
    Cast,
    Expression,
    Literal,
    literal,
    references,
    shift,
    walk,
)
from tacit.query.relational.functions import call, case, in_list
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, Domain, Kind, SqlType, Value, from_ordinal, ordinal

#: The causes: more groups than ``max_groups``, more rows than ``max_rows``, values outside their bounds, rows whose key
#: is NULL or not listed, texts that a CAST cannot read, and rows that are cut before a join multiplies them.
GROUPS: Final = "max_groups"
ROWS: Final = "max_rows"
CLIPPING: Final = "clipping"
KEYS: Final = "keys"
CASTS: Final = "casts"
JOINS: Final = "unit_rows"
CAUSES: Final = (GROUPS, ROWS, CLIPPING, KEYS, CASTS, JOINS)
#: Causes whose loss is not measured, only the number of units: rows in no group, or in no join.
UNMEASURED: Final = frozenset((KEYS, JOINS))
#: Largest number of buckets of a loss in rows; the last bucket has no end.
_MOST_BUCKETS: Final = 10
#: Parts of a row in which the loss of sums and means is counted, and their power of two.
_QUARTERS: Final = 4
#: Distinct sizes of a clipping excess, in quarters: powers of two, the last for any larger excess.
EXCESSES: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128)
#: Doubles up to this size hold whole numbers exactly.
_EXACT: Final = 2**53
#: Longer lists of ordered keys are compared by their smallest and largest key only.
LONG_LIST: Final = 64
#: Largest number of texts that all keys together are compared with; beyond, any non-NULL key counts as listed.
MOST_LISTED: Final = 3_000
#: Largest number of kinds of values of one query, so that the SQL statement stays within the limits of a clause.
_MOST_COUNTED: Final = 12
#: Size of the cache of intervals around bounds: the same columns occur in many queries.
_MOST_LIMITS: Final = 256
#: Largest number of relational operators that the bias query adds.
_NODES: Final = 10
#: Measurements that add up or rank values, and so depend on clipping bounds.
_RANKED: Final = (MeasureKind.LEAVES, MeasureKind.PLACES)
_ADDED: Final = (MeasureKind.SUM, MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES, MeasureKind.DISTINCT_SUM)
_BOUNDED: Final = (*_ADDED, *_RANKED)
#: Closed interval of values of a type; None for no end.
Interval = tuple[Value | None, Value | None]


@dataclass(frozen=True)
class BiasTable:
    """The cells of the table: for each possible cause whether it applies to a unit, and the bucket of the unit's loss.

    Args:
        causes: the possible causes, in the order of :data:`CAUSES`.
        buckets: number of buckets; each is a range of losses from one power of two to the next.
        parts: number of parts into which a row is divided, where losses are finer than rows.
    """

    causes: tuple[str, ...]
    buckets: int
    parts: int

    @cached_property
    def cells(self) -> int:
        return self.buckets << len(self.causes)

    @property
    def keys(self) -> list[tuple[Value | None, ...]]:
        """The key of each cell: for each cause whether it applies, then the bucket of the loss."""
        return list(product(*[(False, True)] * len(self.causes), range(self.buckets)))

    def listing(self) -> Iterator[tuple[int, frozenset[str], int]]:
        """Yield every cell that a unit can be in: its number, the causes that apply, and the bucket of the loss.

        Units without a measured loss are in one cell per set of causes, with bucket -1.
        """
        for cell, (*flags, bucket) in enumerate(product(*[(False, True)] * len(self.causes), range(self.buckets))):
            causes = frozenset(cause for cause, applies in zip(self.causes, flags, strict=True) if applies)
            if causes - UNMEASURED:
                yield cell, causes, bucket
            elif bucket == 0:
                yield cell, causes, -1

    def most(self, bucket: int) -> Fraction:
        """Return the largest loss of a bucket, in rows; expected losses are not whole; the last bucket has no end."""
        top = 2 ** (bucket + 1) - (0 if GROUPS in self.causes else 1)
        return Fraction(top, self.parts)


def bias_table(final: FinalAggregation) -> BiasTable | None:
    """Return the bias table of a query; None if nothing can be left out or every row is a separate unit."""
    source = final.source
    row_level = any(isinstance(node, Scan) and node.row_units for node in final.nodes)
    if row_level or not final.measures or not final.aggregates or source.weight > MAX_RELATIONS - _NODES:
        return None
    most = Sizes().rows(source)
    rows = [m.rows for m in final.measures if m.kind is not MeasureKind.UNITS]
    limits = final.limits
    groups = (limits is None or not limits.groups.single) and most > final.max_groups
    groups &= bool(final.keys) and (final.group_count is None or final.group_count > final.max_groups)
    if final.max_total is not None:
        groups, rows = False, [final.max_total]
    # A search for a single limit estimates the loss by that limit from its own counts.
    searched = searched_cause(final)
    found = {
        GROUPS: groups and searched not in (TOTAL, GROUPS),
        ROWS: bool(rows) and most > min(rows) and searched not in (TOTAL, ROWS),
        CLIPPING: any(_may_be_clipped(measure) for measure in final.measures),
        KEYS: final.public_keys and any(_may_be_dropped(key) for key in final.keys),
        CASTS: any(unread_text(measure) is not None for measure in final.measures),
        # The rows below joins are read once more.
        JOINS: bool(cuts(source)) and 2 * source.weight <= MAX_RELATIONS - _NODES,
    }
    causes = tuple([cause for cause in CAUSES if found[cause]])
    if not causes:
        return None
    parts = _QUARTERS if any(m.kind in _BOUNDED for m in final.measures) else 1
    buckets = min(_MOST_BUCKETS, max(most.bit_length(), 1)) + parts.bit_length() - 1
    return BiasTable(causes, buckets if set(causes) - UNMEASURED else 1, parts)


def _may_be_clipped(measure: Measure) -> bool:
    return measure.kind in _BOUNDED and measure.argument is not None and not _is_bounded(measure.argument)


def _is_bounded(argument: Expression) -> bool:
    """Whether no value can be outside the expression's range, whatever a table contains."""
    match argument:
        case Literal():
            return True
        case Call(function="clamp"):
            return True
        case Cast():
            return _is_bounded(argument.operand)
        case Case():
            return all(_is_bounded(part) for part in (*(then for _, then in argument.branches), argument.otherwise))
        case _:
            return argument.type.kind is Kind.BOOLEAN


def unread_text(measure: Measure) -> Expression | None:
    """Return the condition that a CAST in the argument cannot read a text that is there; None if no text is cast."""
    argument = measure.argument
    if argument is None:
        return None
    casts = [part for part in walk(argument) if isinstance(part, Cast) and part.operand.type.kind is Kind.TEXT]
    casts = [part for part in casts if part.type.kind is not Kind.TEXT and references(part.operand)]
    found = []
    for made in dict.fromkeys(casts):
        read = tuple(dict.fromkeys(references(made.operand)))
        # A format is a CASE around its CAST: if the argument reads nothing else, it is NULL where the text is unread.
        whole = argument if set(references(argument)) == set(read) else made
        there = [call("not", call("is_null", part)) for part in read]
        found.append(call("and", *there, call("is_null", whole)))
    return None if not found else found[0] if len(found) == 1 else call("or", *found)


def _may_be_dropped(key: GroupKey) -> bool:
    """Whether a row may have a value of the key that is not listed."""
    expression, listed = key.expression, key.values or ()
    if isinstance(expression, Case):
        results = (*(then for _, then in expression.branches), expression.otherwise)
        return not all(isinstance(part, Literal) and part.value in listed for part in results)
    if expression.type == BOOLEAN:
        return expression.nullable and None not in listed
    return True


def row_value(measure: Measure) -> Fraction:
    """Return the most that one row adds to a measurement, in steps; the larger bound of a total with stated bounds."""
    if measure.kind not in _BOUNDED or measure.kind in _RANKED:
        return Fraction(1)
    if measure.clamp != _row_clamp(measure):
        return Fraction(max(map(abs, measure.clamp)))
    reach = Fraction(max(measure.reach, 1))
    return reach**2 if measure.kind is MeasureKind.CENTRED_SQUARES else reach


def _row_clamp(measure: Measure) -> tuple[int, int]:
    """Return the clamp of a sum that follows from its ``rows`` and bounds."""
    low, high = measure.low - measure.centre, measure.high - measure.centre
    if measure.kind is MeasureKind.CENTRED_SQUARES:
        return 0, measure.rows * max(low**2, high**2)
    limits = (min(0, measure.rows * low), max(0, measure.rows * high))
    return limits if limits != (0, 0) else (0, 1)


def cell_counts(source: RelationNode, cell: Sequence[Expression], table: BiasTable) -> FinalAggregation:
    """Return the aggregation that counts cells over one row per unit; its cost depends on the table alone."""
    values: list[tuple[Value | None, ...]] = [(False, True)] * len(table.causes)
    keys = [
        GroupKey(name, part, listed)
        for name, part, listed in zip(
            (*table.causes, "loss"), cell, (*values, tuple(range(table.buckets))), strict=True
        )
    ]
    measure = count_measure(MeasureKind.ROWS, None, None, rows=1)
    shown = Aggregate(COUNT_ROWS, (0,), None, INTEGER, None, "people by cause of bias")
    return FinalAggregation(source, tuple(keys), (measure,), (shown,), 1, True, table.cells)


@dataclass(frozen=True)
class CountedValues:
    """Values of a unit in a group whose loss is computed, for all measurements of the same values.

    Args:
        measure: one of these measurements.
        clipped: whether values may be outside their clipping bounds.
        most: the most of these values that count in all groups together; None if each group has its own bound.
        cut: whether the loss by the bound on the number of values, or on their sum, is computed.
    """

    measure: Measure
    clipped: bool
    most: int | None = None
    cut: bool = True

    @property
    def unread(self) -> Expression | None:
        """The condition of rows whose text a CAST cannot read; None where no text is cast."""
        lost, where = unread_text(self.measure), self.measure.where
        return lost if lost is None or where is None else call("and", where, lost)

    @cached_property
    def once(self) -> bool:
        """Whether a unit counts once in a group, however many values it has there."""
        return self.measure.kind is MeasureKind.UNITS

    @cached_property
    def has_total(self) -> bool:
        """Whether the sum of the values is clamped; other values are bounded in number."""
        is_sum = self.measure.kind is MeasureKind.SUM and self.measure.argument is not None
        return is_sum and self.cut and self.most is None

    @cached_property
    def values(self) -> tuple[str, Expression | None, Expression | None]:
        """Function that counts the values, its argument and its condition."""
        function = "count_distinct" if self.measure.kind.traits.unites else "count"
        argument = self.measure.argument
        return "count_rows" if argument is None else function, argument, self.measure.where


def counted_values(final: FinalAggregation, table: BiasTable) -> list[CountedValues]:
    """Return the values of a query whose losses are computed, at most :data:`_MOST_COUNTED` kinds."""
    found: dict[object, CountedValues] = {}
    for measure in final.measures:
        most = None if measure.kind is MeasureKind.UNITS else final.max_total
        clipped = CLIPPING in table.causes and _may_be_clipped(measure)
        each = CountedValues(measure, clipped, most, ROWS in table.causes)
        bounds = (measure.low, measure.high, measure.step, measure.centre)
        limits = (measure.clamp if each.has_total else None, bounds if each.has_total or each.clipped else None)
        found.setdefault((*each.values, each.once, measure.rows, each.clipped, *limits), each)
    # The loss of a count of the same values as a mean is at most the loss of the mean.
    means = [each for each in found.values() if each.clipped and not each.has_total]
    in_means = [(each.values, each.measure.rows) for each in means]
    kept = [
        each
        for each in found.values()
        if each.clipped or each.has_total or (each.values, each.measure.rows) not in in_means
    ]
    return kept[:_MOST_COUNTED]


def moves_to_bounds(measure: Measure) -> bool:
    """Whether values of a sum are clamped before they are added up; values of other sums are within the bounds."""
    argument = measure.argument
    if argument is None or _is_bounded(argument) or not argument.type.is_numeric:
        return False
    return None not in [_value(end * measure.step, argument.type) for end in (measure.low, measure.high)]


def total_argument(measure: Measure) -> Expression:
    """Return the clamped value as it is summed; a DOUBLE as its number of steps, as it is released."""
    argument = measure.argument
    if argument is None:
        raise AssertionError("a sum has an argument")
    if moves_to_bounds(measure):
        ends = [_value(end * measure.step, argument.type) for end in (measure.low, measure.high)]
        low, high = (literal(end, argument.type) for end in ends)
        # NULL stays NULL, as it does not under GREATEST.
        argument = call("clamp", argument, low, high)
    if argument.type.kind is not Kind.DOUBLE:
        return argument
    steps = call("div", argument, literal(float(measure.step), DOUBLE))
    # Nearest, ties up; the double below one half would be rounded up when one half is added.
    nearest = call("floor", call("add", steps, literal(0.5, DOUBLE)))
    return case([(call("eq", steps, literal(math.nextafter(0.5, 0), DOUBLE)), literal(0, INTEGER))], nearest)


def totals_steps(measure: Measure) -> bool:
    """Whether the total of :func:`total_argument` equals the released total in steps, as an integer."""
    if measure.argument is None or total_type(measure).kind is Kind.DOUBLE:
        return False
    stored = measure.argument.type
    double = stored.kind is Kind.DOUBLE and max(abs(measure.low), abs(measure.high)) <= _EXACT // 4
    return (double or (stored.kind is not Kind.DOUBLE and measure.step == stored.step)) and is_within(measure)


def is_within(measure: Measure) -> bool:
    """Whether no added value is outside the bounds of the measurement; most values are clamped to them."""
    if moves_to_bounds(measure):
        return True
    ends = None if measure.argument is None else measure.argument.range.ends
    return ends is not None and measure.low * measure.step <= ends[0] and ends[1] <= measure.high * measure.step


def total_type(measure: Measure) -> SqlType:
    if measure.argument is None or measure.argument.type.kind in (Kind.INTEGER, Kind.DOUBLE):
        return INTEGER
    return unit_call(AggregateCall("sum", total_argument(measure), measure.where, None, None, None), None)[0].type


def total_limits(measure: Measure, kind: SqlType) -> Sequence[Interval]:
    """Return intervals of increasing width around the clamp of a total, in values of the total's type."""
    one = Fraction(1) if measure.argument is not None and measure.argument.type.kind is Kind.DOUBLE else measure.step
    ends = measure.clamp[0] * one, measure.clamp[1] * one
    return _limits(ends, row_value(measure) * one / _QUARTERS, kind)


def excess_limits(measure: Measure) -> Sequence[Interval]:
    """Return intervals of increasing width around the clipping bounds, by quarters of the largest value."""
    if measure.argument is None:
        raise AssertionError("only values have bounds")
    ends = measure.low * measure.step, measure.high * measure.step
    return _limits(ends, max(measure.reach, 1) * measure.step / _QUARTERS, measure.argument.type)


@lru_cache(_MOST_LIMITS)
def _limits(ends: tuple[Fraction, Fraction], quarter: Fraction, kind: SqlType) -> tuple[Interval, ...]:
    lows = [_value(ends[0] - steps * quarter, kind, up=False) for steps in EXCESSES[:-1]]
    highs = [_value(ends[1] + steps * quarter, kind, up=True) for steps in EXCESSES[:-1]]
    return tuple(zip(lows, highs, strict=True))


def _value(place: Fraction, kind: SqlType, *, up: bool = True) -> Value | None:
    """Return the type's value at a place or, rounded in the given direction, next to it; None if there is none."""
    step = kind.step
    if step is not None:
        place = (math.ceil(place / step) if up else math.floor(place / step)) * step
    return from_ordinal(place, kind)


def lists_exactly(final: FinalAggregation, table: BiasTable) -> bool:
    """Whether the rows of the query decide the table: no join cuts rows, and public lists are compared in full."""
    if JOINS in table.causes:
        return False
    if KEYS not in table.causes:
        return True
    for key in final.keys:
        kind, listed = key.expression.type, [item for item in key.values or () if item is not None]
        if len(listed) > LONG_LIST and (kind.is_numeric or kind.is_temporal):
            # If each value is one step from the next, no unlisted value lies between the ends.
            places = sorted(ordinal(item, kind) for item in listed)
            if kind.step is None or places[-1] - places[0] != (len(set(places)) - 1) * kind.step:
                return False
        elif len(listed) > MOST_LISTED // len(final.keys):
            return False
    return True


# -- the query


#: Size of the cache of bias queries.
_MOST_RECENT: Final = 32
_RECENT: OrderedDict[int, tuple[FinalAggregation, BiasTable, FinalAggregation]] = OrderedDict()
_LOCK: Final = threading.Lock()


def bias_query(final: FinalAggregation, table: BiasTable) -> FinalAggregation:
    """Return the final aggregation that counts units in the cells of the table, over the same rows as ``final``.

    The most recent results are cached, so that engines recognise the aggregation of a query at another cost.
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
    """The steps of the bias query, for an engine that runs them together with the query.

    Columns of each step are numbered from 0, in the order given; constants are not columns.

    Args:
        calls: aggregates over the rows of a unit and a group; they come after the unit and the keys.
        pair: expressions per unit and group, over unit, keys and ``calls``.
        totals: for each call the measurement whose clamped values it sums; None for other calls. The sum comes right
            after the count of its values.
        of_unit: expressions per unit: over the sums of ``pair`` over the unit's listed groups, then the number of its
            unlisted groups if there may be any, then the number of its listed groups if there are keys.
        cell: for each cause whether it applies, then the bucket; over ``of_unit``.
    """

    calls: tuple[UnitCall, ...]
    totals: tuple[Measure | None, ...]
    pair: tuple[Expression, ...]
    of_unit: tuple[Expression, ...]
    cell: tuple[Expression, ...]


def loss_stages(final: FinalAggregation, table: BiasTable) -> LossStages:
    """Return the steps of the bias query."""
    return _staged(final, table)[1]


def _staged(final: FinalAggregation, table: BiasTable) -> tuple[RelationNode, LossStages]:
    """Return the relation with one row per unit, and the steps that compute it."""
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
    # Rows are converted to parts of rows once per unit, not once per group.
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
    """Return one row per unit, and whether it has more rows than may enter a join that multiplies them."""
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
    """Return the relation of some expressions, and references to its columns; constants stay constants."""
    kept = _columns(parts)
    made = ownership.compute(source, [(None, part) for part in kept])
    places = iter(range(len(kept)))
    return made, [part if isinstance(part, Literal) else reference(made, next(places)) for part in parts]


class _Loss(NamedTuple):
    """Losses of one kind of measurement: all values, cut values of a group, clipping excess, and unread texts.

    In parts of a row; in a single group, values, values cut by their number and unread texts are in rows.
    """

    all: Expression
    cut: Expression
    excess: Expression
    unread: Expression

    @property
    def beside(self) -> Expression:
        """The loss from rows that are kept: clipping excess and unread texts."""
        return _plus(self.excess, self.unread)


def _calls(each: CountedValues) -> list[tuple[UnitCall, Domain]]:
    """Return calls for the number of values and, if needed, their total, excess and number of unread texts."""
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
    """Return whether a value is outside its bounds, false for NULL; few values are, so little is added up."""
    low, high = bounds
    parts = [] if low is None else [call("lt", value, literal(low, value.type))]
    parts += [] if high is None else [call("gt", value, literal(high, value.type))]
    return call("or", *parts) if len(parts) > 1 else parts[0] if parts else _FALSE


def _called(function: str, argument: Expression | None, where: Expression | None) -> tuple[UnitCall, Domain]:
    return unit_call(AggregateCall(function, argument, where, None, None, None), None)


def _whole(number: int) -> Literal:
    return literal(number, INTEGER)


def _beyond(value: Expression, limits: Sequence[Interval]) -> Expression:
    """Return the quarters beyond the bounds, rounded up to a power of two, by comparisons alone: no overflow."""
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
    """Return the losses in one group of a unit, from the columns of the calls."""
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
        elif not each.once and each.cut and (each.most is None or each.measure.rows < each.most):
            most = _whole(each.measure.rows)
            cut = call("sub", call("greatest", number, most), most)
        unread = columns.pop() if each.unread is not None else _whole(0)
        excess = call("coalesce", columns[-1], _whole(0)) if each.clipped else _whole(0)
        found.append(_Loss(number, cut, excess, unread))
    return found


def _beyond_all(each: CountedValues, number: Expression, cut: Expression) -> Expression:
    """Return the number of a unit's values that are cut, if values are bounded over all groups together."""
    if each.most is None or not each.cut:
        return cut
    beyond = call("sub", call("greatest", number, _whole(each.most)), _whole(each.most))
    # Rows beyond the bound of a group are cut first: what is kept is the lesser of both.
    return beyond if cut == _whole(0) else call("greatest", beyond, cut)


def _parts(rows: Expression, table: BiasTable) -> Expression:
    return rows if table.parts == 1 or rows == _whole(0) else call("mul", rows, _whole(table.parts))


def _computed(
    paired: RelationNode, losses: Sequence[_Loss], final: FinalAggregation, table: BiasTable
) -> tuple[RelationNode, list[Expression]]:
    """Return one row per unit: losses over all listed keys, number of unlisted keys, number of listed keys."""
    columns: list[Expression] = [part for loss in losses for part in loss]
    if not final.keys:
        # One group: no sum over groups.
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
    """Return whether all keys of a row are on their public lists; never NULL."""
    parts = [_is_listed(value, key, MOST_LISTED // len(keys)) for value, key in zip(values, keys, strict=True)]
    return call("coalesce", call("and", *parts) if len(parts) > 1 else parts[0], _FALSE)


_FALSE: Final = literal(False, BOOLEAN)


def _is_listed(value: Expression, key: GroupKey, most: int) -> Expression:
    listed = [item for item in key.values or () if item is not None]
    ordered = value.type.is_numeric or value.type.is_temporal
    if not listed:
        found: Expression = _FALSE
    elif len(listed) > LONG_LIST and ordered:
        # Ordered keys with this many values are usually days or numbers without gaps.
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
    """Return, for each cause, whether it applies; the loss; and the weight in it of one part of a row."""
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
    """Return the bucket of a loss; a NULL loss, from an overflow, is in the last bucket."""
    limits = [call("mul", one, _whole(2 ** (i + 1))) for i in range(table.buckets - 1)]
    return case([(call("lt", loss, limit), _whole(i)) for i, limit in enumerate(limits)], _whole(len(limits)))


def _any(amounts: Iterable[Expression]) -> Expression:
    """Whether any amount is above 0."""
    parts = [call("gt", amount, _whole(0)) for amount in amounts if not isinstance(amount, Literal)]
    return _FALSE if not parts else parts[0] if len(parts) == 1 else call("or", *parts)


def _amount(loss: _Loss, groups: Expression, kept: Expression) -> Expression:
    """Return the loss times the number of groups: all values minus those kept in the kept groups, plus the excess."""
    remaining = loss.all if loss.cut == _whole(0) else call("sub", loss.all, loss.cut)
    stays = call("mul", remaining, call("least", groups, kept))
    missing = call("sub", call("mul", loss.all, groups), stays)
    return missing if loss.beside == _whole(0) else _plus(missing, call("mul", loss.beside, groups))
