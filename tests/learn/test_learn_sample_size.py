"""The planner: its shape, and that a fit with the planned rows errs about as planned."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.core.errors import AccountingError, InputError
from tacit.learn import LogisticRegression, expected_excess, rows_needed
from tacit.learn.sample_size import _mu_estimate


def test_more_of_anything_good_needs_fewer_rows() -> None:
    base = rows_needed(excess="0.01", epsilon=1, delta="1e-6", dimensions=20)
    assert rows_needed(excess="0.02", epsilon=1, delta="1e-6", dimensions=20) < base
    assert rows_needed(excess="0.01", epsilon=2, delta="1e-6", dimensions=20) < base
    assert rows_needed(excess="0.01", epsilon=1, delta="1e-3", dimensions=20) < base
    assert rows_needed(excess="0.01", epsilon=1, delta="1e-6", dimensions=10) < base
    assert rows_needed(excess="0.01", epsilon=1, dimensions=20) < base


def test_the_plan_inverts_the_estimate() -> None:
    for epsilon in ("0.1", 1, 10):
        rows = rows_needed(excess="0.03", epsilon=epsilon, dimensions=15)
        assert expected_excess(rows=rows, epsilon=epsilon, dimensions=15) <= 0.03
        assert expected_excess(rows=rows * 9 // 10, epsilon=epsilon, dimensions=15) > 0.03
    assert expected_excess(rows=1, epsilon=1, dimensions=15) == 0.5


def test_mu_is_that_of_the_analytic_gaussian() -> None:
    """σ = 4.22467888932683528 at (1, 1e-6): Balle and Wang's equation, solved with mpmath at 40 digits."""
    assert abs(1 / _mu_estimate(1.0, 1e-6) - 4.22467888932683528) < 1e-9


def test_refusals() -> None:
    with pytest.raises(InputError, match="excess"):
        rows_needed(excess=2, epsilon=1, dimensions=3)
    with pytest.raises(InputError, match="dimensions"):
        rows_needed(excess="0.1", epsilon=1, dimensions=0)
    with pytest.raises(AccountingError, match="rows"):
        rows_needed(excess="1e-9", epsilon="1e-6", delta="1e-9", dimensions=10**6)


def test_a_rare_class_has_less_to_lose_and_columns_that_say_the_same_need_more_rows() -> None:
    plan = {"rows": 1000, "epsilon": "0.3", "delta": "1e-6", "dimensions": 6}
    usual = expected_excess(**plan)
    assert expected_excess(**plan, rarest="0.5", correlation=0) == usual
    assert usual / 4 < expected_excess(**plan, rarest="0.05") < usual / 2
    assert 2 * usual < expected_excess(**plan, correlation="0.9") < 3 * usual
    assert expected_excess(rows=1, epsilon=1, dimensions=15, rarest="0.01") == 0.01
    asked = {"excess": "0.01", "epsilon": 1, "delta": "1e-6", "dimensions": 20}
    assert rows_needed(**asked, rarest="0.1") < rows_needed(**asked) < rows_needed(**asked, correlation="0.8")
    for wrong in ({"rarest": "0.6"}, {"rarest": 0}, {"correlation": 1}, {"correlation": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            expected_excess(**plan, **wrong)


@pytest.mark.usefixtures("seeded")
def test_a_fit_with_the_planned_rows_errs_about_as_planned() -> None:
    """Within a factor of two and a half of the plan, and a tenth of the rows misses it by far."""
    made = np.random.default_rng(12)
    columns, planned = 12, 0.02
    rows = rows_needed(excess=planned, epsilon=1, delta="1e-6", dimensions=columns)

    def excess(count: int) -> float:
        found = []
        for _ in range(12):
            direction = made.normal(size=columns)
            direction /= np.linalg.norm(direction)
            X = made.normal(size=(count + 20_000, columns))
            scores = X @ direction
            y = (made.random(len(X)) < 1 / (1 + np.exp(-3 * scores))).astype(int)
            fitted = LogisticRegression(epsilon=1, delta="1e-6", bounds=(-4, 4), classes=[0, 1]).fit(
                X[:count], y[:count]
            )
            found.append(((scores[count:] > 0) == y[count:]).mean() - fitted.score(X[count:], y[count:]))
        return float(np.mean(found))

    assert planned / 2.5 < excess(rows) < planned * 2.5
    assert excess(rows // 10) > 3 * planned
