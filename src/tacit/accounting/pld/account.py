"""Certified accountant: lower and upper bounds on ε for any list of releases.

*Privacy.* The returned ε holds at δ for every list of mechanisms that fit the events, and no smaller ε than ``lower``
does: lower <= true ε <= ε, where the true ε is the smallest that holds for all of them. ``lower`` comes from mechanisms
that fit the events and attain it; where none is known it is ``None``.

*Which neighbours.* A release on a secret sample is not symmetric: its loss differs for a unit that is in the first
database and one that is in the second. By default the two databases are the same for all releases, as in the definition
of differential privacy: the unit is always in the first or always in the second, and the larger ε is returned. With
``changing`` the pair may be chosen anew for every release, as in the composition experiment of Dwork, Rothblum and
Vadhan (2010), and every release is replaced by a pair that dominates in both directions. Releases without sampling
cost the same in both.

*Error.* The grid is refined until the bracket is narrower than ``REPORTED`` of ε, or until it would be too large; the
result is valid in either case, and its ``note`` says when the bracket stayed wider. Where no grid is possible, or a
release has no known dominating pair (several coordinates of discrete Gaussian noise with small σ, zCDP or
Renyi statements), the result is that of ``method="rdp"``, and the note says so.

References: Koskela, Jälkö, Honkela (2020); Gopi, Lee, Wutschitz (2021); Doroshenko et al. (2022); Zhu, Dong and Wang
(2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.composition_plan import Composed, CompositionPlan
from tacit.accounting.gaussian import gaussian_epsilon_high, gaussian_epsilon_low
from tacit.accounting.pairwise import stated_pair
from tacit.accounting.pld.convolve import Sum, TiltedSum
from tacit.accounting.pld.discretise import TooFineError, lower_lattice, upper_lattice
from tacit.accounting.pld.pairs import GaussianPair, LossPair
from tacit.accounting.pld.translate import SLACK, Term, mu_squared, terms_of
from tacit.accounting.renyi import compose_renyi
from tacit.core.errors import AccountingError
from tacit.core.float_functions import recur
from tacit.core.normal import gaussian_delta_bounds
from tacit.core.numbers import float_down, float_nearest, float_up, sqrt_bounds

#: Relative width of the bracket that the first grid aims at.
TOLERANCE: Final = 2e-4
#: Relative width above which a finer grid is tried, and which the note mentions if it remains.
REPORTED: Final = 5e-4
_REFINEMENTS: Final = 4
#: Refinement of the grid for the final upper bound, and the maximal number of its points.
_POLISH: Final = 64.0
_POINTS: Final = 450_000
#: The grid follows a lattice up to this many times finer than the step would be.
_WORTH_ALIGNING: Final = 8.0
#: Longer steps would make e^-s vanish.
_LONGEST: Final = 20.0
#: Losses that spread further than this would need too many grid points.
_WIDEST: Final = 1e5 * _LONGEST
#: Tails of mass e^-14 of δ, shared among all releases, are moved to infinity.
_DEEPER: Final = 14.0
#: Bound on the relative rounding error of losses and of ε together.
_LAST_DIGITS: Final = 1e-12

#: Pairs to compose, each with its count.
Pairs = list[tuple[LossPair, int]]


@dataclass(frozen=True)
class _Direction:
    """One of the two orders of the neighbours: pairs for the upper and the lower bound, and the mass at infinity."""

    upper: Pairs
    lower: Pairs | None
    infinity: Fraction
    closes: bool


@dataclass(frozen=True)
class _Bracket:
    low: float
    high: float

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.high if self.high > 0 else 0.0


def compose_pld(plan: CompositionPlan, delta: Fraction, *, bracket: bool = True, changing: bool = False) -> Composed:
    """Return the certified bracket of ε at ``delta``; without ``bracket`` only its upper end, in about half the time.

    With ``changing`` the unit may be in either of the two neighbours at every release.
    """
    if not plan.items:
        return Composed(0, delta, relation=plan.relation, method="pld", lower=Fraction(0))
    try:
        directions, mu2 = _directions(plan, changing=changing)
        if directions is None:
            return _fallback(plan, delta, "a release has no dominating pair that is known")
        if not any(direction.upper for direction in directions):
            return _gaussian(plan, delta, mu2)
        slack = 2 * SLACK * plan.count if mu2[0] != mu2[1] else 0
        found = _bracket(directions, (delta * (1 - slack), delta * (1 + slack)), bracket=bracket)
    except TooFineError:
        return _fallback(plan, delta, "the grid would be too fine")
    except ArithmeticError:
        # Losses, or their squares, outside the range of floats.
        return _fallback(plan, delta, "the numbers are too large or too small for a grid")
    if bracket and found.width > REPORTED:
        # If the bracket is wide, Renyi accounting may give a smaller ε.
        renyi = compose_renyi(plan, delta)
        if renyi.epsilon < found.high:
            low = None if directions[0].lower is None else Fraction(max(found.low, 0.0))
            note = "Renyi accounting is smaller here"
            return Composed(renyi.epsilon, delta, relation=plan.relation, method="rdp", lower=low, note=note)
    if mu2[0] != mu2[1]:
        found = _Bracket(found.low - 2 * float_up(SLACK * plan.count), found.high + 2 * float_up(SLACK * plan.count))
    known = bracket and directions[0].lower is not None
    note = f"bracket {found.low:.6g} … {found.high:.6g}" if known and found.width > REPORTED else ""
    return _answer(plan, delta, found, note, known=known)


def _answer(plan: CompositionPlan, delta: Fraction, found: _Bracket, note: str, *, known: bool) -> Composed:
    high, low = Fraction(found.high), Fraction(max(found.low, 0.0)) if known else None
    # No composition of pure releases exceeds their sum.
    pairs = [(stated_pair(item.release), item.count) for item in plan.items]
    if all(pair is not None and pair[1] == 0 for pair, _ in pairs):
        high = min(high, sum((count * pair[0] for pair, count in pairs if pair is not None), Fraction(0)))
    return Composed(max(high, Fraction(0)), delta, relation=plan.relation, method="pld", lower=low, note=note)


def _gaussian(plan: CompositionPlan, delta: Fraction, mu2: tuple[Fraction, Fraction]) -> Composed:
    """Compose Gaussians alone: exactly, without a grid."""
    # Discrete noise may differ from continuous noise by SLACK per release, in ε and in relative δ.
    slack = 2 * SLACK * plan.count if mu2[0] != mu2[1] else Fraction(0)
    low = max(gaussian_epsilon_low(sqrt_bounds(mu2[0])[0], delta * (1 + slack)) - slack, Fraction(0))
    mu = sqrt_bounds(mu2[1])[1]
    high = gaussian_epsilon_high(mu, delta * (1 - slack))
    if slack:
        # δ(0) <= δ(slack) + (e^slack - 1), so ε = 0 need not be raised by the slack.
        zero = gaussian_delta_bounds(Fraction(0), mu)[1] <= delta * (1 - slack) - 2 * slack
        high = min(Fraction(0) if zero else high + slack, compose_renyi(plan, delta).epsilon)
    return Composed(high, delta, relation=plan.relation, method="pld", lower=low)


def _fallback(plan: CompositionPlan, delta: Fraction, reason: str) -> Composed:
    answer = compose_renyi(plan, delta)
    return Composed(
        answer.epsilon, delta, relation=plan.relation, method="rdp", note=f"Renyi accounting instead of pld: {reason}"
    )


def _directions(plan: CompositionPlan, *, changing: bool) -> tuple[list[_Direction] | None, tuple[Fraction, Fraction]]:
    """Return the pairs to compose in each direction, Gaussians merged into one, and the bounds on their total μ²."""
    low2 = high2 = infinity = Fraction(0)
    terms: list[tuple[Term, int]] = []
    for item in plan.items:
        bounds = mu_squared(item.release)
        if bounds is not None:
            low2, high2 = low2 + item.count * bounds[0], high2 + item.count * bounds[1]
            continue
        term = terms_of(item.release, changing=changing)
        if term is None:
            return None, (low2, high2)
        terms.append((term, item.count))
        infinity += item.count * term.infinity
    closes = all(term.closes for term, _ in terms)
    both = [_Direction(*_sides(terms, i, (low2, high2)), infinity, closes) for i in range(2)]
    symmetric = all(term.removed is term.added for term, _ in terms)
    return both[:1] if symmetric else both, (low2, high2)


def _sides(terms: Sequence[tuple[Term, int]], which: int, mu2: tuple[Fraction, Fraction]) -> tuple[Pairs, Pairs | None]:
    upper: Pairs = [(term.added if which else term.removed, count) for term, count in terms]
    lower: Pairs | None = []
    for term, count in terms:
        if term.lower is None or lower is None:
            lower = None
        else:
            lower.append((term.lower[which], count))
    if terms and mu2[1]:
        upper.append((GaussianPair(float_up(sqrt_bounds(mu2[1])[1])), 1))
        if lower is not None and mu2[0]:
            lower.append((GaussianPair(float_down(sqrt_bounds(mu2[0])[0])), 1))
    return upper, lower


def _bracket(directions: Sequence[_Direction], deltas: tuple[Fraction, Fraction], *, bracket: bool) -> _Bracket:
    """Return the larger of the two directions' ε, on grids refined up to the wanted width.

    ``deltas`` are the δ for the upper end and the δ, not smaller, for the lower end.
    """
    room = deltas[0] - directions[0].infinity
    if room <= 0:
        raise AccountingError(
            f"the releases already fail with probability {float_nearest(directions[0].infinity):g}; ask for more delta"
        )
    wanted = float_down(room)
    found: list[tuple[float, int, _Direction, _Grid]] = []
    for direction in directions:
        # ε is at most the sum of the largest losses, except with a probability far below δ.
        log_tail = _log_tail(direction.upper, wanted)
        most = math.fsum(times * pair.reach(log_tail)[1] for pair, times in direction.upper)
        if found and most <= found[0][0]:
            continue
        grid = _first_grid(direction.upper, wanted)
        found.append((*_upper(direction.upper, grid, wanted), direction, grid))
    found.sort(key=lambda entry: entry[0], reverse=True)
    high, points, direction, grid = found[0]
    others = max((entry[0] for entry in found[1:]), default=0.0)
    budget = _POINTS / (points * _weight(direction.upper))
    finer = grid.finer(min(_POLISH, budget))
    if finer is not grid:
        high = max(_polished(direction.upper, finer, wanted, high), others)
    if not bracket:
        return _Bracket(0.0, high)
    return _Bracket(_lower_refined(direction, grid.finer(2.0), float_up(deltas[1]), high, budget / 2), high)


def _polished(pairs: Pairs, grid: _Grid, delta: float, high: float) -> float:
    try:
        return min(high, _upper(pairs, grid, delta)[0])
    except TooFineError:
        return high


def _lower_refined(direction: _Direction, grid: _Grid, delta: float, high: float, budget: float) -> float:
    """Return the lower bound, on finer grids until it is close to ``high`` or the budget of points is used."""
    if not direction.lower:
        return 0.0
    best, spent = 0.0, 1.0
    for _ in range(_REFINEMENTS):
        try:
            best = max(best, _lower(direction.lower, grid, delta))
        except TooFineError:
            break
        width = _Bracket(best, high).width
        excess = min(max(1.5 * width / REPORTED, 2.0), max(4 * budget / spent, 1.0), 16.0)
        finer = grid.finer(excess)
        if width <= REPORTED or finer is grid or not direction.closes:
            break
        grid, spent = finer, spent * excess
    return best


@dataclass(frozen=True)
class _Grid:
    """Step of the discretisation, and tilt of the transform."""

    step: float
    tilt: float
    #: Losses below this have negligible mass after tilting.
    lowest: float

    def finer(self, factor: float) -> _Grid:
        """Return a grid with an integer fraction of the step, which keeps every atom on the grid."""
        return _Grid(self.step / math.floor(factor), self.tilt, self.lowest) if factor >= 2 else self


def _weight(pairs: Pairs) -> float:
    """Return roughly the number of transforms that the pairs cost; short pairs that occur once are merged first."""
    return 1.0 + len(pairs) / 8


def _log_tail(pairs: Iterable[tuple[LossPair, int]], delta: float) -> float:
    return math.log(delta) - math.log(sum(times for _, times in pairs)) - _DEEPER


def _upper(pairs: Pairs, grid: _Grid, delta: float) -> tuple[float, int]:
    """Return the upper bound on ε, and the number of points used."""
    log_tail = _log_tail(pairs, delta)
    total = Sum([(upper_lattice(pair, grid.step, log_tail, grid.lowest), count) for pair, count in pairs])
    tilted = TiltedSum(total, grid.tilt)
    found = upper_epsilon(tilted, delta)
    if found is None:
        raise TooFineError
    return max(found * (1 + _LAST_DIGITS), 0.0), len(tilted.masses) + max(len(law.losses) for law in total.laws)


def _lower(pairs: Pairs, grid: _Grid, delta: float) -> float:
    log_tail = _log_tail(pairs, delta)
    total = Sum([(lower_lattice(pair, grid.step, log_tail, grid.lowest), count) for pair, count in pairs])
    found = lower_epsilon(TiltedSum(total, grid.tilt), delta)
    return 0.0 if found is None else max(found * (1 - _LAST_DIGITS), 0.0)


def _first_grid(pairs: Pairs, delta: float) -> _Grid:
    """Return a step whose second-order error is about TOLERANCE, and the tilt that centres the sum at ε."""
    log_tail = _log_tail(pairs, delta)
    reaches = [pair.reach(log_tail) for pair, _ in pairs]
    widest = max(high - low for low, high in reaches)
    if not widest < _WIDEST:
        raise TooFineError
    step = widest / 500
    count, lowest = sum(times for _, times in pairs), -math.inf
    for _ in range(12):
        total = Sum([(upper_lattice(pair, step, log_tail, lowest), times) for pair, times in pairs])
        tilt = total.best_tilt(math.log(delta))
        here = total.cumulants(tilt)
        # For each of k releases, a loss of -l has weight e^{-λl} relative to e^{K/k}.
        lowest = (here.value / count - math.log(count) - _DEEPER - 4) / tilt
        wanted = _aligned(pairs, here.variance, abs(here.mean))
        if wanted >= step * 0.7:
            break
        step = wanted
    return _Grid(wanted, tilt, lowest)


def _aligned(pairs: Pairs, variance: float, epsilon: float) -> float:
    """Return the step for a total of this tilted variance near ε: an integer fraction of the atoms' common distance."""
    count = sum(times for _, times in pairs)
    # Where the largest atom alone decides, the variance vanishes; the step need not be smaller than ε requires.
    floor = epsilon * TOLERANCE / math.sqrt(count)
    # Discretisation adds variance: s²/6 per loss above and takes s²/12 below, relative to all of it.
    smooth = max(math.sqrt(8 * TOLERANCE * variance / count), floor)
    spacing = _common_spacing(pairs, smooth)
    if spacing is None:
        return min(smooth, _LONGEST)
    # Atoms on the grid have no discretisation error; only the smooth part has.
    rough = math.fsum(times * (pair.smooth_share if _is_coarse(pair, smooth) else 1.0) for pair, times in pairs)
    wanted = max(math.sqrt(8 * TOLERANCE * variance / rough), floor) if rough else math.inf
    wanted = min(wanted, _LONGEST)
    return spacing / max(math.ceil(spacing / wanted), 1)


