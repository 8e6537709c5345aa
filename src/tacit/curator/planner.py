"""Planner with a cache of recent questions and plans, and of releases that coarser questions are sums of.

Planning is a function of the text, of public metadata and of what was asked for, so a plan may serve again. It is kept
under the text and the *terms*, and these are read from every request anew: nothing that a request gets wrong is
overlooked because a like one was right. Another price or confidence is planned anew, from the same resolved question;
another ``max_rows`` is another question.

Refusals are not kept. Neither is anything about who asked or about accounts: whether a plan may be carried out is asked
of the ledger every time. The rows of an answer are kept under the bytes that the ledger holds, so that a repeat need
not read the same bytes twice. That a text was planned lately can be told by the time a quote takes; that it was
answered is told by the price of a repeat.

*Releases that the ledger holds* are found again for coarser questions that are sums of their cells. Which release
serves depends on the text of the question, on public metadata and on the ledger; no data is read. A release is planned
again from its own text, with the catalogue of the person who asks now: a table that does not exist for them cannot be
reached this way either. It is used only if its name (:func:`tacit.curator.answer.release_key`), made anew, is the one
that the ledger holds it under, which says that plan, noise, price and data version are those of now.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from tacit.core.errors import InputError, TacitError
from tacit.curator.quote import Quote
from tacit.engines.protocol import Engine
from tacit.ledger import Ledger, Outcome
from tacit.ledger.entries import plain_name
from tacit.ledger.history import charge_at
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.contribution import ContributionNumber
from tacit.query.planning.coarser import coarser, errs_no_more
from tacit.query.planning.explain import explain
from tacit.query.planning.left_out import GROUPS, loss_table
from tacit.query.planning.plan import Outline, Plan, outline, plan_on_terms
from tacit.query.postprocess.bounding_loss import bounding_losses
from tacit.query.postprocess.public_join import PublicRows
from tacit.query.postprocess.result import Finished, finish
from tacit.query.question import PublicQuestion, Question
from tacit.query.relational.algebra import scans
from tacit.query.request import Account, Request, Terms, settle
from tacit.query.resolve import resolve, resolve_any
from tacit.receipts.receipt import Receipt, guesses, mechanisms_of, quoted
from tacit.receipts.release_format import released_from_text

#: Characters of text that all questions together may have, and all plans, and all results: each takes some 40 bytes.
_MOST: Final = 300_000


@dataclass(frozen=True)
class PricedPlan:
    """A plan, and what is said of it: each part is computed once, when it is asked for, and never changed."""

    plan: Plan
    engine: Engine

    @cached_property
    def outline(self) -> Outline:
        """Words about it in a receipt."""
        return outline(self.plan)

    @cached_property
    def mechanisms(self) -> list[dict[str, Any]]:
        """Lines about its mechanisms in an order and a receipt; not to be changed.

        Raises:
            InputError: as :func:`tacit.receipts.receipt.quoted`.
        """
        return quoted(mechanisms_of(self.plan))

    @cached_property
    def quote(self) -> Quote:
        """Quote: effect and price before the question is asked."""
        words = explain(self.plan)
        lines = []
        for plan in (self.plan, *self.plan.others):
            lines += [line for search in plan.searches for line in self.engine.explain(search.final)]
            lines += self.engine.explain(plan.final, plan.losses)
        if lines:
            words = words.with_engine_sql(";\n".join(lines))
        return Quote(self.plan, words)


@dataclass(frozen=True)
class ReadAnswer:
    """The rows of an answer, and the plan that ran: with the bounds in it that AUTO found."""

    finished: Finished
    plan: Plan


@dataclass(frozen=True)
class FreeQuestion:
    """A question that reads no protected table, and the engine that answers it.

    Args:
        question: what is read.
        engine: that reads it.
        note: about the values, where they are not those of the world; empty for public tables.
    """

    question: PublicQuestion
    engine: Engine
    note: str = ""


class Planner:
    """Plans questions about one catalogue, and keeps what was planned last; safe to use from several threads."""

    def __init__(self, sizes: PublicSizes, accounts: Mapping[str, Account], engine: Engine) -> None:
        self._sizes = sizes
        self._accounts = accounts
        self._engine = engine
        self._questions: WeightedLRUCache[tuple[str, int, ContributionNumber | None], Question | PublicQuestion] = (
            WeightedLRUCache(_MOST)
        )
        self._plans: WeightedLRUCache[tuple[str, int, Terms], PricedPlan] = WeightedLRUCache(_MOST)
        self._rows: WeightedLRUCache[tuple[str, Terms, bytes], ReadAnswer] = WeightedLRUCache(_MOST)

    def of(self, sql: str, request: Request) -> PricedPlan:
        """The plan of a question, whatever ``request`` says of the account.

        Raises:
            Refusal, InputError: as :func:`tacit.query.planning.plan.make_plan`, and what the engine refuses.
        """
        sql = _plain(sql)
        state, catalog = self._measured_catalog()
        question = self._question(sql, state, catalog, request.stated_rows)
        if isinstance(question, PublicQuestion):
            question = resolve(sql, catalog, max_rows=request.stated_rows)
        population = catalog.population(question.final.population)
        request = replace(request, account=self._accounts[population.name])
        terms = settle(request, question.options)
        known = self._plans.get((sql, state, terms))
        if known is not None:
            return known
        plan = plan_on_terms(question, population.relation, terms, catalog=catalog.digest)
        for final, table in plan.measured:
            self._engine.check(final)
            if table is not None:
                self._engine.check_left_out(final, table)
        return self._plans.put((sql, state, terms), PricedPlan(plan, self._engine), _weight(sql, plan.question))

    def public(self, sql: str, request: Request) -> FreeQuestion | None:
        """The question, if it reads public tables alone.

        Raises:
            Refusal: as :meth:`of`.
        """
        sql = _plain(sql)
        state, catalog = self._measured_catalog()
        found = self._question(sql, state, catalog, request.stated_rows)
        if not isinstance(found, PublicQuestion):
            return None
        self._engine.check_rows(found.relation)
        return FreeQuestion(found, self._engine)

    def _measured_catalog(self) -> tuple[int, Catalog]:
        return self._sizes.now() if self._sizes.tables else (0, self._sizes.declared)

    def rows(self, sql: str, plan: Plan, result: bytes, public: Sequence[PublicRows]) -> ReadAnswer:
        """The rows of an answer, from the bytes that the ledger holds."""
        if public:
            # They may be others tomorrow.
            return read_back(plan, result, public)
        key = (_plain(sql), plan.terms, result)
        known = self._rows.get(key)
        return known or self._rows.put(key, read_back(plan, result), len(sql) + len(result))

    def _question(
        self, sql: str, state: int, catalog: Catalog, max_rows: ContributionNumber | None
    ) -> Question | PublicQuestion:
        # Measurements depend on the number, so that a question is kept for the one it was resolved for.
        key = (sql, state, max_rows)
        known = self._questions.get(key)
        if known is not None:
            return known
        question = resolve_any(sql, catalog, max_rows=max_rows)
        return self._questions.put(key, question, _weight(sql, question))


def read_back(plan: Plan, result: bytes, public: Sequence[PublicRows] = ()) -> ReadAnswer:
    """The rows that the bytes of a ledger stand for, under the plan that was reserved for."""
    released = released_from_text(result.decode(), plan)
    finished = finish(released.plan.question, released, confidence=plan.confidence, public=public)
    return ReadAnswer(finished, released.plan)


def _plain(sql: str) -> str:
    """The text as a plain str: a subclass may say that it equals another text."""
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return str.__str__(sql)


def _weight(sql: str, question: Question | PublicQuestion) -> int:
    return len(sql) + len(question.text)


Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")

#: One thing may take this share of the whole, so that a single long text does not drive out all others.
_SHARE: Final = 16


class WeightedLRUCache(Generic[Key, Item]):
    """Cache by key, bounded by total weight: the least recently used items go first.

    Safe to use from several threads. A stored value must never change, because several threads may hold it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._items: OrderedDict[Key, tuple[Item, int]] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """Total weight."""
        return self._weight

    def get(self, key: Key) -> Item | None:
        """Value under a key, if any."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: Key, item: Item, weight: int) -> Item:
        """Keep a value, unless it weighs too much; returns the value in force for its key: the one kept first."""
        if weight * _SHARE > self._most:
            return item
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                return found[0]
            self._items[key] = item, weight
            self._weight += weight
            while self._weight > self._most:
                _, (_, freed) = self._items.popitem(last=False)
                self._weight -= freed
        return item

    def __len__(self) -> int:
        return len(self._items)


#: Plans that are remembered; about as many as questions of one population that are looked at, for a few populations.
_MOST_RELEASES: Final = 256


@dataclass(frozen=True)
class FreeRelease:
    """A release whose cells add up to the answer of a coarser question."""

    position: int
    plan: Plan

    @property
    def quote(self) -> Quote:
        """Quote: nothing is charged, and the errors are those of the sums."""
        said = explain(self.plan)
        words = f"nothing: sums of cells that were released before, under entry {self.position}"
        return Quote(self.plan, replace(said, charge=words, alone=None), free=True)


def _keeps_groups(plan: Plan, result: bytes) -> bool:
    """Whether no person is seen to have lost groups, by the release's own table of what was left out.

    A total of groups that people lost would be too low by more than its interval, where a fresh question of fewer
    groups would lose none.
    """
    table = loss_table(plan.final)
    if table is None or GROUPS not in table.causes:
        return True
    (loss,) = bounding_losses(released_from_text(result.decode(), plan), plan.confidence).parts
    return loss is not None and GROUPS not in loss.seen


class ReleasedPlans:
    """Plans of recent releases of one ledger; safe to use from several threads."""

    def __init__(self, ledger: Ledger, plans: Planner) -> None:
        self._ledger, self._plans = ledger, plans
        self._recent = RecentCharges()
        self._known: dict[int, Plan | None] = {}
        self._lock = threading.Lock()

    def coarser(self, plan: Plan, key: Callable[[Plan], str], *, only: int | None = None) -> FreeRelease | None:
        """The newest release that holds the answer to a question and errs no more than its price would buy.

        Args:
            plan: of the question.
            key: names a release under the data of now.
            only: the place of the one charge to look at, whatever its errors; None for all recent ones.
        """
        population = plan.final.population
        for position, stored in self._stored(population, plan, only):
            asked = coarser(plan, stored)
            if asked is None or (only is None and not errs_no_more(plan, asked)):
                continue
            found = self._ledger.outcome_under(population, key(stored))
            if found is None or found.failed or found.reservation.seq != position:
                continue
            if only is not None or _keeps_groups(asked, found.result):
                return FreeRelease(position, asked)
        return None

    def _stored(self, population: str, plan: Plan, only: int | None) -> Iterator[tuple[int, Plan]]:
        tables = {scan.table.lower() for scan in scans(plan.final.source)}
        for position, sql in self._recent.of(self._ledger, population):
            text = sql.lower()
            if (only is not None and position != only) or "group" not in text or not all(t in text for t in tables):
                continue
            found = self._plan_at(position, sql)
            if found is not None:
                yield position, found

    def _plan_at(self, position: int, sql: str) -> Plan | None:
        """The plan that a charge was for, remembered once its run has an outcome."""
        with self._lock:
            if position in self._known:
                return self._known[position]
        outcome = self._ledger.outcome(position)
        if outcome is None:
            return None
        found = None if outcome.failed or not outcome.receipt else self._planned(position, sql, outcome)
        with self._lock:
            while len(self._known) >= _MOST_RELEASES:
                self._known.pop(next(iter(self._known)))
            self._known[position] = found
        return found

    def _planned(self, position: int, sql: str, outcome: Outcome) -> Plan | None:
        """The plan that a charge was for, as far as its price tells; None where that is another."""
        charged = charge_at(self._ledger, position)
        if charged is None:
            return None
        for words in guesses(Receipt.from_json(outcome.receipt)):
            try:
                plan = self._plans.of(sql, Request(**words)).plan
            except TacitError:
                continue
            if charged.quote.get("mechanisms") == mechanisms_of(plan):
                return plan
        return None


class RecentCharges:
    """Questions that were charged for lately, by population, newest first; a later look reads only what was added.

    Args:
        look: the most entries of a ledger that are looked at when it is opened.
        most: the most questions of one population that are remembered.
    """

    def __init__(self, look: int = 500, most: int = 16) -> None:
        self._look, self._most, self._last = look, most, 0
        self._found: dict[str, deque[tuple[int, str]]] = {}
        self._lock = threading.Lock()

    def of(self, ledger: Ledger, population: str) -> tuple[tuple[int, str], ...]:
        """Place and text of each."""
        with self._lock:
            new = []
            for entry, body in islice(ledger.journal.bodies(newest_first=True), self._look):
                if entry.seq <= self._last:
                    break
                new.append((entry.seq, body))
            for seq, body in reversed(new):
                self._last = seq
                if body["kind"] == "reserve" and body["sql"] and body["repeat"]:
                    known = self._found.setdefault(body["population"], deque(maxlen=self._most))
                    known.appendleft((seq, body["sql"]))
            return tuple(self._found.get(plain_name(population, "population"), ()))
