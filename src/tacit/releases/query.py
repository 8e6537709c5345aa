"""Life of a query: parse → plan → quote → reserve → run → add noise → commit → answer.

*Synthetic tables* that were paid for are queried like public tables, at no cost. The rows are drawn from what the
ledger holds, with bits that follow from the release itself, so that every process answers the same query with the same
numbers. A synthetic table is queried alone, or with other synthetic ones.

*Charges without an outcome*: the process of the run died, or is still at work. What was paid for is run once more under
its charge, on the data as they are now (:func:`deliver`). Nothing is charged. Of several runs under one charge the
first outcome that is written down is the only one that leaves.

*Plans are kept.* Planning is a function of the text, of public metadata and of what was asked for, so a plan may serve
again. It is kept under the text and the *terms*, and these are read from every request anew: nothing that a request
gets wrong is overlooked because a like one was right. Another price or confidence is planned anew, from the same
resolved query; another ``max_rows`` is another query.

Refusals are not kept. Neither is anything about who asked or about accounts: whether a plan may be carried out is asked
of the ledger every time. The rows of an answer are kept under the bytes that the ledger holds, so that a repeat need
not read the same bytes twice. That a text was planned lately can be told by the time a quote takes; that it was
answered is told by the price of a repeat.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
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
    Departure,
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


# -- plans


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
    """A query that reads no protected table: nothing is reserved, charged, signed or kept.

    Args:
        query: what is read.
        engine: that reads it, and checks for itself that only public tables are read.
        confidence: as stated; values are exact.
        note: about the values, where they are not those of the world; empty for public tables.
    """

    query: PublicQuery
    engine: Engine
    confidence: Fraction
    note: str = ""

    @property
    def quote(self) -> Quote:
        """Quote: it costs nothing."""
        said = explain_public(self.query, self.confidence)
        if self.note:
            charge = "nothing: synthetic tables alone, which were paid for before"
            said = replace(said, charge=charge, keys=f"{said.keys}. {self.note}")
        return Quote(None, said, public=self.query)


#: Characters of text that all queries together may have, and all plans, and all results: each takes some 40 bytes.
_MOST: Final = 300_000


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
        """The plan of a query about people; refused where it reads public tables alone.

        Raises:
            Refusal, InputError: as :meth:`plan`.
        """
        made = self.plan(sql, request)
        if isinstance(made, PricedPlan):
            return made
        resolve(_plain(sql), self._measured_catalog()[1], max_rows=request.stated_rows)
        raise InternalError("only queries about people have a cost")

    def plan(self, sql: str, request: Request) -> PricedPlan | FreeQuery:
        """The plan of a query, whatever ``request`` says of the account.

        Raises:
            Refusal, InputError: as :func:`tacit.query.planning.plan.make_plan`, and what the engine refuses.
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


@dataclass(frozen=True)
class QueryContext(CuratorContext):
    """Everything that answering needs."""

    plans: Planner = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "plans", Planner(self.sizes, self.accounts, self.engine))


# -- the life of a query


