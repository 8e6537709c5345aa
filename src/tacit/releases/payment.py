"""Payment: the one life of a charge, reserve → run → sign → commit, and the context of all paid work.

Every kind of release (a query, a mechanism, a fit, a planned release and its parts) consists of an order, a run under
the reservation, and a statement for the receipt. :func:`pay` does the rest:

1. hold the lock of the order's repeat key, so that equal orders in this process run once;
2. refuse before anything is charged where the signing key is missing;
3. reserve: a durable charge, or the outcome that an equal order has already;
4. where the charge was made by a process that died, count one more run under it, or refuse;
5. run, and wait until the outcome may become known; the outcome of a failed run is its failure;
6. sign the receipt and commit outcome and receipt.

Nothing is refunded once data was read.

*Failures as callers see them.* Errors with messages for analysts pass unchanged. The message of any other error could
quote data: the caller gets an id, and the operator's log has the error under this id.

*Failed runs.* Whether a run fails could depend on one person. If a failed query could be asked again at no cost, one
charge would release that bit any number of times, and an answer as well. So the failure is stored with a receipt, and
every equal query gets it, at no cost. Its message does not depend on the cause; the operator's log has the cause, under
the first digits of the charge's hash.

A run has not failed if the ledger is busy or stopped, the signing key is missing (nothing can be stored), the process
was told to stop, or the outcome was not ready at its response time. The charge then waits for its next run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from tacit.accounting.currencies import currency_of
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import DelayedError, EngineError, FailedRunError, InputError, InternalError, TacitError
from tacit.core.guarantees import Guarantee
from tacit.engines.protocol import Engine
from tacit.ledger import FAILED, BusyError, Ledger, LedgerError, Order, Outcome, Record, Reservation
from tacit.ledger.history import Charged, charge_at
from tacit.noise import entropy
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.request import Account
from tacit.releases.accounts import OWNER, Entry
from tacit.releases.keys import Keyring, commit_signed
from tacit.releases.receipt import Receipt, ReceiptStatement, issue

if TYPE_CHECKING:
    from tacit.query.planning.work import WholeWork
    from tacit.query.query import FinalAggregation

_OPERATOR = logging.getLogger("tacit.operator")
_DIGITS: Final = 12


@contextmanager
def hide_internal_errors() -> Iterator[None]:
    """Let errors with messages for analysts pass; replace any other by an error with an id, and log it under the id."""
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
    hidden = kind(f"the query could not be answered; the operator's log has the reason under {name}")
    hidden.id = name
    return hidden


def log_failure(problem: BaseException) -> str:
    """Write a failure to the operator's log and return its id there."""
    name = f"{entropy.current().bits(4 * _DIGITS):0{_DIGITS}x}"
    _OPERATOR.error("failure %s", name, exc_info=problem)
    return name


def log_failed_run(reservation: Reservation, problem: BaseException) -> None:
    """Write the cause of a failed run to the operator's log, under the first digits of its charge's hash."""
    _OPERATOR.error("failure %s", reservation.hash[:_DIGITS], exc_info=problem)


def failed_run(reservation: Reservation) -> FailedRunError:
    """Return the error for the failed run of a charge: the same for every caller, now and later."""
    return FailedRunError(reservation.seq, reservation.hash[:_DIGITS])


def check_succeeded(outcome: Outcome) -> Outcome:
    """Return the outcome of a run that succeeded.

    Raises:
        FailedRunError: the run failed.
    """
    if outcome.failed:
        raise failed_run(outcome.reservation)
    return outcome


Made = TypeVar("Made")
_FAILED: Final = FAILED.decode()


@dataclass(frozen=True, slots=True)
class Caller:
    """Analyst, idempotency key of the request, and name of the conversation (empty for none)."""

    analyst: str
    idempotency_key: str = ""
    conversation: str = ""


class KeyLocks:
    """Locks by key, each in memory only while a thread holds it or waits for it.

    Equal queries wait for one another within one process. Two processes may compute an equal query twice; the
    ledger then keeps the first result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Hold the lock for ``key``; no other thread waits for an empty key."""
        with self._lock:
            mine = self._held.setdefault(key, threading.Lock()) if key else threading.Lock()
        with mine:
            yield


