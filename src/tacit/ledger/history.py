"""History: pages of charges, single charges, equal questions, remaining questions.

A ledger may hold millions of entries, so a page looks at a bounded number of them and says where the next one begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tacit.accounting.prices import Charge
from tacit.ledger.entries import owner_of, plain_name, repeat_name
from tacit.ledger.ledger import Ledger
from tacit.ledger.messages import questions_left
from tacit.ledger.opening import read_entry
from tacit.ledger.records import Outcome, Record

__all__ = ["Charged", "Page", "charge_at", "hash_at", "how_many_fit", "outcome_of", "page"]


@dataclass(frozen=True, slots=True)
class Page:
    """Some charges, newest first; ``next`` is the ``before`` of the page after it, None where nothing is older."""

    records: tuple[Record, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Charged:
    """One charge, and what the order said about its release."""

    record: Record
    quote: Mapping[str, Any]


def page(
    ledger: Ledger,
    *,
    before: int | None = None,
    limit: int = 50,
    look: int = 2000,
    analyst: str = "",
    populations: Collection[str] | None = None,
) -> Page:
    """Charges before a place in the ledger, newest first.

    Args:
        ledger: the ledger.
        before: only entries before this place; None for the newest.
        limit: the most charges of one page.
        look: the most entries looked at; a page may have fewer charges than ``limit`` because of it, even none.
        analyst: only theirs.
        populations: only of these.
    """
    who = plain_name(analyst, "analyst", empty=True)
    wanted = None if populations is None else {plain_name(name, "population") for name in populations}
    found: list[Record] = []
    last = 1
    for entry, body in islice(ledger._bodies(newest_first=True, before=before), look):
        last = entry.seq
        if body["kind"] != "reserve" or (who and body["analyst"] != who):
            continue
        if wanted is None or body["population"] in wanted:
            found.append(ledger._record(entry, body))
            if len(found) == limit:
                break
    return Page(tuple(found), last if last > 1 else None)


def charge_at(ledger: Ledger, seq: int) -> Charged | None:
    """The charge at a place, if there is one."""
    with ledger._working():
        if not 0 < seq <= ledger._store.head().seq:
            return None
        entry, body = read_entry(ledger._store, seq)
    return Charged(ledger._record(entry, body), body["quote"]) if body["kind"] == "reserve" else None


def hash_at(ledger: Ledger, seq: int) -> str | None:
    """The hash of the entry at a place, if there is one."""
    with ledger._working():
        return read_entry(ledger._store, seq)[0].hash if 0 < seq <= ledger._store.head().seq else None


def outcome_of(ledger: Ledger, population: str, repeat_key: str) -> Outcome | None:
    """What was released under a repeat key; None where nothing was, or is not yet."""
    with ledger._working():
        seq = ledger._store.find(repeat_name(plain_name(population, "population"), repeat_key))
        return None if seq is None else ledger._kept(seq)


def how_many_fit(
    ledger: Ledger, population: str, charge: Charge, *, analyst: str = "", project: str = ""
) -> int | None:
    """How many more such charges fit, as :meth:`Ledger.budget` says, without all else that it says."""
    name = plain_name(population, "population")
    who, what = plain_name(analyst, "analyst", empty=True), plain_name(project, "project", empty=True)
    owners = ["", *([owner_of(who, "")] if who else []), *([owner_of("", what)] if what else [])]
    with ledger._working():
        return questions_left(ledger._store.levels(name, owners), ledger._price(name, charge))
