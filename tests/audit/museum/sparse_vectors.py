"""Exhibits: published variants of the sparse vector technique that are not private."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from audit.museum.exhibit import Piece
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.replay import ReplayReport, replay
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.noise.laplace import DiscreteLaplace

#: Answers move by up to this between neighbours; discrete noise is fine enough for it.
_STEP = 4
_HALF = 20
_ONCE, _QUARTER, _REST = (DiscreteLaplace(Fraction(scale)) for scale in (_STEP, 4 * _STEP, Fraction(4 * _STEP, 3)))


def no_noise_on_queries(answers: Sequence[int]) -> list[bool]:
    """ε = 1: only the threshold has noise, once."""
    threshold = _ONCE.sample()
    return [answer >= threshold for answer in answers]


def noise_for_one_yes(answers: Sequence[int]) -> list[bool]:
    """ε = 1 for up to 40 yes-answers, with the noise that one of them needs."""
    threshold = _QUARTER.sample()
    noise = _REST.sample_many(len(answers))
    return [answer + int(each) >= threshold for answer, each in zip(answers, noise, strict=True)]


def values_shown_raw(answers: Sequence[int]) -> list[int | None]:
    """ε = 1: a right sparse vector says which values may pass, and then they pass as they are."""
    stream = SparseVector(epsilon=1, sensitivity=_STEP, threshold=-1000)
    return [answer if stream.ask(answer) else None for answer in answers]


def values_with_noise(answers: Sequence[int]) -> list[Any]:
    """Corrected: values have noise of their own."""
    stream = SparseVector(epsilon=1, sensitivity=_STEP, threshold=-1000, epsilon_values="1/2")
    return [stream.ask_value(answer) for answer in answers]


def right(positives: int) -> Callable[[Sequence[int]], list[bool]]:
    """Tacit's own, padded to one length."""

    def ask(answers: Sequence[int]) -> list[bool]:
        stream = SparseVector(epsilon=1, sensitivity=_STEP, threshold=0, positives=positives)
        given = stream.release(answers)
        return given + [False] * (len(answers) - len(given))

    return ask


def _short(function: Callable[[Sequence[int]], list[bool]], samples: int = 3_000) -> LowerBound:
    return lower_bound(function, [0, _STEP], [_STEP, 0], claimed=1, samples=samples, confidence=0.999)


def _long(function: Callable[[Sequence[int]], list[bool]], samples: int = 2_000) -> LowerBound:
    first = [_STEP] * _HALF + [0] * _HALF
    return lower_bound(function, first, first[::-1], claimed=1, samples=samples, confidence=0.999)


def _shown(function: Callable[[Sequence[int]], list[Any]]) -> list[ReplayReport]:
    return [replay(function, [10], [10 + _STEP])]


PIECES = (
    Piece(
        name="sparse-vector-no-noise",
        title="sparse vector without noise on the queries",
        story="The threshold's noise seemed to hide everything. But it is one number: with it fixed, two "
        "queries that move in opposite directions have answers that are impossible on one of the "
        "neighbours.",
        seen_in="Stoddard and others 2014, Chen and others 2015 (see Lyu, Su and Li 2017)",
        tool="lower_bound",
        flawed=lambda: _short(no_noise_on_queries),
        mended=lambda: _short(right(1), 600),
    ),
    Piece(
        name="sparse-vector-unscaled",
        title="sparse vector with the noise of one yes for many",
        story="Each yes-answer gives something away, so their noise has to grow with how many are allowed. The "
        "factor was lost between two versions of a proof.",
        seen_in="Lee and Clifton 2014 (see Lyu, Su and Li 2017)",
        tool="lower_bound",
        flawed=lambda: _long(noise_for_one_yes),
        mended=lambda: _long(right(2 * _HALF), 300),
    ),
    Piece(
        name="sparse-vector-raw-values",
        title="sparse vector that lets raw values pass",
        story="It was used as a filter: what it found to be large was sent on, without noise. That the choice "
        "was private says nothing about what was chosen.",
        seen_in="NVFlare#343",
        tool="replay",
        flawed=lambda: _shown(values_shown_raw),
        mended=lambda: _shown(values_with_noise),
    ),
)
