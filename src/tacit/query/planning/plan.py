"""Plan: releases, noise, cost and error of a query.

Planning reads no data and can be repeated freely: equal text, metadata and request give an equal plan with an
equal digest. The guarantee of a plan is the one that the request states. Before a plan is returned, the accounting
layer composes its events, which must cost no more than that guarantee.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, Final, NamedTuple

from tacit.accounting.currencies import AccountGuarantee, currency_named
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.numbers import float_nearest
from tacit.core.relations import Relation
from tacit.query.aggregates import entry_of, expected_error
from tacit.query.aggregates.family import ExpectedError
from tacit.query.catalog import Catalog
from tacit.query.contribution import AUTO
from tacit.query.parsing.parse import Options
from tacit.query.planning import auto_bounds, auto_limits
from tacit.query.planning.auto_bounds import MOST_STEPS, Bounds, Found, bounded, find, search_of, sought
from tacit.query.planning.auto_limits import FoundLimits, limited, with_stated_total
from tacit.query.planning.bias import BiasTable, bias_query
from tacit.query.planning.measures import ContributionLimit, ContributionLimits
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.pricing import (
    NamedAggregates,
    buy,
    buy_accuracy,
    buy_rest,
    check_charge,
    check_units_of_totals,
    places_of,
    set_sizes,
    sets_of_part,
    totals_of_part,
)
from tacit.query.planning.releases import KeySelection, Priced, PricedPart, Release, Weights, many
from tacit.query.planning.work import WholeWork, cuts, unit_work, whole_work
from tacit.query.query import Aggregate, Append, Combine, Derive, FinalAggregation, Match, Query, Regroup, TotalOf
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    FirstRows,
    RelationNode,
    ReleasedTable,
    ReleasedValue,
    Scan,
    bottom_up,
    released_values,
)
from tacit.query.relational.expressions import Reference, literal
from tacit.query.request import BOUNDS, KEYS, LIMITS, Request, Terms, settle
from tacit.query.types import Value


class Stage(NamedTuple):
    """One measurement of data, and the releases that its budget buys."""

    final: FinalAggregation
    priced: Priced


@dataclass(frozen=True)
class Plan:
    """The releases of a query and their cost. Every derived value is computed once, when it is first read.

    Args:
        query: the resolved query, with the ``max_groups`` of the request.
        terms: the settled request.
        relation: which databases are neighbours.
        priced: the releases, the selection of keys, and how the budget is divided.
        guarantee: the charge, in the currency of the account: PureDP, ApproxDP, ZCDP or GDP.
        event: the composed event of all releases, for accountants.
        catalog: a digest of the metadata; empty when the query was made by hand.
        found: the AUTO bounds, once their search has run; see :func:`with_found`.
        limits: the AUTO limits, once their search has run; see :func:`with_found`.
        others: plans of the further parts of the query, one per aggregation after the first. ``priced``, ``found`` and
            ``limits`` are those of the first part; ``guarantee`` and ``event`` cover all parts together.
    """

    query: Query
    terms: Terms
    relation: Relation
    priced: Priced
    guarantee: AccountGuarantee
    event: ComposedEvent
    catalog: str = ""
    found: tuple[Found, ...] = ()
    limits: FoundLimits | None = None
    others: tuple[Plan, ...] = ()

    @cached_property
    def parts(self) -> tuple[Plan, ...]:
        """One plan per aggregation, in the order in which they run; the plan itself if the query has only one."""
        if not self.others:
            return (self,)
        query = Query(self.final, (), (), Options())
        return (
            replace(self, query=query, event=self.priced.event(self.relation), others=()),
            *self.others,
        )

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that the query reads, each once."""
        return tuple(dict.fromkeys([name for part in self.parts for name in part.final.tables]))

    @cached_property
    def searches(self) -> tuple[Stage, ...]:
        """The searches that have not run yet, in order: for AUTO limits, then for AUTO bounds."""
        pending = []
        if self.priced.limits is not None and self.limits is None:
            pending.append(Stage(auto_limits.search_of(self.final), self.priced.limits))
        if self.priced.first is not None and not self.found:
            pending.append(Stage(search_of(self.final), self.priced.first))
        return tuple(pending)

    @property
    def first(self) -> Stage | None:
        """The next search to run before the query; None if no search is left."""
        return self.searches[0] if self.searches else None

    @cached_property
    def bias(self) -> Stage | None:
        """The bias table, which runs after the query; None if the budget buys no bias table."""
        part = self.priced.bias
        return None if part is None else Stage(bias_query(self.final, part.table), part.priced)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All measurements, in the order in which they run: searches for AUTO, the query, its bias table."""
        last = () if self.bias is None else (self.bias,)
        own = (*self.searches, Stage(self.final, self.priced), *last)
        return (*own, *(stage for other in self.others for stage in other.stages))

    @property
    def measured(self) -> tuple[tuple[FinalAggregation, BiasTable | None], ...]:
        """The aggregations that an engine must accept before anything runs, each with its bias table, if any.

        An aggregation with AUTO limits is given with the largest limits that the search can find.
        """
        final = auto_limits.widest(self.final) if self.final.seeks_limits else self.final
        own = [*[(search.final, None) for search in self.searches], (final, self.losses)]
        return (*own, *[each for other in self.others for each in other.measured])

    @cached_property
    def losses(self) -> BiasTable | None:
        """Cells of the bias table; None if the budget buys no bias table."""
        return None if self.priced.bias is None else self.priced.bias.table

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases except the selection of keys."""
        return self.priced.releases

    @property
    def keys(self) -> KeySelection | None:
        """Private selection of group keys; None if the keys are public."""
        return self.priced.keys

    @cached_property
    def final(self) -> FinalAggregation:
        """The step at which data becomes noisy numbers."""
        return self.query.final

    @cached_property
    def unit_work(self) -> int:
        """Bound on the row operations of one unit in the whole query; see :mod:`tacit.query.planning.work`."""
        # A search for AUTO bounds reads the same relation once more; a search for AUTO limits also groups it.
        work = unit_work(self.final) * (1 if self.priced.first is None else 2)
        if self.priced.limits is not None:
            work += unit_work(auto_limits.search_of(self.final))
        work += 0 if self.bias is None else unit_work(self.bias.final)
        return work + sum(other.unit_work for other in self.others)

    @cached_property
    def whole_work(self) -> WholeWork:
        """Row operations over all rows in the whole query, from the declared sizes of the tables."""
        once = whole_work(self.final)
        work = once if self.priced.first is None else once + once
        if self.priced.limits is not None:
            work += whole_work(auto_limits.search_of(self.final))
        if self.bias is not None:
            work += whole_work(self.bias.final)
        return reduce(WholeWork.__add__, (other.whole_work for other in self.others), work)

    @cached_property
    def seeks_limits(self) -> bool:
        """Whether AUTO limits are not found yet; until then noise and errors are those of one group and one row."""
        return self.priced.limits is not None and self.limits is None

    @cached_property
    def errors(self) -> tuple[ExpectedError, ...]:
        """Expected error of one cell of each aggregate of the first part, at the confidence."""
        return tuple(self._error(aggregate) for aggregate in self.final.aggregates)

    def set_errors(self, part: int) -> tuple[tuple[tuple[str, ...] | None, tuple[ExpectedError, ...]], ...]:
        """Expected errors of one cell of a part: per grouping set with its keys, or once, with None, if it has none."""
        own, sets = self.parts[part], totals_of_part(self.query, part)
        if not sets:
            return ((None, own.errors),)
        sizes = [size for totals in sets for size in set_sizes(own.final, totals)]
        return tuple(
            (each.names, tuple(own._error(aggregate, each.total) for aggregate in own.final.aggregates))
            for each in sizes
        )

    @property
    def cell_errors(self) -> tuple[tuple[int, tuple[str, ...] | None, int, ExpectedError], ...]:
        """Tuples (part, keys of the grouping set, aggregate, its expected error), in the order of an explanation."""
        return tuple(
            (part, keys, index, error)
            for part in range(len(self.parts))
            for keys, errors in dict.fromkeys(self.set_errors(part))
            for index, error in enumerate(errors)
        )

    def _error(self, aggregate: Aggregate, total: TotalOf | None = None) -> ExpectedError:
        beta, suppose = 1 - self.terms.confidence, self.terms.suppose
        error = expected_error(self.final, aggregate, self.priced, beta, suppose, total)
        growth = 0 if self.found else min(self.final.growth(aggregate.measures), entry_of(aggregate.kind).power)
        if not growth or error.bound is None:
            return error
        return replace(error, bound=error.bound / MOST_STEPS**growth, power=growth)

    @cached_property
    def digest(self) -> str:
        """A digest of everything that decides the answer and the charge."""
        amounts = [(name, getattr(self.guarantee, name, None)) for name in ("epsilon", "delta", "rho", "mu")]
        stated = [f"{name}={amount}" for name, amount in amounts if amount is not None]
        parts = [
            repr(self.query.text),
            repr(self.catalog),
            repr(self.relation.value),
            repr(self.terms),
            self.priced.text,
            repr((type(self.guarantee).__name__, *stated)),
            repr(self.found),
            *([] if self.limits is None else [repr(self.limits)]),
            *[repr((other.priced.text, other.found, other.limits)) for other in self.others],
        ]
        return hashlib.sha256(f"({', '.join(parts)})".encode()).hexdigest()


