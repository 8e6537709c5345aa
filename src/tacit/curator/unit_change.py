"""Change of an account's unit by an operator.

Who is protected is a term of the account. Where a column was renamed, or was the wrong one from the start, an operator
may fix it anew; the entry says who did, why, and what it was before. What was spent stays spent, and what was released
before was about the units of before.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from tacit.core.errors import InputError
from tacit.curator.opened_ledger import open_ledger
from tacit.engines.registry import open_engine
from tacit.ledger import Ledger
from tacit.ledger.entries import plain_name
from tacit.project.project_file import Project
from tacit.project.source_binding import SourceBinder
from tacit.project.unit_binding import BoundUnits, unit_terms
from tacit.query.catalog import Table

__all__ = ["fix_units"]


def fix_units(
    project: Project, population: str, *, reason: str, operator: str, session: Any = None
) -> tuple[dict[str, str] | None, dict[str, str]]:
    """Make the unit and the columns that a project states those of the account; what it was, and what it is.

    Args:
        project: with a ledger that outlasts the process.
        population: whose.
        reason: kept for good.
        operator: who answers for it, likewise.
        session: a Spark session, for a project whose engine is Spark.

    Raises:
        InputError: no table is about the population, or a source belongs to another one.
        AccessError: it has no account.
    """
    units = unit_terms(project.catalog)
    if population not in units or project.ledger is None:
        raise InputError("population", f"must be one that tables are about: {', '.join(units)}")
    address = project.engine if session is None else session
    with closing(open_engine(address, project.catalog, project.sources, project.limits.model_dump())) as engine:
        opened = open_ledger(project.ledger, anchor=project.anchor, key=project.key)
        with opened.ledger as ledger:
            veil = opened.keys.veil
            sources = SourceBinder(project.catalog, project.sources, ledger, opened.digests, veil, engine)
            bound = BoundUnits(project.catalog, ledger, veil)
            found = [(table, sources.fingerprint(table)) for table in project.catalog.tables]
            for table, fingerprint in found:
                if table.population == population:
                    _check_owner(ledger, table, [*map(veil, fingerprint.marks)])
            known = [binding for owner, binding in bound.bindings(found) if owner == population]
            before = ledger.units.unit_of(population)
            ledger.units.change_unit(population, units[population], known, reason=reason, operator=operator)
    return before, units[population]


def _check_owner(ledger: Ledger, table: Table, marks: list[str]) -> None:
    """A source of another population is none of this one's business."""
    for mark in marks:
        owner = ledger.source_of(mark)
        if owner is not None and owner != plain_name(table.population or "", "population"):
            raise InputError(f"tables.{table.name}.population", f"this source belongs to the population {owner!r}")
