"""Output and objective perturbation: certificates against exact gradients, densities on neighbours, replay."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from learn.replay import record
from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, ComposedEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent
from tacit.core.guarantees import PureDP
from tacit.learn import LinearSVC, LogisticRegression
from tacit.learn import minimiser as minimising
from tacit.learn.gradient import GradientTable
from tacit.learn.integer_rows import UNIT
from tacit.learn.losses import SmoothHinge, SmoothLogistic, SmoothLoss, SmoothSoftmax
from tacit.learn.minimiser import (
    GAP,
    RESOLUTION,
    ObjectiveRelease,
    OutputRelease,
    Problem,
    laplace_sensitivity,
    moved_steps,
    objective_gives_at_most,
)


def some_table(loss: SmoothLoss, rows: int, columns: int, seed: int = 0) -> GradientTable:
    made = np.random.default_rng(seed)
    X = made.normal(size=(rows, columns))
    X = np.trunc(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9) * (UNIT - 1))
    if isinstance(loss, SmoothSoftmax):
        targets = made.integers(0, loss.outputs, size=(rows, 1))
    elif isinstance(loss, SmoothHinge):
        targets = made.choice([-1, 1], size=(rows, loss.outputs))
    else:
        targets = (X[:, :1] + 3000 * made.normal(size=(rows, 1)) > 0).astype(np.int64)
    return GradientTable(X, targets.astype(np.int64))


LOSSES = [SmoothLogistic(1), SmoothSoftmax(3), SmoothHinge(1), SmoothHinge(3)]


def exact_gradient_norm(problem: Problem, weights: np.ndarray) -> mpmath.mpf:
    """‖∇F‖ with forty digits, straight from the formulas."""
    with mpmath.workdps(40):
        k = problem.loss.outputs
        total = [
            [mpmath.mpf(float(problem.tilt[j, c])) + mpmath.mpf(float(weights[j, c])) * _mpf(problem.regularization)
             for c in range(k)]
            for j in range(len(weights))
        ]  # fmt: skip
        for row, target in zip(problem.table.rows, problem.table.targets, strict=True):
            x = [mpmath.mpf(int(value)) / UNIT for value in row]
            z = [mpmath.fsum(x[j] * mpmath.mpf(float(weights[j, c])) for j in range(len(x))) for c in range(k)]
            if isinstance(problem.loss, SmoothSoftmax):
                powers = [mpmath.exp(one) for one in z]
                r = [power / mpmath.fsum(powers) - (c == target[0]) for c, power in enumerate(powers)]
            elif isinstance(problem.loss, SmoothHinge):
                r = [
                    -int(t) * min(max(mpmath.mpf("1.5") - int(t) * one, 0), 1) for t, one in zip(target, z, strict=True)
                ]
            else:
                r = [1 / (1 + mpmath.exp(-z[0])) - int(target[0])]
            for j in range(len(x)):
                for c in range(k):
                    total[j][c] += r[c] * x[j]
        size = mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(one)) ** 2 for one in weights.ravel()))
        if size > minimising.RADIUS:
            for j in range(len(weights)):
                for c in range(k):
                    share = (size - minimising.RADIUS) ** 3 / size * minimising.STIFFNESS
                    total[j][c] += share * mpmath.mpf(float(weights[j, c]))
        return mpmath.sqrt(mpmath.fsum(one**2 for line in total for one in line))


def _mpf(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{type(loss).__name__}{loss.outputs}")
@pytest.mark.parametrize("regularization", ["1/64", "1", "50"])
def test_the_certificate_is_true(loss: SmoothLoss, regularization: str) -> None:
    table = some_table(loss, 40, 4)
    tilt = np.random.default_rng(1).normal(size=(4, loss.outputs))
    problem = Problem(loss, table, Fraction(regularization), tilt)
    assert exact_gradient_norm(problem, problem.minimise()) <= _mpf(GAP)
    assert exact_gradient_norm(problem, np.zeros((4, loss.outputs))) > 100 * _mpf(GAP)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{type(loss).__name__}{loss.outputs}")
def test_computed_gradients_are_right_far_beyond_the_certificate(loss: SmoothLoss) -> None:
    """The proof allows 2⁻¹³ for 2³⁰ rows, so a few rows must be right to much more."""
    table = some_table(loss, 12, 3, seed=4)
    problem = Problem(loss, table, Fraction(1), np.zeros((3, loss.outputs)))
    weights = minimising.on_fine_grid(np.random.default_rng(2).normal(size=(3, loss.outputs)) * 3)
    found = float(np.linalg.norm(problem._gradient(table.rows, table.targets, weights)[0]))
    assert abs(found - float(exact_gradient_norm(problem, weights))) < 12 * 2.0**-43
    # Classes whose logits are large and nearly equal: only their differences may be rounded.
    far = minimising.on_fine_grid(weights / 64 + 400)
    found = float(np.linalg.norm(problem._gradient(table.rows, table.targets, far)[0]))
    assert abs(found - float(exact_gradient_norm(problem, far))) < 12 * 2.0**-38


def repeated(rows: int, step: int = 1) -> GradientTable:
    """One row many times, so short that a hinge wants weights beyond any ball."""
    return GradientTable(np.full((rows, 1), float(step)), np.ones((rows, 1), dtype=np.int64))


def repeated_gradient(problem: Problem, weight: float, rows: int, step: int = 1) -> Fraction:
    """∇F of that table exactly: one product, the penalty, and the rows times one slope."""
    w, x = Fraction(weight), Fraction(step, UNIT)
    slope = -min(max(Fraction(3, 2) - w * x, Fraction(0)), Fraction(1))
    outside = Fraction(minimising.STIFFNESS) * max(abs(w) - minimising.RADIUS, 0) ** 3 * (1 if w > 0 else -1)
    return rows * slope * x + problem.regularization * w + outside + Fraction(float(problem.tilt[0, 0]))


@pytest.mark.deep
def test_a_long_minimiser_does_not_raise() -> None:
    """From 2²⁰ rows on the minimiser of Σℓ + ½Λ‖w‖² lies beyond 2¹²; the penalty keeps it, certified."""
    rows = (1 << 20) + 1
    problem = Problem(SmoothHinge(1), repeated(rows), Fraction(1, 64), np.zeros((1, 1)))
    found = float(problem.minimise()[0, 0])
    assert abs(repeated_gradient(problem, found, rows)) <= GAP
    assert minimising.RADIUS / 2 < found < 2 * minimising.RADIUS


@pytest.mark.deep
def test_many_rows_do_not_raise() -> None:
    """Rows in pairs of opposite targets, so that zero is the minimiser and one look at them is enough."""
    rows = (1 << 22) + 6
    table = repeated(rows, UNIT // 2)
    table.targets[::2] = -1
    assert not Problem(SmoothHinge(1), table, Fraction(1, 64), np.zeros((1, 1))).minimise().any()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{type(loss).__name__}{loss.outputs}")
@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
def test_a_tilt_of_any_size_raises_nothing(loss: SmoothLoss, size: float) -> None:
    table = some_table(loss, 20, 3)
    tilt = np.random.default_rng(1).normal(size=(3, loss.outputs)) * size
    problem = Problem(loss, table, Fraction(1, 64), tilt)
    found = problem.minimise()
    assert float(np.linalg.norm(found)) < 2 * minimising.RADIUS
    assert exact_gradient_norm(problem, found) <= _mpf(GAP)


def test_a_solver_that_stops_early_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error would be a fact about the rows; the best point found is at most as far off as its gradient says."""
    loss = SmoothLogistic(1)
    problem = Problem(loss, some_table(loss, 40, 4), Fraction(1), np.zeros((4, 1)))
    monkeypatch.setattr(minimising, "_ROUNDS", 1)
    early = exact_gradient_norm(problem, problem.minimise())
    assert early < exact_gradient_norm(problem, np.zeros((4, 1)))


