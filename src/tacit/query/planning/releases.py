"""Releases: vectors of integers with the noise they get, the selection of private keys, and all of a query together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from tacit.core.events import ComposedEvent, Event, NoEvent
from tacit.core.relations import Relation
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.residual_basis import Axes, LevelBasis
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.query.planning.bias import BiasTable
from tacit.query.planning.blocks import Block, Readout
from tacit.query.planning.noise_distribution import LevelNoise, NoiseLaw
from tacit.query.planning.rank_choice import RankChoice
from tacit.query.query import FinalAggregation

#: See :class:`Priced`.
Asked = tuple[tuple[Fraction, ...], Fraction, str]
#: Largest denominator of the relative precisions of levels: a coarse one costs accuracy, and no bias.
_PRECISION: Final = 1 << 20
#: Places of the keys of grouping sets.
Sets = tuple[Axes, ...]


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
def gaussian_noise(rho: Fraction, l2_squared: Fraction, numbers: int, relation: Relation) -> Gaussian:
    """Gaussian noise of whole numbers, made once."""
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
        return gaussian_noise(self.rho, moved.l2_squared, self.numbers, self.relation)

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
    """Sums of groups that get noise of their own: the groups by the keys at the places ``axes``."""

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
        return key_selection(self.epsilon, self.rho, self.delta, self.groups, self.rule, self.relation)

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
        bias: the table of what bounding leaves out, which comes last and has a budget of its own; None where it is
            not bought.
        limits: the search for AUTO limits, which comes first of all and has a budget of its own.
        sets: places of the keys of each grouping set that is asked for; empty for a plain GROUP BY.
    """

    budget: PlanBudget
    releases: tuple[Release, ...]
    keys: KeySelection | None
    first: Priced | None = None
    asked: Asked | None = None
    bias: LossPricing | None = field(default=None, repr=False)
    limits: Priced | None = field(default=None, repr=False)
    # It follows from the query, and decides nothing that the releases do not say.
    sets: Sets = field(default=(), repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """Its one text, for digests."""
        parts = [repr(self), *(repr(part) for part in (self.bias,) if part is not None)]
        parts += [f"levels {release.levels!r}" for release in self.releases if release.levels]
        return ", ".join(parts) + ("" if self.limits is None else f" limits {self.limits!r}")

    @property
    def amount(self) -> Fraction:
        """Of the whole price, searches and the table of what is left out included."""
        return sum((part.budget.amount for part in self.parts), Fraction(0))

    @property
    def parts(self) -> tuple[Priced, ...]:
        """Parts with a budget of their own, in the order in which they run."""
        last = () if self.bias is None else (self.bias.priced,)
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
    """The table of what bounding leaves out, and its one release; see :mod:`tacit.query.planning.bias`."""

    table: BiasTable
    priced: Priced


@lru_cache(maxsize=256)
def key_selection(
    epsilon: Fraction, rho: Fraction, delta: Fraction, groups: int, rule: str, relation: Relation
) -> PartitionSelection:
    """The selection at (ε, δ), or at ρ and δ where ``rho`` is not 0."""
    if rho:
        return PartitionSelection.from_rho(rho=rho, delta=delta, max_groups=groups, rule=rule, relation=relation)
    return PartitionSelection(epsilon=epsilon, delta=delta, max_groups=groups, rule=rule, relation=relation)


class Weights(NamedTuple):
    """Relative weights of every measurement, the selection of keys and the searches for AUTO bounds and limits."""

    measures: list[Fraction]
    keys: Fraction
    bounds: Fraction
    limits: Fraction = Fraction(1)


class PricedPart(NamedTuple):
    """One aggregation of a query, the relative weights of its measurements, and the grouping sets asked of it."""

    final: FinalAggregation
    weights: Weights
    sets: Sets = ()
