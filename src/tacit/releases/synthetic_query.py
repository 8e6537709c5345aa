"""Queries about synthetic tables, which are asked like public tables, at no cost.

Their rows are drawn from the release stored in the ledger, with a seed that is a function of that release, so that
every process answers the same query with the same numbers. A synthetic table is queried alone, or with other synthetic
tables.
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
from tacit.releases.plans import FreeQuery, Planner
from tacit.releases.query import QueryContext
from tacit.releases.release import released
from tacit.releases.synthesis import SYNTHESIS, drawn_again
from tacit.releases.synthetic_table import BANNER


def planned_on_synthetic_tables(context: QueryContext, sql: str, request: Request) -> FreeQuery | None:
    """Return the plan of a query about synthetic tables alone; None for a query about no synthetic table.

    Raises:
        Refusal: the query joins a synthetic table with another table, or cannot be answered as written.
    """
    named = _named(context, sql)
    if not named:
        return None
    try:
        made = _READERS.of(context, named).plans.plan(sql, request)
    except Refusal as refusal:
        if refusal.reason != "unknown_table":
            raise
        _check_alone(sql, named)
        return None
    return replace(made, note=BANNER) if isinstance(made, FreeQuery) else None


#: Number of sets of synthetic tables whose rows are kept in memory.
_MOST_READERS: Final = 4
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")


def _named(context: QueryContext, sql: str) -> dict[str, int]:
    """Return the synthetic tables named in the text, with their charges' ledger positions; the newest of each name."""
    words = set(_WORD.findall(sql.lower()))
    own = {table.name.lower() for table in context.catalog.tables}
    made = released(context, {SYNTHESIS.name: SYNTHESIS})
    found = {name.lower(): each.position for each in made for name in each.names}
    return {name: place for name, place in found.items() if name in words and name not in own}


def _check_alone(sql: str, named: Mapping[str, int]) -> None:
    """Refuse a query with a synthetic table and other tables in FROM; a name inside a text constant is no table."""
    for name in named:
        if re.search(rf"(?:\b(?:from|join)\s+|,\s*)[\"`\[]?{name}\b", sql, re.IGNORECASE):
            raise Refusal(
                "unknown_table",
                f"{name} is a synthetic table and is asked about alone, or with other synthetic tables; leave the "
                "others out, or ask about them by themselves.",
                at=name,
            )


class _Reader(Closing):
    """Planner and engine for a set of synthetic tables, treated as the public tables of a project."""

    def __init__(self, context: QueryContext, named: Mapping[str, int]) -> None:
        # Two tables that belong together are drawn together, so that their keys agree.
        made = {
            place: {each.name.lower(): each for each in drawn_again(context, place).tables}
            for place in set(named.values())
        }
        drawn = {name: made[place][name].to_arrow() for name, place in named.items()}
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
        self.engine.close()


class _Readers:
    """Cache of the readers used last; a fit takes seconds, so one reader is made at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, tuple[tuple[str, int], ...]], _Reader] = OrderedDict()

    def of(self, context: QueryContext, named: Mapping[str, int]) -> _Reader:
        key = (context.ledger.id, tuple(sorted(named.items())))
        with self._lock:
            found = self._found.pop(key, None) or _Reader(context, named)
            self._found[key] = found
            if len(self._found) > _MOST_READERS:
                # A query may still be reading; the rows are let go when it is done.
                self._found.popitem(last=False)
            return found


_READERS: Final = _Readers()
