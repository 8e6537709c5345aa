"""Parquet files outside of queries: their columns, first rows and texts, and new files.

Read and written by Arrow where it is installed, which is quicker, and otherwise by DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.core.errors import InputError
from tacit.core.extras import has_arrow
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, MAX_SCALE, TEXT, TIMESTAMP, SqlType, decimal

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)\Z")
_TYPES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), INTEGER),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), TIMESTAMP),
    "BOOLEAN": BOOLEAN,
    **dict.fromkeys(("VARCHAR", "JSON"), TEXT),
    "DATE": DATE,
}
#: The text of a moment with a zone depends on a library of zones.
_WITHOUT_TEXT = "TIMESTAMP WITH TIME ZONE"
#: Where Arrow and DuckDB say that a file cannot be read.
_BROKEN = "is not a Parquet file"


def read_types(file: Path) -> dict[str, SqlType | None]:
    """The columns of a file and their types, None for types Tacit does not read.

    Raises:
        InputError: it is no Parquet file; without the name of a parameter.
    """
    if has_arrow():
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return arrow_types(pq.read_schema(file))
        except (OSError, pa.ArrowInvalid):
            raise InputError("source", f"{file.name} {_BROKEN}") from None
    with _reading(file) as connection:
        return {name: _type_of(kind) for name, kind in _described(connection, file)}


def schema_text(file: Path) -> str:
    """Names and types of a file's columns in one text, to compare with another of the same process.

    Raises:
        InputError: it is no Parquet file.
    """
    if has_arrow():
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return str(pq.read_schema(file).remove_metadata())
        except (OSError, pa.ArrowInvalid):
            raise InputError("source", f"{file.name} {_BROKEN}") from None
    with _reading(file) as connection:
        wanted = "name, type, repetition_type, num_children, converted_type, scale, precision, logical_type::VARCHAR"
        return repr(connection.execute(f"SELECT {wanted} FROM parquet_schema(?)", [str(file)]).fetchall())


def first_rows(file: Path, names: Sequence[str], count: int) -> dict[str, list[Any]]:
    """Values of the first rows of a file by column; this reads data.

    Raises:
        InputError: they cannot be read.
    """
    if has_arrow():
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(file) as opened:
                batch = next(opened.iter_batches(batch_size=count, columns=list(names)), None)
        except (OSError, pa.ArrowException) as problem:
            raise InputError("source", f"cannot read the first rows of {file.name}: {problem}") from None
        return {} if batch is None else dict(batch.to_pydict())
    with _reading(file) as connection:
        listed = ", ".join(map(_quoted, names))
        rows = connection.execute(f"SELECT {listed} FROM read_parquet(?) LIMIT {count}", [str(file)]).fetchall()
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def text_columns(file: Path, most: int) -> dict[str, list[str | None]] | None:
    """All values of a file as texts by column, by DuckDB; None for more than ``most`` or types without one text.

    Raises:
        InputError: it cannot be read.
    """
    with _reading(file) as connection:
        kinds = dict(_described(connection, file))
        if any(_type_of(kind) is None or kind == _WITHOUT_TEXT for kind in kinds.values()):
            return None
        ((count,),) = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(file)]).fetchall()
        if count * len(kinds) > most:
            return None
        listed = ", ".join(f"CAST({_quoted(name)} AS VARCHAR)" for name in kinds)
        rows = connection.execute(f"SELECT {listed} FROM read_parquet(?)", [str(file)]).fetchall()
    return dict(zip(kinds, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def write_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, of which there is one at least, with the types of Python's values: whole numbers, texts and days."""
    if has_arrow():
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(list(rows)), file)
        return
    names = list(rows[0])
    columns = [[row[name] for row in rows] for name in names]
    listed = ", ".join(f"unnest(${i + 1}::{_kind(columns[i])}[]) AS {_quoted(name)}" for i, name in enumerate(names))
    place = "'" + str(file).replace("'", "''") + "'"
    with _reading(file) as connection:
        connection.execute(f"CREATE TABLE made AS SELECT {listed}", columns)
        connection.execute(f"COPY made TO {place} (FORMAT parquet)")


def arrow_types(schema: pa.Schema) -> dict[str, SqlType | None]:
    """The columns of an Arrow schema and their types, None for types Tacit does not read."""
    return {column.name: _arrow_type_of(column.type) for column in schema}


def _arrow_type_of(kind: pa.DataType) -> SqlType | None:
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_dictionary(kind):
        return _arrow_type_of(kind.value_type)
    if is_a.is_boolean(kind):
        return BOOLEAN
    if is_a.is_integer(kind):
        return INTEGER
    if is_a.is_decimal(kind):
        return decimal(kind.scale) if 0 <= kind.scale <= MAX_SCALE else DOUBLE
    if is_a.is_floating(kind):
        return DOUBLE
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return TEXT
    if is_a.is_date(kind):
        return DATE
    return TIMESTAMP if is_a.is_timestamp(kind) else None


def _type_of(kind: str) -> SqlType | None:
    """The type of a column as DuckDB names it."""
    exact = _DECIMAL.match(kind)
    if exact:
        scale = int(exact.group(1))
        return decimal(scale) if scale <= MAX_SCALE else DOUBLE
    return _TYPES.get(kind)


@contextmanager
def _reading(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of its own, whose words about a file are not shown: they may quote a value."""
    import duckdb

    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        try:
            yield connection
        except duckdb.Error:
            raise InputError("source", f"{file.name} {_BROKEN}") from None


def _described(connection: duckdb.DuckDBPyConnection, file: Path) -> list[tuple[str, str]]:
    scan = "read_parquet(?, hive_partitioning = false)"
    rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}", [str(file)]).fetchall()
    return [(str(name), str(kind)) for name, kind, *_ in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kind(values: Sequence[Any]) -> str:
    kinds = {int: "BIGINT", str: "VARCHAR"}
    return kinds.get(type(next((value for value in values if value is not None), None)), "DATE")
