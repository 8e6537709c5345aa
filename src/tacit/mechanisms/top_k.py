"""The k best candidates, one exponential mechanism after the other.

See ``top_k.proof.md`` for the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np

from tacit.core.errors import InputError
from tacit.core.events import ExponentialEvent, RepeatedEvent
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import Number, check_count, float_up
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.selection_scores import ScoreList, Selection, calibrate_epsilon, check_candidates, log_inverse
from tacit.noise.selection import select_exponential


class TopK(Selection[list[Any]]):
    """Releases k different candidates in the order in which they are chosen, each by the exponential mechanism at ε/k.

    Peeling (choose, remove, choose again) has the same law as adding Gumbel noise once and reporting the k largest.

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP, and k releases of ε/k-bounded range, hence ε²/(8k)-zCDP,

        where
          * each choice has P(r) ∝ exp(ε·u_r/(2kΔ)) among the candidates still there, exp(ε·u_r/(kΔ)) with
            ``monotone=True``;
          * ``event`` says k times ε/k, so that tight composition can price it better than their sum.

    Sensitivity:
        ``sensitivity`` Δ is the furthest that one unit can move any one score. Whole numbers, fractions and decimals
        are used as they are. Floats are rounded to a public power of two, 2²⁴ times finer than Δ and the scale
        (coarser for ε below about 10⁻⁴), and the mechanism then reckons with Δ plus one step.

    Error:
        with probability at least 1 - β the i-th choice's score is, for all i at once, at most
        (2kΔ/ε)·ln(|R|·k/β) below the i-th best score; half of that for monotone scores. See :meth:`error`.

    Assumes:
        the candidates, and whether their scores are floats, are public.

    References:
        Durfee and Rogers (2019), *Practical differentially private top-k selection with pay-what-you-get composition*.

    >>> best = TopK(epsilon=1, k=4, sensitivity=1)
    >>> best.guarantee, best.zcdp
    (PureDP(1), ZCDP(0.03125))
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        k: SupportsIndex,
        sensitivity: Number,
        monotone: bool = False,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        super().__init__(epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, relation=relation)
        self._k = check_count(k, "k", maximum=10**6)

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        candidates: SupportsIndex,
        k: SupportsIndex,
        sensitivity: Number,
        monotone: bool = False,
        relation: Relation | str = ADD_REMOVE,
    ) -> TopK:
        """Return the mechanism of the smallest ε whose :meth:`error` is at most ``within``."""

        def make(epsilon: Number) -> TopK:
            return cls(epsilon=epsilon, k=k, sensitivity=sensitivity, monotone=monotone, relation=relation)

        start = make(1).scale * log_inverse(Fraction(check_candidates(candidates)[0]), beta)
        return make(calibrate_epsilon(lambda epsilon: make(epsilon).error(beta, candidates), within, start))

    @property
    def event(self) -> RepeatedEvent:
        """Event of one release, for accountants: k exponential mechanisms."""
        once = ExponentialEvent(self.epsilon / self._k, relation=self.relation)
        return RepeatedEvent(once, self._k, relation=self.relation)

    @property
    def zcdp(self) -> ZCDP:
        """k·(ε/k)²/8-zCDP, from bounded range."""
        return ZCDP(self.epsilon**2 / (8 * self._k), relation=self.relation)

    @property
    def k(self) -> int:
        """Number of candidates chosen."""
        return self._k

    def release(self, scores: ScoreList, candidates: Sequence[Any] | None = None) -> list[Any]:
        """Choose k candidates and return them, first choice first."""
        read = self._read(scores, candidates)
        if len(read.gaps) < self._k:
            raise InputError("scores", f"must be of at least k = {self._k} candidates, got {len(read.gaps)}")
        rate = 1 / self._scale_in_steps(read)
        gaps, left, chosen = read.gaps, np.arange(len(read.gaps)), []
        for _ in range(self._k):
            place = select_exponential(gaps - gaps.min(), rate)
            chosen.append(read.label(int(left[place])))
            gaps, left = np.delete(gaps, place), np.delete(left, place)
        return chosen

    def error(self, beta: Number, candidates: SupportsIndex) -> float:
        """Return a bound on how far any i-th choice is below the i-th best score, exceeded with probability <= β."""
        total = check_candidates(candidates)[0]
        return float_up(self._loss_up(log_inverse(Fraction(total * self._k), beta)))

    def _scale_of(self, sensitivity: Fraction) -> Fraction:
        return self._k * super()._scale_of(sensitivity)