def make_plan(sql: str, catalog: Catalog, request: Request) -> Plan:
    """Return the plan of a query, or refuse it; reads no data.

    Raises:
        Refusal: the query cannot be answered privately as written.
        InputError: the request contradicts itself, the query or the account.
    """
    from tacit.query.resolve import resolve

    query = resolve(sql, catalog, max_rows=request.stated_rows)
    relation = catalog.population(query.final.population).relation
    return plan_query(query, relation, request, catalog=catalog.digest)


def plan_query(query: Query, relation: Relation, request: Request, *, catalog: str = "") -> Plan:
    """Plan a query that is already resolved with the ``max_rows`` of the request, if any; see :func:`make_plan`."""
    return plan_on_terms(query, relation, settle(request, query.options), catalog=catalog)


def plan_on_terms(query: Query, relation: Relation, terms: Terms, *, catalog: str = "") -> Plan:
    """Plan a resolved query on settled terms; see :func:`plan_query`. Equal arguments give equal plans."""
    if terms.currency == "within":
        query = replace(
            query,
            final=auto_bounds.with_known_ranges(query.final),
            others=tuple(map(auto_bounds.with_known_ranges, query.others)),
        )
    if terms.currency == "within" and any(final.seeks_bounds for final in query.finals):
        raise InputError(
            "within",
            "cannot be promised before AUTO bounds are found: noise grows with them; state epsilon, or write "
            "CLAMP(x, lo, hi)",
        )
    finals = [_with_groups(final, terms, has_totals=query.has_totals) for final in query.finals]
    query = replace(query, final=finals[0], others=tuple(finals[1:]))
    for final in finals:
        _check_keys(final, terms)
    if query.has_totals:
        check_units_of_totals(query)
    names = _names(query) if terms.weights or terms.within else {}
    parts = _weighed(query, terms, names)
    if terms.currency == "within":
        bought, guarantee = buy_accuracy(query, parts, relation, terms, names)
    else:
        bought, guarantee = buy(parts, relation, terms, terms.currency, terms.amount)
    others = tuple(
        [
            Plan(Query(final, (), (), Options()), terms, relation, priced, guarantee, priced.event(relation), catalog)
            for final, priced in zip(finals[1:], bought[1:], strict=True)
        ]
    )
    event = bought[0].event(relation)
    if others:
        event = together([event, *[other.event for other in others]], relation)
    check_charge(event, guarantee)
    return Plan(query, terms, relation, bought[0], guarantee, event, catalog, others=others)


