"""Privacy guarantees in five currencies, with safe conversions and group privacy.

Every guarantee is about a neighbouring *relation* (see :mod:`tacit.core.relations`) and holds its numbers exactly.
A conversion goes only in the direction that a theorem covers and rounds towards *less* privacy: the result may
claim a little too little, never too much.

========== ============================================================== =========================================
class      states, for every pair of neighbours with output laws P, Q      converts to
========== ============================================================== =========================================
PureDP     P(S) <= e^ε Q(S)                                               ApproxDP, ZCDP (ε²/2), GDP, RDP
ApproxDP   P(S) <= e^ε Q(S) + δ                                           ZCDP (approximate, ε²/2 with δ)
ZCDP       D_α(P‖Q) <= ρα for all α > 1 (up to an event of mass δ)        ApproxDP, RDP
GDP        telling P from Q is no easier than N(0,1) from N(μ,1)          ApproxDP, ZCDP (μ²/2), RDP
RDP        D_α(P‖Q) <= ε(α) at the orders listed                          ApproxDP
========== ============================================================== =========================================

*Post-processing.* Any result computed from a release alone keeps its guarantee; :meth:`Guarantee.postprocess`
returns the guarantee unchanged and exists so that the theorem has a name in code.

*Group privacy.* :meth:`Guarantee.group` is the guarantee for ``k`` units at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

from tacit.core.errors import AccountingError, InputError
from tacit.core.normal import gaussian_delta_bounds, gaussian_epsilon_up, normal_quantile_bounds
from tacit.core.numbers import (
    MAX_BITS,
    Number,
    check_count,
    exact,
    exact_nonnegative,
    exact_probability,
    exp_bounds,
    float_nearest,
    format_up,
    log_bounds,
    round_up,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation

#: Largest group size k, and largest ε, for which the geometric sum is computed from an upper bound on e^ε alone.
_FEW: Final = 64
#: Renyi orders that suit tiny to large budgets.
DEFAULT_ORDERS: tuple[Fraction, ...] = (
    *(1 + Fraction(i, 10) for i in range(1, 100)),
    *(Fraction(i) for i in range(11, 65)),
    *(Fraction(2**i) for i in range(7, 21)),
)


class Guarantee(ABC):
    """A privacy guarantee of one release, or of several taken together."""

    relation: Relation

    @abstractmethod
    def group(self, k: int) -> Guarantee:
        """Return the guarantee for any ``k`` units at once."""

    @abstractmethod
    def to_approx(self, delta: Number) -> ApproxDP:
        """Return the (ε, δ) guarantee at ``delta``, with ε as small as the theorem allows, rounded up."""

    def postprocess(self) -> Self:
        """Return the guarantee of a value computed from the release alone: the same guarantee.

        Post-processing sees the released value and fresh randomness, never the data, so for every event S of its
        output the set of releases that lead into S is itself an event, and the inequality for that event carries over.
        """
        return self

    def _suffix(self) -> str:
        return "" if self.relation is ADD_REMOVE else f", relation={self.relation!r}"


def _set(instance: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)


@dataclass(frozen=True, repr=False)
class PureDP(Guarantee):
    """ε-differential privacy: no event becomes more than e^ε times likelier for a neighbour.

    >>> PureDP("0.1").group(3)
    PureDP(0.3)
    """

    epsilon: Fraction
    relation: Relation = ADD_REMOVE

    def __init__(self, epsilon: Number, *, relation: Relation | str = ADD_REMOVE) -> None:
        _set(self, epsilon=exact_nonnegative(epsilon, "epsilon"), relation=as_relation(relation))

    @property
    def delta(self) -> Fraction:
        """The δ of pure differential privacy: zero."""
        return Fraction(0)

    def group(self, k: int) -> PureDP:
        """Return kε-DP."""
        return PureDP(check_count(k, "k") * self.epsilon, relation=self.relation)

    def to_approx(self, delta: Number = 0) -> ApproxDP:
        """Return the same ε at ``delta``; a positive δ does not lower ε if only the guarantee is known."""
        return ApproxDP(self.epsilon, exact_probability(delta, "delta", zero=True), relation=self.relation)

    def to_zcdp(self) -> ZCDP:
        """Return ρ = ε²/2 (Bun and Steinke 2016, Proposition 1.4)."""
        return ZCDP(self.epsilon**2 / 2, relation=self.relation)

    def to_gdp(self) -> GDP:
        """Return μ = 2Φ⁻¹(e^ε/(1+e^ε)): the normal trade-off curve that touches that of ε-DP at its corner.

        Elsewhere the normal curve lies below, so μ-GDP follows from ε-DP.
        """
        if self.epsilon == 0:
            return GDP(0, relation=self.relation)
        odds_high = exp_bounds(self.epsilon)[1]
        # e^ε/(1+e^ε) = 1/2 + tanh(ε/2)/2, and tanh(ε/2) <= ε/2, the sharper bound for a tiny ε.
        corner = min(odds_high / (1 + odds_high), (1 + self.epsilon / 2) / 2)
        mu = 2 * normal_quantile_bounds(corner)[1]
        return GDP(round_up(mu), relation=self.relation)

    def to_rdp(self, orders: Iterable[Number] = DEFAULT_ORDERS) -> RDP:
        """Return ε(α) = min(ε, αε²/2) at each order."""
        return RDP({a: min(self.epsilon, a * self.epsilon**2 / 2) for a in _orders(orders)}, relation=self.relation)

    def __repr__(self) -> str:
        return f"PureDP({format_up(self.epsilon)}{self._suffix()})"


@dataclass(frozen=True, repr=False)
class ApproxDP(Guarantee):
    """(ε, δ)-differential privacy: as ε-DP, except for a part of the outcome that has probability at most δ.

    >>> ApproxDP(1, "1e-6").group(3)
    ApproxDP(3, 1.11074e-05)
    """

    epsilon: Fraction
    delta: Fraction
    relation: Relation = ADD_REMOVE

    def __init__(self, epsilon: Number, delta: Number, *, relation: Relation | str = ADD_REMOVE) -> None:
        _set(
            self,
            epsilon=exact_nonnegative(epsilon, "epsilon"),
            delta=exact_probability(delta, "delta", zero=True, one=True),
            relation=as_relation(relation),
        )

    def group(self, k: int) -> ApproxDP:
        """Return (kε, δ·(e^{kε}-1)/(e^ε-1)), the tight form.

        Along a chain of neighbours P_{i+1}(S) <= e^ε P_i(S) + δ; unrolled, the δ terms are a geometric sum.
        """
        k = check_count(k, "k")
        delta = min(round_up(self.delta * _geometric_up(self.epsilon, k)), Fraction(1)) if self.delta else self.delta
        return ApproxDP(k * self.epsilon, delta, relation=self.relation)

    def to_approx(self, delta: Number | None = None) -> ApproxDP:
        """Return the same ε at its own δ or at any larger one."""
        wanted = self.delta if delta is None else exact_probability(delta, "delta", zero=True, one=True)
        if wanted < self.delta:
            raise AccountingError(
                f"an ({format_up(self.epsilon)}, {format_up(self.delta)}) guarantee says nothing about the smaller "
                f"delta {format_up(wanted)}; ask for delta >= {format_up(self.delta)}"
            )
        return ApproxDP(self.epsilon, wanted, relation=self.relation)

    def to_zcdp(self) -> ZCDP:
        """Return δ-approximate ε²/2-zCDP (Bun and Steinke 2016, section 8)."""
        return ZCDP(self.epsilon**2 / 2, delta=self.delta, relation=self.relation)

    def __repr__(self) -> str:
        return f"ApproxDP({format_up(self.epsilon)}, {format_up(self.delta)}{self._suffix()})"


@dataclass(frozen=True, repr=False)
class ZCDP(Guarantee):
    """ρ-zero-concentrated DP: the privacy loss has moments at most a Gaussian's; with ``delta``, up to mass δ.

    >>> ZCDP("0.1").to_approx("1e-6")
    ApproxDP(2.14194, 1e-06)
    """

    rho: Fraction
    delta: Fraction = Fraction(0)
    relation: Relation = ADD_REMOVE

    def __init__(self, rho: Number, *, delta: Number = 0, relation: Relation | str = ADD_REMOVE) -> None:
        _set(
            self,
            rho=exact_nonnegative(rho, "rho"),
            delta=exact_probability(delta, "delta", zero=True, one=True),
            relation=as_relation(relation),
        )

    def group(self, k: int) -> ZCDP:
        """Return k²ρ (Bun and Steinke 2016, Proposition 1.9)."""
        if self.delta:
            raise AccountingError(
                "no tight group rule is known for approximate zCDP; convert first: to_approx(delta).group(k)"
            )
        return ZCDP(check_count(k, "k") ** 2 * self.rho, relation=self.relation)

    def to_approx(self, delta: Number) -> ApproxDP:
        """Return the smallest ε over all Renyi orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
        total = exact_probability(delta, "delta")
        if total <= self.delta:
            raise AccountingError(f"delta must exceed the {format_up(self.delta)} that this guarantee has already used")
        # A δ₀-approximate guarantee holds exactly except on an event of mass δ₀; the conversion uses the rest of δ.
        available = total - self.delta
        if self.rho == 0:
            return ApproxDP(0, total, relation=self.relation)
        # For the search alone: ρ is clipped to the range of floats.
        rho = min(max(float_nearest(self.rho), 1e-290), 1e290)
        log_delta = math.log(available.numerator) - math.log(available.denominator)

        def epsilon_estimate(alpha: float) -> float:
            return rho * alpha + math.log1p(-1 / alpha) - (log_delta + math.log(alpha)) / (alpha - 1)

        # Any order gives a valid ε, so the search may be in floats; only the order found is evaluated upwards.
        best = golden_minimum(epsilon_estimate, 1 + math.sqrt(-log_delta / rho))
        epsilon = renyi_epsilon_up(best, best * self.rho, available)
        return ApproxDP(epsilon, total, relation=self.relation)

    def to_rdp(self, orders: Iterable[Number] = DEFAULT_ORDERS) -> RDP:
        """Return ε(α) = ρα at each order."""
        if self.delta:
            raise AccountingError("approximate zCDP (delta > 0) does not bound any Renyi divergence")
        return RDP({a: self.rho * a for a in _orders(orders)}, relation=self.relation)

    def __repr__(self) -> str:
        delta = f", delta={format_up(self.delta)}" if self.delta else ""
        return f"ZCDP({format_up(self.rho)}{delta}{self._suffix()})"


