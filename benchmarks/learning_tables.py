"""Tables of the learning benchmark: their rows, their public bounds, and whether anything was tuned on them.

Bounds are what an owner would declare; every contender is told the same ones. Adult and pums are read from the folder
that the variable TACIT_DATA names, or from ``../shared/data`` beside the repository; without it they are left out, and
so are fair, anes96 and randhie where statsmodels, which holds them, is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TACIT_DATA", ROOT.parent / "shared" / "data"))

Rows = tuple[np.ndarray, np.ndarray]

#: The owner's declaration of Adult: bounds of the numbers; the values of the rest are public categories.
ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 20_000),
    "capital_loss": (0, 2_500),
    "hr_per_week": (1, 99),
}


@dataclass(frozen=True)
class Table:
    """A table to learn.

    Attributes:
        name: with the number of its rows.
        make: from a seed to rows and targets; made-up tables are made anew for each split.
        bounds: of the columns.
        tuned: whether defaults were chosen on it.
        target: bounds of the target of a regression.
        categories: by place, the public codes of columns that are categories.
    """

    name: str
    make: Callable[[int], Rows]
    bounds: list[tuple[float, float]]
    tuned: bool = False
    target: tuple[float, float] | None = None
    categories: dict[int, int] | None = None

    @property
    def label(self) -> str:
        """The name, marked where the table was used for tuning."""
        return self.name + (" (tuned on)" if self.tuned else "")


def made(rows: int, seed: int, kind: str) -> Rows:
    """Tables made for the report alone: unequal and skewed columns, correlated ones, a rare class, bent shapes."""
    drawn = np.random.default_rng(seed)
    if kind == "skewed":
        X = np.column_stack(
            [drawn.gamma(2, 15_000, rows), drawn.uniform(18, 90, rows), drawn.poisson(2, rows), drawn.normal(size=rows)]
        )
        scores = -2 + X[:, 0] / 20_000 + 0.02 * (X[:, 1] - 50) - 0.3 * X[:, 2] + 0.5 * X[:, 3]
    elif kind == "correlated":
        common = drawn.normal(size=(rows, 1))
        X = 0.95 * common + 0.3 * drawn.normal(size=(rows, 6))
        scores = 3 * (X[:, 0] - X[:, 1]) + X[:, 2]
    elif kind == "bent":
        X = drawn.uniform(-3, 3, size=(rows, 5))
        scores = X[:, 0] ** 2 - 3 + 2 * np.sin(2 * X[:, 1]) + (X[:, 2] > 1)
    else:
        X = drawn.normal(size=(rows, 8))
        scores = -3.5 + X[:, 0] + 0.7 * X[:, 1]
    return X, (drawn.random(rows) < 1 / (1 + np.exp(-scores))).astype(int)


def adult_frame() -> Any:
    """Adult as a frame, or None where it is missing."""
    import pandas as pd

    path = DATA / "adult.csv"
    return pd.read_csv(path) if path.exists() else None


def adult() -> Table | None:
    """Census records; a column of categories is their number in the public list."""
    frame = adult_frame()
    if frame is None:
        print("\n<!-- Adult left out: set TACIT_DATA to the folder that holds adult.csv -->")
        return None
    y = frame["income"].astype(str).str.contains(">50K").to_numpy().astype(int)
    columns, bounds, categories = [], [], {}
    for place, name in enumerate(frame.columns.drop("income")):
        if name in ADULT_BOUNDS:
            columns.append(frame[name].to_numpy(dtype=float))
            bounds.append((float(ADULT_BOUNDS[name][0]), float(ADULT_BOUNDS[name][1])))
        else:
            listed = sorted(frame[name].unique())
            columns.append(frame[name].map({each: code for code, each in enumerate(listed)}).to_numpy(dtype=float))
            bounds.append((0.0, float(len(listed) - 1)))
            categories[place] = len(listed)
    X = np.column_stack(columns)
    return Table(f"Adult ({len(X):,})", lambda _: (X, y), bounds, True, categories=categories)


def classification() -> list[Table]:
    """Tables with classes."""
    from sklearn.datasets import (
        load_breast_cancer,
        load_digits,
        load_iris,
        load_wine,
        make_classification,
        make_gaussian_quantiles,
        make_hastie_10_2,
        make_moons,
    )

    def stored(load: Any) -> Callable[[int], Rows]:
        return lambda _: load(return_X_y=True)  # type: ignore[no-any-return]

    def ends(load: Any) -> list[tuple[float, float]]:
        X = load(return_X_y=True)[0]
        return list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))

    def hastie(seed: int) -> Rows:
        X, y = make_hastie_10_2(8000, random_state=seed)
        return X, (y > 0).astype(int)

    found = [
        Table("breast_cancer (569)", stored(load_breast_cancer), ends(load_breast_cancer), True),
        Table("wine (178)", stored(load_wine), ends(load_wine), True),
        Table("digits (1,797)", stored(load_digits), [(0.0, 16.0)] * 64, True),
        Table(
            "make_classification (10,000)",
            lambda seed: make_classification(10_000, 20, random_state=seed),
            [(-5.0, 5.0)] * 20,
            True,
        ),
        Table("iris (150)", stored(load_iris), [(4.0, 8.0), (2.0, 5.0), (1.0, 7.0), (0.0, 3.0)]),
        Table("hastie_10_2 (8,000)", hastie, [(-4.0, 4.0)] * 10),
        Table(
            "gaussian_quantiles (6,000)",
            lambda seed: make_gaussian_quantiles(n_samples=6000, n_features=6, n_classes=3, random_state=seed),
            [(-4.0, 4.0)] * 6,
        ),
        Table("moons (5,000)", lambda seed: make_moons(5000, noise=0.3, random_state=seed), [(-3.0, 4.0), (-2.5, 3.0)]),
        Table(
            "skewed (10,000)",
            lambda seed: made(10_000, seed, "skewed"),
            [(0.0, 300_000.0), (0.0, 120.0), (0.0, 20.0), (-5.0, 5.0)],
        ),
        Table("correlated (10,000)", lambda seed: made(10_000, seed, "correlated"), [(-5.0, 5.0)] * 6),
        Table("rare class (10,000)", lambda seed: made(10_000, seed, "rare"), [(-5.0, 5.0)] * 8),
        Table("bent (8,000)", lambda seed: made(8000, seed, "bent"), [(-3.0, 3.0)] * 5),
    ]
    census = adult()
    found += [] if census is None else [census]
    path = DATA / "pums.csv"
    if path.exists():
        import pandas as pd

        frame = pd.read_csv(path)
        y = frame["married"].to_numpy().astype(int)
        X = frame[["age", "sex", "educ", "income"]].to_numpy(dtype=float)
        limits = [(0.0, 100.0), (0.0, 1.0), (1.0, 16.0), (0.0, 500_000.0)]
        found.append(Table("pums (1,000)", lambda _: (X, y), limits))
    fair = survey("fair")
    if fair is not None:
        limits = [(1.0, 5.0), (15.0, 60.0), (0.0, 40.0), (0.0, 8.0), (1.0, 4.0), (8.0, 20.0), (1.0, 6.0), (1.0, 6.0)]
        rows = fair.drop(columns="affairs").to_numpy(dtype=float), (fair["affairs"] > 0).to_numpy().astype(int)
        found.append(Table("fair (6,366)", lambda _: rows, limits))
    voters = survey("anes96")
    if voters is not None:
        names = ["TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "educ", "income"]
        limits = [(0.0, 7.0), (1.0, 7.0), (1.0, 7.0), (1.0, 7.0), (0.0, 6.0), (18.0, 100.0), (1.0, 7.0), (1.0, 24.0)]
        votes = voters[names].to_numpy(dtype=float), voters["vote"].to_numpy().astype(int)
        found.append(Table("anes96 (944)", lambda _: votes, limits))
    return found


def survey(name: str) -> Any:
    """A table of statsmodels as a frame, or None where that is not installed."""
    try:
        from statsmodels import datasets
    except ImportError:
        return None
    return getattr(datasets, name).load_pandas().data


def regression() -> list[Table]:
    """Tables with a number to predict."""
    from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3, make_regression

    def skewed(seed: int) -> Rows:
        X, _ = made(5000, seed, "skewed")
        drawn = np.random.default_rng(seed + 1)
        return X, X[:, 0] / 10_000 + 0.05 * X[:, 1] - X[:, 2] + drawn.normal(size=len(X)) * 2

    resistance = [(0.0, 100.0), (100.0, 1800.0), (0.0, 1.0), (1.0, 11.0)]
    found = [
        Table("diabetes (442)", lambda _: load_diabetes(return_X_y=True), [(-0.2, 0.2)] * 10, True, (0.0, 400.0)),
        Table(
            "friedman1 (4,000)",
            lambda seed: make_friedman1(4000, noise=1, random_state=seed),
            [(0.0, 1.0)] * 10,
            True,
            (-5.0, 35.0),
        ),
        Table(
            "friedman2 (5,000)",
            lambda seed: make_friedman2(5000, noise=100, random_state=seed),
            resistance,
            target=(-300.0, 2000.0),
        ),
        Table(
            "friedman3 (5,000)",
            lambda seed: make_friedman3(5000, noise=0.1, random_state=seed),
            resistance,
            target=(-0.5, 2.0),
        ),
        Table(
            "make_regression (3,000 × 30)",
            lambda seed: make_regression(3000, 30, n_informative=10, noise=100, random_state=seed),
            [(-5.0, 5.0)] * 30,
            target=(-1500.0, 1500.0),
        ),
        Table(
            "skewed (5,000)",
            skewed,
            [(0.0, 300_000.0), (0.0, 120.0), (0.0, 20.0), (-5.0, 5.0)],
            target=(-20.0, 40.0),
        ),
    ]
    visits = survey("randhie")
    if visits is not None:
        limits = [(0.0, 5.0), (0.0, 1.0), (0.0, 8.0), (0.0, 9.0), (0.0, 1.0), (0.0, 60.0)] + [(0.0, 1.0)] * 3
        rows = visits.drop(columns="mdvis").to_numpy(dtype=float), visits["mdvis"].to_numpy(dtype=float)
        found.append(Table("randhie (20,190)", lambda _: rows, limits, target=(0.0, 30.0)))
    return found
