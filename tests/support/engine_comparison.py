"""Results of engines side by side: equal integers, and neighbours no further apart than their sensitivity."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from query.corpus.clinic import CATALOG
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import Engine, Measurements, MeasurementTask
from tacit.query.catalog import Catalog
from tacit.query.planning.measures import MeasureKind
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import DECIMAL_DIGITS, Kind

SECRET = b"an owner's secret"
#: Queries that were resolved, by the catalog's identity and their text; the catalog is held so that it keeps it.
_RESOLVED: dict[tuple[int, str], tuple[Catalog, FinalAggregation]] = {}


def final_of(sql: str, catalog: Catalog) -> FinalAggregation:
    """A query of a corpus, resolved once in a process: many modules ask the same ones."""
    key = (id(catalog), sql)
    if key not in _RESOLVED:
        _RESOLVED[key] = (catalog, resolve(sql, catalog).final)
    return _RESOLVED[key][1]


def opened(catalog: Catalog, frames: Mapping[str, pa.Table]) -> DuckDBEngine:
    """DuckDB on Arrow tables."""
    return DuckDBEngine(
        catalog, {name: DataSource("frame", None, frame) for name, frame in frames.items()}, Limits(threads=2)
    )


def vectors(found: Measurements) -> list[dict[Any, list[Any]]]:
    """The cells of each measure, by key."""
    return [
        {key: [cells] if isinstance(cells, int) else list(cells) for key, cells in zip(found.keys, listed, strict=True)}
        for listed in plain(found)[2]
    ]


def check_close(final: FinalAggregation, one: Measurements, other: Measurements, where: str) -> bool:
    """Compare two runs; whether anything moved at all."""
    if final.public_keys or not final.keys:
        assert one.keys == other.keys, where
    moved = False
    for measure, a, b in zip(final.measures, vectors(one), vectors(other), strict=True):
        if measure.kind is MeasureKind.PLACES:
            a, b = ({(key, place): [n] for key, listed in run.items() for place, n in listed} for run in (a, b))
        zeros = [0] * (1 if measure.kind is MeasureKind.PLACES else measure.width)
        gaps = [
            abs(x - y) for key in a.keys() | b.keys() for x, y in zip(a.get(key, zeros), b.get(key, zeros), strict=True)
        ]
        bound = measure.sensitivity(max_groups=final.max_groups)
        assert sum(gaps) <= bound.l1, (where, measure.text)
        assert sum(gap * gap for gap in gaps) <= bound.l2_squared, (where, measure.text)
        assert max(gaps, default=0) <= bound.linf, (where, measure.text)
        moved = moved or any(gaps)
    units = [dict(zip(run.keys, run.raw_units.tolist(), strict=True)) for run in (one, other)]
    changes = [abs(units[0].get(key, 0) - units[1].get(key, 0)) for key in units[0].keys() | units[1].keys()]
    assert sum(changes) <= final.max_groups, where
    assert max(changes, default=0) <= 1, where
    return moved


def corpus_frames(database: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """The database of the corpus as Arrow tables."""
    kinds = {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }
    made = {}
    for table in CATALOG.tables:
        columns = []
        for column in table.columns:
            cells = [row[column.name] for row in database[table.name]]
            if column.type.kind is Kind.DECIMAL:
                cells = [
                    None
                    if c is None
                    else decimal.Decimal(int(Fraction(c) * 10**column.type.scale)).scaleb(-column.type.scale)
                    for c in cells
                ]
                columns.append(pa.array(cells, type=pa.decimal128(DECIMAL_DIGITS, column.type.scale)))
            else:
                columns.append(pa.array(cells, type=kinds[column.type.kind]))
        made[table.name] = pa.Table.from_arrays(columns, names=[c.name for c in table.columns])
    return made


def plain(found: Measurements) -> tuple[list[object], list[int], list[list[object]]]:
    """Keys, units and cells, without their types; of PLACES, one tuple of pairs per key."""
    return [*found.keys], found.raw_units.tolist(), [_cells(array) for array in found.raw]


def _cells(array: NDArray[Any]) -> list[Any]:
    return [tuple(map(tuple, cell.tolist())) if isinstance(cell, np.ndarray) else cell for cell in array.tolist()]


def shown(found: Measurements) -> str:
    """With the types of keys and arrays: 1, 1.0 and True are not the same."""
    return repr((plain(found), [array.dtype for array in found.raw]))


def refusal(engine: Engine, final: FinalAggregation) -> str | None:
    """The reason for which an engine refuses a query, or nothing."""
    try:
        engine.check(final)
    except Refusal as refused:
        return str(refused)
    return None


#: Queries that an engine does not answer, and why. A query stands here by its text; nothing is silently different.
NOT_DONE: dict[str, dict[str, str]] = {"postgres": {}}


def agree(name: str, one: Engine, two: Engine, finals: Iterator[tuple[str, FinalAggregation]]) -> int:
    """Ask both; how many queries had a measure that was not zero throughout."""
    told = 0
    for sql, final in finals:
        work = MeasurementTask(final, SECRET)
        if sql in NOT_DONE[name]:
            with pytest.raises(Refusal):
                two.check(final)
            continue
        refusals = [refusal(engine, final) for engine in (one, two)]
        assert refusals[0] == refusals[1], sql
        if refusals[0] is not None:
            continue
        found = one.measure(work)
        assert shown(two.measure(work)) == shown(found), sql
        told += any(np.any(cell) for array in found.raw for cell in array)
    return told
