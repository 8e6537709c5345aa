"""Failed runs as durable outcomes of their charge.

Whether a run fails could depend on one person. If a failed question could be asked again for nothing, the same charge
would give that bit as often as wanted, and an answer besides. So the failure is kept with a receipt, and everybody who
asks the same gets it, for nothing. Its words do not depend on what went wrong; the operator's log has that, under the
first digits of the charge's hash.

What is no failure of a run: the ledger is busy or stopped, the key that signs is missing (nothing can be written down),
or the process was told to stop. The charge then waits for its next run.
"""

from __future__ import annotations

import logging
from typing import Final

from tacit.core.errors import FailedRunError
from tacit.ledger import Outcome, Reservation

__all__ = ["check_succeeded", "failed_run", "note_failure"]

_OPERATOR = logging.getLogger("tacit.operator")
_DIGITS: Final = 12


def failed_run(reservation: Reservation) -> FailedRunError:
    """The failure of the run under a charge: the same for everybody, now and later."""
    return FailedRunError(reservation.seq, reservation.hash[:_DIGITS])


def note_failure(reservation: Reservation, problem: BaseException | str) -> None:
    """Tell the operator what went wrong."""
    mark = reservation.hash[:_DIGITS]
    if isinstance(problem, str):
        _OPERATOR.error("failure %s: %s", mark, problem)
    else:
        _OPERATOR.error("failure %s", mark, exc_info=problem)


def check_succeeded(outcome: Outcome) -> Outcome:
    """The outcome, if something was released.

    Raises:
        FailedRunError: the run failed.
    """
    if outcome.failed:
        raise failed_run(outcome.reservation)
    return outcome
