"""Life of a question: parse → plan → quote → reserve → run → add noise → commit → answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tacit.core.errors import EngineError, InternalError, TacitError
from tacit.curator.accounts import Entry, entry_of
from tacit.curator.departure import AtOnce, Departure
from tacit.curator.failed_runs import check_succeeded, failed_run, note_failure
from tacit.curator.key_locks import KeyLocks
from tacit.curator.planner import Planner, PricedPlan, read_back
from tacit.curator.views.answer_object import Answer
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.ledger import FAILED, BusyError, Ledger, LedgerError, Order, Outcome, Reservation, run_again
from tacit.noise import entropy
from tacit.project.source_binding import scanned
from tacit.query.catalog import Catalog
from tacit.query.limits import MAX_PUBLIC_ROWS
from tacit.query.planning.auto_bounds import find
from tacit.query.planning.explain import outline
from tacit.query.planning.plan import Plan, with_bounds
from tacit.query.postprocess.public_join import PublicRows
from tacit.query.release import NoisyRelease, release
from tacit.query.request import Account, Request
from tacit.receipts.keyring import Keyring, commit_signed
from tacit.receipts.keys import Keys
from tacit.receipts.receipt import Receipt, about_plan, issue
from tacit.receipts.release_format import canonical, digest_of, released_to_text

__all__ = ["Caller", "CuratorContext", "answer", "opaque", "present", "quote", "release_key", "run", "told"]

_OPERATOR = logging.getLogger("tacit.operator")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the key under which a request may be sent again (empty for none)."""

    analyst: str
    idempotency_key: str = ""


@dataclass(frozen=True)
class CuratorContext:
    """What answering needs: public metadata, the data, who authorises, and the keys that sign.

    Args:
        project: its name.
        catalog: public metadata.
        engine: the only thing that reads data.
        ledger: the only thing that authorises.
        keys: sign receipts, and decide which groups of a unit are kept.
        accounts: for each population the kind of its account.
        version: names the state of the tables given; repeats are free within one.
        turns: equal questions wait for one another.
        closing: set when everything is about to be given back; what is interrupted then has not failed.
    """

    project: str
    catalog: Catalog
    engine: Engine
    ledger: Ledger
    keys: Keyring
    accounts: Mapping[str, Account]
    version: Callable[[Iterable[str]], str]
    turns: KeyLocks = field(default_factory=KeyLocks)
    closing: threading.Event = field(default_factory=threading.Event, compare=False)
    plans: Planner = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans", Planner(self.catalog, self.accounts, self.engine, self.version))


def quote(desk: CuratorContext, sql: str, request: Request) -> PricedPlan:
    """Parse, plan and price: a function of the text, of public metadata and of the request. Free, and reads no data."""
    with opaque():
        return desk.plans.of(sql, request)


def answer(
    desk: CuratorContext,
    sql: str,
    request: Request,
    caller: Caller,
    progress: Callable[[float], None] | None = None,
    *,
    departure: Departure | None = None,
) -> Answer:
    """The answer to a question, charged durably before data is read and never refunded.

    One charge pays for one release. An equal question, or the same request sent again, gets that release for nothing,
    in this process or another. If the run fails, the failure is what the charge has bought, and everybody who asks the
    same gets it; see :mod:`tacit.curator.failed_runs`. If the process dies, the next run is under the same charge, a
    bounded number of times.

    Args:
        desk: what answering needs.
        sql: the question.
        request: what it may cost, and what else is asked for.
        caller: who asks.
        progress: for the data owner's terminal; see :mod:`tacit.curator.views.progress_bar`.
        departure: decides when the outcome of a fresh question is written down, so when anybody can know of it.

    Raises:
        Refusal, InputError: as written it cannot be answered; nothing is charged. Only a join of released rows with
            public ones can turn out too large afterwards; what was released is kept, and other joins of it are free.
        BudgetError: the account, or the analyst's or the project's share of it, does not allow the charge.
        FailedRunError: the run of this question failed, now or before; what was reserved stays spent.
        EngineError, InternalError: something else failed, and only an id says what; what was reserved stays spent.
        LedgerError: the ledger failed; no further question is answered.
    """
    planned = quote(desk, sql, request)
    plan = planned.plan
    with opaque():
        order = _order(desk, planned, sql, caller)
        public = [desk.engine.rows(each, most=MAX_PUBLIC_ROWS) for each in plan.question.reads]
        with desk.turns.take(order.repeat_key):
            desk.keys.check(desk.ledger)
            found = desk.ledger.reserve(order)
            paid = isinstance(found, Reservation) and not found.resumed
            if isinstance(found, Reservation):
                found = _run_once(desk, sql, found, planned, progress, departure or AtOnce())
        return told(desk, planned, sql, found, public, analyst=caller.analyst, paid=paid)


def run(
    desk: CuratorContext, plan: Plan, progress: Callable[[float], None] | None = None, seconds: float | None = None
) -> NoisyRelease:
    """Measure and add noise, under a reservation: the only place where exact numbers of people are held."""
    search = plan.first
    if search is not None:
        found = run(desk, search, progress, seconds)
        plan = with_bounds(plan, find(plan.final, found.noisy, found.laws))
    secret = desk.keys.group_secret(plan.final.population)
    raw_measurements = desk.engine.measure(MeasurementTask(plan.final, secret, timeout=seconds, progress=progress))
    return release(plan, raw_measurements)


