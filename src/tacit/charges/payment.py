"""Payment: the one life of a charge, reserve → run → sign → commit.

Every kind of paid work (a question, a mechanism, a fit, a planned release and its parts) is an order, a run under the
reservation, and a statement for the receipt. :func:`pay` does the rest:

1. hold the lock of the order's repeat key, so that equal work in this process is done once;
2. refuse before anything is charged where the key that signs is missing;
3. reserve: a durable charge, or the outcome that an equal order has already;
4. where the charge is of a process that died, count one more run under it, or refuse;
5. run, and wait until the outcome may become known; a run that fails has the failure as its outcome;
6. sign the receipt and commit both.

Nothing is refunded once data was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from tacit.charges.context import CuratorContext
from tacit.charges.failures import failed_run, log_failed_run
from tacit.ledger import FAILED, Order, Outcome, Reservation, run_again
from tacit.ledger.history import charge_at
from tacit.ledger.records import Record
from tacit.receipts.keyring import commit_signed
from tacit.receipts.receipt import Receipt, ReceiptStatement, issue
from tacit.receipts.release_format import digest_of

if TYPE_CHECKING:
    from tacit.query.planning.plan import Plan

__all__ = ["Departure", "Paid", "paid_before", "pay"]

Made = TypeVar("Made")
_FAILED: Final = FAILED.decode()


class Departure(Protocol):
    """Departure of one outcome: when it may become known. A server decides it before data is read."""

    @property
    def seconds(self) -> float | None:
        """After which the run is of no use and is interrupted; None for the engine's own limit."""

    def begin(self, plan: Plan) -> None:
        """Data is about to be read for this plan."""

    def end(self, *, failed: bool) -> bool:
        """The run has ended. Wait until its outcome may become known; False where it has to be a failure."""


@dataclass(frozen=True)
class Paid(Generic[Made]):
    """Result of a payment.

    Args:
        outcome: what the ledger holds; :func:`tacit.charges.failures.check_succeeded` tells whether the run failed.
        now: whether this call was charged; False for a repeat, and for a run under the charge of a process that died.
        made: what the run made, where this call ran and did not fail.
        problem: why the run failed, where this call ran; never for analysts.
    """

    outcome: Outcome
    now: bool
    made: Made | None = None
    problem: Exception | None = None

    @property
    def receipt(self) -> Receipt:
        """The receipt that the ledger holds."""
        return Receipt.from_json(self.outcome.receipt)


def pay(
    context: CuratorContext,
    order: Order,
    run: Callable[[Reservation], Made],
    text: Callable[[Made], str],
    statement: Callable[[Made | None, str], ReceiptStatement] | None,
    *,
    departure: Departure | None = None,
    plan: Plan | None = None,
    keep_failure: bool = True,
) -> Paid[Made]:
    """Charge for work, do it once, and keep its outcome with a receipt.

    Args:
        context: ledger, keys and locks.
        order: what is charged, to whom, and under which keys it is a repeat.
        run: the work, under the reservation.
        text: the bytes to keep of what was made.
        statement: content of the receipt, given what was made (None for a failure) and the digest of the bytes; None
            for work that another charge has paid for and another receipt is about.
        departure: decides when the outcome may become known, from ``plan``; None for at once.
        plan: of a question.
        keep_failure: whether a failed run is the outcome of its charge. Otherwise the failure is raised, and the next
            equal order runs under the same charge.

    Raises:
        BudgetError: the account, or a share of it, does not allow the charge.
        FailedRunError: the charge was of a process that died, too many times.
        LedgerError: the ledger failed; nothing more is authorised.
    """
    with context.locks.take(order.repeat_key):
        if statement is not None:
            context.keys.check(context.ledger)
        found = context.ledger.reserve(order)
        if isinstance(found, Outcome):
            return Paid(found, now=False)
        charge: Reservation = found
        if charge.resumed and keep_failure and not run_again(context.ledger, charge):
            raise failed_run(charge)
        if departure is not None and plan is not None:
            departure.begin(plan)
        made: Made | None = None
        problem: Exception | None = None
        result = _FAILED
        try:
            value = run(charge)
            made, result = value, text(value)
        except Exception as failure:
            if context.closing.is_set() or not keep_failure:
                raise
            log_failed_run(charge, failure)
            made, problem = None, failure
        if departure is not None and not departure.end(failed=problem is not None):
            made, result = None, _FAILED
        if statement is None:
            outcome = context.ledger.commit(charge, result.encode())
        else:
            says = statement(made, digest_of(result))
            outcome = commit_signed(
                context.keys,
                context.ledger,
                charge,
                result,
                lambda keys: issue(keys, context.ledger.id, context.project, charge, says),
            )
        return Paid(outcome, not charge.resumed, made, problem)


def paid_before(context: CuratorContext, label: str, part: str) -> Iterator[tuple[Record, Any]]:
    """Work of one kind that a project paid for and that exists, each with a part of its quote.

    Args:
        context: of the curator.
        label: beginning of the words that the ledger has for this kind of work.
        part: of the quote; charges that have none are left out.
    """
    for population in context.catalog.populations:
        for record in context.ledger.history(population=population.name):
            if record.project == context.project and record.sql.startswith(label) and record.answered:
                charged = charge_at(context.ledger, record.seq)
                told = None if charged is None else charged.quote.get(part)
                if told:
                    yield record, told
