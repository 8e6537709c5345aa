"""Synthetic tables made inside the curator: one charge, a receipt of every measurement, a table that is free to use.

The life of a synthetic table: resolve the rows → price → reserve → count in the engine → select and measure → commit →
fit → sample. Only counting and measuring touch data; what comes after is post-processing of what the ledger holds, so a
repeated request is free and draws another table from the same measurements.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ExponentialEvent, ZCDPEvent
from tacit.core.names import is_name
from tacit.curator.accounts import Entry, entry_of
from tacit.curator.context import Caller, CuratorContext
from tacit.curator.failures import check_succeeded, hide_internal_errors
from tacit.curator.marginal_counts import MarginalCounts, countable_rows
from tacit.curator.payment import pay
from tacit.curator.workload_release import about_measurements, concentrated_price, settled
from tacit.engines.registry import query_public
from tacit.ledger import Order, Reservation
from tacit.query.catalog import Column, Table
from tacit.query.planning.pricing import check_charge
from tacit.query.refusal import Refusal
from tacit.query.request import Request, Terms
from tacit.query.types import Kind
from tacit.receipts.receipt import Receipt, ReceiptStatement, about_mechanism, quoted
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.count_measurement import CountMeasurement
from tacit.synth.graphical_model import GraphicalModel, uniform
from tacit.synth.noise_interval import interval_factor
from tacit.synth.strategy import IdentityStrategy
from tacit.synth.table_synthesis import (
    MINUTES,
    ChosenMarginal,
    MeasuredMarginal,
    Method,
    SynthesisPlan,
    Transcript,
    fitted,
    measure_table,
)

__all__ = ["MarginalQuality", "SyntheticTable", "synthesize"]

_FORMAT: Final = "tacit-synthesis"
_HEEDED: Final = ("epsilon", "delta", "rho", "max_rows")
#: Integers with more values than this are put into bins.
_MOST_VALUES: Final = 64
_BINS: Final = 32
_MOST_ROWS: Final = 10_000_000


@dataclass(frozen=True)
class _Bins:
    """Equal bins of an integer column, by a public rule: from ``low`` on, each ``width`` wide, up to ``high``."""

    low: int
    high: int
    width: int

    def drawn(self, places: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Whole numbers spread evenly over bins."""
        begin = self.low + places * self.width
        wide = np.minimum(self.width, self.high + 1 - begin)
        return np.asarray(begin + np.floor(shares * wide).astype(np.int64))


@dataclass(frozen=True)
class MarginalQuality:
    """Distance of the model from a marginal that was measured.

    Args:
        columns: of the marginal.
        distance: half the l1 distance between the model's counts and the noisy ones, over the number of rows.
        noise: the same distance that noise alone would make, on average.
        stddev: of the noise on each count.
    """

    columns: tuple[str, ...]
    distance: float
    noise: float
    stddev: float


