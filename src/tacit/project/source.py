"""Sources of tables and the names and types of their columns; reads no row."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.core.errors import InputError
from tacit.engines.arrow_frames import as_arrow
from tacit.engines.parquet_files import arrow_types, read_types
from tacit.engines.plain_frames import PlainFrame
from tacit.engines.registry import frame_types, is_spark_frame, source_kind
from tacit.engines.source_files import CsvFormat, is_pattern, list_files
from tacit.query.types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Source", "column_types", "table_name"]

_FILES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".duckdb": "duckdb"}


@dataclass(frozen=True)
class Source:
    """A file, a pattern of files, a frame in memory, or a table of a database.

    Args:
        kind: ``"parquet"``, ``"csv"``, ``"duckdb"``, ``"frame"`` or ``"table"``.
        path: of the file or files, for a DuckDB file ``file#table``, for a table its name; None for frames.
        frame: an Arrow table; None for files.
        version: of a table, in its owner's words.
        csv: how CSV files are written.
    """

    kind: str
    path: str | None = None
    frame: Any = field(default=None, repr=False, compare=False)
    version: str | None = None
    csv: CsvFormat = field(default_factory=CsvFormat)

    @classmethod
    def of(cls, text: str, beside: Path | None = None) -> Source:
        """The source that a path or pattern names; relative ones are looked for in ``beside``."""
        kind = _FILES.get(Path(text.partition("#")[0]).suffix.lower())
        if kind is None:
            raise InputError("source", f"{text!r} must end in one of {', '.join(_FILES)} (.duckdb#table for a table)")
        return cls(kind, str((beside / text) if beside is not None else Path(text)))

    @classmethod
    def on(cls, engine: str, text: str, beside: Path, version: str | None, where: str) -> Source:
        """The source that a project file names for an engine: a file, a folder or a table, as the engine reads it."""
        suffix = Path(text.partition("#")[0]).suffix.lower()
        folder = (beside / text).is_dir()
        kind = source_kind(engine, text, is_file_name=suffix in _FILES, is_folder=folder)
        if kind == "file":
            if version is not None:
                raise InputError(f"{where}.version", "is for tables of a database: files tell when they change")
            return cls.of(text, beside)
        if kind == "folder":
            return cls("parquet", text if "://" in text else str(beside / text), version=version)
        return cls("table", text, version=version)

    @classmethod
    def of_frame(cls, frame: Any) -> Source:
        """The source that a frame of pandas, Polars, Arrow or Spark is: its rows as they are now, or Spark's own.

        A frame can be changed in place, and an Arrow table can stand on memory that others write to. So its rows are
        copied; what happens to it afterwards is not seen.

        Raises:
            InputError: it is no frame, or a column of it has no type.
        """
        if is_spark_frame(frame) or isinstance(frame, PlainFrame):
            return cls("frame", None, frame)
        kinds = "a path or a pandas, Polars, Arrow or Spark frame"
        return cls("frame", None, _copied(as_arrow(frame, "source", kinds)))

    @property
    def is_elsewhere(self) -> bool:
        """Whether only an engine can look at it: a table of a database, an address, or a frame that Spark holds."""
        held = self.kind == "frame" and is_spark_frame(self.frame)
        return held or self.kind == "table" or "://" in (self.path or "")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files there are now, in order: those that an engine would read; a single one even if it is gone."""
        if self.path is None or self.kind == "table" or "://" in self.path:
            return ()
        place = self.path.partition("#")[0] if self.kind == "duckdb" else self.path
        return tuple(map(Path, list_files(place))) or (() if is_pattern(place) else (Path(place),))

    @property
    def inside(self) -> str:
        """The table of a DuckDB file, in lower case as DuckDB reads it; empty for everything else."""
        return self.path.partition("#")[2].lower() if self.kind == "duckdb" and self.path is not None else ""


def _copied(rows: pa.Table) -> pa.Table:
    """A private copy of the rows in memory."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def column_types(source: Source, where: str) -> dict[str, SqlType | None] | None:
    """The columns and their types, None for types Tacit does not read; None altogether where only the engine knows."""
    if is_spark_frame(source.frame):
        return frame_types(source.frame)
    if source.kind == "frame":
        held = source.frame
        return dict(held.types) if isinstance(held, PlainFrame) else arrow_types(held.schema)
    if source.kind == "table" or "://" in (source.path or ""):
        return None
    files = source.files
    if not files or not files[0].is_file():
        raise InputError(where, f"there is no file {source.path}")
    if source.kind != "parquet":
        return None
    try:
        return read_types(files[0])
    except InputError as problem:
        raise InputError(where, problem.problem) from None


def table_name(source: Source) -> str:
    """A name for the table of a single source: that of the file, as an identifier."""
    if source.path is None:
        return "data"
    file, _, inside = source.path.partition("#")
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", inside or Path(file).stem).strip("_") or "data"
    return (stem if stem[0].isalpha() or stem[0] == "_" else f"t_{stem}")[:63]
