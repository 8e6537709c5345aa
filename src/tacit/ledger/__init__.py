"""Ledger: durable accounts, the only part that can authorise a charge.

Modules:
* :mod:`.anchor` — Anchor: the newest entry remembered outside the ledger, to detect rollback
* :mod:`.conversations` — Shares of conversations with assistants: caps inside an account, fixed once and for good
* :mod:`.disk` — Durable operations on small files
* :mod:`.entries` — Ledger entries: canonical text and effect, a function of the text alone
* :mod:`.errors` — Errors of the ledger
* :mod:`.history` — History: pages of charges, single charges, remaining queries
* :mod:`.journal` — Journal: append and read entries of the chain; stops for good when storage fails
* :mod:`.ledger` — ``Ledger``: durable account of charges
* :mod:`.memory` — Ledgers in memory: one for one process, or one that reads another ledger and forgets its own writes
* :mod:`.messages` — Messages about accounts and missing budget
* :mod:`.opening` — Opening of a ledger: database, anchor, trust; adoption of a ledger whose anchor disagrees
* :mod:`.operator_entries` — Entries by operators that change what holds, for auditors
* :mod:`.postgres` — PostgreSQL storage of a ledger
* :mod:`.postgres_schema` — PostgreSQL: tables of a ledger, and the procedure that carries out a step
* :mod:`.protection` — Units, source columns and declarations: recorded in the ledger, compared, audited
* :mod:`.protocol` — Storage protocol of a ledger: one atomic durable step, and reads
* :mod:`.records` — Records that go into and come out of the ledger, terms of an account, and the price of a charge
  under them
* :mod:`.registrations` — Registrations: accounts and their caps, quotas, sources and analysts, as entries of the
  journal
* :mod:`.signing_keys` — Signing keys of receipts: signatures, and the succession of keys recorded in the chain
* :mod:`.sql_reader` — Reading ledger tables with the same SQL on every database
* :mod:`.sqlite` — SQLite storage of a ledger
* :mod:`.storage` — Storage: databases with statements, short transactions and versions of their tables
* :mod:`.verify` — Verification of a ledger from its entries alone
"""

from __future__ import annotations

from tacit.ledger.errors import BusyError, ConflictError, LedgerError, ReplacedKeyError, RollbackError
from tacit.ledger.ledger import MOST_RUNS, Ledger
from tacit.ledger.protocol import Head
from tacit.ledger.records import (
    FAILED,
    FAILED_DIGEST,
    Amount,
    Analyst,
    Balance,
    LedgerBudget,
    Order,
    Outcome,
    Record,
    Reservation,
    Succession,
    VerificationReport,
)

__all__ = [
    "FAILED",
    "FAILED_DIGEST",
    "MOST_RUNS",
    "Amount",
    "Analyst",
    "Balance",
    "BusyError",
    "ConflictError",
    "Head",
    "Ledger",
    "LedgerBudget",
    "LedgerError",
    "Order",
    "Outcome",
    "Record",
    "ReplacedKeyError",
    "Reservation",
    "RollbackError",
    "Succession",
    "VerificationReport",
]