class SyntheticTable:
    """A synthetic table, the model it was drawn from, the charge and the receipt.

    Args:
        name: of the table, for questions.
        transcript: everything that was released.
        model: fitted to it.
        columns: names and values.
        bins: of columns that were put into bins.
        rows: how many to draw.
    """

    def __init__(
        self,
        name: str,
        transcript: Transcript,
        model: GraphicalModel,
        columns: Mapping[str, Sequence[Any]],
        bins: Mapping[str, _Bins],
        rows: int,
    ) -> None:
        self.name = name
        self.transcript = transcript
        self.model = model
        self.rows = rows
        self._columns = {name: tuple(values) for name, values in columns.items()}
        self._bins = dict(bins)
        self.charge: Entry
        self.receipt: Receipt

    def to_arrow(self) -> Any:
        """The table, drawn once."""
        return self._table

    @cached_property
    def _table(self) -> Any:
        return self.sample(self.rows)

    def sample(self, rows: int) -> Any:
        """Another Arrow table of the model, with so many rows; free."""
        import pyarrow as pa

        drawn = self.model.sample(_checked_rows(rows))
        made = {}
        for name, values in self._columns.items():
            places = drawn[name]
            if name in self._bins:
                made[name] = pa.array(self._bins[name].drawn(places, uniform(len(places))))
            else:
                plain = [float(value) if isinstance(value, Fraction) else value for value in values]
                made[name] = pa.array(plain).take(pa.array(places))
        return pa.table(made)

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return self._table.to_pandas()

    def save(self, path: str | Path) -> None:
        """Write the table to a Parquet or CSV file, by the ending of its name."""
        target = Path(path)
        if target.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(self._table, target)
        elif target.suffix == ".csv":
            with target.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(self._table.column_names)
                writer.writerows(zip(*(column.to_pylist() for column in self._table.columns), strict=True))
        else:
            raise InputError("path", "must end in .parquet or .csv")

    def sql(self, question: str) -> Any:
        """The answer to ordinary SQL about the synthetic table, as an Arrow table: free, and without intervals.

        Noise has an interval only where a marginal was measured; see :meth:`quality`.
        """
        return query_public(question, {self.name: self._table})

    def quality(self) -> tuple[MarginalQuality, ...]:
        """For each marginal that was measured, how far the model is from it; made of what was paid for alone."""
        found = []
        for noisy in self.transcript.marginals:
            expected = self.model.marginal(noisy.columns)
            apart = float(np.abs(expected.ravel() - noisy.counts.ravel()).sum())
            alone = math.sqrt(2 / math.pi) * noisy.stddev * noisy.counts.size
            total = max(self.model.total, 1.0)
            found.append(MarginalQuality(noisy.columns, apart / 2 / total, alone / 2 / total, noisy.stddev))
        return tuple(found)

    def report(self) -> str:
        """The quality in words: measured marginals, the model's distance, and what was not measured."""
        factor = interval_factor("0.95", 2.0**16)
        lines = [f"{self.name}: {self.rows:,} rows drawn from a model of about {self.model.total:,.0f}"]
        measured = set()
        for each in self.quality():
            measured.add(frozenset(each.columns))
            lines.append(
                f"  {' × '.join(each.columns)}: measured, each count within ± {factor * each.stddev:.1f} (95%); model "
                f"and noisy counts are {100 * each.distance:.1f}% apart, of which noise makes {100 * each.noise:.1f}%"
            )
        names = list(self._columns)
        pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
        missing = [pair for pair in pairs if not any({*pair} <= known for known in measured)]
        if missing:
            shown = ", ".join(" × ".join(pair) for pair in missing[:5]) + (", …" if len(missing) > 5 else "")
            lines.append(f"  not measured, so nothing is promised: {len(missing)} of {len(pairs)} pairs ({shown})")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<SyntheticTable {self.name}: {self.rows:,} rows, {len(self._columns)} columns>"


