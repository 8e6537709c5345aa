"""The checks of who is a person pass, and each of them fails on the bug that it is there for."""

from __future__ import annotations

import pytest

from tacit.audit import self_audit as audited_units
from tacit.audit.checks import run_checks
from tacit.audit.self_audit import unit_checks
from tacit.engines.frames import PlainFrame
from tacit.project.source_binding import BoundUnits
from tacit.query import catalog

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.mark.deep
def test_all_of_them_pass() -> None:
    outcomes = list(run_checks(unit_checks()))
    assert len(outcomes) == 5
    assert all(outcome.passed for outcome in outcomes), [outcome.verdict.words for outcome in outcomes]


def test_kinds_that_may_be_mixed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "check_units", lambda _: None)
    found = audited_units._mixed()
    assert found.caught
    assert "integer with text" in found.words
    assert "row with row" in found.words


def test_a_unit_that_may_move_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("check", "bind"):
        monkeypatch.setattr(BoundUnits, name, lambda *_: None)
    found = audited_units._moved()
    assert found.caught
    assert "id and then cost" in found.words


def test_one_person_under_two_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay itself tells, without any check of types: letters that name persons otherwise."""
    made = audited_units._made

    def apart(frames, units):  # type: ignore[no-untyped-def]
        letters = frames["letters"]
        moved = [(str(int(person) + 10_000), *rest) for person, *rest in letters.rows]
        return made({**frames, "letters": PlainFrame.of(letters.types, moved)}, units)

    monkeypatch.setattr(audited_units, "_made", apart)
    outcomes = list(run_checks(list(unit_checks())[:3]))
    assert not any(outcome.passed for outcome in outcomes)


def test_checks_that_cannot_run_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both neighbours end with one error."""

    def broken(*_: object) -> None:
        raise TypeError("no such frame")

    monkeypatch.setattr(audited_units, "_made", broken)
    outcomes = list(run_checks(list(unit_checks())[:3]))
    assert not any(outcome.passed for outcome in outcomes)
    assert "nothing was checked" in outcomes[0].verdict.words
