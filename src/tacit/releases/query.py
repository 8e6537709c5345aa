"""Life of a query: parse → plan → quote → reserve → run → add noise → commit → answer.

*Charges without an outcome*: the process of the run died, or is still running. The query is run once more under the
same charge, on the present data (:func:`deliver`); nothing more is charged. Of several runs under one charge, only the
outcome that is stored first is ever returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import InputError
from tacit.engines.protocol import MeasurementTask
from tacit.ledger import Order, Outcome, Record
from tacit.ledger.history import charge_at
from tacit.query.limits import MAX_PUBLIC_ROWS
from tacit.query.planning.bias import bias_query
from tacit.query.planning.plan import Plan, outline, with_found
from tacit.query.postprocess.cells import Exact
from tacit.query.postprocess.result import Finished, finish, in_turn
from tacit.query.postprocess.rows import PublicRows
from tacit.query.release import NoisyRelease, add_noise, release, with_bias
from tacit.query.request import Request
from tacit.releases.accounts import Entry
from tacit.releases.answer import Answer
from tacit.releases.payment import (
    Caller,
    CuratorContext,
    ReleaseTimer,
    check_succeeded,
    entry_of,
    hide_internal_errors,
    pay,
)
from tacit.releases.plans import FreeQuery, Planner, PricedPlan, plain
from tacit.releases.receipt import Receipt, ReceiptStatement, about_plan, issue
from tacit.releases.release import SYNTHETIC_SUFFIX
from tacit.releases.release_format import released_from_text, released_to_text

if TYPE_CHECKING:
    from tacit.releases.workload import WorkloadAnswer


@dataclass(frozen=True)
class QueryContext(CuratorContext):
    """Metadata, data, ledger and keys of a project, with a planner that caches its plans."""

    plans: Planner = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "plans", Planner(self.sizes, self.accounts, self.engine))


def planned(context: QueryContext, sql: str, request: Request) -> PricedPlan | FreeQuery:
    """Parse and plan a query and compute its cost, from its text, public metadata and the request. Reads no data; free.

    Raises:
        Refusal, InputError: the query cannot be answered as written, or joins a synthetic table with another table.
    """
    with hide_internal_errors():
        if SYNTHETIC_SUFFIX in str(sql).lower():
            from tacit.releases.synthetic_query import planned_on_synthetic_tables

            made = planned_on_synthetic_tables(context, sql, request)
            if made is not None:
                return made
        return context.plans.plan(sql, request)


def quote(context: QueryContext, sql: str, request: Request) -> PricedPlan:
    """Plan a query as :func:`planned` does; refuse a query about public tables alone."""
    with hide_internal_errors():
        return context.plans.of(sql, request)


# -- the main path


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
        BudgetError: the account, or the analyst's share of it, does not allow the charge.
        FailedRunError: the run of this query failed, now or before; the amount reserved stays spent.
        EngineError, InternalError: another failure, described by an id alone; the amount reserved stays spent.
        LedgerError: the ledger failed; no further query is answered.
    """
    plan = planned(context, sql, request)
    if isinstance(plan, FreeQuery):
        return free_answer(plan, sql, caller)
    return charged_answer(context, plan, sql, request, caller, timer=timer)


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
    with hide_internal_errors():
        order, beside = _order(context, planned, sql, request, caller), public_rows(context, plan)
        paid = pay(
            context,
            order,
            lambda _: run(context, plan, None if timer is None else timer.seconds),
            released_to_text,
            lambda made, digest: _statement(planned, plan if made is None else made.plan, sql, digest),
            timer=timer,
            plan=plan,
            under=under,
        )
        return to_answer(context, planned, sql, paid.outcome, beside, analyst=caller.analyst, paid=paid.now)


