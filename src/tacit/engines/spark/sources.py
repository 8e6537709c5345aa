"""Spark sources: Parquet, CSV, catalog tables, Spark and Python frames.

*Parquet.* Spark infers the types of columns encoded in folder names from all these names, so one folder can change how
the others are read; here they are always texts. Spark fails on a timestamp in milliseconds beyond its range; here
timestamps are read as the integers they are stored as, and converted to microseconds by an expression. Stored types are
read from the files if they are on this machine, else from Spark.

A file on this machine determines which budget is charged, so Spark must read the same file.

Every declared column is read by an expression that cannot fail, by the same rules as DuckDB's sources. When a source is
opened, Spark is asked only for names and types; no row is read before a query. CSV is read in this process by DuckDB,
as text, so that all engines split lines by one rule; it is meant for small tables, and larger ones belong in Parquet.

*Identity of sources that only Spark can read.* A table is identified by its full name in its catalog. A table with
files is also identified by their location: files on this machine as if opened without Spark, others by the address of
their folder. A frame without files is identified by its content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

from tacit.core.errors import InputError
from tacit.engines.duckdb.csv_lines import LINE
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.sources import open_source
from tacit.engines.files import ADDRESS, find_files
from tacit.engines.frames import LAST_NANOSECOND, as_arrow, sound_table
from tacit.engines.protocol import Marks, SourceLike
from tacit.engines.spark.dialect import SPARK, mantissa
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.scalars import cast_sql, from_microseconds, within_years
from tacit.engines.stored_units import Form, StoredColumn, check_stored_units
from tacit.query.catalog import ROW, Catalog, Table, identifying
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, MAX_SCALE, NULL, TEXT, TIMESTAMP, Kind, SqlType, decimal

if TYPE_CHECKING:
    import pyarrow as pa


def read_from(path: str) -> tuple[str, ...]:
    """Return the addresses that Spark is to read."""
    if ADDRESS.match(path):
        return (path,)
    return tuple(map(_address, _here(path)))


def check_same_files(spark: Any, path: str, where: str) -> None:
    """Refuse a path whose files a remote server sees with other names, sizes or modification times than this machine.

    Raises:
        InputError: at ``where``.
    """
    if ADDRESS.match(path):
        return
    here = sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns // 10**9) for file in _here(path))
    try:
        # The content of the files is not read.
        found = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(read_from(path)))
        rows = found.selectExpr("path", "length", "unix_seconds(modificationTime)").collect()
        there = sorted((re.sub("^file:/+", "/", name), size, second) for name, size, second in rows)
    except Exception:
        there = []
    if there != here:
        raise InputError(
            where,
            f"the Spark server does not see {path} as it is here; put it on a disk that both see under this name, or"
            " name a table of its catalog or an address such as s3://bucket/visits",
        )


def _here(path: str) -> list[Path]:
    """Return the files of this machine that a path, pattern or folder denotes."""
    files = [Path(file) for file in find_files(path)]
    if Path(path).is_dir() and any(file.suffix != ".parquet" for file in files):
        raise InputError("source", f"the folder {path} must hold .parquet files and no others")
    return files


def _address(file: Path) -> str:
    """Return the address of a local file, independent of Spark's default file system, with pattern signs escaped."""
    return "file:" + re.sub(r"([*?\[\]{}\\])", r"\\\1", str(file))


#: Suffix of the name of a column that holds microseconds since 1970.
MICROSECONDS = "tacit microseconds"
_PAIR = re.compile(r"([^=/\\]+)=[^/\\]*\Z")
#: Start of the year 1 and end of the year 9999, in seconds since 1970.
_FIRST, _END = -62_135_596_800, 253_402_300_800
_SIZES = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def read_parquet(spark: Any, path: str, names: Collection[str], table: str, *, numbered: bool = False) -> Any:
    """Return a Spark frame of Parquet files.

    Args:
        spark: the session.
        path: a file, pattern, folder or address.
        names: lower-case names of the declared columns.
        table: name of the table, for error messages.
        numbered: whether to add Spark's column ``_metadata``, which has a row's file and index.

    Raises:
        InputError: files store one column in several types.
    """
    told = read_from(path)
    base = _base(path)
    found = _reader(spark, base).option("mergeSchema", "true").parquet(*told).schema
    check_names(found.names, *(["_metadata"] if numbered else []))
    units = {} if ADDRESS.match(path) else _moments(find_files(path), names, table)
    folders = _folders(told if not ADDRESS.match(path) else _reader(spark, base).parquet(*told).inputFiles())
    fields = [_field(field, folders, units) for field in found.fields]
    from pyspark.sql.types import StructType

    frame = _reader(spark, base).schema(StructType(fields)).parquet(*told)
    listed = [_selected(field.name, units) for field in fields]
    return frame.selectExpr(*listed, *(["_metadata"] if numbered else []))


