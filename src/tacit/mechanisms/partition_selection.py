"""Partition selection: private choice of group keys by their number of units.

A rule keeps or drops one group at random, by its number of units; ``partition_selection.proof.md`` proves the
guarantee.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, Event, ZCDPEvent
from tacit.core.guarantees import ZCDP, ApproxDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    exp_bounds,
    log_bounds,
    round_down,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.base import Mechanism, per_output_beta, read_integers, smallest_that
from tacit.mechanisms.gaussian import Gaussian, GaussianNoise
from tacit.mechanisms.gaussian_profile import discrete_tail_bound
from tacit.mechanisms.key_order import plain_order
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.noise import entropy
from tacit.noise.bernoulli import sample_bernoulli
from tacit.noise.laplace import LARGEST_SCALE

#: Probabilities are multiples of 2^-(this many bits and those of 1/δ).
_BITS: Final = 96
#: The longest table of the truncated geometric rule; about 2·ln(1/δ)/ε entries are needed.
_LONGEST: Final = 1 << 17
_WORD: Final = 64


class KeepRule(Protocol):
    """A rule that keeps or drops groups at random, by their number of units."""

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Decide for each group, independently, whether to keep it."""

    def needed(self, beta: Fraction) -> int:
        """Return the number of units from which on a group is dropped with probability at most ``beta``."""

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """Return lower and upper bounds on the probability that a group of ``units`` units is kept."""


class TruncatedGeometric:
    """Keeps a group of n units with probability π(n), the largest that (ε, δ)-DP of one group allows.

    π(n) is a multiple of 2^-bits, rounded down at every step of the recurrence, with a rational below e^ε in place of
    e^ε: the inequalities of privacy then hold for the probabilities that are actually used.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        if not self.is_short(epsilon, delta):
            raise InputError("epsilon", "is too small for the truncated geometric rule; use rule='laplace'")
        self.epsilon, self.delta = epsilon, delta
        self.bits = _BITS + (delta.denominator // delta.numerator).bit_length()

    @staticmethod
    def is_short(epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether the table of probabilities is short enough to compute."""
        return 2 * log_bounds(1 / delta)[1] <= epsilon * _LONGEST

    @cached_property
    def table(self) -> list[int]:
        """π(0), π(1), … in units of 2^-bits, up to the first n with π(n) = 1."""
        whole = 1 << self.bits
        growth = max(exp_bounds(self.epsilon)[0], Fraction(1))
        up, down = growth.numerator, growth.denominator
        delta = math.floor(self.delta * whole)
        table = [0]
        while table[-1] < whole:
            last = table[-1]
            rising = last * up // down + delta
            # 1 - (1 - π - δ)/e^ε, with the subtrahend rounded up.
            falling = whole + (last + delta - whole) * down // up
            table.append(min(rising, falling, whole))
        return table

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Decide for each group, independently, from 64 random bits, and from more where these do not decide."""
        table = self.table
        places = np.clip(units, 0, len(table) - 1)
        words = entropy.current().words(units.size)
        heads = np.array([(entry << _WORD) >> self.bits for entry in table[:-1]] + [0], dtype=np.uint64)[places]
        sure = places == len(table) - 1
        kept: NDArray[np.bool_] = (words < heads) | sure
        for index in np.flatnonzero((words == heads) & ~sure):
            rest = (table[int(places[index])] << _WORD) & ((1 << self.bits) - 1)
            kept[index] = sample_bernoulli(Fraction(rest, 1 << self.bits))
        return kept

    def needed(self, beta: Fraction) -> int:
        """Return the smallest n with π(n) >= 1 - ``beta``."""
        return bisect_left(self.table, math.ceil((1 - beta) * (1 << self.bits)))

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """Return π(n), which is exact, as both bounds."""
        value = Fraction(self.table[min(units, len(self.table) - 1)], 1 << self.bits)
        return value, value


@dataclass(frozen=True)
class Threshold:
    """Keeps a group of n >= 1 units when n plus integer noise is at least ``threshold``."""

    noise: LaplaceNoise | GaussianNoise
    threshold: int

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Compare each noisy number of units with the threshold.

        Empty groups get noise as well, and are dropped afterwards.
        """
        kept: NDArray[np.bool_] = (units >= 1) & (units >= self.threshold - self._draw(units.size))
        return kept

    def _draw(self, size: int) -> NDArray[np.int64]:
        scale2 = self.noise.scale**2 if isinstance(self.noise, LaplaceNoise) else self.noise.sigma2
        if scale2 > LARGEST_SCALE**2 // 4:
            raise InputError("epsilon", "is too small to select groups with; the threshold would be above 2**40 units")
        return self.noise.sampler.sample_many(size)

    def needed(self, beta: Fraction) -> int:
        """Return the smallest n for which n - T is the two-sided quantile at 2·``beta``.

        A group of n units is dropped with probability P(n + X < T) = P(X > n - T) <= ``beta``.
        """
        return self.threshold + (self.noise.quantile(2 * beta) if 2 * beta < 1 else 0)

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """Return lower and upper bounds on P(n + X >= T); for Gaussian noise, tight to ten digits."""
        if units < 1:
            return Fraction(0), Fraction(0)
        start = self.threshold - units
        if start >= 1:
            return self._tail_bounds(start)
        low, high = self._tail_bounds(1 - start)
        return 1 - high, 1 - low

    def _tail_bounds(self, start: int) -> tuple[Fraction, Fraction]:
        """Return lower and upper bounds on P(X >= ``start``), for ``start`` >= 1."""
        if isinstance(self.noise, LaplaceNoise):
            low_q, high_q = exp_bounds(-1 / self.noise.scale)
            low, high = exp_bounds(-start / self.noise.scale)
            return low / (1 + high_q), high / (1 + low_q)
        high = discrete_tail_bound(self.noise.sigma2, start) / 2
        return high * (1 - Fraction(1, 10**10)), high


