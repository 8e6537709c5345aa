"""Pytest fixture for record and replay in a user's own tests.

In ``conftest.py``::

    pytest_plugins = ["tacit.audit.pytest"]

and in a test::

    def test_my_report_is_private(assert_private):
        assert_private(my_report, [31, 45, 27], claimed="0.5")
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest

from tacit.audit.replay import ReplayReport
from tacit.audit.search import Neighbours, replay_neighbours
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number
from tacit.core.relations import ADD_REMOVE, Relation


@pytest.fixture
def assert_private() -> Callable[..., list[ReplayReport]]:
    """Return a function that records and replays code, and fails with the findings.

    It takes the code to test and either a database from which neighbours are proposed, or ``neighbours``.
    """
    return _assert_private


def _assert_private(
    function: Callable[[Any], Any],
    database: Any = None,
    *,
    neighbours: Iterable[Neighbours | tuple[Any, Any]] | None = None,
    relation: Relation | str = ADD_REMOVE,
    unit: Hashable | None = None,
    claimed: Number | Guarantee | None = None,
    see: Callable[[Any], Any] | None = None,
) -> list[ReplayReport]:
    __tracebackhide__ = True
    pairs = None
    if neighbours is not None:
        pairs = [pair if isinstance(pair, Neighbours) else Neighbours("as given", *pair) for pair in neighbours]
    reports = replay_neighbours(
        function, database, relation=relation, unit=unit, neighbours=pairs, claimed=claimed, see=see
    )
    found = [report for report in reports if not report]
    if found:
        pytest.fail("\n".join(str(report) for report in found), pytrace=False)
    if not any(report.moved for report in reports):
        pytest.fail("no mechanism's input moved on any pair of neighbours: nothing was tested", pytrace=False)
    return reports
