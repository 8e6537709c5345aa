"""Synthetic tables made inside the curator: one charge, a receipt of every measurement, a table that is free to use.

The life of a synthetic table: resolve the rows → price → reserve → count in the engine → select and measure → commit →
fit → sample. Only counting and measuring touch data; what comes after is post-processing of what the ledger holds, so a
repeated request is free and draws another table from the same measurements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ExponentialEvent, NoEvent, ZCDPEvent
from tacit.core.names import is_name
from tacit.curator.accounts import Entry, entry_of
from tacit.curator.context import Caller, CuratorContext
from tacit.curator.failures import check_succeeded, hide_internal_errors
from tacit.curator.marginal_counts import MarginalCounts, countable_rows
from tacit.curator.payment import pay
from tacit.curator.synthetic_table import MOST_ROWS, EqualBins, SyntheticTable, checked_rows
from tacit.curator.workload_release import about_measurements, concentrated_price, settled, stated_options
from tacit.ledger import Order, Outcome, Reservation
from tacit.ledger.history import charge_at
from tacit.query.catalog import Column, Table
from tacit.query.planning.pricing import check_charge
from tacit.query.refusal import Refusal
from tacit.query.request import Request, Terms
from tacit.query.types import Kind
from tacit.receipts.receipt import Receipt, ReceiptStatement, about_mechanism, quoted
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.count_measurement import CountSource
from tacit.synth.graphical_model import Impossible
from tacit.synth.table_synthesis import (
    MINUTES,
    ChosenMarginal,
    MeasuredMarginal,
    Method,
    SynthesisPlan,
    Transcript,
    counted,
    fitted,
    measure_table,
)

__all__ = [
    "SUFFIX",
    "SyntheticRelease",
    "check_synthesis",
    "drawn_again",
    "published_tables",
    "stored_synthesis",
    "synthesize",
]

_FORMAT: Final = "tacit-synthesis"
_LABEL: Final = "synthetic table ("
#: Synthetic tables are named after their source, with this ending.
SUFFIX: Final = "_synthetic"
_HEEDED: Final = ("epsilon", "delta", "rho", "max_rows")
#: Cells of a rule about impossible combinations.
_MOST_IMPOSSIBLE: Final = 100_000


@dataclass(frozen=True)
class _Prepared:
    """Rows, plan and price of a synthetic table."""

    counts: MarginalCounts
    bins: Mapping[str, EqualBins]
    plan: SynthesisPlan
    guarantee: AccountGuarantee
    terms: Terms
    impossible: Impossible

    @property
    def text(self) -> str:
        """Canonical text of the rows and of what is measured of them."""
        plan = self.plan
        # Minutes matter for one method, and tables from before there were any have none.
        stated = [] if plan.method != "aim" or plan.minutes == MINUTES else [plan.minutes]
        return canonical([self.counts.text, plan.method, [list(names) for names in plan.sets], *stated])


def synthesize(
    context: CuratorContext,
    source: str,
    columns: Sequence[str] | None,
    options: Mapping[str, Any],
    caller: Caller,
    *,
    rows: int | None,
    method: Method,
    marginals: Sequence[Sequence[str]] | None,
    minutes: int = MINUTES,
    impossible: Sequence[Mapping[str, Any]] = (),
    progress: Callable[[str], None] | None = None,
) -> SyntheticTable:
    """Make a synthetic table; see :meth:`tacit.curator.curator.Curator.synthesize`."""
    with hide_internal_errors():
        if rows is not None:
            checked_rows(rows)
        ready = _prepare(context, source, columns, options, method, marginals, minutes, impossible)
        counts, plan = ready.counts, ready.plan
        label = f"{_LABEL}{method}): {source}"
        text = ready.text
        about: dict[str, Any] = {
            "name": label,
            "query": source,
            "plan": digest_of(text),
            "bounding": counts.bounding,
            "groups": f"public: combinations of values of {', '.join(counts.sizes)}",
        }
        # With these the table can be drawn again from the ledger alone, for nothing.
        told = {
            "source": source, "columns": None if columns is None else list(columns), "method": method,
            "marginals": None if marginals is None else [list(names) for names in marginals], "minutes": minutes,
            "impossible": [dict(each) for each in impossible],
            "options": stated_options(options),
        }  # fmt: skip
        # Which marginals are measured depends on selections, so the order speaks of all of them together.
        whole = ZCDPEvent(plan.rho, mechanism=f"synthetic table, {method}", relation=plan.relation)
        before = quoted(about_mechanism(plan, whole, label, released="")["mechanisms"])
        version = context.version(counts.tables())
        parts = [_FORMAT, text, context.catalog.digest, plan.relation.value, repr(ready.guarantee), repr(version)]
        order = Order(
            counts.population, ready.guarantee, analyst=caller.analyst, project=context.project, sql=label,
            plan=about["plan"], quote={"mechanisms": before, "synthesis": told}, repeat_key=digest_of(canonical(parts)),
            idempotency_key=caller.idempotency_key, request=digest_of(canonical([label, text, before])),
        )  # fmt: skip

        def run(charge: Reservation) -> Transcript:
            raw = counts.count(context, plan.candidates)
            transcript = _measured(context, plan, raw.__getitem__, order, charge, progress)
            check_charge(transcript.event(plan.relation), ready.guarantee)
            return transcript

        def statement(made: Transcript | None, digest: str) -> ReceiptStatement:
            lines = before if made is None else _lines(made, plan)
            said = about | {"mechanisms": lines, "released": digest}
            kind = currency_of(ready.guarantee).kind
            return ReceiptStatement(
                [said], f"one of {counts.population}", kind, ready.guarantee, context.catalog.digest
            )

        paid = pay(context, order, run, transcript_to_text, statement)
        check_succeeded(paid.outcome)
        if progress is not None:
            progress("fitting the model")
        charge = entry_of(paid.outcome, sql=label, digest=about["plan"], analyst=caller.analyst, paid=paid.now)
        return _table(source, ready, paid.outcome, charge, rows)


def _measured(
    context: CuratorContext,
    plan: SynthesisPlan,
    source: CountSource,
    order: Order,
    charge: Reservation,
    progress: Callable[[str], None] | None,
) -> Transcript:
    """Everything that is measured; a method of many rounds keeps parts in the ledger and goes on after the last."""
    if plan.method != "aim":
        return measure_table(plan, source, progress)
    while True:
        parts = _KeptParts(context, plan, order, charge)
        try:
            return measure_table(plan, source, progress, known=parts.found(), keep=parts.keep)
        except _OvertakenError:
            # Another process runs under the same charge and was faster; its parts are those that count.
            continue


class _OvertakenError(Exception):
    """Another process has kept a part of the same run."""


class _KeptParts:
    """Parts of a run that the ledger holds, in order: they cost nothing, because the run's charge has paid for them."""

    def __init__(self, context: CuratorContext, plan: SynthesisPlan, order: Order, charge: Reservation) -> None:
        self._ledger = context.ledger
        self._plan = plan
        self._order = order
        self._charge = charge
        self._number = 0
        self._next: Reservation | None = None

    def _reserve(self) -> Reservation | Outcome:
        free = NoEvent(relation=self._plan.relation)
        number, paid = self._number, self._charge.seq
        name = digest_of(canonical([_FORMAT, "part", paid, self._charge.hash, number]))
        return self._ledger.reserve(
            Order(
                self._order.population, free, analyst=self._order.analyst, project=self._order.project,
                sql=f"part {number + 1} of the {self._order.sql}", plan=self._order.plan,
                quote={"paid by": paid, "part": number}, repeat_key=name,
            )
        )  # fmt: skip

    def found(self) -> list[Transcript]:
        """The parts that an earlier process has kept."""
        parts: list[Transcript] = []
        while self._charge.resumed:
            held = self._reserve()
            if isinstance(held, Reservation):
                self._next = held
                break
            parts.append(transcript_from_text(held.result.decode(), self._plan))
            self._number += 1
        return parts

    def keep(self, part: Transcript) -> None:
        """Keep one more part, durably."""
        held = self._next or self._reserve()
        text = transcript_to_text(part).encode()
        kept = held if isinstance(held, Outcome) else self._ledger.commit(held, text)
        self._charge = replace(self._charge, resumed=True)
        if kept.result != text:
            raise _OvertakenError
        self._next = None
        self._number += 1


