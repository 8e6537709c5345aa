"""Strange values in every place where a caller can put one: a refusal that names the argument, or a proper result."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.core.errors import InputError
from tacit.mechanisms import planning

STRANGE: list[Any] = [
    0, -1, "nan", float("nan"), float("inf"), True, None, [], "abc", "1e400", "1e-300", 1e300, 2**70, Fraction(1, 3),
    Decimal("NaN"), np.array([1, 2]), np.array([]), np.array(1.0), np.array([[1, 2], [3, 4]]), b"x", {}, (1, 2), 5e-324,
    1j, [float("nan")], [1, "a"], [[1], [2, 3]], [True, False], [10**30],
]  # fmt: skip

MECHANISMS: dict[str, dict[str, Any]] = {
    "Laplace": {"epsilon": 1, "l1_sensitivity": 1},
    "Gaussian": {"epsilon": 1, "delta": "1e-6", "l2_sensitivity": 1, "dimension": 1},
    "RandomizedResponse": {"epsilon": 1},
    "Exponential": {"epsilon": 1, "sensitivity": 1},
    "PermuteAndFlip": {"epsilon": 1, "sensitivity": 1},
    "NoisyMax": {"epsilon": 1, "sensitivity": 1},
    "TopK": {"epsilon": 1, "k": 2, "sensitivity": 1},
    "SparseVector": {"epsilon": 1, "sensitivity": 1, "threshold": 5},
    "Histogram": {"epsilon": 1, "bins": ["a", "b"]},
    "CountingQueries": {"epsilon": 1, "k": 2},
    "Mean": {"epsilon": 1, "bounds": (0, 1)},
}


def only_refusals(action: Any) -> None:
    """Run it; the only error it may raise is one of Tacit's."""
    with contextlib.suppress(tacit.TacitError):
        action()


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("strange", STRANGE, ids=lambda value: repr(value)[:20])
def test_mechanisms(name: str, strange: Any) -> None:
    arguments = MECHANISMS[name]
    make = getattr(tacit, name)
    for parameter in arguments:
        only_refusals(lambda parameter=parameter: make(**{**arguments, parameter: strange}))
    mechanism = make(**arguments)
    if name == "CountingQueries":
        only_refusals(lambda: mechanism.release_counts(strange))
        only_refusals(lambda: mechanism.release(strange, [bool, bool]))
    else:
        only_refusals(lambda: mechanism.release(strange))
    choices = () if name in ("Laplace", "Gaussian", "Histogram", "CountingQueries", "Mean") else (5,)
    only_refusals(lambda: mechanism.error(strange, *choices))


@pytest.mark.parametrize("strange", STRANGE, ids=lambda value: repr(value)[:20])
def test_composition_and_planning(strange: Any) -> None:
    pure = tacit.PureDP("0.1")
    for method in ("basic", "advanced", "optimal", "zcdp", "rdp", "pld", "best"):
        only_refusals(lambda method=method: tacit.compose([pure] * 3, delta=strange, method=method))
    only_refusals(lambda: tacit.compose(strange, delta="1e-6"))
    only_refusals(lambda: tacit.compose([strange], delta="1e-6"))
    only_refusals(lambda: tacit.compose([(pure, strange)], delta="1e-6"))
    only_refusals(lambda: tacit.compose([pure], delta="1e-6", method=strange))
    known = {"within": "0.01", "confidence": "0.95", "epsilon": "0.1", "people": None}
    for parameter in known:
        only_refusals(lambda parameter=parameter: planning.plan("laplace", **{**known, parameter: strange}))


def test_the_smallest_chances_have_an_error_bound() -> None:
    """1 - β/2 rounds to 1 at any fixed precision; the tail must be taken before that."""
    gaussian = tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1)
    assert gaussian.error("1e-300") > gaussian.error("1e-30") > gaussian.error("0.05")


@pytest.mark.parametrize("name", ["Laplace", "Gaussian", "NoisyMax", "Mean", "RandomizedResponse"])
def test_arguments_without_names_are_asked_for_by_name(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}\(\w+=…") as refused:
        getattr(tacit, name)(1, 1)
    assert refused.value.parameter == "arguments"