def _is_coarse(pair: LossPair, step: float) -> bool:
    return pair.spacing is not None and float(pair.spacing) * _WORTH_ALIGNING >= step


def _common_spacing(pairs: Pairs, step: float) -> float | None:
    """Return the distance that all lattices of atoms share; None if it is so small that aligning costs too much."""
    found = {pair.spacing if _is_coarse(pair, step) else pair.span for pair, _ in pairs} - {None}
    if not found:
        return None
    if len(found) == 1:
        return float(found.pop() or 0)
    fractions = [spacing for spacing in found if isinstance(spacing, Fraction)]
    if len(fractions) < len(found):
        return None
    denominator = math.lcm(*(spacing.denominator for spacing in fractions))
    common = Fraction(math.gcd(*(int(spacing * denominator) for spacing in fractions)), denominator)
    return float(common) if float(common) * _WORTH_ALIGNING >= step else None


Floats = NDArray[np.float64]

#: Exponents beyond these leave the range in which masses and their errors can be compared.
_LARGE, _SMALL = 300.0, 700.0


def upper_epsilon(total: TiltedSum, delta: float) -> float | None:
    """Return an ε that holds at ``delta``, or ``None`` if the window is too small to show one."""
    at = total.centre
    room = delta - total.total.infinity * (1 + 1e-12)
    # Above the window: at most e^{K - λh} times the tilted mass there.
    beyond = total.above * math.exp(min(-total.tilt * (float(total.losses[-1]) - at), 700.0))
    exponent = _scaled(room, total)
    if exponent > _LARGE or (exponent < -_SMALL and (beyond or room <= 0)):
        return None
    if exponent < -_SMALL:
        # At so small a δ only the largest loss is a valid ε: no loss exceeds it.
        return total.total.end
    scaled = math.exp(exponent) * (1 - total.relative) - beyond
    masses = np.maximum(total.masses + total.error, 0.0) * (1 + total.relative)
    return _cross(total, masses, scaled) if scaled > 0 else None