@dataclass(frozen=True)
class CuratorContext:
    """Everything a release needs: public metadata, the engine that reads data, the ledger and the keys.

    Args:
        project: name of the project.
        catalog: public metadata.
        engine: reads data; nothing else does.
        ledger: authorises charges; nothing else does.
        keys: sign receipts, and seed the choice of the groups of a unit that count.
        accounts: kind of account of each population.
        version: returns the version of the named tables' data; repeats are free within a version.
        check_sources: raises :class:`~tacit.core.errors.MissingSourceError` where the files of a table are gone.
        locks: locks by repeat key, so that equal queries wait for one another.
        closing: set when engine and ledger are about to be closed; a run that is interrupted then has not failed.
    """

    project: str
    catalog: Catalog
    engine: Engine
    ledger: Ledger
    keys: Keyring
    accounts: Mapping[str, Account]
    version: Callable[[Iterable[str]], str]
    check_sources: Callable[[], None] = lambda: None
    locks: KeyLocks = field(default_factory=KeyLocks)
    closing: threading.Event = field(default_factory=threading.Event, compare=False)
    sizes: PublicSizes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", PublicSizes(self.catalog, self.engine, self.version))

    @property
    def measured_catalog(self) -> Catalog:
        """Public metadata, with the present sizes of public tables."""
        return self.sizes.now()[1]


class TimedWork(Protocol):
    """A computation on data with a public bound on the work one unit can cause, such as the plan of a query."""

    @property
    def final(self) -> FinalAggregation:
        """One of its aggregations, which names the population."""

    @property
    def unit_work(self) -> int:
        """Bound on the number of row operations that one unit causes."""

    @property
    def whole_work(self) -> WholeWork:
        """Number of row operations of all rows, from the declared sizes of tables."""


class Ending(Enum):
    """Outcome of a run."""

    DONE = "what the run made"
    FAILED = "a failure"
    DELAYED = "none: the charge waits for its next run"


class ReleaseTimer(Protocol):
    """Response time of one outcome: when it may become known. A server decides it before data is read."""

    @property
    def seconds(self) -> float | None:
        """Time limit of the run, after which it is interrupted; None for the engine's own limit."""

    def check(self, plan: TimedWork) -> None:
        """Refuse a fresh computation where too many responses were late."""

    def begin(self, plan: TimedWork) -> None:
        """Note the start of a computation, just before it reads data."""

    def end(self, *, failed: bool) -> Ending:
        """Wait, after the run has ended, until its outcome may become known; return the outcome it must have."""


@dataclass(frozen=True)
class Paid(Generic[Made]):
    """Result of a payment.

    Args:
        outcome: outcome in the ledger; :func:`tacit.releases.payment.check_succeeded` tells whether the run failed.
        now: whether this call was charged; False for a repeat, and for a run under the charge of a process that died.
        made: result of the run, where this call ran and did not fail. None where another process under the same charge
            committed first: its outcome is the release, and this call's result would be a second draw of noise.
        problem: error of the run, where this call ran and failed; never shown to analysts.
    """

    outcome: Outcome
    now: bool
    made: Made | None = None
    problem: Exception | None = None

    @property
    def receipt(self) -> Receipt:
        return Receipt.from_json(self.outcome.receipt)


def pay(
    context: CuratorContext,
    order: Order,
    run: Callable[[Reservation], Made],
    text: Callable[[Made], str],
    statement: Callable[[Made | None, str], ReceiptStatement] | None,
    *,
    timer: ReleaseTimer | None = None,
    plan: TimedWork | None = None,
    keep_failure: bool = True,
    under: int | None = None,
) -> Paid[Made]:
    """Charge for a release, run it once, and store its outcome with a receipt.

    Args:
        context: ledger, keys and locks.
        order: population, analyst and cost of the charge, and the keys by which an equal order is a repeat.
        run: computes the release, under the reservation.
        text: returns the text of the run's result that the ledger stores.
        statement: returns the content of the receipt, given the result (None for a failure) and the digest of its
            text; None for a part of a release, which is charged and receipted as a whole.
        timer: decides when the outcome may become known, from ``plan``; None for at once.
        plan: plan of the query, or another computation on data.
        keep_failure: whether a failed run is the outcome of its charge. Otherwise the failure is raised, and the next
            equal order runs under the same charge.
        under: ledger position of the charge that has paid for the order already; None to charge it.

    Raises:
        BudgetError: the account, or a share of it, does not allow the charge.
        FailedRunError: the process died in too many runs under this charge.
        DelayedError: the outcome was not ready in time; nothing was released under the charge.
        LedgerError: the ledger failed; nothing more is authorised.
    """
    with context.locks.take(order.repeat_key):
        if statement is not None:
            context.keys.check(context.ledger)
        found = reserved(context, order) if under is None else context.ledger.resume(under, order)
        if isinstance(found, Outcome):
            return Paid(found, now=False)
        charge: Reservation = found
        if charge.resumed and keep_failure and not context.ledger.run_again(charge):
            raise failed_run(charge)
        if timer is not None and plan is not None:
            timer.begin(plan)
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
        ending = Ending.DONE if timer is None else timer.end(failed=problem is not None)
        if ending is Ending.DELAYED:
            raise DelayedError(charge.seq)
        if ending is Ending.FAILED:
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
        return Paid(outcome, not charge.resumed, None if outcome.repeated else made, problem)


