"""Choosing one of many candidates with exactly the probabilities of a selection mechanism.

Candidates come as integer ``gaps``: how far each one's score lies below the best, so the best has gap 0. The weight
of a gap is exp(-rate·gap), for one rational ``rate``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.inversion import accept_exp_many
from tacit.noise.uniform import sample_below, sample_below_many


def flip_coins(gaps: NDArray[Any], rate: Fraction, source: BitSource | None = None) -> NDArray[np.bool_]:
    """Toss for each gap an independent coin that is True with probability exactly exp(-rate·gap)."""
    source = source or entropy.current()
    if gaps.dtype == np.int64:
        rates = gaps.astype(np.float64)
        rates *= float_nearest(rate)
    else:
        # Gaps beyond 64 bits may leave the range of floats before they are multiplied.
        rates = np.array([float_nearest(rate * gap) for gap in gaps])
    return accept_exp_many(lambda i: rate * int(gaps[i]), rates, source)


def select_exponential(gaps: NDArray[Any], rate: Fraction, source: BitSource | None = None) -> int:
    """Sample an index by the exponential mechanism: P(i) ∝ exp(-rate · gap[i]).

    Rejection sampling: a uniformly drawn candidate is accepted with probability equal to its weight; the first one
    accepted has the right law. The best candidate has weight 1, so at most ``len(gaps)`` tries are expected; they are
    made in batches, and the first success of a batch is the result.
    """
    source = source or entropy.current()
    batch = 64
    while True:
        tried = sample_below_many(len(gaps), batch, source)
        kept = flip_coins(gaps[tried], rate, source)
        if kept.any():
            return int(tried[int(np.argmax(kept))])
        batch = min(2 * batch, 1 << 16)


def select_permute_and_flip(gaps: NDArray[Any], rate: Fraction, source: BitSource | None = None) -> int:
    """Sample an index by permute-and-flip.

    The mechanism walks the candidates in random order, flips each one's coin, and stops at the first success.
    Coins and order are independent, so flipping all coins first and then choosing uniformly among the successes
    is the same law, and needs no permutation. The best candidate's coin always succeeds.
    """
    source = source or entropy.current()
    successes = np.flatnonzero(flip_coins(gaps, rate, source))
    return int(successes[sample_below(len(successes), source)])
