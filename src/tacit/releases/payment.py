"""Payment: the one life of a charge, reserve → run → sign → commit, and the context of all paid work.

Every kind of paid work (a query, a mechanism, a fit, a planned release and its parts) is an order, a run under the
reservation, and a statement for the receipt. :func:`pay` does the rest:

1. hold the lock of the order's repeat key, so that equal work in this process is done once;
2. refuse before anything is charged where the key that signs is missing;
3. reserve: a durable charge, or the outcome that an equal order has already;
4. where the charge is of a process that died, count one more run under it, or refuse;
5. run, and wait until the outcome may become known; a run that fails has the failure as its outcome;
6. sign the receipt and commit both.

Nothing is refunded once data was read.

*Failures as callers may know them.* Errors made for analysts pass as they are. Any other may quote data: the caller
gets an id, and the operator's log has the failure under it.

*Failed runs.* Whether a run fails could depend on one person. If a failed query could be asked again for nothing,
the same charge would give that bit as often as wanted, and an answer besides. So the failure is kept with a receipt,
and every equal query gets it, for nothing. Its words do not depend on what went wrong; the operator's log has that,
under the first digits of the charge's hash.

Not a failure of a run: the ledger is busy or stopped, the key that signs is missing (nothing can be written down), the
process was told to stop, or the answer was not ready when it should have left. The charge then waits for its next run.
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
from tacit.ledger import FAILED, Amount, BusyError, Ledger, LedgerError, Order, Outcome, Record, Reservation
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
    hidden = kind(f"the query could not be answered; the operator's log has the reason under {name}")
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


Made = TypeVar("Made")
_FAILED: Final = FAILED.decode()


@dataclass(frozen=True, slots=True)
class Caller:
    """Analyst who asks, the key under which a request may be sent again and the conversation (empty for none)."""

    analyst: str
    idempotency_key: str = ""
    conversation: str = ""


class KeyLocks:
    """Locks by key, each kept only while a thread holds it or waits for it.

    Equal queries wait for one another within one process. Two processes may compute an equal query twice; the
    ledger then keeps the first result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Hold the lock for ``key``; an empty key needs none."""
        with self._lock:
            mine = self._held.setdefault(key, threading.Lock()) if key else threading.Lock()
        with mine:
            yield


@dataclass(frozen=True)
class CuratorContext:
    """Everything that paid work needs: public metadata, the data, the ledger that authorises, the keys that sign.

    Args:
        project: its name.
        catalog: public metadata.
        engine: the only part that reads data.
        ledger: the only part that authorises.
        keys: sign receipts, and decide which groups of a unit are kept.
        accounts: for each population the kind of its account.
        version: names the state of the tables given; repeats are free within one.
        check_sources: raises :class:`~tacit.core.errors.MissingSourceError` where the files of a table are gone.
        locks: equal queries wait for one another.
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
        """Public metadata, with the sizes that public tables have now."""
        return self.sizes.now()[1]


class TimedWork(Protocol):
    """Work on data of which it is public how much one unit can cause; a plan of a query is some."""

    @property
    def final(self) -> FinalAggregation:
        """An aggregation of it, with its population."""

    @property
    def unit_work(self) -> int:
        """Bound on the row operations of one unit in all of it."""

    @property
    def whole_work(self) -> WholeWork:
        """Row operations of all rows in all of it, as tables are declared."""


class Ending(Enum):
    """Outcome of a run."""

    DONE = "what the run made"
    FAILED = "a failure"
    DELAYED = "none: the charge waits for its next run"


class Departure(Protocol):
    """Departure of one outcome: when it may become known. A server decides it before data is read."""

    @property
    def seconds(self) -> float | None:
        """After which the run is of no use and is interrupted; None for the engine's own limit."""

    def check(self, plan: TimedWork) -> None:
        """Refuse fresh work where too much of it was late."""

    def begin(self, plan: TimedWork) -> None:
        """Data is about to be read for this work."""

    def end(self, *, failed: bool) -> Ending:
        """The run has ended. Wait until its outcome may become known, and say what it has to be."""


