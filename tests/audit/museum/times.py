"""Bugs of time and failure: one person's rows decide when an answer leaves, or whether there is one."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from audit.museum.exhibit import Piece
from tacit.audit.exact import ExactLoss, exact
from tacit.core.divergences import Distribution
from tacit.core.guarantees import PureDP

#: ln 3 is a little less than this.
_LOG3 = Fraction(10987, 10000)
_RATIO = Fraction(1, 3)
#: Slots after which a query is ready, by whether a person's rows pass its condition.
_READY = {0: 1, 1: 5}
#: Units of work from the running time to the departure.
_EDGE = 1
#: Probability that a run fails, by whether a person is there.
_FAILS = {0: Fraction(1, 4), 1: Fraction(3, 4)}
_TRIES = 3


def _leaves(*, decided: bool) -> ExactLoss:
    """Slot at which an answer leaves: the first of 1, 2, 4, 8 at which it is ready; or after 8, as decided.

    Decided before, only whether it was ready can be seen, compared with noise of the scale that one person can change.
    """
    if not decided:
        slot = {bit: next(each for each in (1, 2, 4, 8) if each >= ready) for bit, ready in _READY.items()}
        return exact({bit: {slot[bit]: Fraction(1)} for bit in (0, 1)}, claimed=PureDP(_LOG3))
    # The person changes the running time by one unit of work, and the noise is geometric with ratio 1/3 a unit.
    table: dict[int, Distribution] = {}
    for bit in (0, 1):
        late = _tail(_EDGE - bit)
        table[bit] = {"on time": 1 - late, "late": late}
    return exact(table, claimed=PureDP(_LOG3))


def _tail(least: int) -> Fraction:
    """P(X >= least) for P(X = k) proportional to ratio^|k|."""
    if least <= 0:
        return 1 - _tail(1 - least)
    return _RATIO**least / (1 + _RATIO)


def _failures(*, stays: bool) -> ExactLoss:
    """Privacy loss under one charge of a query that fails more often if a person is there."""
    seen = 1 if stays else _TRIES
    table: dict[int, Distribution] = {}
    for bit, fails in _FAILS.items():
        law: dict[tuple[bool, ...], Fraction] = {}
        for story in product((True, False), repeat=seen):
            law[story] = Fraction(1)
            for failed in story:
                law[story] *= fails if failed else 1 - fails
        table[bit] = law
    return exact(table, claimed=PureDP(_LOG3))


PIECES = (
    Piece(
        name="first-free-slot",
        title="an answer that leaves in the first slot in which it is ready",
        story="Answers left after 1, 2, 4, 8 … slots, so that only the number of doublings could be seen. A query "
        "could multiply one person's rows by lists of its own behind a condition on that person, and choose the "
        "doubling by whether they exist: one exact bit a query, for any epsilon. Now the text decides when an "
        "answer leaves, work for one person is bounded, and whether the answer was ready is compared with noise.",
        seen_in="an earlier version of this project",
        tool="exact",
        flawed=lambda: _leaves(decided=False),
        mended=lambda: _leaves(decided=True),
    ),
    Piece(
        name="failure-asked-again",
        title="a failed query that is run again for nothing",
        story="A query that failed was charged and could be asked again under the same charge, as often as wanted. "
        "Whether it fails can depend on a person, with chance in it: memory that others use, time that runs out. One "
        "charge then paid for many looks at that. Now the failure is the outcome of the charge.",
        seen_in="an earlier version of this project",
        tool="exact",
        flawed=lambda: _failures(stays=False),
        mended=lambda: _failures(stays=True),
    ),
)
