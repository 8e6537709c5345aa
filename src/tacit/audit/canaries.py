"""One-run audit of training by canaries, each included by an independent coin.

``m`` examples are made before training; each is included with probability 1/2, independently. Afterwards a reader of
the model guesses for some of them whether they were in, abstaining on the rest. If training is ε-DP with respect to
one example, each guess is right with probability at most e^ε/(1 + e^ε), whatever the guesses before it were. So the
number of right guesses among ``r`` is at most Binomial(r, e^ε/(1 + e^ε)), and a larger one refutes ε. One run is
enough, because the canaries are independent trials within it.

With δ > 0 the number of right guesses may exceed that by a random excess of mean at most ``2 m δ``. The largest
increase of the tail probability by such an excess is found by giving it to the outcomes where it moves most mass over
the line.

References: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, theorems 3.1 and
5.2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import InputError
from tacit.core.float_functions import binomial_masses, binomial_tail
from tacit.core.numbers import Number, check_count, exact_probability
from tacit.noise import entropy

_PRECISION: Final = 1e-4
_LARGEST: Final = 30.0


@dataclass(frozen=True, slots=True)
class CanaryAudit:
    """Result of a canary audit: guesses from one run, and the bound that follows.

    Args:
        epsilon: lower bound on the ε of training at ``delta``, with ``confidence``.
        delta: δ of the bound.
        confidence: probability that the bound is true.
        canaries: number of canaries.
        guesses: number of canaries on which a guess was made.
        right: number of right guesses.
        claimed: the ε under test, if one was given.
    """

    epsilon: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    right: int
    claimed: float | None = None

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, at the confidence stated."""
        return self.claimed is not None and self.epsilon > self.claimed

    def to_json(self) -> str:
        """Return the result as JSON text; keys are stable."""
        content = {
            "epsilon_at_least": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "claimed_epsilon": self.claimed,
            "violated": self.violated,
            "canaries": self.canaries,
            "guesses": self.guesses,
            "right": self.right,
        }
        return json.dumps(content, indent=2)

    def __str__(self) -> str:
        found = (
            f"epsilon is at least {self.epsilon:.3f} at delta {self.delta:g} ({100 * self.confidence:g}% sure): "
            f"{self.right} of {self.guesses} guesses about {self.canaries} canaries were right."
        )
        if self.claimed is None:
            return found
        return f"{'REFUTED' if self.violated else 'not refuted'}: {found} Claimed: epsilon {self.claimed:.3f}."


def flip_inclusion_coins(canaries: int) -> NDArray[np.bool_]:
    """Decide by a fair coin for each canary whether it is put into the training data."""
    count = check_count(canaries, "canaries")
    bits = entropy.current().bits(count)
    return np.array([bits >> i & 1 for i in range(count)], dtype=bool)


def guess_by_score(scores: ArrayLike, guesses: int) -> NDArray[np.int8]:
    """Guess "in" (1) for the highest scores and "out" (-1) for the lowest, half of the guesses each; 0 abstains."""
    values = np.asarray(scores, dtype=np.float64)
    half = check_count(guesses, "guesses") // 2
    if not 0 < half <= len(values) // 2:
        raise InputError("guesses", f"must lie between 2 and the number of canaries, {len(values)}")
    order = np.argsort(values, kind="stable")
    made = np.zeros(len(values), dtype=np.int8)
    made[order[-half:]], made[order[:half]] = 1, -1
    return made


def audit_canaries(
    included: Sequence[bool] | NDArray[np.bool_],
    guesses: ArrayLike,
    *,
    delta: Number = 0,
    claimed: Number | None = None,
    confidence: float = 0.95,
) -> CanaryAudit:
    """Return a lower bound on the ε of training, from one run.

    Args:
        included: the inclusion coins, from :func:`flip_inclusion_coins`.
        guesses: 1, -1 or 0 for each canary, made without looking at the coins (:func:`guess_by_score`).
        delta: δ of the claim under test.
        claimed: ε of the claim under test.
        confidence: probability that the bound is true. The number of guesses must be fixed before looking at the coins.
    """
    coins, made = np.asarray(included, dtype=bool), np.asarray(guesses)
    if coins.shape != made.shape or coins.ndim != 1:
        raise InputError("guesses", f"must have one entry per canary: {coins.shape} coins, {made.shape} guesses")
    slack = float(exact_probability(delta, "delta", zero=True))
    total, right = int((made != 0).sum()), int(((made > 0) & coins).sum() + ((made < 0) & ~coins).sum())
    epsilon = _refuted(len(coins), total, right, slack, 1 - confidence)
    stated = None if claimed is None else float(claimed)
    return CanaryAudit(epsilon, slack, confidence, len(coins), total, right, stated)


def _refuted(canaries: int, guesses: int, right: int, delta: float, beta: float) -> float:
    """Return the largest ε at which ``right`` or more right guesses have probability at most ``beta``."""

    def surprising(epsilon: float) -> bool:
        return _chance(canaries, guesses, right, epsilon, delta) <= beta

    if not guesses or not surprising(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    if surprising(high):
        return high
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if surprising(middle) else (low, middle)
    return low


def _chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return a bound on the probability of ``right`` or more right guesses, for an (ε, δ)-DP run."""
    each = 1 / (1 + np.exp(-epsilon))
    enough = float(binomial_tail(right, guesses, each))
    if delta == 0 or right == 0:
        return enough
    # An excess of i uses i of the mean per unit of probability, and lifts all mass on right-i … right-1 over the line.
    missing = np.arange(1, right + 1)
    lifted: Any = np.cumsum(binomial_masses(right - missing, guesses, each))
    return min(1.0, enough + 2 * canaries * delta * float(np.max(lifted / missing)))
