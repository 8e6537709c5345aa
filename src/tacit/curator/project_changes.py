"""Effects of an edited project file on its ledger: whether it can be opened, and which answers cost anew.

The ledger is read and not changed; nothing is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tacit.core.errors import InputError, TacitError
from tacit.curator.opening import try_opening
from tacit.ledger import Ledger, Record
from tacit.ledger.errors import storage_errors
from tacit.ledger.journal import read_body
from tacit.ledger.memory import MEMORY, rehearsed_on
from tacit.ledger.opening import open_reader
from tacit.ledger.protocol import Reader
from tacit.project.project_editing import EditedProject
from tacit.project.project_file import Project
from tacit.query.relational.algebra import scanned
from tacit.query.resolve import resolve
from tacit.releases.accounts import Budget, filter_of

#: Questions that are named, and charges that are looked at.
_MOST_NAMED: Final = 20
_MOST_READ: Final = 10_000
_BUDGET: Final = ("epsilon", "delta", "rho", "mu")


@dataclass(frozen=True)
class SpendingEffects:
    """Effects of saving an edited project.

    Args:
        charges: number of charges in the ledger.
        spent: what each population has spent, in words.
        refusal: the reason why the project could not be opened after saving; empty where it could.
        lost: questions whose repeats would be charged again, each once, and at most some.
        lost_count: number of answered charges whose repeats would.
    """

    charges: int = 0
    spent: tuple[str, ...] = ()
    refusal: str = ""
    lost: tuple[str, ...] = field(default=())
    lost_count: int = 0


def is_account_term(place: str) -> str:
    """A sentence about a setting that is a term of an account which was charged; empty for any other."""
    parts = place.split(".")
    if parts[0] == "populations":
        if parts[-1] in _BUDGET:
            return "a term of the account: after saving, tacit ledger caps changes it, with a reason that stays"
        if parts[-1] in ("accounting", "relation"):
            return "a term of the account, fixed for good"
        return ""
    if parts[0] == "tables" and parts[-1] in ("unit", "population") and len(parts) == 3:
        return "a term of the account: whom it protects; tacit ledger unit changes it, with a reason that stays"
    if parts[0] == "project" and parts[-1] in ("ledger", "anchor", "key"):
        return "where spending is remembered: another ledger knows of none of it"
    return ""


def opening_problems(editing: EditedProject) -> list[str]:
    """Reasons for which an edited project cannot be opened, whatever its ledger says; none where it can."""
    found = editing.problems()
    if found:
        return found
    try:
        for name, model in editing.project().populations.items():
            filter_of(name, model)
    except InputError as problem:
        return [str(problem)]
    return []


def effects_of(before: Project | None, after: Project) -> SpendingEffects:
    """Compare an edited project with the one on disk and with its ledger.

    Raises:
        InputError: a budget is stated in words that its accounting does not take.
        LedgerError: the ledger cannot be read.
    """
    for name, model in after.populations.items():
        filter_of(name, model)
    known = None if before is None or before.ledger is None else _charges(before)
    refusal = _refusal(after)
    if known is None or before is None:
        return SpendingEffects(refusal=refusal)
    records, spent = known
    answered = [record for record in records if record.answered and record.sql]
    lost = answered if after.ledger != before.ledger else list(_lost(answered, before, after))
    named = tuple(dict.fromkeys(record.sql for record in lost))[:_MOST_NAMED]
    return SpendingEffects(len(records), spent, refusal, named, len(lost))


def _lost(answered: list[Record], before: Project, after: Project) -> Iterator[Record]:
    """Charges whose repeats are charged again: everything that is declared is a part of what a repeat is known by."""
    if before.catalog.digest != after.catalog.digest:
        yield from answered
        return
    moved = {name.lower() for name, source in before.sources.items() if after.sources.get(name) != source}
    for record in answered:
        try:
            tables = {name.lower() for name in scanned(resolve(record.sql, before.catalog).final.source)}
        except TacitError:
            tables = moved
        if tables & moved:
            yield record


def _charges(project: Project) -> tuple[list[Record], tuple[str, ...]] | None:
    with _reading(project) as reader:
        if reader is None:
            return None
        with Ledger.on(*rehearsed_on(reader, str(read_body(reader, 1)["ledger"]))) as ledger:
            found: list[Record] = []
            for record in ledger.history():
                found.append(record)
                if len(found) == _MOST_READ:
                    break
            spent = tuple(str(Budget.of(ledger.budget(name), durable=True)) for name in ledger.accounts())
    return found, spent


def _refusal(project: Project) -> str:
    place = project.ledger or ""
    key = project.key or f"{place}.key"
    try:
        with _reading(project) as reader:
            try_opening(project, reader, key, f"{key if '://' in place else place}.digests")
    except InputError as problem:
        return str(problem)
    return ""


@contextmanager
def _reading(project: Project) -> Iterator[Reader | None]:
    """The ledger of a project as it is at one moment; None where there is none yet."""
    place = project.ledger
    if place is None or place == MEMORY or ("://" not in place and not Path(place).exists()):
        yield None
        return
    with storage_errors(), open_reader(place, still=True) as (reader, _):
        yield reader
