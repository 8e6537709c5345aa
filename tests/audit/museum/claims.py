"""Exhibits: false claims around a release, such as order, lower bounds and the price of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product

from audit.museum.exhibit import Piece
from tacit.accounting.compose import compose
from tacit.audit.exact import ExactLoss, exact
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.core.divergences import Distribution
from tacit.core.events import DiscreteGaussianEvent, ExponentialEvent, PoissonSampledEvent
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import exp_bounds
from tacit.mechanisms.gaussian import Gaussian, GaussianNoise
from tacit.mechanisms.partition_selection import PartitionSelection

_CLAIM = ApproxDP(1, "0.001")
_ROWS = ["measles", *["flu"] * 60, *["measles"] * 40]


@cache
def _selection() -> PartitionSelection:
    return PartitionSelection(epsilon=_CLAIM.epsilon, delta=_CLAIM.delta)


def keys_as_first_seen(records: Sequence[str]) -> tuple[str, ...]:
    """Keys chosen privately, each judged by a toss of its own, and listed as the counter has them."""
    counts = Counter(records)
    return tuple(key for key, keep in zip(counts, _selection().release(list(counts.values())), strict=True) if keep)


def keys_in_public_order(records: Sequence[str]) -> tuple[str, ...]:
    """Corrected: keys in a public order, as Tacit lists them."""
    return tuple(_selection().release(Counter(records)))


def _audit_keys(function: Callable[[Sequence[str]], tuple[str, ...]]) -> LowerBound:
    # The first row decides which key the counter meets first.
    return lower_bound(function, _ROWS, _ROWS[1:], claimed=_CLAIM, delta=_CLAIM.delta, samples=3_000, confidence=0.999)


_RATE, _EPSILON, _DELTA = Fraction(3, 10), Fraction(1), Fraction(1, 100)
_TIMES = 3


def _swapped() -> dict[int, Distribution]:
    """Two candidates whose scores change places, on a sample, three times: the worst that is known to occur."""
    low, high = exp_bounds(_EPSILON / 2, 30)
    odds = (low + high) / 2
    truth = odds / (1 + odds)
    without = {0: 1 - truth, 1: truth}
    with_unit = {out: (1 - _RATE) * p + _RATE * (1 - p) for out, p in without.items()}

    def law(each: dict[int, Fraction]) -> Distribution:
        return {outs: each[outs[0]] * each[outs[1]] * each[outs[2]] for outs in product((0, 1), repeat=_TIMES)}

    return {0: law(without), 1: law(with_unit)}


def _certified(*, attained: bool) -> ExactLoss:
    """Whether a mechanism really costs what a certificate says that it costs at least, give or take a few percent."""
    release = PoissonSampledEvent(_RATE, ExponentialEvent(_EPSILON))
    found = compose([(release, _TIMES)], delta=_DELTA, method="pld")
    least = found.lower if attained else found.epsilon
    return exact(_swapped(), claimed=ApproxDP((least or Fraction(0)) * Fraction(102, 100), _DELTA))


def _once(*, stated: bool) -> ExactLoss:
    """Discrete Gaussian noise calibrated for (1, 1e-6), and what a list of this one release is said to cost."""
    mechanism = Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1)
    noise = mechanism.noise
    sigma2 = noise.sigma2 if isinstance(noise, GaussianNoise) else Fraction(1)
    # Several coordinates of which one moves: the accountant then has only a bound by continuous noise.
    wide = DiscreteGaussianEvent(sigma2, Fraction(1), dimension=2)
    cost = compose([mechanism if stated else wide], delta="1e-6", method="pld").epsilon
    far = 60
    weights = {x: sum(exp_bounds(-(x * x) / (2 * sigma2), 30)) / 2 for x in range(-far, far + 1)}
    total = sum(weights.values())
    table = {moved: {x: weights.get(x - moved, Fraction(0)) / total for x in range(-far, far + 2)} for moved in (0, 1)}
    return exact(table, claimed=ApproxDP(cost, "1e-6"))


PIECES = (
    Piece(
        name="keys-as-first-seen",
        title="private keys in the order in which the rows came",
        story="Which keys are shown was chosen privately, and the proof is about that set. But a counter lists its "
        "keys in the order of the first row of each, and so did the answer: the person with the first row decides "
        "which key comes first, with certainty and at any epsilon.",
        seen_in="Tacit's own PartitionSelection; the usual way to write key selection over a dictionary",
        tool="lower_bound",
        flawed=lambda: _audit_keys(keys_as_first_seen),
        mended=lambda: _audit_keys(keys_in_public_order),
    ),
    Piece(
        name="bound-as-certificate",
        title="an upper bound handed out as a certificate from below",
        story="An accountant printed an interval for epsilon. Its lower end came from a pair of laws that bounds all "
        "exponential mechanisms point by point and that none of them has. Nothing leaks, but an auditor who "
        "trusts the lower end looks for a loss that is not there, or calls a correct rival broken.",
        seen_in="Tacit's own accountant, for sampled exponential mechanisms",
        tool="exact",
        flawed=lambda: _certified(attained=False),
        mended=lambda: _certified(attained=True),
        wasteful=1.05,
    ),
    Piece(
        name="dearer-than-itself",
        title="one release that costs more in a list of one than by itself",
        story="The mechanism was calibrated exactly for (1, 1e-6). The accountant knew only its event, for which it "
        "had a coarser bound, and charged 1.08 for the very release that promises 1. Nothing leaks; budgets run out "
        "early, and two numbers for one release make readers doubt both.",
        seen_in="Tacit's own compose, for default Gaussian noise",
        tool="exact",
        flawed=lambda: _once(stated=False),
        mended=lambda: _once(stated=True),
        wasteful=1.05,
    ),
)
