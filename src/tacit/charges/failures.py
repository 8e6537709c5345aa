"""Failures as callers may know them: an id, or that a charged run failed.

Errors made for analysts pass as they are. Any other may quote data: the caller gets an id, and the operator's log has
the failure under it.

*Failed runs.* Whether a run fails could depend on one person. If a failed question could be asked again for nothing,
the same charge would give that bit as often as wanted, and an answer besides. So the failure is kept with a receipt,
and every equal question gets it, for nothing. Its words do not depend on what went wrong; the operator's log has that,
under the first digits of the charge's hash.

Not a failure of a run: the ledger is busy or stopped, the key that signs is missing (nothing can be written down), or
the process was told to stop. The charge then waits for its next run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tacit.core.errors import EngineError, FailedRunError, InternalError, TacitError
from tacit.ledger import BusyError, LedgerError, Outcome, Reservation
from tacit.noise import entropy

__all__ = ["check_succeeded", "failed_run", "hide_internal_errors", "log_failed_run", "log_failure"]

_OPERATOR = logging.getLogger("tacit.operator")
_DIGITS: Final = 12


@contextmanager
def hide_internal_errors() -> Iterator[None]:
    """Let errors with words for analysts pass; of any other raise an id, and log the rest for the operator."""
    try:
        yield
    except TacitError as problem:
        if not problem.opaque:
            raise
        kinds = (BusyError, LedgerError, EngineError)
        kind = next((kind for kind in kinds if isinstance(problem, kind)), InternalError)
        raise _hidden(kind, problem) from None
    except Exception as problem:
        raise _hidden(InternalError, problem) from None


def _hidden(kind: type[TacitError], problem: Exception) -> TacitError:
    name = log_failure(problem)
    hidden = kind(f"the question could not be answered; the operator's log has the reason under {name}")
    hidden.id = name
    return hidden


def log_failure(problem: BaseException) -> str:
    """Write a failure to the operator's log; the id under which it stands there."""
    name = f"{entropy.current().bits(4 * _DIGITS):0{_DIGITS}x}"
    _OPERATOR.error("failure %s", name, exc_info=problem)
    return name


def log_failed_run(reservation: Reservation, problem: BaseException) -> None:
    """Write to the operator's log why the run under a charge failed."""
    _OPERATOR.error("failure %s", reservation.hash[:_DIGITS], exc_info=problem)


def failed_run(reservation: Reservation) -> FailedRunError:
    """The failure of the run under a charge: the same for every caller, now and later."""
    return FailedRunError(reservation.seq, reservation.hash[:_DIGITS])


def check_succeeded(outcome: Outcome) -> Outcome:
    """The outcome, if something was released.

    Raises:
        FailedRunError: the run failed.
    """
    if outcome.failed:
        raise failed_run(outcome.reservation)
    return outcome
