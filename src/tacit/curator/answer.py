"""The whole life of a question, on one screen: parse → plan → quote → reserve → run → add noise → commit → answer."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tacit.core.errors import EngineError, InternalError, TacitError
from tacit.curator.accounts import Account, Entry
from tacit.curator.result import Answer
from tacit.engines.protocol import Engine, Work
from tacit.noise import entropy
from tacit.query.after.result import finish
from tacit.query.catalog import Catalog
from tacit.query.noising import Released, release
from tacit.query.plan import Plan, plan_question
from tacit.query.request import Request
from tacit.query.resolve import resolve

__all__ = ["Desk", "answer", "opaque", "quote"]

_OPERATOR = logging.getLogger("tacit.operator")


@dataclass(frozen=True)
class Desk:
    """What answering needs: public metadata, the data, who authorises, and the answers given so far.

    Args:
        catalog: public metadata.
        engine: the only thing that reads data.
        accounts: one per population.
        version: names the state of the data; repeats are free within one.
        key_secret: decides which groups of a unit are kept, alike in all questions.
    """

    catalog: Catalog
    engine: Engine
    accounts: Mapping[str, Account]
    version: Callable[[], str]
    key_secret: bytes
    stored: dict[str, Released] = field(default_factory=dict)
    _turns: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Equal questions wait for one another, so that the second finds the answer of the first."""
        with self._lock:
            mine = self._turns.setdefault(key, threading.Lock())
        with mine:
            yield


def quote(desk: Desk, sql: str, request: Request) -> Plan:
    """Parse, plan and price: a function of the text, of public metadata and of the request. Free, and reads no data."""
    with opaque():
        question = resolve(sql, desk.catalog)
        population = desk.catalog.population(question.final.population)
        request = replace(request, account=desk.accounts[population.name].kind)
        plan = plan_question(question, population.relation, request, catalog=desk.catalog.digest)
        desk.engine.check(plan.final)
    return plan


def answer(desk: Desk, sql: str, request: Request) -> Answer:
    """The answer to a question, charged before data is read and never refunded.

    Raises:
        Refusal, InputError: as written it cannot be answered; nothing is charged.
        BudgetError: the account does not allow the charge; nothing is charged.
        EngineError, InternalError: something failed, and only an id says what; what was reserved stays spent.
    """
    plan = quote(desk, sql, request)
    account = desk.accounts[plan.final.population]
    key = _key(plan, desk.version())
    with desk.turn(key), opaque():
        if key in desk.stored:
            entry = Entry(0, account.population, (), sql, plan.digest, committed=True)
            return _present(plan, desk.stored[key], entry)
        entry = account.reserve(plan.guarantee, sql=sql, digest=plan.digest)
        raw_measurements = desk.engine.measure(Work(plan.final, desk.key_secret))
        released = release(plan, raw_measurements)
        del raw_measurements
        entry = account.commit(entry)
        desk.stored[key] = released
        return _present(plan, released, entry)


def _present(plan: Plan, released: Released, entry: Entry) -> Answer:
    return Answer(finish(plan.question, released, confidence=plan.confidence), plan, entry)


def _key(plan: Plan, version: str) -> str:
    """Names a release: the same numbers, the same noise, the same price.

    What is done with the cells afterwards (order, limits, names, expressions, the confidence of intervals) is
    post-processing, so a question that differs only there is a repeat as well.
    """
    parts = (plan.final.text, plan.catalog, plan.relation.value, plan.priced, repr(plan.guarantee), version)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@contextmanager
def opaque() -> Iterator[None]:
    """Let errors with words for analysts pass; of any other give an id, and tell the operator the rest."""
    try:
        yield
    except TacitError as problem:
        if not problem.opaque:
            raise
        kind = EngineError if isinstance(problem, EngineError) else InternalError
        raise kind(_noted(problem)) from None
    except Exception as problem:
        raise InternalError(_noted(problem)) from None


def _noted(problem: Exception) -> str:
    """An id for analysts; the failure itself goes to the operator's log."""
    mark = f"{entropy.current().bits(48):012x}"
    _OPERATOR.error("failure %s", mark, exc_info=problem)
    return f"the question could not be answered; the operator's log has the reason under {mark}"
