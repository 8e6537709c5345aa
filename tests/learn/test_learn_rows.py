"""Integer rows: the bounds hold exactly, and a row's image depends on that row alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.core.errors import InputError
from tacit.learn.integer_rows import FINE, UNIT, Box, ceil_sqrt, exact_product, scale_rows, square_norms
from tacit.learn.losses import GRID, WHOLE, HuberHinge, Logistic, Softmax, Squared, clip_residuals
from tacit.learn.whitening import BIAS, LONGEST_ROW, AffineMap, RowMap, Survey, shrink_to_noise

FLOATS = st.floats(width=64, allow_nan=True, allow_infinity=True)
TABLES = st.integers(1, 6).flatmap(lambda d: arrays(np.float64, (4, d), elements=FLOATS))
INTEGERS = st.integers(1, 6).flatmap(lambda d: arrays(np.int64, (5, d), elements=st.integers(-FINE, FINE)))


@given(TABLES, st.booleans(), st.booleans())
def test_no_row_is_longer_than_a_unit_whatever_it_holds(values: np.ndarray, normalize: bool, ball: bool) -> None:
    box = Box.read(None, 3) if ball else Box.read((-2, 5), None)
    rows = RowMap(box, normalize)(values)
    whole = rows.astype(np.int64)
    assert (whole == rows).all()
    assert (square_norms(whole) <= UNIT * UNIT).all()
    assert (whole[:, -1] == BIAS).all()


@given(INTEGERS, st.integers(0, 1000), st.floats(1e-9, 1e9), st.floats(1e-3, 1e4))
def test_affine_rows_are_the_exact_floor_and_bounded(steps: np.ndarray, seed: int, size: float, radius: float) -> None:
    """Whatever the public numbers: the product is that of Python's integers, and no row exceeds its norm."""
    made, columns = np.random.default_rng(seed), steps.shape[1]
    affine = AffineMap.of(made.uniform(-2, 2, columns), made.normal(size=(columns, columns)) * size, radius)
    rows = affine(steps).astype(np.int64)
    assert (square_norms(rows) <= (LONGEST_ROW * UNIT) ** 2).all()
    assert (rows[:, -1] == affine.constant).all()
    exact = [
        [sum(int(m) * (int(x) - int(c)) for m, x, c in zip(line, row, affine.center, strict=True)) >> affine.shift
         for line in affine.matrix] for row in steps
    ]  # fmt: skip
    clipped = np.clip(np.array(exact, dtype=object), -(1 << 20), 1 << 20).astype(np.int64)
    assert (rows[:, :-1] == scale_rows(clipped, affine.longest, smallest=affine.longest)).all()


def test_weights_of_mapped_rows_are_weights_of_values() -> None:
    made = np.random.default_rng(4)
    affine = AffineMap.of(made.uniform(-0.5, 0.5, 3), made.normal(size=(3, 3)), 20.0)
    steps, weights = made.integers(-FINE, FINE, size=(50, 3)), made.normal(size=(4, 2))
    slopes, constants = affine.unmapped(weights)
    assert np.abs(affine(steps) / UNIT @ weights - (steps / FINE @ slopes + constants)).max() < 1e-3


@given(INTEGERS, st.integers(1, 1 << 14), st.integers(0, 1 << 20))
def test_scaling_never_exceeds_the_norm(rows: np.ndarray, norm: int, smallest: int) -> None:
    scaled = scale_rows(rows, norm, smallest=smallest)
    assert (square_norms(scaled) <= norm * norm).all()
    assert (np.sign(scaled) * np.sign(rows) >= 0).all()


def test_rounding_to_nearest_would_exceed_it() -> None:
    """The reason to round towards zero: three equal coordinates of 1/√3, rounded to nearest, are too long."""
    row = np.array([[577, 577, 577]], dtype=np.int64)
    nearest = np.rint(row * 15 / np.sqrt(3 * 577**2)).astype(np.int64)
    assert square_norms(nearest)[0] > 15 * 15
    assert square_norms(scale_rows(row, 15))[0] <= 15 * 15


@given(st.lists(st.integers(0, 1 << 62), min_size=1))
def test_roots_are_exact(values: list[int]) -> None:
    for value, root in zip(values, ceil_sqrt(np.array(values, dtype=np.int64)).tolist(), strict=True):
        assert root * root >= value
        assert root == 0 or (root - 1) * (root - 1) < value


def test_roots_next_to_squares() -> None:
    roots = np.array([1, 2, 3, 1000, (1 << 26) + 1, (1 << 31) - 1], dtype=np.int64)
    assert (ceil_sqrt(roots * roots) == roots).all()
    assert (ceil_sqrt(roots * roots + 1) == roots + 1).all()
    assert (ceil_sqrt(roots * roots - 1) == np.where(roots == 1, 0, roots)).all()


def test_what_is_not_a_number_is_the_midpoint_and_what_is_outside_is_clipped() -> None:
    box = Box.read([(0, 10), (-1, 1)], None)
    steps = box.to_steps(np.array([[np.nan, np.inf], [1e308, -1e308], [-np.inf, np.nan], [5.0, 0.0]]))
    assert steps.tolist() == [[0, 0], [FINE, -FINE], [0, 0], [0, 0]]


