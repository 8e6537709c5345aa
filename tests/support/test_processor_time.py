"""The processor time of test modules: every process counts once, also where another one waits for it, and later."""

from __future__ import annotations

import pytest

from support.seconds import _TICKS, ProcessorTime, Use

ROOT, CHILD, GRANDCHILD = (10, 1), (11, 2), (12, 3)


def counted(monkeypatch: pytest.MonkeyPatch, *readings: dict[tuple[int, int], Use]) -> list[int]:
    """Ticks between readings; the first one is where counting begins."""
    left = [*readings]
    monkeypatch.setattr(ProcessorTime, "_read", lambda _: left.pop(0))
    time = ProcessorTime(list)
    return [round(time.seconds() * _TICKS) for _ in readings[1:]]


def test_a_child_counts_while_it_lives_and_not_again_when_it_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = {ROOT: Use(1, 5, 0), CHILD: Use(10, 50, 0)}
    ended = {ROOT: Use(1, 6, 58)}
    assert counted(monkeypatch, {ROOT: Use(1, 5, 0)}, lives, ended, ended) == [50, 9, 0]


def test_a_child_that_was_not_seen_counts_when_it_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted(monkeypatch, {ROOT: Use(1, 5, 0)}, {ROOT: Use(1, 5, 70)}) == [70]


def test_one_that_ends_between_the_readings_of_two_processes_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent is read before it has waited for it, the child when it is gone."""
    lives = {ROOT: Use(1, 5, 0), CHILD: Use(10, 50, 0)}
    between, ended = {ROOT: Use(1, 5, 0)}, {ROOT: Use(1, 5, 50)}
    assert counted(monkeypatch, {ROOT: Use(1, 5, 0)}, lives, between, ended) == [50, 0, 0]


def test_what_two_waited_for_one_after_the_other_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = {ROOT: Use(1, 5, 0), CHILD: Use(10, 20, 0), GRANDCHILD: Use(11, 30, 0)}
    assert counted(monkeypatch, {ROOT: Use(1, 5, 0)}, lives, {ROOT: Use(1, 5, 51)}) == [50, 1]


def test_an_orphan_counts_on_and_takes_nothing_along(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = {ROOT: Use(1, 0, 0), CHILD: Use(10, 20, 0), GRANDCHILD: Use(11, 30, 0)}
    orphan = {ROOT: Use(1, 0, 20), GRANDCHILD: Use(1, 45, 0)}
    gone, later = {ROOT: Use(1, 0, 20)}, {ROOT: Use(1, 0, 27)}
    assert counted(monkeypatch, {ROOT: Use(1, 0, 0)}, lives, orphan, gone, later) == [50, 15, 0, 7]
