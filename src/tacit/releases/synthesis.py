"""Synthetic tables made inside the curator: one charge, a receipt of every measurement, a table that is free to use.

The life of a synthetic table: resolve the rows → price → reserve → count in the engine → select and measure → commit →
fit → sample. Only counting and measuring touch data; what comes after is post-processing of what the ledger holds, so a
repeated request is free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field

from tacit.accounting.currencies import currency_of
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent, ExponentialEvent
from tacit.core.extras import load_arrow
from tacit.core.names import is_name
from tacit.core.numbers import format_up
from tacit.ledger import Outcome, Reservation
from tacit.query.planning.plan import Plan
from tacit.query.planning.pricing import check_charge
from tacit.releases.accounts import Entry, typed_epsilon
from tacit.releases.api_types import Amount, Count, Limit, Names, RequestModel, ResponseModel, Text, maybe
from tacit.releases.payment import Caller, ReleaseTimer, hide_internal_errors, paid_at, pay_release
from tacit.releases.query import QueryContext, read_back
from tacit.releases.query import run as run_query
from tacit.releases.receipt import Receipt, about_mechanism, exact_events, mechanisms_of, quoted
from tacit.releases.release import SYNTHETIC_SUFFIX, TABLE_FORMS, Files, ReleaseKind
from tacit.releases.release_format import released_to_text
from tacit.releases.synthetic_table import (
    BANNER,
    MOST_ROWS,
    NOT_MADE,
    SyntheticStar,
    SyntheticTable,
    checked_rows,
)
from tacit.releases.workload import WorkloadAnswer, about_measurements, stated_options
from tacit.synth.synthesis_request import SynthesisRequest
from tacit.synth.synthesis_stages import FittedStage, SynthesisStages
from tacit.synth.table_synthesis import (
    ChosenMarginal,
    MeasuredMarginal,
    Method,
    SynthesisPlan,
    Transcript,
    counted,
    measure_table,
)

_FORMAT: Final = "tacit-synthesis"
_LABEL: Final = "synthetic table ("


def synthesize(
    context: QueryContext,
    request: SynthesisRequest,
    caller: Caller,
    *,
    rows: int | None,
    progress: Callable[[str], None] | None = None,
) -> SyntheticTable | SyntheticStar:
    """Make a synthetic table, or two; see :meth:`tacit.curator.curator.Curator.synthesize`."""
    # The rows need Arrow, so that a missing library is reported before anything is charged.
    load_arrow()
    with hide_internal_errors():
        stages = SynthesisStages(context, request)
        _check_rows(stages, rows)
        label = _label(request)
        text = stages.text
        about: dict[str, Any] = {
            "name": label,
            "query": request.label,
            "plan": digest_of(text),
            "bounding": stages.bounding,
            "groups": f"public: combinations of values of {', '.join(stages.columns)}",
        }
        # From these the table can be drawn again with the ledger alone, at no cost.
        told = request.to_plain(stated_options(request.options))
        # The measured marginals depend on selections, so the order describes all of them by one event.
        whole = stages.noise.event(stages.price, f"synthetic table, {request.method}", stages.relation)
        selections = _selection_lines(stages.selections)
        before = quoted([*selections, *about_mechanism(stages, whole, label, released="")["mechanisms"]])
        version = context.version(stages.tables())
        relation = stages.relation

        def run(_: Reservation) -> tuple[list[str], list[FittedStage]]:
            done: list[FittedStage] = []
            selected = [released_to_text(run_query(context, plan)) for plan in stages.selections.values()]
            planned = _with_values(context, stages, selected)
            for number in range(len(planned)):
                stage = planned.stage(number, done)
                raw = stage.counts.count(context, stage.plan.candidates)
                if context.version(stages.tables()) != version:
                    raise InternalError("the tables changed while they were counted")
                done.append(FittedStage(stage, measure_table(stage.plan, raw.__getitem__, progress)))
            events = [event for each in done for event in each.transcript.event(relation).events]
            events += [event for plan in stages.selections.values() for event in exact_events(plan)]
            check_charge(ComposedEvent(tuple(events), relation=relation), stages.guarantee)
            return selected, done

        def answers(made: tuple[list[str], list[FittedStage]] | None, digest: str) -> list[dict[str, Any]]:
            lines = before
            if made is not None:
                lines = [*selections, *(line for each in made[1] for line in _lines(each, len(made[1]) > 1))]
            return [about | {"mechanisms": lines, "released": digest}]

        def text_of(made: tuple[list[str], list[FittedStage]]) -> str:
            return transcripts_to_text([each.transcript for each in made[1]], made[0])

        paid, charge = pay_release(
            context, caller, run, text_of, answers,
            population=stages.population, guarantee=stages.guarantee, unit=f"one of {stages.population}", label=label,
            plan=about["plan"], quote={"mechanisms": before, "synthesis": told, **typed_epsilon(request.options)},
            request=[label, text, before],
            repeat=[_FORMAT, text, context.catalog.digest, stages.relation.value, repr(stages.guarantee),
                    repr(version)],
        )  # fmt: skip
        if progress is not None:
            progress("fitting the model")
        return _drawn(context, stages, paid.outcome, charge, rows)


def _selection_lines(selections: Mapping[str, Plan]) -> list[dict[str, Any]]:
    """Return the receipt's lines about the queries that find values of text columns."""
    return [
        line | {"name": f"values of {name}: {line['name']}"}
        for name, plan in selections.items()
        for line in mechanisms_of(plan)
    ]


