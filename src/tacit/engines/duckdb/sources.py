"""DuckDB sources: files and frames read as the declared types, so that no value can make a scan fail.

*Parquet.* DuckDB fails on a text that is not UTF-8 and on a timestamp in milliseconds beyond its range, and no SQL
expression can prevent that. So columns of texts, timestamps and decimals are read once completely when a source is
opened or has changed. A column that fails is read by Arrow with NULL for unreadable values
(:mod:`tacit.engines.frames`), held in memory, and joined to the rest of the file. All files must agree on the types of
a column, so that no file decides how another is read.

Every declared column is read by an expression that cannot fail: numbers that are not finite, texts that do not parse,
dates outside the years 1 to 9999 and values too large for the declared type are NULL. CSV is read as text and cast by
the same expressions as ``CAST`` in a query; a line that cannot be split into the declared columns is left out. The
list of files is determined when the engine is opened.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.core.extras import has_arrow, install_command, load_arrow
from tacit.engines.duckdb.csv_lines import (
    LINE,
    CsvLosses,
    CsvReport,
    count_losses,
    csv_scan,
    first_unread,
    open_lines,
    read_header,
    split_lines,
    unread_values,
)
from tacit.engines.duckdb.dialect import DUCKDB, mantissa
from tacit.engines.files import CsvFormat, find_files
from tacit.engines.frames import LAST_NANOSECOND, PlainFrame, as_arrow, sound, sound_table
from tacit.engines.protocol import SourceLike
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.scalars import cast_sql, from_microseconds, within_years
from tacit.engines.stored_units import Form, StoredColumn, check_stored_units
from tacit.query.catalog import ROW, Catalog, Table, identifying
from tacit.query.types import TEXT, Kind, SqlType

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


#: Bound on the rows of one file; there are far fewer than 2^20 files.
_FILE_ROWS = 2**40
_ROW = f"(CAST(file_index AS BIGINT) * {_FILE_ROWS} + file_row_number)"
_AT = "tacit row"
#: Types that may have values that DuckDB cannot read.
_DOUBTFUL = re.compile(r"VARCHAR|TIMESTAMP|DECIMAL|DATE|TIME")
#: Types that DuckDB unifies without changing values.
_FAMILIES = (
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    ("FLOAT", "DOUBLE"),
)
_BATCH = 2**17


def describe(connection: duckdb.DuckDBPyConnection, scan: str) -> dict[str, tuple[str, str]]:
    """Return the name and type of each column of a scan, by lower-case name."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    return {str(name).lower(): (str(name), str(kind)) for name, kind, *_ in rows}


def open_parquet(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], names: Iterable[str], table: str, index: int
) -> tuple[str, str, Mapping[str, tuple[str, str]]]:
    """Return a scan of Parquet files in which every value can be read: SQL after FROM, SQL of a row's number, columns.

    Columns are names and types by lower-case name.

    Args:
        connection: DuckDB connection, into which columns that it cannot read from the files are copied.
        files: the files, in order.
        names: lower-case names of the declared columns.
        table: name of the table, for error messages.
        index: index of the table in the catalog.

    Raises:
        InputError: the files have different columns or types, or a column cannot be read at all.
    """
    scan = _scan(files)
    columns = describe(connection, scan)
    wanted = [name for name in names if name in columns]
    _check_types(connection, files, wanted, table)
    bad = [name for name in wanted if not _is_readable(connection, scan, *columns[name])]
    if not bad:
        return scan, _ROW, columns
    held, kinds = _held(connection, files, [columns[name][0] for name in bad], table, index)
    others = ", ".join(f"f.{DUCKDB.quoted(columns[name][0])}" for name in wanted if name not in bad)
    listed = ", ".join(part for part in (f"{_ROW} AS {DUCKDB.quoted(_AT)}", others, "h.* EXCLUDE (n)") if part)
    joined = f"(SELECT {listed} FROM {scan} AS f JOIN {held} AS h ON {_ROW} = h.n)"
    return joined, DUCKDB.quoted(_AT), {**{name: columns[name] for name in wanted}, **kinds}


def _scan(files: Sequence[str]) -> str:
    listed = ", ".join(map(DUCKDB.text, files))
    return f"read_parquet([{listed}], union_by_name = true, file_row_number = true, hive_partitioning = false)"