def run(context: QueryContext, plan: Plan, seconds: float | None = None) -> NoisyRelease:
    """Measure and add noise, under a reservation: the only function that holds exact numbers about people."""
    if plan.others:
        return in_turn(plan, lambda _, part: run(context, part, seconds))
    secret = context.keys.group_secret(plan.final.population)
    task = MeasurementTask(plan.final, secret, timeout=seconds)
    while plan.searches:
        search = plan.searches[0]
        found = add_noise(*search, context.engine.measure(replace(task, final=search.final)))
        plan = with_found(plan, found.noisy, found.laws)
    exact = context.engine.measure(replace(task, final=plan.final, bias=plan.losses))
    released = release(plan, exact)
    if plan.losses is None:
        return released
    counts = exact.raw_bias
    if counts is None:
        counts = context.engine.measure(replace(task, final=bias_query(plan.final, plan.losses))).raw[0]
    return with_bias(released, counts)


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
    plan = planned.plan
    # The rows of public tables may change, so answers with such rows are not cached.
    key, answers = (plain(sql), plan.terms, found.result), context.plans.answers
    presented = None if public else answers.get(key)
    if presented is None:
        presented = read_back(plan, found.result, public)
        presented = presented if public else answers.put(key, presented, len(sql) + len(found.result))
    ran, receipt = presented.plan, Receipt.from_json(found.receipt)
    first = receipt.statement["answers"][0]
    if (first["query"], first["plan"]) != (sql, ran.digest):
        # The ledger holds the receipt of the first caller, whose text of the query, with its comments and names, must
        # not be shown to other analysts. So the same query in another text gets a statement about the same release, the
        # same charge and the same position in the ledger, signed anew.
        says, keys = _statement(planned, ran, sql, found.digest), context.keys.current(context.ledger)
        receipt = issue(keys, context.ledger.id, context.project, found.reservation, says)
    entry = entry_of(found, sql=sql, digest=plan.digest, analyst=analyst, paid=paid)
    return Answer(presented.finished, ran, entry, receipt)


# -- its parts


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


def public_rows(context: QueryContext, plan: Plan) -> list[PublicRows]:
    """Return the rows of the public tables that the released rows of a query are joined with."""
    return [context.engine.rows(each, most=MAX_PUBLIC_ROWS) for each in plan.query.reads]


@dataclass(frozen=True)
class ReadAnswer:
    """Rows of an answer, with the plan that ran, which holds the bounds that AUTO found."""

    finished: Finished
    plan: Plan


def read_back(plan: Plan, result: bytes, public: Sequence[PublicRows] = ()) -> ReadAnswer:
    """Parse the bytes that the ledger holds for an outcome into rows, with the plan under which they were reserved."""
    released = released_from_text(result.decode(), plan)
    finished = finish(released.plan.query, released, confidence=plan.terms.confidence, public=public)
    return ReadAnswer(finished, released.plan)


def answer_from_outcome(
    plan: Plan, result: bytes, entry: Entry, receipt: Receipt, public: Sequence[PublicRows]
) -> Answer:
    """Return the answer for the bytes that the ledger holds: the same for every caller, now and later."""
    presented = read_back(plan, result, public)
    return Answer(presented.finished, presented.plan, entry, receipt)


def _order(context: QueryContext, planned: PricedPlan, sql: str, request: Request, caller: Caller) -> Order:
    plan = planned.plan
    # Receipts show the hash of a charge, also those of repeats. Without a secret salt, a guess of the analyst, the time
    # and the text of a query could be checked against it.
    salt = context.keys.veil(canonical(["charge", caller.analyst, caller.idempotency_key, sql]))
    # From the options as they were stated, the same plan can be made again from the ledger alone.
    said = {"mechanisms": planned.mechanisms, "options": request.stated, "salt": salt}
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


def _statement(planned: PricedPlan, ran: Plan, sql: str, released: str) -> ReceiptStatement:
    # Where AUTO found bounds, the plan that ran differs from the plan that was reserved for.
    words, known = (planned.outline, planned.mechanisms) if ran is planned.plan else (outline(ran), None)
    said = about_plan(words, ran, sql, released=released, mechanisms=known)
    return ReceiptStatement([said], words.unit, ran.terms.account, ran.guarantee, ran.catalog)


def release_key(context: QueryContext, plan: Plan) -> str:
    """Return the key of a release in the ledger: a digest of its measurements, the data's version, noise and cost.

    Operations on the noisy cells (ORDER BY, LIMIT, names, expressions, the confidence of intervals) are
    post-processing, so a query that differs only there has the same key and is a repeat.
    """
    version = context.version(plan.tables)
    parts = [*map(repr, (plan.final.text, plan.catalog, plan.relation.value)), plan.priced.text]
    parts += [repr((other.final.text, other.priced.text)) for other in plan.others]
    return digest_of(f"({', '.join([*parts, repr(repr(plan.guarantee)), repr(version)])})")


# -- charges without an outcome


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