def together(events: Sequence[ComposedEvent], relation: Relation) -> ComposedEvent:
    """Compose the events of all releases of a query into one event."""
    return ComposedEvent(tuple(event for each in events for event in each.events), relation=relation)


def _with_groups(final: FinalAggregation, terms: Terms, *, has_totals: bool) -> FinalAggregation:
    """Return the aggregation with the contribution bounds that the request states, as if the text stated them."""
    limits = limits_of(final)
    if terms.max_rows is not None and limits.rows.stated != terms.max_rows:
        raise InternalError("the query was resolved for another max_rows than its terms state")
    if terms.max_groups is not None:
        groups = limits.groups.stating(terms.max_groups, final.source)
        limits = replace(limits, groups=groups)
        final = replace(final, max_groups=groups.among(final.group_count), limits=limits)
    if isinstance(terms.max_rows_total, int):
        return with_stated_total(final, terms.max_rows_total, limits)
    if not has_totals:
        final = auto_limits.seeking_total(final, both=terms.account != "pure")
    if terms.max_rows_total == AUTO and not (final.auto_total or final.auto_rows):
        raise Refusal(
            "option",
            "max_rows_total = AUTO has nothing to find, because max_rows is stated or declared: state a number, or "
            "max_rows = AUTO beside it.",
        )
    if terms.currency == "within" and final.seeks_limits:
        # An error bound is promised before any search, so that noise is that of public default limits.
        return auto_limits.stated(final, auto_limits.default_limits(final))
    return final


