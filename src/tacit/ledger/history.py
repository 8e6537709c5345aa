"""History: pages of charges, single charges, remaining queries.

A ledger may hold millions of entries, so a page looks at a bounded number of them and says where the next one begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from tacit.accounting.prices import Charge
from tacit.ledger.entries import amounts_of, owners_of, plain_name, typed_of
from tacit.ledger.journal import Journal
from tacit.ledger.protocol import Name, Stored
from tacit.ledger.records import Record, queries_left

if TYPE_CHECKING:
    from tacit.ledger.ledger import Ledger


def record_of(journal: Journal, entry: Stored, body: Mapping[str, Any]) -> Record:
    """Return the record of a charge from its entry, with its outcome if there is one."""
    with journal.working():
        committed = journal.find(Name("outcome", str(entry.seq)))
        digests = {} if committed is None else journal.read(committed, "commit")[1]["papers"]
    return Record(
        entry.seq, entry.hash, body["time"], body["population"], body["analyst"], body["project"],
        amounts_of(body), body["sql"], body["plan"], committed, digests.get("result", ""), typed_of(body),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page:
    """A page of charges, newest first; ``next`` is the ``before`` of the next page, None on the last page."""

    records: tuple[Record, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Charged:
    """One charge, and the facts about its release that the order stated."""

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
    undelivered: bool = False,
) -> Page:
    """Return the charges before an entry of the ledger, newest first.

    Args:
        ledger: the ledger.
        before: only charges before the entry of this number; None for the newest.
        limit: maximal number of charges on one page.
        look: maximal number of entries read; a page may therefore have fewer charges than ``limit``, even none.
        analyst: only charges of this analyst.
        populations: only charges of these populations.
        undelivered: only charges of a positive amount without an outcome.
    """
    who = plain_name(analyst, "analyst", empty=True)
    wanted = None if populations is None else {plain_name(name, "population") for name in populations}
    found: list[Record] = []
    last = 1
    for entry, body in islice(ledger.journal.bodies(newest_first=True, before=before), look):
        last = entry.seq
        if body["kind"] != "reserve" or (who and body["analyst"] != who):
            continue
        if wanted is None or body["population"] in wanted:
            record = record_of(ledger.journal, entry, body)
            if undelivered and not record.undelivered:
                continue
            found.append(record)
            if len(found) == limit:
                break
    return Page(tuple(found), last if last > 1 else None)


def charge_at(ledger: Ledger, seq: int) -> Charged | None:
    """Return the charge with this entry number, or None."""
    found = _entry_at(ledger.journal, seq)
    if found is None or found[1]["kind"] != "reserve":
        return None
    return Charged(record_of(ledger.journal, *found), found[1]["quote"])


def hash_at(ledger: Ledger, seq: int) -> str | None:
    """Return the hash of the entry with this number, or None."""
    found = _entry_at(ledger.journal, seq)
    return None if found is None else found[0].hash


def _entry_at(journal: Journal, seq: int) -> tuple[Stored, dict[str, Any]] | None:
    with journal.working():
        return journal.read(seq) if 0 < seq <= journal.store.head().seq else None


def how_many_fit(ledger: Ledger, population: str, charge: Charge, *, analyst: str = "") -> int | None:
    """Return how many more charges like this one fit: ``queries`` of :meth:`Ledger.budget`, without the balances."""
    name, owners = plain_name(population, "population"), owners_of(plain_name(analyst, "analyst", empty=True))
    with ledger.journal.working():
        return queries_left(ledger.journal.store.balances(name, owners), ledger.price(name, charge))