@dataclass(frozen=True, repr=False)
class GDP(Guarantee):
    """μ-Gaussian DP: telling neighbours apart is no easier than telling N(0, 1) from N(μ, 1).

    >>> GDP(1).to_approx("1e-5")
    ApproxDP(4.37718, 1e-05)
    """

    mu: Fraction
    relation: Relation = ADD_REMOVE

    def __init__(self, mu: Number, *, relation: Relation | str = ADD_REMOVE) -> None:
        _set(self, mu=exact_nonnegative(mu, "mu"), relation=as_relation(relation))

    def group(self, k: int) -> GDP:
        """Return kμ (Dong, Roth and Su 2022, Theorem 2.14)."""
        return GDP(check_count(k, "k") * self.mu, relation=self.relation)

    def to_approx(self, delta: Number) -> ApproxDP:
        """Return the exact ε of the normal trade-off curve at ``delta``, rounded up."""
        wanted = exact_probability(delta, "delta")
        return ApproxDP(gaussian_epsilon_up(self.mu, wanted), wanted, relation=self.relation)

    def delta_at(self, epsilon: Number) -> ApproxDP:
        """Return the exact δ of the normal trade-off curve at ``epsilon``, rounded up."""
        e = exact_nonnegative(epsilon, "epsilon")
        return ApproxDP(e, round_up(gaussian_delta_bounds(e, self.mu)[1]), relation=self.relation)

    def to_zcdp(self) -> ZCDP:
        """Return ρ = μ²/2: the Renyi divergence of N(0, 1) and N(μ, 1) is αμ²/2, and trade-off curves determine it."""
        return ZCDP(self.mu**2 / 2, relation=self.relation)

    def to_rdp(self, orders: Iterable[Number] = DEFAULT_ORDERS) -> RDP:
        """Return ε(α) = αμ²/2 at each order."""
        return self.to_zcdp().to_rdp(orders)

    def __repr__(self) -> str:
        return f"GDP({format_up(self.mu)}{self._suffix()})"


