"""One person in two stores that write ids otherwise, kinds of ids that must be refused, and a unit that moves.

Each check passes, and fails on the bug that it is there for.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from tacit.audit.report import Verdict, judged_replays
from tacit.audit.search import replay_neighbours
from tacit.core.errors import InputError
from tacit.curator.opening import open_project
from tacit.engines.frames import PlainFrame
from tacit.project.project_file import Project, ProjectModel, build, validate
from tacit.project.source import BoundUnits, Source
from tacit.query import catalog
from tacit.query.types import INTEGER, TEXT, SqlType

pytestmark = pytest.mark.usefixtures("seeded")

#: Rows of persons in two tables; some persons are in both, one has far more rows than count.
_UNIT_ROWS: Final = [
    *({"person": i, "table": ("visits", "letters")[i % 2], "cost": i % 9} for i in range(1, 12)),
    *({"person": i, "table": ("letters", "visits")[i % 2], "cost": i % 9} for i in range(5, 12)),
    *({"person": 7, "table": "visits", "cost": 9} for _ in range(20)),
]
_WITH: Final = "WITH v AS (SELECT id, cost FROM visits UNION ALL SELECT id, cost FROM letters) "
_QUERIES: Final = {
    "rows of two tables": "SELECT COUNT(*), SUM(cost) FROM v",
    "a median over two tables": "SELECT MEDIAN(cost) FROM v",
    "keys of two tables": "SELECT cost, COUNT(*) FROM v GROUP BY cost",
}
#: Declared types of ids; a table cannot have one and another table of its population another.
_TYPES: Final = ("integer", "decimal", "text", "date", "boolean", "row")


def _replayed(sql: str) -> Verdict:
    return judged_replays(replay_neighbours(_asking(_WITH + sql), _UNIT_ROWS, unit="person"))


def _asking(sql: str) -> Callable[[list[dict[str, Any]]], Any]:
    def ask(rows: list[dict[str, Any]]) -> Any:
        with open_project(_project(rows)) as curator:
            answer = curator.sql(sql, epsilon=1)
            return answer.finished.values, answer.finished.intervals(), answer.charge.text, answer.note

    return ask


def _project(rows: list[dict[str, Any]]) -> Project:
    """Whole numbers in one table, and in the other the same persons as texts with leading zeros."""
    here = {name: [row for row in rows if row["table"] == name] for name in ("visits", "letters")}
    frames = {
        "visits": _frame(INTEGER, [(row["person"], row["cost"]) for row in here["visits"]]),
        "letters": _frame(TEXT, [(f"{row['person']:04d}", row["cost"]) for row in here["letters"]]),
    }
    return _made(frames, {name: {"unit": "id", "type": "integer"} for name in frames})


def _frame(ids: SqlType, rows: Sequence[tuple[Any, int]]) -> PlainFrame:
    return PlainFrame.of({"id": ids, "cost": INTEGER}, rows)


def _made(frames: dict[str, PlainFrame], units: dict[str, dict[str, str]]) -> Project:
    tables = {
        name: {
            "source": "frame",
            "population": "people",
            "unit": units[name]["unit"],
            "max_rows": 3,
            "max_groups": 2,
            "columns": {"id": {"type": units[name]["type"]}, "cost": {"type": "integer", "bounds": [0, 9]}},
        }
        for name in frames
    }
    people = {"epsilon": "10", "delta": "1e-5", "accounting": "approx"}
    model = validate(ProjectModel, {"populations": {"people": people}, "tables": tables})
    return build(model, {name: Source.of_frame(frame) for name, frame in frames.items()})


def _mixed() -> list[str]:
    """Pairs of kinds that are accepted in one population."""
    frame = _frame(TEXT, [("1", 1)])
    accepted = []
    for pair in (*permutations(_TYPES, 2), ("row", "row")):
        units = [{"unit": "row", "type": "text"} if kind == "row" else {"unit": "id", "type": kind} for kind in pair]
        try:
            open_project(_made({"one": frame, "two": frame}, {"one": units[0], "two": units[1]})).close()
        except InputError:
            continue
        accepted.append(" with ".join(pair))
    return accepted


def _moved() -> list[str]:
    """Units that an account opened for one unit is opened for as well."""
    frame = _frame(INTEGER, [(1, 1), (1, 2), (2, 3)])
    kinds = {"id": {"unit": "id", "type": "integer"}, "row": {"unit": "row", "type": "integer"}}
    kinds["cost"] = {"unit": "cost", "type": "integer"}
    accepted = []
    for first, second in permutations(kinds, 2):
        with tempfile.TemporaryDirectory() as folder:
            made = [_made({"data": frame}, {"data": kinds[name]}) for name in (first, second)]
            anchor, ledger = str(Path(folder) / "anchor"), str(Path(folder) / "tacit.ledger")
            projects = [replace(project, anchor=anchor, ledger=ledger) for project in made]
            with open_project(projects[0]) as curator:
                curator.sql("SELECT COUNT(*) FROM data", epsilon="0.1")
            try:
                open_project(projects[1]).close()
            except InputError:
                continue
            accepted.append(f"{first} and then {second}")
    return accepted


@pytest.mark.deep
@pytest.mark.parametrize("name", _QUERIES)
def test_one_person_in_two_stores_is_one_person(name: str) -> None:
    found = _replayed(_QUERIES[name])
    assert not found.caught, found.words


@pytest.mark.deep
def test_kinds_are_not_mixed_and_a_unit_does_not_move() -> None:
    assert _mixed() == []
    assert _moved() == []


def test_kinds_that_may_be_mixed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "check_units", lambda _: None)
    assert {"integer with text", "row with row"} <= {*_mixed()}


def test_a_unit_that_may_move_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("check", "bind"):
        monkeypatch.setattr(BoundUnits, name, lambda *_: None)
    assert "id and then cost" in _moved()


def test_one_person_under_two_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay itself tells, without any check of types: letters that name persons otherwise."""
    made = _made

    def apart(frames: dict[str, PlainFrame], units: dict[str, dict[str, str]]) -> Project:
        letters = frames["letters"]
        moved = [(str(int(str(person)) + 10_000), *rest) for person, *rest in letters.rows]
        return made({**frames, "letters": PlainFrame.of(letters.types, moved)}, units)

    monkeypatch.setattr(sys.modules[__name__], "_made", apart)
    assert all(_replayed(sql).caught for sql in _QUERIES.values())


def test_checks_that_cannot_run_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both neighbours end with one error."""

    def broken(*_: object) -> None:
        raise TypeError("no such frame")

    monkeypatch.setattr(sys.modules[__name__], "_made", broken)
    found = [_replayed(sql) for sql in _QUERIES.values()]
    assert all(each.caught for each in found)
    assert "nothing was checked" in found[0].words
