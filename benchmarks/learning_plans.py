"""Plans of sample sizes beside measured ones: is ``expected_excess`` right within a factor of three?

    .venv/bin/python benchmarks/learn.py --only plans [--splits 6] [--tables normal]

Tables are made up, so the chance of each label is known and the error rate of a classifier on fresh rows has no noise
of labels. The best line is one that was fitted to 60,000 rows without privacy. The first table asks for the excess at
given rows, the second for the rows of a given excess, at which the excess is then measured; what is publicly known of a
table is stated (:data:`FACTS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.learn import LinearSVC, LogisticRegression, expected_excess, rows_needed

Made = tuple[np.ndarray, np.ndarray]
Bounds = list[tuple[float, float]]

_FRESH, _REFERENCE = 20_000, 60_000
_DELTA = "1e-6"
_ESTIMATORS = (LogisticRegression, LinearSVC)


def _chance(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-scores))


def _normal(columns: int) -> Callable[[np.random.Generator, int], Made]:
    def make(drawn: np.random.Generator, rows: int) -> Made:
        X = drawn.normal(size=(rows, columns))
        weights = np.cos(np.arange(columns)) / np.linalg.norm(np.cos(np.arange(columns)))
        return X, _chance(3 * X @ weights)

    return make


def _uniform(drawn: np.random.Generator, rows: int) -> Made:
    X = drawn.uniform(0, 1, size=(rows, 8)) * 10.0 ** np.arange(8)
    return X, _chance((X / 10.0 ** np.arange(8) - 0.5) @ np.array([4, -3, 3, 2, 0, 0, 1, -1.0]))


def _skewed(drawn: np.random.Generator, rows: int) -> Made:
    X = np.column_stack(
        [drawn.lognormal(3, 0.8, rows), drawn.poisson(3, rows), drawn.exponential(10, rows), drawn.normal(size=rows)]
    )
    return X, _chance(0.04 * X[:, 0] + 0.4 * (X[:, 1] - 3) - 0.1 * (X[:, 2] - 10) + X[:, 3] - 1)


def _yes_or_no(drawn: np.random.Generator, rows: int) -> Made:
    X = (drawn.random(size=(rows, 10)) < np.linspace(0.2, 0.6, 10)).astype(float)
    return X, _chance(X @ np.array([2, -2, 1.5, -1.5, 1, -1, 2, -2, 0, 0.0]))


def _correlated(drawn: np.random.Generator, rows: int) -> Made:
    X = 0.95 * drawn.normal(size=(rows, 1)) + 0.3 * drawn.normal(size=(rows, 6))
    return X, _chance(3 * (X[:, 0] - X[:, 1]) + X[:, 2])


def _rare(drawn: np.random.Generator, rows: int) -> Made:
    X = drawn.normal(size=(rows, 8))
    return X, _chance(-3.5 + X[:, 0] + 0.7 * X[:, 1])


TABLES: dict[str, tuple[Callable[[np.random.Generator, int], Made], Bounds]] = {
    "normal, 5": (_normal(5), [(-4.0, 4.0)] * 5),
    "normal, 20": (_normal(20), [(-4.0, 4.0)] * 20),
    "uniform, 8": (_uniform, [(0.0, 10.0**place) for place in range(8)]),
    "skewed, 4": (_skewed, [(0.0, 300.0), (0.0, 20.0), (0.0, 100.0), (-5.0, 5.0)]),
    "yes or no, 10": (_yes_or_no, [(0.0, 1.0)] * 10),
    "correlated, 6": (_correlated, [(-5.0, 5.0)] * 6),
    "rare class, 8": (_rare, [(-5.0, 5.0)] * 8),
}

#: Public facts of the tables that a planner may state.
FACTS: dict[str, dict[str, str]] = {"correlated, 6": {"correlation": "0.9"}, "rare class, 8": {"rarest": "0.05"}}


def _error(model: Any, fresh: Made) -> float:
    yes = model.predict(fresh[0]) == 1
    return float(np.where(yes, 1 - fresh[1], fresh[1]).mean())


class _Excess:
    """Measured excess of one table, with the best line at hand."""

    def __init__(self, name: str, first: int) -> None:
        from sklearn.linear_model import LogisticRegression as Plain
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self._make, self.bounds = TABLES[name]
        self._drawn = np.random.default_rng(first)
        self._fresh = self._make(self._drawn, _FRESH)
        X, chance = self._make(self._drawn, _REFERENCE)
        self._best = _error(make_pipeline(StandardScaler(), Plain(C=1e6)).fit(X, self._labels(chance)), self._fresh)

    def _labels(self, chance: np.ndarray) -> np.ndarray:
        return (self._drawn.random(len(chance)) < chance).astype(int)

    def measure(self, kind: Any, rows: int, epsilon: float, repeats: int) -> tuple[float, float]:
        """Mean and standard error over fits to rows of their own."""
        found = []
        for _ in range(repeats):
            X, chance = self._make(self._drawn, rows)
            model = kind(epsilon=epsilon, delta=_DELTA, bounds=self.bounds, classes=[0, 1])
            found.append(_error(model.fit(X, self._labels(chance)), self._fresh) - self._best)
        return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(repeats))


def _judged(measured: float, error: float, planned: float) -> str:
    """Ratio of measured to planned, and whether it may lie within a factor of three, two standard errors allowed."""
    near = measured - 2 * error <= 3 * planned and measured + 2 * error >= planned / 3
    return f"{measured / planned:.1f}{'' if near else ' **off**'}"


def plans(repeats: int, epsilons: tuple[float, ...], first: int, chosen: list[str]) -> None:
    """Print both tables."""
    names = [name for name in TABLES if not chosen or any(part in name for part in chosen)]
    scenes = {name: _Excess(name, first) for name in names}
    heads = [kind.__name__ for kind in _ESTIMATORS]
    print("\n### Excess error at given rows\n")
    print(
        "| table, columns | rows | ε | planned | " + " | ".join(f"{head} | measured / planned" for head in heads) + " |"
    )
    print("|---|---|---|---|" + "---|---|" * len(heads), flush=True)
    for name, scene in scenes.items():
        for rows in (1000, 4000):
            for epsilon in epsilons:
                planned = expected_excess(
                    rows=rows, epsilon=epsilon, delta=_DELTA, dimensions=len(scene.bounds), **FACTS.get(name, {})
                )
                cells = []
                for kind in _ESTIMATORS:
                    measured, error = scene.measure(kind, rows, epsilon, repeats)
                    cells += [f"{measured:.4f} ± {error:.4f}", _judged(measured, error, planned)]
                print(f"| {name} | {rows:,} | {epsilon:g} | {planned:.4f} | " + " | ".join(cells) + " |", flush=True)
    print("\n### Excess error at the rows that were planned for 0.02\n")
    print("| table, columns | ε | rows planned | " + " | ".join(f"{head} | measured / 0.02" for head in heads) + " |")
    print("|---|---|---|" + "---|---|" * len(heads), flush=True)
    for name, scene in scenes.items():
        for epsilon in epsilons:
            rows = rows_needed(
                excess="0.02", epsilon=epsilon, delta=_DELTA, dimensions=len(scene.bounds), **FACTS.get(name, {})
            )
            cells = []
            for kind in _ESTIMATORS:
                measured, error = scene.measure(kind, rows, epsilon, repeats)
                cells += [f"{measured:.4f} ± {error:.4f}", _judged(measured, error, 0.02)]
            print(f"| {name} | {epsilon:g} | {rows:,} | " + " | ".join(cells) + " |", flush=True)