@dataclass(frozen=True, repr=False)
class RDP(Guarantee):
    """Renyi DP: D_α(P‖Q) <= ε(α) at each order listed; ``RDP({2: "0.5", 8: 2})`` or ``RDP.at(alpha, epsilon)``."""

    curve: tuple[tuple[Fraction, Fraction], ...]
    relation: Relation = ADD_REMOVE

    def __init__(self, curve: Mapping[Number, Number], *, relation: Relation | str = ADD_REMOVE) -> None:
        points = sorted((_order(alpha), exact_nonnegative(epsilon, "epsilon")) for alpha, epsilon in curve.items())
        if not points:
            raise InputError("curve", "must list at least one order")
        if len({alpha for alpha, _ in points}) != len(points):
            raise InputError("curve", "lists the same order twice")
        _set(self, curve=tuple(points), relation=as_relation(relation))

    @classmethod
    def at(cls, alpha: Number, epsilon: Number, *, relation: Relation | str = ADD_REMOVE) -> RDP:
        """Return a guarantee at a single order."""
        return cls({_order(alpha): epsilon}, relation=relation)

    def group(self, k: int) -> RDP:
        """Return the guarantee for k <= 2^c: order α/2^c with 3^c·ε(α), if α >= 2^{c+1} (Mironov 2017, Prop. 2)."""
        doublings = (check_count(k, "k") - 1).bit_length()
        factor = 2**doublings
        kept = {a / factor: 3**doublings * e for a, e in self.curve if a >= 2 * factor}
        if not kept:
            raise AccountingError(f"a group of {k} needs an order of at least {2 * factor}")
        return RDP(kept, relation=self.relation)

    def to_approx(self, delta: Number) -> ApproxDP:
        """Return the smallest ε over the orders listed (Canonne, Kamath and Steinke 2020, Proposition 12)."""
        wanted = exact_probability(delta, "delta")
        log_delta = math.log(wanted.numerator) - math.log(wanted.denominator)

        def estimate(point: tuple[Fraction, Fraction]) -> float:
            alpha, epsilon = float_nearest(point[0]), float_nearest(point[1])
            if not 1 < alpha < math.inf:
                # Orders that round to 1 or infinity as floats are taken last; the result itself is computed exactly.
                return math.inf
            return epsilon + math.log1p(-1 / alpha) - (log_delta + math.log(alpha)) / (alpha - 1)

        alpha, epsilon = min(self.curve, key=estimate)
        return ApproxDP(renyi_epsilon_up(alpha, epsilon, wanted), wanted, relation=self.relation)

    def __repr__(self) -> str:
        shown = ", ".join(f"{float_nearest(a):g}: {format_up(e)}" for a, e in self.curve[:3])
        more = f", … {len(self.curve)} orders" if len(self.curve) > 3 else ""
        return f"RDP({{{shown}{more}}}{self._suffix()})"