def test_a_row_does_not_depend_on_other_rows_nor_on_layout() -> None:
    values = np.random.default_rng(5).normal(size=(37, 11)) * 3
    box, made = Box.read((-4, 4), None), np.random.default_rng(6)
    affine = AffineMap.of(made.uniform(-1, 1, 11), made.normal(size=(11, 11)), 3.0)

    def row_map(values: np.ndarray) -> np.ndarray:
        return affine(box.to_steps(values))

    together = row_map(values)
    other = values.copy()
    other[1:] = np.nan
    assert (row_map(other)[0] == together[0]).all()
    assert (row_map(np.asfortranarray(values)) == together).all()
    assert (row_map(values[::-1])[::-1] == together).all()
    for i in range(len(values)):
        assert (row_map(values[i : i + 1])[0] == together[i]).all()


@pytest.mark.parametrize("loss", [Logistic(), Softmax(), HuberHinge(), Squared()], ids=lambda loss: type(loss).__name__)
def test_residuals_are_the_derivatives_to_the_grid(loss: object) -> None:
    logits = np.random.default_rng(6).normal(size=(200, 3)) * 4
    places = np.floor(logits * GRID).astype(np.int64)
    z = places / GRID
    if isinstance(loss, Logistic):
        targets = (np.arange(200) % 2)[:, None]
        places, expected = places[:, :1], 1 / (1 + np.exp(-z[:, :1])) - targets
    elif isinstance(loss, Softmax):
        targets = (np.arange(200) % 3)[:, None]
        weights = np.exp(z)
        expected = weights / weights.sum(axis=1, keepdims=True) - np.eye(3)[targets[:, 0]]
    elif isinstance(loss, HuberHinge):
        targets = np.where(np.eye(3)[np.arange(200) % 3] > 0, 1, -1)
        expected = -targets * np.clip(1.5 - targets * z, 0, 1)
    else:
        targets = np.full((200, 1), 3 * GRID)
        places, expected = places[:, :1], z[:, :1] - 3
    found = loss.residuals(places, targets.astype(np.int64))  # type: ignore[attr-defined]
    assert np.abs(found / WHOLE - expected).max() <= 1.001 / WHOLE


@given(arrays(np.int64, (6, 4), elements=st.integers(-2 * WHOLE, 2 * WHOLE)), st.integers(1, 2 * WHOLE))
def test_clipped_residuals_are_short_and_short_ones_untouched(residuals: np.ndarray, norm: int) -> None:
    clipped = clip_residuals(residuals, np.full(6, norm))
    assert (square_norms(clipped) <= norm * norm).all()
    short = square_norms(residuals) <= norm * norm
    assert (clipped[short] == residuals[short]).all()


def test_exact_product_is_exact_where_floats_would_round() -> None:
    left = np.full((500, 1), float((1 << 26) - 1))
    right = np.full((500, 1), float((1 << 26) + 3))
    exact = 500 * ((1 << 26) - 1) * ((1 << 26) + 3)
    assert exact_product(left, right, 1 << 52)[0, 0] == exact
    assert exact > 1 << 53


def test_survey_moves_by_one_row_and_no_more() -> None:
    values = np.random.default_rng(7).normal(size=(50, 4)) * 5
    values[0] = [1e6, -1e6, np.nan, np.inf]
    box = Box.read((-1, 1), None)
    for rows in (None, 50):
        survey = Survey(4, False, rows)
        steps = box.to_steps(values)
        for gone in range(50):
            moved = survey.raw_sums(steps) - survey.raw_sums(np.delete(steps, gone, axis=0))
            phase = survey.phase(Fraction(1))
            assert 0 < int(moved @ moved) <= phase.l2_squared
            assert len(moved) == phase.dimension


@pytest.mark.parametrize(
    ("bounds", "norm", "word"),
    [
        (None, None, "bounds"),
        ((0, 1), 2, "bounds"),
        ((2, 1), None, "lower"),
        ("ab", None, "pair"),
        ([], None, "pair"),
        ([(0, 1), (1,)], None, "pair"),
        (None, 0, "data_norm"),
        ((0, "1e300"), None, "ordinary size"),
        ((0, "1e-200"), None, "ordinary size"),
        (None, "1e200", "ordinary size"),
    ],
)
def test_boxes_that_make_no_sense_are_refused_by_name(bounds: object, norm: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        Box.read(bounds, norm)  # type: ignore[arg-type]


def test_bounds_must_fit_the_columns() -> None:
    with pytest.raises(InputError, match="describe 2 columns"):
        RowMap(Box.read([(0, 1), (0, 1)], None))(np.zeros((1, 3)))
    assert Box.read(np.array([[0.0, 1.0], [2.0, 4.0]]), None).high == (Fraction(1), Fraction(4))


def test_a_common_level_of_many_entries_is_kept_where_noise_hides_each() -> None:
    noisy = np.full(30, -0.3) + np.random.default_rng(2).normal(size=30) * 0.3
    kept = shrink_to_noise(noisy, 0.3, common=True)
    assert abs(kept.mean() + 0.3) < 0.1
    assert np.linalg.norm(kept + 0.3) < 0.5 * np.linalg.norm(shrink_to_noise(noisy, 0.3) + 0.3)
    assert (shrink_to_noise(noisy[:5], 0.3, common=True) == shrink_to_noise(noisy[:5], 0.3)).all()
