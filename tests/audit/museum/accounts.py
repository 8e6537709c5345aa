"""Exhibits: accounting bugs, where the mechanism is right and its stated price is not."""

from __future__ import annotations

import math
from fractions import Fraction

from audit.museum.exhibit import Piece
from tacit.audit.exact import ExactLoss, exact
from tacit.core.divergences import Distribution
from tacit.core.guarantees import ZCDP, ApproxDP
from tacit.mechanisms.permute_and_flip import PermuteAndFlip

_ROUNDS = 200
_DELTA = "1e-6"
#: e^ε of one round is 11/10.
_TRUTH = Fraction(11, 21)
_EPSILON = math.log(1.1)


def _reports(truth: Fraction) -> Distribution:
    """Law of the number of yes among 200 randomized responses, which is all that matters of them."""
    return {j: math.comb(_ROUNDS, j) * truth**j * (1 - truth) ** (_ROUNDS - j) for j in range(_ROUNDS + 1)}


def composed(*, logarithm: bool) -> float:
    """ε of 200 rounds by the theorem of Kairouz, Oh and Viswanath, or what is left of it without its logarithm."""
    inner = math.e + math.sqrt(_ROUNDS * _EPSILON**2) / float(_DELTA)
    drift = _ROUNDS * _EPSILON * math.tanh(_EPSILON / 2)
    spread = _EPSILON * math.sqrt(2 * _ROUNDS * (math.log(inner) if logarithm else inner))
    return min(_ROUNDS * _EPSILON, drift + spread)


def _composition(*, logarithm: bool) -> ExactLoss:
    table = {0: _reports(1 - _TRUTH), 1: _reports(_TRUTH)}
    return exact(table, claimed=ApproxDP(composed(logarithm=logarithm), _DELTA))


def _noisy_max(rho: Fraction) -> ExactLoss:
    """Permute-and-flip, which is noisy max with exponential noise, at ε = 2 on two candidates."""
    mechanism = PermuteAndFlip(epsilon=2, sensitivity=1)
    scores = [(1, 1), (0, 2), (2, 0), (0, 1), (1, 0)]
    table = {each: dict(enumerate(mechanism.probability_bounds(list(each)))) for each in scores}
    near = [
        (a, b) for a in scores for b in scores if a != b and max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 1
    ]
    return exact(table, pairs=near, claimed=ZCDP(rho))


PIECES = (
    Piece(
        name="noisy-max-quarter",
        title="noisy max at a quarter of its zCDP cost",
        story="The proof was of the exponential mechanism, whose zCDP cost is ε²/8. The code ran noisy max with "
        "exponential noise, which has the same ε and costs ε²/2. Both proofs are right; they are about "
        "different code.",
        seen_in="opendp#2911",
        tool="exact",
        flawed=lambda: _noisy_max(Fraction(1, 2)),
        mended=lambda: _noisy_max(Fraction(2)),
    ),
    Piece(
        name="composition-without-log",
        title="a composition theorem without its logarithm",
        story="A logarithm was lost when the theorem was typed in. The bound is then far too large, so nothing "
        "leaks and no privacy test fails; but a budget is used up several times too early.",
        seen_in="smartnoise-sdk#621",
        tool="exact",
        flawed=lambda: _composition(logarithm=False),
        mended=lambda: _composition(logarithm=True),
        wasteful=1.5,
    ),
)
