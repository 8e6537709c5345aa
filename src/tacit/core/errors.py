"""Errors that Tacit raises on purpose.

::

    TacitError
    ├── InputError        input       a value given by the caller cannot be used; names the parameter
    ├── QueryError        query       a query cannot be answered privately as written
    ├── BudgetError       budget      the account does not allow the charge
    ├── AccessError       access      the caller may not do this, or the thing does not exist
    ├── AccountingError   accounting  no theorem gives the request a privacy guarantee
    ├── EngineError       engine      the database failed; opaque to analysts
    │   ├── FailedRunError      engine.failed  a charged query failed when it ran, and stays failed
    │   ├── DelayedError        engine.delayed  a charged query was not answered in time; an equal query runs it again
    │   └── MissingSourceError  engine.source  the data is not where the project says; opaque to analysts
    └── InternalError     internal    Tacit found itself in a state that must not occur; opaque to analysts

The ledger adds subclasses of InputError and InternalError (:mod:`tacit.ledger.errors`).

The class tells who has to act, the ``code`` is stable and may be matched on, the message is for people: it names
the parameter or column, the rule it broke, and what to write instead.
"""

from __future__ import annotations

from typing import ClassVar


class TacitError(Exception):
    """Base class of all errors that Tacit raises on purpose."""

    code: ClassVar[str] = "tacit"
    #: Whether the message may quote facts that an analyst must not see (see G2 and G6 of the promise).
    opaque: ClassVar[bool] = False
    #: Id of the entry in the operator's log that has the reason; empty where the message has it.
    id: str = ""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of a traceback through Tacit."""
        return [f"{type(self).__name__}: {self}"]


class InputError(TacitError, ValueError):
    """A value given by the caller cannot be used.

    Args:
        parameter: the name of the argument, as the caller wrote it.
        problem: the rule that the value breaks, and what to write instead.
    """

    code = "input"

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(parameter, problem)
        self.parameter = parameter
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.parameter}: {self.problem}"


class QueryError(TacitError):
    """A query cannot be answered privately as it is written."""

    code = "query"


class BudgetError(TacitError):
    """The account does not allow the charge."""

    code = "budget"


class AccessError(TacitError):
    """The caller may not do this, or the object does not exist; the message does not tell which."""

    code = "access"


class AccountingError(TacitError):
    """No theorem gives the request a privacy guarantee."""

    code = "accounting"


class EngineError(TacitError):
    """The database failed. Its message may quote data, so analysts see only an id."""

    code = "engine"
    opaque = True


class DelayedError(EngineError):
    """The answer to a charged query was not ready in time; the charge stays, and an equal query runs under it.

    Args:
        position: number of the charge's entry in the ledger.
    """

    code = "engine.delayed"
    opaque = False

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position

    def __str__(self) -> str:
        return (
            f"the answer was not ready in time: charge {self.position} waits, nothing was released, and asking again, "
            f"best as a job, runs it under that charge, free"
        )


class FailedRunError(EngineError):
    """A query was charged, failed when it ran, and stays failed: it is never run again under that charge.

    Its message is the same for every failure, because a choice of message would depend on the data.

    Args:
        position: number of the charge's entry in the ledger.
        id: id of the entry in the operator's log that has the reason.
    """

    code = "engine.failed"
    opaque = False

    def __init__(self, position: int, id: str) -> None:  # noqa: A002 - as the attribute of every error is called
        super().__init__(position, id)
        self.position = position
        self.id = id

    def __str__(self) -> str:
        return (
            f"the query failed when it ran: charge {self.position} stays charged, nothing was released, and asking "
            f"it again gives this failure, free; to pay for another run, ask at another cost; the operator's "
            f"log has the reason under {self.id}"
        )


class MissingSourceError(EngineError):
    """A source of the project is not where it was, so that its tables cannot be queried."""

    code = "engine.source"


class InternalError(TacitError):
    """Tacit found itself in a state that must not occur, and stopped."""

    code = "internal"
    opaque = True