def _check_types(connection: duckdb.DuckDBPyConnection, files: Sequence[str], names: Sequence[str], table: str) -> None:
    """Refuse files that store a column in types that DuckDB could only unify by changing values."""
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
        found = {describe(connection, _scan([file]))[name][1].upper() for file in kinds.values()}
        if len(found) > 1 and not any(found <= set(family) for family in _FAMILIES):
            raise InputError(
                f"{table}.{name}",
                f"is stored as {' and '.join(sorted(found))} in files of one source; write them in one type",
            )


def _is_readable(connection: duckdb.DuckDBPyConnection, scan: str, name: str, kind: str) -> bool:
    """Whether DuckDB can read every value of a column."""
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
    """Copy columns into a table, with NULL for unreadable values and the number ``n`` of each row.

    Return the table's name, and the name and type of its columns by lower-case name.
    """
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


# Files and frames as declared types -----------------------------------------------------------------------------------


#: Name of the last column of a frame, which is added to hold the row number.
ROW_COLUMN = "tacit row"
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE = ("UBIGINT", "HUGEINT", "UHUGEINT")
_FLOATS = ("FLOAT", "DOUBLE")
_TIMES = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP WITH TIME ZONE")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)\Z")
#: Number of header names that an error message lists.
_MOST_NAMES = 12
_OPERATOR = logging.getLogger("tacit.operator")


@dataclass(frozen=True)
class DuckDBTable(StoredTable):
    """SQL that reads one source in DuckDB.

    Args:
        size: bytes of the source when it was opened; affects plans, never results.
        frame: name and Arrow table to register in each session; None for files.
        files: files that are read; empty for frames and databases.
    """

    size: int = 0
    frame: tuple[str, pa.Table] | None = None
    files: tuple[str, ...] = ()


def open_source(
    connection: duckdb.DuckDBPyConnection, source: SourceLike, table: Table, index: int, *, warn: bool = True
) -> DuckDBTable:
    """Return a source as the engine reads it.

    Reads names and types; for CSV also the rows, and with ``warn`` logs for the operator what cannot be read.
    """
    match source.kind:
        case "frame":
            return _open_frame(connection, source.frame, table, index)
        case "duckdb":
            return _open_database(connection, source.path or "", table, index)
        case "parquet" | "csv":
            files = find_files(source.path or "")
            size = sum(Path(file).stat().st_size for file in files)
            if source.kind == "parquet":
                names = [column.stored_name.lower() for column in table.columns]
                scan, row, stored = open_parquet(connection, files, names, table.name, index)
                # No unchecked doubles: the minimum and maximum in a file's statistics exclude NaN, and DuckDB assumes
                # that every row lies between them.
                made = DuckDBTable(index, scan, _columns(table, stored), row)
            else:
                scan, columns, losses, *_ = _read_csv(connection, files, table, source.csv, index)
                if warn:
                    _warn(table, losses)
                # Equal lines give equal rows, so the order of their numbers does not matter.
                row = f"(row_number() OVER (ORDER BY {DUCKDB.quoted(LINE)}))"
                made = DuckDBTable(index, scan, columns, row)
            return replace(made, size=size, files=files)
        case _:
            raise InputError(table.name, f"cannot read a source of kind {source.kind!r}")