def test_slopes_along_a_line_find_what_newton_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """With steps that never shorten the gradient by themselves, the search along the line still gets there."""
    loss = SmoothHinge(1)
    problem = Problem(loss, some_table(loss, 40, 4), Fraction(1), np.zeros((4, 1)))
    monkeypatch.setattr(Problem, "_shortened", lambda *_: None)
    assert exact_gradient_norm(problem, problem.minimise()) <= _mpf(GAP)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{type(loss).__name__}{loss.outputs}")
@pytest.mark.parametrize("regularization", ["1/8", "4"])
def test_the_minimiser_moves_by_no_more_than_declared(loss: SmoothLoss, regularization: str) -> None:
    release = OutputRelease(loss, Fraction(regularization))
    dimension = 3 * loss.outputs
    most = 0.0
    for seed in range(6):
        table = some_table(loss, 5, 3, seed)
        whole = release.raw_steps(Problem(loss, table, release.regularization, np.zeros((3, loss.outputs))))
        for gone in range(5):
            kept = np.arange(5) != gone
            fewer = GradientTable(table.rows[kept], table.targets[kept])
            less = release.raw_steps(Problem(loss, fewer, release.regularization, np.zeros((3, loss.outputs))))
            gap = (whole - less).ravel()
            assert int(gap @ gap) <= moved_steps(dimension) ** 2
            assert int(np.abs(gap).sum()) <= laplace_sensitivity(dimension, release_relation())
            most = max(most, float(gap @ gap) ** 0.5 / moved_steps(dimension))
    assert most > 0.1


