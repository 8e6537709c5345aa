"""Charges that have no outcome yet, and their delivery: the process of the run died, or is still at work.

What was paid for is run once more under its charge, on the data as they are now. Nothing is charged. Of several runs
under one charge the first outcome that is written down is the only one that leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacit.core.errors import InputError
from tacit.ledger import Record
from tacit.ledger.history import charge_at
from tacit.query.request import Request
from tacit.releases.payment import Caller, Departure, hide_internal_errors
from tacit.releases.planner import QuestionContext
from tacit.releases.query import charged_answer, quote
from tacit.releases.views.answer_object import Answer
from tacit.releases.workload import WorkloadAnswer, answer_workload
from tacit.synth.workload_form import workload_from_plain


def undelivered(context: QuestionContext, *, population: str = "", analyst: str = "") -> tuple[Record, ...]:
    """Charges of the project that have no outcome, the oldest first; not the parts of a release that paid for them."""
    with hide_internal_errors():
        found = context.ledger.history(population=population, analyst=analyst, project=context.project)
        return tuple(record for record in found if record.undelivered)


def deliver(
    context: QuestionContext,
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
