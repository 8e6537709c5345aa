"""Exact output distributions on neighbouring inputs: what is promised is kept, and where it is tight it is tight."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from support.bits import SeededBits
from tacit.core.events import DiscreteLaplaceEvent
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import exp_bounds
from tacit.mechanisms.gaussian import Gaussian, GaussianNoise
from tacit.mechanisms.gaussian_profile import calibrate_discrete_sigma, rounded_normal_gives_at_most
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.laplace import Laplace, LaplaceNoise

# --- Laplace ------------------------------------------------------------------------------------------------------


def laplace_loss(scale: Fraction, output: int, here: int, there: int) -> Fraction:
    """ln of P[here + X = output] / P[there + X = output], exactly: P ∝ exp(-|x|/scale)."""
    return (abs(output - there) - abs(output - here)) / scale


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "17/7"])
@pytest.mark.parametrize("sensitivity", [1, 2, 5])
def test_laplace_integers_lose_exactly_epsilon(epsilon: str, sensitivity: int) -> None:
    m = Laplace(epsilon=epsilon, l1_sensitivity=sensitivity)
    noise = m.noise
    assert isinstance(noise, LaplaceNoise)
    worst = {
        shift: max(laplace_loss(noise.scale, y, 0, shift) for y in range(-20, 21))
        for shift in range(-sensitivity, sensitivity + 1)
    }
    assert max(worst.values()) == worst[sensitivity] == m.guarantee.epsilon == Fraction(epsilon)
    # One step further, and the promise would be broken: the sensitivity is not overstated.
    assert laplace_loss(noise.scale, -20, 0, sensitivity + 1) > Fraction(epsilon)


@pytest.mark.parametrize("epsilon", ["0.01", "1", "10"])
@pytest.mark.parametrize("sensitivity", ["1", "0.1", "3.7"])
def test_laplace_floats_lose_at_most_epsilon_with_rounding(epsilon: str, sensitivity: str) -> None:
    """Pairs of floats Δ apart in exact arithmetic, put where rounding moves them furthest."""
    on_grid = Laplace(epsilon=epsilon, l1_sensitivity=sensitivity).on_grid()
    noise, grid, delta = on_grid.noise, on_grid.grid, Fraction(sensitivity)
    assert isinstance(noise, LaplaceNoise)
    step = grid.step
    starts = [Fraction(0), step / 2, step * Fraction(3, 2), -step / 2, Fraction(1000) + step / 2]
    for start in starts:
        left = float(start)
        right = math.nextafter(float(start + delta), 0.0)
        assert Fraction(right) - Fraction(left) <= delta
        moved = abs(grid.to_unit(right) - grid.to_unit(left))
        assert moved / noise.scale <= Fraction(epsilon)


def laplace_profile(scale: Fraction, shifts: tuple[int, ...], odds: float) -> float:
    """Σ (P(x) - odds·Q(x))₊ for independent discrete Laplace noise and a shift in every coordinate."""
    reach = np.arange(-150, 151)
    q = math.exp(-1 / float(scale))
    p_joint, q_joint = np.ones(1), np.ones(1)
    for shift in shifts:
        p_joint = np.outer(p_joint, (1 - q) / (1 + q) * q ** np.abs(reach)).ravel()
        q_joint = np.outer(q_joint, (1 - q) / (1 + q) * q ** np.abs(reach - shift)).ravel()
    return float(np.maximum(p_joint - odds * q_joint, 0).sum())


ODDS = [math.exp(e) for e in np.linspace(-1.4, 1.49, 40)]


@pytest.mark.parametrize(("parts", "finer"), [(1, 2), (1, 7), (2, 6), (3, 12), (4, 4)])
def test_a_coarser_lattice_gives_more_away(parts: int, finer: int) -> None:
    """Lemma 2: the event of a Laplace mechanism covers every finer lattice at the same epsilon, here 1.5."""
    for odds in ODDS:
        coarse = laplace_profile(Fraction(2 * parts, 3), (parts,), odds)
        fine = laplace_profile(Fraction(2 * finer, 3), (finer,), odds)
        continuous = max(1 - math.sqrt(odds) * math.exp(-0.75), 0.0)
        assert continuous - 1e-12 <= fine <= coarse + 1e-12


def test_a_lattice_that_is_not_nested_may_give_more_away() -> None:
    """The reason to enlarge grids to a multiple: 3 steps are not covered by 2 parts."""
    excess = [laplace_profile(Fraction(2), (3,), odds) - laplace_profile(Fraction(4, 3), (2,), odds) for odds in ODDS]
    assert max(excess) > 1e-3


@pytest.mark.parametrize("shifts", [(1, 1), (2, 1), (1, -2), (-3, 0)])
def test_a_vector_gives_away_no_more_than_one_number(shifts: tuple[int, ...]) -> None:
    """Lemma 1: a split of the l1 sensitivity over coordinates is covered by one coordinate that takes all of it."""
    for odds in ODDS:
        assert laplace_profile(Fraction(2), shifts, odds) <= laplace_profile(Fraction(2), (3,), odds) + 1e-12


def test_the_event_of_a_laplace_mechanism_divides_every_release() -> None:
    for sensitivity, dimension in itertools.product([1, 12, 5000, "0.7"], [1, 3, 100]):
        m = Laplace(epsilon="0.9", l1_sensitivity=sensitivity)
        floats = m.on_grid(dimension).event
        assert isinstance(floats, DiscreteLaplaceEvent)
        assert floats.l1_sensitivity % m.event.l1_sensitivity == 0
        assert Fraction(sensitivity).denominator > 1 or Fraction(sensitivity) % m.event.l1_sensitivity == 0


# --- Gaussian, one number -----------------------------------------------------------------------------------------


def exact_delta(epsilon: str, sigma2: Fraction, shift: int) -> mpmath.mpf:
    """Σ (P(x) - e^ε·Q(x))₊ term by term over all x that matter, 30 digits: no formula but the definition."""
    with mpmath.workdps(30):
        s2 = mpmath.mpf(sigma2.numerator) / sigma2.denominator
        reach = int(14 * mpmath.sqrt(s2)) + 30
        # exp(-x²/2σ²) by recurrence: the ratio of neighbours shrinks by exp(-1/σ²) each time.
        values, term, ratio, shrink = [mpmath.mpf(1)], mpmath.mpf(1), mpmath.exp(-1 / (2 * s2)), mpmath.exp(-1 / s2)
        for _ in range(reach + shift + 1):
            term *= ratio
            ratio *= shrink
            values.append(term)
        odds = mpmath.exp(mpmath.mpf(epsilon))
        excess = (values[abs(x)] - odds * values[abs(x + shift)] for x in range(-reach, reach + 1))
        return mpmath.fsum(e for e in excess if e > 0) / (2 * mpmath.fsum(values) - 1)


SMALL = [
    ("0.01", "1e-3", 1),
    ("0.01", "1e-12", 1),
    ("0.1", "1e-3", 1),
    ("0.1", "1e-6", 3),
    ("0.5", "1e-9", 1),
    ("1", "1e-3", 1),
    ("1", "1e-6", 1),
    ("1", "1e-12", 1),
    ("1", "1e-6", 7),
    ("1", "1e-9", 100),
    ("3", "1e-6", 1),
    ("3", "1e-12", 10),
    ("10", "1e-3", 1),
    ("10", "1e-6", 1),
    ("10", "1e-12", 1),
    ("10", "1e-6", 1000),
    ("10", "1e-12", 1000),
]


@pytest.mark.parametrize(("epsilon", "delta", "shift"), SMALL)
def test_gaussian_delta_is_kept_and_tight(epsilon: str, delta: str, shift: int) -> None:
    m = Gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=shift)
    assert exact_delta(epsilon, m.sigma2, shift) <= mpmath.mpf(delta)
    assert exact_delta(epsilon, m.sigma2 * Fraction(99, 100) ** 2, shift) > mpmath.mpf(delta)


@pytest.mark.parametrize(("epsilon", "delta", "shift"), [("1", "1e-6", 7), ("3", "1e-12", 10), ("0.1", "1e-3", 4)])
def test_the_whole_shift_is_the_worst(epsilon: str, delta: str, shift: int) -> None:
    m = Gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=shift)
    deltas = [exact_delta(epsilon, m.sigma2, s) for s in range(1, shift + 1)]
    assert deltas == sorted(deltas)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shift"),
    [("0.01", "1e-3", 1000), ("0.01", "1e-6", 1000), ("0.1", "1e-12", 1000)],
)
def test_gaussian_delta_of_large_sigma_is_kept_and_tight(epsilon: str, delta: str, shift: int) -> None:
    """Up to millions of terms, in floats: right to about 1e-10, where the calibration leaves 1e-8 and more."""
    m = Gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=shift)
    assert float_delta(float(Fraction(epsilon)), math.sqrt(m.sigma2), shift) <= float(delta)
    assert float_delta(float(Fraction(epsilon)), 0.99 * math.sqrt(m.sigma2), shift) > float(delta)


def float_delta(epsilon: float, sigma: float, shift: int) -> float:
    threshold = epsilon * sigma**2 / shift - shift / 2
    x = np.arange(math.floor(threshold) + 1, math.floor(threshold + 12 * sigma), dtype=np.float64)
    covered = -np.expm1(-(x - threshold) * shift / sigma**2)
    # Σ exp(-x²/2σ²) = σ√(2π) to all digits for σ this large (Poisson summation).
    return float(np.sum(np.exp(-(x**2) / (2 * sigma**2)) * covered)) / (sigma * math.sqrt(2 * math.pi))


def test_the_continuous_sigma_would_break_the_promise_of_discrete_noise() -> None:
    """The reason to calibrate for discrete noise: Balle and Wang's σ for (1, 1e-5) gives a larger δ on integers."""
    assert exact_delta("1", Fraction("3.73063163481594183") ** 2, 1) > mpmath.mpf("1.02e-5")


