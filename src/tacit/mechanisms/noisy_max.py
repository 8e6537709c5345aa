"""Report noisy max: the candidate with the largest noisy score, and its margin.

See ``noisy_max.proof.md`` for the proof, ties and margins included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import Number, exact_probability, exp_bounds, float_up
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.selection_scores import ScoreList, Selection, calibrate_epsilon, check_candidates
from tacit.noise.inversion import LARGEST_FAST_SCALE, Geometric
from tacit.noise.laplace import LARGEST_SCALE, DiscreteLaplace


class Winner(NamedTuple):
    """The chosen candidate and its margin: its noisy score less the smallest one with which it would have won."""

    candidate: Any
    margin: int | float


class NoisyMax(Selection[Any]):
    """Releases the candidate whose score plus noise is largest; with ``gap=True`` also its margin, at no extra cost.

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP, whatever the number of candidates; ε²/2-zCDP and not ε²/8,

        where
          * every score gets its own discrete noise of scale 2Δ/ε, or Δ/ε with ``monotone=True``, for scores that one
            unit moves all up or all down: discrete Laplace (``noise="laplace"``) or geometric, that is one-sided
            (``noise="exponential"``);
          * equal noisy scores go to the lower index; the keys of a mapping are put in a public order first;
          * the margin is the winner's noisy score less the smallest one with which it would still have won. It is
            free with Laplace noise. The proof shifts the winner's noise in either direction, which geometric noise,
            never negative, does not allow, so that combination is refused.

    Sensitivity:
        ``sensitivity`` Δ is the furthest that one unit can move any one score; *not* the l1 norm of all their moves.
        Scores given as whole numbers stay whole. Floats, fractions and decimals are rounded to a public power of
        two, 2²⁴ times finer than Δ and the scale (coarser for ε below about 10⁻⁴), and the mechanism then reckons
        with Δ plus one step.

    Error:
        the winner's score lies more than :meth:`error` below the best with probability at most β, from the exact law
        of the difference of two noises: about (2Δ/ε)·ln(|R|/(2β)) with exponential noise, a little more with Laplace.

    Assumes:
        the candidates, and whether their scores are whole numbers, are public.

    References:
        Dwork and Roth (2014), section 3.3; Ding, Wang, Zhang and Kifer (2019) for the free margin.

    >>> diseases = NoisyMax(epsilon="0.5", sensitivity=1, monotone=True)
    >>> diseases.guarantee, diseases.scale
    (PureDP(0.5), Fraction(2, 1))
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number,
        noise: Literal["laplace", "exponential"] = "laplace",
        monotone: bool = False,
        gap: bool = False,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        super().__init__(epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, relation=relation)
        if noise not in ("laplace", "exponential"):
            raise InputError("noise", f"must be 'laplace' or 'exponential', got {noise!r}")
        if not isinstance(gap, bool):
            raise InputError("gap", f"must be True or False, not {type(gap).__name__}")
        if gap and noise == "exponential":
            raise InputError(
                "gap",
                "needs noise='laplace': exponential noise is one-sided, so that given the others' noise a neighbour "
                "might be unable to show the same margin, and no proof covers it",
            )
        self._noise, self._gap = noise, gap

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        candidates: SupportsIndex,
        sensitivity: Number,
        optimal: SupportsIndex = 1,
        noise: Literal["laplace", "exponential"] = "laplace",
        monotone: bool = False,
        gap: bool = False,
        relation: Relation | str = ADD_REMOVE,
    ) -> NoisyMax:
        """Return the mechanism of the smallest ε with ``error(beta, candidates, optimal) <= within``."""

        def make(epsilon: Number) -> NoisyMax:
            return cls(
                epsilon=epsilon, sensitivity=sensitivity, noise=noise, monotone=monotone, gap=gap, relation=relation
            )

        total, best = check_candidates(candidates, optimal)
        if 2 * exact_probability(beta, "beta") >= total - best:
            raise InputError("beta", "is so large that any epsilon will do; state epsilon itself")
        start = make(1).scale * (total - best).bit_length()
        return make(calibrate_epsilon(lambda epsilon: make(epsilon).error(beta, candidates, optimal), within, start))

    @property
    def event(self) -> PureEvent:
        """Event of one release, for accountants: ε-DP and nothing finer."""
        return PureEvent(self.epsilon, "noisy_max", relation=self.relation)

    @property
    def zcdp(self) -> ZCDP:
        """ε²/2-zCDP, as implied by ε-DP."""
        return self.guarantee.to_zcdp()

    @property
    def noise(self) -> str:
        """``"laplace"`` or ``"exponential"``."""
        return self._noise

    @property
    def gap(self) -> bool:
        """Whether the margin is released as well."""
        return self._gap

    def release(self, scores: ScoreList, candidates: Sequence[Any] | None = None) -> Any:
        """Return the winner: an index, a member of ``candidates``, or a key; with ``gap=True`` a :class:`Winner`."""
        read = self._read(scores, candidates, additive=True)
        if self._gap and len(read.gaps) < 2:
            raise InputError("scores", "must be of at least two candidates for a margin")
        scale = self._scale_in_steps(read)
        if scale > LARGEST_SCALE:
            raise InputError("epsilon", "is too small for this sensitivity: the noise would not fit 64 bits")
        noisy = _draw(self._noise, scale, len(read.gaps))
        noisy -= read.gaps
        winner = int(np.argmax(noisy))  # the first of the largest: ties go to the lower index
        if not self._gap:
            return read.label(winner)
        margin = _margin(noisy, winner) * read.step
        return Winner(read.label(winner), float(margin) if read.rounded else int(margin))

    def error(self, beta: Number, candidates: SupportsIndex, optimal: SupportsIndex = 1) -> float:
        """Return the distance below the best score that the choice exceeds with probability at most ``beta``.

        It is the larger of two bounds, one for whole scores and one for scores on the public grid.

        Args:
            beta: the probability that the bound may fail.
            candidates: number of candidates.
            optimal: number of candidates that are known to share the best score.
        """
        total, best = check_candidates(candidates, optimal)
        if total == best:
            return 0.0
        allowed = exact_probability(beta, "beta") / (total - best)
        step = self._grid.step
        whole = _steps_lost(self._noise, self.scale, allowed)
        rounded = _steps_lost(self._noise, self._scale_of(self.sensitivity + step) / step, allowed)
        return float_up(max(Fraction(whole), (rounded + 1) * step))


