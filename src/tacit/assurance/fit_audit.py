"""Self-audit of fits: each estimator replayed on neighbours with an extreme row.

With every noisy number frozen, a fit must end alike (no error, no warning, the same types and shapes), call for the
same noise and show the same model, whatever one row holds and however many rows there are.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from tacit.audit.checks import AuditCheck, Verdict, judged_replays
from tacit.audit.neighbours import Neighbours
from tacit.audit.search import replay_neighbours

_ROWS: Final = [(((7 * i) % 11) / 5 - 1, ((3 * i) % 13) / 6 - 1, i % 2) for i in range(30)]
#: Rows that a reader, a type or a solver might trip over: two features and a label or target.
_STRANGE: Final[tuple[tuple[Any, Any, Any], ...]] = (
    (0.5, 0.5, "unknown"),
    (0.5, 0.5, None),
    (0.5, 0.5, float("nan")),
    (0.5, 0.5, 1 + 2j),
    ("text", 0.5, 1),
    (None, [1.0], 0),
    (float("inf"), 1e308, 1),
    (10**400, 5e-324, 0),
)
_COMMON: Final[dict[str, Any]] = {"epsilon": 2, "delta": "1e-3", "bounds": (-1, 1)}


def fit_checks() -> Iterator[AuditCheck]:
    """One replay on many neighbours for each estimator and method; none where scikit-learn is not installed."""
    if importlib.util.find_spec("sklearn") is None:
        return
    for name, make in audited_estimators().items():
        yield AuditCheck(f"fit: {name}", "replay", partial(_replayed, make))


def audited_estimators() -> dict[str, Callable[[], Any]]:
    """Every estimator of :mod:`tacit.learn`, small, by what it is; linear ones by each of their methods."""
    from tacit import learn

    classes, number = _COMMON | {"classes": [0, 1]}, _COMMON | {"target_bounds": (0, 1)}
    return {
        "logistic regression by gradients": lambda: learn.LogisticRegression(**classes, steps=3),
        "a support vector classifier by its minimiser": lambda: learn.LinearSVC(**classes, method="output"),
        "logistic regression by a tilted objective": lambda: learn.LogisticRegression(**classes, method="objective"),
        "naive Bayes": lambda: learn.GaussianNB(**classes),
        "least squares": lambda: learn.LinearRegression(**number, steps=3),
        "ridge regression": lambda: learn.Ridge(**number),
        "Poisson regression": lambda: learn.PoissonRegressor(**number, steps=3),
        "an additive model of classes": lambda: learn.AdditiveClassifier(**classes | {"epsilon": 3}, rounds=3),
        "an additive model of a number": lambda: learn.AdditiveRegressor(**number, rounds=3),
        "boosted trees for classes": lambda: learn.BoostedTreesClassifier(**classes | {"epsilon": 3}, trees=3),
        "boosted trees for a number": lambda: learn.BoostedTreesRegressor(**number, trees=3),
        "a scaler": lambda: learn.StandardScaler(**_COMMON),
        "a scaler of bounds alone": lambda: learn.MinMaxScaler(bounds=(-1, 1)),
        "a search among models": lambda: learn.PrivateSearch(
            candidates=[learn.GaussianNB(**classes | {"epsilon": each}) for each in (1, 2)], epsilon=1
        ),
        "principal components": lambda: learn.PCA(**_COMMON),
        "clusters": lambda: learn.KMeans(**_COMMON, n_clusters=2, steps=3),
    }


def _replayed(make: Callable[[], Any]) -> Verdict:
    pairs = [Neighbours("without a row", _ROWS, _ROWS[1:])]
    pairs += [Neighbours(f"with the row {row!r} at the end", _ROWS, [*_ROWS, row]) for row in _STRANGE]
    pairs += [Neighbours(f"with the row {row!r} at the start", _ROWS, [row, *_ROWS]) for row in _STRANGE]
    if "candidates" in make().get_params(deep=False):
        # Each row throws a coin, and coins agree where tables are of one length: a row without a class adds nothing.
        nothing = (0.0, 0.0, "no class")
        strange = [*_STRANGE, (0.5, 0.5, 1)]
        pairs = [Neighbours(f"with the row {row!r}", [*_ROWS, nothing], [*_ROWS, row]) for row in strange]
    return judged_replays(replay_neighbours(partial(_fitted, make), _ROWS, neighbours=pairs))


def _fitted(make: Callable[[], Any], rows: Sequence[tuple[Any, Any, Any]]) -> list[tuple[str, str]]:
    """All that a fitted model shows, as text: numbers to the last digit, and types."""
    model = make().fit([list(row[:2]) for row in rows], [row[2] for row in rows])
    shown = sorted(name for name in vars(model) if name.endswith("_") and not name.startswith("_"))
    values = [(name, getattr(model, name)) for name in shown]
    return [
        (name, f"{getattr(value, 'dtype', '')} {getattr(value, 'tolist', lambda v=value: v)()!r}")
        for name, value in values
    ]
