"""Workloads answered inside the curator, charged and receipted like questions.

The life of a workload: resolve the rows → plan → price → reserve → count in the engine → add noise → commit →
estimate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.guarantees import ZCDP, ApproxDP
from tacit.core.relations import Relation
from tacit.curator.accounts import Entry, entry_of
from tacit.curator.context import Caller, CuratorContext
from tacit.curator.failures import check_succeeded, hide_internal_errors
from tacit.curator.marginal_counts import MarginalCounts, countable_rows
from tacit.curator.payment import pay
from tacit.ledger import Order, Reservation
from tacit.query.parsing.query_options import Options
from tacit.query.planning.pricing import check_charge, largest_rho_of
from tacit.query.request import Request, Terms, settle
from tacit.receipts.receipt import Receipt, ReceiptStatement, about_mechanism, quoted
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.count_measurement import CountMeasurement
from tacit.synth.workload import Workload
from tacit.synth.workload_answer import WorkloadEstimates
from tacit.synth.workload_plan import WorkloadPlan, plan_workload

__all__ = [
    "WorkloadAnswer", "WorkloadQuote", "about_measurements", "answer_workload", "concentrated_price", "quote_workload",
]  # fmt: skip

_FORMAT: Final = "tacit-workload"
#: Options of a question that mean something for a workload.
_HEEDED: Final = ("epsilon", "delta", "rho", "confidence", "max_rows")


class WorkloadAnswer(WorkloadEstimates):
    """Estimates of a workload, the charge for them and the receipt."""

    charge: Entry
    receipt: Receipt

    def __repr__(self) -> str:
        return f"<WorkloadAnswer {self.plan.workload}: {self.plan.count:,} queries>"


@dataclass(frozen=True)
class WorkloadQuote:
    """Errors and price of a workload before anything runs; ``str`` for people.

    Args:
        plan: the measurements and the variance of every answer.
        guarantee: what the account would be charged.
        bounding: how much of one unit counts, in words.
        confidence: of the intervals.
    """

    plan: WorkloadPlan
    guarantee: AccountGuarantee
    bounding: str
    confidence: Fraction

    @property
    def charge(self) -> str:
        """The price in words."""
        currency = currency_of(self.guarantee)
        return currency.text(currency.amounts_of(self.guarantee))

    @property
    def root_mean_square_error(self) -> float:
        """Root of the mean variance of all answers."""
        return self.plan.root_mean_square_error

    @property
    def largest_error(self) -> float:
        """Half-width of the widest interval."""
        return self.plan.largest_error * self.plan.factor(self.confidence)

    def __str__(self) -> str:
        numbers = sum(m.outputs for m in self.plan.measurements)
        sure = f"{float(self.confidence):g}"
        lines = [
            f"{self.plan.count:,} queries: {self.plan.workload}",
            f"counted: {self.bounding}",
            f"released: {len(self.plan.measurements):,} vectors with Gaussian noise, {numbers:,} integers in all",
            f"root-mean-square error: {self.root_mean_square_error:.4g}",
            f"every answer within ± {self.largest_error:.4g} with probability {sure}, each by itself",
            f"charge: {self.charge}",
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Priced:
    """A workload with the rows it reads, its plan and its price."""

    counts: MarginalCounts
    plan: WorkloadPlan
    guarantee: AccountGuarantee
    relation: Relation
    terms: Terms

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """Columns of every measurement."""
        return [m.columns for m in self.plan.measurements]


def quote_workload(
    context: CuratorContext, source: str, workload: Workload, options: Mapping[str, Any]
) -> WorkloadQuote:
    """Errors and price; see :meth:`tacit.curator.curator.Curator.explain_workload`."""
    with hide_internal_errors():
        priced = _price(context, source, workload, options)
        return WorkloadQuote(priced.plan, priced.guarantee, priced.counts.bounding, priced.terms.confidence)


def answer_workload(
    context: CuratorContext, source: str, workload: Workload, options: Mapping[str, Any], caller: Caller
) -> WorkloadAnswer:
    """Answer a workload; see :meth:`tacit.curator.curator.Curator.answer_workload`."""
    with hide_internal_errors():
        priced = _price(context, source, workload, options)
        counts, plan = priced.counts, priced.plan
        label = f"workload of {plan.count:,} queries: {source}"
        mechanisms = quoted(about_measurements(plan.measurements))
        text = canonical([counts.text, workload.text])
        about: dict[str, Any] = {
            "name": label,
            "query": source,
            "plan": digest_of(text),
            "bounding": counts.bounding,
            "groups": f"public: all combinations of values of {', '.join(counts.sizes)}",
            "mechanisms": mechanisms,
        }
        version = context.version(counts.tables())
        parts = [_FORMAT, text, context.catalog.digest, priced.relation.value, repr(priced.guarantee), repr(version)]
        order = Order(
            counts.population, priced.guarantee, analyst=caller.analyst, project=context.project, sql=label,
            plan=digest_of(text), quote={"mechanisms": mechanisms}, repeat_key=digest_of(canonical(parts)),
            idempotency_key=caller.idempotency_key, request=digest_of(canonical([label, text, mechanisms])),
        )  # fmt: skip

        def run(_: Reservation) -> list[NDArray[np.int64]]:
            raw = counts.count(context, priced.sets)
            return [measurement.release(raw.__getitem__) for measurement in plan.measurements]

        def statement(_: Any, digest: str) -> ReceiptStatement:
            unit = f"one of {counts.population}"
            kind = currency_of(priced.guarantee).kind
            return ReceiptStatement(
                [about | {"released": digest}], unit, kind, priced.guarantee, context.catalog.digest
            )

        paid = pay(context, order, run, noisy_to_text, statement)
        check_succeeded(paid.outcome)
        noisy = noisy_from_text(paid.outcome.result.decode(), plan.measurements)
        values = {name: column.values for name, column in counts.columns.items()}
        answer = WorkloadAnswer(plan, values, noisy, priced.terms.confidence)
        answer.charge = entry_of(paid.outcome, sql=label, digest=about["plan"], analyst=caller.analyst, paid=paid.now)
        answer.receipt = paid.receipt
        return answer


def about_measurements(measurements: Sequence[CountMeasurement]) -> list[dict[str, Any]]:
    """Lines of a receipt about measurements."""
    lines = []
    for measured in measurements:
        name = f"counts by {', '.join(measured.columns)}" if measured.columns else "count of all rows"
        (line,) = about_mechanism(measured.mechanism, measured.event, name, released="")["mechanisms"]
        lines.append(line | {"reason": _reason(measured)})
    return lines


def _reason(measured: CountMeasurement) -> str:
    shapes = " x ".join(f"{s.outputs}x{s.inputs}" for s in measured.strategies) or "the count itself"
    return (
        f"an integer strategy ({shapes}) times {measured.scale}; one unit adds at most {measured.rows} rows, and each "
        "moves the vector by one column"
    )


def concentrated_price(terms: Terms, relation: Relation) -> tuple[Fraction, AccountGuarantee]:
    """The ρ that terms buy in an account that Gaussian noise can be charged to, and the charge.

    Raises:
        InputError: the account has no price for Gaussian noise, or no delta at which an epsilon is meant.
    """
    if terms.account not in ("zcdp", "approx"):
        raise InputError(
            "account",
            f"a {terms.account} account has no price for Gaussian noise, which this work needs; use accounting = "
            "'zcdp' or 'approx', with a delta",
        )
    if terms.currency == "rho":
        return terms.amount, ZCDP(terms.amount, relation=relation)
    delta = terms.alone if terms.account == "zcdp" else terms.delta
    if not delta:
        raise InputError("delta", "must be stated: an epsilon buys Gaussian noise at a delta alone, such as 1e-6")
    rho = largest_rho_of(terms.amount, delta)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    if terms.account == "zcdp":
        return rho, ZCDP(rho, relation=relation)
    return rho, ApproxDP(terms.amount, delta, relation=relation)


def settled(
    context: CuratorContext, population: str, options: Mapping[str, Any], heeded: Sequence[str] = _HEEDED
) -> Terms:
    """The terms of work that is no question; options that it cannot heed are refused.

    Raises:
        InputError: an option contradicts another or the account, or is not heeded.
    """
    for name, value in options.items():
        if value is not None and name not in heeded:
            raise InputError(name, f"means nothing here; state one of {', '.join(heeded)}")
    request = Request(**options, account=context.accounts[population])
    return settle(request, Options())


def _price(context: CuratorContext, source: str, workload: Workload, options: Mapping[str, Any]) -> _Priced:
    if not isinstance(workload, Workload):
        raise InputError("workload", f"must be a tacit.Workload, not {type(workload).__name__}")
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    request = Request.of("", options)
    lower = _in_lower_case(workload)
    counts = countable_rows(context, source, lower.columns, max_rows=request.stated_rows)
    relation = context.catalog.population(counts.population).relation
    terms = settled(context, counts.population, options)
    rho, guarantee = concentrated_price(terms, relation)
    plan = plan_workload(lower, counts.sizes, rho=rho, rows=counts.rows, relation=relation)
    counts.check(context, [m.columns for m in plan.measurements])
    check_charge(ComposedEvent(tuple(m.event for m in plan.measurements), relation=relation), guarantee)
    return _Priced(counts, plan, guarantee, relation, terms)


def _in_lower_case(workload: Workload) -> Workload:
    """The workload with its columns named as SQL compares them."""
    return workload.renamed({name: name.lower() for name in workload.columns})


def noisy_to_text(noisy: Sequence[NDArray[np.int64]]) -> str:
    """The text of released integers that the ledger keeps."""
    vectors = [" ".join(map(str, each.ravel().tolist())) for each in noisy]
    return canonical({"format": _FORMAT, "version": 1, "noisy": vectors})


def noisy_from_text(text: str, measurements: Sequence[CountMeasurement]) -> list[NDArray[np.int64]]:
    """The integers that :func:`noisy_to_text` wrote.

    Raises:
        InternalError: the text is of another form, or does not fit the measurements.
    """
    content = json.loads(text)
    if content.get("format") != _FORMAT or content.get("version") != 1:
        raise InternalError("the ledger holds something else than a workload")
    vectors = content["noisy"]
    if len(vectors) != len(measurements):
        raise InternalError("the ledger holds another number of vectors than the plan says")
    noisy = []
    for vector, measured in zip(vectors, measurements, strict=True):
        integers = np.array([int(part) for part in vector.split()], dtype=np.int64)
        if integers.size != measured.outputs:
            raise InternalError("the ledger holds a vector of another length than the plan says")
        noisy.append(integers.reshape(tuple(strategy.outputs for strategy in measured.strategies)))
    return noisy
