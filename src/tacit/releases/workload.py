"""Workloads answered inside the curator, charged and receipted like queries.

The life of a workload: resolve the rows → plan → price → reserve → count in the engine → add noise → commit →
estimate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.relations import Relation
from tacit.core.text_files import table_bytes
from tacit.ledger import Outcome, Reservation
from tacit.query.planning.pricing import check_charge
from tacit.query.request import OPTIONS, Request, Terms
from tacit.releases.accounts import Entry, check_per_query, typed_epsilon
from tacit.releases.api_types import Amount, Limit, RequestModel, ResponseModel, Text, maybe
from tacit.releases.payment import Caller, CuratorContext, ReleaseTimer, hide_internal_errors, paid_at, pay_release
from tacit.releases.receipt import Receipt, about_mechanism, quoted
from tacit.releases.release import TABLE_FORMS, Files, ReleaseKind
from tacit.synth.count_measurement import CountMeasurement, count_prices, meant_delta, settled
from tacit.synth.marginal_counts import MarginalCounts, countable_rows
from tacit.synth.workload import Workload, workload_from_plain, workload_to_plain
from tacit.synth.workload_answer import WorkloadEstimates
from tacit.synth.workload_plan import WorkloadPlan, plan_workload

_FORMAT: Final = "tacit-workload"
_LABEL: Final = "workload of "


class WorkloadAnswer(WorkloadEstimates):
    """Estimates of a workload, with the charge and the receipt."""

    charge: Entry
    receipt: Receipt

    def __repr__(self) -> str:
        return f"<WorkloadAnswer {self.plan.workload}: {self.plan.count:,} queries>"


@dataclass(frozen=True)
class WorkloadQuote:
    """Errors and cost of a workload before it runs; ``str`` for people.

    Args:
        plan: the measurements and the variance of every answer.
        guarantee: guarantee that the account would be charged.
        bounding: description of the contribution bound of one unit.
        confidence: confidence of the intervals.
    """

    plan: WorkloadPlan
    guarantee: AccountGuarantee
    bounding: str
    confidence: Fraction

    @property
    def charge(self) -> str:
        currency = currency_of(self.guarantee)
        return currency.text(currency.amounts_of(self.guarantee))

    @property
    def root_mean_square_error(self) -> float:
        return self.plan.root_mean_square_error

    @property
    def largest_error(self) -> float:
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
    """A workload with the rows it reads, its plan and its cost."""

    counts: MarginalCounts
    plan: WorkloadPlan
    guarantee: AccountGuarantee
    relation: Relation
    terms: Terms
    asked: str

    @property
    def mechanisms(self) -> list[dict[str, Any]]:
        """Lines about all measurements, as the ledger stores them."""
        return quoted(about_measurements(self.plan.measurements))

    @property
    def sets(self) -> list[tuple[str, ...]]:
        return [m.columns for m in self.plan.measurements]

    @property
    def delta(self) -> Fraction | None:
        """Delta that belongs to a stated epsilon, stored because the project may change it later; None for none."""
        return meant_delta(self.terms) if self.terms.currency == "epsilon" else None

    @property
    def text(self) -> str:
        """Canonical text of the rows and of the workload."""
        return canonical([self.counts.text, self.asked])


def quote_workload(
    context: CuratorContext, source: str, workload: Workload, options: Mapping[str, Any]
) -> WorkloadQuote:
    """Return errors and cost; see :meth:`tacit.curator.curator.Curator.explain_workload`."""
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
    timer: ReleaseTimer | None = None,
    under: int | None = None,
) -> WorkloadAnswer:
    """Answer a workload; see :meth:`tacit.curator.curator.Curator.answer_workload`.

    Args:
        context: ledger, engine and metadata.
        source: a table, or a SELECT of rows.
        workload: the queries.
        options: cost and options of queries that apply to workloads.
        caller: analyst and idempotency key.
        timer: decides when the outcome may become known, for callers who must not learn the run time.
        under: ledger position of the charge that has paid for it already; None to charge it.
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
        # From these the answers can be read again with the ledger alone, at no cost.
        stated = stated_options(options if priced.delta is None else {**options, "delta": priced.delta})
        told = {"source": source, "parts": workload_to_plain(workload), "options": stated}

        def run(_: Reservation) -> list[NDArray[np.int64]]:
            raw = counts.count(context, priced.sets, seconds=None if timer is None else timer.seconds)
            return [measurement.release(raw.__getitem__) for measurement in plan.measurements]

        # Stored integers are read by the measurements, so that another strategy or noise makes it another release.
        version = context.version(counts.tables())
        repeat = [_FORMAT, text, context.catalog.digest, priced.relation.value, repr(priced.guarantee), repr(version),
                  mechanisms]  # fmt: skip
        paid, charge = pay_release(
            context, caller, run, noisy_to_text, lambda _, digest: [about | {"released": digest}],
            population=counts.population, guarantee=priced.guarantee, unit=f"one of {counts.population}", label=label,
            plan=about["plan"], quote={"mechanisms": mechanisms, "workload": told, **typed_epsilon(options)},
            request=[label, text, mechanisms], repeat=repeat, timer=timer, work=counts.work(priced.sets),
            under=under,
        )  # fmt: skip
        return _answer(priced, paid.outcome, charge)