def present(plan: Plan, result: bytes, entry: Entry, receipt: Receipt, public: Sequence[PublicRows]) -> Answer:
    """The answer, from the bytes that the ledger holds: the same for everybody, now and later."""
    presented = read_back(plan, result, public)
    return Answer(presented.finished, presented.plan, entry, receipt)


def told(
    desk: CuratorContext,
    planned: PricedPlan,
    sql: str,
    found: Outcome,
    public: Sequence[PublicRows],
    *,
    analyst: str,
    paid: bool,
) -> Answer:
    """Build the caller's answer from a stored outcome: its rows, and a receipt in the caller's words.

    Raises:
        FailedRunError: the run failed, so there is no answer.
    """
    check_succeeded(found)
    entry = entry_of(found, sql=sql, digest=planned.plan.digest, analyst=analyst, paid=paid)
    presented = desk.plans.rows(sql, planned.plan, found.result, public)
    return Answer(presented.finished, presented.plan, entry, _own_receipt(desk, planned, presented.plan, sql, found))


def _own_receipt(desk: CuratorContext, planned: PricedPlan, ran: Plan, sql: str, found: Outcome) -> Receipt:
    """The receipt of a release, in the words of whoever asks for it.

    The ledger holds the one of whoever ran it first. What they wrote, with its comments and names, is theirs and was
    never released. So somebody who asks the same in other words gets a statement about the same release, the same
    charge and the same place in the ledger, with a signature of its own.
    """
    kept = Receipt.from_json(found.receipt)
    first = kept["answers"][0]
    if (first["query"], first["plan"]) == (sql, ran.digest):
        return kept
    return _receipt(desk.keys.current(desk.ledger), desk, planned, ran, sql, found.reservation, found.digest)


def _order(desk: CuratorContext, planned: PricedPlan, sql: str, caller: Caller) -> Order:
    plan = planned.plan
    return Order(
        plan.final.population,
        plan.guarantee,
        analyst=caller.analyst,
        project=desk.project,
        sql=sql,
        plan=plan.digest,
        quote={"mechanisms": planned.mechanisms, "salt": _salt(desk, sql, caller)},
        repeat_key=release_key(desk, plan),
        idempotency_key=caller.idempotency_key,
        request=digest_of(canonical([sql, plan.digest])),
    )


def _salt(desk: CuratorContext, sql: str, caller: Caller) -> str:
    """What makes the hash of a charge tell nothing about it: receipts show that hash, also to those who did not pay.

    Without it, whoever guesses who asked, when and in which words could see that the guess was right.
    """
    return desk.keys.veil(canonical(["charge", caller.analyst, caller.idempotency_key, sql]))


def _run_once(
    desk: CuratorContext,
    sql: str,
    reservation: Reservation,
    planned: PricedPlan,
    progress: Callable[[float], None] | None,
    departure: Departure,
) -> Outcome:
    """Run a question under its charge, and keep what became of it: an answer, or that it failed."""
    if reservation.resumed and not run_again(desk.ledger, reservation):
        raise failed_run(reservation)
    ran, result, failed = planned.plan, "", True
    departure.begin(planned.plan)
    try:
        released = run(desk, planned.plan, progress, departure.seconds)
        ran, result, failed = released.plan, released_to_text(released), False
    except Exception as problem:
        if desk.closing.is_set():
            raise
        note_failure(reservation, problem)
    if not departure.end(failed=failed):
        ran, result = planned.plan, FAILED.decode()

    def receipt(keys: Keys) -> Receipt:
        return _receipt(keys, desk, planned, ran, sql, reservation, digest_of(result))

    return commit_signed(desk.keys, desk.ledger, reservation, result, receipt)


def _receipt(
    keys: Keys, desk: CuratorContext, planned: PricedPlan, ran: Plan, sql: str, reservation: Reservation, released: str
) -> Receipt:
    # Where AUTO bounds were found, the plan that ran is another than the one that was reserved for.
    words, known = (planned.outline, planned.mechanisms) if ran is planned.plan else (outline(ran), None)
    return issue(
        keys,
        desk.ledger.id,
        reservation,
        answers=[about_plan(words, ran, sql, released=released, mechanisms=known)],
        unit=words.unit,
        account=ran.account,
        guarantee=ran.guarantee,
        project=desk.project,
        catalog=ran.catalog,
    )


def release_key(desk: CuratorContext, plan: Plan) -> str:
    """Names a release: the same numbers of the same data, the same noise, the same price.

    What is done with the cells afterwards (order, limits, names, expressions, the confidence of intervals) is
    post-processing, so a question that differs only there is a repeat as well.
    """
    version = desk.version(scanned(plan.final.source))
    parts = [*map(repr, (plan.final.text, plan.catalog, plan.relation.value)), plan.priced.text]
    return digest_of(f"({', '.join([*parts, repr(repr(plan.guarantee)), repr(version)])})")


@contextmanager
def opaque() -> Iterator[None]:
    """Let errors with words for analysts pass; of any other give an id, and tell the operator the rest."""
    try:
        yield
    except TacitError as problem:
        if not problem.opaque:
            raise
        kinds = (BusyError, LedgerError, EngineError)
        kind = next((kind for kind in kinds if isinstance(problem, kind)), InternalError)
        raise kind(_noted(problem)) from None
    except Exception as problem:
        raise InternalError(_noted(problem)) from None


def _noted(problem: Exception) -> str:
    """An id for analysts; the failure itself goes to the operator's log."""
    mark = f"{entropy.current().bits(48):012x}"
    _OPERATOR.error("failure %s", mark, exc_info=problem)
    return f"the question could not be answered; the operator's log has the reason under {mark}"