@dataclass(frozen=True)
class Paid(Generic[Made]):
    """Result of a payment.

    Args:
        outcome: what the ledger holds; :func:`tacit.releases.payment.check_succeeded` tells whether the run failed.
        now: whether this call was charged; False for a repeat, and for a run under the charge of a process that died.
        made: what the run made, where this call ran and did not fail. None where another process under the same charge
            was first: that one's outcome is what was paid for, and what this one made would be a second draw.
        problem: why the run failed, where this call ran; never for analysts.
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
    departure: Departure | None = None,
    plan: TimedWork | None = None,
    keep_failure: bool = True,
    under: int | None = None,
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
        plan: of a query, or other work on data.
        keep_failure: whether a failed run is the outcome of its charge. Otherwise the failure is raised, and the next
            equal order runs under the same charge.
        under: position of the charge that has paid for the order already; None to charge it.

    Raises:
        BudgetError: the account, or a share of it, does not allow the charge.
        FailedRunError: the charge was of a process that died, too many times.
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
        ending = Ending.DONE if departure is None else departure.end(failed=problem is not None)
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
    departure: Departure | None = None,
    work: TimedWork | None = None,
    under: int | None = None,
    raises: bool = False,
) -> tuple[Paid[Made], Entry]:
    """Pay for a release that is no query: its outcome, and the line of its charge.

    Args:
        context: ledger, keys and locks.
        caller: who asks.
        run: see :func:`pay`.
        text: likewise.
        answers: lines of the receipt, given what was made and the digest of its bytes.
        population: whose budget.
        guarantee: of all of it.
        unit: whom it protects, in words.
        label: what it is.
        quote: what the ledger keeps of the order.
        request: what one request is told from another by.
        plan: digest of what is released.
        repeat: what an equal order is recognised by; None where every order is a new one.
        departure: see :func:`pay`.
        work: likewise.
        under: likewise.
        raises: whether the caller may see how the run failed.

    Raises:
        FailedRunError: the run failed, now or before.
    """
    order = Order(
        population, guarantee, analyst=caller.analyst, project=context.project, sql=label, plan=plan, quote=quote,
        repeat_key="" if repeat is None else digest_of(canonical(repeat)), idempotency_key=caller.idempotency_key,
        request=digest_of(canonical(request)),
    )  # fmt: skip
    is_fresh = departure is not None and context.ledger.outcome_under(population, order.repeat_key) is None
    if departure is not None and work is not None and is_fresh:
        departure.check(work)

    def statement(made: Made | None, digest: str) -> ReceiptStatement:
        kind = currency_of(guarantee).kind
        return ReceiptStatement(answers(made, digest), unit, kind, guarantee, context.catalog.digest)

    paid = pay(context, order, run, text, statement, departure=departure, plan=work, under=under)
    if raises and paid.problem is not None:
        raise paid.problem
    check_succeeded(paid.outcome)
    return paid, entry_of(paid.outcome, sql=label, digest=plan, analyst=caller.analyst, paid=paid.now)


def reserved(context: CuratorContext, order: Order) -> Reservation | Outcome:
    """A durable charge, or the outcome that an equal order has, within the owner's policy for analysts."""
    account = context.accounts.get(order.population)
    if account is not None and account.analyst_caps and order.analyst not in ("", OWNER):
        context.ledger.limit_analyst(order.population, order.analyst, account.analyst_caps)
    return context.ledger.reserve(order)


def paid_at(context: CuratorContext, position: int, part: str) -> tuple[Charged, Any, Outcome, Entry]:
    """The charge at a place, the part of its quote that names its kind of work, what came of it, and its line.

    Raises:
        InputError: there is no such work at this place.
        FailedRunError: it failed.
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
    """A line of the history; or that of an outcome, which was ``paid`` for just now or had been before."""
    if isinstance(found, Record):
        return Entry(
            found.seq, found.population, _in_order(found.amounts), found.sql, found.plan, found.answered, found.analyst,
            typed=found.typed, time=found.time, failed=found.failed,
        )  # fmt: skip
    under: Reservation = found.reservation
    amounts = _in_order(under.amounts) if paid else ()
    return Entry(under.seq, under.population, amounts, sql, digest, True, analyst, not paid, typed=under.typed)


def _in_order(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """Amounts other than zero, delta last."""
    return tuple(sorted((each for each in amounts if each.amount), key=lambda each: each.currency == "delta"))