def _with_values(context: QueryContext, stages: SynthesisStages, selected: Sequence[str]) -> SynthesisStages:
    """Return the stages with the values of text columns that were found."""
    if not stages.selections:
        return stages
    found = {}
    for (name, plan), text in zip(stages.selections.items(), selected, strict=True):
        rows = read_back(plan, text.encode()).finished.values
        found[name] = [str(value) for value, _ in rows if value is not None]
    return SynthesisStages(context, stages.request, found)


def check_synthesis(context: QueryContext, request: SynthesisRequest, *, rows: int | None = None) -> str:
    """Return the cost of a synthetic table as text, after checking that it can be made. Free; reads no data.

    Raises:
        Refusal, InputError: the table cannot be made, with the reason.
    """
    # The rows need Arrow, so that a missing library is reported before anything is charged.
    load_arrow()
    with hide_internal_errors():
        stages = SynthesisStages(context, request)
        _check_rows(stages, rows)
        currency = currency_of(stages.guarantee)
        missing = [name for number in range(len(request.tables)) for name in stages.left_out(number)]
        told = [currency.text(currency.amounts_of(stages.guarantee))]
        if stages.selections:
            rho, own = stages.selection_cost
            told.append(
                f"of it rho {format_up(rho, 3)} and delta {format_up(own, 3)} find values of "
                f"{', '.join(stages.selections)} privately; rarer values are NULL"
            )
        return "; ".join([*told, *([f"{NOT_MADE}{', '.join(missing)}"] if missing else [])])


def drawn_again(context: QueryContext, position: int, rows: int | None = None) -> SyntheticTable | SyntheticStar:
    """Make a synthetic table, or two, from the release at a ledger position: nothing is charged, no data is read.

    Raises:
        InputError: there is no synthetic table at this position, or the declarations of its columns have changed since.
    """
    with hide_internal_errors():
        charged, told, outcome, charge = paid_at(context, position, "synthesis")
        stages = SynthesisStages(context, SynthesisRequest.from_plain(told))
        if digest_of(stages.text) != charged.record.plan:
            raise InputError("position", f"the columns of {told['source']} are declared otherwise than at {position}")
        _check_rows(stages, rows)
        return _drawn(context, stages, outcome, charge, rows)


def from_counts(found: WorkloadAnswer | Sequence[Any], rows: int | None) -> SyntheticTable:
    """Make a synthetic table from a workload, with its charge and receipt, or from Arrow tables of counts."""
    load_arrow()
    if not isinstance(found, WorkloadAnswer):
        return SyntheticTable.from_counts(found, rows=rows)
    # Ranges are no values of a column.
    tables = [t for t in found.tables() if not any(isinstance(each, tuple) for labels in t.labels for each in labels)]
    made = SyntheticTable.from_counts([table.to_arrow() for table in tables], rows=rows)
    made.charge, made.receipt = found.charge, found.receipt
    return made


def _check_rows(stages: SynthesisStages, rows: int | None) -> None:
    """Refuse a number of rows that cannot be drawn, before anything is charged."""
    if rows is not None and checked_rows(rows) * (stages.star.most if stages.star else 1) > MOST_ROWS:
        raise InputError("rows", f"must be fewer persons: with {stages.star and stages.star.most} rows each they are "
                                 f"more than {MOST_ROWS:,}")  # fmt: skip


