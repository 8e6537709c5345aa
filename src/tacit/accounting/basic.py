"""Basic composition: the ε add up, and so do the δ.

*Privacy.* If the i-th release is (ε_i, δ_i)-DP, all together are (Σε_i, Σδ_i)-DP, whatever the releases are and
however each depends on the answers before it (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006).

A Gaussian, zCDP or Renyi release states no pair of its own. It is given an equal share of the δ that the others leave.

*Assumes.* One relation; parameters that were fixed beforehand (for parameters chosen on the way the same sum is also
valid, see :mod:`tacit.accounting.filters`).
"""

from __future__ import annotations

from fractions import Fraction

from tacit.accounting.amplification import amplified_epsilon
from tacit.accounting.composed import Composed
from tacit.accounting.composition_plan import CompositionPlan, CountedRelease, Leaf, read_plan
from tacit.accounting.gaussian import gaussian_epsilon_high
from tacit.accounting.prices import guarantees_of
from tacit.core.errors import AccountingError
from tacit.core.events import GaussianEvent, ParallelEvent, PoissonSampledEvent
from tacit.core.guarantees import RDP, ZCDP, ApproxDP, PureDP
from tacit.core.numbers import format_up
from tacit.core.relations import ADD_REMOVE

#: An ε and a δ.
Pair = tuple[Fraction, Fraction]


def compose_basic(plan: CompositionPlan, delta: Fraction | None) -> Composed:
    """The sum of all ε and of all δ; what is left of ``delta`` is divided among releases that state no δ."""
    pairs = pairs_at(plan, delta)
    epsilon = sum((count * e for (e, _), count in pairs), Fraction(0))
    spent = sum((count * d for (_, d), count in pairs), Fraction(0))
    return Composed(epsilon, min(max(spent, delta or Fraction(0)), Fraction(1)), relation=plan.relation, method="basic")


def pairs_at(plan: CompositionPlan, delta: Fraction | None) -> list[tuple[Pair, int]]:
    """An (ε, δ) for every item of the plan, with its count; the δ together do not exceed ``delta``."""
    stated = [(item, stated_pair(item.release)) for item in plan.items]
    spent = sum((item.count * pair[1] for item, pair in stated if pair is not None), Fraction(0))
    sharing = sum(item.count for item, pair in stated if pair is None)
    if delta is None:
        if sharing:
            raise AccountingError("a Gaussian, zCDP or Renyi release has no epsilon without a delta; pass delta=…")
    elif spent > delta or (sharing and spent == delta):
        raise AccountingError(
            f"the releases already spend delta {format_up(spent)}; ask for a larger delta than {format_up(delta)}"
        )
    share = (delta - spent) / sharing if delta is not None and sharing else Fraction(0)
    return [(pair if pair is not None else _pair_at(item.release, share), item.count) for item, pair in stated]


def stated_pair(release: Leaf) -> Pair | None:
    """The (ε, δ) that a release has without further choice, or ``None``."""
    match release:
        case RDP():
            return None
        case PoissonSampledEvent():
            return _sampled(release, _together(release))
        case ParallelEvent():
            pairs = [_sum(part) for part in release.events]
            known = [pair for pair in pairs if pair is not None]
            return (max(e for e, _ in known), max(d for _, d in known)) if len(known) == len(pairs) else None
        case _:
            stated = [g for g in guarantees_of(release) if isinstance(g, PureDP | ApproxDP)]
            return (stated[0].epsilon, stated[0].delta) if stated else None


def stated_sum(plan: CompositionPlan) -> Pair | None:
    """The sums of ε and δ of what the releases of a plan state, as they were listed; ``None`` if one states none."""
    epsilon = delta = Fraction(0)
    for item in plan.stated:
        pair = _sum(item.release)
        if pair is None:
            return None
        epsilon, delta = epsilon + item.count * pair[0], delta + item.count * pair[1]
    return epsilon, delta


def _together(release: PoissonSampledEvent) -> Pair | None:
    return _sum(release.event)


def _sum(event: object) -> Pair | None:
    total = (Fraction(0), Fraction(0))
    for item in read_plan([event]).items:  # type: ignore[list-item]
        pair = stated_pair(item.release)
        if pair is None:
            return None
        total = (total[0] + item.count * pair[0], total[1] + item.count * pair[1])
    return total[0], min(total[1], Fraction(1))


def _sampled(release: PoissonSampledEvent, inside: Pair | None) -> Pair | None:
    if inside is None:
        return None
    epsilon = amplified_epsilon(inside[0], release.rate) if release.relation is ADD_REMOVE else inside[0]
    return epsilon, release.rate * inside[1]


def _pair_at(release: Leaf, delta: Fraction) -> Pair:
    """The smallest ε known for a release that states none, at ``delta``."""
    match release:
        case RDP():
            return release.to_approx(delta).epsilon, delta
        case GaussianEvent():
            return gaussian_epsilon_high(release.l2_sensitivity / release.sigma, delta), delta
        case PoissonSampledEvent():
            inner = CompositionPlan(read_plan([release.event]).items, release.relation)
            inside = compose_basic(inner, min(delta / release.rate, Fraction(1)))
            pair = _sampled(release, (inside.epsilon, inside.delta))
            if pair is None:
                raise AccountingError("a sampled release without a pair")
            return pair[0], min(pair[1], delta)
        case ParallelEvent():
            return max(_pair_of_part(part, delta, release) for part in release.events)[0], delta
        case _:
            for guarantee in guarantees_of(release):
                if isinstance(guarantee, ZCDP):
                    return guarantee.to_approx(delta).epsilon, delta
            raise AccountingError(f"no (epsilon, delta) is known for {type(release).__name__}")


def _pair_of_part(part: object, delta: Fraction, whole: ParallelEvent) -> Pair:
    items: tuple[CountedRelease, ...] = read_plan([part]).items  # type: ignore[list-item]
    composed = compose_basic(CompositionPlan(items, whole.relation), delta)
    return composed.epsilon, composed.delta