def limits_of(final: FinalAggregation) -> ContributionLimits:
    """Return the contribution bounds with their origin; an aggregation made by hand gives its own numbers."""
    return final.limits or ContributionLimits(
        ContributionLimit("max_groups", final.max_groups, single=not final.keys),
        ContributionLimit("max_rows", max((measure.rows for measure in final.measures), default=1)),
    )


def _check_keys(final: FinalAggregation, terms: Terms) -> None:
    if final.public_keys:
        return
    if terms.rule == "PUBLIC_GROUPS":
        raise Refusal(
            "option", "These groups are not public: group by declared categories, or leave PUBLIC_GROUPS out."
        )
    if not currency_named(terms.account).has_delta:
        # Keys with public values are chosen privately too where their product is too large.
        name = next((key.name for key in final.keys if key.values is None), final.keys[0].name)
        raise Refusal(
            "option",
            f"These groups are not public, and choosing them privately needs a delta, which a {terms.account} account "
            f"does not have: group by a column with declared categories, list the values with WHERE {name} IN (…), or "
            "have the owner of the data declare categories, or keep the account as zcdp, which has a delta beside rho.",
        )
    if not terms.delta:
        raise Refusal(
            "option",
            "These groups are not public, and choosing them privately needs a delta: state one, such as delta = 1e-8, "
            "or group by declared categories.",
        )


def _weighed(query: Query, terms: Terms, names: NamedAggregates) -> list[PricedPart]:
    """Return each aggregation with one weight per measurement: the largest weight of the aggregates that read it."""
    stated = dict(terms.weights)
    keys, bounds, limits = [stated.pop(name, Fraction(1)) for name in (KEYS, BOUNDS, LIMITS)]
    by_place: dict[tuple[int, int], Fraction] = {}
    for name, weight in stated.items():
        for place in places_of(name, names, "weights"):
            by_place[place] = max(weight, by_place.get(place, weight))
    found = []
    has_totals = query.has_totals
    for part, final in enumerate(query.finals):
        weights = []
        for measure in range(len(final.measures)):
            read = [
                by_place.get((part, i), Fraction(1)) for i, a in enumerate(final.aggregates) if measure in a.measures
            ]
            weights.append(max(read, default=Fraction(1)))
        sets = sets_of_part(query, part) if has_totals else ()
        found.append(PricedPart(final, Weights(weights, keys, bounds, limits), sets))
    return found


def _names(query: Query) -> NamedAggregates:
    """Map names to aggregates: the column that shows an aggregate, or its SQL text if that text is unique."""
    places = [(part, index) for part, final in enumerate(query.finals) for index in range(len(final.aggregates))]
    labels = [query.finals[part].aggregates[index].label.lower() for part, index in places]
    unique = {
        label: frozenset((place,)) for label, place in zip(labels, places, strict=True) if labels.count(label) == 1
    }
    named = zip(query.columns, _shown(query), strict=False)
    return unique | {column.name.lower(): shown for column, shown in named if shown}


def column_names(query: Query) -> dict[tuple[int, int], str]:
    """Return the aliases of columns that show an aggregate unchanged, by (part, aggregate).

    A column without an alias is named after its function, which is less precise than the text of the aggregate.
    """
    found: dict[tuple[int, int], str] = {}
    for column, shown in zip(query.columns, _shown(query), strict=False):
        for part, index in shown:
            function = query.finals[part].aggregates[index].label.partition("(")[0].partition("_")[0]
            if column.name.partition("_")[0] != function:
                found.setdefault((part, index), column.name)
    return found