@dataclass(frozen=True)
class _Prepared:
    """Rows, plan and price of a synthetic table."""

    counts: MarginalCounts
    bins: Mapping[str, _Bins]
    plan: SynthesisPlan
    guarantee: AccountGuarantee
    terms: Terms


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
    progress: Callable[[str], None] | None = None,
) -> SyntheticTable:
    """Make a synthetic table; see :meth:`tacit.curator.curator.Curator.synthesize`."""
    with hide_internal_errors():
        if rows is not None:
            _checked_rows(rows)
        ready = _prepare(context, source, columns, options, method, marginals, minutes)
        counts, plan = ready.counts, ready.plan
        name = f"{source if is_name(source) else 'rows'}_synthetic"
        label = f"synthetic table ({method}): {source}"
        text = canonical([counts.text, method, [list(names) for names in plan.sets], *_if_stated(plan)])
        about: dict[str, Any] = {
            "name": label,
            "query": source,
            "plan": digest_of(text),
            "bounding": counts.bounding,
            "groups": f"public: combinations of values of {', '.join(counts.sizes)}",
        }
        # Which marginals are measured depends on selections, so the order speaks of all of them together.
        whole = ZCDPEvent(plan.rho, mechanism=f"synthetic table, {method}", relation=plan.relation)
        before = quoted(about_mechanism(plan, whole, label, released="")["mechanisms"])
        version = context.version(counts.tables())
        parts = [_FORMAT, text, context.catalog.digest, plan.relation.value, repr(ready.guarantee), repr(version)]
        order = Order(
            counts.population, ready.guarantee, analyst=caller.analyst, project=context.project, sql=label,
            plan=about["plan"], quote={"mechanisms": before}, repeat_key=digest_of(canonical(parts)),
            idempotency_key=caller.idempotency_key, request=digest_of(canonical([label, text, before])),
        )  # fmt: skip

        def run(_: Reservation) -> Transcript:
            raw = counts.count(context, plan.candidates)
            transcript = measure_table(plan, raw.__getitem__, progress)
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
        transcript = transcript_from_text(paid.outcome.result.decode(), plan)
        if progress is not None:
            progress("fitting the model")
        model = fitted(plan, transcript)
        values = {key: column.values for key, column in counts.columns.items()}
        size = rows if rows is not None else min(max(1, round(model.total)), _MOST_ROWS)
        table = SyntheticTable(name, transcript, model, values, ready.bins, size)
        table.charge = entry_of(paid.outcome, sql=label, digest=about["plan"], analyst=caller.analyst, paid=paid.now)
        table.receipt = paid.receipt
        return table


def _if_stated(plan: SynthesisPlan) -> list[int]:
    """Minutes in the text of a table, where they matter and are not the usual ones."""
    return [] if plan.method != "aim" or plan.minutes == MINUTES else [plan.minutes]


def _checked_rows(rows: object) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _MOST_ROWS:
        raise InputError("rows", f"must be a whole number from 1 to {_MOST_ROWS:,}, or left out")
    return rows


def _prepare(
    context: CuratorContext,
    source: str,
    columns: Sequence[str] | None,
    options: Mapping[str, Any],
    method: Method,
    marginals: Sequence[Sequence[str]] | None,
    minutes: int = MINUTES,
) -> _Prepared:
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    if isinstance(columns, str):
        raise InputError("columns", "must be a list of names of columns")
    request = Request.of("", options)
    bins: dict[str, _Bins] = {}
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
    return _Prepared(counts, bins, plan, guarantee, terms)


def _binned(context: CuratorContext, source: str, columns: Sequence[str] | None) -> tuple[str, dict[str, _Bins]]:
    """A SELECT of the columns of a table, integers with many values in bins; and the bins."""
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
        own = _bins_of(column)
        if own is None:
            listed.append(f'"{column.name}"')
        else:
            bins[column.name.lower()] = own
            listed.append(f'FLOOR(("{column.name}" - ({own.low})) / {own.width}) AS "{column.name}"')
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


def _bins_of(column: Column) -> _Bins | None:
    if column.bounds is None or column.categories is not None or column.type.kind is not Kind.INTEGER:
        return None
    low, high = int(column.bounds[0]), int(column.bounds[1])  # type: ignore[arg-type]
    if high - low < _MOST_VALUES:
        return None
    return _Bins(low, high, -(-(high - low + 1) // _BINS))


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
        strategies = tuple(IdentityStrategy(plan.sizes[name]) for name in names)
        measurement = CountMeasurement(names, strategies, Fraction(each["rho"]), plan.rows, plan.relation)
        noisy = np.array([int(value) for value in each["values"].split()], dtype=np.int64)
        shape = tuple(plan.sizes[name] for name in names)
        transcript.measured.append(MeasuredMarginal(measurement, noisy.reshape(shape)))
    transcript.chosen += [
        ChosenMarginal(each["candidates"], Fraction(each["epsilon"]), tuple(each["columns"]))
        for each in content["chosen"]
    ]
    return transcript
