"""Charges known to be lost when a ledger is adopted.

What those entries charged is not known. They were admitted by the account, so together they charged at most what is
left of it in the ledger that was taken. So that is charged: everything. The sum of all that was ever charged, lost
entries included, then stays within the caps, which is what the account promises. An operator who wants to go on gives
the account other caps (``tacit ledger caps``): the promise becomes a larger one, visibly and for good.

A ledger that was deleted is begun anew without accounts. Each account that is made in it begins with everything spent,
for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.ledger.anchor import Anchor, AnchorMark
from tacit.ledger.entries import amounts_text
from tacit.ledger.protocol import Name, Reader, StorageError

__all__ = ["ANEW", "loss_of", "lost_name", "missing_entries", "remembered"]

#: Stands for the entry by which a ledger was begun anew in place of one that was lost.
ANEW = Name("anew", "")


def lost_name(population: str) -> Name:
    """What the loss takes that an account in a ledger begun anew starts with."""
    return Name("lost", population)


def remembered(anchor: Anchor) -> AnchorMark | str | None:
    """What an anchor says, or in words why it says nothing; None where there is none."""
    try:
        return anchor.read()
    except StorageError as problem:
        return str(problem)


def missing_entries(reader: Reader, mark: AnchorMark | str | None) -> bool:
    """Whether an anchor proves that entries are missing here: it remembers one that the ledger does not hold."""
    if not isinstance(mark, AnchorMark) or mark.head.seq == 0:
        return False
    entry = reader.entry(mark.head.seq)
    return entry is None or entry.hash != mark.head.hash


def loss_of(reader: Reader, population: str, *, anew: bool) -> dict[str, Any] | None:
    """The entry that charges everything that is left of an account; None where nothing is."""
    left = {
        level.pocket.currency: max((level.cap or 0) - level.spent, 0)
        for level in reader.levels(population, [""])
        if level.cap is not None
    }
    body: Mapping[str, Any] = {"kind": "lost", "population": population, "amounts": amounts_text(left), "anew": anew}
    return dict(body) if anew or any(left.values()) else None
