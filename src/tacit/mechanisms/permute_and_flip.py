"""Permute-and-flip: selection with at most the error of the exponential mechanism under pure DP.

See ``permute_and_flip.proof.md`` for the proof, and for why it is not of bounded range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, SupportsIndex

from tacit.core.errors import InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import Number, exp_bounds
from tacit.mechanisms.selection_scores import ScoreList, WeightedSelection, check_candidates, log_inverse
from tacit.noise.selection import select_permute_and_flip

#: The most candidates for which the law, an alternating sum with one term per candidate, is computed.
_MOST_FOR_LAW: Final = 200
#: Bits to which coin probabilities are rounded outwards when the law is computed.
_BITS: Final = 140


class PermuteAndFlip(WeightedSelection):
    """Releases one of a public list of candidates: walks them in random order, takes each with chance exp(-gap/scale).

    Never worse in expectation than :class:`~tacit.mechanisms.exponential.Exponential` at the same ε, and up to twice
    as good. It is not of bounded range, so under concentrated accounting it costs four times as much.

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP; ε²/2-zCDP and not ε²/8,

        where
          * a candidate whose score lies ``gap`` below the best is taken, when its turn comes, with probability
            exp(-ε·gap/(2Δ)), or exp(-ε·gap/Δ) with ``monotone=True``; the best is always taken;
          * the coins are exact.

    Sensitivity:
        ``sensitivity`` Δ is the furthest that one unit can move any one score. Whole numbers, fractions and decimals
        are used as they are. Floats are rounded to a public power of two, 2²⁴ times finer than Δ and the scale
        (coarser for ε below about 10⁻⁴), and the mechanism then reckons with Δ plus one step.

    Error:
        the score falls (2Δ/ε)·ln((|R| - |R_OPT|)/((|R_OPT| + 1)·β)) or more below the best with probability at most
        β; half of that for monotone scores. See :meth:`error`.

    Assumes:
        the candidates, and whether their scores are floats, are public.

    References:
        McKenna and Sheldon (2020), *Permute-and-flip*; Ding, Kifer, Steinke et al. (2021) for its equivalence to
        noisy max with exponential noise.

    >>> choice = PermuteAndFlip(epsilon=1, sensitivity=1)
    >>> choice.guarantee, choice.zcdp
    (PureDP(1), ZCDP(0.5))
    >>> [round(p, 6) for p in choice.probabilities([0, 1, 2])]
    [0.146751, 0.266077, 0.587172]
    """

    @property
    def event(self) -> PureEvent:
        """Event of one release, for accountants: ε-DP and nothing finer."""
        return PureEvent(self.epsilon, "permute_and_flip", relation=self.relation)

    @property
    def zcdp(self) -> ZCDP:
        """ε²/2-zCDP, as implied by ε-DP."""
        return self.guarantee.to_zcdp()

    def release(self, scores: ScoreList, candidates: Sequence[Any] | None = None) -> Any:
        """Choose a candidate: return an index, a member of ``candidates``, or a key when ``scores`` is a mapping."""
        read = self._read(scores, candidates)
        return read.label(select_permute_and_flip(read.gaps, 1 / self._scale_in_steps(read)))

    def probability_bounds(self, scores: ScoreList) -> list[tuple[Fraction, Fraction]]:
        """Return rational bounds on the probability of each candidate. They depend on the data: not for publication.

        P(r) = p_r·∫₀¹ Π_{s≠r} (1 - t·p_s) dt with p_s the probability of coin s: t is the share of the random order
        that precedes r, and all coins before r must have failed.
        """
        read = self._read_as_given(scores)
        if len(read.gaps) > _MOST_FOR_LAW:
            raise InputError("scores", f"must be of at most {_MOST_FOR_LAW} candidates for the exact law")
        scale = self._scale_in_steps(read)
        coins = [exp_bounds(-gap / scale) for gap in read.gaps.tolist()]
        # The integral falls in every coin, so the coins' upper ends give its lower end.
        turns = zip(
            _turns([high for _, high in coins], up=True), _turns([low for low, _ in coins], up=False), strict=True
        )
        return [(low * turn[0], high * turn[1]) for (low, high), turn in zip(coins, turns, strict=True)]

    @staticmethod
    def _log_odds(beta: Number, candidates: SupportsIndex, optimal: SupportsIndex) -> Fraction:
        total, best = check_candidates(candidates, optimal)
        return log_inverse(Fraction(total - best, best + 1), beta) if total > best else Fraction(0)


def _turns(coins: list[Fraction], *, up: bool) -> list[Fraction]:
    """Return ∫₀¹ Π_{s≠r} (1 - t·p_s) dt for every r, for coins rounded ``up`` or down to a fixed number of bits.

    Polynomials in t have integer coefficients, in units of 2^-(bits·degree); the product over all coins is computed
    once, and the factor of r divided out.
    """
    rounded = [min(-math.floor(-coin * 2**_BITS) if up else math.floor(coin * 2**_BITS), 2**_BITS) for coin in coins]
    product = [1]
    for coin in rounded:
        product = [a - coin * b for a, b in zip([*product, 0], [0, *product], strict=True)]
    return [_integral(_divide(product, coin)) for coin in rounded]


def _divide(product: list[int], coin: int) -> list[int]:
    quotient = [product[0]]
    for coefficient in product[1:-1]:
        quotient.append(coefficient + coin * quotient[-1])
    return quotient


def _integral(polynomial: list[int]) -> Fraction:
    common = math.lcm(*range(1, len(polynomial) + 1))
    degree = len(polynomial) - 1
    total = sum(c * (common // (j + 1)) << (_BITS * (degree - j)) for j, c in enumerate(polynomial))
    return Fraction(total, common << (_BITS * degree))
