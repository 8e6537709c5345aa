"""The self-audit's checks of order, ties and certificates: they pass, and they fail on code that has the bug."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tacit.accounting import optimal
from tacit.accounting.composed import Composed
from tacit.audit.self_audit import claim_checks
from tacit.mechanisms import partition_selection
from tacit.mechanisms import selection_scores as scores

pytestmark = pytest.mark.usefixtures("seeded")
CHECKS = {name: run for name, _, run in claim_checks(1_000, 0.9999)}


@pytest.mark.parametrize("name", CHECKS)
def test_it_passes(name: str) -> None:
    verdict = CHECKS[name]()
    assert not verdict.caught, verdict.words


def as_given(keys: Iterable[Any]) -> dict[int, Any]:
    return dict(enumerate(keys))


@pytest.mark.parametrize("name", [name for name in CHECKS if "mapping" in name or "form" in name])
def test_it_catches_the_order_of_a_mapping(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (partition_selection, scores):
        monkeypatch.setattr(module, "plain_order", as_given)
    assert CHECKS[name]().caught


def test_it_catches_a_release_dearer_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.accounting.compose.stated_sum", lambda _: None)
    assert CHECKS["one release in a list of one"]().caught


def test_it_catches_a_lower_end_of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_lower(*args: Any, **given: Any) -> Composed:
        answer = Composed(*args, **given)
        return Composed(answer.epsilon, answer.delta, relation=answer.relation, method="optimal", lower=answer.epsilon)

    monkeypatch.setattr(optimal, "Composed", with_lower)
    assert CHECKS["lower ends of compositions"]().caught
