"""Runs of a charge whose process died: a bounded number, each an entry of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tacit.ledger.entries import run_name
from tacit.ledger.protocol import Appended
from tacit.ledger.records import Reservation

if TYPE_CHECKING:
    from tacit.ledger.ledger import Ledger

__all__ = ["MOST_RUNS", "run_again"]


#: Runs of one charge. Processes that are asked the same at the same moment count as well: each of them runs it once.
MOST_RUNS: Final = 16


def run_again(ledger: Ledger, reservation: Reservation) -> int:
    """Write down that a charge is run once more; the number of this run, from 2 on, or 0 if it must not be.

    A run that fails has an outcome that says so. A run whose process was killed has none, and none can be written for
    it. The next order for the same release runs under the same charge, as an entry of its own. Without an end to that,
    a question that sometimes kills its process because of one person's rows could be tried again and again for nothing.

    Args:
        ledger: the ledger.
        reservation: one that was ``resumed``: an equal order was admitted before, and has no outcome yet.
    """
    with ledger.journal.working():
        for number in range(2, MOST_RUNS + 1):
            if ledger.journal.find(run_name(reservation.seq, number)) is not None:
                continue
            body = {"kind": "run", "of": reservation.seq, "number": number}
            if isinstance(ledger.journal.write(body), Appended):
                return number
    return 0