def planned(context: QueryContext, sql: str, request: Request) -> PricedPlan | FreeQuery:
    """Parse, plan and price: a function of the text, of public metadata and of the request. Free, and reads no data.

    Raises:
        Refusal, InputError: it cannot be answered as written, or joins a synthetic table with another.
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
    """As :func:`planned`, of a query about people; any other is refused."""
    with hide_internal_errors():
        return context.plans.of(sql, request)


def answer(
    context: QueryContext,
    sql: str,
    request: Request,
    caller: Caller,
    progress: Callable[[float], None] | None = None,
    *,
    departure: Departure | None = None,
) -> Answer:
    """The answer to a query, charged durably before data is read and never refunded.

    One charge pays for one release. An equal query, or the same request sent again, gets that release for nothing,
    in this process or another. If the run fails, the failure is what the charge has bought, and every equal query
    gets it; see :mod:`tacit.releases.payment`. If the process dies, the next run is under the same charge, a bounded
    number of times.

    Args:
        context: metadata, data, ledger and keys.
        sql: the query.
        request: what it may cost, and what else is asked for.
        caller: who asks.
        progress: for the data owner's terminal; see :mod:`tacit.curator.curator`.
        departure: decides when the outcome of a fresh query is written down, and so can be known.

    Raises:
        Refusal, InputError: as written it cannot be answered; nothing is charged. Only a join of released rows with
            public ones can turn out too large afterwards; what was released is kept, and other joins of it are free.
        BudgetError: the account, or the analyst's or the project's share of it, does not allow the charge.
        FailedRunError: the run of this query failed, now or before; what was reserved stays spent.
        EngineError, InternalError: something else failed, and only an id says what; what was reserved stays spent.
        LedgerError: the ledger failed; no further query is answered.
    """
    plan = planned(context, sql, request)
    if isinstance(plan, FreeQuery):
        return free_answer(plan, sql, caller)
    return charged_answer(context, plan, sql, request, caller, progress, departure=departure)


def free_answer(free: FreeQuery, sql: str, caller: Caller) -> Answer:
    """The exact answer to a query about public tables alone, as they are now, or about synthetic ones alone.

    Raises:
        Refusal: there are more rows than an answer has.
        EngineError: with an id and no other word.
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
    progress: Callable[[float], None] | None = None,
    *,
    departure: Departure | None = None,
    under: int | None = None,
) -> Answer:
    """The answer to a query about people; as :func:`answer`.

    With the position of a charge ``under`` which it was paid for, nothing is charged.
    """
    plan = planned.plan

    def statement(released: NoisyRelease | None, digest: str) -> ReceiptStatement:
        return _statement(planned, plan if released is None else released.plan, sql, digest)

    with hide_internal_errors():
        order, beside = _order(context, planned, sql, request, caller), public_rows(context, plan)
        paid = pay(
            context,
            order,
            lambda _: run(context, plan, progress, None if departure is None else departure.seconds),
            released_to_text,
            statement,
            departure=departure,
            plan=plan,
            under=under,
        )
        return to_answer(context, planned, sql, paid.outcome, beside, analyst=caller.analyst, paid=paid.now)


def public_rows(context: QueryContext, plan: Plan) -> list[PublicRows]:
    """The rows of the public tables that the answer to a query is joined with."""
    return [context.engine.rows(each, most=MAX_PUBLIC_ROWS) for each in plan.query.reads]


def run(
    context: QueryContext, plan: Plan, progress: Callable[[float], None] | None = None, seconds: float | None = None
) -> NoisyRelease:
    """Measure and add noise, under a reservation: the only place where exact numbers of people are held."""
    if plan.others:
        return in_turn(plan, lambda _, part: run(context, part, progress, seconds))
    while plan.first is not None:
        found = run(context, plan.first, progress, seconds)
        plan = with_found(plan, found.noisy, found.laws)
    secret = context.keys.group_secret(plan.final.population)
    work = MeasurementTask(plan.final, secret, timeout=seconds, progress=progress, bias=plan.losses)
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
    """The answer, from the bytes that the ledger holds: the same for every caller, now and later."""
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
    """Build the caller's answer from a stored outcome: its rows, and a receipt in the caller's words.

    Raises:
        FailedRunError: the run failed, so there is no answer.
    """
    check_succeeded(found)
    entry = entry_of(found, sql=sql, digest=planned.plan.digest, analyst=analyst, paid=paid)
    presented = context.plans.rows(sql, planned.plan, found.result, public)
    ran = presented.plan
    return Answer(presented.finished, ran, entry, _own_receipt(context, planned, ran, sql, found))


