"""Ledger: durable accounts, the only part that can authorise a charge.

Modules:
* :mod:`.anchor` — Anchor: the newest entry remembered outside the ledger, to detect rollback
* :mod:`.database` — Databases of tables: their interface, schemas made once, and one reader of the ledger's tables
  for all
* :mod:`.disk` — Durable operations on small files
* :mod:`.entries` — Ledger entries: canonical text and effect, a function of the text alone
* :mod:`.errors` — Errors of the ledger
* :mod:`.history` — History: pages of charges, single charges, remaining queries
* :mod:`.journal` — Journal: append and read entries of the chain; stops for good when storage fails
* :mod:`.ledger` — ``Ledger``: durable account of charges
* :mod:`.memory` — Ledgers in memory: one for one process, or one that reads another ledger and forgets its own writes
* :mod:`.opening` — Opening of a ledger: database, anchor, trust; adoption of a ledger whose anchor disagrees
* :mod:`.postgres` — PostgreSQL: databases, and the store of a ledger in a schema of one
* :mod:`.protection` — Units, source columns and declarations: recorded in the ledger, compared, audited
* :mod:`.protocol` — Storage protocol of a ledger: one atomic durable step, and reads
* :mod:`.records` — Records of the ledger, terms of an account, the price of a charge under them, and sentences about
  both
* :mod:`.signing_keys` — Signing keys of receipts: signatures, and the succession of keys recorded in the chain
* :mod:`.sqlite` — SQLite: databases in a file or in memory, and the store of a ledger in one
* :mod:`.verify` — Verification of a ledger from its entries alone, and the decisions of operators among them
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