def release_relation() -> Any:
    from tacit.core.relations import ADD_REMOVE

    return ADD_REMOVE


def test_the_bound_on_the_minimiser_is_nearly_attained() -> None:
    """An empty table against one row with slope one all the way: the minimiser moves by L/Λ, all that is declared."""
    loss, release = SmoothHinge(1), OutputRelease(SmoothHinge(1), Fraction(4))
    row = GradientTable(np.array([[float(UNIT)]]), np.array([[1]]))
    empty = GradientTable(row.rows[:0], row.targets[:0])
    moved = [release.raw_steps(Problem(loss, table, Fraction(4), np.zeros((1, 1)))) for table in (row, empty)]
    assert 0.999 * RESOLUTION < abs(int(moved[0][0, 0] - moved[1][0, 0])) <= moved_steps(1)


def test_output_densities_on_neighbours() -> None:
    """In one dimension the largest loss is the true shift over the scale: within ε, and with half the scale not."""
    loss, regularization = SmoothHinge(1), Fraction(4)
    release = OutputRelease(loss, regularization)
    row = GradientTable(np.array([[float(UNIT)]]), np.array([[1]]))
    empty = GradientTable(row.rows[:0], row.targets[:0])
    shift = abs(
        int(
            release.raw_steps(Problem(loss, row, regularization, np.zeros((1, 1))))[0, 0]
            - release.raw_steps(Problem(loss, empty, regularization, np.zeros((1, 1))))[0, 0]
        )
    )
    fit = LogisticRegression(epsilon=1, delta="1e-3", bounds=(0, 1), classes=[0, 1], method="output").price(0)
    assert isinstance(fit.event, DiscreteLaplaceEvent)
    assert fit.guarantee == PureDP(1)
    assert shift / fit.event.scale <= 1 < shift / (fit.event.scale / 2)


def objective_delta(
    loss: SmoothLoss, rows: np.ndarray, targets: np.ndarray, sigma: float, regularization: float, epsilon: float
) -> float:
    """δ(ε) between the densities of the perturbed minimiser with all rows and without the last, on a grid."""
    d = rows.shape[1]
    reach = (8 * sigma + len(rows)) / regularization
    points = np.linspace(-reach, reach, 400_001 if d == 1 else 601)
    thetas = points[:, None] if d == 1 else np.stack(np.meshgrid(points, points), axis=-1).reshape(-1, 2)

    def density(count: int) -> np.ndarray:
        b = -regularization * thetas
        hessian = np.zeros((len(thetas), d, d)) + regularization * np.eye(d)
        for x, target in zip(rows[:count], targets[:count], strict=True):
            z = thetas @ x
            t = np.full((len(z), 1), target)
            b -= loss.residuals(z[:, None], t) * x
            hessian += loss.curve(z[:, None], t, np.ones((len(z), 1)))[:, :, None] * np.outer(x, x)
        determinant = hessian[:, 0, 0] if d == 1 else np.linalg.det(hessian)
        return np.exp(-(b**2).sum(axis=1) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi)) ** d * determinant

    cell = (points[1] - points[0]) ** d
    more, fewer = density(len(rows)), density(len(rows) - 1)
    assert abs(more.sum() * cell - 1) < (1e-3 if d == 1 else 5e-3), (
        "the densities must be densities, or nothing was tested"
    )
    gaps = [np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell for p, q in ((more, fewer), (fewer, more))]
    return float(max(gaps))


