"""Protected rows as arrays for training in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import duckdb

__all__ = ["read_examples"]


def read_examples(
    cursor: duckdb.DuckDBPyConnection, sql: str, numbers: int, *, labelled: bool
) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """The numbers as float64 with NaN for NULL, one line per unit, and the labels as they are with None for NULL."""
    found = cursor.sql(sql).to_arrow_table()
    raw = np.empty((found.num_rows, numbers))
    for place in range(numbers):
        raw[:, place] = found.column(place).to_numpy()
    if not labelled:
        return raw, None
    labels = np.empty(found.num_rows, dtype=object)
    labels[:] = found.column(numbers).to_pylist()
    return raw, labels
