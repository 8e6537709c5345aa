"""Models as JSON text: parameters and learned attributes, exact to the last bit; read without executing code.

Only the classes below are read: estimators of this package and the data classes of their attributes. A text that names
any other class is refused.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from tacit.accounting.composition_plan import Composed
from tacit.core import events, guarantees
from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation, as_relation
from tacit.learn import additive, binned, boosting, integer_rows, training, whitening
from tacit.learn.estimator import PrivateEstimator

_VERSION: Final = 1
#: Data classes that a fitted model may hold.
_HELD: Final = (
    additive.FittedShapes,
    additive.Shape,
    integer_rows.Box,
    training.Linear,
    whitening.RowMap,
    boosting.DecisionTree,
    boosting.TreeQuestion,
    binned.StandardTarget,
    whitening.Covariance,
)
_PUBLIC: Final = tuple(
    found
    for module in (guarantees, events)
    for found in vars(module).values()
    if isinstance(found, type) and dataclasses.is_dataclass(found)
)
_KNOWN: Final[dict[str, Any]] = {kind.__name__: kind for kind in (*_HELD, *_PUBLIC, Composed)}
_COMPOSED: Final = ("epsilon", "delta", "relation", "method", "lower", "note")
_DTYPES: Final = ("float64", "int64", "bool")


def _estimators() -> dict[str, type[PrivateEstimator]]:
    from tacit import learn

    found = (getattr(learn, name) for name in learn.__all__)
    return {kind.__name__: kind for kind in found if isinstance(kind, type) and issubclass(kind, PrivateEstimator)}


class _Models:
    """Collection of the names of the estimators that can be written and read."""

    def __contains__(self, name: object) -> bool:
        return name in _estimators()

    def __iter__(self) -> Any:
        return iter(sorted(_estimators()))

    def made(self, name: str, params: dict[str, Any]) -> PrivateEstimator:
        """Return an unfitted estimator.

        Raises:
            InputError: unknown name of an estimator, or unknown parameter.
        """
        kind = _estimators().get(name)
        if kind is None:
            raise InputError("estimator", f"must be one of {', '.join(self)}")
        try:
            return kind(**params)
        except TypeError:
            known = ", ".join(kind._get_param_names())
            raise InputError("parameters", f"of {name} are {known}; epsilon must be given") from None


MODELS: Final = _Models()


def parameters_to_json(model: PrivateEstimator) -> dict[str, Any]:
    """Return the parameters that differ from the defaults, as JSON values; :func:`parameters_from_json` reads them."""
    usual = {name: part.default for name, part in inspect.signature(type(model).__init__).parameters.items()}
    stated = model.get_params(deep=False)
    return {name: _to_json(value) for name, value in stated.items() if not _is(value, usual.get(name))}


def parameters_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an estimator's constructor, from JSON values."""
    return {name: _from_json(value) for name, value in data.items()}


def _is(value: Any, usual: Any) -> bool:
    return value is usual or (isinstance(value, str | int | float | bool) and value == usual)


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | Fraction | Decimal):
        return str(value)
    if isinstance(value, Relation):
        return "add_remove" if value is ADD_REMOVE else "replace_one"
    if isinstance(value, np.generic | np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _to_json(each) for key, each in value.items()}
        return {"pairs": [[_to_json(key), _to_json(each)] for key, each in value.items()]}
    if isinstance(value, Iterable):
        return [_to_json(each) for each in value]
    raise InputError("estimator", f"has a parameter of the type {type(value).__name__}, which cannot be sent")


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"pairs"}:
            try:
                return {key: _from_json(each) for key, each in value["pairs"]}
            except (TypeError, ValueError):
                raise InputError("parameters", "pairs must be a list of [key, value]") from None
        return {key: _from_json(each) for key, each in value.items()}
    return [_from_json(each) for each in value] if isinstance(value, list) else value


def load_model(path: str | Path) -> Any:
    """Read a model from a file that ``Fitted.save`` wrote, or that was downloaded from a server.

    Raises:
        InputError: the file holds no model.
    """
    return model_from_text(Path(path).read_text(encoding="utf-8"))


