"""Life of a query: parse → plan → quote → reserve → run → add noise → commit → answer.

*Synthetic tables* that were paid for are queried like public tables, at no cost. The rows are drawn from what the
ledger holds, with bits that follow from the release itself, so that every process answers the same query with the same
numbers. A synthetic table is queried alone, or with other synthetic ones.

*Charges without an outcome*: the process of the run died, or is still at work. What was paid for is run once more under
its charge, on the data as they are now (:func:`deliver`). Nothing is charged. Of several runs under one charge the
first outcome that is written down is the only one that leaves.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tacit.core.canonical import canonical, digest_of
from tacit.core.closing import Closing
from tacit.core.errors import InputError
from tacit.engines.protocol import MeasurementTask
from tacit.engines.registry import open_engine
from tacit.ledger import Order, Outcome, Record
from tacit.ledger.history import charge_at
from tacit.project.project_file import ProjectModel, build, validate
from tacit.project.public_sizes import PublicSizes
from tacit.project.source import Source
from tacit.query.limits import MAX_PUBLIC_ROWS
from tacit.query.planning.bias import bias_query
from tacit.query.planning.explain import explain_public
from tacit.query.planning.plan import Plan, outline, with_found
from tacit.query.postprocess.cells import Exact
from tacit.query.postprocess.result import Finished, in_turn
from tacit.query.postprocess.rows import PublicRows
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import scanned
from tacit.query.release import NoisyRelease, release, with_bias
from tacit.query.request import OPTIONS, Request
from tacit.releases.accounts import Entry
from tacit.releases.answer import Answer
from tacit.releases.payment import Caller, Departure, check_succeeded, entry_of, hide_internal_errors, pay
from tacit.releases.planner import FreeQuery, Planner, PricedPlan, QueryContext, Quote, read_back
from tacit.releases.receipt import Receipt, ReceiptStatement, about_plan, issue
from tacit.releases.release import SYNTHETIC_SUFFIX, released
from tacit.releases.release_format import released_to_text

if TYPE_CHECKING:
    from tacit.releases.workload import WorkloadAnswer


def quote(context: QueryContext, sql: str, request: Request) -> PricedPlan:
    """Parse, plan and price: a function of the text, of public metadata and of the request. Free, and reads no data."""
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
    public = public_answer(context, sql, request, caller)
    if public is not None:
        return public
    return charged_answer(context, sql, request, caller, progress, departure=departure)


def charged_answer(
    context: QueryContext,
    sql: str,
    request: Request,
    caller: Caller,
    progress: Callable[[float], None] | None = None,
    *,
    departure: Departure | None = None,
    under: int | None = None,
) -> Answer:
    """As :func:`answer`, of a query about people; one about public tables alone is refused.

    With the position of a charge ``under`` which it was paid for, nothing is charged.
    """
    planned = quote(context, sql, request)
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


def quote_public(context: QueryContext, sql: str, request: Request) -> Quote | None:
    """The quote of a query about public tables alone, which costs nothing; None for any other."""
    with hide_internal_errors():
        free = _free_query(context, sql, request)
        if free is None:
            return None
        said = explain_public(free.query, OPTIONS["confidence"].exact(request.confidence))
        if free.note:
            charge = "nothing: synthetic tables alone, which were paid for before"
            said = replace(said, charge=charge, keys=f"{said.keys}. {free.note}")
        return Quote(None, said, public=free.query)


def public_answer(context: QueryContext, sql: str, request: Request, caller: Caller) -> Answer | None:
    """The exact answer to a query about public tables alone, or about synthetic ones alone; None for any other.

    Only public tables are read (the engine checks that for itself), so that nothing is reserved, charged, signed or
    kept, and the answer is that of the tables as they are now.

    Raises:
        Refusal: there are more rows than an answer has.
        EngineError: with an id and no other word.
    """
    with hide_internal_errors():
        free = _free_query(context, sql, request)
        if free is None:
            return None
        query = free.query
        found = free.engine.rows(query.relation, most=MAX_PUBLIC_ROWS)
        kinds = [column.type for column in query.columns]
        rows = tuple(
            tuple(Exact(value, kind) for value, kind in zip(row[query.placed :], kinds, strict=True)) for row in found
        )
        entry = Entry(0, "", (), sql, query.digest, committed=True, analyst=caller.analyst, public=True)
        entry = replace(entry, note=free.note)
        confidence = OPTIONS["confidence"].exact(request.confidence)
        return Answer(Finished(query.columns, rows, (), confidence), None, entry, None)


def _free_query(context: QueryContext, sql: str, request: Request) -> FreeQuery | None:
    is_synthetic = SYNTHETIC_SUFFIX in str(sql).lower()
    return free_query(context, sql, request) if is_synthetic else context.plans.public(sql, request)


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
_MOST: Final = 4
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")


def free_query(context: QueryContext, sql: str, request: Request) -> FreeQuery | None:
    """The query, if it reads public tables alone or synthetic tables alone; None for any other.

    Raises:
        Refusal: it cannot be answered, or joins a synthetic table with another.
    """
    named = _named(context, sql)
    if named:
        reader = _READERS.of(context, named)
        try:
            query = reader.plans.public(sql, request)
        except Refusal as refusal:
            if refusal.reason != "unknown_table":
                raise
            _check_alone(sql, named)
        else:
            from tacit.releases.synthetic_table import BANNER

            return None if query is None else replace(query, note=BANNER)
    return context.plans.public(sql, request)


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
            if len(self._found) > _MOST:
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
    return charged_answer(context, record.sql, request, caller, progress, departure=departure, under=position)


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
