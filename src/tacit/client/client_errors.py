"""Error classes for a server's error codes and for failed connections.

::

    TacitError
    └── RemoteError        remote         the server cannot be reached, or does not speak the language
        ├── SignInError    remote.auth    the token is missing, unknown, expired or withdrawn
        ├── RateError      remote.rate    too many requests, and waiting a little did not help
        └── TrustError     remote.trust   another key than the pinned one, or a receipt that does not hold
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tacit.client.responses import ErrorResponse
from tacit.core.errors import (
    AccessError,
    AccountingError,
    BudgetError,
    EngineError,
    InputError,
    InternalError,
    QueryError,
    TacitError,
)
from tacit.ledger.errors import BusyError, ConflictError, LedgerError, RollbackError
from tacit.query.refusal import CODES, Refusal


class RemoteError(TacitError):
    """The server cannot be reached, or what it says is not what a server of Tacit says."""

    code = "remote"


class SignInError(RemoteError):
    """The token is not one that the server knows; it does not say why."""

    code = "remote.auth"


class RateError(RemoteError):
    """Too many requests in a short time; nothing was charged."""

    code = "remote.rate"


class TrustError(RemoteError):
    """The server is not the one that was pinned, or its receipt does not say what was asked and charged."""

    code = "remote.trust"


#: The longest code that fits decides: ``query.sample`` is a ``query``.
_CLASSES: Final[dict[str, type[TacitError]]] = {
    "query": QueryError,
    "budget": BudgetError,
    "access": AccessError,
    "accounting": AccountingError,
    "engine": EngineError,
    "internal": InternalError,
    "internal.ledger": LedgerError,
    "internal.rollback": RollbackError,
    "internal.busy": BusyError,
    "busy": BusyError,
    "ledger": LedgerError,
    "auth": SignInError,
    "rate": RateError,
}


def error_of(content: object, status: int) -> TacitError:
    """The error that a response describes: of the same class as the local one, with the same words."""
    try:
        said = ErrorResponse.read(content).error
    except ValueError:
        return RemoteError(f"the server answered with status {status} and nothing that explains it")
    code, head = said.code, said.code.partition(".")[0]
    message = said.message or f"status {status}"
    if head in ("input", "conflict", "request"):
        kind = ConflictError if code in ("input.conflict", "conflict") else InputError
        parameter = said.parameter or "request"
        return kind(parameter, message.removeprefix(f"{parameter}: "))
    reason = code.removeprefix("query.")
    if reason in CODES:
        return Refusal.read(reason, message)
    found = _CLASSES.get(code) or _CLASSES.get(head, RemoteError)
    return found(f"{message} ({said.id})" if said.id and said.id not in message else message)


@contextmanager
def parsing(subject: str) -> Iterator[None]:
    """Report anything in a response that cannot be read as a :class:`RemoteError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as problem:
        if isinstance(problem, TacitError) and not isinstance(problem, InputError):
            raise
        raise RemoteError(f"{subject} that the server sent cannot be read: {problem}") from None
