"""Workloads answered inside the curator, charged and receipted like questions.

The life of a workload: resolve the rows → plan → price → reserve → count in the engine → add noise → commit →
estimate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.charges.accounts import Entry
from tacit.charges.payment import (
    Caller,
    CuratorContext,
    Departure,
    check_succeeded,
    entry_of,
    hide_internal_errors,
    paid_at,
    paid_before,
    pay,
)
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import Relation
from tacit.ledger import Order, Outcome, Reservation
from tacit.paid_work.marginal_counts import MarginalCounts, countable_rows
from tacit.query.parsing.query_options import Options
from tacit.query.planning.delta_budgets import largest_mu_of, largest_rho_of
from tacit.query.planning.pricing import check_charge
from tacit.query.request import Request, Terms, settle
from tacit.receipts.receipt import Receipt, ReceiptStatement, about_mechanism, quoted
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.count_measurement import CountMeasurement
from tacit.synth.count_noise import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, ROUNDED_GAUSSIAN, CountNoise
from tacit.synth.workload import Factor, ProductPart, Workload
from tacit.synth.workload_answer import WorkloadEstimates
from tacit.synth.workload_form import workload_from_plain, workload_to_plain
from tacit.synth.workload_plan import WorkloadPlan, plan_workload

_FORMAT: Final = "tacit-workload"
_LABEL: Final = "workload of "
#: Entries of matrices that the ledger keeps with a workload; with larger ones it is not listed and read again by place.
_MOST_TOLD: Final = 100_000
#: Options of a question that mean something for a workload.
_HEEDED: Final = ("epsilon", "delta", "rho", "mu", "confidence", "max_rows")


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
        numbers, vectors = sum(m.outputs for m in self.plan.measurements), len(self.plan.measurements)
        word = "vector" if vectors == 1 else "vectors"
        sure = f"{float(self.confidence):g}"
        lines = [
            f"{self.plan.count:,} queries: {self.plan.workload}",
            f"counted: {self.bounding}",
            f"released: {vectors:,} {word} with {self.plan.noise.words}, {numbers:,} integers in all",
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
    asked: str

    @property
    def mechanisms(self) -> list[dict[str, Any]]:
        """Lines about all measurements, as the ledger keeps them."""
        return quoted(about_measurements(self.plan.measurements))

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """Columns of every measurement."""
        return [m.columns for m in self.plan.measurements]

    @property
    def delta(self) -> Fraction | None:
        """The delta at which an epsilon is meant, which the project may state otherwise later; None for none."""
        return _meant_delta(self.terms) if self.terms.currency == "epsilon" else None

    @property
    def text(self) -> str:
        """Canonical text of the rows and of what is asked of them."""
        return canonical([self.counts.text, self.asked])


def quote_workload(
    context: CuratorContext, source: str, workload: Workload, options: Mapping[str, Any]
) -> WorkloadQuote:
    """Errors and price; see :meth:`tacit.curator.curator.Curator.explain_workload`."""
    with hide_internal_errors():
        priced = _price(context, source, workload, options)
        return WorkloadQuote(priced.plan, priced.guarantee, priced.counts.bounding, priced.terms.confidence)


def answer_workload(
    context: CuratorContext,
    source: str,
    workload: Workload,
    options: Mapping[str, Any],
    caller: Caller,
    *,
    departure: Departure | None = None,
) -> WorkloadAnswer:
    """Answer a workload; see :meth:`tacit.curator.curator.Curator.answer_workload`.

    Args:
        context: ledger, engine and metadata.
        source: a table, or a SELECT of rows.
        workload: the queries.
        options: the price.
        caller: who asks.
        departure: decides when the outcome may become known, for callers who must not see how long it took.
    """
    with hide_internal_errors():
        priced = _price(context, source, workload, options)
        counts, plan = priced.counts, priced.plan
        label = f"{_LABEL}{plan.count:,} queries: {source}"
        mechanisms = priced.mechanisms
        text = priced.text
        about: dict[str, Any] = {
            "name": label,
            "query": source,
            "plan": digest_of(text),
            "bounding": counts.bounding,
            "groups": f"public: all combinations of values of {', '.join(counts.sizes)}",
            "mechanisms": mechanisms,
        }
        # With these the answers can be read again from the ledger alone, for nothing.
        stated = stated_options(options if priced.delta is None else {**options, "delta": priced.delta})
        told = {"source": source, "parts": workload_to_plain(workload), "options": stated}
        kept = told if sum(len(row) for f in _factors(workload) for row in f.rows) <= _MOST_TOLD else {}
        version = context.version(counts.tables())
        # Integers are read by what was measured, so that with another strategy or other noise it is another release.
        parts = [_FORMAT, text, context.catalog.digest, priced.relation.value, repr(priced.guarantee), repr(version),
                 mechanisms]  # fmt: skip
        order = Order(
            counts.population, priced.guarantee, analyst=caller.analyst, project=context.project, sql=label,
            plan=digest_of(text), quote={"mechanisms": mechanisms, "workload": kept},
            repeat_key=digest_of(canonical(parts)),
            idempotency_key=caller.idempotency_key, request=digest_of(canonical([label, text, mechanisms])),
        )  # fmt: skip

        def run(_: Reservation) -> list[NDArray[np.int64]]:
            raw = counts.count(context, priced.sets, seconds=None if departure is None else departure.seconds)
            return [measurement.release(raw.__getitem__) for measurement in plan.measurements]

        def statement(_: Any, digest: str) -> ReceiptStatement:
            unit = f"one of {counts.population}"
            kind = currency_of(priced.guarantee).kind
            return ReceiptStatement(
                [about | {"released": digest}], unit, kind, priced.guarantee, context.catalog.digest
            )

        work = counts.work(priced.sets)
        if departure is not None and context.ledger.outcome_under(counts.population, order.repeat_key) is None:
            departure.check(work)
        paid = pay(context, order, run, noisy_to_text, statement, departure=departure, plan=work)
        check_succeeded(paid.outcome)
        charge = entry_of(paid.outcome, sql=label, digest=about["plan"], analyst=caller.analyst, paid=paid.now)
        return _answer(priced, paid.outcome, charge)


def _answer(priced: _Priced, outcome: Outcome, charge: Entry) -> WorkloadAnswer:
    """The answers of what was released."""
    noisy = noisy_from_text(outcome.result.decode(), priced.plan.measurements)
    values = {name: column.values for name, column in priced.counts.columns.items()}
    answer = WorkloadAnswer(priced.plan, values, noisy, priced.terms.confidence)
    answer.charge, answer.receipt = charge, Receipt.from_json(outcome.receipt)
    return answer


def stated_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were stated, as the ledger keeps them."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in options.items() if value is not None
    }


@dataclass(frozen=True)
class WorkloadRelease:
    """A workload that was paid for, as the ledger holds it.

    Args:
        position: of its charge.
        source: the table, or the SELECT of rows.
        workload: in words.
        time: of the charge.
        population: that paid.
    """

    position: int
    source: str
    workload: str
    time: str
    population: str


def published_workloads(context: CuratorContext) -> tuple[WorkloadRelease, ...]:
    """The workloads of a project that exist for the caller, the oldest first; free."""
    with hide_internal_errors():
        found = [
            WorkloadRelease(
                record.seq, told["source"], str(workload_from_plain(told["parts"])), record.time, record.population
            )
            for record, told in paid_before(context, _LABEL, "workload")
        ]
    return tuple(sorted(found, key=lambda each: each.position))


def read_workload(context: CuratorContext, position: int) -> WorkloadAnswer:
    """The answers that the ledger holds at a place: nothing is charged and no data is read.

    Raises:
        InputError: there is no workload at this place, or its columns are declared otherwise now.
    """
    with hide_internal_errors():
        charged, told, outcome = paid_at(context, position, "workload")
        parts, measured = workload_from_plain(told["parts"]), charged.quote["mechanisms"]
        priced = _price(context, told["source"], parts, told["options"], measured)
        if digest_of(priced.text) != charged.record.plan:
            raise InputError("position", f"the columns of {told['source']} are declared otherwise than at {position}")
        if canonical(priced.mechanisms) != canonical(measured):
            raise InputError("position", f"the account, or how Tacit measures, is not what it was at {position}")
        record = charged.record
        charge = entry_of(outcome, sql=record.sql, digest=record.plan, analyst=record.analyst, paid=False)
        return _answer(priced, outcome, charge)


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


class CountPrice(NamedTuple):
    """A price of work on counts: how much of which noise, and the charge."""

    amount: Fraction
    noise: CountNoise
    guarantee: AccountGuarantee


def count_price(terms: Terms, relation: Relation) -> CountPrice:
    """The noise on counts that terms buy in their account, and the charge.

    A pure account buys Laplace noise, a GDP account rounded normal noise, others discrete Gaussian noise.

    Raises:
        InputError: an epsilon needs a delta and has none, or buys nothing.
    """
    if terms.account == "pure":
        return CountPrice(terms.amount, DISCRETE_LAPLACE, PureDP(terms.amount, relation=relation))
    if terms.currency == "rho":
        return CountPrice(terms.amount, DISCRETE_GAUSSIAN, ZCDP(terms.amount, relation=relation))
    if terms.currency == "mu":
        return CountPrice(terms.amount**2, ROUNDED_GAUSSIAN, GDP(terms.amount, relation=relation))
    delta = _meant_delta(terms)
    if not delta:
        raise InputError("delta", "must be stated: an epsilon buys Gaussian noise at a delta alone, such as 1e-6")
    if terms.account == "gdp":
        mu = largest_mu_of(terms.amount, delta)
        return CountPrice(mu**2, ROUNDED_GAUSSIAN, GDP(mu, relation=relation))
    rho = largest_rho_of(terms.amount, delta)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    if terms.account == "zcdp":
        return CountPrice(rho, DISCRETE_GAUSSIAN, ZCDP(rho, relation=relation))
    return CountPrice(rho, DISCRETE_GAUSSIAN, ApproxDP(terms.amount, delta, relation=relation))


def _meant_delta(terms: Terms) -> Fraction | None:
    return terms.delta if terms.account == "approx" else terms.alone


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


def count_prices(terms: Terms, relation: Relation) -> tuple[CountPrice, ...]:
    """The kinds of noise on counts that terms buy in their account, each with its charge; all keep what is stated.

    An (ε, δ) of an approx account buys Gaussian noise at both, or Laplace noise at ε alone, which costs no δ.
    """
    if terms.account != "approx" or terms.currency != "epsilon":
        return (count_price(terms, relation),)
    pure = CountPrice(terms.amount, DISCRETE_LAPLACE, ApproxDP(terms.amount, 0, relation=relation))
    delta = _meant_delta(terms)
    if not delta or largest_rho_of(terms.amount, delta) <= 0:
        return (pure,)
    return count_price(terms, relation), pure


def _price(
    context: CuratorContext,
    source: str,
    workload: Workload,
    options: Mapping[str, Any],
    measured: Sequence[Any] | None = None,
) -> _Priced:
    """A workload with its price.

    Args:
        context: of the curator.
        source: a table, or a SELECT of rows.
        workload: the queries.
        options: the price.
        measured: lines about the measurements of a stored release, whose noise is read; None for the noise with the
            least root-mean-square error, which is a function of public sizes and the price.
    """
    if not isinstance(workload, Workload):
        raise InputError("workload", f"must be a tacit.Workload, not {type(workload).__name__}")
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    request = Request.of("", options)
    # Columns are named as SQL compares them.
    lower = workload.renamed({name: name.lower() for name in workload.columns})
    counts = countable_rows(context, source, lower.columns, max_rows=request.stated_rows)
    relation = context.catalog.population(counts.population).relation
    terms = settled(context, counts.population, options)
    found = []
    for amount, noise, guarantee in count_prices(terms, relation):
        plan = plan_workload(lower, counts.sizes, price=amount, rows=counts.rows, relation=relation, noise=noise)
        found.append(_Priced(counts, plan, guarantee, relation, terms, workload.text))
    same = [each for each in found if measured is not None and canonical(each.mechanisms) == canonical(measured)]
    best = min(same or found, key=lambda each: each.plan.root_mean_square_error)
    counts.check(context, best.sets)
    check_charge(ComposedEvent(tuple(m.event for m in best.plan.measurements), relation=relation), best.guarantee)
    return best


def _factors(workload: Workload) -> list[Factor]:
    return [factor for part in workload.parts if isinstance(part, ProductPart) for factor in part.factors]


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
