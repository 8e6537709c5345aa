"""Models as text: every estimator comes back equal to the last bit, and nothing else can be read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.bits import SeededBits
from tacit import learn
from tacit.core.errors import InputError
from tacit.learn.model_format import MODELS, model_from_text, model_to_text, parameters_from_json, parameters_to_json

NAMES = [name for name in MODELS if name != "PrivateSearch"]


def fitted(name: str) -> tuple[Any, Any]:
    """A model, and rows to ask it about."""
    made = np.random.default_rng(1)
    X = made.uniform(0, 1, (80, 3))
    kind = getattr(learn, name)
    known = kind._get_param_names()
    given: dict[str, Any] = {"epsilon": 3, "delta": "1e-5", "bounds": (0, 1), "target_bounds": (1, 3)}
    given |= {"classes": ["no", "yes", "so"], "steps": 3, "trees": 4, "rounds": 2, "n_clusters": 2}
    labels = np.array(["no", "yes", "so"])[made.integers(0, 3, 80)]
    model = kind(**{key: value for key, value in given.items() if key in known})
    return model.fit(X, labels if "classes" in known else 1 + X[:, 1]), X


@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_to_the_last_bit(name: str, seeded: SeededBits) -> None:
    model, X = fitted(name)
    text = model_to_text(model)
    again = model_from_text(text)
    assert model_to_text(again) == text
    asked = (
        "predict_proba" if hasattr(model, "predict_proba") else "predict" if hasattr(model, "predict") else "transform"
    )
    np.testing.assert_array_equal(getattr(again, asked)(X), getattr(model, asked)(X))
    assert str(again.privacy_report()) == str(model.privacy_report())
    assert (again.guarantee_, again.event_) == (model.guarantee_, model.event_)


@pytest.mark.parametrize(
    "change",
    [
        {"tacit model": 2},
        {"estimator": "Popen"},
        {"held": {"coef_": {"class": "Popen", "fields": {"args": "ls"}}}},
        {"held": {"coef_": {"array": "object", "shape": [1], "cells": [1]}}},
        {"held": {"coef_": {"array": "float64", "shape": [2], "cells": ["0x1p0"]}}},
        {"held": {"coef_": 3}},
        {"held": 3},
        {"held": {}},
        {"more": {"fit": None}},
        {"more": {"__class__": None}},
        {"more": {"other": None}},
        {"more": {"a_": {"fraction": "1e99999999999"}}},
        {"more": {"a_": {"fraction": "1/0"}}},
        {"more": {"a_": {"float": "0x1p99999"}}},
        {"more": {"a_": {"array": "int64", "shape": [1], "cells": [2**70]}}},
        {"more": {"a_": {"array": "float64", "shape": [1], "cells": [None]}}},
        {"more": {"a_": {"class": "PureEvent", "fields": {"epsilon": {"int": "-1"}}}}},
    ],
)
def test_other_texts_are_refused(change: dict[str, Any], seeded: SeededBits) -> None:
    told = json.loads(model_to_text(fitted("GaussianNB")[0])) | change
    if "more" in told:
        told["held"] |= told.pop("more")
    with pytest.raises(InputError):
        model_from_text(json.dumps(told))
    for wrong in ("", "[]", "{}", "3", "null", "[" * 100_000, '{"list":[' * 5_000):
        with pytest.raises(InputError):
            model_from_text(wrong)


def test_another_version_is_named(seeded: SeededBits) -> None:
    told = json.loads(model_to_text(fitted("GaussianNB")[0])) | {"tacit model": 2}
    with pytest.raises(InputError, match="is not of version 1, the only one that is read"):
        model_from_text(json.dumps(told))


def test_parameters_are_sent_as_they_are() -> None:
    model = learn.LogisticRegression(
        epsilon=0.5, delta="1e-6", bounds=np.array([[0, 1], [2, 3.5]]), classes=range(2), class_weight={0: 1, 1: 4},
        categories={"town": ["a", "b"]}, steps=7,
    )  # fmt: skip
    told = json.loads(json.dumps(parameters_to_json(model)))
    assert told["epsilon"] == "0.5"
    assert "method" not in told
    back = MODELS.made("LogisticRegression", parameters_from_json(told)).get_params()
    assert (back["classes"], back["class_weight"], back["categories"]) == ([0, 1], {0: 1, 1: 4}, {"town": ["a", "b"]})
    assert (back["steps"], back["bounds"][1][1]) == (7, "3.5")
    with pytest.raises(InputError, match="cannot be sent"):
        parameters_to_json(learn.LogisticRegression(epsilon=1, bounds=object()))
