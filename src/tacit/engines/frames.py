"""Frames in memory as Arrow tables, for every engine that takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_arrow"]


def as_arrow(frame: Any, table: str, kinds: str = "an Arrow, pandas or Polars frame") -> pa.Table:
    """The rows of a frame; ``table`` and ``kinds`` are for the words where it is none."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        frame = frame.collect()
    if hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    if type(frame).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    raise InputError(table, f"a source in memory is {kinds}, not {type(frame).__name__}")
