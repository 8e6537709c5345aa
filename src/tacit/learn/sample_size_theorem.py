"""Sample-size theorem of private gradient descent, beside the measured planner.

*Theorem.* Noisy gradient descent on n rows, with a convex loss whose gradients have length at most 1 and weights in a
ball of radius 1, is (ε, δ)-DP and its excess loss is at most α once

    n > c·√(d·ln(1/δ))/(ε·α²),

where d is the number of columns. Lectures leave the constant c out, so :func:`rows_by_theorem` takes c = 1 and says
so. It is a worst case over all data, and α is an excess *loss*. :func:`~tacit.learn.sample_size.rows_needed` speaks of
well-behaved data and of an excess *error rate*, with constants that were measured; :func:`plan_learning` shows both.

>>> print(plan_learning(excess="0.05", epsilon=1, delta="1e-6", dimensions=20))
excess 0.05 at epsilon 1, delta 1e-06, 20 columns:
  theorem   6,650 rows   √(d·ln(1/δ))/(ε·α²) with constant 1; α is excess loss, any data
  measured    612 rows   0.75·(d/(μn))^1.5 + 0.35·d/n, measured; α is excess error rate, well-behaved data
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.core.cautions import cautions
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    format_up,
    log_bounds,
    sqrt_bounds,
)
from tacit.learn.sample_size import PRIVACY_CONSTANT, SAMPLING_CONSTANT, rows_needed


@dataclass(frozen=True)
class LearningPlan:
    """Number of rows that a private linear classifier needs, by the theorem and as measured."""

    excess: Fraction
    epsilon: Fraction
    delta: Fraction
    dimensions: int
    theorem: int
    measured: int

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences about an epsilon or delta that protects little; usually none."""
        return cautions(epsilon=self.epsilon, delta=self.delta, people=self.measured)

    def rows(self) -> list[tuple[str, str, str]]:
        """Which planner, its number of rows, and the constant it uses."""
        return [
            ("theorem", f"{self.theorem:,}", "√(d·ln(1/δ))/(ε·α²) with constant 1; α is excess loss, any data"),
            (
                "measured",
                f"{self.measured:,}",
                (
                    f"{PRIVACY_CONSTANT}·(d/(μn))^1.5 + {SAMPLING_CONSTANT}·d/n, measured; "
                    "α is excess error rate, well-behaved data"
                ),
            ),
        ]

    def __str__(self) -> str:
        head = (
            f"excess {format_up(self.excess)} at epsilon {format_up(self.epsilon)}, delta {format_up(self.delta)}, "
            f"{self.dimensions} columns:"
        )
        wide = max(len(number) for _, number, _ in self.rows())
        return "\n".join(
            [head, *(f"  {name:<8} {number:>{wide + 1}} rows   {how}" for name, number, how in self.rows())]
        )


def rows_by_theorem(*, excess: Number, epsilon: Number, delta: Number, dimensions: int) -> int:
    """The smallest n above √(d·ln(1/δ))/(ε·α²), with α = ``excess`` and the constant 1.

    >>> rows_by_theorem(excess="0.1", epsilon=1, delta="1e-6", dimensions=10)
    1176
    """
    alpha, price = exact_probability(excess, "excess"), exact_positive(epsilon, "epsilon")
    columns = check_count(dimensions, "dimensions")
    spread = -columns * log_bounds(exact_probability(delta, "delta"))[0]
    return math.floor(sqrt_bounds(spread)[1] / (price * alpha**2)) + 1


def plan_learning(*, excess: Number, epsilon: Number, delta: Number, dimensions: int) -> LearningPlan:
    """Both answers to how many rows are needed; each says which constant it uses."""
    return LearningPlan(
        exact_probability(excess, "excess"),
        exact_positive(epsilon, "epsilon"),
        exact_probability(delta, "delta"),
        check_count(dimensions, "dimensions"),
        rows_by_theorem(excess=excess, epsilon=epsilon, delta=delta, dimensions=dimensions),
        rows_needed(excess=excess, epsilon=epsilon, delta=delta, dimensions=dimensions),
    )