def model_to_text(model: PrivateEstimator) -> str:
    """Return a fitted model as JSON text; :func:`model_from_text` reads it."""
    held = {name: _plain(value) for name, value in sorted(vars(model).items())}
    data = {"tacit model": _VERSION, "estimator": type(model).__name__, "held": held}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def model_from_text(text: str) -> Any:
    """Return the model of a text from :func:`model_to_text`.

    Raises:
        InputError: the text is no model, or of an unknown version.
    """
    try:
        data = json.loads(text)
        if data["tacit model"] != _VERSION:
            raise InputError("model", f"is not of version {_VERSION}, the only one that is read")
        kind = _estimators()[data["estimator"]]
        held = {name: _read(value) for name, value in data["held"].items()}
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise InputError("model", "is not a model that Tacit has written") from None
    params = set(kind._get_param_names())
    if not params <= set(held) or not all(name in params or _is_attribute(name, kind) for name in held):
        raise InputError("model", "is not a model that Tacit has written")
    model = kind.__new__(kind)
    model.__dict__.update(held)
    return model


def _is_attribute(name: str, kind: type[PrivateEstimator]) -> bool:
    """Return whether a fit may set an attribute of this name: learned or private, and no attribute of the class."""
    own = name.startswith("_") != name.endswith("_") and not name.startswith("__")
    return own and not hasattr(kind, name)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Relation):
        return {"relation": "add_remove" if value is ADD_REMOVE else "replace_one"}
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, Decimal) and value.is_finite():
        return {"fraction": str(Fraction(value))}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        if value.dtype.name in _DTYPES:
            cells = [each.hex() if isinstance(each, float) else int(each) for each in value.ravel().tolist()]
            return {"array": value.dtype.name, "shape": list(value.shape), "cells": cells}
        return {"labels": [_plain(each) for each in value.tolist()], "object": value.dtype == object}
    if isinstance(value, tuple | list | range):
        return {"list" if isinstance(value, list) else "tuple": [_plain(each) for each in value]}
    if isinstance(value, dict):
        return {"pairs": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if isinstance(value, Composed):
        return {"class": "Composed", "fields": {name: _plain(getattr(value, name)) for name in _COMPOSED}}
    if dataclasses.is_dataclass(value) and type(value).__name__ in _KNOWN:
        fields = {part.name: _plain(getattr(value, part.name)) for part in dataclasses.fields(value) if part.init}
        return {"class": type(value).__name__, "fields": fields}
    raise InputError("model", f"holds a {type(value).__name__}, which cannot be written as text")


def _read(data: Any) -> Any:
    if data is None or isinstance(data, bool | str):
        return data
    if "relation" in data:
        return ADD_REMOVE if as_relation(data["relation"]) is ADD_REMOVE else REPLACE_ONE
    if "int" in data:
        return int(data["int"])
    if "float" in data:
        return float.fromhex(data["float"])
    if "fraction" in data:
        # Only a quotient of two integers is read: a decimal with an exponent may need more digits than memory has.
        numerator, _, denominator = data["fraction"].partition("/")
        return Fraction(int(numerator), int(denominator or 1))
    if "array" in data:
        dtype = _DTYPES[_DTYPES.index(data["array"])]
        return np.array([_cell(each, dtype) for each in data["cells"]], dtype=dtype).reshape(data["shape"])
    if "labels" in data:
        return np.array([_read(each) for each in data["labels"]], dtype=object if data["object"] else None)
    if "list" in data:
        return [_read(each) for each in data["list"]]
    if "tuple" in data:
        return tuple(_read(each) for each in data["tuple"])
    if "pairs" in data:
        return {_read(key): _read(each) for key, each in data["pairs"]}
    made = _KNOWN[data["class"]]
    return made(**{name: _read(each) for name, each in data["fields"].items()})


def _cell(cell: Any, dtype: str) -> float | int:
    if dtype == "float64":
        return float.fromhex(cell)
    if type(cell) is not int:
        raise TypeError(cell)
    return cell