def test_classic_keeps_its_promise_on_discrete_noise() -> None:
    for epsilon, delta in (("1", "1e-3"), ("1", "1e-9"), ("0.1", "1e-6")):
        m = Gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=1, calibration="classic")
        assert exact_delta(epsilon, m.sigma2, 1) <= mpmath.mpf(delta)


# --- Gaussian, vectors --------------------------------------------------------------------------------------------


def vector_delta(epsilon: float, sigma2: float, shift: tuple[int, ...]) -> float:
    """Σ (P(x) - e^ε·Q(x))₊ over a box, in floats."""
    reach = np.arange(-math.ceil(9 * math.sqrt(sigma2)) - 3, math.ceil(9 * math.sqrt(sigma2)) + 4, dtype=float)
    p, q = np.ones(1), np.ones(1)
    total = np.exp(-(reach**2) / (2 * sigma2)).sum()
    for s in shift:
        p = np.outer(p, np.exp(-(reach**2) / (2 * sigma2)) / total).ravel()
        q = np.outer(q, np.exp(-((reach + s) ** 2) / (2 * sigma2)) / total).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(
    ("epsilon", "delta", "l2_squared", "shifts"),
    [
        ("1", "1e-3", 2, [(1, 1), (1, 0)]),
        ("3", "1e-6", 5, [(1, 2), (2, 1), (2, 0)]),
        ("10", "1e-4", 2, [(1, 1), (1, 0)]),
        ("1", "1e-3", 25, [(3, 4), (5, 0), (4, 2)]),
        ("0.5", "1e-5", 50, [(7, 1), (5, 5), (7, 0), (6, 3)]),
    ],
)
def test_gaussian_vectors_keep_their_delta(
    epsilon: str, delta: str, l2_squared: int, shifts: list[tuple[int, ...]]
) -> None:
    m = Gaussian(epsilon=epsilon, delta=delta, l2_squared=l2_squared, dimension=2)
    for shift in shifts:
        assert sum(s * s for s in shift) <= l2_squared
        assert vector_delta(float(epsilon), float(m.sigma2), shift) <= float(delta)
    # Not wasteful either: four fifths of the noise is too little for one of the shifts.
    assert max(vector_delta(float(epsilon), 0.64 * float(m.sigma2), shift) for shift in shifts) > float(delta)