def check_synthesis(
    context: CuratorContext,
    source: str,
    columns: Sequence[str] | None,
    options: Mapping[str, Any],
    *,
    rows: int | None = None,
    method: Method = "aim",
    marginals: Sequence[Sequence[str]] | None = None,
    minutes: int = MINUTES,
) -> str:
    """The price of a synthetic table in words, if it can be made; free, reads no data.

    Raises:
        Refusal, InputError: it cannot be made; says why.
    """
    with hide_internal_errors():
        if rows is not None:
            checked_rows(rows)
        ready = _prepare(context, source, columns, options, method, marginals, minutes)
        currency = currency_of(ready.guarantee)
        return currency.text(currency.amounts_of(ready.guarantee))


@dataclass(frozen=True)
class SyntheticRelease:
    """A synthetic table that was paid for, as the ledger holds it.

    Args:
        position: of its charge.
        name: for questions.
        source: the table, or the SELECT of rows.
        method: which marginals were measured.
        time: of the charge.
        population: that paid.
    """

    position: int
    name: str
    source: str
    method: str
    time: str
    population: str


def published_tables(context: CuratorContext) -> tuple[SyntheticRelease, ...]:
    """The synthetic tables of a project that exist for the caller, the oldest first; free."""
    found = []
    with hide_internal_errors():
        for population in context.catalog.populations:
            for record in context.ledger.history(population=population.name):
                if record.project == context.project and record.sql.startswith(_LABEL) and record.answered:
                    charged = charge_at(context.ledger, record.seq)
                    told = {} if charged is None else charged.quote.get("synthesis", {})
                    if told:
                        name = _name(told["source"])
                        found.append(
                            SyntheticRelease(
                                record.seq, name, told["source"], told["method"], record.time, record.population
                            )
                        )
    return tuple(sorted(found, key=lambda each: each.position))