def _own_receipt(context: QueryContext, planned: PricedPlan, ran: Plan, sql: str, found: Outcome) -> Receipt:
    """The receipt of a release, in the caller's words.

    The ledger holds the receipt of the first caller. The text of that query, with its comments and names, is theirs
    and was never released. So the same query in other words gets a statement about the same release, the same charge
    and the same place in the ledger, with a signature of its own.
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
    # With the options as they were stated, the same plan is made again from the ledger alone.
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
    """Secret text that makes the hash of a charge say nothing about it; receipts show that hash, also of repeats.

    Without it, a guess of the analyst, the time and the words of a query could be checked against the hash.
    """
    return context.keys.veil(canonical(["charge", caller.analyst, caller.idempotency_key, sql]))


def _statement(planned: PricedPlan, ran: Plan, sql: str, released: str) -> ReceiptStatement:
    # Where AUTO bounds or limits were found, the plan that ran is another than the one that was reserved for.
    words, known = (planned.outline, planned.mechanisms) if ran is planned.plan else (outline(ran), None)
    said = about_plan(words, ran, sql, released=released, mechanisms=known)
    return ReceiptStatement([said], words.unit, ran.account, ran.guarantee, ran.catalog)


def release_key(context: QueryContext, plan: Plan) -> str:
    """Names a release in the ledger: the same numbers of the same data, the same noise, the same price.

    Later work on the cells (order, limits, names, expressions, the confidence of intervals) is
    post-processing, so a query that differs only there is a repeat as well.
    """
    version = context.version(dict.fromkeys(name for part in plan.parts for name in scanned(part.final.source)))
    parts = [*map(repr, (plan.final.text, plan.catalog, plan.relation.value)), plan.priced.text]
    parts += [repr((other.final.text, other.priced.text)) for other in plan.others]
    return digest_of(f"({', '.join([*parts, repr(repr(plan.guarantee)), repr(version)])})")


#: Sets of synthetic tables whose rows are kept in memory.
_MOST_READERS: Final = 4
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")


def _named(context: QueryContext, sql: str) -> dict[str, int]:
    """Synthetic tables whose names are in the text, with the places of their charges; the newest of a name."""
    from tacit.releases.synthesis import SYNTHESIS

    words = set(_WORD.findall(sql.lower()))
    own = {table.name.lower() for table in context.catalog.tables}
    made = released(context, {SYNTHESIS.name: SYNTHESIS})
    found = {name.lower(): each.position for each in made for name in each.names}
    return {name: place for name, place in found.items() if name in words and name not in own}


def _check_alone(sql: str, named: Mapping[str, int]) -> None:
    """Refuse a synthetic table that stands in FROM beside others; a name inside a text constant is no table."""
    for name in named:
        if re.search(rf"(?:\b(?:from|join)\s+|,\s*)[\"`\[]?{name}\b", sql, re.IGNORECASE):
            raise Refusal(
                "unknown_table",
                f"{name} is a synthetic table and is asked about alone, or with other synthetic tables; leave the "
                "others out, or ask about them by themselves.",
                at=name,
            )


class _Reader(Closing):
    """Planner and engine of some synthetic tables, as if they were the public tables of a project."""

    def __init__(self, context: QueryContext, named: Mapping[str, int]) -> None:
        from tacit.releases.synthesis import drawn_again

        # Two tables that belong together are drawn together, so that their keys agree.
        made = {place: drawn_again(context, place).repeatable_tables() for place in set(named.values())}
        drawn = {
            name: {each.lower(): rows for each, rows in made[place].items()}[name] for name, place in named.items()
        }
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
    """The readers that were used last; a fit takes seconds, so one is made at a time."""

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
    """Charges of the project that have no outcome, the oldest first; not the parts of a release that paid for them."""
    with hide_internal_errors():
        found = context.ledger.history(population=population, analyst=analyst, project=context.project)
        return tuple(record for record in found if record.undelivered)


def deliver(
    context: QueryContext,
    position: int,
    progress: Callable[[float], None] | None = None,
    *,
    departure: Departure | None = None,
) -> Answer | WorkloadAnswer:
    """Run what the charge at a position has paid for, if it has no outcome yet; free.

    Raises:
        InputError: there is no such charge, or what it paid for cannot be run from the ledger alone.
        FailedRunError: the run failed, now or before, or was begun too many times.
        LateLimit: too many answers were late.
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
                context, told["source"], workload, told["options"], caller, departure=departure, under=position
            )
        if "options" not in ordered:
            raise InputError("position", _elsewhere(ordered))
        request = Request(**ordered["options"])
    planned = quote(context, record.sql, request)
    if (planned.plan.digest, planned.mechanisms) != (record.plan, ordered["mechanisms"]):
        raise InputError(
            "position", "its tables or its account are declared otherwise now, so what was paid for cannot run"
        )
    if departure is not None and not record.answered:
        departure.check(planned.plan)
    return charged_answer(context, planned, record.sql, request, caller, progress, departure=departure, under=position)


def _elsewhere(ordered: Mapping[str, Any]) -> str:
    """What to do about a charge whose release the ledger alone does not describe."""
    if "statistics" in ordered:
        return "it is a planned release: run tacit release with the same plan, which goes on under this charge"
    if "synthesis" in ordered:
        return "it is a synthetic table: ask for the same one again, which goes on under this charge"
    if "model" in ordered:
        return "it is a model: fit it again with the same idempotency key, which goes on under this charge"
    if "workload" in ordered:
        return "it is a workload too large to be kept: ask it again, which goes on under this charge"
    return "it is a mechanism of a program: release again there with the same idempotency key, under this charge"


# -- a cache


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
