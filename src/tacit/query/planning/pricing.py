"""Pricing: the charge for a stated price, its division among releases, and the noise that each share buys.

The budget is an amount in one currency that adds up: ε (pure), ρ (zCDP) or μ² (GDP).

* ε: Laplace noise of scale l1/ε_i on every block.
* ρ: Gaussian noise of σ² = l2²/(2ρ_i), or Laplace noise of ε_i = √(2ρ_i), whichever has the smaller
  error.
* μ²: normal noise of σ² = l2²/μ_i², rounded to whole numbers, or Laplace noise of the largest ε_i whose μ fits,
  whichever has the smaller error.

An (ε, δ) budget is used in one of two ways, whichever has the smaller errors: as ε, δ going to the selection of private
keys alone; or as the largest ρ that converts to (ε, δ/2 or δ), the rest of δ going to the selection.

*Shares.* Every release i has a *coefficient* c_i: its error, in units of the largest contribution of one person, at a
budget of one. With pure epsilons the error is c_i/ε_i, so equal relative errors mean ε_i ∝ c_i. In zCDP and GDP the
error is c_i/√ρ_i (or c_i/√μ_i²), so the share of ρ goes with the square. A weight multiplies the epsilon (its square in
those currencies): an aggregate of weight 2 has half the relative error of one of weight 1. Shares are rationals and add
up to exactly 1. A release that no data can change gets nothing.

Proof: ``pricing.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from tacit.accounting.currencies import ZERO_CONCENTRATED, AccountGuarantee, currency_of
from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.events import ComposedEvent, Event, NoEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.normal import normal_cdf_bounds
from tacit.core.numbers import float_nearest, log_bounds, round_down, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_profile import rounded_normals_give_at_most
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.partition_rules import TruncatedGeometric
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.residual_basis import Axes, LevelBasis, best_levels
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.query.aggregates import expected_error
from tacit.query.planning import auto_limits
from tacit.query.planning.auto_bounds import search_of, search_shares
from tacit.query.planning.left_out import LossTable, cell_counts, loss_table
from tacit.query.planning.measures import Block, Readout, blocks_of
from tacit.query.planning.noise_distribution import LevelNoise, NoiseLaw
from tacit.query.planning.rank_choice import RankChoice, part_that_draws
from tacit.query.question import FinalAggregation, TotalOf
from tacit.query.relational.algebra import released_values
from tacit.query.relational.expressions import literal
from tacit.query.request import Terms
from tacit.query.types import INTEGER

__all__ = [
    "KeySelection",
    "Level",
    "LossPricing",
    "PlanBudget",
    "Priced",
    "PricedPart",
    "Release",
    "Weights",
    "buy",
    "buy_rest",
    "check_charge",
    "epsilon_of_mu2",
    "largest_rho_of",
    "mu_of_epsilon",
    "price",
    "split",
]

# -- shares


def split(coefficients: Sequence[Fraction], weights: Sequence[Fraction], *, squared: bool) -> tuple[Fraction, ...]:
    """The share of each release.

    Args:
        coefficients: of each; 0 for what costs nothing.
        weights: of each.
        squared: whether the currency adds up squares of epsilons.

    >>> split([Fraction(1), Fraction(1), Fraction(0)], [Fraction(2), Fraction(1), Fraction(1)], squared=False)
    (Fraction(2, 3), Fraction(1, 3), Fraction(0, 1))
    """
    claims = [c * w for c, w in zip(coefficients, weights, strict=True)]
    if squared:
        claims = [claim * claim for claim in claims]
    total = sum(claims, Fraction(0))
    return tuple(claim / total if total else Fraction(0) for claim in claims)


# -- releases within a budget

#: One release may hold this many numbers when the number of groups is private.
ANY_NUMBER = 10**12
#: See :class:`Priced`.
Asked = tuple[tuple[Fraction, ...], Fraction, str]
#: Beyond these, what is left to be told apart has no digits.
LARGEST_MU = 20
LARGEST_EPSILON_FOR_MU = 50
#: Roots are rounded down to this many digits: a price that reads well and is still spent to the last part in 10¹².
_DIGITS = 12
#: Parts of the ρ of continuous Gaussian noise that are left out until the noise of whole numbers is proven to do.
_SPARES: Final = tuple(Fraction(1, 1 << bits) for bits in (12, 9, 7, 5, 4))
#: Integers of levels are multiplied until the variance of Gaussian noise is this large, up to this factor: the same
#: price, and sums of many noises are nearly normal.
_FINE_GRID, _LARGEST_FACTOR = 1 << 16, 1 << 24
#: Largest denominator of the relative precisions of levels: a coarse one costs accuracy, and no bias.
_PRECISION: Final = 1 << 20
#: Places of the keys of grouping sets.
Sets = tuple[Axes, ...]
#: The norm that noise follows, and the power of its share with which the precision of a level grows.
_LEVEL_NOISE: Final = {"epsilon": (1, 2), "rho": (2, 1), "mu2": (2, 1)}
#: Smallest σ² of normal noise that is rounded; below it there is hardly any, and Laplace noise does.
_LEAST_ROUNDED: Final = Fraction(1, 4)


@dataclass(frozen=True, slots=True)
class PlanBudget:
    """An amount to divide.

    Args:
        currency: ``"epsilon"``, ``"rho"`` or ``"mu2"``.
        amount: of it, for all releases together.
        delta: for the selection of private keys; 0 when keys are public.
    """

    currency: str
    amount: Fraction
    delta: Fraction = Fraction(0)

    @property
    def concentrated(self) -> bool:
        """Whether squares of noise add up, so that Gaussian noise is on offer."""
        return self.currency != "epsilon"


# Mechanisms hold no state but constants, which take a while to compute, and a plan is asked for them many times.
@lru_cache(maxsize=1024)
def _laplace(epsilon: Fraction, l1: Fraction, relation: Relation) -> Laplace:
    return Laplace(epsilon=epsilon, l1_sensitivity=l1, relation=relation)


@lru_cache(maxsize=1024)
def _gaussian(rho: Fraction, l2_squared: Fraction, numbers: int, relation: Relation) -> Gaussian:
    return Gaussian.from_rho(rho=rho, l2_squared=l2_squared, dimension=numbers, relation=relation)


@lru_cache(maxsize=1024)
def _rounded(mu: Fraction, l2_squared: Fraction, relation: Relation) -> RoundedGaussian:
    return RoundedGaussian(mu=mu, l2_squared=l2_squared, relation=relation)


@dataclass(frozen=True)
class Release:
    """A block and the noise it gets.

    Args:
        block: what is released.
        mechanism: ``"laplace"``, ``"gaussian"``, or ``"constant"`` where no data can change the numbers.
        epsilon: of Laplace noise; 0 otherwise.
        rho: of discrete Gaussian noise; 0 otherwise.
        share: of the budget, that of the choice included.
        relation: which databases are neighbours.
        numbers: the most numbers that one release holds.
        choice: the draws of quantiles around which the block is then counted.
        levels: of grouping sets, the sums of groups that get noise instead of the groups themselves; empty where the
            groups do.
        sizes: number of values of each key, where there are levels.
        scale: by which the integers of levels are multiplied.
        mu: of rounded Gaussian noise; 0 otherwise.
    """

    block: Block
    mechanism: str
    epsilon: Fraction
    rho: Fraction
    share: Fraction
    relation: Relation
    numbers: int
    # Both follow from the block, the share and the budget.
    choice: RankChoice | None = field(default=None, repr=False)
    mu: Fraction = field(default=Fraction(0), repr=False)
    # Plans without grouping sets keep their digests; those with levels name them in the text of all releases.
    levels: tuple[Level, ...] = field(default=(), repr=False)
    sizes: tuple[int, ...] = field(default=(), repr=False)
    scale: int = field(default=1, repr=False)

    @property
    def vectors(self) -> tuple[Release, ...]:
        """The releases of integers that get noise: those of the levels, or this one."""
        return tuple(level.release for level in self.levels) or (self,)

    @cached_property
    def basis(self) -> LevelBasis:
        """Estimates of groups from levels; a level weighs by the precision of its noise."""
        precisions = []
        for release in self.vectors:
            moved = release.block.sensitivity
            normal = (2 * release.rho + release.mu**2) / moved.l2_squared
            precisions.append(normal or (release.epsilon / moved.l1) ** 2 / 2)
        whole, least = sum(precisions), Fraction(1, _PRECISION)
        weights = tuple(max((each / whole).limit_denominator(_PRECISION), least) for each in precisions)
        return LevelBasis(self.sizes, tuple(level.axes for level in self.levels), weights)

    def noise(self) -> Laplace | Gaussian | RoundedGaussian:
        """The mechanism that adds the noise."""
        return self._noise

    @cached_property
    def _noise(self) -> Laplace | Gaussian | RoundedGaussian:
        moved = self.block.sensitivity
        if self.mechanism == "laplace":
            return _laplace(self.epsilon, moved.l1, self.relation)
        if self.mu:
            return _rounded(self.mu, moved.l2_squared, self.relation)
        return _gaussian(self.rho, moved.l2_squared, self.numbers, self.relation)

    @cached_property
    def event(self) -> Event:
        """The noise, as accountants read it; :attr:`choice` has an event of its own."""
        if self.mechanism == "constant":
            return NoEvent(relation=self.relation)
        return self.noise().event

    @property
    def events(self) -> tuple[Event, ...]:
        """All that is released, in order."""
        if self.levels:
            return tuple(level.release.event for level in self.levels)
        return (self.event,) if self.choice is None else (self.choice.event, self.event)

    def law(self, measure: int) -> NoiseLaw:
        """The noise in a measurement, once it is read off the block; in every node of a tree."""
        if self.mechanism == "constant":
            return NoiseLaw("none", Fraction(0))
        readout = self.block.readouts[self.block.measures.index(measure)]
        if self.levels:
            return self._level_law(readout)
        noise = self.noise()
        scale = noise.scale if isinstance(noise, Laplace) else noise.sigma2
        source = self.block.measures[0]
        kind = "rounded" if isinstance(noise, RoundedGaussian) else self.mechanism
        return NoiseLaw(kind, scale, readout.terms, readout.unit, source, readout.signs)

    def set_law(self, measure: int, kept: Sequence[int], copies: int) -> NoiseLaw:
        """The noise in the sum of ``copies`` groups that is a group by the ``kept`` keys alone."""
        law = self.law(measure)
        if law.cells is not None:
            return law.summed(self.basis.set_noise(tuple(sorted(kept))), law.source or 0)
        return law if copies == 1 else law.added(copies, law.source or 0)

    def _level_law(self, readout: Readout) -> NoiseLaw:
        """The noise in the estimate of a group, and how it depends on that of others."""
        noises = []
        for release in self.vectors:
            noise = release.noise()
            kind = "rounded" if isinstance(noise, RoundedGaussian) else release.mechanism
            noises.append((kind, noise.scale if isinstance(noise, Laplace) else noise.sigma2))
        cells = LevelNoise(self.basis, tuple(noises))
        return NoiseLaw(
            "mixed",
            Fraction(0),
            readout.terms,
            readout.unit / (self.basis.denominator * self.scale),
            self.block.measures[0],
            readout.signs,
            layers=cells.terms(self.basis.set_noise(tuple(range(len(self.sizes))))),
            cells=cells,
        )


@dataclass(frozen=True)
class Level:
    """Sums of groups that get noise of their own: the groups by some of the keys.

    Args:
        axes: places of these keys.
        release: of the sums.
    """

    axes: Axes
    release: Release


@dataclass(frozen=True, slots=True)
class KeySelection:
    """Selection of private keys by the number of distinct units of each group.

    Args:
        rule: see :class:`~tacit.mechanisms.partition_selection.PartitionSelection`.
        epsilon: of the selection; 0 when it is priced in zCDP.
        rho: likewise.
        delta: likewise.
        groups: the most groups that one unit is in.
        share: of the budget.
        relation: which databases are neighbours.
    """

    rule: str
    epsilon: Fraction
    rho: Fraction
    delta: Fraction
    groups: int
    share: Fraction
    relation: Relation

    def mechanism(self) -> PartitionSelection:
        """The mechanism that selects keys."""
        return _select(self.epsilon, self.rho, self.delta, self.groups, self.rule, self.relation)

    @property
    def event(self) -> Event:
        """The selection, as accountants read it."""
        return self.mechanism().event


@dataclass(frozen=True)
class Priced:
    """All releases of a query within one budget.

    Args:
        budget: of these releases.
        releases: every release but the selection of keys.
        keys: the selection of private keys.
        first: the search for AUTO bounds, which comes before and has a budget of its own.
        asked: where there is such a search, the weights of the measurements and of the selection, and its rule, with
            which the rest is priced again once bounds are found; all that decides noise is then in this value.
        left_out: the table of what bounding leaves out, which comes last and has a budget of its own; None where it is
            not bought.
        limits: the search for AUTO limits, which comes first of all and has a budget of its own.
        sets: places of the keys of each grouping set that is asked for; empty for a plain GROUP BY.
    """

    budget: PlanBudget
    releases: tuple[Release, ...]
    keys: KeySelection | None
    first: Priced | None = None
    asked: Asked | None = None
    left_out: LossPricing | None = field(default=None, repr=False)
    limits: Priced | None = field(default=None, repr=False)
    # It follows from the question, and decides nothing that the releases do not say.
    sets: Sets = field(default=(), repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """Its one text, for digests."""
        parts = [repr(self), *(repr(part) for part in (self.left_out,) if part is not None)]
        parts += [f"levels {release.levels!r}" for release in self.releases if release.levels]
        return ", ".join(parts) + ("" if self.limits is None else f" limits {self.limits!r}")

    @property
    def amount(self) -> Fraction:
        """Of the whole price, searches and the table of what is left out included."""
        return sum((part.budget.amount for part in self.parts), Fraction(0))

    @property
    def parts(self) -> tuple[Priced, ...]:
        """Parts with a budget of their own, in the order in which they run."""
        last = () if self.left_out is None else (self.left_out.priced,)
        return (*self.searches, self, *last)

    @property
    def searches(self) -> tuple[Priced, ...]:
        """The searches that come before, in order: for AUTO limits, then for AUTO bounds."""
        return tuple(search for search in (self.limits, self.first) if search is not None)

    def event(self, relation: Relation) -> ComposedEvent:
        """Everything that is released, as accountants read it."""
        events: list[Event] = []
        for part in self.parts:
            events += [] if part.keys is None else [part.keys.event]
            events += [event for release in part.releases for event in release.events]
        return ComposedEvent(tuple(events), relation=relation)

    def release_of(self, measure: int) -> Release:
        """The release that holds a measurement."""
        return next(release for release in self.releases if measure in release.block.measures)


@dataclass(frozen=True)
class LossPricing:
    """The table of what bounding leaves out, and its one release; see :mod:`tacit.query.planning.left_out`."""

    table: LossTable
    priced: Priced


def price(
    final: FinalAggregation,
    budget: PlanBudget,
    relation: Relation,
    *,
    weights: Sequence[Fraction] | None = None,
    keys_weight: Fraction = Fraction(1),
    rule: str = "best",
    beta: Fraction = Fraction(1, 20),
    sets: Sets = (),
) -> Priced:
    """The releases that a budget buys.

    Args:
        final: what is to be released.
        budget: what it may cost in all.
        relation: which databases are neighbours.
        weights: of the measurements; all 1 by default. A block has the largest of its measurements.
        keys_weight: of the selection of private keys.
        rule: of that selection.
        beta: where Laplace and Gaussian noise are compared, by the error that is exceeded with this probability.
        sets: places of the keys of each grouping set; empty where only the groups themselves are asked for.
    """
    own = weights or [Fraction(1)] * len(final.measures)
    blocks = blocks_of(final, relation, concentrated=budget.concentrated, weights=own)
    claims = [max(own[index] for index in block.measures) for block in blocks]
    private = not final.public_keys
    shares = split(
        [block.coefficient for block in blocks] + [Fraction(1)] * private,
        claims + [keys_weight] * private,
        squared=budget.concentrated,
    )
    numbers = [ANY_NUMBER if final.group_count is None else final.group_count * block.integers for block in blocks]
    releases = tuple(
        _with_levels(_release(block, budget, share, relation, count, beta), final, budget, sets, beta)
        for block, share, count in zip(blocks, shares, numbers, strict=False)
    )
    selection = _selection(final, budget, shares[-1], relation, rule) if private else None
    return Priced(budget, releases, selection, sets=sets)


def _with_levels(release: Release, final: FinalAggregation, budget: PlanBudget, sets: Sets, beta: Fraction) -> Release:
    """The release with noise on sums of groups, where that makes the variances of all grouping sets together smaller.

    Whether it does is computed from public sizes, the number of groups of a unit and the kind of noise.
    """
    if not sets or not final.public_keys or release.mechanism == "constant":
        return release
    movement = release.block.movement(final)
    if movement is None:
        return release
    sizes, names = tuple(len(key.values or ()) for key in final.keys), [key.name for key in final.keys]
    norm, power = _LEVEL_NOISE[budget.currency]
    shares = best_levels(sizes, sets, movement, norm=norm, power=power)

    def levels(scale: int) -> tuple[Level, ...]:
        found = []
        for axes, share in shares or ():
            keys = ", ".join(names[axis] for axis in axes) or "none of the keys"
            cells, merged = math.prod(sizes[axis] for axis in axes), final.parts_by(axes)
            block = release.block.at_level(movement.at(merged, cells), merged, keys, scale)
            numbers = cells * block.integers
            found.append(Level(axes, _release(block, budget, release.share * share, release.relation, numbers, beta)))
        return tuple(found)

    made, scale = levels(1), 1
    noises = [level.release.noise() for level in made]
    if made and all(isinstance(noise, Gaussian | RoundedGaussian) for noise in noises):
        least = min(noise.sigma2 for noise in noises if isinstance(noise, Gaussian | RoundedGaussian))
        while least * scale**2 < _FINE_GRID and scale < _LARGEST_FACTOR:
            scale *= 2
        made = levels(scale)
    return replace(release, levels=made, sizes=sizes, scale=scale) if made else release


def _release(
    block: Block, budget: PlanBudget, share: Fraction, relation: Relation, numbers: int, beta: Fraction
) -> Release:
    amount = budget.amount * share
    zero = Fraction(0)
    choice = _choice(block, budget, share, relation) if block.fractions and amount else None
    if choice is not None:
        amount -= budget.amount * choice.share

    def make(mechanism: str, epsilon: Fraction = zero, rho: Fraction = zero, mu: Fraction = zero) -> Release:
        return Release(block, mechanism, epsilon, rho, share, relation, numbers, choice, mu)

    if not amount:
        return make("constant")
    if budget.currency == "epsilon":
        return make("laplace", amount)
    if budget.currency == "mu2":
        gaussian, laplace = make("gaussian", mu=_root(amount)), make("laplace", epsilon_of_mu2(amount))
        if block.sensitivity.l2_squared < _LEAST_ROUNDED * amount:
            return laplace
    else:
        gaussian, laplace = make("gaussian", rho=amount), make("laplace", _root(2 * amount))
    measure = block.measures[0]
    lighter = gaussian.law(measure).variance_bound <= laplace.law(measure).variance_bound
    if lighter and beta <= Fraction(1, 4):
        # A smaller variance and lighter tails: away from the middle the error is smaller too, and need not be computed.
        return gaussian
    return min(gaussian, laplace, key=lambda release: release.law(measure).error(beta))


def _choice(block: Block, budget: PlanBudget, share: Fraction, relation: Relation) -> RankChoice:
    """The draws of quantiles, with most of the share of a block."""
    drawing = part_that_draws(block.fractions)
    own = share * (drawing if budget.currency == "epsilon" else drawing**2)
    each = budget.amount * own / (block.groups * len(block.fractions))
    match budget.currency:
        case "epsilon":
            epsilon = each
        case "rho":
            # A draw of bounded range ε is ε²/8-zCDP.
            epsilon = _root(8 * each)
        case _:
            # And has the μ of ε/2-DP.
            epsilon = 2 * epsilon_of_mu2(each)
    (index,) = block.measures
    return RankChoice(index, block.fractions, epsilon, block.rows, block.groups, block.width, own, relation, block.name)


def _selection(
    final: FinalAggregation, budget: PlanBudget, share: Fraction, relation: Relation, rule: str
) -> KeySelection:
    if not budget.delta:
        raise InputError("delta", "must be stated and greater than 0: the groups of this question are chosen privately")
    amount, zero, groups = budget.amount * share, Fraction(0), final.max_groups
    if budget.currency == "rho":
        best = _select(zero, amount, budget.delta, groups, rule, relation)
        return KeySelection(best.rule, zero, amount, budget.delta, groups, share, relation)
    if budget.currency != "epsilon":
        raise InputError(
            "account",
            "groups that are chosen privately cannot be paid for by this budget, which has no delta to spend; group by "
            "a column with declared categories, or by a public table",
        )
    if rule == "best":
        # Gaussian noise pays by l2 and is what the zCDP way of spending the same budget uses.
        touched = groups * (1 if relation is ADD_REMOVE else 2)
        short = TruncatedGeometric.is_short(amount / touched, budget.delta / touched)
        rule = "truncated_geometric" if short else "laplace"
    return KeySelection(rule, amount, zero, budget.delta, groups, share, relation)


@lru_cache(maxsize=256)
def _select(
    epsilon: Fraction, rho: Fraction, delta: Fraction, groups: int, rule: str, relation: Relation
) -> PartitionSelection:
    """The selection at (ε, δ), or at ρ and δ where ``rho`` is not 0."""
    if rho:
        return PartitionSelection.from_rho(rho=rho, delta=delta, max_groups=groups, rule=rule, relation=relation)
    return PartitionSelection(epsilon=epsilon, delta=delta, max_groups=groups, rule=rule, relation=relation)


def _root(square: Fraction) -> Fraction:
    return round_down(sqrt_bounds(square)[0], _DIGITS)


@lru_cache(maxsize=1024)
def epsilon_of_mu2(mu2: Fraction) -> Fraction:
    """The largest ε, rounded down, such that ε-DP implies √``mu2``-GDP: μ = 2Φ⁻¹(e^ε/(1+e^ε)) turned round."""
    if mu2 > LARGEST_MU**2:
        raise InputError("mu", f"must be at most {LARGEST_MU}; beyond, nothing is protected")
    low = normal_cdf_bounds(sqrt_bounds(mu2)[0] / 2)[0]
    epsilon = round_down(log_bounds(low / (1 - low))[0], _DIGITS)
    while epsilon > 0 and PureDP(epsilon).to_gdp().mu ** 2 > mu2:
        epsilon = round_down(epsilon * (1 - Fraction(1, 10**_DIGITS)), _DIGITS)
    if epsilon <= 0:
        raise InputError("mu", "is too small to buy anything")
    return epsilon


@lru_cache(maxsize=1024)
def largest_rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ, rounded down to twelve digits, whose zCDP guarantee implies (ε, δ)."""
    from tacit.accounting.zcdp import largest_rho

    rho = round_down(largest_rho(epsilon=epsilon, delta=delta), _DIGITS)
    while rho > 0 and ZCDP(rho).to_approx(delta).epsilon > epsilon:
        rho = round_down(rho * (1 - Fraction(1, 10**_DIGITS)), _DIGITS)
    return rho