def _draw(noise: str, scale: Fraction, count: int) -> NDArray[np.int64]:
    sampler = _sampler(noise, scale)
    if noise == "laplace" or isinstance(sampler, Geometric):
        return sampler.sample_many(count)
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < count:
        drawn = sampler.sample_many(2 * (count - len(kept)) + 16)
        kept = np.concatenate((kept, drawn[drawn >= 0]))
    return kept[:count]


@lru_cache(maxsize=64)
def _sampler(noise: str, scale: Fraction) -> DiscreteLaplace | Geometric:
    """Return the sampler; for geometric noise of a large scale, discrete Laplace, whose part from 0 on is geometric."""
    if noise == "exponential" and scale <= LARGEST_FAST_SCALE:
        return Geometric(1 / scale)
    return DiscreteLaplace(scale)


def _margin(noisy: NDArray[np.int64], winner: int) -> int:
    """Return the margin of ``winner`` in steps; its score must exceed, not only equal, that of a lower index."""
    rivals = [int(noisy[:winner].max()) + 1] if winner else []
    if winner + 1 < len(noisy):
        rivals.append(int(noisy[winner + 1 :].max()))
    return int(noisy[winner]) - max(rivals)


def _steps_lost(noise: str, scale: Fraction, allowed: Fraction) -> int:
    """Return the smallest n for which P(X - Y >= n + 1) <= ``allowed``, for two independent noises X and Y."""
    high = max(1, math.ceil(scale))
    while _beats(noise, scale, high) > allowed:
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if _beats(noise, scale, middle) > allowed:
            low = middle
        else:
            high = middle
    return high - 1


def _beats(noise: str, scale: Fraction, by: int) -> Fraction:
    """Return P(X - Y >= ``by``), rounded up, for independent noises X and Y and ``by`` >= 1.

    With q = e^(-1/scale): q^by/(1+q) for geometric noise, and for discrete Laplace
    q^by/(1+q)² · ((1+q²)/(1+q) + by·(1-q) + q).
    """
    low, high = exp_bounds(-1 / scale, 60)
    power = exp_bounds(-by / scale)[1]
    if noise == "exponential":
        return power / (1 + low)
    return power / (1 + low) ** 2 * ((1 + high**2) / (1 + low) + by * (1 - low) + high)