def drawn_again(context: CuratorContext, position: int, rows: int | None = None) -> SyntheticTable:
    """A synthetic table from what the ledger holds at a place: nothing is charged and no data is read.

    Raises:
        InputError: there is no synthetic table at this place, or its columns are declared otherwise now.
    """
    with hide_internal_errors():
        if rows is not None:
            checked_rows(rows)
        return stored_synthesis(context, position).table(rows)


@dataclass(frozen=True)
class StoredSynthesis:
    """A synthetic table as the ledger holds it: its rows, plan and price, and what was released."""

    source: str
    ready: _Prepared
    outcome: Outcome
    charge: Entry

    def table(self, rows: int | None) -> SyntheticTable:
        """The table, fitted anew."""
        return _table(self.source, self.ready, self.outcome, self.charge, rows)


def stored_synthesis(context: CuratorContext, position: int) -> StoredSynthesis:
    """The content of the ledger about a synthetic table at a place; reads no data.

    Raises:
        InputError: there is no synthetic table at this place, or its columns are declared otherwise now.
    """
    charged = charge_at(context.ledger, position)
    told = {} if charged is None else charged.quote.get("synthesis", {})
    outcome = context.ledger.outcome(position) if told else None
    if charged is None or outcome is None:
        raise InputError("position", f"there is no synthetic table at {position}")
    check_succeeded(outcome)
    ready = _prepare(
        context, told["source"], told["columns"], told["options"], told["method"], told["marginals"],
        told["minutes"], told["impossible"],
    )  # fmt: skip
    if digest_of(ready.text) != charged.record.plan:
        raise InputError("position", f"the columns of {told['source']} are declared otherwise than at {position}")
    record = charged.record
    charge = entry_of(outcome, sql=record.sql, digest=record.plan, analyst=record.analyst, paid=False)
    return StoredSynthesis(told["source"], ready, outcome, charge)


def _table(source: str, ready: _Prepared, outcome: Outcome, charge: Entry, rows: int | None) -> SyntheticTable:
    """The table of what was released."""
    transcript = transcript_from_text(outcome.result.decode(), ready.plan)
    model = fitted(ready.plan, transcript, ready.impossible)
    values = {key: column.values for key, column in ready.counts.columns.items()}
    size = rows if rows is not None else min(max(1, round(model.total)), MOST_ROWS)
    table = SyntheticTable(_name(source), transcript.marginals, model, values, ready.bins, size)
    table.charge = charge
    table.receipt = Receipt.from_json(outcome.receipt)
    return table


def _name(source: str) -> str:
    return f"{source if is_name(source) else 'rows'}{SUFFIX}"


def _prepare(
    context: CuratorContext,
    source: str,
    columns: Sequence[str] | None,
    options: Mapping[str, Any],
    method: Method,
    marginals: Sequence[Sequence[str]] | None,
    minutes: int = MINUTES,
    impossible: Sequence[Mapping[str, Any]] = (),
) -> _Prepared:
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    if isinstance(columns, str):
        raise InputError("columns", "must be a list of names of columns")
    request = Request.of("", options)
    bins: dict[str, EqualBins] = {}
    if is_name(source):
        source, bins = _binned(context, source, columns)
        columns = None
    counts = countable_rows(context, source, columns, max_rows=request.stated_rows)
    relation = context.catalog.population(counts.population).relation
    terms = settled(context, counts.population, options, _HEEDED)
    rho, guarantee = concentrated_price(terms, relation)
    sets = tuple(tuple(dict.fromkeys(name.lower() for name in names)) for names in marginals or ())
    plan = SynthesisPlan(method, counts.sizes, rho, counts.rows, relation, sets, minutes)
    counts.check(context, plan.candidates)
    return _Prepared(counts, bins, plan, guarantee, terms, _never(impossible, counts, bins))


