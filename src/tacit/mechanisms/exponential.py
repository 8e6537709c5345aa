"""The exponential mechanism: choose a candidate, better ones exponentially more often.

See ``exponential.proof.md`` for the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, SupportsIndex

from tacit.core.events import ExponentialEvent
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import Number, exp_bounds
from tacit.mechanisms.selection_scores import ScoreList, WeightedSelection, check_candidates, log_inverse
from tacit.noise.selection import select_exponential


class Exponential(WeightedSelection):
    """Releases one of a public list of candidates, chosen with probability proportional to exp(εu/(2Δ)).

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP, and of ε-bounded range, hence ε²/8-zCDP,

        where
          * P(r) ∝ exp(ε·u_r/(2Δ)) in general;
          * P(r) ∝ exp(ε·u_r/Δ) with ``monotone=True``, for scores that one unit moves all up or all down;
          * the draw is exact: no float takes part in a decision, and no weight underflows to zero.

    Sensitivity:
        ``sensitivity`` Δ is the furthest that one unit can move any one score. Whole numbers, fractions and decimals
        are used as they are. Floats are rounded to a public power of two, 2²⁴ times finer than Δ and the scale
        (coarser for ε below about 10⁻⁴), and the mechanism then reckons with Δ plus one step.

    Error:
        the score falls (2Δ/ε)·(ln(|R|/|R_OPT|) + t) or more below the best with probability at most e⁻ᵗ; half of
        that for monotone scores. See :meth:`error`.

    Assumes:
        the candidates, and whether their scores are floats, are public.

    References:
        McSherry and Talwar (2007); Cesar and Rogers (2021) for bounded range and ε²/8; Ilvento (2020) for what goes
        wrong in floats.

    >>> choice = Exponential(epsilon=1, sensitivity=1)
    >>> choice.guarantee, choice.zcdp
    (PureDP(1), ZCDP(0.125))
    >>> [round(p, 6) for p in choice.probabilities([0, 1, 2])]
    [0.186324, 0.307196, 0.50648]
    """

    @property
    def event(self) -> ExponentialEvent:
        """Event of one release, for accountants."""
        return ExponentialEvent(self.epsilon, relation=self.relation)

    @property
    def zcdp(self) -> ZCDP:
        """ε²/8-zCDP, from bounded range."""
        return ZCDP(self.epsilon**2 / 8, relation=self.relation)

    def release(self, scores: ScoreList, candidates: Sequence[Any] | None = None) -> Any:
        """Choose a candidate: return an index, a member of ``candidates``, or a key when ``scores`` is a mapping."""
        read = self._read(scores, candidates)
        return read.label(select_exponential(read.gaps, 1 / self._scale_in_steps(read)))

    def probability_bounds(self, scores: ScoreList) -> list[tuple[Fraction, Fraction]]:
        """Return rational bounds on the probability of each candidate. They depend on the data: not for publication."""
        read = self._read_as_given(scores)
        scale = self._scale_in_steps(read)
        weights = [exp_bounds(-gap / scale) for gap in read.gaps.tolist()]
        low, high = (sum(side, Fraction(0)) for side in zip(*weights, strict=True))
        return [(weight_low / high, weight_high / low) for weight_low, weight_high in weights]

    @staticmethod
    def _log_odds(beta: Number, candidates: SupportsIndex, optimal: SupportsIndex) -> Fraction:
        total, best = check_candidates(candidates, optimal)
        return log_inverse(Fraction(total, best), beta)
