"""Release of an integer vector with exact noise; the only exit of values computed from rows.

Every release of every estimator passes here, so a test can record what went in, freeze what came out, and replay a fit
on a neighbouring table.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.learn.integer_rows import Integers
from tacit.mechanisms.additive import add_noise
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.laplace import DiscreteLaplace

_PIECE: Final = 1 << 13


def release_gaussian(raw: Integers, sigma2: Fraction) -> NDArray[np.float64]:
    """The integers with independent discrete Gaussian noise of ``sigma2``, as floats, in the same shape."""
    noisy = add_noise(raw.ravel(), _gaussian(sigma2))
    return _as_floats(noisy).reshape(raw.shape)


def release_laplace(raw: Integers, scale: Fraction) -> NDArray[np.float64]:
    """The integers with independent discrete Laplace noise of ``scale``, as floats, in the same shape."""
    noisy = add_noise(raw.ravel(), DiscreteLaplace(scale))
    return _as_floats(noisy).reshape(raw.shape)


@lru_cache(maxsize=8)
def _gaussian(sigma2: Fraction) -> DiscreteGaussian:
    return DiscreteGaussian(sigma2)


def _as_floats(noisy: Integers) -> NDArray[np.float64]:
    """The nearest floats, written over the integers: fresh memory would take longer than the conversion."""
    floats = noisy.view(np.float64)
    for start in range(0, len(noisy), _PIECE):
        floats[start : start + _PIECE] = noisy[start : start + _PIECE].astype(np.float64)
    return floats
