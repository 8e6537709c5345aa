"""Plans of queries: parsed, planned and priced once, and kept for the queries that are asked again.

*Plans are cached.* Planning is a function of the query's text, of public metadata and of the request, so a plan can be
used again. The cache key is the text with the *terms*, which are read from every request anew: an invalid request is
refused even where an equal plan is cached. A request with another cost or confidence is planned anew, from the same
resolved query; a request with another ``max_rows`` is resolved anew.

Refusals are not cached. Neither is anything about analysts or accounts: every run asks the ledger whether the account
allows it. The rows of an answer are cached under the bytes that the ledger holds, so that a repeat need not parse the
same bytes twice. The response time of a quote reveals that a text was planned lately; the cost of a repeat (0) reveals
that it was answered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tacit.core.errors import InputError, InternalError
from tacit.core.guarantees import Guarantee, PureDP
from tacit.engines.protocol import Engine
from tacit.project.public_sizes import PublicSizes
from tacit.query.contribution import ContributionNumber
from tacit.query.planning.explain import Explanation, explain, explain_public, typed_epsilon
from tacit.query.planning.plan import Outline, Plan, outline, plan_on_terms
from tacit.query.query import OutputColumn, PublicQuery, Query
from tacit.query.request import OPTIONS, Account, Request, Terms, settle
from tacit.query.resolve import resolve, resolve_any
from tacit.releases.accounts import check_per_query
from tacit.releases.answer import QuoteForms
from tacit.releases.receipt import mechanisms_of, quoted

if TYPE_CHECKING:
    from tacit.releases.query import ReadAnswer


@dataclass(frozen=True, repr=False)
class Quote(QuoteForms):
    """A plan and its explanation: ``str`` for people, :meth:`to_json` for programs.

    Args:
        plan: the plan; None for a query about public tables alone.
        explanation: unit of protection, each release with its noise, the cost, the errors, and the engine's statements.
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
        """The epsilon of the request, such as ``epsilon 0.5``, where the account counts another unit, such as ρ."""
        return "" if self.plan is None else typed_epsilon(self.plan)

    @property
    def populations(self) -> frozenset[str]:
        """Names of the populations that the query reads; empty for a query about public tables alone."""
        return frozenset() if self.plan is None else frozenset(part.final.population for part in self.plan.parts)

    @property
    def guarantee(self) -> Guarantee:
        return PureDP(0) if self.plan is None else self.plan.guarantee


@dataclass(frozen=True)
class PricedPlan:
    """A plan with its outline, mechanisms and quote, each computed once, on first use, and never changed."""

    plan: Plan
    engine: Engine
    policy: tuple[str, ...] = ()

    @cached_property
    def outline(self) -> Outline:
        return outline(self.plan)

    @cached_property
    def mechanisms(self) -> list[dict[str, Any]]:
        """Plain descriptions of the plan's mechanisms, as in the stored request and the receipt; do not mutate.

        Raises:
            InputError: as :func:`tacit.releases.receipt.quoted`.
        """
        return quoted(mechanisms_of(self.plan))

    @cached_property
    def quote(self) -> Quote:
        """Quote of the plan: releases, noise, cost and errors."""
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
class FreeQuery:
    """A query that reads no protected table: nothing is reserved, charged, signed or stored.

    Args:
        query: the resolved query about public tables.
        engine: engine that runs it, and checks for itself that only public tables are read.
        confidence: confidence of the intervals as stated; the values are exact.
        note: sentence that says the values are of synthetic tables; empty for public tables.
    """

    query: PublicQuery
    engine: Engine
    confidence: Fraction
    note: str = ""

    @property
    def quote(self) -> Quote:
        """Quote of the query, which is free."""
        said = explain_public(self.query, self.confidence)
        if self.note:
            charge = "nothing: synthetic tables alone, which were paid for before"
            said = replace(said, charge=charge, keys=f"{said.keys}. {self.note}")
        return Quote(None, said, public=self.query)


#: Capacity of each cache (queries, plans, answers), in characters of text; a character takes about 40 bytes of memory.
_MOST: Final = 300_000


class Planner:
    """Plans queries about one catalogue and caches recent plans; safe to use from several threads.

    Attributes:
        answers: the answers read last, by text, terms and the bytes that the ledger holds.
    """

    def __init__(self, sizes: PublicSizes, accounts: Mapping[str, Account], engine: Engine) -> None:
        self._sizes = sizes
        self._accounts = accounts
        self._engine = engine
        self._queries: WeightedLRUCache[tuple[str, int, ContributionNumber | None], Query | PublicQuery] = (
            WeightedLRUCache(_MOST)
        )
        self._plans: WeightedLRUCache[tuple[str, int, Terms], PricedPlan] = WeightedLRUCache(_MOST)
        self.answers: WeightedLRUCache[tuple[str, Terms, bytes], ReadAnswer] = WeightedLRUCache(_MOST)

    def of(self, sql: str, request: Request) -> PricedPlan:
        """Return the plan of a query about people; refuse a query about public tables alone.

        Raises:
            Refusal, InputError: as :meth:`plan`.
        """
        made = self.plan(sql, request)
        if isinstance(made, PricedPlan):
            return made
        catalog = self._sizes.now()[1] if self._sizes.tables else self._sizes.declared
        resolve(plain(sql), catalog, max_rows=request.stated_rows)
        raise InternalError("only queries about people have a cost")

    def plan(self, sql: str, request: Request) -> PricedPlan | FreeQuery:
        """Return the plan of a query, for the account of its population; ``request.account`` is ignored.

        Raises:
            Refusal, InputError: as :func:`tacit.query.planning.plan.make_plan`, or the engine refuses the query.
        """
        sql = plain(sql)
        state, catalog = self._sizes.now() if self._sizes.tables else (0, self._sizes.declared)
        # Measurements depend on max_rows, so that it is part of the cache key.
        asked = sql, state, request.stated_rows
        query = self._queries.get(asked)
        if query is None:
            query = resolve_any(sql, catalog, max_rows=asked[2])
            query = self._queries.put(asked, query, len(sql) + len(query.text))
        if isinstance(query, PublicQuery):
            self._engine.check_rows(query.relation)
            return FreeQuery(query, self._engine, OPTIONS["confidence"].exact(request.confidence))
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
        made = PricedPlan(plan, self._engine, request.account.policy)
        return self._plans.put((sql, state, terms), made, len(sql) + len(query.text))


def plain(sql: str) -> str:
    """Return the text as a plain ``str``: a subclass could override ``__eq__`` and match another text in a cache."""
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return str.__str__(sql)


# -- a cache


Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
#: An item may weigh at most 1/16 of the capacity, so that a single long text does not evict all other items.
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
        """Cache an item unless it weighs too much, and return the item for its key: the one that was cached first."""
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
