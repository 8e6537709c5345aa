"""Composition in zero-concentrated differential privacy: the ρ add up, one conversion at the end.

*Privacy.* A δ₁-approximately ρ₁-zCDP release and a (δ₂, ρ₂) one are together (δ₁+δ₂)-approximately (ρ₁+ρ₂)-zCDP, also
when the second depends on the first (Bun and Steinke 2016). The sum becomes (ε, δ) by the best Renyi order (Canonne,
Kamath and Steinke 2020, Proposition 12), which is smaller than ρ + 2√(ρ ln(1/δ)).

Pure ε costs ε²/2, (ε, δ) costs (ε²/2, δ), Gaussians μ²/2, and the exponential mechanism ε²/8 because its privacy loss
has a range of ε only. Sampling is not amplified here beyond what (ε, δ) amplification gives: a sampled Gaussian has no
small ρ, since its high moments are those of the Gaussian.
"""

from __future__ import annotations

from fractions import Fraction

from tacit.accounting.basic import stated_pair
from tacit.accounting.composed import Composed
from tacit.accounting.composition_plan import CompositionPlan, Leaf, read_plan
from tacit.accounting.prices import guarantees_of
from tacit.core.errors import AccountingError
from tacit.core.events import ParallelEvent, PoissonSampledEvent
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from tacit.core.numbers import Number, exact_nonnegative, exact_probability, log_bounds, round_down, sqrt_bounds

__all__ = ["compose_zcdp", "largest_rho", "rho_of"]


def compose_zcdp(plan: CompositionPlan, delta: Fraction) -> Composed:
    """The sum of all ρ, as (ε, ``delta``)."""
    rho = spent = Fraction(0)
    for item in plan.items:
        each = rho_of(item.release)
        if each is None:
            raise AccountingError(f"{type(item.release).__name__} has no bound in zCDP; use method='rdp' or 'pld'")
        rho, spent = rho + item.count * each[0], spent + item.count * each[1]
    if rho == 0 and spent <= delta:
        return Composed(0, delta, relation=plan.relation, method="zcdp")
    total = ZCDP(rho, delta=min(spent, Fraction(1)), relation=plan.relation).to_approx(delta)
    return Composed(total.epsilon, delta, relation=plan.relation, method="zcdp")


def rho_of(release: Leaf) -> tuple[Fraction, Fraction] | None:
    """The smallest ρ known for one release, with the δ that comes with it, or ``None``."""
    match release:
        case RDP():
            return None
        case PoissonSampledEvent():
            return _sampled(release)
        case ParallelEvent():
            parts = [_sum(part) for part in release.events]
            known = [part for part in parts if part is not None]
            return (max(r for r, _ in known), max(d for _, d in known)) if len(known) == len(parts) else None
        case _:
            found = [_convert(guarantee) for guarantee in guarantees_of(release)]
            return min(((z.rho, z.delta) for z in found if z is not None), default=None)


def largest_rho(*, epsilon: Number, delta: Number, tight: bool = True) -> Fraction:
    """The largest ρ whose zCDP guarantee implies (ε, δ), rounded down.

    With ``tight=False`` by the closed form ρ = (√(ln(1/δ)+ε) - √ln(1/δ))², which is smaller.
    """
    e, d = exact_nonnegative(epsilon, "epsilon"), exact_probability(delta, "delta")
    log_low, log_high = (-bound for bound in reversed(log_bounds(d)))
    closed = round_down((sqrt_bounds(log_low + e)[0] - sqrt_bounds(log_high)[1]) ** 2) if e else Fraction(0)
    closed = max(closed, Fraction(0))
    if not tight or e == 0:
        return closed
    low, high = closed, 2 * closed + e
    for _ in range(60):
        middle = (low + high) / 2
        if ZCDP(middle).to_approx(d).epsilon <= e:
            low = middle
        else:
            high = middle
    return round_down(low)


def _convert(guarantee: object) -> ZCDP | None:
    if isinstance(guarantee, PureDP | ApproxDP | GDP):
        return guarantee.to_zcdp()
    return guarantee if isinstance(guarantee, ZCDP) else None


def _sum(event: object) -> tuple[Fraction, Fraction] | None:
    rho = spent = Fraction(0)
    for item in read_plan([event]).items:  # type: ignore[list-item]
        each = rho_of(item.release)
        if each is None:
            return None
        rho, spent = rho + item.count * each[0], spent + item.count * each[1]
    return rho, min(spent, Fraction(1))


def _sampled(release: PoissonSampledEvent) -> tuple[Fraction, Fraction] | None:
    # The sampled pair is a mixture, and Renyi divergence is quasi-convex, so the inner ρ always holds.
    inside = _sum(release.event)
    candidates = [] if inside is None else [(inside[0], release.rate * inside[1])]
    pair = stated_pair(release)
    if pair is not None:
        candidates.append((pair[0] ** 2 / 2, pair[1]))
    return min(candidates, default=None)