CASES = {
    "one": (np.array([[1.0]]), [1]),
    "agreeing": (np.array([[1.0], [1.0], [1.0]]), [1, 1, 1]),
    "torn": (np.array([[1.0], [-1.0], [1.0]]), [1, 1, -1]),
    "plane": (np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]), [1, -1, 1]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", [SmoothLogistic(1), SmoothHinge(1)], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(("epsilon", "regularization"), [("1", "2"), ("2", "8"), ("0.5", "10")])
def test_objective_densities_on_neighbours(loss: SmoothLoss, case: str, epsilon: str, regularization: str) -> None:
    rows, labels = CASES[case]
    targets = np.array(labels) if isinstance(loss, SmoothHinge) else (np.array(labels) + 1) // 2
    delta, e = Fraction(1, 100), Fraction(epsilon)
    release = ObjectiveRelease(loss, Fraction(regularization), e, delta, rows.shape[1])
    first = release.event.events[0]
    assert isinstance(first, ApproxEvent)
    found = objective_delta(loss, rows, targets, float(release.sigma), float(regularization), float(first.epsilon))
    assert found <= float(first.delta)


def test_an_objective_with_too_little_noise_is_caught() -> None:
    """The test of the test: a third of the noise breaks the claim on the very same densities."""
    loss = SmoothHinge(1)
    rows, labels = CASES["one"]
    release = ObjectiveRelease(loss, Fraction(8), Fraction(2), Fraction(1, 100), 1)
    assert objective_delta(loss, rows, np.array(labels), float(release.sigma) / 3, 8.0, 1.9) > 0.01


def test_the_account_of_an_objective() -> None:
    """2·δ_N(ε - ln(1 + β/Λ)) against the formula evaluated by mpmath, and what is refused."""
    sigma, volume, epsilon = Fraction(4), Fraction(1, 20), Fraction(1)
    with mpmath.workdps(30):
        mu, left = mpmath.mpf(1) / 4, mpmath.mpf(1) - mpmath.log(mpmath.mpf(21) / 20)
        curve = mpmath.ncdf(mu / 2 - left / mu) - mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
        truth = Fraction(str(2 * curve))
    assert objective_gives_at_most(epsilon, truth * Fraction(10001, 10000), sigma=sigma, volume=volume, dimension=5)
    assert not objective_gives_at_most(epsilon, truth * Fraction(9999, 10000), sigma=sigma, volume=volume, dimension=5)
    assert not objective_gives_at_most(Fraction(1, 25), Fraction(1, 2), sigma=sigma, volume=volume, dimension=5)
    with pytest.raises(InputError, match="regularization"):
        _ = ObjectiveRelease(SmoothLogistic(1), Fraction(1, 64), Fraction(1), Fraction(1, 10**6), 5).sigma
    with pytest.raises(InputError, match="several outputs"):
        ObjectiveRelease(SmoothSoftmax(3), Fraction(1), Fraction(1), Fraction(1, 10**6), 5)


