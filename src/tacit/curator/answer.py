"""The whole life of a question, on one screen: parse → plan → quote → reserve → run → add noise → commit → answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tacit.core.errors import EngineError, InternalError, TacitError
from tacit.curator.accounts import Entry, entry_of
from tacit.curator.keyring import Keyring, commit_signed
from tacit.curator.keys import Keys
from tacit.curator.plans import Planned, Plans, read_back
from tacit.curator.receipt import Receipt, about_plan, issue
from tacit.curator.result import Answer
from tacit.curator.sources import scanned
from tacit.curator.stored import canonical, digest_of, released_to_text
from tacit.curator.turns import Turns
from tacit.engines.protocol import Engine, Work
from tacit.ledger import BusyError, Ledger, LedgerError, Order, Outcome, Reservation
from tacit.noise import entropy
from tacit.query.after.matching import PublicRows
from tacit.query.auto_bounds import find
from tacit.query.catalog import Catalog
from tacit.query.explain import outline
from tacit.query.limits import MAX_PUBLIC_ROWS
from tacit.query.noising import Released, release
from tacit.query.plan import Plan, with_bounds
from tacit.query.request import Account, Request

__all__ = ["Caller", "Desk", "answer", "opaque", "present", "quote", "release_key", "run"]

_OPERATOR = logging.getLogger("tacit.operator")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the key under which a request may be sent again (empty for none)."""

    analyst: str
    idempotency_key: str = ""


@dataclass(frozen=True)
class Desk:
    """What answering needs: public metadata, the data, who authorises, and the keys that sign.

    Args:
        project: its name.
        catalog: public metadata.
        engine: the only thing that reads data.
        ledger: the only thing that authorises.
        keys: sign receipts, and decide which groups of a unit are kept.
        accounts: for each population the kind of its account.
        version: names the state of the tables given; repeats are free within one.
    """

    project: str
    catalog: Catalog
    engine: Engine
    ledger: Ledger
    keys: Keyring
    accounts: Mapping[str, Account]
    version: Callable[[Iterable[str]], str]
    turns: Turns = field(default_factory=Turns)
    plans: Plans = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans", Plans(self.catalog, self.accounts, self.engine))


def quote(desk: Desk, sql: str, request: Request) -> Planned:
    """Parse, plan and price: a function of the text, of public metadata and of the request. Free, and reads no data."""
    with opaque():
        return desk.plans.of(sql, request)


def answer(
    desk: Desk, sql: str, request: Request, caller: Caller, progress: Callable[[float], None] | None = None
) -> Answer:
    """The answer to a question, charged durably before data is read and never refunded.

    One charge pays for one release. An equal question, or the same request sent again, gets that release for nothing,
    in this process or another. If the first run died or failed, the next one runs under the same charge. ``progress``
    is for the terminal of whoever holds the data; see :mod:`tacit.curator.progress`.

    Raises:
        Refusal, InputError: as written it cannot be answered; nothing is charged. Only a join of released rows with
            public ones can turn out too large afterwards; what was released is kept, and other joins of it are free.
        BudgetError: the account, or the analyst's or the project's share of it, does not allow the charge.
        EngineError, InternalError: something failed, and only an id says what; what was reserved stays spent.
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
                found = _commit(desk, sql, found, run(desk, plan, progress), planned)
        entry = entry_of(found, sql=sql, digest=plan.digest, analyst=caller.analyst, paid=paid)
        presented = desk.plans.rows(sql, plan, found.result, public)
        return Answer(presented.finished, presented.plan, entry, Receipt.from_json(found.receipt))


def run(desk: Desk, plan: Plan, progress: Callable[[float], None] | None = None) -> Released:
    """Measure and add noise, under a reservation: the only place where exact numbers of people are held."""
    search = plan.first
    if search is not None:
        found = run(desk, search, progress)
        plan = with_bounds(plan, find(plan.final, found.noisy, found.laws))
    secret = desk.keys.group_secret(plan.final.population)
    raw_measurements = desk.engine.measure(Work(plan.final, secret, progress=progress))
    return release(plan, raw_measurements)


def present(plan: Plan, result: bytes, entry: Entry, receipt: Receipt, public: Sequence[PublicRows]) -> Answer:
    """The answer, from the bytes that the ledger holds: the same for everybody, now and later."""
    presented = read_back(plan, result, public)
    return Answer(presented.finished, presented.plan, entry, receipt)


def _order(desk: Desk, planned: Planned, sql: str, caller: Caller) -> Order:
    plan = planned.plan
    return Order(
        plan.final.population,
        plan.guarantee,
        analyst=caller.analyst,
        project=desk.project,
        sql=sql,
        plan=plan.digest,
        quote={"mechanisms": planned.mechanisms},
        repeat_key=release_key(desk, plan),
        idempotency_key=caller.idempotency_key,
        request=digest_of(canonical([sql, plan.digest])),
    )


def _commit(desk: Desk, sql: str, reservation: Reservation, released: Released, planned: Planned) -> Outcome:
    plan, result = released.plan, released_to_text(released)
    # Where AUTO bounds were found, the plan that ran is another than the one that was reserved for.
    words, known = (planned.outline, planned.mechanisms) if plan is planned.plan else (outline(plan), None)

    def receipt(keys: Keys) -> Receipt:
        return issue(
            keys,
            desk.ledger.id,
            reservation,
            answers=[about_plan(words, plan, sql, released=digest_of(result), mechanisms=known)],
            unit=words.unit,
            account=plan.account,
            guarantee=plan.guarantee,
            project=desk.project,
            catalog=plan.catalog,
        )

    return commit_signed(desk.keys, desk.ledger, reservation, result, receipt)


def release_key(desk: Desk, plan: Plan) -> str:
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