def test_every_vector_bound_is_used() -> None:
    """Large σ² is proven by comparison with the rounded normal, a small Δ² shift by shift, the rest by zCDP."""
    epsilon, delta = Fraction(1), Fraction(1, 1000)
    rounded = calibrate_discrete_sigma(epsilon, delta, 100, 2)
    assert rounded_normal_gives_at_most(epsilon, delta, sigma2=rounded**2, l2_squared=100, dimension=2)
    shifted = calibrate_discrete_sigma(epsilon, delta, 1, 2)
    assert shifted == calibrate_discrete_sigma(epsilon, delta, 1, 1)
    assert shifted * 10 < rounded < shifted * Fraction(102, 10)
    concentrated = calibrate_discrete_sigma(Fraction(8), delta, 20, 2)
    assert not rounded_normal_gives_at_most(Fraction(8), delta, sigma2=concentrated**2, l2_squared=20, dimension=2)
    assert ZCDP(20 / (2 * concentrated**2)).to_approx(delta).epsilon <= 8
    less = concentrated * Fraction(999, 1000)
    assert ZCDP(20 / (2 * less**2)).to_approx(delta).epsilon > 8


def test_the_discrete_gaussian_is_nearly_a_rounded_normal() -> None:
    """The two inequalities of section 3 of the proof, at the smallest σ² they are used for."""
    with mpmath.workdps(60):
        s2 = mpmath.mpf(40)
        sigma = mpmath.sqrt(s2)
        total = mpmath.fsum(mpmath.exp(-mpmath.mpf(k * k) / (2 * s2)) for k in range(-200, 201))
        assert 1 <= total / (sigma * mpmath.sqrt(2 * mpmath.pi)) <= 1 + 3 * mpmath.exp(-19 * s2) + mpmath.mpf(10) ** -58
        for k in range(60):
            discrete = mpmath.exp(-mpmath.mpf(k * k) / (2 * s2)) / total
            edges = [(k + h) / sigma for h in (-mpmath.mpf(1) / 2, mpmath.mpf(1) / 2)]
            rounded = (mpmath.erfc(edges[0] / mpmath.sqrt(2)) - mpmath.erfc(edges[1] / mpmath.sqrt(2))) / 2
            assert discrete <= mpmath.exp(1 / (24 * s2)) * rounded
            assert rounded <= mpmath.exp(k * k / (24 * s2**2) + 3 * mpmath.exp(-19 * s2)) * discrete * (
                1 + mpmath.mpf(10) ** -50
            )


