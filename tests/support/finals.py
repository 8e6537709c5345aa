"""Queries made by hand, for tests of pricing and noise that need no parser and no data."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from tacit.query.parsing.parse import Options
from tacit.query.planning.measures import (
    Measure,
    MeasureKind,
    categories_measure,
    count_measure,
    leaves_measure,
    sum_measure,
)
from tacit.query.query import Aggregate, FinalAggregation, GroupKey, OutputColumn, Query
from tacit.query.relational.algebra import Field, Scan
from tacit.query.relational.expressions import Expression, Reference
from tacit.query.types import DOUBLE, INTEGER, TEXT, Domain, Range, Value, finite

WARDS = ("cardiology", "oncology", "surgery")


class K(StrEnum):
    """Released kinds of aggregates."""

    COUNT_ROWS = "count_rows"
    COUNT_VALUES = "count_values"
    COUNT_UNITS = "count_units"
    COUNT_DISTINCT = "count_distinct"
    SUM = "sum"
    AVG = "avg"
    VAR_SAMP = "var_samp"
    VAR_POP = "var_pop"
    STDDEV_SAMP = "stddev_samp"
    STDDEV_POP = "stddev_pop"
    MIN = "min"
    MAX = "max"
    QUANTILE = "quantile"
    MOST_COMMON = "most_common"


def column(slot: int, name: str, low: int = 0, high: int = 100) -> Reference:
    return Reference(INTEGER, Domain(Range(Fraction(low), Fraction(high)), True, None, Fraction(1)), slot, name)


def ward(slot: int = 1) -> Reference:
    return Reference(TEXT, finite(WARDS, TEXT, nullable=False), slot, "ward")


def source(max_groups: int = 4, max_rows: int = 2) -> Scan:
    fields = (
        Field("patient_id", INTEGER, Domain(), "unit patients", "visits.patient_id"),
        Field("ward", TEXT, ward().domain, None, "visits.ward"),
        Field("cost", INTEGER, column(2, "cost").domain, None, "visits.cost"),
    )
    return Scan(
        fields, 0, "patients", max_groups, max_rows, 1, "visits", ("patient_id", "ward", "cost"), "patient_id", ()
    )


class Builder:
    """Collects measures, each once, and aggregates over them."""

    def __init__(self, *, rows: int = 2, low: int = 0, high: int = 100) -> None:
        self.rows = rows
        self.bounds = (Fraction(low), Fraction(high))
        self.measures: list[Measure] = []
        self.aggregates: list[Aggregate] = []

    def _use(self, *measures: Measure) -> tuple[int, ...]:
        for measure in measures:
            if measure not in self.measures:
                self.measures.append(measure)
        return tuple(self.measures.index(measure) for measure in measures)

    def _moments(self, argument: Expression, count: int) -> list[Measure]:
        kinds = (MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES)[: count - 1]
        sums = [sum_measure(k, argument, None, bounds=self.bounds, step=Fraction(1), rows=self.rows) for k in kinds]
        return [count_measure(MeasureKind.VALUES, argument, None, rows=self.rows), *sums]

    def _argument(self, slot: int = 2) -> Reference:
        return column(slot, f"x{slot}", int(self.bounds[0]), int(self.bounds[1]))

    def add(self, kind: K, *, slot: int = 2, parameter: Fraction | None = None) -> Builder:
        x = self._argument(slot)
        match kind:
            case K.COUNT_ROWS:
                used = [count_measure(MeasureKind.ROWS, None, None, rows=self.rows)]
            case K.COUNT_UNITS:
                used = [count_measure(MeasureKind.UNITS, None, None, rows=1)]
            case K.COUNT_VALUES:
                used = [count_measure(MeasureKind.VALUES, x, None, rows=self.rows)]
            case K.COUNT_DISTINCT:
                used = [count_measure(MeasureKind.DISTINCT, x, None, rows=self.rows)]
            case K.SUM:
                used = [sum_measure(MeasureKind.SUM, x, None, bounds=self.bounds, step=Fraction(1), rows=self.rows)]
            case K.AVG:
                used = self._moments(x, 2)
            case K.MIN | K.MAX | K.QUANTILE:
                shape = MeasureKind.PLACES if kind is K.QUANTILE else MeasureKind.LEAVES
                used = [leaves_measure(shape, x, None, bounds=self.bounds, step=Fraction(1), rows=self.rows)]
            case K.MOST_COMMON:
                used = [categories_measure(ward(), None, values=WARDS, rows=self.rows)]
            case _:
                used = self._moments(x, 3)
        label = f"{kind.value}({'*' if used[-1].argument is None else getattr(used[-1].argument, 'name', '?')})"
        whole = kind in (K.COUNT_ROWS, K.COUNT_UNITS, K.COUNT_VALUES, K.COUNT_DISTINCT)
        self.aggregates.append(Aggregate(kind, self._use(*used), parameter, INTEGER if whole else DOUBLE, None, label))
        return self

    def final(self, *, keys: str = "none", max_groups: int = 4) -> FinalAggregation:
        """``keys``: ``none``, ``public`` (three wards) or ``private``."""
        public = keys != "private"
        listed = () if keys == "none" else (GroupKey("ward", ward(), WARDS if public else None),)
        groups = 1 if keys == "none" else 3 if public else None
        most = 1 if keys == "none" else max_groups
        return FinalAggregation(
            source(max_groups), listed, tuple(self.measures), tuple(self.aggregates), most, public, groups
        )

    def query(self, *, keys: str = "none", max_groups: int = 4, options: Options | None = None) -> Query:
        final = self.final(keys=keys, max_groups=max_groups)
        names = [key.name for key in final.keys] + [f"c{i}" for i in range(len(final.aggregates))]
        types = [key.expression.type for key in final.keys] + [a.type for a in final.aggregates]
        columns = tuple(
            OutputColumn(n, t, i >= len(final.keys), Domain())
            for i, (n, t) in enumerate(zip(names, types, strict=True))
        )
        return Query(final, (), columns, options or Options())


def measured(final: FinalAggregation, keys: list[tuple[Value | None, ...]] | None = None, fill: int = 1000) -> Any:
    """Measurements of the right shape, every integer ``fill``."""
    if keys is None:
        keys = [(ward_,) for ward_ in WARDS] if final.keys else [()]
    raw = tuple(tuple((fill,) * m.width for _ in keys) for m in final.measures)
    return SimpleNamespace(keys=tuple(keys), raw_units=(fill,) * len(keys), raw=raw)
