"""Cost of a release in the currency of a filter, rounded up.

A charge is an event, a guarantee, or anything that carries one (``.event``, ``.guarantee``), such as a mechanism. It
is read as the guarantees that are proven for it, :func:`guarantees_of`, and each currency takes the cheapest of those
that a theorem converts. A release that no theorem converts is refused with an :class:`AccountingError`.

=========== ================================== ==================================================================
currency    is added up as                     converts from
=========== ================================== ==================================================================
pure        ε                                  PureDP
approx      ε and δ                            PureDP, ApproxDP
zCDP        ρ and δ                            PureDP ε²/2; ApproxDP (ε²/2, δ); ZCDP; GDP μ²/2; ε-bounded range ε²/8
GDP         μ²                                 GDP; PureDP through the curve that touches it; ε-bounded range as ε/2
Renyi       ε at one order α                   PureDP min(ε, αε²/2); ZCDP αρ; GDP αμ²/2; RDP at the order or above;
                                               Gaussian noise on a Poisson sample
=========== ================================== ==================================================================

Repetitions and compositions cost the sum of their parts. Releases on the parts of a partition cost the costliest part,
or the two costliest when units are replaced; each part's event must then hold for the whole database, also for a unit
that enters or leaves the part.

*Amplification by Poisson sampling.* Let M be (ε, δ)-DP for adding or removing a unit, and let it run on a sample that
holds every unit independently with probability q and that stays secret. Then the whole is (ln(1 + q(e^ε - 1)), qδ)-DP
for adding or removing a unit (Balle, Barthe and Gaboardi 2018), and this cannot be improved knowing only (ε, δ).

For *replacing* a unit there is no such gain: the two neighbours agree on samples that miss the unit and may give
disjoint outputs otherwise, so ε stays and only δ shrinks to qδ (the hockey-stick divergence is jointly convex).

*Assumes.* The sample is secret, fresh for each release, and drawn unit by unit. No function here accounts for
shuffled or fixed-size batches.

References: Balle, Barthe, Gaboardi, "Privacy amplification by subsampling" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol, runtime_checkable

from tacit.core.errors import AccountingError, InputError
from tacit.core.events import (
    ApproxEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    NoEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    SampledSumEvent,
    ZCDPEvent,
)
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import (
    Number,
    exact_nonnegative,
    exact_probability,
    exp_bounds,
    float_down,
    float_nearest,
    float_up,
    log_bounds,
    round_up,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation


def amplify(*, epsilon: Number, delta: Number = 0, rate: Number, relation: Relation | str = ADD_REMOVE) -> ApproxDP:
    """Return the guarantee of an (ε, δ)-DP release on a secret Poisson sample of ``rate``, rounded up.

    >>> amplify(epsilon=1, rate="0.01")
    ApproxDP(0.0170369, 0)
    """
    e = exact_nonnegative(epsilon, "epsilon")
    d = exact_probability(delta, "delta", zero=True, one=True)
    q = exact_probability(rate, "rate", zero=True, one=True)
    which = as_relation(relation)
    if which is ADD_REMOVE:
        e = amplified_epsilon(e, q)
    elif q == 0:
        e = Fraction(0)
    return ApproxDP(e, q * d, relation=which)


def amplified_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return ln(1 + q(e^ε - 1)), rounded up and never above ε."""
    if epsilon == 0 or rate == 0:
        return Fraction(0)
    if rate == 1 or epsilon > 10**5:
        return epsilon
    # Enough digits for e^ε - 1 to have forty significant ones, however small ε is.
    digits = 45 + max(0, 2 * (epsilon.denominator.bit_length() - epsilon.numerator.bit_length()) // 3)
    odds = 1 + rate * (exp_bounds(epsilon, digits)[1] - 1)
    return min(round_up(log_bounds(odds, digits)[1]), epsilon)


@runtime_checkable
class HasEvent(Protocol):
    """An object that describes its release by an event, such as a mechanism."""

    @property
    def event(self) -> Event:
        """Event of the release."""


@runtime_checkable
class HasGuarantee(Protocol):
    """An object that states the guarantee of its release."""

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the release."""


#: Charges that a filter can pay for.
Charge = Event | Guarantee | HasEvent | HasGuarantee


class Spend(NamedTuple):
    """An amount of a currency, and the δ charged with it."""

    amount: Fraction
    delta: Fraction = Fraction(0)


_Price = Callable[[Guarantee], Spend | None]

#: Largest order, and largest exponent, for which the sum of a sampled Gaussian is computed exactly.
_LONGEST_SUM: Final = 64
_LARGEST_EXPONENT: Final = 10**4


def pure_price(charge: Charge, relation: Relation) -> Spend:
    """Return the ε of pure differential privacy."""
    return _price(charge, relation, _pure, "pure epsilon")


def approx_price(charge: Charge, relation: Relation) -> Spend:
    """Return the (ε, δ) of approximate DP; refuse a charge that has a curve of (ε, δ) and states no single pair."""
    return _price(charge, relation, _approx, "(epsilon, delta)")


def zcdp_price(charge: Charge, relation: Relation) -> Spend:
    """Return the ρ and δ of approximate zCDP."""
    return _price(charge, relation, _zcdp, "zCDP")


def gdp_price(charge: Charge, relation: Relation) -> Spend:
    """Return the μ² of Gaussian differential privacy."""
    return _price(charge, relation, _gdp, "GDP")


def renyi_price(charge: Charge, relation: Relation, alpha: Fraction) -> Spend:
    """Return the Renyi ε at order ``alpha``."""
    price = partial(_renyi, alpha)
    return _price(charge, relation, price, f"Renyi at order {float_nearest(alpha):g}", order=math.ceil(alpha))


def guarantees_of(event: Event, *, order: int | None = None) -> tuple[Guarantee, ...]:
    """Return the guarantees that are proven for a single release (not a composition), each in its own currency.

    With a whole Renyi ``order``, the divergence of a sampled Gaussian at that order is one of them.
    """
    match event:
        case NoEvent():
            return (PureDP(0, relation=event.relation),)
        case PureEvent(epsilon=epsilon):
            return (PureDP(epsilon, relation=event.relation),)
        case ApproxEvent(epsilon=epsilon, delta=delta):
            return (ApproxDP(epsilon, delta, relation=event.relation),)
        case ZCDPEvent(rho=rho, delta=delta):
            return (ZCDP(rho, delta=delta, relation=event.relation),)
        case LaplaceEvent(scale=scale, l1_sensitivity=moved) | DiscreteLaplaceEvent(scale=scale, l1_sensitivity=moved):
            return (PureDP(moved / scale, relation=event.relation),)
        case GaussianEvent(sigma=sigma, l2_sensitivity=moved):
            return (GDP(moved / sigma, relation=event.relation),)
        case DiscreteGaussianEvent(sigma2=sigma2, l2_squared=squared):
            # Only zCDP: its trade-off curve is not that of the continuous Gaussian.
            return (ZCDP(squared / (2 * sigma2), relation=event.relation),)
        case RandomizedResponseEvent():
            return (PureDP(_randomized_response_epsilon(event), relation=event.relation),)
        case ExponentialEvent(epsilon=epsilon):
            return (
                PureDP(epsilon, relation=event.relation),
                ZCDP(epsilon**2 / 8, relation=event.relation),
                _bounded_range_gdp(epsilon, event.relation),
            )
        case SampledSumEvent():
            # Renyi divergence is quasi-convex, so a zCDP bound without sampling holds with sampling.
            return guarantees_of(event.unsampled)
        case PoissonSampledEvent():
            return _sampled_guarantees(event, order)
        case _:
            return ()


@lru_cache(maxsize=1024)
def _bounded_range_gdp(epsilon: Fraction, relation: Relation) -> GDP:
    """Return the μ of ε/2-DP, which ε-bounded range implies (``exponential.proof.md``)."""
    return PureDP(epsilon / 2, relation=relation).to_gdp()


def _price(charge: Charge, relation: Relation, price: _Price, currency: str, order: int | None = None) -> Spend:
    # A mechanism's event and its guarantee are both true of it; one may be known in more currencies than the other.
    stated: list[Event | Guarantee] = []
    if isinstance(charge, Event | Guarantee):
        stated.append(charge)
    else:
        stated += [charge.event] if isinstance(charge, HasEvent) else []
        stated += [charge.guarantee] if isinstance(charge, HasGuarantee) else []
    if not stated:
        raise InputError("charge", f"must be an event, a guarantee or a mechanism, not {type(charge).__name__}")
    spend = _cheapest(_spend(statement, relation, price, order) for statement in stated)
    if spend is not None:
        return spend
    raise AccountingError(
        f"{_name(charge)} has no proven cost in {currency}; charge it in its own currency, or charge a guarantee "
        f"that it implies, such as guarantee.to_approx(delta)"
    )


def _spend(charge: Event | Guarantee, relation: Relation, price: _Price, order: int | None) -> Spend | None:
    if charge.relation is not relation:
        raise AccountingError(
            f"the charge is about {charge.relation.value} neighbours and the filter about {relation.value} ones; "
            f"state both about the same relation (one replacement is one removal and one addition: group(2))"
        )
    if isinstance(charge, Guarantee):
        return price(charge)
    match charge:
        case RepeatedEvent(event=event, count=count):
            once = _spend(event, relation, price, order)
            return None if once is None else Spend(count * once.amount, count * once.delta)
        case ComposedEvent(events=events):
            return _total([_spend(event, relation, price, order) for event in events])
        case ParallelEvent(events=events):
            return _worst_parts([_spend(event, relation, price, order) for event in events], relation)
        case _:
            return _cheapest(price(guarantee) for guarantee in guarantees_of(charge, order=order))


def _cheapest(spends: Iterable[Spend | None]) -> Spend | None:
    """Return the cheapest of valid costs: first those that add no δ, then by amount."""
    return min((s for s in spends if s is not None), key=lambda spend: (spend.delta, spend.amount), default=None)


def _total(spends: list[Spend | None]) -> Spend | None:
    known = [spend for spend in spends if spend is not None]
    if len(known) < len(spends):
        return None
    return Spend(sum((s.amount for s in known), Fraction(0)), sum((s.delta for s in known), Fraction(0)))


def _worst_parts(spends: list[Spend | None], relation: Relation) -> Spend | None:
    """Return the cost of the costliest part, or of two: a replacement may move a unit from one part to another."""
    known = [spend for spend in spends if spend is not None]
    if len(known) < len(spends):
        return None
    touched = 1 if relation is ADD_REMOVE else 2
    amounts, deltas = (
        (sorted(values, reverse=True)[:touched] for values in zip(*known, strict=True)) if known else ([], [])
    )
    return Spend(sum(amounts, Fraction(0)), sum(deltas, Fraction(0)))


def _pure(guarantee: Guarantee) -> Spend | None:
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        return Spend(guarantee.epsilon)
    return None


def _approx(guarantee: Guarantee) -> Spend | None:
    if isinstance(guarantee, PureDP | ApproxDP):
        return Spend(guarantee.epsilon, guarantee.delta)
    return None


def _zcdp(guarantee: Guarantee) -> Spend | None:
    if isinstance(guarantee, PureDP | ApproxDP | GDP):
        guarantee = guarantee.to_zcdp()
    return Spend(guarantee.rho, guarantee.delta) if isinstance(guarantee, ZCDP) else None


def _gdp(guarantee: Guarantee) -> Spend | None:
    pure = _pure(guarantee)
    if pure is not None:
        guarantee = PureDP(pure.amount, relation=guarantee.relation).to_gdp()
    return Spend(guarantee.mu**2) if isinstance(guarantee, GDP) else None


def _renyi(alpha: Fraction, guarantee: Guarantee) -> Spend | None:
    if isinstance(guarantee, RDP):
        # Renyi divergence does not fall as the order grows, so a bound at a higher order holds here too.
        return min((Spend(epsilon) for order, epsilon in guarantee.curve if order >= alpha), default=None)
    pure = _pure(guarantee)
    if pure is not None:
        return Spend(min(pure.amount, alpha * pure.amount**2 / 2))
    zcdp = _zcdp(guarantee)
    return Spend(alpha * zcdp.amount) if zcdp is not None and zcdp.delta == 0 else None


def _randomized_response_epsilon(event: RandomizedResponseEvent) -> Fraction:
    other = (1 - event.truth) / (event.categories - 1)
    odds = max(event.truth / other, other / event.truth)
    return Fraction(0) if odds == 1 else round_up(log_bounds(odds)[1])


def _sampled_guarantees(event: PoissonSampledEvent, order: int | None) -> tuple[Guarantee, ...]:
    inner = guarantees_of(event.event, order=order)
    if event.rate == 1:
        return inner
    amplified: list[Guarantee] = [
        amplify(epsilon=g.epsilon, delta=g.delta, rate=event.rate, relation=event.relation)
        for g in inner
        if isinstance(g, PureDP | ApproxDP)
    ]
    if isinstance(event.event, GaussianEvent) and order is not None and event.relation is ADD_REMOVE:
        amplified.append(RDP.at(order, _sampled_gaussian_up(event.rate, event.event, order)))
    return tuple(amplified)


def _sampled_gaussian_up(rate: Fraction, noise: GaussianEvent, order: int) -> Fraction:
    """Return the bound on D_α of a sampled Gaussian by Mironov, Talwar and Zhang (2019), rounded up.

    D_α <= ln(Σ_k C(α,k) (1-q)^(α-k) q^k e^{(k²-k)Δ²/(2σ²)}) / (α-1).
    """
    half = (noise.l2_sensitivity / noise.sigma) ** 2 / 2
    # Sampling never costs more than no sampling, Δ²α/(2σ²), the bound used where the sum is too long or too large.
    if order > _LONGEST_SUM or half * order**2 > _LARGEST_EXPONENT:
        return min(order * half, _by_quadrature(rate, noise, order) or order * half)
    total = sum(
        (
            math.comb(order, k) * (1 - rate) ** (order - k) * rate**k * exp_bounds(half * (k * k - k), 60)[1]
            for k in range(order + 1)
        ),
        Fraction(0),
    )
    return min(round_up(log_bounds(total, 60)[1] / (order - 1)), order * half)


def _by_quadrature(rate: Fraction, noise: GaussianEvent, order: int) -> Fraction | None:
    """Return this bound in floats with a proven error, for orders up to some thousands; ``None`` out of range."""
    ratio = noise.sigma / noise.l2_sensitivity
    if order > 10**6 or not Fraction(1, 10**6) < ratio < 10**6 or rate < Fraction(1, 10**100):
        return None
    import numpy as np  # imported late: reading an account does not need it, and takes half the time

    from tacit.accounting.sampled_gaussian import sampled_gaussian_renyi

    found = float(sampled_gaussian_renyi(float_up(rate), float_down(ratio))(np.array([float(order)]))[0])
    return Fraction(found * (1 + 1e-12)) if math.isfinite(found) else None


def _name(charge: Charge) -> str:
    """Return the name of a charge for a message: its guarantee if its class is private."""
    if isinstance(charge, Guarantee):
        return repr(charge)
    name = type(charge).__name__
    if name.startswith("_"):
        return repr(charge.guarantee) if isinstance(charge, HasGuarantee) else "the charge"
    return name
