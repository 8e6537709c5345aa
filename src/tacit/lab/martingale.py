"""Proof of advanced composition in numbers: loss martingale, Azuma's inequality, set of bad views.

The privacy loss of a view v is L(v) = ln(P(v)/Q(v)) = Σ L_i, a sum over rounds. Given what was seen before, the loss of
a round by an ε-DP mechanism is at most ε in size and at most β = ε(e^ε - 1) in expectation; in the tight form
β = ε(e^ε - 1)/(e^ε + 1). So L less its drift is a martingale with bounded steps, and Azuma's inequality says

    Pr[L > kβ + z·√k·ε] <= e^(-z²/2).

With z = √(2 ln(1/δ')) the right side is δ', and the left side the probability of the set of bad views. Nothing is
assumed of the adversary beyond what each round promises, so adaptive ones are included.

>>> print(azuma(steps=[1] * 100, above=20))
0.1353352832
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from tacit.core.divergences import Enclosure, kl_bound, kl_divergence
from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import Number, check_count, exact_nonnegative, exp_bounds, log_bounds, sqrt_bounds
from tacit.lab.experiment import CompositionExperiment, Move, Views, as_turn, table_rows


def azuma(*, steps: Iterable[Number] | None = None, ranges: Iterable[Number] | None = None, above: Number) -> Enclosure:
    """The most that Pr[S >= t] can be for a martingale S: exp(-t²/(2Σc_i²)) by steps, exp(-2t²/Σr_i²) by ranges.

    Args:
        steps: c_1, …, c_k: the i-th step is at most c_i in size.
        ranges: instead of them r_1, …, r_k: the i-th step lies in an interval of length r_i, wherever that lies.
        above: t, how far the sum exceeds its start.

    >>> print(azuma(ranges=[2] * 100, above=20))
    0.1353352832
    """
    if (steps is None) == (ranges is None):
        raise InputError("steps", "state either steps or ranges, not both and not neither")
    squares = sum((exact_nonnegative(step, "steps") ** 2 for step in steps or ()), Fraction(0))
    squares += sum((exact_nonnegative(length, "ranges") ** 2 for length in ranges or ()), Fraction(0)) / 4
    t = exact_nonnegative(above, "above")
    if squares == 0:
        sure = Fraction(int(t == 0))
        return Enclosure(sure, sure)
    return Enclosure(*exp_bounds(-(t * t) / (2 * squares)))


def loss_threshold(
    *, rounds: int, z: Number, epsilon: Number | None = None, ratio: Number | None = None, tight: bool = False
) -> Enclosure:
    """kβ + z·√k·ε: the loss that k rounds exceed with probability at most e^(-z²/2).

    ``tight`` takes β = ε(e^ε - 1)/(e^ε + 1) instead of the lemma's ε(e^ε - 1).

    >>> print(loss_threshold(rounds=100, z="5.2565", epsilon="0.1"))
    6.308209181
    """
    k, width = check_count(rounds, "rounds", minimum=0), exact_nonnegative(z, "z")
    drift = kl_bound(epsilon=epsilon, ratio=ratio, tight=tight)
    if epsilon is not None:
        size = Enclosure(exact_nonnegative(epsilon, "epsilon"), exact_nonnegative(epsilon, "epsilon"))
    else:
        size = Enclosure(*log_bounds(exact_nonnegative(ratio or 0, "ratio")))
    low, high = sqrt_bounds(Fraction(k))
    return Enclosure(k * drift.low + width * low * size.low, k * drift.high + width * high * size.high)


@dataclass(frozen=True)
class AzumaPoint:
    """One z: the threshold, the exact probability of a larger loss, and what Azuma's inequality allows."""

    z: Fraction
    threshold: Enclosure
    probability: Enclosure
    bound: Enclosure

    @property
    def holds(self) -> bool:
        """Whether the exact probability is proven to be within the bound."""
        return self.probability.high <= self.bound.high

    def __str__(self) -> str:
        return (
            f"z = {float(self.z):g}: Pr[loss > {self.threshold.up:.4f}] = {self.probability.up:.3e} "
            f"<= e^(-z²/2) = {self.bound.up:.3e}"
        )


def azuma_points(views: Views, zs: Iterable[Number], *, tight: bool = False) -> tuple[AzumaPoint, ...]:
    """For each z, the exact probability that the loss of the views exceeds kβ + z√k·ε, beside e^(-z²/2).

    k is how many mechanisms the views hold, ε that of the worst mechanism used; the tight drift can be asked for.
    """
    step = views.step_ratio
    if not step.is_exact:
        raise AccountingError("the mechanisms have no exact e^ε; give them by a rational ratio")
    points = []
    for value in zs:
        z = exact_nonnegative(value, "z")
        threshold = loss_threshold(rounds=views.releases, z=z, ratio=Fraction(step.high), tight=tight)
        # A bound on the larger set: the lower end of the threshold.
        found = views.bad_views(epsilon=max(Fraction(threshold.low), Fraction(0)))
        points.append(AzumaPoint(z, threshold, found, Enclosure(*exp_bounds(-z * z / 2))))
    return tuple(points)


class LossStep(NamedTuple):
    """One round of a run: what came out, its privacy loss, what was to be expected, and the sums so far.

    ``martingale`` is the sum of losses less the sum of expected losses; it is as likely to rise as to fall, in the
    sense that its expectation after the next round is what it is now.
    """

    output: Any
    loss: float
    expected: float
    total: float
    martingale: float


def loss_path(experiment: CompositionExperiment, view: Sequence[Any]) -> list[LossStep]:
    """The privacy loss round by round of a ``view`` that the experiment showed, for finite mechanisms.

    The loss of a round is ln(P/Q) of its output, for b = 0 against b = 1; its expectation given the past, under b = 0,
    is the KL divergence of the two laws.
    """
    adversary, outputs = experiment.adversary, list(view)
    if adversary.coins() is None:
        state = adversary.start()
    else:
        if not outputs:
            raise InputError("view", "must begin with the adversary's coins")
        state = adversary.start_with(outputs.pop(0))
    steps: list[LossStep] = []
    total = martingale = 0.0
    for output in outputs:
        turn = adversary.choose(state)
        if turn is None:
            raise InputError("view", "goes on after the adversary has stopped")
        moves = as_turn(turn)
        parts = (output,) if isinstance(turn, Move) else tuple(output)
        loss = expected = 0.0
        for move, part in zip(moves, parts, strict=True):
            rows = {seen: (p, q) for seen, p, q in table_rows(move)}
            if part not in rows:
                raise InputError("view", "holds an output that the mechanism cannot give")
            p, q = rows[part]
            loss += _log(p, q)
            expected += kl_divergence({o: a for o, (a, _) in rows.items()}, {o: b for o, (_, b) in rows.items()}).up
        total += loss
        martingale += loss - expected
        steps.append(LossStep(output, loss, expected, total, martingale))
        state = adversary.observe(state, output)
    return steps


def _log(p: Fraction, q: Fraction) -> float:
    if p == 0 or q == 0:
        return float("inf") if q == 0 else float("-inf")
    low, high = log_bounds(p / q)
    return float((low + high) / 2)
