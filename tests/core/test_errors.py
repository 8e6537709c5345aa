"""The tree of errors: stable codes, who may see what."""

from __future__ import annotations

import pickle

import pytest

from tacit.core import errors
from tacit.core.errors import InputError, TacitError


def leaves() -> list[type[TacitError]]:
    return [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, TacitError)]


def test_codes_are_stable_and_distinct() -> None:
    assert {kind.__name__: kind.code for kind in leaves()} == {
        "TacitError": "tacit",
        "InputError": "input",
        "QueryError": "query",
        "BudgetError": "budget",
        "AccessError": "access",
        "AccountingError": "accounting",
        "EngineError": "engine",
        "FailedRunError": "engine.failed",
        "DelayedError": "engine.delayed",
        "MissingSourceError": "engine.source",
        "InternalError": "internal",
    }


def test_what_may_quote_data_is_opaque() -> None:
    assert {kind.__name__ for kind in leaves() if kind.opaque} == {"EngineError", "MissingSourceError", "InternalError"}


def test_the_tree_is_drawn_in_full() -> None:
    for kind in leaves():
        assert kind.__name__ in (errors.__doc__ or "")


def test_input_errors_name_the_parameter_and_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(InputError("epsilon", "must be greater than 0")))
    assert (error.parameter, str(error)) == ("epsilon", "epsilon: must be greater than 0")
    assert isinstance(error, ValueError)
    with pytest.raises(TacitError):
        raise error
