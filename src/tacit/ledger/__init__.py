"""Durable accounts: the only part of Tacit that can authorise a charge.

``ledger.py`` is what others hold; ``records.py`` what goes in and comes out; ``protocol.py`` what a database must do;
``sqlite.py`` the database that is there by default. ``ledger.proof.md`` says why the sum of charges stays within the
cap.
"""

from __future__ import annotations

from tacit.ledger.errors import BusyError, ConflictError, LedgerError, ReplacedKeyError, RollbackError
from tacit.ledger.ledger import Ledger
from tacit.ledger.protocol import Head
from tacit.ledger.records import (
    FAILED,
    FAILED_DIGEST,
    Amount,
    Analyst,
    Balance,
    Budget,
    Order,
    Outcome,
    Record,
    Report,
    Reservation,
    Succession,
)
from tacit.ledger.runs import MOST_RUNS, run_again

__all__ = [
    "FAILED",
    "FAILED_DIGEST",
    "MOST_RUNS",
    "Amount",
    "Analyst",
    "Balance",
    "Budget",
    "BusyError",
    "ConflictError",
    "Head",
    "Ledger",
    "LedgerError",
    "Order",
    "Outcome",
    "Record",
    "ReplacedKeyError",
    "Report",
    "Reservation",
    "RollbackError",
    "Succession",
    "run_again",
]
