"""Explanation of a plan in text.

:func:`explain` gives an :class:`Explanation`: its attributes for Python, :meth:`Explanation.to_json` for programs
(stable keys, exact numbers as text), and ``str`` for people. A caller with an engine attaches its statements by
:meth:`Explanation.with_engine_sql`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from tacit.accounting.currencies import currency_of
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import format_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE
from tacit.core.sensitivity import Sensitivity
from tacit.core.text_files import visible
from tacit.query.aggregates.family import ExpectedError
from tacit.query.aggregates.ranks import RankChoice
from tacit.query.planning.auto_bounds import FALSE_CELL, MOST_STEPS, sought
from tacit.query.planning.auto_limits import cells_of, ladder
from tacit.query.planning.bias import CASTS, CLIPPING, JOINS, KEYS, BiasTable, bias_table
from tacit.query.planning.plan import (
    Plan,
    by_part,
    column_names,
    limits_of,
    outline,
    percent,
    protected_scans,
    with_limits,
)
from tacit.query.planning.pricing import set_sizes, totals_of_part
from tacit.query.planning.releases import PlanBudget, Release
from tacit.query.query import FinalAggregation, PublicQuery, Query, Totals
from tacit.query.relational.algebra import released_values, scans

_DIGITS = 4
#: Longer SQL statements are cut in the middle when they are shown as text.
_LONGEST = 2000
#: Largest number of grouping sets that are listed.
_MOST_SETS = 8


@dataclass(frozen=True, slots=True)
class ExplainedRelease:
    """One release: its measurements, its sensitivity with the reason, and its noise.

    Args:
        name: the measurements and the aggregates that read them.
        mechanism: ``laplace``, ``gaussian``, ``constant``, ``exponential``, or the rule of key selection.
        l1_sensitivity: exact, as text.
        l2_sensitivity: rounded up.
        reason: why one unit moves the release by no more than that.
        scale: of Laplace noise, or σ of Gaussian noise, in released integers; the threshold of key selection, where
            it has one.
        share: of the budget, exact, as text.
        cost: in the currency in which the budget is divided.
        integers: number of integers released per group.
    """

    name: str
    mechanism: str
    l1_sensitivity: str
    l2_sensitivity: str
    reason: str
    scale: str
    share: str
    cost: str
    integers: int


@dataclass(frozen=True, slots=True)
class ExplainedError:
    """Expected error of one cell.

    Args:
        label: alias of the column that shows the aggregate, or the text of the aggregate.
        bound: rounded up; None if it depends on the number of values and the request supposes none.
        meaning: the bound as text.
    """

    label: str
    bound: str | None
    meaning: str


@dataclass(frozen=True)
class Explanation:
    """Everything known of a plan before it runs; every number is a function of text, metadata and request.

    Args:
        population: the population whose account is charged.
        protected: the protected tables that are read.
        unit: description of the protected unit.
        relation: name of the neighbouring relation.
        bounding: description of the contribution bounds of one unit.
        limits: ``max_groups`` and ``max_rows``, and whether the owner declares or the query states them, as text.
        keys: description of the group keys.
        bounds: the AUTO bounds found, or the values whose bounds a search will find, as text; None without any.
        bias: the share of the cost for the bias table, and the causes of bias that it counts, as text; None if nothing
            can be left out.
        releases: in the order in which they are made: the searches for AUTO, the selection of keys, the releases of
            the query, the bias table. While AUTO bounds are not found, sensitivities and scales that depend on them
            are multiples of b, the larger of the two bounds in steps.
        charge: the guarantee of the whole query, in the currency of the account.
        account: kind of the account.
        alone: the charge as (ε, δ); None if it already is one.
        confidence: confidence level of the errors, exact, as text.
        errors: one per aggregate.
        digest: of the plan.
        engine_sql: the SQL that the engine will run; None until it is attached.
        sets: the grouping sets of ROLLUP, CUBE or GROUPING SETS and the computation of totals, as text; None without
            any.
        advice: sentences on how to get less noise.
        public: whether the query reads public tables alone, so that the answer is exact and nothing is charged.
        steps: the parts that wait for released values of other parts, as text; None if no part does.
    """

    population: str
    protected: tuple[str, ...]
    unit: str
    relation: str
    bounding: str
    limits: str
    keys: str
    bounds: str | None
    releases: tuple[ExplainedRelease, ...]
    charge: str
    account: str
    alone: str | None
    confidence: str
    errors: tuple[ExplainedError, ...]
    digest: str
    engine_sql: str | None = None
    advice: tuple[str, ...] = ()
    bias: str | None = None
    sets: str | None = None
    public: bool = False
    steps: str | None = None

    def with_engine_sql(self, sql: str) -> Explanation:
        """Return a copy with the statements that an engine will run."""
        return replace(self, engine_sql=sql)

    def to_json(self) -> str:
        """Return JSON text with sorted keys and exact numbers as text."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    def __str__(self) -> str:
        return visible("\n".join(_lines(self)))


