"""Checks of ``tacit audit tacit.toml``: rules on synthetic people, past questions, the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.operator_options import LedgerLocation, find_ledger, receipt_check
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.audit.museum.exhibit import Verdict
    from tacit.audit.self_audit import AuditCheck

__all__ = ["checks_of_project"]


def checks_of_project(project: Path, questions: Sequence[str], samples: int) -> tuple[list[AuditCheck], int]:
    """The checks, and how many entries of the history are no questions to the project as it is now.

    Nothing is charged and no protected table is read.
    """
    from tacit.assurance.project_audit import project_checks
    from tacit.audit.self_audit import AuditCheck
    from tacit.project.project_file import load

    place = _ledger_of(project)
    asked = [] if place is None else _history(place)
    checks, strange = project_checks(load(project), questions, asked=asked, samples=samples)
    if place is not None:
        checks.append(AuditCheck("the ledger and every receipt in it", "verify", lambda: _verified(place)))
    return checks, strange


def _ledger_of(project: Path) -> LedgerLocation | None:
    """Where the ledger is, if there is one yet."""
    try:
        place = find_ledger(project)
    except InputError as problem:
        if problem.parameter != "project.ledger":
            raise
        return None
    return place if place.exists else None


def _history(place: LedgerLocation) -> list[str]:
    from tacit.ledger import Ledger

    with Ledger.open(place.ledger, anchor=place.anchor, create=False) as ledger:
        return list(dict.fromkeys(record.sql for record in ledger.history()))


def _verified(place: LedgerLocation) -> Verdict:
    from tacit.audit.museum.exhibit import Verdict
    from tacit.ledger import Ledger

    report = Ledger.examine(place.ledger, anchor=place.anchor, check_outcome=receipt_check(place))
    words = "; ".join(report.problems) or f"nothing found: {report.entries} entries, {report.outcomes} released"
    return Verdict(not report.ok, words, report)
