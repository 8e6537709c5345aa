"""Sums of released cells: noise that decides which cells are added is noise in the sum, and long sums stay cheap."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from support.bits import SeededBits
from support.toy_engine import ToyEngine
from tacit.engines.protocol import MeasurementTask
from tacit.query import limits
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess import rows as derived
from tacit.query.postprocess.cells import Affine
from tacit.query.postprocess.result import Finished, finish
from tacit.query.refusal import Refusal
from tacit.query.release import release
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER

GROUPS = 120
CATALOG = Catalog(
    (
        Table(
            "visits",
            (Column("person", INTEGER), Column("g", INTEGER, bounds=(0, GROUPS - 1))),
            population="people",
            unit="person",
        ),
    ),
    (Population("people"),),
)
COUNTS = "(SELECT g, COUNT(*) AS n FROM visits GROUP BY g)"
RUNNING = "OVER (ORDER BY g ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"


def finished(sql: str, visits: Sequence[dict[str, Any]] = ()) -> Finished:
    """The answer; of an empty table every count is 0, and so is every sum."""
    plan = make_plan(sql, CATALOG, Request(epsilon="1", account=Account("pure")))
    released = release(plan, ToyEngine({"visits": list(visits)}).measure(MeasurementTask(plan.final, b"")))
    return finish(plan.query, released, confidence="0.95")


@pytest.mark.parametrize("function", ["SUM", "AVG", "MIN", "MAX", "MEDIAN", "STDDEV_POP"])
def test_a_filter_on_noise_is_in_the_interval(function: str, seeded: SeededBits) -> None:
    """All that is added up was chosen for being positive; the sum of the truths is 0 all the same."""
    answer = finished(f"SELECT {function}(n) FILTER (WHERE n > 0) AS s FROM {COUNTS}")
    (value,), ((low, high),) = answer.values[0], answer.intervals()[0]
    assert value is not None
    assert low <= 0 <= high  # type: ignore[operator]
    assert low <= value <= high  # type: ignore[operator]


@pytest.mark.parametrize("function", ["COUNT", "SUM", "AVG", "MIN", "MAX"])
@pytest.mark.parametrize(
    "form", ["FROM (SELECT g, COUNT(*) AS n FROM visits GROUP BY g HAVING n > 0)", f"FROM {COUNTS} WHERE n > 0"]
)
def test_groups_that_noise_keeps_are_in_doubt(function: str, form: str, seeded: SeededBits) -> None:
    crowd = [{"person": person, "g": person % 10} for person in range(2000)]
    answer = finished(f"SELECT {function}(n) AS s {form}", crowd)
    (value,), ((low, high),) = answer.values[0], answer.intervals()[0]
    truth = {"COUNT": 10, "SUM": 2000}.get(function, 200)
    assert low <= truth <= high  # type: ignore[operator]
    assert low <= value <= high  # type: ignore[operator]
    assert value != truth
    # Nothing but the certain groups, and all that are not out of the query.
    assert function != "COUNT" or (low == 10 and 10 < value < high <= GROUPS)  # type: ignore[operator]
    assert function != "AVG" or 0 < low < 100  # type: ignore[operator]


def test_what_a_filter_keeps_or_drops_for_certain_is_in_no_doubt(seeded: SeededBits) -> None:
    crowd = [{"person": person, "g": person % 10} for person in range(2000)]
    low, high = finished(f"SELECT SUM(n) FILTER (WHERE n > 100) AS s FROM {COUNTS}", crowd).intervals()[0][0]
    assert 1800 < low < 2000 < high < 2200  # type: ignore[operator]


def test_a_filter_on_keys_leaves_a_sum_one_sum_of_noise(seeded: SeededBits) -> None:
    """The bound of a sum of independent noises, far below that of a box around them."""
    low, high = finished(f"SELECT SUM(n) FILTER (WHERE g < 100) AS s FROM {COUNTS}").intervals()[0][0]
    assert high - low < 100  # type: ignore[operator]


def test_running_aggregates_have_a_limit(monkeypatch: pytest.MonkeyPatch, seeded: SeededBits) -> None:
    monkeypatch.setattr(limits, "MAX_PAIRS", GROUPS * (GROUPS + 1) // 2)
    assert len(finished(f"SELECT g, SUM(n) {RUNNING} AS s FROM {COUNTS}").values) == GROUPS
    monkeypatch.setattr(limits, "MAX_PAIRS", GROUPS * (GROUPS + 1) // 2 - 1)
    with pytest.raises(Refusal, match=f"at most {GROUPS - 1} rows of a partition") as refusal:
        finished(f"SELECT g, SUM(n) {RUNNING} AS s FROM {COUNTS}")
    assert refusal.value.reason == "too_large"


def test_a_long_sum_beside_every_row_is_not_copied_into_it(monkeypatch: pytest.MonkeyPatch, seeded: SeededBits) -> None:
    """Otherwise n rows would hold n weights each."""
    largest: list[int] = []
    total = Affine.total

    def watched(parts: list[Affine]) -> Affine:
        found = total(parts)
        largest.append(len(found.weights))
        return found

    monkeypatch.setattr(Affine, "total", staticmethod(watched))
    answer = finished(f"SELECT g, n - AVG(n) OVER () AS s FROM {COUNTS}")
    # 0.05 of them may miss on average; 20 or more would do so by chance less than once in 10⁴ runs.
    assert sum(low <= 0 <= high for _, (low, high) in answer.intervals()) > GROUPS - 20  # type: ignore[operator]
    assert GROUPS in largest
    assert sum(size > derived._MOST_WEIGHTS for size in largest) == 1
    short = finished(f"SELECT g, n - AVG(n) OVER () AS s FROM {COUNTS} WHERE g < 2").intervals()
    # (n₀ - n₁)/2: one sum of noises, in which the first count's own weight is 1 - 1/2.
    assert short[0][1][1] - short[0][1][0] == short[1][1][1] - short[1][1][0]  # type: ignore[operator]
    assert Fraction(short[0][1][1] - short[0][1][0]) < 20  # type: ignore[operator, arg-type]
