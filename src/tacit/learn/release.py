"""Release of an integer vector with exact noise; the only exit of values computed from rows.

Every release of every estimator passes here, so a test can record what went in, freeze what came out, and replay a fit
on a neighbouring table.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.learn.integer_rows import Integers
from tacit.mechanisms.additive import add_noise
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.laplace import DiscreteLaplace

__all__ = ["release_gaussian", "release_laplace"]


def release_gaussian(raw: Integers, sigma2: Fraction) -> NDArray[np.float64]:
    """The integers with independent discrete Gaussian noise of ``sigma2``, as floats, in the same shape."""
    noisy = add_noise(raw.ravel(), DiscreteGaussian(sigma2))
    return noisy.astype(np.float64).reshape(raw.shape)


def release_laplace(raw: Integers, scale: Fraction) -> NDArray[np.float64]:
    """The integers with independent discrete Laplace noise of ``scale``, as floats, in the same shape."""
    noisy = add_noise(raw.ravel(), DiscreteLaplace(scale))
    return noisy.astype(np.float64).reshape(raw.shape)
