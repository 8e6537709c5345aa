"""Numbers that mean nothing are refused before anything is computed with them: a quote is free, and must be cheap."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tacit
from tacit.core.errors import InputError

DATA = pa.table({"person": [1, 2], "town": ["a", "b"], "cost": [1.0, 2.0]})
SQL = "SELECT town, COUNT(*), AVG(cost) FROM data GROUP BY town"


@pytest.fixture(scope="module")
def curator() -> Any:
    known: dict[str, Any] = {"columns": {"cost": (0, 100)}, "max_groups": 1, "max_rows": 1}
    with tacit.open(DATA, unit="person", epsilon="1000", delta="1e-6", **known) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("epsilon", {"epsilon": "1000001"}),
        ("epsilon", {"epsilon": "1e200"}),
        ("rho", {"rho": "1e13"}),
        ("delta", {"epsilon": 1, "delta": "1e-40"}),
        ("within", {"within": "9" * 40}),
        ("within", {"within": {"avg(cost)": "1e-13"}}),
        ("confidence", {"epsilon": 1, "confidence": "1e-12"}),
        ("confidence", {"within": 10, "confidence": "0." + "9" * 30}),
        ("weights", {"epsilon": 1, "weights": {"avg(cost)": "1e9"}}),
        ("weights", {"epsilon": 1, "weights": {"avg(cost)": "1e-9"}}),
    ],
)
def test_a_number_without_meaning_is_refused_by_its_name(curator: Any, name: str, words: dict[str, Any]) -> None:
    with pytest.raises(InputError) as problem:
        curator.explain(SQL, **words)
    assert problem.value.parameter == name


def test_options_in_the_text_are_held_to_the_same(curator: Any) -> None:
    with pytest.raises(InputError, match="epsilon"):
        curator.explain("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100000000) COUNT(*) FROM data")


@pytest.mark.parametrize(
    "words", [{"epsilon": "1e6"}, {"within": "1e18", "suppose": 1000}, {"epsilon": 1, "delta": "1e-30"}]
)
def test_the_ends_of_what_is_allowed_can_be_computed_with(curator: Any, words: dict[str, Any]) -> None:
    assert curator.explain(SQL, **words).plan.guarantee is not None
