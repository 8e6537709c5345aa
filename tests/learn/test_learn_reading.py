"""Reading tables: one strange value harms its own row, raises nothing, warns of nothing and decides no type."""

from __future__ import annotations

import datetime
import decimal
import warnings
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from learn.replay import Recorder, record, released_events
from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.events import DiscreteLaplaceEvent
from tacit.learn import (
    BoostedTreesClassifier,
    GaussianNB,
    KMeans,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MinMaxScaler,
    StandardScaler,
)
from tacit.learn.reading import check_classes, discover_classes, numbered, read_labels, read_numbers, read_table
from tacit.noise import entropy


class Refusing:
    """A value that raises whatever is asked of it, and says so in its own words."""

    def __float__(self) -> float:
        raise RuntimeError("secret 424242")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret 424242")

    def __hash__(self) -> int:
        raise RuntimeError("secret 424242")


#: One value of each kind that a Python list, an object array or a frame can hold.
STRANGE: list[Any] = [
    "x", "1e3", "", b"yes", b"\xff", None, float("nan"), float("inf"), -1e308, 5e-324, 10**400, -(10**400), 2**63, True,
    pd.NA, pd.NaT, 1 + 2j, 1 + 0j, decimal.Decimal("sNaN"), decimal.Decimal("1.5"), Fraction(1, 3),
    datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01"),
    np.timedelta64(3, "D"), [1.0], [], (1, 2), [1, [2]], {"a": 1}, {1}, np.array([1.0]), np.array([1.0, 2.0]),
    np.array(1.0), Refusing(), object(), np.float16(2), np.longdouble("1e400"),
]  # fmt: skip
NAMES = [f"{place}-{type(value).__name__}" for place, value in enumerate(STRANGE)]


def rows(count: int = 24) -> tuple[list[list[float]], list[int]]:
    made = np.random.default_rng(3)
    X = made.normal(size=(count, 3))
    return X.tolist(), (X[:, 0] > 0).astype(int).tolist()


def models() -> list[Any]:
    plain: dict[str, Any] = {"epsilon": 5, "delta": "1e-3", "bounds": (-2, 2)}
    return [
        LogisticRegression(**plain, classes=[0, 1], steps=3),
        LinearSVC(**plain, classes=[0, 1], method="output"),
        GaussianNB(**plain, classes=[0, 1]),
        LinearRegression(**plain, target_bounds=(0, 2)),
        KMeans(**plain, n_clusters=2, steps=3),
    ]


def moved_at_most_declared(model: Any, one: Recorder, two: Recorder) -> bool:
    """Whether each release moved by no more than its event says, and all else is equal."""
    assert one.noise == two.noise
    for event, before, after in zip(released_events(model.event_), one.raw, two.raw, strict=True):
        gap = (before - after).ravel()
        laplace = isinstance(event, DiscreteLaplaceEvent)
        if int(np.abs(gap).sum()) > event.l1_sensitivity if laplace else int(gap @ gap) > event.l2_squared:
            return False
    return True


def _same(bits: SeededBits) -> SeededBits:
    return bits


def replayed(monkeypatch: pytest.MonkeyPatch, make: Any, first: Any, second: Any) -> bool:
    left, right = make(), make()
    # The same bits for what is drawn beside the noise, such as the first directions of clusters.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(entropy, "current", partial(_same, SeededBits(5)))
        one = record(monkeypatch, lambda: left.fit(*first))
        monkeypatch.setattr(entropy, "current", partial(_same, SeededBits(5)))
        two = record(monkeypatch, lambda: right.fit(*second), frozen=one)
    assert left.event_ == right.event_
    if hasattr(left, "classes_"):
        assert left.classes_.dtype == right.classes_.dtype
        assert left.classes_.tolist() == right.classes_.tolist()
    return moved_at_most_declared(left, one, two)


