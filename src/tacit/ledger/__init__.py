"""Ledger: durable accounts, the only part that can authorise a charge.

Modules:
* :mod:`.account_terms` — Terms of an account and the price of a charge under them
* :mod:`.anchor` — Anchor: the newest entry remembered outside the ledger, to detect rollback
* :mod:`.disk` — Durable operations on small files
* :mod:`.entries` — Ledger entries: canonical text and effect, a function of the text alone
* :mod:`.errors` — Errors of the ledger
* :mod:`.fixed_point` — Fixed-point unit for privacy amounts
* :mod:`.hash_chain` — Hash chain: every entry's hash covers its text and all earlier entries
* :mod:`.history` — History: pages of charges, single charges, equal questions, remaining questions
* :mod:`.journal` — Journal: append and read entries; stops for good when storage fails
* :mod:`.key_succession` — Succession of signing keys recorded in the chain
* :mod:`.ledger` — ``Ledger``: durable account of charges
* :mod:`.lost_charges` — Charges known to be lost when a ledger is adopted
* :mod:`.memory` — In-memory ledger for one process
* :mod:`.messages` — Messages about accounts and missing budget
* :mod:`.migrations` — The tables of a ledger, version by version; one module per database
* :mod:`.opening` — Opening of a ledger: database, anchor, trust
* :mod:`.operator_entries` — Entries by operators that change what holds, for auditors
* :mod:`.overlay` — Overlay of a ledger: reads another one, keeps writes in memory
* :mod:`.postgres` — PostgreSQL storage of a ledger
* :mod:`.postgres_pool` — Connection pool for PostgreSQL ledgers
* :mod:`.protected_units` — Units, source columns and declarations recorded in the ledger
* :mod:`.protection_entries` — Entries about units, source columns and declarations
* :mod:`.protocol` — Storage protocol of a ledger: one atomic durable step, and reads
* :mod:`.records` — Records that go into and come out of the ledger
* :mod:`.run_count` — Number of runs of one charge
* :mod:`.signatures` — Public keys and signatures for verifying a ledger
* :mod:`.sql_reader` — Reading ledger tables with the same SQL on every database
* :mod:`.sqlite` — SQLite storage of a ledger
* :mod:`.sqlite_reader` — Reading of a SQLite ledger
* :mod:`.verify` — Verification of a ledger from its entries alone
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
    LedgerBudget,
    Order,
    Outcome,
    Record,
    Reservation,
    Succession,
    VerificationReport,
)
from tacit.ledger.run_count import MOST_RUNS, run_again

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
    "run_again",
]
