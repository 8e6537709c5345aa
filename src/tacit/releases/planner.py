"""Planner with a cache of recent queries and plans, and the quotes that it gives.

Planning is a function of the text, of public metadata and of what was asked for, so a plan may serve again. It is kept
under the text and the *terms*, and these are read from every request anew: nothing that a request gets wrong is
overlooked because a like one was right. Another price or confidence is planned anew, from the same resolved query;
another ``max_rows`` is another query.

Refusals are not kept. Neither is anything about who asked or about accounts: whether a plan may be carried out is asked
of the ledger every time. The rows of an answer are kept under the bytes that the ledger holds, so that a repeat need
not read the same bytes twice. That a text was planned lately can be told by the time a quote takes; that it was
answered is told by the price of a repeat.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee, PureDP
from tacit.engines.protocol import Engine
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.contribution import ContributionNumber
from tacit.query.planning.explain import Explanation, explain, typed_epsilon
from tacit.query.planning.plan import Outline, Plan, outline, plan_on_terms
from tacit.query.postprocess.result import Finished, finish
from tacit.query.postprocess.rows import PublicRows
from tacit.query.query import OutputColumn, PublicQuery, Query
from tacit.query.request import Account, Request, Terms, settle
from tacit.query.resolve import resolve, resolve_any
from tacit.releases.accounts import check_per_query
from tacit.releases.notebook import quote_html
from tacit.releases.payment import CuratorContext
from tacit.releases.receipt import mechanisms_of, quoted
from tacit.releases.release_format import released_from_text


class QuoteForms:
    """Views of a quote, local or remote."""

    explanation: Explanation

    @property
    def is_public(self) -> bool:
        """Whether the query reads public tables alone, and so is answered exactly and charged nothing."""
        return self.explanation.public

    @property
    def charge(self) -> str:
        return self.explanation.charge

    def to_json(self) -> str:
        """Stable keys, exact numbers as text."""
        return self.explanation.to_json()

    def __str__(self) -> str:
        return str(self.explanation)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.charge}>"

    def _repr_html_(self) -> str:
        return quote_html(self.explanation)


@dataclass(frozen=True, repr=False)
class Quote(QuoteForms):
    """A plan and what it says about itself: ``str`` for people, :meth:`to_json` for programs.

    Args:
        plan: the plan; None for a query about public tables alone.
        explanation: what is protected, each release with its noise, the price, the errors, and the engine's statements.
        public: the query, where it reads public tables alone.
    """

    plan: Plan | None
    explanation: Explanation
    public: PublicQuery | None = None

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        if self.public is not None:
            return self.public.columns
        return () if self.plan is None else self.plan.query.columns

    @property
    def typed(self) -> str:
        """The epsilon that was typed, such as ``epsilon 0.5``, where the account counts something else."""
        return "" if self.plan is None else typed_epsilon(self.plan)

    @property
    def populations(self) -> frozenset[str]:
        """Populations that the query reads; none for one about public tables alone."""
        return frozenset() if self.plan is None else frozenset(part.final.population for part in self.plan.parts)

    @property
    def guarantee(self) -> Guarantee:
        return PureDP(0) if self.plan is None else self.plan.guarantee


#: Characters of text that all queries together may have, and all plans, and all results: each takes some 40 bytes.
_MOST: Final = 300_000


@dataclass(frozen=True)
class PricedPlan:
    """A plan, and what is said of it: each part is computed once, when it is asked for, and never changed."""

    plan: Plan
    engine: Engine
    policy: tuple[str, ...] = ()

    @cached_property
    def outline(self) -> Outline:
        return outline(self.plan)

    @cached_property
    def mechanisms(self) -> list[dict[str, Any]]:
        """Lines about its mechanisms in an order and a receipt; not to be changed.

        Raises:
            InputError: as :func:`tacit.releases.receipt.quoted`.
        """
        return quoted(mechanisms_of(self.plan))

    @cached_property
    def quote(self) -> Quote:
        """Quote: effect and price before the query is asked."""
        words = explain(self.plan)
        if self.policy:
            words = replace(words, advice=(*words.advice, f"The owner allows {', '.join(self.policy)}."))
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
class FreeQuery:
    """A query that reads no protected table, and the engine that answers it.

    Args:
        query: what is read.
        engine: that reads it.
        note: about the values, where they are not those of the world; empty for public tables.
    """

    query: PublicQuery
    engine: Engine
    note: str = ""


class Planner:
    """Plans queries about one catalogue, and keeps what was planned last; safe to use from several threads."""

    def __init__(self, sizes: PublicSizes, accounts: Mapping[str, Account], engine: Engine) -> None:
        self._sizes = sizes
        self._accounts = accounts
        self._engine = engine
        self._queries: WeightedLRUCache[tuple[str, int, ContributionNumber | None], Query | PublicQuery] = (
            WeightedLRUCache(_MOST)
        )
        self._plans: WeightedLRUCache[tuple[str, int, Terms], PricedPlan] = WeightedLRUCache(_MOST)
        self._rows: WeightedLRUCache[tuple[str, Terms, bytes], ReadAnswer] = WeightedLRUCache(_MOST)

    def of(self, sql: str, request: Request) -> PricedPlan:
        """The plan of a query, whatever ``request`` says of the account.

        Raises:
            Refusal, InputError: as :func:`tacit.query.planning.plan.make_plan`, and what the engine refuses.
        """
        sql = _plain(sql)
        state, catalog = self._measured_catalog()
        query = self._query(sql, state, catalog, request.stated_rows)
        if isinstance(query, PublicQuery):
            query = resolve(sql, catalog, max_rows=request.stated_rows)
        population = catalog.population(query.final.population)
        request = replace(request, account=self._accounts[population.name])
        terms = settle(request, query.options)
        known = self._plans.get((sql, state, terms))
        if known is not None:
            return known
        plan = plan_on_terms(query, population.relation, terms, catalog=catalog.digest)
        check_per_query(request.account, terms, plan.guarantee)
        for final, table in plan.measured:
            self._engine.check(final)
            if table is not None:
                self._engine.check_bias(final, table)
        return self._plans.put(
            (sql, state, terms), PricedPlan(plan, self._engine, request.account.policy), _weight(sql, plan.query)
        )

    def public(self, sql: str, request: Request) -> FreeQuery | None:
        """The query, if it reads public tables alone.

        Raises:
            Refusal: as :meth:`of`.
        """
        sql = _plain(sql)
        state, catalog = self._measured_catalog()
        found = self._query(sql, state, catalog, request.stated_rows)
        if not isinstance(found, PublicQuery):
            return None
        self._engine.check_rows(found.relation)
        return FreeQuery(found, self._engine)

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

    def _query(
        self, sql: str, state: int, catalog: Catalog, max_rows: ContributionNumber | None
    ) -> Query | PublicQuery:
        # Measurements depend on the number, so that a query is kept for the one it was resolved for.
        key = (sql, state, max_rows)
        known = self._queries.get(key)
        if known is not None:
            return known
        query = resolve_any(sql, catalog, max_rows=max_rows)
        return self._queries.put(key, query, _weight(sql, query))


def read_back(plan: Plan, result: bytes, public: Sequence[PublicRows] = ()) -> ReadAnswer:
    """The rows that the bytes of a ledger stand for, under the plan that was reserved for."""
    released = released_from_text(result.decode(), plan)
    finished = finish(released.plan.query, released, confidence=plan.confidence, public=public)
    return ReadAnswer(finished, released.plan)


def _plain(sql: str) -> str:
    """The text as a plain str: a subclass may say that it equals another text."""
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return str.__str__(sql)


def _weight(sql: str, query: Query | PublicQuery) -> int:
    return len(sql) + len(query.text)


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
        return self._weight

    def get(self, key: Key) -> Item | None:
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


@dataclass(frozen=True)
class QueryContext(CuratorContext):
    """Everything that answering needs."""

    plans: Planner = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "plans", Planner(self.sizes, self.accounts, self.engine))