@pytest.mark.parametrize("value", STRANGE, ids=NAMES)
@pytest.mark.usefixtures("seeded")
def test_one_strange_label_or_target_moves_what_one_row_may(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    X, y = rows()
    for place, made in enumerate(models()):
        if not hasattr(made, "classes") and not hasattr(made, "target_bounds"):
            continue
        with_it = [*X, [0.1, 0.2, 0.3]], [*y, value]
        assert replayed(monkeypatch, lambda place=place: models()[place], with_it, (X, y))


@pytest.mark.parametrize("value", STRANGE, ids=NAMES)
@pytest.mark.usefixtures("seeded")
def test_one_strange_feature_moves_what_one_row_may(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    X, y = rows()
    for place in range(len(models())):
        with_it = [*X, [0.1, value, 0.3]], [*y, 1]
        assert replayed(monkeypatch, lambda place=place: models()[place], with_it, (X, y))


@pytest.mark.parametrize(
    "row", [[0.1], [], [1.0, 2.0, 3.0, 4.0], 7.0, None, "abc", {"a": 1}, np.zeros((3, 2)), b"abc", {1, 2, 3}]
)
@pytest.mark.usefixtures("seeded")
def test_one_row_of_another_form_counts_as_a_row_of_midpoints(monkeypatch: pytest.MonkeyPatch, row: Any) -> None:
    X, y = rows()
    table: list[Any] = [row, *X]
    assert np.isnan(read_table(table)[0]).all()
    assert read_table(table).shape == (25, 3)
    for place in range(len(models())):
        assert replayed(monkeypatch, lambda place=place: models()[place], (table, [1, *y]), (X, y))


@pytest.mark.usefixtures("seeded")
def test_an_object_array_and_a_frame_are_read_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    for value in STRANGE:
        array = np.empty((len(X) + 1, 3), dtype=object)
        array[:-1] = X
        array[-1, 0], array[-1, 1], array[-1, 2] = 0.1, None, 0.3
        array[-1:, 1].fill(value) if not isinstance(value, list | tuple | np.ndarray) else None
        frame = pd.DataFrame({"a": array[:, 0], "b": array[:, 1], "c": array[:, 2]})
        plain = pd.DataFrame(X, columns=["a", "b", "c"])
        assert replayed(monkeypatch, lambda: models()[0], (array, [*y, 1]), (np.array(X), y))
        assert replayed(monkeypatch, lambda: models()[0], (frame, pd.Series([*y, 1])), (plain, pd.Series(y)))


def test_what_a_value_is_read_as() -> None:
    read = read_numbers(
        [1, True, "2.5", b"3", None, "x", 10**400, -(10**400), decimal.Decimal("4"), Fraction(1, 2), 1 + 0j, 1j]
    )
    largest = np.finfo(np.float64).max
    assert read[:4].tolist() == [1, 1, 2.5, 3]
    assert np.isnan(read[4:6]).all()
    assert read[6:8].tolist() == [largest, -largest]
    assert read[8:11].tolist() == [4, 0.5, 1]
    assert np.isnan(read[11])


def test_frames_of_every_type() -> None:
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "truth": pd.array([True, None, False], dtype="boolean"),
            "small": pd.array([1.5, 2.5, None], dtype="Float32"),
            "text": pd.Series(["1", "two", "3"], dtype=object),
            "kinds": pd.Categorical([1.0, 2.0, 1.0]),
            "mixed": [1, "x", 2.5],
        }
    )
    read = read_table(frame)
    assert read.dtype == np.float64
    assert np.array_equal(
        read,
        [[1, 1, 1.5, 1, 1, 1], [np.nan, np.nan, 2.5, np.nan, 2, np.nan], [3, 0, np.nan, 3, 1, 2.5]],
        equal_nan=True,
    )
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    assert np.array_equal(read_table(masked), [[1, np.nan], [3, 4]], equal_nan=True)
    assert read_table(np.array([["1", "x"]])).tolist()[0][0] == 1.0


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((17, 2), dtype="datetime64[s]"),
        np.zeros((17, 2), dtype="timedelta64[s]"),
        np.zeros((17, 2), dtype=complex),
        np.zeros((17, 2), dtype=[("a", float)]),
        np.zeros(17),
        np.zeros((17, 2, 2)),
        np.zeros((17, 0)),
        scipy.sparse.eye(17),
        pd.DataFrame({"when": pd.to_datetime(["2020-01-01"] * 17)}),
        [1.0] * 17,
        [],
        "text",
    ],
    ids=lambda table: f"{type(table).__name__}-{getattr(table, 'dtype', '')}",
)
def test_refused_by_type_and_shape_without_a_number_of_rows_or_a_value(table: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        MinMaxScaler(bounds=(0, 1)).fit(table)
    assert "17" not in str(refused.value)


def test_labels_of_every_kind_of_container() -> None:
    classes = check_classes([0, 1])
    for y in (
        [0, 1, "x"],
        (0, 1, "x"),
        np.array([0, 1, 5]),
        np.array([0.0, 1.0, np.nan]),
        np.array([0, 1, None], dtype=object),
        np.array([0, 1, 1j]),
        pd.Series([0, 1, None]),
        pd.Series([0, 1, pd.NA], dtype="Int64"),
        pd.Series([0, 1, "x"], dtype=object),
        pd.Categorical([0, 1, 7]),
        np.ma.masked_array([0, 1, 1], mask=[False, False, True]),
        [np.int64(0), np.float32(1), Refusing()],
        [False, True, pd.NaT],
    ):
        assert numbered(read_labels(y), classes).tolist() == [0, 1, -1], repr(type(y))


@pytest.mark.filterwarnings("ignore:A column-vector")
def test_labels_refused_by_type_and_shape_alone() -> None:
    X, y = rows()
    learner = models()[0]
    for bad in (np.zeros((24, 2)), scipy.sparse.eye(24), "text", 7, np.array([str(each) for each in y])):
        with pytest.raises((InputError, TypeError)) as refused:
            learner.fit(X, bad)
        assert "24" not in str(refused.value)
    assert len(read_labels(np.zeros((5, 1)))) == 5


@pytest.mark.parametrize(
    "classes", [[0, "a"], [0.0, float("nan")], [2**60, 1], ["a", b"a"], [None, 1], [[0, 1], [2]], [1, True]]
)
def test_classes_of_several_kinds_are_refused(classes: list[Any]) -> None:
    with pytest.raises(InputError) as refused:
        check_classes(classes)
    assert refused.value.parameter == "classes"


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("value", STRANGE, ids=NAMES)
def test_one_row_does_not_decide_the_type_of_discovered_classes(value: Any) -> None:
    """Whatever one row holds, and wherever it stands, the labels that enough rows have come out as the same list."""
    from tacit.core.relations import ADD_REMOVE

    for common in ([0, 1], [0.0, 1.0], ["no", "yes"], [False, True]):
        plain = [common[place % 2] for place in range(4000)]
        found = [
            discover_classes(read_labels(y), epsilon=50, delta="1e-3", relation=ADD_REMOVE)[0]
            for y in (plain, [value, *plain], [*plain, value], np.array([*plain, None], dtype=object))
        ]
        for each in found:
            assert each.dtype == found[0].dtype
            assert each.tolist() == found[0].tolist()
    numbers = [[0, 1] * 2000, [0.0, 1.0] * 2000, [0, 1.0] * 2000]
    listed = [discover_classes(read_labels(y), epsilon=50, delta="1e-3", relation=ADD_REMOVE)[0] for y in numbers]
    assert {str(each.dtype) for each in listed} == {"int64"}


def test_no_rows_at_all_in_a_list() -> None:
    """The number of columns is public, and has to come from somewhere."""
    pairs = [(-2, 2)] * 3
    fitted = LogisticRegression(epsilon=1, delta="1e-3", bounds=pairs, classes=[0, 1], steps=2).fit([], [])
    assert fitted.coef_.shape == (1, 3)
    assert read_table([], columns=3).shape == (0, 3)
    assert read_table([[1.0]], columns=3).shape == (1, 3)


@pytest.mark.usefixtures("seeded")
def test_columns_of_polars_are_labels_and_targets() -> None:
    frame = pl.DataFrame({"age": [0.1, 0.5, 0.9], "town": ["A", "B", None]})
    common: dict[str, Any] = {"epsilon": 1, "delta": "1e-4"}
    common |= {"bounds": {"age": (0, 1)}, "categories": {"town": ["A", "B"]}}
    kinds: list[tuple[list[Any], list[Any]]] = [([0, 1, 1], [0, 1]), (["no", "yes", None], ["no", "yes"])]
    for labels, classes in kinds:
        fitted = BoostedTreesClassifier(**common, classes=classes, trees=2).fit(frame, pl.Series(labels))
        assert set(fitted.predict(frame).tolist()) <= set(classes)
    line = LinearRegression(**common, target_bounds=(0, 1), steps=2).fit(frame, pl.Series([0.1, None, 1.0]))
    assert line.get_feature_names_out().tolist() == ["age", "town=A", "town=B"]
    assert line.predict(frame).shape == (3,)


@pytest.mark.usefixtures("seeded")
def test_one_pair_bounds_all_columns_of_a_list_too() -> None:
    rows = [[0.25, 0.75]] * 4000
    for X in (rows, np.array(rows)):
        means = StandardScaler(epsilon=5, delta="1e-3", bounds=(0, 1)).fit(X).mean_
        np.testing.assert_allclose(means, [0.25, 0.75], atol=0.05)