@lru_cache(maxsize=1024)
def largest_mu_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest μ, rounded down, whose GDP guarantee implies (ε, δ)."""
    from tacit.accounting.filters import GDPFilter

    return GDPFilter.for_target(epsilon=epsilon, delta=delta).mu


def mu_of_epsilon(epsilon: Fraction) -> GDP:
    """Price of an ε-DP release in a GDP account."""
    if epsilon > LARGEST_EPSILON_FOR_MU:
        raise InputError("epsilon", f"must be at most {LARGEST_EPSILON_FOR_MU} in a GDP account")
    return PureDP(epsilon).to_gdp()


# -- budget and charge in each kind of account


class Weights(NamedTuple):
    """Relative weights of every measurement, the selection of keys and the searches for AUTO bounds and limits."""

    measures: list[Fraction]
    keys: Fraction
    bounds: Fraction
    limits: Fraction = Fraction(1)


_RULES: Final = {
    "AUTO": "best",
    "PUBLIC_GROUPS": "best",
    "LAPLACE_THRESHOLD": "laplace",
    "GAUSSIAN_THRESHOLD": "gaussian",
    "TRUNCATED_GEOMETRIC": "truncated_geometric",
}


class PricedPart(NamedTuple):
    """One aggregation of a question, the relative weights of its measurements, and the grouping sets asked of it."""

    final: FinalAggregation
    weights: Weights
    sets: Sets = ()


def buy(
    parts: Sequence[PricedPart], relation: Relation, terms: Terms, currency: str, amount: Fraction
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    """Releases of each part that an amount of ``currency`` buys in the account of ``terms``, and the charge for all."""
    bought, guarantee = _bought(parts, relation, terms, currency, amount)
    # A question that releases nothing about any unit, such as the list of public keys, costs nothing.
    # Neither does the search for limits that would not matter.
    found = tuple(replace(each, left_out=None, limits=None) if _is_constant(each) else each for each in bought)
    if all(map(_is_constant, found)):
        return found, currency_of(guarantee).nothing(relation)
    return found, guarantee


def _is_constant(priced: Priced) -> bool:
    """Whether no data can change what is released."""
    return priced.keys is None and all(release.mechanism == "constant" for release in priced.releases)


def buy_rest(
    final: FinalAggregation,
    relation: Relation,
    budget: PlanBudget,
    asked: Asked,
    first: Priced | None,
    limits: Priced | None = None,
    sets: Sets = (),
) -> Priced:
    """Releases that a budget buys besides the searches for AUTO bounds and limits, before or after them.

    The kind of noise is decided without the confidence of intervals, which may differ when an answer is looked at
    again.
    """
    weights, keys, rule = asked
    priced = price(final, budget, relation, weights=weights, keys_weight=keys, rule=rule, sets=sets)
    return replace(priced, first=first, asked=asked, limits=limits)


def _bought(
    parts: Sequence[PricedPart], relation: Relation, terms: Terms, currency: str, amount: Fraction
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    private = any(not part.final.public_keys for part in parts)
    delta = (terms.delta or Fraction(0)) if private else Fraction(0)

    def bought(budget: PlanBudget) -> tuple[Priced, ...]:
        budgets = _divided(parts, budget, relation)
        return tuple(_buy_part(part, each, relation, terms) for part, each in zip(parts, budgets, strict=True))

    match terms.account:
        case "pure":
            return bought(PlanBudget("epsilon", amount)), PureDP(amount, relation=relation)
        case "zcdp" if currency == "epsilon" and terms.alone is None:
            return bought(PlanBudget("epsilon", amount, delta)), ZCDP(amount**2 / 2, delta=delta, relation=relation)
        case "zcdp":
            rho, delta = (amount, delta) if currency == "rho" else _rho_alone(amount, delta, terms)
            priced = bought(PlanBudget("rho", rho, delta))
            more = rho if currency == "rho" else _rho_of_gaussian(parts, priced, amount, terms)
            if more > rho:
                priced, rho = bought(PlanBudget("rho", more, delta)), more
            return priced, ZCDP(rho, delta=delta, relation=relation)
        case "gdp" if currency == "epsilon" and terms.alone is None:
            return bought(PlanBudget("epsilon", amount)), GDP(mu_of_epsilon(amount).mu, relation=relation)
        case "gdp":
            mu = amount if currency == "mu" else largest_mu_of(amount, terms.alone or Fraction(0))
            return bought(PlanBudget("mu2", mu**2)), GDP(mu, relation=relation)
        case _:
            return _buy_approx(parts, relation, terms, amount, bought)


def _divided(parts: Sequence[PricedPart], budget: PlanBudget, relation: Relation) -> list[PlanBudget]:
    """The budget of each part: together they have equal relative errors, as the releases of one part have."""
    if len(parts) == 1:
        return [budget]
    squared = budget.concentrated
    claims = [_claim(part, budget, relation, squared=squared) for part in parts]
    total = sum(claims, Fraction(0)) or Fraction(1)
    selections = sum(not part.final.public_keys for part in parts)
    return [
        PlanBudget(
            budget.currency,
            budget.amount * claim / total,
            Fraction(0) if part.final.public_keys else budget.delta / selections,
        )
        for part, claim in zip(parts, claims, strict=True)
    ]


def _claim(part: PricedPart, budget: PlanBudget, relation: Relation, *, squared: bool) -> Fraction:
    """The sum of the claims of all releases of a part; see :func:`split`."""
    own = part.weights.measures
    blocks = blocks_of(part.final, relation, concentrated=budget.concentrated, weights=own)
    claims = [block.coefficient * max(own[index] for index in block.measures) for block in blocks]
    claims += [] if part.final.public_keys else [part.weights.keys]
    return sum((claim * claim if squared else claim for claim in claims), Fraction(0))


def _buy_part(part: PricedPart, budget: PlanBudget, relation: Relation, terms: Terms) -> Priced:
    """Releases of one aggregation that a budget buys, with its searches and the table of what it leaves out."""
    final, weights, sets = part
    beta = 1 - terms.confidence
    asked = (tuple(weights.measures), weights.keys, _RULES[terms.rule])
    table = loss_table(final) if terms.bias_share and budget.amount else None

    def answered(budget: PlanBudget) -> Priced:
        claims = {}
        if final.seeks_limits:
            claims["limits"] = (weights.limits, auto_limits.search_of(final))
        if final.seeks_bounds:
            claims["first"] = (weights.bounds, search_of(final))
        if not claims:
            return price(
                final, budget, relation, weights=asked[0], keys_weight=asked[1], rule=asked[2], beta=beta, sets=sets
            )
        shares = search_shares([weight for weight, _ in claims.values()], squared=budget.concentrated)
        searches = {
            name: price(search, PlanBudget(budget.currency, budget.amount * share), relation)
            for (name, (_, search)), share in zip(claims.items(), shares, strict=True)
        }
        rest = PlanBudget(budget.currency, budget.amount * (1 - sum(shares)), budget.delta)
        return buy_rest(final, relation, rest, asked, searches.get("first"), searches.get("limits"), sets)

    if table is None:
        return answered(budget)
    share = terms.bias_share
    # The cell of a unit is a matter of the run; the price depends on the number of cells alone.
    counts = cell_counts(final.source, [literal(0, INTEGER)] * (len(table.causes) + 1), table)
    own = price(counts, PlanBudget(budget.currency, budget.amount * share), relation)
    rest = PlanBudget(budget.currency, budget.amount * (1 - share), budget.delta)
    return replace(answered(rest), left_out=LossPricing(table, own))


def _rho_alone(epsilon: Fraction, for_keys: Fraction, terms: Terms) -> tuple[Fraction, Fraction]:
    """The largest ρ, and the δ of private keys, that together are (ε, δ)-DP at the δ of ``terms.alone``."""
    alone = terms.alone or Fraction(0)
    # A δ that was typed pays for both; the account's share for keys is small beside its whole δ.
    for_keys = min(for_keys, alone / 2)
    rho = largest_rho_of(epsilon, alone - for_keys)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    return rho, for_keys


def _rho_of_gaussian(
    parts: Sequence[PricedPart], bought: Sequence[Priced], epsilon: Fraction, terms: Terms
) -> Fraction:
    """The largest ρ at which these releases are (ε, δ)-DP by the profile of Gaussian noise, which is all they have.

    That of the budget where there is other noise, keys are private, bounds are sought or a part reads another's value.
    Never more than the account holds, so that a question may always be asked for all of it.
    """
    whole = sum((priced.amount for priced in bought), Fraction(0))
    plain = all(priced.keys is None and not priced.searches for priced in bought) and terms.alone is not None
    # A part that reads another's value is chosen by it, and the profile is one of noises that are drawn together.
    plain = plain and not any(released_values(part.final.source) for part in parts)
    releases = [
        (release, release.share * part.budget.amount / whole)
        for priced in bought
        for part in priced.parts
        for whole_release in part.releases
        for release in whole_release.vectors
        if release.mechanism != "constant"
    ]
    if not plain or not releases or any(r.mechanism != "gaussian" or r.choice is not None for r, _ in releases):
        return whole
    shapes = tuple((release.block.sensitivity.l2_squared, release.numbers, share) for release, share in releases)
    found = _largest_gaussian_rho(shapes, epsilon, terms.alone or Fraction(0), whole)
    return found if terms.most is None else max(min(found, terms.most), whole)


@lru_cache(maxsize=1024)
def _largest_gaussian_rho(
    shapes: tuple[tuple[Fraction, int, Fraction], ...], epsilon: Fraction, delta: Fraction, least: Fraction
) -> Fraction:
    """As :func:`_rho_of_gaussian`; each shape is an l2², a number of integers and a share."""
    # The ρ of continuous noise, of which whole numbers need a little more; each is proven before it is used.
    most = _likely_mu(float_nearest(epsilon), float_nearest(delta)) ** 2 / 2
    for spare in _SPARES:
        rho = round_down(most * (1 - spare), _DIGITS)
        if rho <= least:
            break
        noises = [_gaussian(rho * share, l2, numbers, ADD_REMOVE) for l2, numbers, share in shapes]
        moved = [2 * noise.zcdp.rho * noise.sigma2 for noise in noises]
        # An integer vector that moves by √l2² moves in at most l2² places.
        places = sum(min(numbers, math.floor(each)) for (_, numbers, _), each in zip(shapes, moved, strict=True))
        mu_squared = sum((each / noise.sigma2 for each, noise in zip(moved, noises, strict=True)), Fraction(0))
        smallest = min(noise.sigma2 for noise in noises)
        if rounded_normals_give_at_most(
            epsilon, delta, mu_squared=mu_squared, sigma2=smallest, dimension=max(places, 1)
        ):
            return rho
    return least


def _likely_mu(epsilon: float, delta: float) -> Fraction:
    """About the largest μ of continuous Gaussian noise that is (ε, δ)-DP: a guess that nothing rests on."""

    def given(mu: float) -> float:
        far, near = (math.erfc((epsilon / mu + side * mu / 2) / math.sqrt(2)) / 2 for side in (1, -1))
        return near - math.exp(epsilon) * far

    low, high = 1e-9, 2 * math.sqrt(epsilon) + epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if given(middle) <= delta else (low, middle)
    return Fraction(low)


def _buy_approx(
    parts: Sequence[PricedPart],
    relation: Relation,
    terms: Terms,
    epsilon: Fraction,
    bought: Callable[[PlanBudget], tuple[Priced, ...]],
) -> tuple[tuple[Priced, ...], ApproxDP]:
    """An (ε, δ) budget, spent as ε or as ρ, whichever has the smaller errors; δ is charged if it was needed."""
    delta, private = terms.delta or Fraction(0), any(not part.final.public_keys for part in parts)
    ways: list[tuple[tuple[Priced, ...], Fraction]] = []
    if not private or _RULES[terms.rule] != "gaussian":
        needed = delta if private else Fraction(0)
        ways.append((bought(PlanBudget("epsilon", epsilon, needed)), needed))
    for_keys = delta / 2 if private else Fraction(0)
    rho = largest_rho_of(epsilon, delta - for_keys) if delta else Fraction(0)
    if rho > 0:
        ways.append((bought(PlanBudget("rho", rho, for_keys)), delta))
    if not ways:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    beta = 1 - terms.confidence
    priced, charged = min(ways, key=lambda way: _badness(parts, way[0], beta))
    return priced, ApproxDP(epsilon, charged, relation=relation)


def _badness(parts: Sequence[PricedPart], bought: Sequence[Priced], beta: Fraction) -> float:
    """The logarithm of the product of all errors: to halve one and double another is no gain."""
    bounds = []
    for (final, _, _), priced in zip(parts, bought, strict=True):
        sums: list[TotalOf | None] = [TotalOf(kept, final.parts_by(kept)) for kept in priced.sets]
        sums = sums or [None]
        errors = [expected_error(final, a, priced, beta, 10**6, each) for a in final.aggregates for each in sums]
        bounds += [error.bound or Fraction(1) for error in errors]
        if priced.keys is not None:
            bounds.append(Fraction(priced.keys.mechanism().error(beta)))
    return math.fsum(math.log(max(float_nearest(bound), 1e-9)) for bound in bounds)


def check_charge(event: ComposedEvent, guarantee: AccountGuarantee) -> None:
    """The events of a plan, composed, must cost no more than the charge; anything else is a defect of the planner."""
    currency = currency_of(guarantee)
    try:
        within = currency.covers(guarantee, currency.cost(event, event.relation))
    except AccountingError:
        if not isinstance(guarantee, ApproxDP):
            raise
        total = ZCDP(**ZERO_CONCENTRATED.cost(event, event.relation), relation=event.relation)
        within = total.delta < guarantee.delta and total.to_approx(guarantee.delta).epsilon <= guarantee.epsilon
    if not within:
        raise InternalError("a plan would release more than it charges")