def _shown(query: Query) -> list[frozenset[tuple[int, int]]]:
    """Return, for each column after all steps, the aggregates that it shows unchanged."""
    nothing = frozenset[tuple[int, int]]()
    # A row of a grouping set has its keys, and for each whether it is left out.
    shown = [nothing] * (len(query.final.keys) if query.totals is None else 2 * len(query.totals.keys))
    shown += [frozenset(((query.part, index),)) for index in range(len(query.final.aggregates))]
    for step in query.steps:
        match step:
            case Derive():
                shown = [
                    shown[part.slot] if isinstance(part, Reference) and part.slot < len(shown) else nothing
                    for part in step.expressions
                ]
            case Regroup():
                shown = []
            case Combine():
                shown = [*shown, *_shown(step.other)]
            case Match():
                shown = [*shown, *([nothing] * len(step.relation.fields))]
            case Append():
                others = _shown(step.other)
                shown = [one | other for one, other in zip(shown, others, strict=False)]
            case _:
                pass
    return shown


# -- outline


#: Largest number of tables named in the description of rows cut before a join.
_CUTS = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """The part of an :class:`Explanation` that a receipt repeats: quick to compute."""

    unit: str
    bounding: str
    keys: str


def outline(plan: Plan) -> Outline:
    """Describe the protected unit, the contribution bounds and the group keys of a plan."""
    units = []
    for scan in protected_scans(plan):
        if scan.row_units:
            units.append(f"every row of {scan.table}")
        elif scan.path:
            units.append(f"{scan.path[-1].table}.{scan.unit_source}, reached from {scan.table}.{scan.path[0].column}")
        else:
            units.append(f"{scan.table}.{scan.unit_source}")
    return Outline("; ".join(dict.fromkeys(units)), by_part(plan, _bounding), by_part(plan, _keys))


def by_part(plan: Plan, words: Callable[[Plan], str]) -> str:
    """Join a description of each part of a query, with the part's number if there are several."""
    said = [words(part) for part in plan.parts]
    return said[0] if len(said) == 1 else "; ".join(f"part {i}: {each}" for i, each in enumerate(said, 1))


def protected_scans(plan: Plan) -> list[Scan]:
    """Return the scans of protected tables that a plan reads."""
    nodes = [node for part in plan.parts for node in part.final.nodes]
    return [node for node in nodes if isinstance(node, Scan) and node.unit is not None]


def _bounding(plan: Plan) -> str:
    final = plan.final
    rows = max((measure.rows for measure in final.measures), default=1)
    auto = plan.seeks_limits
    counted = "as many rows as AUTO finds" if auto and final.auto_rows else f"at most {many(rows, 'row')}"
    parts = [f"{counted} of a unit count per group"]
    if auto and final.auto_total:
        return (
            f"as many rows as AUTO finds of a unit count, shared out among its groups in proportion{_entering(final)}"
        )
    if final.max_total is not None:
        parts = [f"at most {many(final.max_total, 'row')} of a unit count, shared out among its groups in proportion"]
        parts += [f"at most {many(rows, 'row')} per group"] if rows < final.max_total else []
    if final.keys:
        kept = (
            "as many groups as AUTO finds"
            if auto and final.auto_groups
            else f"at most {many(final.max_groups, 'group')}"
        )
        parts.append(f"in {kept}, chosen by a keyed hash")
    if released_values(final.source):
        parts.append("beside values that another part releases first")
    return ", ".join(parts) + _entering(final)


def _entering(final: FinalAggregation) -> str:
    """Describe the maximum number of rows that enter each join which multiplies rows."""
    if not any(isinstance(node, FirstRows) for node in final.nodes):
        return ""
    entering = [f"{most} of {name}" for name, most in cuts(final.source)]
    shown = ", ".join(entering[:_CUTS]) + (", …" if len(entering) > _CUTS else "")
    return f", of those that enter joins which multiply them, chosen by a keyed hash: {shown}"


