"""Errors of the ledger.

::

    TacitError
    ├── InputError
    │   └── ConflictError     input.conflict      an idempotency key was used before, for another request
    └── InternalError
        ├── ReplacedKeyError  internal.key        the key that signed was replaced; nothing was changed
        └── LedgerError       internal.ledger     the ledger cannot be trusted or written; opaque to analysts
            ├── RollbackError internal.rollback   the ledger is older than its anchor or than a receipt
            └── BusyError     internal.busy       another process held it for too long; nothing was changed, try again
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.core.errors import InputError, InternalError


class StorageError(Exception):
    """The database or the disk failed, or its contents are impossible; the state after it is unknown."""


class StoreBusy(Exception):  # noqa: N818  (not an error: nothing happened)
    """Another program held the database for too long, and nothing was written."""


class ConflictError(InputError):
    """An idempotency key was used before by the same analyst, for another request; nothing was charged."""

    code = "input.conflict"


class ReplacedKeyError(InternalError):
    """The outcome is signed with a key that another key has replaced. Nothing was changed; sign it with the new key."""

    code = "internal.key"


class LedgerError(InternalError):
    """The ledger cannot be trusted or cannot be written, so nothing is authorised. Only operators see the reason."""

    code = "internal.ledger"


class RollbackError(LedgerError):
    """The ledger is older than its anchor or than a receipt, or it is not the ledger that these are of."""

    code = "internal.rollback"


class BusyError(LedgerError):
    """Another process held the ledger for too long. Nothing was changed; the request may be made again."""

    code = "internal.busy"


@contextmanager
def storage_errors() -> Iterator[None]:
    """Translate errors of the store to errors of the ledger."""
    try:
        yield
    except StoreBusy as problem:
        raise BusyError(str(problem)) from problem
    except StorageError as problem:
        raise LedgerError(str(problem)) from problem