def _answer(priced: _Priced, outcome: Outcome, charge: Entry) -> WorkloadAnswer:
    noisy = noisy_from_text(outcome.result.decode(), priced.plan.measurements)
    values = {name: column.values for name, column in priced.counts.columns.items()}
    answer = WorkloadAnswer(priced.plan, values, noisy, priced.terms.confidence)
    answer.charge, answer.receipt = charge, Receipt.from_json(outcome.receipt)
    return answer


def stated_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stated options as the ledger stores them."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in options.items() if value is not None
    }


def about_measurements(measurements: Sequence[CountMeasurement]) -> list[dict[str, Any]]:
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


def _price(
    context: CuratorContext,
    source: str,
    workload: Workload,
    options: Mapping[str, Any],
    measured: Sequence[Any] | None = None,
) -> _Priced:
    """Return a workload with its rows, plan and cost.

    Args:
        context: context of the curator.
        source: a table, or a SELECT of rows.
        workload: the queries.
        options: cost and options of queries that apply to workloads.
        measured: lines about the measurements of a stored release, which state its noise; None for the noise with the
            least root-mean-square error, which is a function of public sizes and the cost.
    """
    if not isinstance(workload, Workload):
        raise InputError("workload", f"must be a tacit.Workload, not {type(workload).__name__}")
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    request = Request.of("", options)
    # Column names are case-insensitive, as in SQL.
    lower = workload.renamed({name: name.lower() for name in workload.columns})
    counts = countable_rows(context, source, lower.columns, max_rows=request.stated_rows)
    relation = context.catalog.population(counts.population).relation
    terms = settled(context, counts.population, options)
    found = []
    for amount, noise, guarantee in count_prices(terms, relation):
        check_per_query(context.accounts[counts.population], terms, guarantee)
        plan = plan_workload(lower, counts.sizes, price=amount, rows=counts.rows, relation=relation, noise=noise)
        found.append(_Priced(counts, plan, guarantee, relation, terms, workload.text))
    same = [each for each in found if measured is not None and canonical(each.mechanisms) == canonical(measured)]
    best = min(same or found, key=lambda each: each.plan.root_mean_square_error)
    counts.check(context, best.sets)
    check_charge(ComposedEvent(tuple(m.event for m in best.plan.measurements), relation=relation), best.guarantee)
    return best


def noisy_to_text(noisy: Sequence[NDArray[np.int64]]) -> str:
    """Return released integers as the text that the ledger stores."""
    vectors = [" ".join(map(str, each.ravel().tolist())) for each in noisy]
    return canonical({"format": _FORMAT, "version": 1, "noisy": vectors})