def laplace_threshold(epsilon: Fraction, delta: Fraction) -> Threshold:
    """Return the rule with Laplace noise X of scale 1/ε and the smallest T with P(1 + X >= T) <= δ.

    P(X >= k) = q^k/(1+q) for k >= 1 and q = e^-ε, so T = 1 + k with the smallest k >= 1 that makes this at most δ.
    """
    scale = 1 / epsilon
    least = scale * log_bounds(1 / (delta * (1 + exp_bounds(-epsilon)[0])))[1]
    return Threshold(LaplaceNoise(scale), 1 + max(math.ceil(least), 1))


def gaussian_threshold(sigma2: Fraction, delta: Fraction) -> Threshold:
    """Return the rule with Gaussian noise X of ``sigma2`` and the smallest T for which P(1 + X >= T) <= δ is proven."""
    noise = GaussianNoise(sigma2)
    # P(|X| > w) <= 2δ is P(X >= w + 1) <= δ.
    widest = noise.quantile(min(2 * delta, Fraction(1, 2)))
    return Threshold(noise, 1 + widest + 1)


#: Rules by which a group is kept; ``best`` is the one that keeps the smallest groups.
RULES: Final = ("best", "truncated_geometric", "laplace", "gaussian")
#: Rules are compared by the number of units from which on a group is dropped with at most this probability.
_JUDGED_AT: Final = Fraction(1, 20)