def explain(plan: Plan) -> Explanation:
    """Explain the releases of a plan, the reasons for its privacy guarantee, its cost and its expected errors."""
    said = outline(plan)
    return Explanation(
        population=plan.final.population,
        protected=tuple(dict.fromkeys(scan.table for scan in protected_scans(plan))),
        unit=said.unit,
        relation=plan.relation.value,
        bounding=said.bounding,
        limits=by_part(plan, _limits),
        keys=said.keys,
        bounds=_of_parts(plan, _bounds),
        releases=tuple(_all_releases(plan)),
        charge=_charge(plan),
        account=plan.terms.account,
        alone=_alone(plan),
        confidence=str(plan.terms.confidence),
        errors=_errors(plan),
        digest=plan.digest,
        advice=tuple(dict.fromkeys(sentence for part in plan.parts for sentence in _advice(part))),
        bias=_of_parts(plan, _bias),
        sets=sets_in_words(plan.query, [_levels(part) for part in plan.parts]),
        steps=_steps(plan),
    )


def _levels(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return the keys of the levels that get noise, from the first release that has levels."""
    return next((tuple(level.axes for level in each.levels) for each in plan.releases if each.levels), ())


def _steps(plan: Plan) -> str | None:
    """Describe the order of parts that read the released values of other parts."""
    queries, words = dict(plan.query.values), []
    for number, part in enumerate(plan.parts, 1):
        read = {1 + other for key in released_values(part.final.source) for other in queries[key].parts_read}
        if read:
            named = " and ".join(f"part {other}" for other in sorted(read))
            verb = "is" if len(read) == 1 else "are"
            words.append(f"{named} {verb} released first; part {number} then reads what was released as constants")
    return "; ".join(words) or None


def explain_public(query: PublicQuery, confidence: Fraction) -> Explanation:
    """Explain a query about public tables alone: it is about no person, and nothing is released or charged."""
    tables = ", ".join(dict.fromkeys(scan.table for scan in scans(query.relation))) or "no table"
    return Explanation(
        population="",
        protected=(),
        unit="no person: no protected table is read",
        relation=ADD_REMOVE.value,
        bounding="no rows of people are read",
        limits="none",
        keys=f"rows of {tables}, as they are",
        bounds=None,
        releases=(),
        charge="nothing: public tables alone, answered exactly",
        account="no",
        alone=None,
        confidence=str(confidence),
        errors=(),
        digest=query.digest,
        public=True,
    )


def _errors(plan: Plan) -> tuple[ExplainedError, ...]:
    """Return one error per aggregate of each part; with grouping sets, one per aggregate and distinct set."""
    found: list[ExplainedError] = []
    known = column_names(plan.query)
    single = [len(plan.set_errors(number)) == 1 for number in range(len(plan.parts))]
    for number, names, index, error in plan.cell_errors:
        by = "" if names is None else f" by {', '.join(names)}" if names else " of all"
        label = known.get((number, index)) or error.label.replace("count_rows(", "count(")
        said = label if (number, index) in known and single[number] else label + by
        shown = _error(error, plan.parts[number])
        if plan.parts[number].seeks_limits and names is None and shown.bound is not None:
            shown = replace(shown, meaning=_ladder(plan.parts[number], index))
        found.append(replace(shown, label=_named(plan, number + 1, said)))
    return tuple(found)


def _ladder(plan: Plan, index: int) -> str:
    """Describe the errors of an aggregate at some of the limits that AUTO may find."""
    steps = [(number, with_limits(plan, found).errors[index]) for number, found in ladder(plan.final)]
    last = steps[-1][1]
    bounds = ", ".join(_shown(error.bound or Fraction(0), _DIGITS) for _, error in steps)
    numbers = ", ".join(str(number) for number, _ in steps)
    one = "groups" if plan.final.auto_groups and not plan.final.auto_rows else "rows"
    power = ("", " times the larger bound", " times its square")[last.power]
    return f"{last.meaning(bounds + power)}, where AUTO lets {numbers} {one} of a person count"


def _of_parts(plan: Plan, words: Callable[[Plan], str | None]) -> str | None:
    """Join the descriptions of the parts that have one; see :func:`~tacit.query.planning.plan.by_part`."""
    said = [(number, words(part)) for number, part in enumerate(plan.parts, 1)]
    found = [_named(plan, number, text) for number, text in said if text is not None]
    return "; ".join(found) if found else None


def _named(plan: Plan, number: int, text: str) -> str:
    return f"part {number}: {text}" if plan.others else text


def _all_releases(plan: Plan) -> Iterator[ExplainedRelease]:
    """Yield the releases of every part, with their shares of the total cost."""
    whole = sum((part.priced.amount for part in plan.parts), Fraction(0)) or Fraction(1)
    for number, part in enumerate(plan.parts, 1):
        own = part.priced.amount / whole
        for each in (*_search(part), *_selection(part), *_releases(part), *_losses(part)):
            if plan.others:
                yield replace(each, name=_named(plan, number, each.name), share=str(Fraction(each.share) * own))
            else:
                yield each


def _limits(plan: Plan) -> str:
    limits, final = limits_of(plan.final), plan.final
    # A limit that AUTO need not find is 1: a single group, or units that are counted once.
    groups = limits.groups if final.auto_groups or not limits.groups.is_auto else replace(limits.groups, single=True)
    rows = limits.rows if final.auto_rows or not limits.rows.is_auto else replace(limits.rows, single=True)
    words = f"{groups.words(final.max_groups)}, {rows.words(rows.number)}"
    if limits.total is not None:
        words = limits.total.words(limits.total.number)
        if not plan.seeks_limits:
            words += f", max_groups {final.max_groups}, max_rows {final.most_in_group}"
    if plan.limits is not None and not plan.limits.seen:
        words += "; a default: too few people for a search at this cost"
    if not plan.seeks_limits:
        return words
    cells = cells_of(final)
    return (
        f"{words}; AUTO looks first, at noisy counts of units in {cells.count} cells of powers of two, each unit in "
        "one, for the limits at which noise and the estimated loss make the narrowest interval; noise below is that of "
        "1 group and 1 row and grows with the limits found"
    )


def _bounds(plan: Plan) -> str | None:
    if plan.found:
        return "found: " + "; ".join(map(str, plan.found))
    if plan.priced.first is None:
        return None
    names = "; ".join(value.name for value in sought(plan.final))
    mistaken = percent(FALSE_CELL)
    return (
        f"AUTO for {names}: found first, from noisy counts of one value per unit in cells of powers of two; an empty "
        f"cell is taken for an inhabited one with probability at most {mistaken}"
    )


def _advice(plan: Plan) -> Iterator[str]:
    """Yield a sentence of advice on values whose clipping bounds are searched."""
    if plan.priced.first is not None and not plan.found:
        names = ", ".join(value.name for value in sought(plan.final))
        share = percent(plan.priced.first.budget.amount / plan.priced.amount)
        yield (
            f"Clipping bounds of {names}: {share} of the budget finds them, as CLAMP(x, AUTO) does. Bounds that you "
            "know, CLAMP(x, lo, hi), save that."
        )


def _search(plan: Plan) -> Iterator[ExplainedRelease]:
    for search in plan.priced.searches:
        yield from (_release(plan, search.budget, release) for release in search.releases)


def _losses(plan: Plan) -> Iterator[ExplainedRelease]:
    part = plan.priced.bias
    if part is not None:
        yield from (_release(plan, part.priced.budget, release) for release in part.priced.releases)


def _bias(plan: Plan) -> str | None:
    part = plan.priced.bias
    if part is None:
        possible = bias_table(plan.final)
        if possible is None:
            return None
        return f"not estimated, because bias_share is 0; {_cutting(possible)} may cut people, and no interval says so"
    share = part.priced.budget.amount / plan.priced.amount
    return (
        f"{percent(share)} of the cost ({_cost(part.priced.budget, Fraction(1))}) buys a private estimate of how many "
        f"people are cut by {_cutting(part.table)}"
    )


def _cutting(table: BiasTable) -> str:
    named = {
        CLIPPING: "bounds of values",
        KEYS: "the list of keys",
        CASTS: "CAST of texts it does not read",
        JOINS: "rows before a join",
    }
    names = [named.get(cause, cause) for cause in table.causes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _selection(plan: Plan) -> Iterator[ExplainedRelease]:
    keys = plan.keys
    if keys is None:
        return
    selection = keys.mechanism()
    touched = keys.groups * (1 if plan.relation is ADD_REMOVE else 2)
    threshold = selection.threshold
    yield ExplainedRelease(
        name="selection of keys",
        mechanism=keys.rule,
        l1_sensitivity=str(touched),
        l2_sensitivity=_shown(sqrt_bounds(Fraction(touched))[1], _DIGITS),
        reason=f"one unit counts once in each of at most {keys.groups} groups"
        + ("" if plan.relation is ADD_REMOVE else "; replacing it changes twice as many"),
        scale="no threshold: a table of probabilities" if threshold is None else f"threshold {threshold}",
        share=_share(plan, keys.share * plan.priced.budget.amount),
        cost=f"{_cost(plan.priced.budget, keys.share)}, delta {_shown(keys.delta, _DIGITS)}",
        integers=1,
    )


def _releases(plan: Plan) -> Iterator[ExplainedRelease]:
    for release in plan.releases:
        growth = 0 if plan.found else plan.final.growth(release.block.measures)
        if release.choice is not None:
            yield _choice(plan, release.choice)
        for vector in release.vectors:
            yield _release(plan, plan.priced.budget, vector, growth)


def _choice(plan: Plan, choice: RankChoice) -> ExplainedRelease:
    moved = max(choice.moved(fraction) for fraction in choice.fractions)
    together = choice.draws * moved
    return ExplainedRelease(
        name=f"quantiles, {choice.name}",
        mechanism="exponential",
        l1_sensitivity=str(together),
        l2_sensitivity=_shown(sqrt_bounds(choice.draws * moved**2)[1], _DIGITS),
        reason=choice.reason,
        scale=_shown(max(choice.scale(fraction) for fraction in choice.fractions), 6),
        share=_share(plan, choice.share * plan.priced.budget.amount),
        cost=_cost(plan.priced.budget, choice.share),
        integers=len(choice.fractions),
    )


def _release(plan: Plan, budget: PlanBudget, release: Release, growth: int = 0) -> ExplainedRelease:
    """Explain a release within a budget; its noise grows with the power ``growth`` of bounds not found yet."""
    moved, why = release.block.sensitivity, release.block.reason
    own = release.share - (release.choice.share if release.choice is not None else 0)
    unit, b = Fraction(MOST_STEPS) ** growth, ("", " b", " b²")[growth]
    if growth:
        rows, groups = plan.final.measures[release.block.measures[-1]].rows, release.block.groups
        why = f"one unit adds at most {rows} values within the bounds found to each of at most {groups} groups"
    return ExplainedRelease(
        name=release.block.name,
        mechanism=release.mechanism,
        l1_sensitivity=f"{_shown(moved.l1 / unit, 6)}{b}" if growth else str(moved.l1),
        l2_sensitivity=f"{_shown(_l2(moved) / unit, 6)}{b}",
        reason=why,
        scale=f"{_scale(release, unit)}{b}",
        share=_share(plan, own * budget.amount),
        cost=_cost(budget, own),
        integers=release.block.integers,
    )


def _share(plan: Plan, amount: Fraction) -> str:
    """Return the share of ``amount`` in the cost of a part, exact, as text; 0 if the part costs nothing."""
    return str(amount / plan.priced.amount if plan.priced.amount else Fraction(0))


def _scale(release: Release, unit: Fraction) -> str:
    return "0" if release.is_constant else _shown(release.noise_law.width / unit, 6)


def _cost(budget: PlanBudget, share: Fraction) -> str:
    name = {"epsilon": "epsilon", "rho": "rho", "mu2": "mu squared"}[budget.currency]
    return f"{name} {_shown(budget.amount * share)}"


def typed_epsilon(plan: Plan) -> str:
    """Return the stated epsilon, as ``epsilon 0.5``, if the account has another currency; otherwise an empty text."""
    typed = currency_of(plan.guarantee).relaxed and plan.terms.currency == "epsilon"
    return f"epsilon {_shown(plan.terms.amount)}" if typed else ""


def _charge(plan: Plan) -> str:
    numbers = currency_of(plan.guarantee).shown(plan.guarantee)
    counted = ", ".join(f"{name} {_shown(number)}" for name, number in numbers.items())
    typed = typed_epsilon(plan)
    return f"{typed} ({counted})" if typed else counted


def _alone(plan: Plan) -> str | None:
    """Return a zCDP or GDP charge as (ε, δ): as stated, or at a δ of 10⁻⁶ or twice the δ already spent."""
    currency, typed = currency_of(plan.guarantee), plan.terms
    if not currency.relaxed:
        return None
    if typed.currency == "epsilon" and typed.alone is not None:
        pair = ApproxDP(typed.amount, typed.alone)
    else:
        pair = currency.as_pair(plan.guarantee)
    words = f"epsilon {_shown(pair.epsilon, _DIGITS)} at delta {_shown(pair.delta, _DIGITS)}"
    spent = next(iter(currency.amounts_of(plan.guarantee).values()))
    return words if not typed.most else f"{words}, {percent(_rounded(spent / typed.most))} of the account"


def _rounded(share: Fraction) -> Fraction:
    """Return a share with three digits, rounded up, so that equal shares are shown alike."""
    return Fraction(format_up(share, 3))


def _error(error: ExpectedError, plan: Plan) -> ExplainedError:
    if error.bound is None:
        return ExplainedError(error.label, None, "depends on how many values a group has; state suppose to see it")
    bound = _shown(error.bound, _DIGITS) + ("", " times the larger bound", " times its square")[error.power]
    grows = " while max_groups and max_rows are 1; more with the limits that AUTO finds" if plan.seeks_limits else ""
    return ExplainedError(error.label, bound, error.meaning(bound) + grows)


# Cached: the same costs, sensitivities and scales are shown many times.
@lru_cache(maxsize=4096)
def _shown(value: Fraction, digits: int = 6) -> str:
    return format_up(value, digits)


@lru_cache(maxsize=4096)
def _l2(moved: Sensitivity) -> Fraction:
    return moved.l2


def _cut(line: str) -> str:
    """Shorten a line for display; JSON contains it in full."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"


def _lines(it: Explanation) -> Iterator[str]:
    if it.public:
        yield f"Charge      {it.charge}"
        yield f"Reads       {it.keys}; {it.bounding}"
        yield f"Plan        {it.digest[:16]}"
        return
    yield f"Charge      {it.charge} ({it.account} account)"
    if it.alone is not None:
        yield f"            on its own: {it.alone}"
    yield f"Protects    {it.population}: {it.unit} ({it.relation.replace('_', '/', 1)})"
    yield f"Bounding    {it.bounding}"
    yield f"Limits      {it.limits}"
    yield f"Groups      {it.keys}"
    if it.sets is not None:
        yield f"Sets        {it.sets}"
    if it.steps is not None:
        yield f"Steps       {it.steps}"
    if it.bounds is not None:
        yield f"Bounds      {it.bounds}"
    if it.bias is not None:
        yield f"Bias        {it.bias}"
    yield "Releases"
    for release in it.releases:
        yield f"  {release.name}"
        yield f"    {release.mechanism}, scale {release.scale}, {release.cost} (share {release.share})"
        yield f"    sensitivity l1 {release.l1_sensitivity}, l2 {release.l2_sensitivity}: {release.reason}"
    chance = percent(Fraction(it.confidence))
    yield f"Error of one cell, with probability {chance}, apart from clipping and dropped groups"
    for error in it.errors:
        yield f"  {error.label}: {error.meaning}"
    if it.advice:
        yield "Advice"
        yield from (f"  {sentence}" for sentence in it.advice)
    if it.engine_sql is not None:
        yield "Engine"
        yield from (f"  {_cut(line)}" for line in it.engine_sql.splitlines())
    yield f"Plan        {it.digest[:16]}"


def sets_in_words(query: Query, levels: Sequence[Sequence[tuple[int, ...]]]) -> str | None:
    """Describe the grouping sets and the computation of their totals; None without any. ``levels``: of each part."""
    words = [
        _in_words(final, totals, levels[part])
        for part, final in enumerate(query.finals)
        for totals in totals_of_part(query, part)
    ]
    return "; ".join(words) or None


def _in_words(final: FinalAggregation, totals: Totals, levels: Sequence[tuple[int, ...]]) -> str:
    sizes = list(set_sizes(final, totals))
    named = _sets([each.names for each in sizes])
    if levels:
        measured = _sets([tuple(final.keys[axis].name for axis in axes) for axes in levels])
        return (
            f"{named}: the groups by {measured} are measured, each with noise of its own, and groups of all sets are "
            "estimated from all of them together, so that every total is exactly the sum of its parts"
        )
    return (
        f"{named}: totals are sums of the {final.group_count} finest groups, which are measured once; one is the "
        f"sum of up to {max(each.total.copies for each in sizes)}"
    )


def _sets(sets: Sequence[tuple[str, ...]]) -> str:
    more = f" and {len(sets) - _MOST_SETS} more" if len(sets) > _MOST_SETS else ""
    return ", ".join(f"({', '.join(names)})" for names in sets[:_MOST_SETS]) + more
