"""Law of the noise that a mechanism draws."""

from __future__ import annotations

from tacit.core.errors import InputError
from tacit.laws.discrete import DiscreteGaussianLaw, DiscreteLaplaceLaw, GeometricLaw
from tacit.laws.law import DiscreteLaw
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.gaussian import GaussianNoise
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.inversion import Geometric
from tacit.noise.laplace import DiscreteLaplace

#: Mechanisms, and what they draw with.
Drawn = AdditiveNoise | OnGrid | LaplaceNoise | GaussianNoise | DiscreteLaplace | DiscreteGaussian | Geometric


def law_of(mechanism: Drawn) -> DiscreteLaw:
    """The law of the noise on one integer; for floats, on one number in steps of the grid.

    >>> from tacit.mechanisms.laplace import Laplace
    >>> law = law_of(Laplace(epsilon="0.5", l1_sensitivity=1))
    >>> print(law, law.tail(7))
    Discrete Laplace(2) 0.03759328618
    """
    noise = mechanism.noise if isinstance(mechanism, AdditiveNoise | OnGrid) else mechanism
    match noise:
        case LaplaceNoise() | DiscreteLaplace():
            return DiscreteLaplaceLaw(scale=noise.scale)
        case GaussianNoise() | DiscreteGaussian():
            return DiscreteGaussianLaw(sigma2=noise.sigma2)
        case Geometric():
            return GeometricLaw(scale=1 / noise.rate)
    raise InputError("mechanism", "must add Laplace, Gaussian or geometric noise to have a law of noise")