def toy(rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(8)
    X = made.normal(size=(rows, 4))
    return X, (X[:, 0] + 0.3 * made.normal(size=rows) > 0).astype(int)


@pytest.mark.parametrize("model", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.usefixtures("seeded")
def test_replay_of_minimisers(monkeypatch: pytest.MonkeyPatch, model: Any, method: str) -> None:
    """Frozen outputs, neighbouring inputs: the same calls; the minimiser moves by no more than the event says."""
    X, y = toy()
    settings = {"epsilon": 2, "delta": "1e-3", "bounds": (-2, 2), "classes": [0, 1], "method": method}
    for value in (1e6, np.nan, -np.inf):
        outlier, labels = np.vstack([X, np.full((1, 4), value)]), np.append(y, 0)
        first, second = model(**settings), model(**settings)
        one = record(monkeypatch, lambda first=first, outlier=outlier, labels=labels: first.fit(outlier, labels))
        two = record(monkeypatch, lambda second=second: second.fit(X, y), frozen=one)
        assert one.noise == two.noise
        assert first.event_ == second.event_
        assert (first.coef_ == second.coef_).all()
        events = list(first.event_.events) if isinstance(first.event_, ComposedEvent) else [first.event_]
        assert len(events) == len(one.raw)
        for event, before, after in zip(events, one.raw, two.raw, strict=True):
            gap = (before - after).ravel()
            if isinstance(event, DiscreteLaplaceEvent):
                assert int(np.abs(gap).sum()) <= event.l1_sensitivity
            elif isinstance(event, DiscreteGaussianEvent):
                if method == "objective":
                    # Here it is not the minimisers that are alike but how far the solver ends from them.
                    continue
                assert int(gap @ gap) <= event.l2_squared
            else:
                assert not gap.any()


@pytest.mark.usefixtures("seeded")
def test_pure_epsilon_without_delta() -> None:
    X, y = toy(400)
    fitted = LogisticRegression(epsilon=4, bounds=(-3, 3), classes=[0, 1]).fit(X, y)
    assert fitted.guarantee_ == PureDP(4)
    assert isinstance(fitted.event_, DiscreteLaplaceEvent)
    assert fitted.event_.l1_sensitivity / fitted.event_.scale == 4
    assert fitted.score(X, y) > 0.8
    with pytest.raises(InputError, match="delta"):
        LogisticRegression(epsilon=4, bounds=(-3, 3), classes=[0, 1], method="gradient").fit(X, y)


@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.usefixtures("seeded")
def test_accuracy_follows_epsilon(method: str) -> None:
    X, y = toy(600)
    scores = []
    for epsilon in ("0.05", "0.5", 5):
        fits = [
            LogisticRegression(epsilon=epsilon, delta="1e-4", bounds=(-3, 3), classes=[0, 1], method=method).fit(X, y)
            for _ in range(8)
        ]
        scores.append(float(np.mean([fit.score(X, y) for fit in fits])))
    assert scores == sorted(scores)
    assert scores[2] > 0.85


@pytest.mark.usefixtures("seeded")
def test_replacing_a_row_is_removing_and_adding() -> None:
    """(ε₁, δ₁) for each of the two gives (2ε₁, (1 + e^ε₁)·δ₁) for both, which is what was asked for."""
    from tacit.core.relations import REPLACE_ONE

    X, y = toy()
    fitted = LogisticRegression(
        epsilon=2, delta="1e-3", bounds=(-2, 2), classes=[0, 1], method="objective", relation="replace_one"
    ).fit(X, y)
    assert fitted.guarantee_.relation is REPLACE_ONE
    assert fitted.event_ == ApproxEvent(Fraction(2), Fraction(1, 1000), "objective_perturbation", relation=REPLACE_ONE)
    half = Fraction(1, 1000) / (1 + Fraction("2.7182818284590453"))
    release = ObjectiveRelease(SmoothLogistic(1), Fraction(8), Fraction(1), half, 5)
    # The noise of the fit is that of half the ε, not of all of it.
    shown = str(fitted.privacy_report())
    default = ObjectiveRelease(SmoothLogistic(1), Fraction(8), Fraction(2), Fraction(1, 1000), 5)
    noise = float(shown.split("noise ")[1].split(" ")[0])
    assert noise > 1.5 * float(default.sigma)
    assert noise == pytest.approx(float(release.sigma), rel=0.3)


def test_sums_beyond_an_int64_are_cut_and_not_wrapped() -> None:
    from tacit.learn.integer_rows import exact_product

    rows = np.full((6, 1), float(1 << 31))
    assert exact_product(rows, np.full((6, 1), float(1 << 21)), 1 << 61).tolist() == [[6 << 52]]
    huge = np.full((600, 1), float(1 << 31)), np.full((600, 1), float(1 << 31))
    for sign in (1, -1):
        assert exact_product(huge[0], sign * huge[1], 1 << 62).tolist() == [[sign << 62]]


def test_refusals() -> None:
    X, y = toy()
    settings: dict[str, Any] = {"epsilon": 1, "delta": "1e-3", "bounds": (-2, 2), "classes": [0, 1]}
    with pytest.raises(InputError, match="several outputs"):
        LogisticRegression(**(settings | {"classes": [0, 1, 2]}), method="objective").fit(X, y)
    with pytest.raises(InputError, match="epsilon"):
        ObjectiveRelease(SmoothLogistic(1), Fraction(1 << 20), Fraction(1, 10**6), Fraction(1, 10**9), 1 << 20)
    with pytest.raises(InputError, match="regularization"):
        LogisticRegression(**settings, method="output", regularization="1e-3").fit(X, y)