def _keys(plan: Plan) -> str:
    final = plan.final
    names = ", ".join(key.name for key in final.keys)
    if not final.keys:
        return "one group of all units"
    if plan.keys is None:
        return f"public: all {final.group_count} values of {names}, present in the data or not"
    needed = plan.keys.mechanism().error(1 - plan.terms.confidence)
    chance = percent(plan.terms.confidence)
    where = ", where AUTO finds max_groups 1" if plan.seeks_limits and final.auto_groups else ""
    return (
        f"private: values of {names} with enough units; a group of {needed} units is kept with probability "
        f"{chance}{where}"
    )


def percent(share: Fraction) -> str:
    """Format a share as a percentage."""
    return f"{float_nearest(100 * share):.6g}%"


# -- plans of parts with released values, AUTO bounds or AUTO limits that were found; noise and cost stay


#: The error that noise exceeds with this probability is compared with the truncation bias of AUTO limits.
_COMPARED: Final = Fraction(1, 20)


def with_values(plan: Plan, released: Mapping[str, Sequence[Sequence[Value | None]]]) -> Plan:
    """Return the plan of a part with the released values that its rows are compared or joined with, at the same cost.

    Args:
        plan: the plan of the part.
        released: the released rows by key; a scalar is the value of the first row, NULL if there is no row.
    """

    def known(node: RelationNode) -> RelationNode:
        if not isinstance(node, ReleasedValue):
            return node
        rows, kinds = released[node.key], [column.type for column in node.fields]
        if not isinstance(node, ReleasedTable):
            rows = rows[:1] or [[None]]
        elif len(rows) > len(node.rows):
            raise InternalError("more rows were released than were planned")
        return ownership.constants([[*map(literal, row, kinds)] for row in rows], node.fields)

    source = bottom_up(plan.final.source, known)
    return replace(plan, query=replace(plan.query, final=replace(plan.final, source=source)))


def with_parts(plan: Plan, parts: Sequence[Plan]) -> Plan:
    """Return the plan of a whole query from the plans of its parts as they ran; the cost stays the same."""
    if len(parts) != len(plan.parts):
        raise InternalError("a query has other parts than its plan")
    if len(parts) == 1:
        return parts[0]
    first, *others = parts
    query = replace(plan.query, final=first.final, others=tuple(other.final for other in others))
    event = together([part.event for part in parts], plan.relation)
    check_charge(event, plan.guarantee)
    return replace(first, query=query, event=event, others=tuple(others))


def with_bounds(plan: Plan, bounds: Sequence[Bounds]) -> Plan:
    """Return the plan of the remaining query with the AUTO bounds that were found; the cost stays the same."""
    query = replace(plan.query, final=bounded(plan.final, bounds))
    found = tuple(Found(value.name, *pair) for value, pair in zip(sought(plan.final), bounds, strict=True))
    return replace(_priced_again(plan, query), found=found)


def with_limits(plan: Plan, found: FoundLimits) -> Plan:
    """Return the plan of the remaining query with the AUTO limits that were found; the cost stays the same."""
    query = replace(plan.query, final=limited(plan.final, found))
    return replace(_priced_again(plan, query), limits=found)


def with_found(plan: Plan, noisy: Sequence[Any], laws: Sequence[NoiseLaw]) -> Plan:
    """Return the plan of the remaining query from the noisy counts that its next search released."""
    if plan.priced.limits is None or plan.limits is not None:
        return with_bounds(plan, find(plan.final, noisy, laws))
    # Noise is compared at one fixed confidence, so that reading an answer again at another confidence keeps the limits.
    return with_limits(plan, auto_limits.find_limits(plan.final, plan.priced, noisy, laws, _COMPARED))


def _priced_again(plan: Plan, query: Query) -> Plan:
    """Return the plan of ``query``, which has the bounds or limits found, at the same cost."""
    bought = plan.priced
    if bought.asked is None:
        raise InternalError("there is nothing AUTO to be found")
    rest = buy_rest(query.final, plan.relation, bought.budget, bought.asked, bought.first, bought.limits, bought.sets)
    priced = replace(rest, bias=bought.bias)
    event = priced.event(plan.relation)
    check_charge(event, plan.guarantee)
    return replace(plan, query=query, priced=priced, event=event)
