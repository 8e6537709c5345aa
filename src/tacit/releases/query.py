"""Life of a query: parse → plan → quote → reserve → run → add noise → commit → answer.

*Synthetic tables* released before are queried like public tables, at no cost. Their rows are drawn from the release
stored in the ledger, with a seed that is a function of that release, so that every process answers the same query with
the same numbers. A synthetic table is queried alone, or with other synthetic tables.

*Charges without an outcome*: the process of the run died, or is still running. The query is run once more under the
same charge, on the present data (:func:`deliver`); nothing more is charged. Of several runs under one charge, only the
outcome that is stored first is ever returned.

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

import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tacit.core.canonical import canonical, digest_of
from tacit.core.closing import Closing
from tacit.core.errors import InputError, InternalError
from tacit.core.guarantees import Guarantee, PureDP
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.engines.registry import open_engine
from tacit.ledger import Order, Outcome, Record
from tacit.ledger.history import charge_at
from tacit.project.project_file import ProjectModel, build, validate
from tacit.project.public_sizes import PublicSizes
from tacit.project.source import Source
from tacit.query.catalog import Catalog
from tacit.query.contribution import ContributionNumber
from tacit.query.limits import MAX_PUBLIC_ROWS
from tacit.query.planning.bias import bias_query
from tacit.query.planning.explain import Explanation, explain, explain_public, typed_epsilon
from tacit.query.planning.plan import Outline, Plan, outline, plan_on_terms, with_found
from tacit.query.postprocess.cells import Exact
from tacit.query.postprocess.result import Finished, finish, in_turn
from tacit.query.postprocess.rows import PublicRows
from tacit.query.query import OutputColumn, PublicQuery, Query
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import scanned
from tacit.query.release import NoisyRelease, release, with_bias
from tacit.query.request import OPTIONS, Account, Request, Terms, settle
from tacit.query.resolve import resolve, resolve_any
from tacit.releases.accounts import Entry, check_per_query
from tacit.releases.answer import Answer, QuoteForms
from tacit.releases.payment import (
    Caller,
    CuratorContext,
    ReleaseTimer,
    check_succeeded,
    entry_of,
    hide_internal_errors,
    pay,
)
from tacit.releases.receipt import Receipt, ReceiptStatement, about_plan, issue, mechanisms_of, quoted
from tacit.releases.release import SYNTHETIC_SUFFIX, released
from tacit.releases.release_format import released_from_text, released_to_text

if TYPE_CHECKING:
    from tacit.releases.workload import WorkloadAnswer


# -- quotes


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


# -- plans


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
class ReadAnswer:
    """Rows of an answer, with the plan that ran, which holds the bounds that AUTO found."""

    finished: Finished
    plan: Plan


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


#: Capacity of each cache (queries, plans, rows), in characters of text; a character takes about 40 bytes of memory.
_MOST: Final = 300_000


class Planner:
    """Plans queries about one catalogue and caches recent plans; safe to use from several threads."""

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
        """Return the plan of a query about people; refuse a query about public tables alone.

        Raises:
            Refusal, InputError: as :meth:`plan`.
        """
        made = self.plan(sql, request)
        if isinstance(made, PricedPlan):
            return made
        resolve(_plain(sql), self._measured_catalog()[1], max_rows=request.stated_rows)
        raise InternalError("only queries about people have a cost")

    def plan(self, sql: str, request: Request) -> PricedPlan | FreeQuery:
        """Return the plan of a query, for the account of its population; ``request.account`` is ignored.

        Raises:
            Refusal, InputError: as :func:`tacit.query.planning.plan.make_plan`, or the engine refuses the query.
        """
        sql = _plain(sql)
        state, catalog = self._measured_catalog()
        query = self._query(sql, state, catalog, request.stated_rows)
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
        return self._plans.put((sql, state, terms), made, _weight(sql, plan.query))

    def _measured_catalog(self) -> tuple[int, Catalog]:
        return self._sizes.now() if self._sizes.tables else (0, self._sizes.declared)

    def rows(self, sql: str, plan: Plan, result: bytes, public: Sequence[PublicRows]) -> ReadAnswer:
        """Return the rows of an answer, read from the bytes that the ledger holds."""
        if public:
            # The rows of public tables may change, so nothing is cached.
            return read_back(plan, result, public)
        key = (_plain(sql), plan.terms, result)
        known = self._rows.get(key)
        return known or self._rows.put(key, read_back(plan, result), len(sql) + len(result))

    def _query(
        self, sql: str, state: int, catalog: Catalog, max_rows: ContributionNumber | None
    ) -> Query | PublicQuery:
        # Measurements depend on max_rows, so that it is part of the cache key.
        key = (sql, state, max_rows)
        known = self._queries.get(key)
        if known is not None:
            return known
        query = resolve_any(sql, catalog, max_rows=max_rows)
        return self._queries.put(key, query, _weight(sql, query))


def read_back(plan: Plan, result: bytes, public: Sequence[PublicRows] = ()) -> ReadAnswer:
    """Parse the bytes that the ledger holds for an outcome into rows, with the plan under which they were reserved."""
    released = released_from_text(result.decode(), plan)
    finished = finish(released.plan.query, released, confidence=plan.confidence, public=public)
    return ReadAnswer(finished, released.plan)


def _plain(sql: str) -> str:
    """Return the text as a plain ``str``: a subclass could override ``__eq__`` and match another text in a cache."""
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return str.__str__(sql)


def _weight(sql: str, query: Query | PublicQuery) -> int:
    return len(sql) + len(query.text)


@dataclass(frozen=True)
class QueryContext(CuratorContext):
    """Metadata, data, ledger and keys of a project, with a planner that caches its plans."""

    plans: Planner = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "plans", Planner(self.sizes, self.accounts, self.engine))


# -- the life of a query


def planned(context: QueryContext, sql: str, request: Request) -> PricedPlan | FreeQuery:
    """Parse and plan a query and compute its cost, from its text, public metadata and the request. Reads no data; free.

    Raises:
        Refusal, InputError: the query cannot be answered as written, or joins a synthetic table with another table.
    """
    with hide_internal_errors():
        named = _named(context, sql) if SYNTHETIC_SUFFIX in str(sql).lower() else {}
        if named:
            try:
                made = _READERS.of(context, named).plans.plan(sql, request)
            except Refusal as refusal:
                if refusal.reason != "unknown_table":
                    raise
                _check_alone(sql, named)
            else:
                from tacit.releases.synthetic_table import BANNER

                return replace(made, note=BANNER) if isinstance(made, FreeQuery) else made
        return context.plans.plan(sql, request)


def quote(context: QueryContext, sql: str, request: Request) -> PricedPlan:
    """Plan a query as :func:`planned` does; refuse a query about public tables alone."""
    with hide_internal_errors():
        return context.plans.of(sql, request)


def answer(
    context: QueryContext,
    sql: str,
    request: Request,
    caller: Caller,
    *,
    timer: ReleaseTimer | None = None,
) -> Answer:
    """Answer a query; its cost is charged durably before data is read and never refunded.

    One charge pays for one release. An equal query, or the same request sent again, gets that release at no cost,
    in this process or another. If the run fails, the failure is the outcome of the charge, and every equal query
    gets it; see :mod:`tacit.releases.payment`. If the process dies, the next run is under the same charge, a bounded
    number of times.

    Args:
        context: metadata, data, ledger and keys.
        sql: the query.
        request: cost and options of the query.
        caller: analyst, idempotency key and conversation.
        timer: decides when the outcome of a fresh query is stored, and so can become known.

    Raises:
        Refusal, InputError: the query cannot be answered as written; nothing is charged. Only a join of released rows
            with public rows can turn out too large afterwards; the release is kept, and other joins of it are free.
        BudgetError: the account, or the analyst's or the project's share of it, does not allow the charge.
        FailedRunError: the run of this query failed, now or before; the amount reserved stays spent.
        EngineError, InternalError: another failure, described by an id alone; the amount reserved stays spent.
        LedgerError: the ledger failed; no further query is answered.
    """
    plan = planned(context, sql, request)
    if isinstance(plan, FreeQuery):
        return free_answer(plan, sql, caller)
    return charged_answer(context, plan, sql, request, caller, timer=timer)


def free_answer(free: FreeQuery, sql: str, caller: Caller) -> Answer:
    """Return the exact answer to a query about the present public tables alone, or about synthetic tables alone.

    Raises:
        Refusal: the result has more than ``MAX_PUBLIC_ROWS`` rows.
        EngineError: the engine failed; the message holds an id alone.
    """
    with hide_internal_errors():
        query = free.query
        found = free.engine.rows(query.relation, most=MAX_PUBLIC_ROWS)
        kinds = [column.type for column in query.columns]
        rows = tuple(
            tuple(Exact(value, kind) for value, kind in zip(row[query.placed :], kinds, strict=True)) for row in found
        )
        entry = Entry(0, "", (), sql, query.digest, committed=True, analyst=caller.analyst, public=True)
        return Answer(Finished(query.columns, rows, (), free.confidence), None, replace(entry, note=free.note), None)


def charged_answer(
    context: QueryContext,
    planned: PricedPlan,
    sql: str,
    request: Request,
    caller: Caller,
    *,
    timer: ReleaseTimer | None = None,
    under: int | None = None,
) -> Answer:
    """Answer a planned query about people, as :func:`answer` does.

    With ``under``, the ledger position of a charge that paid for the query, nothing is charged.
    """
    plan = planned.plan

    def statement(released: NoisyRelease | None, digest: str) -> ReceiptStatement:
        return _statement(planned, plan if released is None else released.plan, sql, digest)

    with hide_internal_errors():
        order, beside = _order(context, planned, sql, request, caller), public_rows(context, plan)
        paid = pay(
            context,
            order,
            lambda _: run(context, plan, None if timer is None else timer.seconds),
            released_to_text,
            statement,
            timer=timer,
            plan=plan,
            under=under,
        )
        return to_answer(context, planned, sql, paid.outcome, beside, analyst=caller.analyst, paid=paid.now)


def public_rows(context: QueryContext, plan: Plan) -> list[PublicRows]:
    """Return the rows of the public tables that the released rows of a query are joined with."""
    return [context.engine.rows(each, most=MAX_PUBLIC_ROWS) for each in plan.query.reads]


def run(context: QueryContext, plan: Plan, seconds: float | None = None) -> NoisyRelease:
    """Measure and add noise, under a reservation: the only function that holds exact numbers about people."""
    if plan.others:
        return in_turn(plan, lambda _, part: run(context, part, seconds))
    while plan.first is not None:
        found = run(context, plan.first, seconds)
        plan = with_found(plan, found.noisy, found.laws)
    secret = context.keys.group_secret(plan.final.population)
    work = MeasurementTask(plan.final, secret, timeout=seconds, bias=plan.losses)
    raw_measurements = context.engine.measure(work)
    released = release(plan, raw_measurements)
    if plan.losses is None:
        return released
    raw_counts = raw_measurements.raw_bias
    if raw_counts is None:
        table = bias_query(plan.final, plan.losses)
        raw_counts = context.engine.measure(replace(work, final=table, bias=None)).raw[0]
    return with_bias(released, raw_counts)


def answer_from_outcome(
    plan: Plan, result: bytes, entry: Entry, receipt: Receipt, public: Sequence[PublicRows]
) -> Answer:
    """Return the answer for the bytes that the ledger holds: the same for every caller, now and later."""
    presented = read_back(plan, result, public)
    return Answer(presented.finished, presented.plan, entry, receipt)


def to_answer(
    context: QueryContext,
    planned: PricedPlan,
    sql: str,
    found: Outcome,
    public: Sequence[PublicRows],
    *,
    analyst: str,
    paid: bool,
) -> Answer:
    """Return the caller's answer for a stored outcome: its rows, and a receipt with the caller's text of the query.

    Raises:
        FailedRunError: the run failed, so there is no answer.
    """
    check_succeeded(found)
    entry = entry_of(found, sql=sql, digest=planned.plan.digest, analyst=analyst, paid=paid)
    presented = context.plans.rows(sql, planned.plan, found.result, public)
    ran = presented.plan
    return Answer(presented.finished, ran, entry, _own_receipt(context, planned, ran, sql, found))


def _own_receipt(context: QueryContext, planned: PricedPlan, ran: Plan, sql: str, found: Outcome) -> Receipt:
    """Return the receipt of a release with the caller's text of the query.

    The ledger holds the receipt of the first caller, whose text of the query, with its comments and names, must not be
    shown to other analysts. So the same query in another text gets a statement about the same release, the same charge
    and the same position in the ledger, signed anew.
    """
    kept = Receipt.from_json(found.receipt)
    first = kept["answers"][0]
    if (first["query"], first["plan"]) == (sql, ran.digest):
        return kept
    says = _statement(planned, ran, sql, found.digest)
    keys = context.keys.current(context.ledger)
    return issue(keys, context.ledger.id, context.project, found.reservation, says)


def _order(context: QueryContext, planned: PricedPlan, sql: str, request: Request, caller: Caller) -> Order:
    plan = planned.plan
    # From the options as they were stated, the same plan can be made again from the ledger alone.
    said = {"mechanisms": planned.mechanisms, "options": request.stated, "salt": _salt(context, sql, caller)}
    return Order(
        plan.final.population,
        plan.guarantee,
        analyst=caller.analyst,
        project=context.project,
        conversation=caller.conversation,
        sql=sql,
        plan=plan.digest,
        quote=said,
        repeat_key=release_key(context, plan),
        idempotency_key=caller.idempotency_key,
        request=digest_of(canonical([sql, plan.digest])),
    )


def _salt(context: QueryContext, sql: str, caller: Caller) -> str:
    """Return a secret salt for the hash of a charge; receipts show that hash, also those of repeats.

    Without the salt, a guess of the analyst, the time and the text of a query could be checked against the hash.
    """
    return context.keys.veil(canonical(["charge", caller.analyst, caller.idempotency_key, sql]))


def _statement(planned: PricedPlan, ran: Plan, sql: str, released: str) -> ReceiptStatement:
    # Where AUTO found bounds, the plan that ran differs from the plan that was reserved for.
    words, known = (planned.outline, planned.mechanisms) if ran is planned.plan else (outline(ran), None)
    said = about_plan(words, ran, sql, released=released, mechanisms=known)
    return ReceiptStatement([said], words.unit, ran.account, ran.guarantee, ran.catalog)


def release_key(context: QueryContext, plan: Plan) -> str:
    """Return the key of a release in the ledger: a digest of its measurements, the data's version, noise and cost.

    Operations on the noisy cells (ORDER BY, LIMIT, names, expressions, the confidence of intervals) are
    post-processing, so a query that differs only there has the same key and is a repeat.
    """
    version = context.version(dict.fromkeys(name for part in plan.parts for name in scanned(part.final.source)))
    parts = [*map(repr, (plan.final.text, plan.catalog, plan.relation.value)), plan.priced.text]
    parts += [repr((other.final.text, other.priced.text)) for other in plan.others]
    return digest_of(f"({', '.join([*parts, repr(repr(plan.guarantee)), repr(version)])})")


#: Number of sets of synthetic tables whose rows are kept in memory.
_MOST_READERS: Final = 4
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")


def _named(context: QueryContext, sql: str) -> dict[str, int]:
    """Return the synthetic tables named in the text, with their charges' ledger positions; the newest of each name."""
    from tacit.releases.synthesis import SYNTHESIS

    words = set(_WORD.findall(sql.lower()))
    own = {table.name.lower() for table in context.catalog.tables}
    made = released(context, {SYNTHESIS.name: SYNTHESIS})
    found = {name.lower(): each.position for each in made for name in each.names}
    return {name: place for name, place in found.items() if name in words and name not in own}