@contextmanager
def open_views(catalog: Catalog, sources: Mapping[str, SourceLike]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database whose views are the tables of a catalog, with the declared columns as they are read."""
    import duckdb

    with duckdb.connect() as connection:
        for index, table in enumerate(catalog.tables):
            stored = open_source(connection, sources[table.name], table, index, warn=False)
            if stored.frame is not None:
                connection.register(*stored.frame)
            columns = ", ".join(f"{sql} AS {DUCKDB.quoted(name)}" for name, sql in stored.columns.items())
            connection.execute(f"CREATE VIEW {DUCKDB.quoted(table.name)} AS SELECT {columns} FROM {stored.scan}")
        yield connection


def _read_csv(
    connection: duckdb.DuckDBPyConnection, files: tuple[str, ...], table: Table, form: CsvFormat, index: int
) -> tuple[str, dict[str, str], CsvLosses, tuple[str, ...], Callable[[str], tuple[tuple[str, int], ...]]]:
    """Return the scan, SQL of the declared columns, the losses, the header, and a lookup of unread values by column."""
    headers = {(form.delimiter_of(file), read_header(file, table.name, form)) for file in files}
    if len(headers) != 1:
        raise InputError(table.name, "the files of one source must have the same header line")
    ((delimiter, header),) = headers
    _check_columns(table, header, delimiter)
    stored = {name.lower(): (name, "VARCHAR") for name in header}
    kinds = {column.stored_name.lower(): column.type for column in table.columns}
    columns = _columns(table, stored)
    read = {
        column.name: (stored[column.stored_name.lower()][0], columns[column.name.lower()]) for column in table.columns
    }
    lines = open_lines(connection, files, form, f"tacit_lines_{index}")
    split = split_lines(lines, header, delimiter, form, kinds)
    losses = count_losses(connection, files, split, header, read, form)
    unread = partial(unread_values, connection, split, header, read, form)
    return csv_scan(lines, header, delimiter, form, kinds), columns, losses, header, unread


def report_csv(source: SourceLike, table: Table) -> CsvReport:
    """Report the losses of a table's CSV files, with examples, for the data owner only."""
    import duckdb

    files = find_files(source.path or "")
    with duckdb.connect() as connection:
        *_, losses, header, unread = _read_csv(connection, files, table, source.csv, 0)
        lost = [name for name in losses.texts if losses.unreadable(name)]
        partly = tuple(name for name in lost if losses.read[name])
        values = {name: unread(name) for name in partly}
    names = [file for file in files if losses.left_out or losses.other_width]
    found = [(file, *first_unread(file, len(header), source.csv)) for file in names]
    left_out = next(((file, line) for file, line, _ in found if line), None)
    other = next(((file, line) for file, _, line in found if line), None)
    return CsvReport(left_out, other, tuple(name for name in lost if name not in partly), partly, values)


def _check_columns(table: Table, header: tuple[str, ...], delimiter: str) -> None:
    """Refuse a column that the header does not name, with a suggestion: the header is public."""
    names = {name.lower() for name in header}
    for column in table.columns:
        if column.stored_name.lower() in names:
            continue
        where, listed = f"{table.name}.{column.name}", ", ".join(header[:_MOST_NAMES])
        listed += ", …" if len(header) > _MOST_NAMES else ""
        other = next((sign for sign in ";\t|," if len(header) == 1 and sign in header[0]), None)
        if other is not None and other != delimiter:
            said = "\\t" if other == "\t" else other
            hint = f'; its header line is one name, {listed!r}: state delimiter = "{said}"'
        else:
            alike = get_close_matches(column.name.lower(), [_plain(name) for name in header], 1, 0.75)
            near = next((name for name in header if alike and _plain(name) == alike[0]), None)
            hint = f", which has {listed}" if near is None else f'; source = "{near}" in its line would name {near!r}'
        raise InputError(where, f"{column.stored_name!r} is not a column of the source{hint}")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _warn(table: Table, losses: CsvLosses) -> None:
    """Warn the operator, before any query is charged, about lines and values of these files that no row shows."""
    said = []
    if losses.left_out:
        said.append(f"{losses.left_out:,} of the lines of its CSV files cannot be read as rows, so they are left out")
    if losses.other_width:
        said.append(f"{losses.other_width:,} of its rows have more or fewer fields than the header")
    for column in table.columns:
        lost, all_texts = losses.unreadable(column.name), losses.texts[column.name]
        if lost:
            share = f"none of the {all_texts:,}" if lost == all_texts else f"{lost:,} of the {all_texts:,}"
            can = "can" if lost == all_texts else "cannot"
            said.append(f"{share} values of {column.name} {can} be read as {column.type}, so they are NULL")
    if said:
        _OPERATOR.warning("%s: %s; tacit doctor says more", table.name, "; ".join(said))


def _open_database(connection: duckdb.DuckDBPyConnection, path: str, table: Table, index: int) -> DuckDBTable:
    file, _, name = path.partition("#")
    (place,) = find_files(file)
    database = f"tacit_source_{index}"
    _check_inside(place, name or table.name, table)
    connection.execute(f"ATTACH {DUCKDB.text(place)} AS {database} (READ_ONLY)")
    scan = f"{database}.{DUCKDB.quoted(name or table.name)}"
    stored, size = describe(connection, scan), Path(place).stat().st_size
    columns, row = _columns(table, stored, exact=True), _row_of(connection, database, name or table.name)
    return DuckDBTable(index, scan, columns, row, size=size, doubles=_doubles(table, stored))


def row_number_taken(table: str, name: str) -> InputError:
    """Return the refusal of a source with a column named like its row numbers, which would replace them as units."""
    return InputError(
        f"tables.{table}.source",
        f"has a column called {name!r}, which is how the numbers of rows are called; rename it",
    )


def _check_inside(place: str, name: str, table: Table) -> None:
    """Refuse a view that reads files other than its own, because the owner and budget of their rows are unknown."""
    import duckdb

    with duckdb.connect(":memory:") as alone:
        alone.execute(f"ATTACH {DUCKDB.text(place)} AS inside (READ_ONLY)")
        alone.execute("SET enable_external_access = false")
        try:
            found = alone.execute(f"DESCRIBE SELECT * FROM inside.{DUCKDB.quoted(name)}").fetchall()
        except (duckdb.PermissionException, duckdb.IOException):
            raise InputError(
                f"tables.{table.name}.source",
                f"{name} is a view that reads other files than {Path(place).name}; name those files as the source",
            ) from None
    if any(str(column).lower() == "rowid" for column, *_ in found) and table.unit == ROW:
        raise row_number_taken(table.name, "rowid")


def _row_of(connection: duckdb.DuckDBPyConnection, database: str, name: str) -> str | None:
    """Return SQL of a row's number; None for a view."""
    held = "SELECT count(*) FROM duckdb_tables() WHERE database_name = ? AND lower(table_name) = lower(?)"
    ((tables,),) = connection.execute(held, [database, name]).fetchall()
    return "rowid" if tables else None


def _open_frame(connection: duckdb.DuckDBPyConnection, frame: Any, table: Table, index: int) -> DuckDBTable:
    name = f"tacit_frame_{index}"
    if isinstance(frame, PlainFrame):
        return _open_plain(connection, frame, table, index, name)
    pa = load_arrow()
    found = as_arrow(frame, table.name)
    names = [column.lower() for column in found.column_names]
    if ROW_COLUMN in names:
        raise row_number_taken(table.name, ROW_COLUMN)
    twice = next((column.name for column in table.columns if names.count(column.stored_name.lower()) > 1), None)
    if twice is not None:
        raise InputError(f"{table.name}.{twice}", "stands for two columns of the source that differ in case alone")
    rows = sound_table(found, {column.stored_name.lower() for column in table.columns}, table.name)
    numbered = rows.append_column(ROW_COLUMN, pa.array(range(rows.num_rows), type=pa.int64()))
    connection.register(name, numbered)
    stored = describe(connection, name)
    columns, doubles = _columns(table, stored), _doubles(table, stored)
    row = DUCKDB.quoted(ROW_COLUMN)
    held = (name, numbered)
    return DuckDBTable(index, name, columns, row, doubles, rows.nbytes, frame=held)


def _open_plain(
    connection: duckdb.DuckDBPyConnection, frame: PlainFrame, table: Table, index: int, name: str
) -> DuckDBTable:
    """Copy the rows of a frame into a table in the memory of the connection."""
    kinds, columns = frame.stored_types(), frame.columns()
    named = zip(map(DUCKDB.quoted, frame.types), kinds, strict=True)
    connection.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in named)})")
    listed = ", ".join(f"unnest(${i + 1}::{kind}[])" for i, kind in enumerate(kinds))
    connection.execute(f"INSERT INTO {name} SELECT {listed}", columns)
    stored = describe(connection, name)
    size = 8 * len(frame.rows) * len(kinds)
    columns_read, doubles = _columns(table, stored), _doubles(table, stored)
    return DuckDBTable(index, name, columns_read, "rowid", doubles, size)


