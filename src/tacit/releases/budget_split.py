"""Division of a planned release's total among its statistics.

All of them are known before the first is answered, so their events may be composed as tightly as any theorem allows.
Each gets an amount in proportion to its weight (to its square, in ρ and μ²), times one common factor that is as large
as the total allows:

========  =========================================================================================================
account   the factor
========  =========================================================================================================
pure      Σε is the total: there is no tighter rule for pure differential privacy
zcdp      Σρ is the total; an (ε, δ) total is the largest ρ that implies it
gdp       Σμ² is the total's
approx    the largest factor at which the composed privacy loss of all events stays within (ε, δ), found by search;
          once with Laplace noise and once with the noise that zCDP prefers, whichever has the smaller variances
========  =========================================================================================================

Statistics whose groups are chosen privately share half of δ for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.accounting.compose import compose_plan
from tacit.accounting.composed import Composed
from tacit.accounting.composition_plan import read_plan
from tacit.accounting.currencies import (
    APPROX,
    GAUSSIAN,
    PURE,
    ZERO_CONCENTRATED,
    AccountGuarantee,
    Currency,
    currency_named,
)
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import Event
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.numbers import float_nearest, round_down, sqrt_bounds
from tacit.core.relations import Relation
from tacit.query.planning.auto_bounds import sought
from tacit.query.planning.delta_budgets import largest_rho_of, mu_of_epsilon
from tacit.query.planning.plan import Plan, plan_question
from tacit.query.question import Question
from tacit.query.request import Account, Request
from tacit.releases.batch_file import BatchPlan
from tacit.releases.receipt import exact_events

_DIGITS: Final = 12
#: So few that the last bit of a composed loss, which another machine may have otherwise, decides next to nothing.
_FEW_DIGITS: Final = 4
#: The search stops when the factor is known to within this part of itself, or after so many tries.
_CLOSE: Final = Fraction(1, 100)
_TRIES: Final = 8
#: Left unused, so that composing the events again, on another machine, stays within the total.
_SPARE: Final = 1 - Fraction(1, 10**6)


@dataclass(frozen=True)
class Split:
    """A plan for every statistic, and the guarantee of all of them together, which is charged.

    The method says, for people, by which theorem.
    """

    plans: tuple[Plan, ...]
    guarantee: AccountGuarantee
    method: str


@dataclass(frozen=True)
class _Parts:
    """Questions to plan, their weights, and the delta that each may use to choose groups."""

    batch: BatchPlan
    questions: Sequence[Question]
    relation: Relation
    catalog: str
    deltas: Sequence[Fraction]

    @property
    def weights(self) -> list[Fraction]:
        return [statistic.weight for statistic in self.batch.statistics]

    def plan(
        self, account: Callable[[Fraction], Account], currency: str, amounts: Sequence[Fraction]
    ) -> tuple[Plan, ...]:
        """Each question at its amount of a currency."""
        return tuple(
            plan_question(
                question,
                self.relation,
                Request(
                    **{currency: amount},  # type: ignore[arg-type]
                    delta=delta or None,
                    confidence=self.batch.confidence,
                    max_groups=statistic.max_groups,
                    max_rows=statistic.max_rows,
                    bias_share=self.batch.bias_share,
                    account=account(delta),
                ),
                catalog=self.catalog,
            )
            for question, statistic, amount, delta in zip(
                self.questions, self.batch.statistics, amounts, self.deltas, strict=True
            )
        )


def split_total(
    batch: BatchPlan, questions: Sequence[Question], relation: Relation, account: str, *, catalog: str
) -> Split:
    """Divide the total of a batch, for an account of a kind.

    Raises:
        InputError: the account is not charged in what the total is stated in, or a delta is needed and missing.
        Refusal: a question cannot be answered privately as written.
    """
    private = [any(not final.public_keys for final in question.finals) for question in questions]
    own = batch.delta / 2 if any(private) else Fraction(0)
    deltas = [own / sum(private) if each else Fraction(0) for each in private]
    parts = _Parts(batch, questions, relation, catalog, deltas)
    return _SPLITS[currency_named(account)](parts, own)


def _split_pure(parts: _Parts, own: Fraction) -> Split:  # noqa: ARG001 - there is no delta
    batch = parts.batch
    if batch.currency != "epsilon" or batch.delta:
        raise InputError("release", "a pure account is charged in epsilon alone")
    total = sum(parts.weights)
    plans = parts.plan(lambda _: Account("pure"), "epsilon", [batch.amount * w / total for w in parts.weights])
    return Split(plans, PureDP(batch.amount, relation=parts.relation), "the sum of their epsilons")


def _split_zcdp(parts: _Parts, own: Fraction) -> Split:
    batch = parts.batch
    if batch.currency == "mu":
        raise InputError("release.mu", "a zcdp account is charged in rho; state rho, or epsilon and delta")
    rho = batch.amount
    if batch.currency == "epsilon":
        rho = largest_rho_of(batch.amount, batch.delta - own) if batch.delta else batch.amount**2 / 2
    plans = parts.plan(lambda delta: Account("zcdp", delta or None), "rho", _by_squares(parts.weights, rho))
    return Split(plans, ZCDP(rho, delta=own, relation=parts.relation), "the sum of their rhos")


def _split_gdp(parts: _Parts, own: Fraction) -> Split:  # noqa: ARG001 - there is no delta
    batch = parts.batch
    if batch.currency == "rho" or batch.delta:
        raise InputError("release", "a gdp account is charged in mu, or in the mu of an epsilon, without delta")
    mu = batch.amount if batch.currency == "mu" else mu_of_epsilon(batch.amount).mu
    roots = [round_down(sqrt_bounds(square)[0], _DIGITS) for square in _by_squares(parts.weights, mu**2)]
    plans = parts.plan(lambda _: Account("gdp"), "mu", roots)
    return Split(plans, GDP(mu, relation=parts.relation), "the sum of the squares of their mus")


def _by_squares(weights: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    squares = [weight**2 for weight in weights]
    return [total * square / sum(squares) for square in squares]


def _split_approx(parts: _Parts, own: Fraction) -> Split:
    batch = parts.batch
    if batch.currency != "epsilon":
        raise InputError("release", "an approx account is charged in epsilon and delta")
    if any(sought(final) for question in parts.questions for final in question.finals):
        # Bounds that are found shift the noise between the parts of a query, after all has been composed.
        raise InputError("statistics", "AUTO bounds cannot be planned for in an approx account; write CLAMP(x, lo, hi)")
    guarantee = ApproxDP(batch.amount, batch.delta, relation=parts.relation)
    weights = parts.weights

    def laplace(factor: Fraction) -> tuple[Plan, ...]:
        plans = parts.plan(lambda delta: Account("approx", delta or None), "epsilon", [factor * w for w in weights])
        if any(plan.seeks_limits for plan in plans):
            raise InputError(
                "statistics",
                "AUTO max_groups and max_rows cannot be planned for in an approx account; state numbers for every "
                "statistic, or in the project file",
            )
        return plans

    def concentrated(factor: Fraction) -> tuple[Plan, ...]:
        return parts.plan(lambda delta: Account("zcdp", delta or None), "rho", [factor * w**2 for w in weights])

    ways = [_largest(laplace, batch.amount / sum(weights), 1, guarantee)]
    if batch.delta:
        rho = largest_rho_of(batch.amount, batch.delta - own)
        ways.append(_largest(concentrated, rho / sum(w**2 for w in weights), 2, guarantee))
    found = [way for way in ways if way is not None]
    if not found:
        raise InputError("release.epsilon", "is too small to buy anything for so many statistics")
    return min(found, key=lambda split: _badness(split.plans))


#: Division of a total, by the currency of the account.
_SPLITS: Final[dict[Currency, Callable[[_Parts, Fraction], Split]]] = {
    PURE: _split_pure,
    APPROX: _split_approx,
    ZERO_CONCENTRATED: _split_zcdp,
    GAUSSIAN: _split_gdp,
}


def _largest(
    make: Callable[[Fraction], tuple[Plan, ...]], start: Fraction, power: int, guarantee: ApproxDP
) -> Split | None:
    """The plans at the largest factor within a guarantee, or nearly so, from a factor that a simple theorem allows.

    Costs grow about like the root of the factor of the order ``power``.
    """
    best: Split | None = None
    low, high, factor = Fraction(0), None, start
    for _ in range(_TRIES):
        split, cost = _priced(make(factor), guarantee)
        if split is not None:
            best, low = split, factor
        else:
            high = factor
        guess = factor * (guarantee.epsilon * (1 - _CLOSE / 4) / cost) ** power
        if high is not None and not low < guess < high:
            guess = (low + high) / 2
        factor = round_down(guess, _FEW_DIGITS)
        if factor <= low * (1 + _CLOSE):
            break
    return best


def _priced(plans: tuple[Plan, ...], guarantee: ApproxDP) -> tuple[Split | None, Fraction]:
    """The plans, if some theorem puts them within a guarantee; and the smallest epsilon that any gives them."""
    simple = [plan.guarantee for plan in plans if isinstance(plan.guarantee, PureDP | ApproxDP)]
    epsilon = sum((each.epsilon for each in simple), Fraction(0))
    delta = sum((each.delta for each in simple), Fraction(0))
    is_simple = len(simple) == len(plans) and delta <= guarantee.delta
    split: Split | None = None
    if is_simple and epsilon <= guarantee.epsilon:
        needed = ApproxDP(guarantee.epsilon, delta, relation=guarantee.relation)
        split = Split(plans, needed, "the sum of their epsilons" + (" and deltas" if delta else ""))
    if (len(plans) == 1 and split is not None) or not guarantee.delta:
        return split, epsilon
    total = _composed([event for plan in plans for event in exact_events(plan)], guarantee.delta)
    if split is None and total.epsilon <= guarantee.epsilon * _SPARE:
        split = Split(plans, guarantee, f"their composed privacy loss ({total.method})")
    return split, min(total.epsilon, epsilon) if is_simple else total.epsilon


def _composed(events: Sequence[Event], delta: Fraction) -> Composed:
    plan = read_plan(events)
    try:
        return compose_plan(plan, delta, "pld", bracket=False)
    except AccountingError:
        return compose_plan(plan, delta, "best", bracket=False)


def _badness(plans: Sequence[Plan]) -> float:
    """The logarithm of the product of all variances: to halve one and double another is no gain."""
    laws = [release.law(i) for plan in plans for release in plan.releases for i in release.block.measures]
    return math.fsum(math.log(max(float_nearest(law.variance_bound), 1e-18)) for law in laws)
