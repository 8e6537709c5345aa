"""Questions about synthetic tables that were paid for: answered like those about public tables, for nothing.

The rows are drawn from what the ledger holds, with bits that follow from the release itself, so that every process
answers the same question with the same numbers. A synthetic table is asked about alone, or with other synthetic ones.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tacit.core.closing import Closing
from tacit.engines.registry import open_engine
from tacit.project.project_file import ProjectModel, build, validate
from tacit.project.public_sizes import PublicSizes
from tacit.project.source import Source
from tacit.query.refusal import Refusal
from tacit.query.request import Request
from tacit.releases.planner import FreeQuestion, Planner, QuestionContext
from tacit.releases.release import released
from tacit.releases.synthesis import SYNTHESIS, drawn_again
from tacit.releases.synthetic_table import BANNER

#: Sets of synthetic tables whose rows are kept in memory.
_MOST: Final = 4
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")


def free_question(context: QuestionContext, sql: str, request: Request) -> FreeQuestion | None:
    """The question, if it reads public tables alone or synthetic tables alone; None for any other.

    Raises:
        Refusal: it cannot be answered, or joins a synthetic table with another.
    """
    named = _named(context, sql)
    if named:
        reader = _READERS.of(context, named)
        try:
            question = reader.plans.public(sql, request)
        except Refusal as refusal:
            if refusal.reason != "unknown_table":
                raise
            _check_alone(sql, named)
        else:
            return None if question is None else replace(question, note=BANNER)
    return context.plans.public(sql, request)


def _named(context: QuestionContext, sql: str) -> dict[str, int]:
    """Synthetic tables whose names are in the text, with the places of their charges; the newest of a name."""
    words = set(_WORD.findall(sql.lower()))
    own = {table.name.lower() for table in context.catalog.tables}
    made = released(context, {SYNTHESIS.name: SYNTHESIS})
    found = {name.lower(): each.position for each in made for name in each.names}
    return {name: place for name, place in found.items() if name in words and name not in own}


def _check_alone(sql: str, named: Mapping[str, int]) -> None:
    """Refuse a synthetic table that stands in FROM beside others; a name inside a text constant is no table."""
    for name in named:
        if re.search(rf"(?:\b(?:from|join)\s+|,\s*)[\"`\[]?{name}\b", sql, re.IGNORECASE):
            raise Refusal(
                "unknown_table",
                f"{name} is a synthetic table and is asked about alone, or with other synthetic tables; leave the "
                "others out, or ask about them by themselves.",
                at=name,
            )


class _Reader(Closing):
    """Planner and engine of some synthetic tables, as if they were the public tables of a project."""

    def __init__(self, context: QuestionContext, named: Mapping[str, int]) -> None:
        # Two tables that belong together are drawn together, so that their keys agree.
        made = {place: drawn_again(context, place).repeatable_tables() for place in set(named.values())}
        drawn = {
            name: {each.lower(): rows for each, rows in made[place].items()}[name] for name, place in named.items()
        }
        told = {
            # Columns with other signs in their names belong to a table where they are declared.
            name: {"source": "frame", "public": True, "columns": {each: {} for each in rows.column_names}}
            for name, rows in drawn.items()
        }
        model = validate(ProjectModel, {"tables": told})
        project = build(model, {name: Source.of_frame(rows) for name, rows in drawn.items()})
        self.engine = open_engine("duckdb", project.catalog, project.sources, project.limits.model_dump())
        self.plans = Planner(PublicSizes(project.catalog, self.engine, lambda _: ""), {}, self.engine)

    def close(self) -> None:
        """Let go of the rows."""
        self.engine.close()


class _Readers:
    """The readers that were used last; a fit takes seconds, so one is made at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, tuple[tuple[str, int], ...]], _Reader] = OrderedDict()

    def of(self, context: QuestionContext, named: Mapping[str, int]) -> _Reader:
        """The reader of some tables of a ledger."""
        key = (context.ledger.id, tuple(sorted(named.items())))
        with self._lock:
            found = self._found.pop(key, None) or _Reader(context, named)
            self._found[key] = found
            if len(self._found) > _MOST:
                # A question may still be reading; the rows are let go when it is done.
                self._found.popitem(last=False)
            return found


_READERS: Final = _Readers()
