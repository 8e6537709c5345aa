"""Coarser questions about a release: one whose cells are sums of cells that were released before.

:func:`coarser` compares two plans, so that its outcome depends on text and public metadata alone. The wanted question
may have fewer keys, keys in another order, keys that follow from released ones (:func:`nested_key`), fewer aggregates,
and conditions on the keys of the release that choose among its cells. Everything else has to be equal: the rows that
are read, other conditions, limits, measurements. That is found out by taking from the release's own aggregation what
the wanted question lacks, pruning it as every question is pruned, and comparing the canonical texts.

*Keys that follow from released keys*: quarters of months, wider buckets of integers, classes of categories. A group by
a coarser key is a union of released groups where its key is a function of released keys *and* no row outside the
released groups belongs to it. Rows outside are rows with another value than those listed: an undeclared category, a day
outside declared bounds. So a coarser key is accepted in two forms, in which both can be seen from public lists:

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
from itertools import pairwise, product
from typing import Final

from tacit.query.aggregates import expected_error
from tacit.query.parsing.query_options import Options
from tacit.query.planning.measures import AggregateKind
from tacit.query.planning.plan import Plan, limits_of
from tacit.query.planning.set_totals import ADDITIVE, set_sizes
from tacit.query.question import Derive, FinalAggregation, GroupKey, Question, Shape, Step, Totals, shape
from tacit.query.relational import ownership
from tacit.query.relational.algebra import FilterRows, RelationNode, relation_text
from tacit.query.relational.expressions import (
    TRUE,
    Call,
    Case,
    Expression,
    InList,
    Literal,
    Reference,
    literal,
    references,
    rewrite,
    text_of,
)
from tacit.query.relational.functions import call, evaluate
from tacit.query.relational.narrowing import conjuncts
from tacit.query.types import BOOLEAN, INTEGER, Domain, Kind, Value, sort_key

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


#: A number of values in a group at which errors of averages are compared.
_SUPPOSED: Final = 10**6


def coarser(wanted: Plan, stored: Plan) -> Plan | None:
    """The plan of a release with the wanted question asked of its cells; None where they do not hold the answer."""
    if not _comparable(wanted, stored):
        return None
    final, finer = wanted.final, stored.final
    matched = _matched_keys(final, finer)
    found = _matched(final.shapes[1], finer.shapes[1])
    if matched is None or found is None:
        return None
    keys, derived = [index for index, _ in matched], tuple(made for _, made in matched)
    derived = derived if any(made is not None for made in derived) else ()
    extra = _conditions(final.source, finer)
    if extra is None or not (extra or derived or len(keys) < len(finer.keys)):
        return None
    source = finer.source if not extra else ownership.keep(finer.source, _all_of([over for over, _ in extra]))
    if not _equal(final, replace(finer, source=source), keys, found, derived):
        return None
    where = _all_of([on_keys for _, on_keys in extra]) if extra else None
    if not _covered(wanted, stored, keys, plain=where is None and not derived):
        return None
    if where is not None and (derived or not _same_groups(final, finer, keys, where)):
        return None
    aggregates = tuple(replace(each, measures=tuple(found[i] for i in each.measures)) for each in final.aggregates)
    asked = replace(finer, aggregates=aggregates)
    return replace(
        stored,
        question=_question(wanted.question, asked, keys, where, derived),
        terms=replace(stored.terms, confidence=wanted.terms.confidence),
    )


def errs_no_more(wanted: Plan, free: Plan) -> bool:
    """Whether no cell of a coarser question, answered from a release, errs more than the wanted plan would."""
    beta, final = 1 - wanted.confidence, wanted.final
    fresh, sums = wanted.question.totals, free.question.totals
    if sums is None:
        raise AssertionError("a coarser question is made of totals")
    bought = [None] if fresh is None else [each.total for each in set_sizes(final, fresh)]
    for total, each in zip(bought, set_sizes(free.final, sums), strict=True):
        for own, other in zip(final.aggregates, free.final.aggregates, strict=True):
            limit = expected_error(final, own, wanted.priced, beta, _SUPPOSED, total).bound
            error = expected_error(free.final, other, free.priced, beta, _SUPPOSED, each.total).bound
            if limit is None or error is None or error > limit:
                return False
    return True


def _comparable(wanted: Plan, stored: Plan) -> bool:
    """Whether both ask about the same data on the same terms, with aggregates that add up."""
    final, finer = wanted.final, stored.final
    # A release of fewer rows holds no answer about more; of many releases most are about others.
    if len(final.keys) > len(finer.keys) or not finer.conditions <= final.conditions:
        return False
    if not (wanted.is_summable and stored.is_summable):
        return False
    if any(each.kind not in ADDITIVE for each in final.aggregates) or not final.aggregates:
        return False
    units = any(each.kind is AggregateKind.COUNT_UNITS for each in final.aggregates)
    same = (wanted.relation, wanted.catalog, final.population) == (stored.relation, stored.catalog, finer.population)
    return same and _limits(final) == _limits(finer) and not (units and finer.max_groups > 1)


def _limits(final: FinalAggregation) -> tuple[object, ...]:
    """Where the limits of a person come from; that there is one group or row anyway follows from the keys."""
    known = limits_of(final)
    return tuple((each.declared, each.stated, each.most) for each in (known.groups, known.rows))


def _matched(wanted: Sequence[Shape], there: Sequence[Shape]) -> list[int] | None:
    return [there.index(each) for each in wanted] if all(each in there for each in wanted) else None


def _matched_keys(final: FinalAggregation, finer: FinalAggregation) -> list[tuple[int, Expression | None]] | None:
    """For each wanted key the released one that it is, or that it follows from, and how."""
    found: list[tuple[int, Expression | None]] = []
    not_negative = {slot for part in _conjuncts(finer.source) if (slot := _kept_from_zero(part)) is not None}
    for key, own in zip(final.keys, final.shapes[0], strict=True):
        if own in finer.shapes[0]:
            found.append((finer.shapes[0].index(own), None))
            continue
        made = nested_key(key, finer.keys, not_negative=not_negative)
        if made is None:
            return None
        found.append(made)
    # Two keys of one released key would leave combinations out that no row can have.
    indices = [index for index, _ in found]
    return found if len(set(indices)) == len(indices) else None


def _conditions(source: RelationNode, finer: FinalAggregation) -> list[tuple[Expression, Expression]] | None:
    """Conditions that the wanted question has more: over the release's source, and over its keys by index.

    None where one of them reads something else than plain keys of the release.
    """
    columns = {key.expression.name: i for i, key in enumerate(finer.keys) if isinstance(key.expression, Reference)}
    found: list[tuple[Expression, Expression]] = []

    def over(node: Expression) -> Expression | None:
        return finer.keys[columns[node.name]].expression if isinstance(node, Reference) else None

    def on_keys(node: Expression) -> Expression | None:
        return replace(node, slot=columns[node.name]) if isinstance(node, Reference) else None

    for part in _conjuncts(source):
        if shape(part) in finer.conditions:
            continue
        if not all(each.name in columns for each in references(part)):
            return None

        found.append((rewrite(part, over), rewrite(part, on_keys)))
    return found


def _conjuncts(source: RelationNode) -> list[Expression]:
    return list(conjuncts(source.condition)) if isinstance(source, FilterRows) else []


def _kept_from_zero(condition: Expression) -> int | None:
    """The slot of the column of ``x >= c`` or ``x > c`` with a constant c of at least 0; None for other conditions."""
    if not isinstance(condition, Call) or condition.function not in ("ge", "gt", "le", "lt"):
        return None
    column, least = condition.args if condition.function in ("ge", "gt") else condition.args[::-1]
    if not isinstance(column, Reference) or not isinstance(least, Literal) or not isinstance(least.value, int):
        return None
    return column.slot if least.value >= 0 else None


def _all_of(parts: Sequence[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else call("and", *parts) if parts else TRUE


def _equal(
    final: FinalAggregation,
    finer: FinalAggregation,
    keys: Sequence[int],
    measures: Sequence[int],
    derived: Sequence[Expression | None],
) -> bool:
    """Whether the wanted keys and measurements of a release, pruned, are those of the wanted aggregation."""
    from tacit.query.rules import merge_filters, prune_columns

    part = replace(
        finer,
        keys=tuple(
            finer.keys[index]
            if not derived or derived[place] is None
            else _written(final.keys[place], finer.keys[index])
            for place, index in enumerate(keys)
        ),
        measures=tuple(finer.measures[index] for index in measures),
        aggregates=(),
    )
    made = merge_filters(prune_columns(Question(part, (), (), Options()))).final
    if relation_text(made.source) != relation_text(final.source):
        return False
    if [text_of(key.expression) for key in made.keys] != [text_of(key.expression) for key in final.keys]:
        return False
    return [each.text for each in made.measures] == [each.text for each in final.measures]


def _written(wanted: GroupKey, stored: GroupKey) -> GroupKey:
    """The wanted key over the columns of the release; both read one column, of the same name."""
    column = references(stored.expression)[0]
    return replace(
        wanted, expression=rewrite(wanted.expression, lambda n: column if isinstance(n, Reference) else None)
    )


def _covered(wanted: Plan, stored: Plan, keys: Sequence[int], *, plain: bool) -> bool:
    """Whether a release holds the wanted groups; of one by levels, those by keys that some level has."""
    levels = [release for release in stored.releases if release.levels]
    totals = wanted.question.totals
    sets = [keys] if totals is None else [[keys[totals.keys[place]] for place in places] for places in totals.sets]
    return all(plain and release.basis.covers(kept) for release in levels for kept in sets)


def _same_groups(final: FinalAggregation, finer: FinalAggregation, keys: Sequence[int], where: Expression) -> bool:
    """Whether the cells that a condition keeps make exactly the public groups of the wanted question."""
    chosen = {
        tuple(cell[index] for index in keys)
        for cell in product(*(_values(key) for key in finer.keys))
        if evaluate(where, cell) is True
    }
    return chosen == set(product(*(_values(key) for key in final.keys)))


def _values(key: GroupKey) -> tuple[Value | None, ...]:
    return key.values or ()


def _question(
    wanted: Question,
    asked: FinalAggregation,
    keys: Sequence[int],
    where: Expression | None,
    derived: tuple[Expression | None, ...],
) -> Question:
    """The wanted question over totals of the cells of a release."""
    totals, steps = wanted.totals, wanted.steps
    dropped = len(asked.keys) - len(keys)
    if totals is not None:
        again = tuple(derived[index] for index in totals.keys) if derived else ()
        made = Totals(tuple(keys[index] for index in totals.keys), totals.sets, dropped, where, again)
        return replace(wanted, final=asked, steps=(made, *steps[1:]))
    width = len(keys)
    made = Totals(tuple(keys), (tuple(range(width)),), dropped, where, derived)
    columns = [(slot, made.type_of(slot, asked.types)) for slot in range(width)]
    columns += [(2 * width + number, each.type) for number, each in enumerate(asked.aggregates)]
    plain: Step = Derive(tuple(Reference(kind, Domain(), slot, "") for slot, kind in columns))
    return replace(wanted, final=asked, steps=(made, plain, *steps))
