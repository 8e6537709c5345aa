"""Sample size of private models: theorem's shape with measured constants.

For a linear classifier of d columns trained on n rows with the account of a μ-Gaussian mechanism, the error rate on
fresh rows exceeds that of the best linear classifier by about

    excess ≈ P·(d/(μn))^(3/2) + S·d/n.

The second term is the price of learning at all, the first that of privacy. Theory has the form: noisy gradients find a
direction up to an angle of order d/(μn), and near the best direction the error rate grows with a power of the angle
between one (no noise in the labels) and two (much); worst-case bounds of the excess *loss*, √d/(μn) for a solution of
constant length, are of the same order for rows of length one, whose solutions are √d long. P and S were measured, with
:class:`~tacit.learn.logistic.LogisticRegression` and its defaults on normal features and logistic labels that the best
classifier gets wrong for about one row in six (``docs/learning.md`` has the figures).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from tacit.accounting.gaussian import log_gaussian_delta
from tacit.core.errors import AccountingError
from tacit.core.numbers import Number, check_count, exact_probability, float_nearest
from tacit.learn.budget_allocation import check_privacy

#: Measured constants, rounded up.
PRIVACY_CONSTANT: Final = 0.75
SAMPLING_CONSTANT: Final = 0.35
#: No classifier is worse than a coin by much, so no excess is larger.
_WORST: Final = 0.5
_MOST_ROWS: Final = 10**15


def expected_excess(*, rows: int, epsilon: Number, delta: Number | None = None, dimensions: int) -> float:
    """About how much more often a private linear classifier of two classes errs than the best one.

    >>> round(expected_excess(rows=10_000, epsilon=1, delta="1e-6", dimensions=20), 3)
    0.001

    By measurement (``benchmarks/learn.py --only plans``, ε from 0.3 to 10, 1,000 and 4,000 rows) it holds within a
    factor of three for columns of numbers, normal, uniform or skewed, with classes of similar size. It is too small
    where columns say nearly the same and noise rules: the truth was up to four times as large at ε = 0.3 and 1,000
    rows. It is too large where all columns are yes or no, because few rows then lie near the line, and for a rare
    class: a classifier that falls back to the common class errs no more often than the rare one occurs.

    Args:
        rows: how many rows it is trained on.
        epsilon: of the fit.
        delta: of the fit; one over ten times the rows if left out.
        dimensions: how many columns.
    """
    return _excess(check_count(rows, "rows"), epsilon, delta, check_count(dimensions, "dimensions"))


def rows_needed(*, excess: Number, epsilon: Number, delta: Number | None = None, dimensions: int) -> int:
    """About how many rows a private linear classifier of two classes needs to err at most ``excess`` above the best.

    >>> 1000 < rows_needed(excess="0.01", epsilon=1, delta="1e-6", dimensions=20) < 2500
    True

    A plan, not a promise: the constants are measured on well-behaved data, and hold where those of
    :func:`expected_excess` do. Fewer rows do for classes that are further apart or where one is rare; four times as
    many may be needed for strongly correlated columns below ε = 3. The guarantee holds for any number of rows.

    Args:
        excess: the additional error rate that is acceptable, such as ``"0.01"``.
        epsilon: of the fit.
        delta: of the fit; one over ten times the rows if left out.
        dimensions: how many columns.
    """
    target = float_nearest(exact_probability(excess, "excess"))
    columns = check_count(dimensions, "dimensions")
    low, high = 0, 1
    while _excess(high, epsilon, delta, columns) > target:
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            raise AccountingError("no realistic number of rows is enough; allow a larger epsilon or a larger excess")
    while high - low > max(low // 1000, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if _excess(middle, epsilon, delta, columns) > target else (low, middle)
    return high


def _excess(rows: int, epsilon: Number, delta: Number | None, columns: int) -> float:
    target, stated = check_privacy(epsilon, delta)
    mu = _mu_estimate(float_nearest(target), float_nearest(stated or Fraction(1, 10 * rows)))
    privacy: float = PRIVACY_CONSTANT * (columns / (mu * rows)) ** 1.5
    return min(privacy + SAMPLING_CONSTANT * columns / rows, _WORST)


def _mu_estimate(epsilon: float, delta: float) -> float:
    """The μ whose Gaussian curve goes through (ε, δ), in floats: this is a plan, nothing is claimed."""
    low, high = 1e-12, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if log_gaussian_delta(epsilon, middle) < math.log(delta) else (low, middle)
    return low