def _geometric_up(epsilon: Fraction, k: int) -> Fraction:
    """Return Σ_{i<k} e^{iε} = (e^{kε} - 1)/(e^ε - 1), rounded up; for a huge sum, a number that exceeds any 1/δ."""
    if epsilon == 0 or k == 1:
        return Fraction(k)
    if k <= _FEW and epsilon <= _FEW:
        # The sum is increasing in e^ε, so the upper end of its enclosure gives an upper bound.
        base = exp_bounds(epsilon)[1]
        return (base**k - 1) / (base - 1)
    if k * epsilon > 10**4:
        # At least e^{kε/2}, where δ is at least 2^-MAX_BITS: the product exceeds 1.
        return Fraction(2**MAX_BITS)
    # Enough digits for e^ε - 1 to have forty significant ones, however small ε is; and e^ε - 1 >= ε.
    digits = 45 + max(0, 2 * (epsilon.denominator.bit_length() - epsilon.numerator.bit_length()) // 3)
    below = max(exp_bounds(epsilon, digits)[0] - 1, epsilon)
    return (exp_bounds(k * epsilon, digits)[1] - 1) / below


def renyi_epsilon_up(alpha: Fraction, renyi_epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return ε = ε(α) + ln(1 - 1/α) - (ln δ + ln α)/(α - 1), rounded up and never below 0."""
    gain_high = log_bounds(1 - 1 / alpha)[1]
    log_low = log_bounds(delta * alpha)[0]
    epsilon = renyi_epsilon + gain_high - log_low / (alpha - 1)
    return max(round_up(epsilon), Fraction(0))


def _order(alpha: Number) -> Fraction:
    value = exact(alpha, "alpha")
    if value <= 1:
        raise InputError("alpha", f"a Renyi order must be greater than 1, got {float_nearest(value):g}")
    return value


def _orders(orders: Iterable[Number]) -> list[Fraction]:
    return [_order(alpha) for alpha in orders]


def golden_minimum(function: Callable[[float], float], start: float) -> Fraction:
    """Return an order near the minimum of a unimodal function of α > 1, by golden-section search."""
    low, high = math.log(1e-9), math.log(max(start, 2.0)) + 5
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    f_left, f_right = function(1 + math.exp(left)), function(1 + math.exp(right))
    for _ in range(90):
        if f_left <= f_right:
            high, right, f_right = right, left, f_left
            left = high - ratio * (high - low)
            f_left = function(1 + math.exp(left))
        else:
            low, left, f_left = left, right, f_right
            right = low + ratio * (high - low)
            f_right = function(1 + math.exp(right))
    return 1 + Fraction(math.exp((low + high) / 2))
