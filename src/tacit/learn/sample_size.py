"""Sample size of private models: theorem's shape with measured constants.

For a linear classifier of d columns trained on n rows with the account of a μ-Gaussian mechanism, the error rate on
fresh rows exceeds that of the best linear classifier by about

    excess ≈ P·c·√v·(d/(μn))^(3/2) + S·v·d/n,    v = 4r(1 - r),    c = (1 - ρ)^(-2/5),

where r is the share of the rarer class (½ if not stated) and ρ the correlation of nearly redundant columns (0 if not
stated). The second term is the cost of sampling, the first that of privacy. Their form is from theory: noisy gradients
find a direction up to an angle of order d/(μn), and near the best direction the error rate grows with a power of the
angle between one (no label noise) and two (much label noise); worst-case bounds of the excess *loss*, √d/(μn) for a
solution of constant norm, are of the same order for rows of norm one, whose solutions have norm √d. Errors occur near
the decision boundary alone. If one class is rare, few rows lie there, in proportion to the variance r(1 - r) of a
label, and the sampling term is proportional to it; these rows also determine the boundary less well, so the privacy
term shrinks with the root only. Columns of correlation ρ leave 1 - ρ of their variance to their differences, which the
noise of whitening hides first.

P, S and the powers of v and c were measured, with :class:`~tacit.learn.linear.LogisticRegression` and its defaults
(``docs/learning.md`` has the figures). The measure is the error rate, because plans are made for it. The excess log
loss depends neither on r nor on the boundary, but says little about decisions.

Sample-size theorem of private gradient descent, for comparison with the measured planner.

*Theorem.* Noisy gradient descent on n rows, with a convex loss whose gradients have length at most 1 and weights in a
ball of radius 1, is (ε, δ)-DP and its excess loss is at most α once

    n > c·√(d·ln(1/δ))/(ε·α²),

where d is the number of columns. Lectures leave the constant c out, so :func:`rows_by_theorem` takes c = 1 and states
it. It is a worst case over all data, and α is an excess *loss*. :func:`~tacit.learn.sample_size.rows_needed` is for
well-behaved data and an excess *error rate*, with measured constants; :func:`plan_learning` shows both.

>>> print(plan_learning(excess="0.05", epsilon=1, delta="1e-6", dimensions=20))
excess 0.05 at epsilon 1, delta 1e-06, 20 columns:
  theorem   6,650 rows   √(d·ln(1/δ))/(ε·α²) with constant 1; α is excess loss, any data
  measured    612 rows   0.75·(d/(μn))^1.5 + 0.35·d/n, measured; α is excess error rate, well-behaved data
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.accounting.gaussian import log_gaussian_delta
from tacit.core.cautions import cautions
from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    float_nearest,
    format_up,
    log_bounds,
    sqrt_bounds,
)
from tacit.learn.release import check_privacy

#: Measured constants, rounded up.
PRIVACY_CONSTANT: Final = 0.75
SAMPLING_CONSTANT: Final = 0.35
#: Exponent of 1/(1 - ρ) in the privacy term.
_ALIKE: Final = 0.4
_MOST_ROWS: Final = 10**15


def expected_excess(
    *,
    rows: int,
    epsilon: Number,
    delta: Number | None = None,
    dimensions: int,
    rarest: Number = "0.5",
    correlation: Number = 0,
) -> float:
    """Estimate the excess error rate of a private linear classifier of two classes over the best linear classifier.

    >>> round(expected_excess(rows=10_000, epsilon=1, delta="1e-6", dimensions=20), 3)
    0.001
    >>> plan = dict(rows=1000, epsilon="0.3", delta="1e-6", dimensions=6)
    >>> expected_excess(**plan, rarest="0.05") < expected_excess(**plan) < expected_excess(**plan, correlation="0.9")
    True

    By measurement (``benchmarks/learn.py --only plans``, ε from 0.3 to 10, 1,000 and 4,000 rows) it holds within a
    factor of three for columns of numbers, normal, uniform or skewed, and, where they are stated, for a rarer class of
    5 % and a correlation of 0.9, with ``LogisticRegression``. The constants were fitted to these tables. Of a class of
    1 % nothing is left to lose with few rows: the plan is a bound there.

    No number of rows and columns can tell two things, so there the plan is off by more. Where all columns are yes or
    no, rows lie on few points: once the line passes between the right ones nothing is left to lose, which depends on
    how near the nearest point is. With 4,000 rows the truth was a tenth of the plan or less; take it as a bound. And
    ``LinearSVC`` with a rare class: the line of least hinge loss is then often the common class itself, with many rows
    as with few, so it errs as often as the rare class occurs.

    Args:
        rows: how many rows it is trained on.
        epsilon: of the fit.
        delta: of the fit; one over ten times the rows if left out.
        dimensions: how many columns.
        rarest: the share of the rarer class among the rows, as it is publicly known.
        correlation: the correlation of columns that say nearly the same, as it is publicly known.
    """
    given = _Facts.read(epsilon, delta, dimensions, rarest, correlation)
    return given.excess(check_count(rows, "rows"))


def rows_needed(
    *,
    excess: Number,
    epsilon: Number,
    delta: Number | None = None,
    dimensions: int,
    rarest: Number = "0.5",
    correlation: Number = 0,
) -> int:
    """Estimate the number of rows with which a private linear classifier of two classes has this excess error rate.

    >>> 1000 < rows_needed(excess="0.01", epsilon=1, delta="1e-6", dimensions=20) < 2500
    True

    A plan, not a promise: the constants are measured on well-behaved data, and hold where those of
    :func:`expected_excess` do. The guarantee holds for any number of rows.

    Args:
        excess: the additional error rate that is acceptable, such as ``"0.01"``.
        epsilon: of the fit.
        delta: of the fit; one over ten times the rows if left out.
        dimensions: how many columns.
        rarest: the share of the rarer class among the rows, as it is publicly known.
        correlation: the correlation of columns that say nearly the same, as it is publicly known.
    """
    target = float_nearest(exact_probability(excess, "excess"))
    given = _Facts.read(epsilon, delta, dimensions, rarest, correlation)
    low, high = 0, 1
    while given.excess(high) > target:
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            raise AccountingError("no realistic number of rows is enough; allow a larger epsilon or a larger excess")
    while high - low > max(low // 1000, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if given.excess(middle) > target else (low, middle)
    return high


@dataclass(frozen=True)
class _Facts:
    """Checked public parameters of a plan."""

    epsilon: Fraction
    delta: Fraction | None
    columns: int
    rarest: float
    correlation: float

    @classmethod
    def read(
        cls, epsilon: Number, delta: Number | None, dimensions: int, rarest: Number, correlation: Number
    ) -> _Facts:
        columns = check_count(dimensions, "dimensions")
        share, alike = exact_probability(rarest, "rarest"), exact_probability(correlation, "correlation", zero=True)
        if share > Fraction(1, 2):
            raise InputError("rarest", "must be at most 0.5: it is the share of the rarer class")
        return cls(*check_privacy(epsilon, delta), columns, float_nearest(share), float_nearest(alike))

    def excess(self, rows: int) -> float:
        """Return the excess error rate by the formula, at most the share of the rarer class."""
        mu = _mu_estimate(float_nearest(self.epsilon), float_nearest(self.delta or Fraction(1, 10 * rows)))
        near = 4 * self.rarest * (1 - self.rarest)
        privacy: float = PRIVACY_CONSTANT * math.sqrt(near) * (self.columns / (mu * rows)) ** 1.5
        privacy *= (1 - self.correlation) ** -_ALIKE
        return min(privacy + SAMPLING_CONSTANT * near * self.columns / rows, self.rarest)


def _mu_estimate(epsilon: float, delta: float) -> float:
    """Return the μ whose Gaussian privacy curve passes through (ε, δ), in floats: for plans, not for guarantees."""
    low, high = 1e-12, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if log_gaussian_delta(epsilon, middle) < math.log(delta) else (low, middle)
    return low


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
        """Sentences about an epsilon or delta that protects little, if any."""
        return cautions(epsilon=self.epsilon, delta=self.delta, people=self.measured)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return, by planner, its name, its number of rows, and its formula with constants, as text."""
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
    """Return the smallest n above √(d·ln(1/δ))/(ε·α²), with α = ``excess`` and the constant 1.

    >>> rows_by_theorem(excess="0.1", epsilon=1, delta="1e-6", dimensions=10)
    1176
    """
    alpha, price = exact_probability(excess, "excess"), exact_positive(epsilon, "epsilon")
    columns = check_count(dimensions, "dimensions")
    spread = -columns * log_bounds(exact_probability(delta, "delta"))[0]
    return math.floor(sqrt_bounds(spread)[1] / (price * alpha**2)) + 1


def plan_learning(*, excess: Number, epsilon: Number, delta: Number, dimensions: int) -> LearningPlan:
    """Return the numbers of rows needed by the theorem and by the measured formula."""
    return LearningPlan(
        exact_probability(excess, "excess"),
        exact_positive(epsilon, "epsilon"),
        exact_probability(delta, "delta"),
        check_count(dimensions, "dimensions"),
        rows_by_theorem(excess=excess, epsilon=epsilon, delta=delta, dimensions=dimensions),
        rows_needed(excess=excess, epsilon=epsilon, delta=delta, dimensions=dimensions),
    )
