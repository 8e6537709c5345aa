"""The search for AUTO limits moves by at most 1, and the rest depends on the data through the numbers found alone.

Queries of the corpus with both limits AUTO, on the corpus database and on it without one unit, with the real engine.
Nothing is sampled: what the search would release is replayed, the same on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE, without
from support.engine_comparison import check_close, corpus_frames, opened
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.engines.protocol import MeasurementTask
from tacit.query import release as noising
from tacit.query.planning.auto_limits import FoundLimits, cells_of
from tacit.query.planning.plan import Plan, make_plan, plan_query, with_found, with_limits
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve

SECRET = b"another secret"
OWN = (
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT ward, COUNT(DISTINCT patient_id) FROM visits GROUP BY ward",
    "SELECT SUM(CLAMP(cost, AUTO)), COUNT(*) FILTER (WHERE cost > 10) FROM visits",
    "SELECT COUNT(DISTINCT ward) FROM visits",
    "SELECT SUM(cost) FROM visits",
    "SELECT doctor, COUNT(*), AVG(cost) FROM visits GROUP BY doctor",
)
#: Of which the rows in all groups are sought.
TOTALS = (
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT ward, AVG(cost), COUNT(*) FROM visits WHERE cost > 10 GROUP BY ward",
    "SELECT ward, SUM(CLAMP(cost, AUTO)) FROM visits GROUP BY ward",
)
UNITS = len({row["patient_id"] for row in DATABASE["visits"]})


def planned(sql: str, account: str = "zcdp") -> Plan:
    delta = "1e-6" if account == "zcdp" else None
    request = Request(epsilon=1, max_groups="auto", max_rows="auto", account=Account(account, delta))
    return make_plan(sql, CATALOG, request)


def asked() -> list[Plan]:
    """Plans that search for limits, about one population."""
    plans = [planned(sql) for sql in (*OWN, *ACCEPTED[::24]) if "OPTIONS" not in sql]
    plans += [planned(sql, "pure") for sql in TOTALS]
    return [plan for plan in plans if plan.seeks_limits and plan.final.population == "patients"]


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return asked()


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Any, Any]]:
    """The corpus database, and the same without a patient."""
    one, other = opened(CATALOG, corpus_frames(DATABASE)), opened(CATALOG, corpus_frames(without("patients", 1)))
    yield one, other
    one.close()
    other.close()


@contextmanager
def replayed(values: np.ndarray[Any, Any], seen: list[Any]) -> Iterator[None]:
    """Every mechanism returns ``values`` of the right shape instead of noisy integers, and its input is recorded."""

    def draw(step: Any, keys: Any, raw: Any) -> Any:
        seen.append((step, np.array(raw, dtype=object)))
        return np.resize(values, raw.shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noising, "draw", draw)
        yield


def test_there_are_queries_to_ask(plans: list[Plan]) -> None:
    assert len(plans) >= 12
    assert any(plan.final.auto_groups and plan.final.auto_rows for plan in plans)
    assert any(plan.final.auto_groups and not plan.final.auto_rows for plan in plans)
    assert any(plan.final.auto_rows and not plan.final.auto_groups for plan in plans)
    assert sum(plan.final.auto_total and not plan.final.auto_rows for plan in plans) == len(TOTALS)
    assert any(plan.final.auto_total and plan.final.auto_rows for plan in plans)
    assert any(plan.keys is not None for plan in plans)
    assert any(len(plan.searches) == 2 for plan in plans), "limits and bounds of one query"


def test_a_unit_is_in_one_cell(plans: list[Plan], engines: tuple[Any, Any]) -> None:
    moved = 0
    for plan in plans:
        search = plan.first
        assert search is not None
        work = MeasurementTask(search.final, SECRET)
        one, other = (engine.measure(work) for engine in engines)
        cells = cells_of(plan.final)
        sizes = [len(cells.groups), len(cells.rows)] if len(search.priced.releases) == 2 else [cells.count]
        for release, raw, rest, size in zip(search.priced.releases, one.raw, other.raw, sizes, strict=True):
            moves = np.abs(raw - rest).sum()
            assert moves <= release.block.sensitivity.l1 == 1
            assert raw.shape == (1, size)
            assert int(raw.sum()) <= UNITS
        moved += int(moves)
    assert moved >= len(plans) // 2


def test_the_rest_depends_on_the_data_through_the_limits_alone(plans: list[Plan], engines: tuple[Any, Any]) -> None:
    """Replay one released histogram on neighbours: the same plan, digest, charge; inputs within its sensitivity."""
    differing = 0
    for number, plan in enumerate(plans):
        search = plan.first
        assert search is not None
        noisy = np.where(np.arange(289) % (5 + number % 7) == 0, 10_000, 0)
        rests, seen = [], []
        for engine in engines:
            recorded: list[Any] = []
            with replayed(noisy, recorded):
                released = noising.add_noise(*search, engine.measure(MeasurementTask(search.final, SECRET)))
            seen.append(recorded)
            rests.append(with_found(plan, released.noisy, released.laws))
        one, other = rests
        assert one == other
        assert (one.digest, one.guarantee) == (other.digest, plan.guarantee)
        assert one.limits is not None
        assert one.limits.seen
        assert [step for step, _ in seen[0]] == [step for step, _ in seen[1]]
        differing += any((a != b).any() for (_, a), (_, b) in zip(*seen, strict=True))
    assert differing >= len(plans) // 2


@pytest.mark.parametrize("numbers", [(2, 3), (5, 1), (1, 64)])
def test_no_unit_moves_the_rest_further_than_declared_whatever_was_found(
    plans: list[Plan], engines: tuple[Any, Any], numbers: tuple[int, int]
) -> None:
    for plan in plans:
        groups = min(numbers[0], plan.final.group_count or 99) if plan.final.auto_groups else None
        total = numbers[0] * numbers[1] if plan.final.auto_total else None
        rest = with_limits(plan, FoundLimits(groups, numbers[1] if plan.final.auto_rows else None, total=total))
        assert (rest.guarantee, rest.priced.limits) == (plan.guarantee, plan.priced.limits)
        work = MeasurementTask(rest.final, SECRET)
        check_close(rest.final, *(engine.measure(work) for engine in engines), f"{numbers} {plan.query.text}")


def test_replacing_a_unit_moves_the_search_by_two() -> None:
    for relation, moved in ((ADD_REMOVE, 1), (REPLACE_ONE, 2)):
        query = resolve("SELECT ward, COUNT(*) FROM visits GROUP BY ward", CATALOG, max_rows="auto")
        plan = plan_query(query, relation, Request(epsilon=1, max_rows="auto", max_groups="auto"))
        assert plan.first is not None
        assert plan.first.priced.releases[0].block.sensitivity.l1 == moved
