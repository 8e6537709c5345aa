"""Prices of fits: what an estimator states without rows is what its fit releases, and nothing is found wrong later."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tacit.learn
from support.bits import SeededBits
from tacit.accounting.compose import compose
from tacit.accounting.currencies import PURE
from tacit.core.errors import InputError
from tacit.core.events import (
    ApproxEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    PoissonSampledEvent,
    RepeatedEvent,
    SampledSumEvent,
)
from tacit.core.guarantees import PureDP
from tacit.core.relations import REPLACE_ONE
from tacit.learn import (
    PCA,
    AdditiveClassifier,
    AdditiveRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GaussianNB,
    KMeans,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MinMaxScaler,
    PoissonRegressor,
    PrivateSearch,
    Ridge,
    StandardScaler,
)
from tacit.learn import release as noising

TWO: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "bounds": (0, 1)}
CLASSES = {"classes": [0, 1]}
LINE = {"target_bounds": (0, 3)}
FITS: list[Any] = [
    MinMaxScaler(bounds=(0, 1)),
    StandardScaler(**TWO),
    StandardScaler(**TWO, relation="replace_one"),
    PCA(**TWO),
    PCA(**TWO, n_components=1, n=200),
    PCA(epsilon=1, delta="1e-5", data_norm=2),
    KMeans(**TWO, n_clusters=3),
    KMeans(**TWO, n_clusters=2, steps=4, relation="replace_one"),
    GaussianNB(**TWO, **CLASSES),
    GaussianNB(**TWO, classes=[0, 1, 2]),
    AdditiveClassifier(**TWO, **CLASSES, rounds=3),
    AdditiveClassifier(**TWO, classes=[0, 1, 2], rounds=3, relation="replace_one"),
    AdditiveRegressor(**TWO, **LINE, rounds=3),
    BoostedTreesClassifier(**TWO, **CLASSES, trees=3),
    BoostedTreesClassifier(**TWO, classes=[0, 1, 2], trees=3, depth=1, relation="replace_one"),
    BoostedTreesRegressor(**TWO, **LINE, trees=3),
    BoostedTreesClassifier(**TWO | {"epsilon": 30}, **CLASSES, trees=3, relation="replace_one"),
    BoostedTreesRegressor(**TWO | {"epsilon": 30}, **LINE, trees=3, depth=1),
    Ridge(**TWO, **LINE),
    PoissonRegressor(**TWO, **LINE),
    BoostedTreesClassifier(**TWO, **CLASSES, trees=3, categories={0: [0, 1]}, class_weight={1: 2}),
    LogisticRegression(**TWO, **CLASSES, steps=4, categories={0: 3}, class_weight={0: "0.5"}),
    LinearRegression(**TWO, **LINE),
    LinearRegression(**TWO, **LINE, steps=4),
    LinearRegression(**TWO, **LINE, n=200, batch_rate="0.25", steps=6),
    *(
        kind(**TWO, classes=classes, **more)
        for kind in (LogisticRegression, LinearSVC)
        for classes, more in (
            ([0, 1], {"steps": 4}),
            ([0, 1, 2], {"steps": 4, "n": 200, "standardize": False}),
            ([0, 1], {"steps": 4, "batch_rate": "0.25", "relation": "add_remove"}),
            ([0, 1], {"steps": 4, "batch_rate": "0.25", "relation": "replace_one"}),
            ([0, 1], {"method": "output"}),
            ([0, 1, 2], {"method": "output", "standardize": False, "regularization": 4}),
            ([0, 1], {"method": "objective"}),
            ([0, 1], {"method": "objective", "relation": "replace_one"}),
        )
    ),
    LogisticRegression(epsilon=1, bounds=(0, 1), **CLASSES),
    LinearSVC(epsilon=1, bounds=(0, 1), classes=[0, 1, 2], relation="replace_one"),
]
PAIR = [GaussianNB(**TWO, **CLASSES), LogisticRegression(**TWO, **CLASSES, steps=4)]
FITS += [PrivateSearch(candidates=PAIR, epsilon="0.5", stopping=stopping) for stopping in (None, "0.5")]
#: With each estimator, parameters that a fit refuses.
WRONG: list[Any] = [
    *(PrivateSearch(**{"candidates": PAIR, "epsilon": 1, **more}) for more in (
        {"candidates": []}, {"candidates": PAIR[:1]}, {"candidates": [PAIR[0], PCA(**TWO)]}, {"epsilon": 0},
        {"holdout": 2}, {"stopping": 0}, {"stopping": 2},
        {"candidates": [PAIR[0], GaussianNB(**TWO, **CLASSES, relation="replace_one")]},
    )),
    MinMaxScaler(),
    MinMaxScaler(bounds=(0, 1), feature_range=(1, 1)),
    MinMaxScaler(bounds=[(0, 1)] * 3),
    *(kind(**{**TWO, **more}) for kind in (StandardScaler, PCA, KMeans) for more in (
        {"epsilon": 0}, {"epsilon": 10**5}, {"delta": None}, {"delta": 2}, {"bounds": None}, {"bounds": [(0, 1)] * 3},
        {"bounds": (1, 0)}, {"relation": "x"},
    )),
    *(PCA(**TWO, **more) for more in ({"n_components": 3}, {"n_components": 0}, {"n": 0})),
    *(KMeans(**TWO, **more) for more in ({"n_clusters": 0}, {"steps": 2}, {"steps": 10**5}, {"data_norm": 1})),
    *(GaussianNB(**{**TWO, **CLASSES, **more}) for more in (
        {"classes": None}, {"classes": [1]}, {"delta": None}, {"bounds": None}, {"epsilon": -1},
        {"bounds": [(0, 1)] * 3},
    )),
    *(AdditiveClassifier(**{**TWO, **CLASSES, **more}) for more in (
        {"rounds": 1}, {"classes": None}, {"delta": None}, {"bounds": None}, {"bounds": [(0, 1)] * 3}, {"epsilon": 0},
    )),
    *(AdditiveRegressor(**{**TWO, **LINE, **more}) for more in (
        {"rounds": 10**5}, {"target_bounds": None}, {"delta": None}, {"bounds": [(0, 1)] * 3}, {"relation": "x"},
    )),
    *(BoostedTreesClassifier(**{**TWO, **CLASSES, **more}) for more in (
        {"trees": 0}, {"depth": 9}, {"classes": None}, {"delta": None}, {"bounds": [(0, 1)] * 3}, {"epsilon": 0},
    )),
    *(BoostedTreesRegressor(**{**TWO, **LINE, **more}) for more in (
        {"trees": 10**5}, {"target_bounds": None}, {"bounds": None}, {"relation": "x"},
    )),
    *(Ridge(**{**TWO, **LINE, **more}) for more in (
        {"alpha": -1}, {"alpha": "x"}, {"max_weight": 0},
        {"target_bounds": None}, {"target_bounds": (2, 1)}, {"delta": None}, {"bounds": [(0, 1)] * 3},
    )),
    PoissonRegressor(**TWO, target_bounds=(-1, 3)), PoissonRegressor(**TWO, target_bounds=(10**9, 10**9 + 1)),
    *(LogisticRegression(**{**TWO, **CLASSES, **more}) for more in (
        {"class_weight": {2: 1}}, {"class_weight": {1: 0}}, {"class_weight": "balanced"}, {"max_weight": -1},
        {"class_weight": {1: 2}, "method": "output"}, {"class_weight": {1: 2}, "n": 5}, {"categories": {5: [0, 1]}},
        {"categories": {0: []}}, {"categories": {0: [1, 1]}}, {"categories": [1]}, {"categories": {0: 1}},
        {"categories": {0: [1, 2]}, "bounds": [(0, 1)] * 3}, {"categories": {0: [1, 2]}, "bounds": None},
    )),
    AdditiveClassifier(**TWO, **CLASSES, categories={0: 64}),
    *(LinearRegression(**{**TWO, **LINE, **more}) for more in (
        {"clip": 0}, {"clip": 17}, {"steps": 0}, {"batch_rate": 2}, {"n": 0}, {"delta": None},
    )),
    *(kind(**{**TWO, **CLASSES, **more}) for kind in (LogisticRegression, LinearSVC) for more in (
        {"method": "x"}, {"clip": 17}, {"clip": 0}, {"steps": 0}, {"steps": 10**7}, {"batch_rate": 0}, {"n": 0},
        {"classes": None}, {"classes": [0, 0]}, {"bounds": None}, {"bounds": [(0, 1)] * 3}, {"epsilon": 0},
        {"delta": None, "method": "gradient"}, {"delta": None, "method": "objective"}, {"relation": "x"},
        {"method": "output", "regularization": "1/100"}, {"method": "output", "regularization": -1},
        {"method": "objective", "regularization": "1/64", "epsilon": "0.1"},
        {"method": "objective", "classes": [0, 1, 2]}, {"method": "objective", "epsilon": "1e-9"},
    )),
]  # fmt: skip


def name(model: Any) -> str:
    changed = {k: v for k, v in model.get_params().items() if v is not None}
    return f"{type(model).__name__} {changed}"[:100]


def table(rows: int) -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(3)
    return made.uniform(0, 1, size=(rows, 2)), made.integers(0, 2, size=rows)


def test_every_estimator_is_here() -> None:
    public = [getattr(tacit.learn, each) for each in tacit.learn.__all__]
    assert {each for each in public if inspect.isclass(each)} == {type(model) for model in FITS}
    assert {type(model) for model in FITS} == {type(model) for model in WRONG}


def noises(event: Event) -> list[tuple[str, int, Fraction]]:
    """The draws that an event describes; of objective perturbation the last one, since its first is only promised."""
    match event:
        case ComposedEvent():
            return [draw for part in event.events for draw in noises(part)]
        case RepeatedEvent():
            return noises(event.event) * event.count
        case PoissonSampledEvent():
            return noises(event.event)
        case DiscreteGaussianEvent() | SampledSumEvent():
            return [("gaussian", event.dimension, event.sigma2)]
        case DiscreteLaplaceEvent():
            return [("laplace", event.dimension, event.scale)]
        case _:
            return []


@pytest.mark.parametrize("model", FITS, ids=map(name, FITS))
def test_the_price_is_what_a_fit_releases(model: Any, seeded: SeededBits, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, int, Fraction]] = []

    def recording(kind: str) -> Any:
        true = getattr(noising, f"release_{kind}")
        return lambda raw, noise: (drawn.append((kind, raw.size, noise)), true(raw, noise))[1]

    for kind in ("gaussian", "laplace"):
        monkeypatch.setattr(noising, f"release_{kind}", recording(kind))
    price = model.price(2)
    assert not drawn, "a price draws no noise"
    assert not hasattr(model, "guarantee_"), "a price changes nothing"
    for rows in (0, 200):
        drawn.clear()
        model.fit(*table(rows))
        assert (model.guarantee_, model.event_) == (price.guarantee, price.event)
        assert model.privacy_report().releases == price.releases
        tilted = model.get_params().get("method") == "objective"
        two_sided = isinstance(price.event, ApproxEvent) and price.event.relation is REPLACE_ONE
        stopped = model.get_params().get("stopping") is not None
        # How often chance lets a search run is not known beforehand; the price is that of any number of runs.
        assert two_sided or stopped or drawn[1 if tilted else 0 :] == noises(price.event)


@pytest.mark.parametrize("model", FITS, ids=map(name, FITS))
def test_the_releases_are_worth_the_guarantee(model: Any) -> None:
    price = model.price(2)
    if isinstance(price.guarantee, PureDP):
        assert PURE.covers(price.guarantee, PURE.cost(price.event, price.event.relation))
        return
    epsilon, delta, event = price.guarantee.epsilon, price.guarantee.delta, price.event
    if isinstance(event, ComposedEvent) and isinstance(event.events[0], ApproxEvent):
        # What objective perturbation promises, and what is left for the last noise.
        epsilon, delta = epsilon - event.events[0].epsilon, delta - event.events[0].delta
        event = event.events[1]
    assert compose([event], delta=delta, method="best").epsilon <= epsilon


@pytest.mark.parametrize("model", WRONG, ids=map(name, WRONG))
def test_what_a_fit_refuses_has_no_price(model: Any, seeded: SeededBits) -> None:
    """A fit that is refused on its rows alone would be charged for nothing."""
    with pytest.raises(InputError) as fitted:
        model.fit(*table(0))
    with pytest.raises(InputError) as priced:
        model.price(2)
    if "bounds" not in fitted.value.parameter and fitted.value.parameter != "X":
        assert str(priced.value) == str(fitted.value)


@pytest.mark.parametrize("kind", [GaussianNB, LogisticRegression, LinearSVC])
def test_classes_that_are_to_be_found_have_no_price_beforehand(kind: Any) -> None:
    with pytest.raises(InputError, match="must be declared for the cost to be known"):
        kind(**TWO, classes="discover").price(2)