def pay_release(
    context: CuratorContext,
    caller: Caller,
    run: Callable[[Reservation], Made],
    text: Callable[[Made], str],
    answers: Callable[[Made | None, str], list[dict[str, Any]]],
    *,
    population: str,
    guarantee: Guarantee,
    unit: str,
    label: str,
    quote: Mapping[str, Any],
    request: Sequence[Any],
    plan: str = "",
    repeat: Sequence[Any] | None = None,
    timer: ReleaseTimer | None = None,
    work: TimedWork | None = None,
    under: int | None = None,
    raises: bool = False,
) -> tuple[Paid[Made], Entry]:
    """Pay for a release that is no query, and return its outcome and the ledger entry of its charge.

    Args:
        context: ledger, keys and locks.
        caller: analyst and idempotency key.
        run: see :func:`pay`.
        text: see :func:`pay`.
        answers: returns the entries of the receipt, given the result and the digest of its text.
        population: population whose account is charged.
        guarantee: privacy guarantee of the whole release, which is charged.
        unit: description of the unit of protection.
        label: description of the release in the history.
        quote: description of the order that the ledger stores.
        request: content of the request; the same idempotency key with another request is refused.
        plan: digest of the plan of the release.
        repeat: content by which an equal order is a repeat; None where every order is a new one.
        timer: see :func:`pay`.
        work: the ``plan`` of :func:`pay`.
        under: see :func:`pay`.
        raises: whether the caller may see the error of a failed run.

    Raises:
        FailedRunError: the run failed, now or before.
    """
    order = Order(
        population, guarantee, analyst=caller.analyst, project=context.project, sql=label, plan=plan, quote=quote,
        repeat_key="" if repeat is None else digest_of(canonical(repeat)), idempotency_key=caller.idempotency_key,
        request=digest_of(canonical(request)),
    )  # fmt: skip
    is_fresh = timer is not None and context.ledger.outcome_under(population, order.repeat_key) is None
    if timer is not None and work is not None and is_fresh:
        timer.check(work)

    def statement(made: Made | None, digest: str) -> ReceiptStatement:
        kind = currency_of(guarantee).kind
        return ReceiptStatement(answers(made, digest), unit, kind, guarantee, context.catalog.digest)

    paid = pay(context, order, run, text, statement, timer=timer, plan=work, under=under)
    if raises and paid.problem is not None:
        raise paid.problem
    check_succeeded(paid.outcome)
    return paid, entry_of(paid.outcome, sql=label, digest=plan, analyst=caller.analyst, paid=paid.now)


def reserved(context: CuratorContext, order: Order) -> Reservation | Outcome:
    """Reserve a durable charge, or return the outcome of an equal order; the owner's caps for analysts apply."""
    account = context.accounts.get(order.population)
    if account is not None and account.analyst_caps and order.analyst not in ("", OWNER):
        context.ledger.limit_analyst(order.population, order.analyst, account.analyst_caps)
    return context.ledger.reserve(order)


def paid_at(context: CuratorContext, position: int, part: str) -> tuple[Charged, Any, Outcome, Entry]:
    """Return the charge at a ledger position, its quote's field ``part``, its outcome and its ledger entry.

    Raises:
        InputError: there is no charge at this position with such a field and an outcome.
        FailedRunError: its run failed.
    """
    charged = charge_at(context.ledger, position)
    told = None if charged is None else charged.quote.get(part)
    outcome = context.ledger.outcome(position) if told else None
    if charged is None or outcome is None:
        raise InputError("position", f"there is no {part} at {position}")
    check_succeeded(outcome)
    record = charged.record
    entry = entry_of(outcome, sql=record.sql, digest=record.plan, analyst=record.analyst, paid=False)
    return charged, told, outcome, entry


def entry_of(
    found: Record | Outcome,
    *,
    sql: str = "",
    digest: str = "",
    analyst: str = "",
    paid: bool = True,
) -> Entry:
    """Return the entry of a record of the history, or of an outcome, which was ``paid`` for just now or before."""
    charged = found.amounts if isinstance(found, Record) else found.reservation.amounts
    # Delta comes last.
    amounts = tuple(sorted([each for each in charged if each.amount], key=lambda each: each.currency == "delta"))
    if isinstance(found, Record):
        return Entry(
            found.seq, found.population, amounts, found.sql, found.plan, found.answered, found.analyst,
            typed=found.typed, time=found.time, failed=found.failed,
        )  # fmt: skip
    under: Reservation = found.reservation
    return Entry(
        under.seq, under.population, amounts if paid else (), sql, digest, True, analyst, not paid, typed=under.typed
    )
