"""Draft of a table for ``tacit init`` from a Parquet or CSV file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tacit.core.errors import InputError
from tacit.engines.source_files import CsvFormat
from tacit.project.csv_draft import draft_csv
from tacit.project.project_template import DraftColumn, DraftTable, typed_column
from tacit.project.schema_inference import guess_unit

#: Ends of the names of files that are read.
CSV: Final = (".csv", ".tsv")
PARQUET: Final = (".parquet", ".pq")


def draft_file(
    path: Path, beside: Path, *, public: bool, unit: str | None, look: bool, show: bool = False
) -> DraftTable:
    """Draft one table from its file without asking; rows are looked at if ``look``, remarks quote if ``show``.

    Raises:
        InputError: it cannot be read, or has no columns that can be used.
    """
    from tacit.project.source import Source, table_name

    if path.suffix.lower() not in (*CSV, *PARQUET):
        raise InputError("source", f"{path.name!r} must end in one of {', '.join((*CSV, *PARQUET))}")
    if not path.is_file():
        raise InputError("source", f"there is no file {path}")
    if any(sign in str(path) for sign in "*?["):
        raise InputError("source", f"{path} has one of *?[ in its name, which stand for many files; rename it")
    drafted = draft_csv(path, look=look, show=show) if path.suffix.lower() in CSV else None
    columns = _parquet_columns(path) if drafted is None else drafted.columns
    names = [column.name for column in columns if column.why_not is None]
    if not names:
        raise InputError("source", f"none of the columns of {path.name} can be used; {columns[0].why_not}")
    mine = None if public or unit is None else next((n for n in (*names, "row") if n.lower() == unit.lower()), None)
    return DraftTable(
        name=table_name(Source.of(str(path))),
        source=_relative(path, beside),
        columns=columns,
        public=public,
        unit=mine,
        guess=None if public or mine else guess_unit(names),
        form=CsvFormat() if drafted is None else drafted.form,
        remarks=() if drafted is None else drafted.remarks,
    )


def _parquet_columns(path: Path) -> tuple[DraftColumn, ...]:
    from tacit.project.source import Source, column_types

    stored = column_types(Source.of(str(path)), "source") or {}
    return tuple(typed_column(name, None if kind is None else str(kind)) for name, kind in stored.items())


def _relative(path: Path, beside: Path) -> str:
    try:
        text = os.path.relpath(path, beside)
    except ValueError:
        text = str(path.resolve())
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("source", f"the name of {path!r} is not UTF-8 text; rename the file") from None
    return Path(text).as_posix()


def project_name(output: Path) -> str:
    """A name for the project of a file: that of its folder."""
    name = output.resolve().parent.name
    return name if name.isprintable() and name.isascii() and name else "project"