def _check_alone(sql: str, named: Mapping[str, int]) -> None:
    """Refuse a query with a synthetic table and other tables in FROM; a name inside a text constant is no table."""
    for name in named:
        if re.search(rf"(?:\b(?:from|join)\s+|,\s*)[\"`\[]?{name}\b", sql, re.IGNORECASE):
            raise Refusal(
                "unknown_table",
                f"{name} is a synthetic table and is asked about alone, or with other synthetic tables; leave the "
                "others out, or ask about them by themselves.",
                at=name,
            )


class _Reader(Closing):
    """Planner and engine for a set of synthetic tables, treated as the public tables of a project."""

    def __init__(self, context: QueryContext, named: Mapping[str, int]) -> None:
        from tacit.releases.synthesis import drawn_again

        # Two tables that belong together are drawn together, so that their keys agree.
        made = {
            place: {each.name.lower(): each for each in drawn_again(context, place).tables}
            for place in set(named.values())
        }
        drawn = {name: made[place][name].to_arrow() for name, place in named.items()}
        told = {
            # Columns with other signs in their names belong to a table where they are declared.
            name: {"source": "frame", "public": True, "columns": {each: {} for each in rows.column_names}}
            for name, rows in drawn.items()
        }
        model = validate(ProjectModel, {"tables": told})
        project = build(model, {name: Source.of_frame(rows) for name, rows in drawn.items()})
        self.engine = open_engine("duckdb", project.catalog, project.sources, project.limits.model_dump())
        self.plans = Planner(PublicSizes(project.catalog, self.engine, lambda _: ""), {}, self.engine)

    def close(self) -> None:
        self.engine.close()