def _drawn(
    context: QueryContext, stages: SynthesisStages, outcome: Outcome, charge: Entry, rows: int | None
) -> SyntheticTable | SyntheticStar:
    """Return the synthetic table, or both, fitted anew to the release in the ledger."""
    stages, released = _from_text(context, outcome.result.decode(), stages)
    receipt = Receipt.from_json(outcome.receipt)
    star = stages.star
    if star is None:
        made = _made(released[-1], _rows(released[-1], rows))
        made.left_out, made.found = stages.left_out(0), stages.found
        made.charge, made.receipt = charge, receipt
        return made
    persons, others = released[-2:]
    size = min(_rows(persons, rows), MOST_ROWS // star.most)
    tables = _made(persons, size), _made(others, _rows(others, None))
    for number, table in enumerate(tables):
        table.left_out = stages.left_out(number)
    both = SyntheticStar(*tables, star)
    both.sign(charge, receipt)
    return both


def _rows(made: FittedStage, rows: int | None) -> int:
    return rows if rows is not None else min(max(1, round(made.model.total)), MOST_ROWS)


def _made(done: FittedStage, rows: int) -> SyntheticTable:
    """Return the synthetic table of a fitted stage."""
    return SyntheticTable(
        _name(done.stage.name), done.transcript.marginals, done.model, done.columns, done.stage.bins, rows
    )


def _label(request: SynthesisRequest) -> str:
    return f"{_LABEL}{request.method}): {request.label}"


def _name(source: str) -> str:
    return f"{source if is_name(source) else 'rows'}{SYNTHETIC_SUFFIX}"


def _lines(made: FittedStage, one_of_several: bool) -> list[dict[str, Any]]:
    """Return the receipt's lines for all selections and measurements of a stage; named if there are several stages."""
    selections = [
        about_mechanism(
            chosen,
            ExponentialEvent(chosen.epsilon, relation=made.stage.plan.relation),
            f"selection of {', '.join(chosen.columns)} among {chosen.candidates}",
            released="",
        )["mechanisms"][0]
        for chosen in made.transcript.chosen
    ]
    lines = [*selections, *about_measurements([each.measurement for each in made.transcript.measured])]
    if not one_of_several:
        return lines
    return [line | {"name": f"{made.stage.name}: {line['name']}"} for line in lines]


def _from_text(context: QueryContext, text: str, stages: SynthesisStages) -> tuple[SynthesisStages, list[FittedStage]]:
    """Read the fitted stages from a stored text, each planned from the releases before it."""
    done: list[FittedStage] = []
    stages = _with_values(context, stages, json.loads(text).get("values", []))
    for number, told in enumerate(transcripts_of(text, len(stages))):
        stage = stages.stage(number, done)
        done.append(FittedStage(stage, transcript_from_plain(told, stage.plan)))
    return stages, done


_VERSION: Final = 1


def transcripts_to_text(made: Sequence[Transcript], selected: Sequence[str] = ()) -> str:
    """Return the text of all stages' releases that the ledger stores, with the releases of values of text columns."""
    values = {"values": list(selected)} if selected else {}
    return canonical({"format": _FORMAT, "version": _VERSION, "stages": [_to_plain(each) for each in made], **values})


def transcripts_of(text: str, count: int) -> list[Mapping[str, Any]]:
    """Return the JSON content of each stage, as :func:`transcripts_to_text` wrote it.

    Raises:
        InternalError: the text has another format, or another number of stages.
    """
    content = json.loads(text)
    if (content.get("format"), content.get("version")) != (_FORMAT, _VERSION):
        raise InternalError("the ledger holds something else than a synthetic table")
    if len(content["stages"]) != count:
        raise InternalError("the ledger holds another number of stages than the request has")
    return list(content["stages"])


def _to_plain(transcript: Transcript) -> dict[str, Any]:
    measured = [
        {
            "columns": list(each.measurement.columns),
            each.measurement.noise.name: str(each.measurement.price),
            "values": " ".join(map(str, each.noisy.ravel().tolist())),
        }
        for each in transcript.measured
    ]
    chosen = [
        {"columns": list(each.columns), "epsilon": str(each.epsilon), "candidates": each.candidates}
        for each in transcript.chosen
    ]
    return {"measured": measured, "chosen": chosen}


def transcript_from_plain(content: Mapping[str, Any], plan: SynthesisPlan) -> Transcript:
    transcript = Transcript()
    for each in content["measured"]:
        names = tuple(each["columns"])
        measurement = counted(plan, names, Fraction(each[plan.noise.name]))
        noisy = np.array([int(value) for value in each["values"].split()], dtype=np.int64)
        shape = tuple(strategy.outputs for strategy in measurement.strategies)
        transcript.measured.append(MeasuredMarginal(measurement, noisy.reshape(shape)))
    transcript.chosen += [
        ChosenMarginal(each["candidates"], Fraction(each["epsilon"]), tuple(each["columns"]))
        for each in content["chosen"]
    ]
    return transcript


class SyntheticTableRequest(RequestModel):
    """A synthetic table to make, and one of epsilon, rho and mu."""

    kind: Literal["synthesis"]
    source: Text | Annotated[dict[str, Names | None], Field(min_length=2, max_length=2)] = Field(
        description="a table, or a SELECT of rows; or two tables, persons and rows of theirs, with columns or null"
    )
    columns: Names | None = maybe(description="null for all that are declared")
    rows: Count = maybe(description="to draw; by default about as many as there are")
    method: Method = maybe()
    marginals: list[Names] = maybe(description="sets of columns to measure, or whose error matters")
    minutes: Count = maybe(description="that fits may take; says how large the model may grow")
    nulls: Names = maybe(description="columns with bounds of which NULL is a value")
    epsilon: Amount = maybe()
    delta: Amount = maybe()
    rho: Amount = maybe()
    mu: Amount = maybe()
    max_rows: Limit = maybe()

    @property
    def asked(self) -> SynthesisRequest:
        """The request, but for how many rows to draw.

        Raises:
            InputError: something is of another kind.
        """
        stated = {name: value for name, value in self.stated.items() if name not in ("kind", "rows")}
        source, columns, method = (stated.pop(name, None) for name in ("source", "columns", "method"))
        return SynthesisRequest.of(source, columns, method or "aim", stated)


class MarginalResponse(ResponseModel):
    """A marginal that was measured, and how far the model is from it."""

    columns: list[str]
    stddev: float = Field(description="of the noise on each count")
    distance: float = Field(description="of the model from the noisy counts: half the l1 distance over all rows")
    noise: float = Field(description="the same distance that noise alone makes, on average")


class SyntheticTableResponse(ResponseModel):
    """One synthetic table with its quality."""

    name: str
    rows: int
    columns: list[str]
    measured: list[MarginalResponse]
    not_measured: list[list[str]] = Field(description="pairs of columns about which nothing is promised")
    report: str = Field(description="the same in words")


class SynthesisResponse(ResponseModel):
    """A synthetic table, or two that belong together, made of what was paid for alone."""

    method: str
    tables: list[SyntheticTableResponse]
    note: str


class SynthesisKind(ReleaseKind[SyntheticTableRequest, SyntheticTable | SyntheticStar]):
    """Synthetic tables."""

    name = "synthesis"
    label = _LABEL
    request: ClassVar = SyntheticTableRequest
    response: ClassVar = SynthesisResponse

    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_name(each) for each in _sources(kept))

    def source(self, kept: Mapping[str, Any]) -> str:
        return " and ".join(_sources(kept))

    def quote(self, context: QueryContext, request: SyntheticTableRequest) -> str:
        return check_synthesis(context, request.asked, rows=request.rows)

    def make(
        self,
        context: QueryContext,
        request: SyntheticTableRequest,
        caller: Caller,
        timer: ReleaseTimer | None = None,  # noqa: ARG002 - of owners alone
    ) -> SyntheticTable | SyntheticStar:
        return synthesize(context, request.asked, caller, rows=request.rows)

    def read(self, context: QueryContext, position: int) -> SyntheticTable | SyntheticStar:
        return drawn_again(context, position)

    def describe(self, made: SyntheticTable | SyntheticStar) -> SynthesisResponse:
        found = []
        for table in made.tables:
            columns = list(table.columns) if isinstance(made, SyntheticTable) else table.to_arrow().column_names
            measured = [
                MarginalResponse(
                    columns=list(each.columns), stddev=each.stddev, distance=each.distance, noise=each.noise
                )
                for each in table.quality()
            ]
            missing = [list(pair) for pair in table.not_measured]
            found.append(
                SyntheticTableResponse(
                    name=table.name, rows=table.rows, columns=columns, measured=measured, not_measured=missing,
                    report=table.report(),
                )
            )  # fmt: skip
        method = made.receipt["answers"][0]["name"].removeprefix(_LABEL).partition(")")[0]
        return SynthesisResponse(method=method, tables=found, note=BANNER)

    def files(self, made: SyntheticTable | SyntheticStar) -> Files:
        return {f"{each.name}.{form}": partial(each.to_bytes, form) for each in made.tables for form in TABLE_FORMS}


def _sources(kept: Mapping[str, Any]) -> list[str]:
    return [name for name, _ in kept["tables"]] if "tables" in kept else [kept["source"]]


SYNTHESIS: Final = SynthesisKind()