def lower_epsilon(total: TiltedSum, delta: float) -> float | None:
    """Return an ε below which no guarantee at ``delta`` holds, or ``None`` if the window is too small to show one."""
    exponent = _scaled(delta, total)
    if not -_SMALL < exponent < _LARGE:
        return None
    masses = np.maximum(total.masses - total.error, 0.0) * (1 - total.relative)
    # Mass from outside the window, wrapped onto it, may be part of the masses.
    wrapped = total.below + total.above
    return _cross(total, masses, math.exp(exponent) * (1 + total.relative), wrapped, lower=True)


def _scaled(value: float, total: TiltedSum) -> float:
    """Return ln ``value`` - (K - λ·centre): ``value`` on the scale of the masses, tilted back around the centre."""
    scale = total.log_scale - total.tilt * total.centre
    return math.log(value) - scale if value > 0 else -math.inf


def _cross(total: TiltedSum, masses: Floats, room: float, wrapped: float = 0.0, *, lower: bool = False) -> float | None:
    """Return the ε at which Σ_{l > ε} u(l)(1 - e^{ε-l}) falls to ``room``, with u the scaled masses, tilted back."""
    tilt, step = total.tilt, total.total.step
    with np.errstate(over="ignore"):
        back = np.exp(np.minimum(-tilt * (total.losses - total.centre), 700.0))
    u = (masses * back)[::-1]
    above = np.concatenate(([0.0], np.cumsum(u)[:-1]))
    # Recurrences of positive terms for D_j = Σ_{i>j} u_i (1 - e^{-(i-j)s}) and C_j = Σ_{i>j} u_i e^{-(i-j)s}.
    factor = math.exp(-step)
    deltas = recur(-math.expm1(-step) * above, factor)
    rests = recur(factor * np.concatenate(([0.0], u[:-1])), factor)
    if wrapped:
        # At any ε a mass weighs at most e^{-λε}·e^{-λy}(1 - e^{-y}) with y > 0 its distance, a multiple of the step.
        best = max(math.log1p(1 / tilt) / step, 1.0)
        peak = max(-math.expm1(-m * step) * math.exp(-tilt * m * step) for m in (math.floor(best), math.ceil(best)))
        deltas = deltas - wrapped * peak * back[::-1]
    if not np.isfinite(deltas).all():
        return None
    exceeds = deltas > room
    if not exceeds.any():
        return None if lower else float(total.losses[0])
    j = int(np.argmax(exceeds))
    found, gap, rest = float(total.losses[::-1][j]), deltas[j] - room, rests[j]
    if rest <= 0:
        return found if lower else found + step
    return min(found + math.log1p(gap / rest), found + step)
