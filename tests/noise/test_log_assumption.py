"""Assumptions of noise/inversion.proof.md about ``log``, checked on this machine's NumPy and C library."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.numbers import float_nearest
from tacit.noise import inversion
from tacit.noise.inversion import LOG_ERROR


def points() -> NDArray[np.float64]:
    """Arguments a sampler can meet: the whole range, near 1 where cancellation lurks, and near powers of two."""
    rng = np.random.Generator(np.random.PCG64(5))
    uniform = np.maximum(rng.random(4000), 2.0**-16)
    near_one = 1.0 - rng.random(1500) * 2.0 ** -rng.integers(1, 53, 1500)
    powers = 2.0 ** -rng.integers(0, 17, 1500) * (1.0 + rng.uniform(-1, 1, 1500) * 2.0 ** -rng.integers(1, 52, 1500))
    return np.clip(np.concatenate((uniform, near_one, powers)), 2.0**-16, 1.0)


def relative_error(argument: float, got: float) -> float:
    with mpmath.workdps(40):
        true = mpmath.log(mpmath.mpf(argument))
        return 0.0 if true == 0 == got else float(abs((mpmath.mpf(got) - true) / true)) if true else math.inf


@pytest.mark.parametrize("layout", ["contiguous", "strided", "unaligned tail", "single"])
def test_numpy_log_is_accurate_enough(layout: str) -> None:
    """SIMD code treats layouts differently, so each one is measured."""
    x = points()
    if layout == "strided":
        spread = np.zeros(2 * len(x))
        spread[::2] = x
        logs = np.log(spread[::2])
    elif layout == "unaligned tail":
        x = x[: 4 * (len(x) // 4) - 1]
        logs = np.log(np.concatenate(([0.5], x))[1:])
    elif layout == "single":
        x = x[::7]
        logs = np.array([np.log(np.array([value]))[0] for value in x])
    else:
        logs = np.log(x)
    assert max(map(relative_error, x.tolist(), logs.tolist())) <= LOG_ERROR


def test_math_log_is_accurate_enough() -> None:
    assert max(relative_error(x, math.log(x)) for x in points().tolist()) <= LOG_ERROR


TRUE_LOG = np.log


@pytest.mark.parametrize(
    "broken", [lambda x: TRUE_LOG(x) * (1 + 2.0**-45), lambda x: TRUE_LOG(x.astype(np.float32)).astype(np.float64)]
)
def test_a_bad_log_is_refused_at_start(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion.np, "log", broken)
    with pytest.raises(InternalError, match="log"):
        inversion.check_log.__wrapped__()


def test_error_budget_of_the_proof() -> None:
    """The sum of the error terms listed in the proof stays below the guard."""
    cut, ln_max = Fraction(1, 2**47), Fraction(1110, 100)
    half_ulp = Fraction(1, 2**53)
    uniform = cut + half_ulp
    log = Fraction(LOG_ERROR) * ln_max
    offset_and_subtraction = half_ulp + 12 * half_ulp
    scaling = 12 * 2 * half_ulp
    comparison = half_ulp
    assert uniform + log + offset_and_subtraction + scaling + comparison < Fraction(inversion.GUARD)
    assert uniform + log + Fraction(inversion.RATE_ERROR) + comparison < Fraction(inversion.GUARD)
    assert float_nearest(ln_max) > -math.log(2.0**-16)
