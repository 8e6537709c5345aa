"""Parquet scan by DuckDB, with Arrow for columns whose values DuckDB cannot read.

DuckDB fails on a text that is not UTF-8 and on a moment in milliseconds beyond its range, and no expression can prevent
that. So columns of texts, moments and decimals are read through once, when a source is opened or has
changed. A column that fails is read by Arrow, its unreadable values are NULL (:mod:`tacit.engines.arrow_frames`), and
it is
held in memory beside the rest of the file. Columns in the names of folders are always texts; and all
files must agree on the types of a column, so that no file decides how another one is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.core.extras import has_arrow, install_command
from tacit.engines.arrow_frames import sound
from tacit.engines.duckdb.dialect import DUCKDB

if TYPE_CHECKING:
    import duckdb

#: Files hold far fewer rows than this, and there are far fewer than 2^20 of them.
_FILE_ROWS = 2**40
_ROW = f"(CAST(file_index AS BIGINT) * {_FILE_ROWS} + file_row_number)"
_AT = "tacit row"
#: Types whose values can be unreadable.
_DOUBTFUL = re.compile(r"VARCHAR|TIMESTAMP|DECIMAL|DATE|TIME")
#: Types that are read together without loss.
_FAMILIES = (
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    ("FLOAT", "DOUBLE"),
)
_PAIR = re.compile(r"([^=/\\]+)=[^/\\]*\Z")
_BATCH = 2**17


@dataclass(frozen=True)
class ParquetScan:
    """A scan: its text after FROM, the number of a row there, and names and types of its columns by lower-case name."""

    sql: str
    row: str
    columns: Mapping[str, tuple[str, str]]


def describe(connection: duckdb.DuckDBPyConnection, scan: str) -> dict[str, tuple[str, str]]:
    """The names and types of what a scan gives, by lower-case name."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    return {str(name).lower(): (str(name), str(kind)) for name, kind, *_ in rows}


def open_parquet(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], names: Iterable[str], table: str, index: int
) -> ParquetScan:
    """Files as DuckDB can read them.

    Args:
        connection: where columns that it cannot read are held.
        files: in order.
        names: the declared columns, in small letters.
        table: for the words of errors.
        index: of the table.

    Raises:
        InputError: the files do not fit together, or a column cannot be read at all.
    """
    folders = _folders(files, table)
    scan = _scan(files, folders=bool(folders))
    columns = describe(connection, scan)
    wanted = [name for name in names if name in columns]
    _check_types(connection, files, wanted, table)
    bad = [name for name in wanted if name not in folders and not _is_readable(connection, scan, *columns[name])]
    if not bad:
        return ParquetScan(scan, _ROW, columns)
    held, kinds = _held(connection, files, [columns[name][0] for name in bad], table, index)
    others = ", ".join(f"f.{DUCKDB.quoted(columns[name][0])}" for name in wanted if name not in bad)
    listed = ", ".join(part for part in (f"{_ROW} AS {DUCKDB.quoted(_AT)}", others, "h.* EXCLUDE (n)") if part)
    joined = f"(SELECT {listed} FROM {scan} AS f JOIN {held} AS h ON {_ROW} = h.n)"
    return ParquetScan(joined, DUCKDB.quoted(_AT), {**{name: columns[name] for name in wanted}, **kinds})


def _scan(files: Sequence[str], *, folders: bool) -> str:
    listed = ", ".join(map(DUCKDB.text, files))
    named = "hive_partitioning = true, hive_types_autocast = false" if folders else "hive_partitioning = false"
    return f"read_parquet([{listed}], union_by_name = true, file_row_number = true, {named})"


def _folders(files: Sequence[str], table: str) -> frozenset[str]:
    """The columns that stand in the names of folders, in small letters."""
    found = {
        frozenset(match.group(1).lower() for part in Path(file).parts[:-1] if (match := _PAIR.match(part)))
        for file in files
    }
    if len(found) != 1:
        raise InputError(table, "the files of one source must lie in folders that name the same columns")
    return next(iter(found))


def _check_types(connection: duckdb.DuckDBPyConnection, files: Sequence[str], names: Sequence[str], table: str) -> None:
    """Refuse files that store a column in types that DuckDB would have to bring together by changing values."""
    if len(files) == 1:
        return
    shown = "file_name, lower(name), [type, converted_type, logical_type, precision::VARCHAR, scale::VARCHAR]"
    listed = ", ".join(map(DUCKDB.text, files))
    stored: dict[str, dict[tuple[str, ...], str]] = {}
    rows = connection.execute(f"SELECT {shown} FROM parquet_schema([{listed}]) WHERE type IS NOT NULL").fetchall()
    for file, name, kind in rows:
        if name in names:
            stored.setdefault(str(name), {}).setdefault(tuple(map(str, kind)), str(file))
    for name, kinds in stored.items():
        if len(kinds) == 1:
            continue
        found = {describe(connection, _scan([file], folders=False))[name][1].upper() for file in kinds.values()}
        if len(found) > 1 and not any(found <= set(family) for family in _FAMILIES):
            raise InputError(
                f"{table}.{name}",
                f"is stored as {' and '.join(sorted(found))} in files of one source; write them in one type",
            )


def _is_readable(connection: duckdb.DuckDBPyConnection, scan: str, name: str, kind: str) -> bool:
    """Whether every value of a column can be read."""
    import duckdb

    if not _DOUBTFUL.match(kind.upper()):
        return True
    try:
        connection.execute(f"SELECT bit_xor(hash({DUCKDB.quoted(name)})) FROM {scan}").fetchall()
    except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException):
        return False
    return True


def _held(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], names: Sequence[str], table: str, index: int
) -> tuple[str, dict[str, tuple[str, str]]]:
    """A table of sound columns, with the number ``n`` of each row; and what its columns are."""
    if not has_arrow():
        unread = f"holds values that DuckDB cannot read; with Arrow they are NULL: {install_command('arrow')}"
        raise InputError(f"{table}.{names[0]}", unread)
    import pyarrow as pa
    import pyarrow.parquet as pq

    held = f"tacit_held_{index}"
    connection.execute(f"DROP TABLE IF EXISTS {held}")
    made = False
    try:
        for place, file in enumerate(files):
            first = place * _FILE_ROWS
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(_BATCH, columns=list(names)):
                    numbers = pa.array(range(first, first + batch.num_rows), type=pa.int64())
                    first += batch.num_rows
                    columns = [sound(pa.chunked_array([batch.column(name)])) for name in names]
                    rows = pa.Table.from_arrays([pa.chunked_array([numbers]), *columns], names=["n", *names])
                    connection.register("tacit_batch", rows)
                    verb = "INSERT INTO {} BY NAME" if made else "CREATE TABLE {} AS"
                    connection.execute(f"{verb.format(held)} SELECT * FROM tacit_batch")
                    connection.unregister("tacit_batch")
                    made = True
    except (OSError, KeyError, pa.ArrowException):
        raise InputError(f"{table}.{names[0]}", "holds values that cannot be read from its Parquet files") from None
    if not made:
        raise InputError(f"{table}.{names[0]}", "cannot be read from its Parquet files")
    found = describe(connection, held)
    return held, {name.lower(): found[name.lower()] for name in names}
