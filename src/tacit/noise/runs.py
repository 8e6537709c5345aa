"""Choosing among runs of equally good candidates with exactly the weights of the exponential mechanism.

A run is a number of candidates (``lengths``) that share one integer ``gap`` below the best score. A run of length l and
gap g weighs l·exp(-rate·g), for one rational ``rate``. There may be far more candidates than could be listed: for
example, each grid step between two values.

Every run is proposed with the weight l·2⁻ᵉ, where e is a whole number with 2⁻ᵉ >= exp(-rate·g), and the proposal is
accepted with probability exp(-rate·g)·2ᵉ, so that the accepted one has the right law. Weights l·2⁻ᵉ are integers once
they are multiplied by 2ᶜ for a large c; runs with e beyond c have together less than one part in 2⁶⁴ and share one
proposal that is thinned out. Proof: ``runs.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import exp_bounds, float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.uniform import LazyUniform, sample_below

#: Binary digits by which runs must fall behind the best candidate to be proposed together.
_FAR: Final = 64
#: Larger than the relative error of a product of floats, so that an exponent is never too large.
_LESS: Final = 1 - 2.0**-40
_START: Final = 64


def select_run(
    lengths: NDArray[np.int64], gaps: NDArray[Any], rate: Fraction, source: BitSource | None = None
) -> tuple[int, int]:
    """Sample (run, index of a candidate in it) by the exponential mechanism: P(candidate) ∝ exp(-rate · gap).

    Args:
        lengths: number of candidates of each run; they add up to less than 2⁶².
        gaps: gap of each run that is not empty; the smallest one need not be 0.
        rate: rate of the exponential, above 0.
        source: source of random bits.
    """
    source = source or entropy.current()
    there = np.flatnonzero(lengths)
    sizes, gaps = lengths[there], gaps[there]
    gaps = gaps - gaps.min()
    total = int(sizes.sum())
    farthest = total.bit_length() + _FAR
    per_gap = float_nearest(rate) / math.log(2) * _LESS
    exponents = np.minimum(np.floor(gaps.astype(np.float64) * per_gap), farthest + 1).astype(np.int64)
    weights = [0] * (farthest + 1)
    order = np.argsort(exponents, kind="stable")
    ends = np.cumsum(sizes[order])
    starts = np.searchsorted(exponents[order], np.arange(farthest + 2))
    before = np.concatenate(([0], ends))[starts]
    for exponent in range(farthest + 1):
        weights[exponent] = int(before[exponent + 1] - before[exponent]) << (farthest - exponent)
    near = sum(weights)
    while True:
        place = sample_below(near + total, source)
        if place >= near:
            # All candidates weigh 1 here, which is more than any far one has.
            candidate, exponent = place - near, farthest
        else:
            exponent = 0
            while place >= weights[exponent]:
                place -= weights[exponent]
                exponent += 1
            candidate = int(before[exponent]) + (place >> (farthest - exponent))
        index = int(np.searchsorted(ends, candidate, side="right"))
        run = int(order[index])
        if (int(exponents[run]) > farthest) != (place >= near):
            continue
        if _kept(rate * int(gaps[run]), exponent, source):
            return int(there[run]), candidate - (int(ends[index - 1]) if index else 0)


def _kept(loss: Fraction, exponent: int, source: BitSource) -> bool:
    """Draw True with probability exp(-loss)·2ᵉ: whether a uniform that begins with e zeros is below exp(-loss)."""
    uniform = LazyUniform(source, source.bits(_START), _START + exponent)
    while True:
        low, high = exp_bounds(-loss, 15 + uniform.width * 3 // 10)
        if uniform.high <= low:
            return True
        if uniform.low >= high:
            return False
        uniform.reveal()
