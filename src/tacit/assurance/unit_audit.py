"""Self-audit of units: forms of ids that must not mix, and units that move.

Part of the standing self-audit, on made-up people.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.audit.checks import AuditCheck, Verdict, judged_replays
from tacit.audit.search import replay_neighbours
from tacit.core.errors import InputError
from tacit.curator.opening import open_project
from tacit.engines.plain_frames import PlainFrame
from tacit.project.project_file import ProjectModel, build, validate
from tacit.project.source import Source
from tacit.query.types import INTEGER, TEXT, SqlType

if TYPE_CHECKING:
    from tacit.project.project_file import Project

#: Rows of persons in two tables; some persons are in both, one has far more rows than count.
_ROWS: Final = [
    *({"person": i, "table": ("visits", "letters")[i % 2], "cost": i % 9} for i in range(1, 12)),
    *({"person": i, "table": ("letters", "visits")[i % 2], "cost": i % 9} for i in range(5, 12)),
    *({"person": 7, "table": "visits", "cost": 9} for _ in range(20)),
]
_WITH: Final = "WITH v AS (SELECT id, cost FROM visits UNION ALL SELECT id, cost FROM letters) "
_QUESTIONS: Final = {
    "rows of two tables": "SELECT COUNT(*), SUM(cost) FROM v",
    "a median over two tables": "SELECT MEDIAN(cost) FROM v",
    "keys of two tables": "SELECT cost, COUNT(*) FROM v GROUP BY cost",
}
#: Declared types of ids; a table cannot have one and another table of its population another.
_TYPES: Final = ("integer", "decimal", "text", "date", "boolean", "row")


def unit_checks() -> Iterator[AuditCheck]:
    """One person in two stores that write ids otherwise; kinds of ids that must be refused; a unit that moves."""
    for name, sql in _QUESTIONS.items():
        yield AuditCheck(f"SQL: {name}", "replay", partial(_replayed, _WITH + sql))
    yield AuditCheck("units of two kinds in one population", "refusals", _mixed)
    yield AuditCheck("a unit that moves after it was fixed", "refusals", _moved)


def _replayed(sql: str) -> Verdict:
    return judged_replays(replay_neighbours(_asking(sql), _ROWS, unit="person"))


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


def _mixed() -> Verdict:
    """Every pair of kinds must be refused; what is accepted is an objection."""
    frame = _frame(TEXT, [("1", 1)])
    accepted = []
    for pair in (*permutations(_TYPES, 2), ("row", "row")):
        units = [{"unit": "row", "type": "text"} if kind == "row" else {"unit": "id", "type": kind} for kind in pair]
        try:
            open_project(_made({"one": frame, "two": frame}, {"one": units[0], "two": units[1]})).close()
        except InputError:
            continue
        accepted.append(" with ".join(pair))
    return Verdict(
        bool(accepted), f"accepted: {', '.join(accepted)}" if accepted else "all of them are refused", accepted
    )


def _moved() -> Verdict:
    """An account opened for one unit must not be opened for another."""
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
    return Verdict(bool(accepted), f"accepted: {', '.join(accepted)}" if accepted else "each is refused", accepted)
