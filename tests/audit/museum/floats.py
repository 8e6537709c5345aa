"""Exhibits: floating-point noise whose low bits reveal the value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from audit.museum.exhibit import Piece
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.core.guarantees import ApproxDP
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.noise import entropy

_SAMPLES = 6_000
_LIMIT = 1000.0
_CLAIM = ApproxDP(1, "1e-5")


def float_uniform() -> float:
    """53 random bits over 2⁵³: the uniform number of every textbook, never 0."""
    return ((entropy.current().word() >> 11) + 0.5) * 2.0**-53


def float_laplace(values: Sequence[float]) -> float:
    """Count the values, with Laplace noise by inversion, in floats: ε = 1."""
    u = float_uniform() - 0.5
    return float(len(values)) - math.copysign(1.0, u) * math.log(1 - 2 * abs(u))


def float_gaussian(values: Sequence[float]) -> float:
    """A sum of values up to 1000 with Gaussian noise by Box and Muller, in floats: (1, 10⁻⁵)."""
    normal = math.sqrt(-2 * math.log(float_uniform())) * math.cos(2 * math.pi * float_uniform())
    return sum(min(max(value, 0.0), _LIMIT) for value in values) + _sigma() * normal


@cache
def _sigma() -> float:
    return Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1).sigma * _LIMIT


def _laplace(function: Callable[[Sequence[float]], float]) -> LowerBound:
    return lower_bound(function, [], [1.0], claimed=1, samples=_SAMPLES, confidence=0.999)


def _gaussian(function: Callable[[Sequence[float]], float]) -> LowerBound:
    return lower_bound(function, [], [_LIMIT], claimed=_CLAIM, delta=_CLAIM.delta, samples=_SAMPLES, confidence=0.999)


def _laplace_mended() -> LowerBound:
    noise = Laplace(epsilon=1, l1_sensitivity=1)
    return _laplace(lambda values: noise.release(float(len(values))))


def _gaussian_mended() -> LowerBound:
    noise = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=int(_LIMIT))
    return _gaussian(lambda values: noise.release(float(sum(values))))


PIECES = (
    Piece(
        name="float-laplace",
        title="Laplace noise in floats",
        story="A logarithm of 53 random bits reaches only some of the floats, and adding it to the answer moves "
        "the holes along. An output that the other neighbour cannot produce gives the secret away with "
        "certainty. All looks well in a histogram: the holes are in the last bits.",
        seen_in="Mironov 2012, in all four systems of its day; smartnoise-core#242, diffprivlib#19",
        tool="lower_bound",
        flawed=lambda: _laplace(float_laplace),
        mended=_laplace_mended,
    ),
    Piece(
        name="float-gaussian",
        title="Gaussian noise added in floats",
        story="However good the noise, a float sum keeps only the bits that fit the larger number. A small "
        "answer with very low bits set can have come from a small sum only. Mixing more random numbers "
        "into the noise does not help.",
        seen_in="Haney and others 2022; opendp#414, diffprivlib#94, opacus#616",
        tool="lower_bound",
        flawed=lambda: _gaussian(float_gaussian),
        mended=_gaussian_mended,
    ),
)