def _never(
    impossible: Sequence[Mapping[str, Any]], counts: MarginalCounts, bins: Mapping[str, EqualBins]
) -> dict[tuple[str, ...], NDArray[np.bool_]]:
    """Cells that the owner declares impossible, by columns; they change the model, and nothing that is measured."""
    found: dict[tuple[str, ...], NDArray[np.bool_]] = {}
    for rule in impossible:
        given = {str(name).lower(): value for name, value in rule.items()}
        names = tuple(name for name in counts.sizes if name in given)
        if len(given) != len(names) or not names or any(name in bins for name in names):
            raise InputError("impossible", "must be values by columns of the table, of those that are not in bins")
        if (cells := math.prod(counts.sizes[name] for name in names)) > _MOST_IMPOSSIBLE:
            raise InputError("impossible", f"{', '.join(names)} have {cells:,} combinations, more than a rule may have")
        chosen = []
        for name in names:
            values = counts.columns[name].values
            wanted = given[name] if isinstance(given[name], list) else [given[name]]
            if any(each not in values for each in wanted):
                raise InputError("impossible", f"names a value of {name} that is not declared")
            chosen.append([values.index(each) for each in wanted])
        cells_of = found.setdefault(names, np.zeros(tuple(counts.sizes[name] for name in names), dtype=np.bool_))
        cells_of[np.ix_(*chosen)] = True
        if cells_of.all():
            raise InputError("impossible", f"leaves no combination of {', '.join(names)}")
    return found


def _binned(context: CuratorContext, source: str, columns: Sequence[str] | None) -> tuple[str, dict[str, EqualBins]]:
    """A SELECT of the columns of a table, those with many values in bins; and the bins."""
    table = context.plans.catalog.table(source)
    if table is None:
        raise Refusal("unknown_table", f"There is no table {source!r} that you can ask about.")
    known = {column.name.lower(): column for column in table.columns}
    wanted = [c.name for c in _countable(table)] if columns is None else list(columns)
    listed, bins = [], {}
    for name in wanted:
        column = known.get(name.lower())
        if column is None:
            raise Refusal("unknown_column", f"There is no column {name[:63]!r} in {source}.")
        own = EqualBins.of(column)
        if own is None:
            listed.append(f'"{column.name}"')
        else:
            bins[column.name.lower()] = own
            listed.append(f'{own.expression(column.name)} AS "{column.name}"')
    if not listed:
        raise InputError("columns", f"{source} has no column with declared categories or bounds; declare some")
    # The text is resolved by our own parser and never reaches an engine.
    return f'SELECT {", ".join(listed)} FROM "{source}"', bins  # noqa: S608


def _countable(table: Table) -> list[Column]:
    kinds = (Kind.BOOLEAN,)
    return [
        c
        for c in table.columns
        if c.name != table.unit and (c.categories is not None or c.bounds is not None or c.type.kind in kinds)
    ]


def _lines(made: Transcript, plan: SynthesisPlan) -> list[dict[str, Any]]:
    """Lines of a receipt about every selection and measurement."""
    selections = [
        about_mechanism(
            chosen,
            ExponentialEvent(chosen.epsilon, relation=plan.relation),
            f"selection of {', '.join(chosen.columns)} among {chosen.candidates}",
            released="",
        )["mechanisms"][0]
        for chosen in made.chosen
    ]
    return [*selections, *about_measurements([each.measurement for each in made.measured])]


def transcript_to_text(transcript: Transcript) -> str:
    """The text of what was released that the ledger keeps."""
    measured = [
        {
            "columns": list(each.measurement.columns),
            "rho": str(each.measurement.rho),
            "values": " ".join(map(str, each.noisy.ravel().tolist())),
        }
        | ({"pools": [None if groups is None else list(groups) for groups in each.pools]} if each.pools else {})
        for each in transcript.measured
    ]
    chosen = [
        {"columns": list(each.columns), "epsilon": str(each.epsilon), "candidates": each.candidates}
        for each in transcript.chosen
    ]
    return canonical({"format": _FORMAT, "version": 1, "measured": measured, "chosen": chosen})


def transcript_from_text(text: str, plan: SynthesisPlan) -> Transcript:
    """The transcript that :func:`transcript_to_text` wrote.

    Raises:
        InternalError: the text is of another form.
    """
    content = json.loads(text)
    if content.get("format") != _FORMAT or content.get("version") != 1:
        raise InternalError("the ledger holds something else than a synthetic table")
    transcript = Transcript()
    for each in content["measured"]:
        names = tuple(each["columns"])
        pools = tuple(None if groups is None else tuple(groups) for groups in each.get("pools", ()))
        measurement = counted(plan, names, Fraction(each["rho"]), pools)
        noisy = np.array([int(value) for value in each["values"].split()], dtype=np.int64)
        shape = tuple(strategy.outputs for strategy in measurement.strategies)
        transcript.measured.append(MeasuredMarginal(measurement, noisy.reshape(shape)))
    transcript.chosen += [
        ChosenMarginal(each["candidates"], Fraction(each["epsilon"]), tuple(each["columns"]))
        for each in content["chosen"]
    ]
    return transcript