class _Readers:
    """Cache of the readers used last; a fit takes seconds, so one reader is made at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, tuple[tuple[str, int], ...]], _Reader] = OrderedDict()

    def of(self, context: QueryContext, named: Mapping[str, int]) -> _Reader:
        key = (context.ledger.id, tuple(sorted(named.items())))
        with self._lock:
            found = self._found.pop(key, None) or _Reader(context, named)
            self._found[key] = found
            if len(self._found) > _MOST_READERS:
                # A query may still be reading; the rows are let go when it is done.
                self._found.popitem(last=False)
            return found


_READERS: Final = _Readers()


def undelivered(context: QueryContext, *, population: str = "", analyst: str = "") -> tuple[Record, ...]:
    """Return the project's charges without an outcome, oldest first; not parts of a release charged as a whole."""
    with hide_internal_errors():
        found = context.ledger.history(population=population, analyst=analyst, project=context.project)
        return tuple(record for record in found if record.undelivered)


def deliver(
    context: QueryContext,
    position: int,
    *,
    timer: ReleaseTimer | None = None,
) -> Answer | WorkloadAnswer:
    """Run the query or workload paid for by the charge at a ledger position, if it has no outcome yet; free.

    Raises:
        InputError: there is no charge at this position, or its release cannot be run from the ledger alone.
        FailedRunError: the run failed, now or before, or was begun too many times.
        LateLimit: too many responses were late.
    """
    with hide_internal_errors():
        charged = charge_at(context.ledger, position)
        if charged is None or charged.record.project != context.project:
            raise InputError("position", f"there is no charge at {position}")
        record, ordered = charged.record, charged.quote
        caller = Caller(record.analyst)
        if ordered.get("workload"):
            from tacit.releases.workload import answer_workload
            from tacit.synth.workload import workload_from_plain

            told = ordered["workload"]
            workload = workload_from_plain(told["parts"])
            return answer_workload(
                context, told["source"], workload, told["options"], caller, timer=timer, under=position
            )
        if "options" not in ordered:
            raise InputError("position", _elsewhere(ordered))
        request = Request(**ordered["options"])
    planned = quote(context, record.sql, request)
    if (planned.plan.digest, planned.mechanisms) != (record.plan, ordered["mechanisms"]):
        raise InputError(
            "position", "its tables or its account are declared otherwise now, so what was paid for cannot run"
        )
    if timer is not None and not record.answered:
        timer.check(planned.plan)
    return charged_answer(context, planned, record.sql, request, caller, timer=timer, under=position)


def _elsewhere(ordered: Mapping[str, Any]) -> str:
    """Return a sentence that says how to run a charged release that the ledger alone does not describe."""
    if "statistics" in ordered:
        return "it is a planned release: run tacit release with the same plan, which goes on under this charge"
    if "synthesis" in ordered:
        return "it is a synthetic table: ask for the same one again, which goes on under this charge"
    if "model" in ordered:
        return "it is a model: fit it again with the same idempotency key, which goes on under this charge"
    return "it is a mechanism of a program: release again there with the same idempotency key, under this charge"


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