class PartitionSelection(Mechanism):
    """Releases which groups have enough units to be named; an empty group is never named.

    >>> keys = PartitionSelection(epsilon=1, delta="1e-5")
    >>> keys.guarantee, keys.rule, keys.error(beta="0.05")
    (ApproxDP(1, 1e-05), 'truncated_geometric', 14)

    Args:
        epsilon: of the guarantee, for all groups together.
        delta: likewise.
        max_groups: κ, the most groups that one unit counts in.
        rule: ``"truncated_geometric"`` keeps a group of n units with the largest probability that privacy of one group
            allows; ``"laplace"`` and ``"gaussian"`` keep it when n plus noise reaches a threshold; ``"best"`` takes the
            one that needs the fewest units.
        relation: which databases are neighbours.

    Privacy:
        (ε, δ)-DP under ``relation``, or δ-approximate ρ-zCDP from :meth:`from_rho`, for the whole set of groups, where

        * K = κ groups change by one unit under add/remove, and K = 2κ under replace-one;
        * each group is judged alone, at ε/K (or √(2ρ/K)) and δ′ = 1 - (1-δ)^(1/K);
        * the optimal rule is π(0) = 0, π(n) = min{e^ε π(n-1) + δ, 1 - e^(-ε)(1 - π(n-1) - δ), 1} at those values;
        * Gaussian noise shares one σ among all groups, since it is priced by the l2 norm √K, and half of δ is for
          the threshold where the guarantee is (ε, δ).

    Sensitivity:
        the number of units of one group moves by 1, the vector of all groups by K in l1 and √K in l2.

    Error:
        :meth:`error` is the number of units from which on a group is kept with probability at least 1 - β.

    Assumes:
        each unit was counted once per group and in at most κ groups, chosen by looking at that unit's data alone.

    References:
        Desfontaines, Voss, Gipson and Mandayam (2022) for the optimal rule; Korolova, Kenthapadi, Mishra and Ntoulas
        (2009) for thresholds. Proof: ``partition_selection.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        max_groups: int = 1,
        rule: str = "best",
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        promise = ApproxDP(
            exact_positive(epsilon, "epsilon"), exact_probability(delta, "delta"), relation=as_relation(relation)
        )
        self._set_up(promise, max_groups, rule)

    @classmethod
    def from_rho(
        cls,
        *,
        rho: Number,
        delta: Number,
        max_groups: int = 1,
        rule: str = "best",
        relation: Relation | str = ADD_REMOVE,
    ) -> PartitionSelection:
        """Return the selection whose guarantee is δ-approximate ρ-zCDP."""
        self = cls.__new__(cls)
        promise = ZCDP(
            exact_positive(rho, "rho"), delta=exact_probability(delta, "delta"), relation=as_relation(relation)
        )
        self._set_up(promise, max_groups, rule)
        return self

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        delta: Number,
        max_groups: int = 1,
        rule: str = "best",
        relation: Relation | str = ADD_REMOVE,
    ) -> PartitionSelection:
        """Return the selection of the smallest ε that drops a group of ``within`` units with probability <= ``beta``.

        ε is rounded up to six digits.
        """
        bound = exact_positive(within, "within")
        if bound < 2:
            raise InputError("within", "must be at least 2: a group of one unit must hardly ever be named")
        groups = check_count(max_groups, "max_groups")
        log_high = log_bounds(1 / exact_probability(delta, "delta"))[1]

        def make(epsilon: Fraction) -> PartitionSelection:
            return cls(epsilon=epsilon, delta=delta, max_groups=groups, rule=rule, relation=relation)

        return make(
            smallest_that(lambda epsilon: make(epsilon).error(beta) <= bound, groups * log_high / bound, digits=6)
        )

    def _set_up(self, promise: ApproxDP | ZCDP, max_groups: int, rule: str) -> None:
        if rule not in RULES:
            raise InputError("rule", f"must be one of {', '.join(map(repr, RULES))}, got {rule!r}")
        self._guarantee = promise
        self.max_groups = check_count(max_groups, "max_groups", maximum=10**9)
        self._touched = self.max_groups * (1 if promise.relation is ADD_REMOVE else 2)
        if rule == "best":
            self.rule, self._rule = self._best()
        else:
            self.rule, self._rule = rule, self._make(rule)

    def _best(self) -> tuple[str, KeepRule]:
        # At (ε, δ) the truncated geometric rule is optimal for one group; for several groups, and for zCDP, Gaussian
        # noise may be better. Laplace is never better than truncated geometric: it is for epsilons too small for that
        # rule's table.
        names = ["truncated_geometric"] if TruncatedGeometric.is_short(*self._per_group()) else ["laplace"]
        names += ["gaussian"] if self._touched > 1 or isinstance(self._guarantee, ZCDP) else []
        made = [(name, self._make(name)) for name in names]
        return min(made, key=lambda pair: pair[1].needed(_JUDGED_AT))

    def _make(self, rule: str) -> KeepRule:
        epsilon, delta = self._per_group()
        if rule == "truncated_geometric":
            return TruncatedGeometric(epsilon, delta)
        if rule == "laplace":
            return laplace_threshold(epsilon, delta)
        return self._gaussian()

    def _per_group(self) -> tuple[Fraction, Fraction]:
        """Return the ε and δ at which each group is decided."""
        promise = self._guarantee
        delta = per_output_beta(promise.delta, self._touched)
        if isinstance(promise, ApproxDP):
            return promise.epsilon / self._touched, delta
        return round_down(sqrt_bounds(2 * promise.rho / self._touched)[0]), delta

    def _gaussian(self) -> Threshold:
        promise = self._guarantee
        if isinstance(promise, ZCDP):
            return gaussian_threshold(self._touched / (2 * promise.rho), per_output_beta(promise.delta, self._touched))
        # Half of δ is for the noise, half for a group of one unit that passes the threshold. Only counts of groups that
        # a unit is in can differ, so noise calibrated for K numbers is enough for any number of groups.
        half = promise.delta / 2
        noise = Gaussian(
            epsilon=promise.epsilon,
            delta=half,
            l2_squared=self._touched,
            dimension=self._touched,
            relation=self.relation,
        ).noise
        if not isinstance(noise, GaussianNoise):  # pragma: no cover - a whole sensitivity has integer noise
            raise TypeError
        return gaussian_threshold(noise.sigma2, per_output_beta(half, self._touched))

    @property
    def guarantee(self) -> ApproxDP | ZCDP:
        """(ε, δ)-DP, or δ-approximate ρ-zCDP from :meth:`from_rho`."""
        return self._guarantee

    @property
    def event(self) -> Event:
        """Event of one release, for accountants."""
        promise = self._guarantee
        if isinstance(promise, ApproxDP):
            return ApproxEvent(promise.epsilon, promise.delta, "partition_selection", relation=self.relation)
        return ZCDPEvent(promise.rho, promise.delta, "partition_selection", relation=self.relation)

    @property
    def threshold(self) -> int | None:
        """Threshold for a noisy number of units; ``None`` for the truncated geometric rule."""
        return self._rule.threshold if isinstance(self._rule, Threshold) else None

    def release(self, units: Any) -> Any:
        """Select the groups to keep.

        Args:
            units: the number of units in each group: an integer, a list or an array; the result is then a bool, a list
                or an array of bools, whose length is public. Or a mapping from group key to number; the result is then
                the list of group keys kept, in an order and a form that do not depend on those of the mapping
                (:mod:`tacit.mechanisms.key_order`): numbers before text, ``True`` and ``1.0`` as ``1``.
        """
        if isinstance(units, Mapping):
            return self._release_mapping(units)
        readings = read_integers(units, "units")
        kept = self._rule.keep(np.asarray(readings.array, dtype=np.int64).ravel())
        return readings.like(kept)

    def _release_mapping(self, units: Mapping[Hashable, int]) -> list[Hashable]:
        if not units:
            return []
        kept = self.release(list(units.values()))
        # Neither the order of a mapping nor which of several equal keys it holds is public: one unit may decide both.
        return [key for i, key in plain_order(units).items() if kept[i]]

    def error(self, beta: Number, k: int = 1) -> int:
        """Return the number of units from which on ``k`` groups are all kept with probability at least 1 - ``beta``."""
        return self._rule.needed(per_output_beta(beta, k))

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """Return rational bounds on the probability that a group of ``units`` units is kept."""
        return self._rule.probability_bounds(check_count(units, "units", minimum=0))

    def __repr__(self) -> str:
        return f"PartitionSelection({self._guarantee!r}, max_groups={self.max_groups}, rule={self.rule!r})"