def _columns(table: Table, stored: Mapping[str, tuple[str, str]], *, exact: bool = False) -> dict[str, str]:
    """Return SQL that reads each declared column; ``exact`` if the source may compare texts by another collation."""
    found = {}
    for declared in table.columns:
        if declared.stored_name.lower() not in stored:
            raise InputError(f"{table.name}.{declared.name}", f"{declared.stored_name!r} is not a column of the source")
        name, kind = stored[declared.stored_name.lower()]
        value = f'({DUCKDB.quoted(name)} COLLATE "binary")' if exact and kind == "VARCHAR" else DUCKDB.quoted(name)
        expression = _read(value, kind.upper(), declared.type)
        if expression is None:
            raise InputError(f"{table.name}.{declared.name}", f"cannot read a column of type {kind} as {declared.type}")
        found[declared.name.lower()] = expression
    return found


def _doubles(table: Table, stored: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    doubles = [column for column in table.columns if column.type.kind is Kind.DOUBLE]
    names = {column.name.lower(): stored[column.stored_name.lower()] for column in doubles}
    return {name: DUCKDB.quoted(its) for name, (its, kind) in names.items() if kind.upper() == "DOUBLE"}


def _read(value: str, stored: str, wanted: SqlType) -> str | None:
    """Return SQL that reads a stored column as the declared type and cannot fail; None if there is no sensible cast."""
    if stored in ("VARCHAR", "JSON") or stored.startswith("ENUM"):
        return cast_sql(DUCKDB, value if stored == "VARCHAR" else f"CAST({value} AS VARCHAR)", TEXT, wanted)
    if stored == '"NULL"' or stored == "NULL":
        return cast_sql(DUCKDB, value, SqlType(Kind.NULL), wanted)
    match wanted.kind:
        case Kind.BOOLEAN:
            return value if stored == "BOOLEAN" else f"({value} <> 0)" if stored in _WHOLE else None
        case Kind.INTEGER | Kind.DECIMAL:
            return _read_number(value, stored, wanted)
        case Kind.DOUBLE:
            numeric = stored in (*_WHOLE, *_WIDE, *_FLOATS) or _DECIMAL.match(stored)
            return DUCKDB.finite(value if stored == "DOUBLE" else f"CAST({value} AS DOUBLE)") if numeric else None
        case Kind.TEXT if stored.endswith("[]"):
            return _read_list(value, stored.removesuffix("[]"))
        case Kind.TEXT:
            return f"CAST({value} AS VARCHAR)" if stored in (*_WHOLE, *_WIDE, "UUID", "BOOLEAN", "DATE") else None
        case Kind.DATE if stored == "DATE" or stored in _TIMES:
            day = value if stored == "DATE" else f"CAST({_read_time(value, stored)} AS DATE)"
            return within_years(DUCKDB, day, wanted)
        case Kind.TIMESTAMP if stored == "DATE":
            return within_years(DUCKDB, f"CAST({within_years(DUCKDB, value, SqlType(Kind.DATE))} AS TIMESTAMP)", wanted)
        case Kind.TIMESTAMP if stored in _TIMES:
            return _read_time(value, stored)
        case _:
            return None


def _read_list(value: str, stored: str) -> str | None:
    """Return SQL that joins the elements of a list, each after U+001F; without NULL and empty ones."""
    if stored not in (*_WHOLE, *_WIDE, "VARCHAR", "UUID", "BOOLEAN", "DATE"):
        return None
    text = "CAST(e AS VARCHAR)"
    return f"array_to_string([chr(31) || {text} FOR e IN {value} IF {text} <> ''], '')"


def _read_time(value: str, stored: str) -> str:
    """Return SQL that reads a timestamp; one with a time zone is read as UTC."""
    kind = SqlType(Kind.TIMESTAMP)
    if stored == "TIMESTAMP":
        return within_years(DUCKDB, value, kind)
    if stored == "TIMESTAMP WITH TIME ZONE":
        return from_microseconds(DUCKDB, f"CASE WHEN isfinite({value}) THEN epoch_us({value}) END")
    if stored in ("TIMESTAMP_NS", "TIMESTAMPTZ_NS"):
        # A cast would round to the nearest microsecond; all engines round timestamps down.
        number = f"epoch_ns({value})"
        cut = f"{number} // 1000 - CAST({number} % 1000 < 0 AS BIGINT)"
        inside = f"{number} BETWEEN -{LAST_NANOSECOND} AND {LAST_NANOSECOND}"
        return from_microseconds(DUCKDB, f"CASE WHEN {inside} THEN {cut} END")
    return within_years(DUCKDB, f"TRY_CAST({value} AS TIMESTAMP)", kind)


def _read_number(value: str, stored: str, wanted: SqlType) -> str | None:
    exact = _DECIMAL.match(stored)
    scale = wanted.scale
    if exact:
        width, digits = int(exact.group(1)), int(exact.group(2))
        if digits <= scale and width - digits <= 18 - scale:
            return mantissa(value, scale)
        if wanted.kind is Kind.DECIMAL:
            return mantissa(f"TRY_CAST({value} AS DECIMAL(18,{scale}))", scale)
        return f"TRY_CAST({value} AS BIGINT)"
    if stored in _FLOATS:
        number = value if stored == "DOUBLE" else f"CAST({value} AS DOUBLE)"
        return cast_sql(DUCKDB, DUCKDB.finite(number), SqlType(Kind.DOUBLE), wanted)
    if stored == "BOOLEAN":
        return cast_sql(DUCKDB, value, SqlType(Kind.BOOLEAN), wanted)
    if stored not in (*_WHOLE, *_WIDE):
        return None
    whole = f"CAST({value} AS BIGINT)" if stored in _WHOLE else DUCKDB.fit_integer(value)
    return whole if wanted.kind is Kind.INTEGER else DUCKDB.fit_decimal(f"CAST({whole} AS HUGEINT) * {10**scale}")


# Stored types of identifying columns; no row is read ------------------------------------------------------------------


#: Name of a file or other source, and its columns by lower-case name.
Store = tuple[str, dict[str, StoredColumn]]
#: Names of DuckDB's virtual columns for the row number in a file and the number of the file.
_FILE_ROW: Final = "file_row_number"
_FILE: Final = "file_index"


def form_of(kind: str, place: str = "") -> StoredColumn:
    """Convert a DuckDB type to the form in which it stores a unit."""
    exact = _DECIMAL.match(kind)
    if exact:
        scale = int(exact.group(2))
        return StoredColumn(Form.DECIMAL if scale else Form.WHOLE, kind, scale, place)
    if kind in (*_WHOLE, *_WIDE):
        return StoredColumn(Form.WHOLE, kind, 0, place)
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return StoredColumn(Form.TEXT, "VARCHAR", 0, place)
    plain = {
        "UUID": Form.UUID,
        "DATE": Form.DATE,
        "BOOLEAN": Form.BOOLEAN,
        "NULL": Form.NOTHING,
        '"NULL"': Form.NOTHING,
    }
    return StoredColumn(plain.get(kind, Form.OTHER), kind, 0, place)


def check_row_numbers(connection: duckdb.DuckDBPyConnection, source: SourceLike, table: Table) -> None:
    """Refuse files with a column named like DuckDB's row numbers, which would replace them as units.

    Raises:
        InputError: naming the column.
    """
    if source.kind != "parquet":
        return
    columns = {name for _, store in _in_files(connection, find_files(source.path or "")) for name in store}
    taken = [_FILE_ROW, *([_FILE] if table.unit == ROW else [])]
    for name in taken:
        if name in columns:
            raise row_number_taken(table.name, name)


def check_identities(
    connection: duckdb.DuckDBPyConnection,
    catalog: Catalog,
    sources: Mapping[str, SourceLike],
    tables: Mapping[str, DuckDBTable],
) -> None:
    """Refuse sources that would write one unit in two ways; called before the connection is locked.

    Raises:
        InputError: see :func:`tacit.engines.stored_units.check_stored_units`.
    """
    kinds = {name.lower(): source.kind for name, source in sources.items()}
    found: dict[str, dict[str, list[StoredColumn]]] = {}
    for table in catalog.tables:
        name = table.name.lower()
        if not identifying(catalog, table):
            continue
        if kinds[name] == "parquet":
            stores = _in_files(connection, tables[name].files)
        else:
            stores = [("the source", _described(connection, f"SELECT * FROM {tables[name].scan}"))]
        found[name] = {
            column: [store.get(stored) or StoredColumn(Form.ABSENT, "", 0, store_name) for store_name, store in stores]
            for column in identifying(catalog, table)
            for stored in [table.stored_name(column)]
        }
    check_stored_units(catalog, found)


def _in_files(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> list[Store]:
    """Return the columns of each file individually: in a joint read, integers and doubles become doubles.

    Columns encoded in folder names are not included.
    """
    names = ", ".join(map(DUCKDB.text, files))
    select = f"SELECT file_name, name, num_children, duckdb_type FROM parquet_schema([{names}])"
    stores: dict[str, dict[str, StoredColumn]] = {}
    inside: list[int] = []
    for file, name, children, kind in connection.execute(select).fetchall():
        # The schema is a tree in preorder; the children of a file's root are its columns.
        if str(file) not in stores:
            stores[str(file)] = {}
            inside = [int(children or 0)]
            continue
        if len(inside) == 1:
            shown = str(kind).upper() if kind is not None and not children else "STRUCT"
            key = str(name).lower()
            shown = "two columns that differ in case alone" if key in stores[str(file)] else shown
            stores[str(file)][key] = form_of(shown, Path(str(file)).name)
        inside[-1] -= 1
        inside.append(int(children or 0))
        while len(inside) > 1 and inside[-1] == 0:
            inside.pop()
    return [(Path(file).name, columns) for file, columns in stores.items()]


def _described(connection: duckdb.DuckDBPyConnection, select: str) -> dict[str, StoredColumn]:
    rows = connection.execute(f"DESCRIBE {select}").fetchall()
    return {str(name).lower(): form_of(str(kind).upper()) for name, kind, *_ in rows}