def check_names(columns: Iterable[str], *taken: str) -> None:
    """Refuse duplicate or reserved column names: such columns could replace the unit, or be read for another."""
    names = [name.lower() for name in columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError("source", f"has two columns called {name!r}, in letters of either case; rename one")
        if name in taken or name.endswith(f" {MICROSECONDS}"):
            raise InputError("source", f"has a column called {name!r}, a name that is needed otherwise; rename it")


def _reader(spark: Any, base: str | None) -> Any:
    # Dates are read as stored; files of old Spark versions, with another calendar, are recognised by their metadata.
    reader = spark.read.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    return reader if base is None else reader.option("basePath", base)


def _base(path: str) -> str | None:
    """Return the folder below which folder names hold columns; None if there is none, or the path is an address."""
    if ADDRESS.match(path):
        return None
    first = find_files(path)[0]
    parts = first.split("/")
    place = next((i for i, part in enumerate(parts[:-1]) if _PAIR.match(part)), None)
    return None if place is None else "file:" + "/".join(parts[:place])


def _folders(places: Sequence[str]) -> frozenset[str]:
    """Return the lower-case names of the columns that are encoded in folder names."""
    found = (_PAIR.match(part) for place in places for part in place.split("/")[:-1])
    return frozenset(match.group(1).lower() for match in found if match)


def _moments(files: Sequence[str], names: Collection[str], table: str) -> dict[str, str]:
    """Return the unit of each declared column that stores timestamps as integers, by lower-case name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    units: dict[str, set[str]] = {}
    try:
        for file in files:
            with pq.ParquetFile(file) as opened:
                stored, kinds = opened.schema, opened.schema_arrow
                for i, name in enumerate(kinds.names):
                    if name.lower() not in names or i >= len(stored.names) or stored.column(i).path != name:
                        continue
                    kind = kinds.field(i).type
                    whole = pa.types.is_timestamp(kind) and stored.column(i).physical_type == "INT64"
                    units.setdefault(name.lower(), set()).add(kind.unit if whole else str(kind))
    except (OSError, pa.ArrowException):
        raise InputError(table, "a file of the source is not a Parquet file") from None
    for name, found in units.items():
        if len(found) > 1 and found & _SIZES.keys():
            raise InputError(f"{table}.{name}", "is stored in several types in files of one source; write them in one")
    return {name: unit for name, found in units.items() for unit in found if unit in _SIZES}


def _field(field: Any, folders: Collection[str], units: dict[str, str]) -> Any:
    from pyspark.sql.types import LongType, StringType, StructField

    if field.name.lower() in folders:
        return StructField(field.name, StringType(), True)
    return StructField(field.name, LongType(), True) if field.name.lower() in units else field


def _selected(name: str, units: dict[str, str]) -> str:
    quoted = SPARK.quoted(name)
    if name.lower() not in units:
        return quoted
    size = _SIZES[units[name.lower()]]
    moved = f"CASE WHEN {quoted} BETWEEN {_FIRST * size} AND {_END * size - 1} THEN {quoted} * {10**6 // size} END"
    if size > 10**6:
        # All nanosecond timestamps lie within the years 1 to 9999; they are rounded down, as in all engines.
        cut = f"{quoted} DIV 1000 - CASE WHEN {quoted} % 1000 < 0 THEN 1 ELSE 0 END"
        moved = f"CASE WHEN {quoted} BETWEEN -{LAST_NANOSECOND} AND {LAST_NANOSECOND} THEN {cut} END"
    return f"{moved} AS {SPARK.quoted(f'{name} {MICROSECONDS}')}"


# Tables, frames and CSV -----------------------------------------------------------------------------------------------


#: Name of the row number column, which no source may have.
_ROW = "tacit row"
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_TIMES = ("timestamp", "timestamp_ntz", MICROSECONDS)
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)\Z")
_TEXTS = re.compile(r"(string|varchar|char)\b.*\Z")
#: Largest number of files whose rows are numbered: every statement contains the list of files.
_MOST_FILES = 1000
#: Bound on the rows of one file.
_FILE_ROWS = 2**40
_LARGEST_CSV = 2**30


def open_tables(
    spark: Any, catalog: Catalog, sources: Mapping[str, SourceLike], prefix: str, *, elsewhere: bool = False
) -> tuple[dict[str, StoredTable], tuple[str, ...]]:
    """Return every catalog table as the session reads it, and the temporary views that were created for them.

    Args:
        spark: the session.
        catalog: the tables.
        sources: where each table's rows are, by table name.
        prefix: prefix of the names of the views.
        elsewhere: whether another machine may read the files.

    Raises:
        InputError: a source is missing, cannot be read as declared, or lacks a column.
    """
    by_name = {name.lower(): source for name, source in sources.items()}
    tables: dict[str, StoredTable] = {}
    views: list[str] = []
    for index, table in enumerate(catalog.tables):
        if table.name.lower() not in by_name:
            raise InputError(f"sources.{table.name}", "is missing: every table of the catalog needs a source")
        views.append(f"{prefix}_{index}")
        source = by_name[table.name.lower()]
        tables[table.name.lower()] = open_table(spark, table, source, views[-1], index=index, elsewhere=elsewhere)
    check_identities(spark, catalog, by_name, dict(zip(tables, views, strict=True)))
    return tables, tuple(views)


def open_table(
    spark: Any, table: Table, source: SourceLike, view: str, *, index: int = 0, elsewhere: bool = False
) -> StoredTable:
    """Return one table as the session reads it, through a temporary view; see :func:`open_tables`."""
    try:
        frame, row = _frame(spark, source, table, elsewhere=elsewhere)
        frame.createOrReplaceTempView(view)
        if not spark.catalog.tableExists(view):
            frame.sparkSession.catalog.dropTempView(view)
            raise InputError(table.name, "is a frame of another Spark session; open it with session=its own session")
        stored = {name.lower(): (name, kind) for name, kind in frame.dtypes}
    except InputError:
        raise
    except Exception as problem:
        raise InputError(table.name, f"Spark cannot read the source: {_reason(problem)}") from None
    return StoredTable(index, view, _columns(table, stored), row, _doubles(table, stored))


def _reason(problem: Exception) -> str:
    """Return the first line of Spark's message; for a connection error, the line with the details."""
    said = [line.strip() for line in str(problem).strip().splitlines()] or ["no reason"]
    details = [line for line in said if line.startswith("details = ")]
    return details[0].removeprefix("details = ") if details and said[0].startswith("<_") else said[0]


def _frame(spark: Any, source: SourceLike, table: Table, *, elsewhere: bool) -> tuple[Any, str | None]:
    """Return a Spark frame, and SQL of a row's number if it has one."""
    match source.kind:
        case "frame" if hasattr(source.frame, "createOrReplaceTempView"):
            check_names(source.frame.columns)
            return source.frame, None
        case "frame":
            rows = as_arrow(source.frame, table.name, "an Arrow, pandas, Polars or Spark frame")
            return _local_frame(spark, rows, table)
        case "csv":
            return _local_frame(spark, _csv(source, table), table)
        case "parquet":
            if elsewhere:
                check_same_files(spark, source.path or "", f"tables.{table.name}.source")
            return _parquet(spark, source.path or "", table)
        case "table":
            found = spark.table(catalog_name(source.path or table.name))
            check_names(found.columns)
            return found, None
        case _:
            raise InputError(table.name, f"Spark cannot read a source of kind {source.kind!r}")


def catalog_name(name: str) -> str:
    """Return ``catalog.schema.table`` with each part quoted, unless it is already."""
    if "`" in name:
        return name
    return ".".join(SPARK.quoted(part) for part in name.split("."))


def _parquet(spark: Any, path: str, table: Table) -> tuple[Any, str | None]:
    names = {column.stored_name.lower() for column in table.columns}
    frame = read_parquet(spark, path, names, table.name, numbered=table.unit == ROW)
    if table.unit != ROW:
        return frame, None
    places = frame.inputFiles()
    if len(places) > _MOST_FILES:
        return frame, None
    pairs = ", ".join(f"{SPARK.text(_plain(place))}, CAST({i} AS BIGINT)" for i, place in enumerate(sorted(places)))
    place = "regexp_replace(_metadata.file_path, '^file:/+', 'file:/')"
    # A file that is not on the list raises an error, since its name is not a number, so no two rows get one number.
    file = f"coalesce(element_at(`map`({pairs}), {place}), CAST(_metadata.file_path AS BIGINT))"
    number = f"{file} * {_FILE_ROWS} + _metadata.row_index"
    return frame.selectExpr("*", f"{number} AS {SPARK.quoted(_ROW)}"), SPARK.quoted(_ROW)


def _plain(place: str) -> str:
    """Return the address of a local file with one slash after ``file:``; Spark writes one or three."""
    return re.sub("^file:/+", "file:/", place)


def _csv(source: SourceLike, table: Table) -> pa.Table:
    """Return the lines of CSV files with all columns as text, read by the rules of the DuckDB engine."""
    import duckdb

    files = find_files(source.path or "")
    if sum(Path(file).stat().st_size for file in files) > _LARGEST_CSV:
        raise InputError(table.name, "this CSV is too large to be sent to Spark; write it as Parquet first")
    with duckdb.connect() as connection:
        stored = open_source(connection, source, table, 0)
        return connection.sql(f"SELECT * EXCLUDE ({DUCKDB.quoted(LINE)}) FROM {stored.scan}").to_arrow_table()


def _local_frame(spark: Any, rows: pa.Table, table: Table) -> tuple[Any, str]:
    """Send a frame of this process to Spark, with invalid values as NULL and its rows numbered."""
    import pyarrow as pa

    check_names(rows.column_names, _ROW)
    names, arrays = [], []
    sound = sound_table(rows, {column.stored_name.lower() for column in table.columns}, table.name)
    for name, column in zip(sound.column_names, sound.columns, strict=True):
        array, mark = _portable(column)
        arrays.append(array)
        names.append(name + mark)
    arrays.append(pa.array(range(rows.num_rows), type=pa.int64()))
    made = pa.Table.from_arrays(arrays, names=[*names, _ROW])
    return spark.createDataFrame(made), SPARK.quoted(_ROW)


def _portable(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    """Convert a column to a type that Spark takes from Arrow unchanged.

    Timestamps become integers, with a name suffix.
    """
    import pyarrow as pa

    is_a, kind = pa.types, column.type
    if is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return column.cast(pa.string()), ""
    if is_a.is_uint64(kind):
        return column.cast(pa.decimal128(20, 0)), ""
    if is_a.is_unsigned_integer(kind) or is_a.is_null(kind):
        return column.cast(pa.int64()), ""
    return (column.cast(pa.int64()), f" {MICROSECONDS}") if is_a.is_timestamp(kind) else (column, "")


def _columns(table: Table, stored: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    found = {}
    for declared in table.columns:
        where, key = f"{table.name}.{declared.name}", declared.stored_name.lower()
        moment = stored.get(f"{key} {MICROSECONDS}")
        if key not in stored and moment is None:
            raise InputError(where, f"{declared.stored_name!r} is not a column of the source")
        name, kind = stored[key] if moment is None else (moment[0], MICROSECONDS)
        try:
            expression = _read(SPARK.quoted(name), kind.lower(), declared.type)
        except ValueError as problem:
            raise InputError(where, str(problem)) from None
        if expression is None:
            raise InputError(where, f"cannot read a column of type {kind} as {declared.type}")
        found[declared.name.lower()] = expression
    return found


def types_of(frame: Any) -> dict[str, SqlType | None]:
    """Return the columns of a Spark frame with their types, None for types Tacit does not read."""
    return {name: _type_of(kind.lower()) for name, kind in frame.dtypes}


def _type_of(stored: str) -> SqlType | None:
    exact = _DECIMAL.match(stored)
    if exact:
        scale = int(exact.group(2))
        return decimal(scale) if 0 <= scale <= MAX_SCALE else DOUBLE
    if _TEXTS.match(stored):
        return TEXT
    kinds = {INTEGER: _WHOLE, DOUBLE: _FLOATS, BOOLEAN: ("boolean",), DATE: ("date",), TIMESTAMP: _TIMES}
    return next((kind for kind, names in kinds.items() if stored in names), None)


def _doubles(table: Table, stored: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    doubles = [column for column in table.columns if column.type == DOUBLE]
    names = {column.name.lower(): stored[column.stored_name.lower()] for column in doubles}
    return {name: SPARK.quoted(its) for name, (its, kind) in names.items() if kind == "double"}


def _read(value: str, stored: str, wanted: SqlType) -> str | None:
    """Return SQL that reads a stored column as the declared type and cannot fail; None if there is no sensible cast."""
    if _TEXTS.match(stored):
        return cast_sql(SPARK, _text(value, stored), TEXT, wanted)
    if stored == "void":
        return cast_sql(SPARK, value, NULL, wanted)
    match wanted.kind:
        case Kind.BOOLEAN:
            return value if stored == "boolean" else f"({value} <> 0)" if stored in _WHOLE else None
        case Kind.INTEGER | Kind.DECIMAL:
            return _read_number(value, stored, wanted)
        case Kind.DOUBLE:
            numeric = stored in (*_WHOLE, *_FLOATS) or _DECIMAL.match(stored)
            return SPARK.finite(value if stored == "double" else f"CAST({value} AS DOUBLE)") if numeric else None
        case Kind.TEXT if stored.startswith("array<"):
            return _read_list(value, stored.removeprefix("array<").removesuffix(">"))
        case Kind.TEXT:
            whole = _DECIMAL.match(stored) and stored.endswith(",0)")
            return f"CAST({value} AS STRING)" if stored in (*_WHOLE, "boolean", "date") or whole else None
        case Kind.DATE if stored == "date":
            return within_years(SPARK, value, wanted)
        case Kind.DATE if stored in _TIMES:
            return f"CAST({_read_time(value, stored)} AS DATE)"
        case Kind.TIMESTAMP if stored == "date":
            return f"CAST({within_years(SPARK, value, DATE)} AS TIMESTAMP_NTZ)"
        case Kind.TIMESTAMP if stored in _TIMES:
            return _read_time(value, stored)
        case _:
            return None


def _read_list(value: str, stored: str) -> str | None:
    """Return SQL that joins the elements of an array, each after U+001F; without NULL and empty ones."""
    if stored not in (*_WHOLE, "string", "boolean", "date"):
        return None
    listed = f"filter({value}, e -> CAST(e AS STRING) <> '')"
    return f"try_validate_utf8(array_join(transform({listed}, e -> concat(chr(31), CAST(e AS STRING))), ''))"


def _text(value: str, stored: str) -> str:
    """Return SQL of a text that compares byte by byte, whatever its column's collation; CHAR(n) without its padding.

    NULL if it is not UTF-8: two such texts can differ in Spark and be equal after they are returned as keys.
    """
    if stored.startswith("char"):
        text = f"rtrim(' ', CAST({value} AS STRING))"
    else:
        text = value if stored == "string" else f"(CAST({value} AS STRING) COLLATE UTF8_BINARY)"
    return f"try_validate_utf8({text})"


def _read_time(value: str, stored: str) -> str:
    """Return SQL that reads a timestamp; one with a time zone is read as UTC."""
    if stored == MICROSECONDS:
        return from_microseconds(SPARK, value)
    return within_years(SPARK, value if stored == "timestamp_ntz" else f"CAST({value} AS TIMESTAMP_NTZ)", TIMESTAMP)


def _read_number(value: str, stored: str, wanted: SqlType) -> str | None:
    scale = wanted.scale
    if _DECIMAL.match(stored):
        if wanted.kind is Kind.DECIMAL:
            return mantissa(f"try_cast({value} AS DECIMAL(18,{scale}))", scale)
        # A cast to BIGINT would truncate.
        return f"try_cast(round({value}) AS BIGINT)"
    if stored in _FLOATS:
        number = value if stored == "double" else f"CAST({value} AS DOUBLE)"
        return cast_sql(SPARK, SPARK.finite(number), DOUBLE, wanted)
    if stored == "boolean":
        return cast_sql(SPARK, value, BOOLEAN, wanted)
    if stored not in _WHOLE:
        return None
    whole = value if stored == "bigint" else f"CAST({value} AS BIGINT)"
    return whole if wanted.kind is Kind.INTEGER else SPARK.fit_decimal(SPARK.huge(whole, 10**scale))


_PARTITION = re.compile(r"[^/=]+=[^/]*\Z")


def marks_of(spark: Any, source: SourceLike, view: str) -> Marks:
    """Return the identifiers of a source, whose view is ``view``. Reads rows only of frames without files."""
    frame = spark.table(view)
    places = tuple(dict.fromkeys(map(_place, sorted(frame.inputFiles()))))
    if source.kind == "table":
        name = _full_name(spark, source.path or "")
        marks = (f"spark table {name}", *places)
        return Marks(f"spark {name}", marks, marks)
    if source.kind == "frame" and not places:
        content = f"content {_content(spark, view, frame.columns)}"
        return Marks(content, (content,), (content,))
    version = hashlib.sha256("\n".join(places).encode()).hexdigest()
    return Marks(f"spark {version}", places, places)


def _place(address: str) -> str:
    """Return an identifier of a local file, or of the folder of another file without its partition folders."""
    parts = urlparse(address)
    if parts.scheme in ("", "file"):
        return f"path {Path(unquote(parts.path)).resolve()}"
    folder = address.rpartition("/")[0]
    while _PARTITION.search(folder):
        folder = folder.rpartition("/")[0]
    return f"address {folder}"


def _full_name(spark: Any, name: str) -> str:
    """Return a name with the catalog and schema that a short name implies, in lower case as Spark reads it."""
    parts = [part.strip("`") for part in re.findall(r"`(?:[^`]|``)+`|[^.`]+", catalog_name(name))]
    if len(parts) < 2:
        parts = [spark.catalog.currentDatabase(), *parts]
    if len(parts) < 3:
        parts = [spark.catalog.currentCatalog(), *parts]
    return ".".join(part.lower() for part in parts)


def _content(spark: Any, view: str, columns: list[str]) -> str:
    """Return a digest of all rows that does not depend on their order."""
    listed = ", ".join(SPARK.quoted(name) for name in columns)
    hashed = f"SELECT xxhash64({listed}) AS h FROM {view}"
    (found,) = spark.sql(f"SELECT count(*), bit_xor(h), sum(CAST(h AS DECIMAL(38,0))) FROM ({hashed})").collect()
    return hashlib.sha256(f"{columns} {tuple(found)}".encode()).hexdigest()


_FORMS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Form.WHOLE),
    "date": Form.DATE,
    "boolean": Form.BOOLEAN,
    "void": Form.NOTHING,
}


def form_of(kind: str) -> StoredColumn:
    """Convert a Spark type to the form in which it stores a unit."""
    exact = _DECIMAL.match(kind)
    if exact:
        scale = max(int(exact.group(2)), 0)
        return StoredColumn(Form.DECIMAL if scale else Form.WHOLE, kind, scale)
    if kind.startswith("char"):
        return StoredColumn(Form.PADDED, kind)
    if kind.startswith(("string", "varchar")):
        return StoredColumn(Form.TEXT, kind)
    return StoredColumn(_FORMS.get(kind, Form.OTHER), kind)


def check_identities(spark: Any, catalog: Catalog, sources: Mapping[str, SourceLike], views: Mapping[str, str]) -> None:
    """Refuse sources that would write one unit in two ways.

    Files of different types do not get here: Spark itself refuses to read them together.

    Args:
        spark: the session.
        catalog: the tables.
        sources: source by lower-case table name.
        views: name of the view by lower-case table name.

    Raises:
        InputError: see :func:`tacit.engines.stored_units.check_stored_units`.
    """
    found: dict[str, dict[str, list[StoredColumn]]] = {}
    for table in catalog.tables:
        names, key = identifying(catalog, table), table.name.lower()
        if not names:
            continue
        columns = {name.lower(): form_of(kind.lower()) for name, kind in spark.table(views[key]).dtypes}
        if sources[key].kind == "parquet":
            columns = {name: column for name, column in columns.items() if name in _in_files(spark, sources[key])}
        absent = StoredColumn(Form.ABSENT, "", 0, Path(sources[key].path or key).name)
        found[key] = {name: [columns.get(table.stored_name(name), absent)] for name in names}
    check_stored_units(catalog, found)


def _in_files(spark: Any, source: SourceLike) -> set[str]:
    """Return the lower-case names of the columns stored in files, without those encoded in folder names."""
    reader = spark.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
    try:
        return {name.lower() for name in reader.parquet(*read_from(source.path or "")).columns}
    except Exception:
        raise InputError("source", "Spark cannot read the columns of the files") from None