def test_gaussian_floats_move_by_no_more_than_the_event_says() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity="0.3", dimension=2)
    on_grid = m.on_grid(2)
    squared = m.event.l2_squared
    step = float(on_grid.grid.step)
    # Half steps that round apart, moved along an axis and along the diagonal.
    for dx, dy in ((0.3, 0.0), (0.18, 0.24), (0.2121, 0.2121)):
        left = np.array([step / 2, step / 2])
        right = np.array([dx + step / 2, dy + step / 2])
        if Fraction(dx) ** 2 + Fraction(dy) ** 2 <= m.l2_squared:
            moved = on_grid.grid.to_units(right) - on_grid.grid.to_units(left)
            assert int(moved @ moved) <= squared
    assert isinstance(on_grid.noise, GaussianNoise)


# --- What floats look like (porous noise, low bits) ---------------------------------------------------------------

#: Sensitivity 64 puts the step at 2⁻¹⁸, so that 1e9 and its noise are still exact floats.
FLOAT_MECHANISMS = [
    Laplace(epsilon=1, l1_sensitivity=64),
    Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=64),
]
CENTRES = [0.0, 1.0, 1e3, 1e9]
RELEASES = 2000


def low_bits_chi_square(units: NDArray[np.int64]) -> float:
    """Trailing zero bits against the geometric law 1/2, 1/4, … that uniform low bits have; 9 cells."""
    zeros = [min((int(u) & -int(u)).bit_length() - 1 if u else 8, 8) for u in units]
    seen = np.bincount(zeros, minlength=9)
    expected = len(units) * np.array([2.0 ** -(i + 1) for i in range(8)] + [2.0**-8])
    return float(((seen - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("mechanism", FLOAT_MECHANISMS, ids=lambda m: type(m).__name__)
def test_floats_are_exact_multiples_with_the_same_low_bits_everywhere(mechanism: Any, seeded: SeededBits) -> None:
    """χ² with 8 degrees of freedom; its 1 - 1e-8 quantile is 53.0, for each of four centres."""
    step = mechanism.on_grid().grid.step
    for centre in CENTRES:
        multiples = [Fraction(mechanism.release(centre)) / step for _ in range(RELEASES)]
        assert all(multiple.denominator == 1 for multiple in multiples)
        assert low_bits_chi_square(np.array([int(multiple) for multiple in multiples])) < 53.0


def test_the_low_bit_check_catches_noise_added_in_floats(seeded: SeededBits) -> None:
    """The broken twin: perfect noise, added to the value as a float, loses its low bits beside a large value."""
    fine = Grid(-30)
    noise = LaplaceNoise(Fraction(2**34)).sampler.sample_many(RELEASES)
    for centre, caught in ((0.0, False), (1e9, True)):
        outputs = centre + fine.to_floats(noise)
        units = np.array([int(Fraction(float(y)) / fine.step) for y in outputs])
        assert (low_bits_chi_square(units) > 53.0) is caught


@pytest.mark.parametrize("mechanism", FLOAT_MECHANISMS, ids=lambda m: type(m).__name__)
def test_the_grid_does_not_depend_on_the_value(mechanism: Any) -> None:
    before = mechanism.on_grid().grid
    for value in (0.0, 1e-300, 1e9, -5e-324, 123.456):
        mechanism.release(value)
        assert mechanism.on_grid().grid == before


def test_rational_enclosures_agree_with_the_pmf_of_the_laplace_noise() -> None:
    """P(0) = (1-q)/(1+q) enclosed, against the tail that errors are computed from: P(|X| > 0) = 1 - P(0)."""
    scale = Fraction(10, 3)
    low, high = exp_bounds(-1 / scale)
    p0_low, p0_high = (1 - high) / (1 + high), (1 - low) / (1 + low)
    noise = LaplaceNoise(scale)
    assert noise.quantile(1 - p0_low + Fraction(1, 10**30)) == 0
    assert noise.quantile(1 - p0_high - Fraction(1, 10**30)) == 1
