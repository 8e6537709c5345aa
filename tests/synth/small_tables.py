"""Small tables for tests of workloads and synthetic tables."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tacit
from tacit.curator.curator import Curator
from tacit.synth.column_bins import ColumnBins
from tacit.synth.count_measurement import CountSource

COLUMNS: dict[str, Any] = {
    "sex": {"type": "text", "categories": ["f", "m"]},
    "ward": {"type": "text", "categories": ["a", "b", "c"]},
    "age": {"type": "integer", "bounds": [0, 9]},
    "smoker": {"type": "boolean"},
}


def people(count: int = 400, seed: int = 7) -> pa.Table:
    """Rows of persons whose columns depend on one another."""
    made = np.random.default_rng(seed)
    sex = made.integers(0, 2, count)
    age = made.integers(0, 10, count)
    ward = (sex + age // 4 + made.integers(0, 2, count)) % 3
    return pa.table(
        {
            "person": np.arange(count),
            "sex": [["f", "m"][i] for i in sex],
            "ward": [["a", "b", "c"][i] for i in ward],
            "age": age,
            "smoker": made.integers(0, 3, count) == 0,
        }
    )


def open_people(rows: pa.Table | None = None, **terms: Any) -> Curator:
    """A curator for such rows."""
    stated = {"rho": "50", "delta": "1e-3", "accounting": "zcdp", "unit": "person", "max_rows": 1}
    return tacit.open(people() if rows is None else rows, table="people", columns=COLUMNS, **(stated | terms))


def counts_of(cells: NDArray[np.int64], names: str) -> CountSource:
    """The marginals of a table of counts whose axes are named by letters."""

    def source(wanted: tuple[str, ...]) -> NDArray[np.int64]:
        others = tuple(axis for axis, name in enumerate(names) if name not in wanted)
        left = [name for name in names if name in wanted]
        return np.asarray(cells.sum(axis=others)).transpose([left.index(name) for name in wanted])

    return source


def sizes_of(cells: NDArray[np.int64], names: str) -> Mapping[str, int]:
    """The number of values of each letter."""
    return dict(zip(names, cells.shape, strict=True))


def place_of(bins: ColumnBins, value: Any) -> int:
    """The index of the bin of a value within its column's bounds."""
    number = Fraction(value.toordinal()) if isinstance(value, datetime.date) else Fraction(str(value))
    return int(np.searchsorted(bins.starts, math.floor(number / Fraction(bins.step)), side="right")) - 1 + bins.nulls