def noisy_from_text(text: str, measurements: Sequence[CountMeasurement]) -> list[NDArray[np.int64]]:
    """Read the integers that :func:`noisy_to_text` wrote.

    Raises:
        InternalError: the text has another format, or does not fit the measurements.
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


class WorkloadRequest(RequestModel):
    """Counting queries to answer at once, and one of epsilon, rho and mu."""

    kind: Literal["workload"]
    source: Text = Field(description="a table, or a SELECT of rows")
    workload: list[dict[str, Any]] = Field(
        description='parts that are added up, such as {"marginals": ["sex", "ward"], "ways": 2} or {"prefixes": "age"}'
    )
    epsilon: Amount = maybe()
    delta: Amount = maybe()
    rho: Amount = maybe()
    mu: Amount = maybe()
    confidence: Amount = maybe()
    max_rows: Limit = maybe()

    @property
    def arguments(self) -> tuple[str, Workload, dict[str, Any]]:
        options = {name: value for name, value in self.stated.items() if name in OPTIONS}
        return self.source, workload_from_plain(self.workload), options


class WorkloadTableResponse(ResponseModel):
    """One marginal or product of a workload; its answers are the file of the same place."""

    columns: list[str]
    queries: int
    stddev: float = Field(description="the largest of an answer")


class WorkloadResponse(ResponseModel):
    """A workload with the errors of its answers."""

    workload: str = Field(description="in words")
    queries: int
    root_mean_square_error: float
    tables: list[WorkloadTableResponse]


class WorkloadKind(ReleaseKind[WorkloadRequest, WorkloadAnswer]):
    """Workloads of counting queries."""

    name = "workload"
    label = _LABEL
    request: ClassVar = WorkloadRequest
    response: ClassVar = WorkloadResponse
    by_analysts = True

    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        return (str(workload_from_plain(kept["parts"])),)

    def quote(self, context: CuratorContext, request: WorkloadRequest) -> str:
        return str(quote_workload(context, *request.arguments))

    def make(
        self, context: CuratorContext, request: WorkloadRequest, caller: Caller, timer: ReleaseTimer | None = None
    ) -> WorkloadAnswer:
        return answer_workload(context, *request.arguments, caller, timer=timer)

    def read(self, context: CuratorContext, position: int) -> WorkloadAnswer:
        with hide_internal_errors():
            charged, told, outcome, charge = paid_at(context, position, "workload")
            parts, measured = workload_from_plain(told["parts"]), charged.quote["mechanisms"]
            priced = _price(context, told["source"], parts, told["options"], measured)
            if digest_of(priced.text) != charged.record.plan:
                raise InputError(
                    "position", f"the columns of {told['source']} are declared otherwise than at {position}"
                )
            if canonical(priced.mechanisms) != canonical(measured):
                raise InputError("position", f"the account, or how Tacit measures, is not what it was at {position}")
            return _answer(priced, outcome, charge)

    def describe(self, made: WorkloadAnswer) -> WorkloadResponse:
        return WorkloadResponse(
            workload=str(made.plan.workload),
            queries=made.plan.count,
            root_mean_square_error=made.plan.root_mean_square_error,
            tables=[
                WorkloadTableResponse(columns=list(t.columns), queries=len(t), stddev=float(np.sqrt(t.variances.max())))
                for t in made.tables()
            ],
        )

    def numbers(self, made: WorkloadAnswer) -> Iterable[tuple[str, Any, Any, Any]]:
        """Yield description, value and interval of every answer."""
        for table in made.tables():
            for labels, found in table.rows():
                where = (
                    ", ".join(f"{n} = {label}" for n, label in zip(table.columns, labels, strict=True)) or "all rows"
                )
                yield f"count of {where}", found.value, found.low, found.high

    def files(self, made: WorkloadAnswer) -> Files:
        def content(place: int, form: str) -> bytes:
            return table_bytes(next(islice(made.tables(), place, None)).to_arrow(), form)

        places = range(sum(1 for _ in made.tables()))
        return {f"table-{place}.{form}": partial(content, place, form) for place in places for form in TABLE_FORMS}


WORKLOAD: Final = WorkloadKind()
