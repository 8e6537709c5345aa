"""Stored types of identifying columns in DuckDB sources; reads no row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.sources import DuckDBTable, row_number_taken
from tacit.engines.protocol import SourceLike
from tacit.engines.source_files import find_files
from tacit.engines.stored_units import Form, StoredColumn, check_stored_units
from tacit.query.canonical_unit import ROW, identifying
from tacit.query.catalog import Catalog, Table

if TYPE_CHECKING:
    import duckdb

#: A file or other source, and its columns by name in small letters.
Store = tuple[str, dict[str, StoredColumn]]
#: Names by which DuckDB numbers the rows of files, and the files.
_FILE_ROW: Final = "file_row_number"
_FILE: Final = "file_index"
_WHOLE = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)\Z")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)\Z")


def form_of(kind: str, place: str = "") -> StoredColumn:
    """A type of DuckDB as the form of a person."""
    exact = _DECIMAL.match(kind)
    if exact:
        scale = int(exact.group(2))
        return StoredColumn(Form.DECIMAL if scale else Form.WHOLE, kind, scale, place)
    if _WHOLE.match(kind):
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
    """Refuse files whose own columns are called as the numbers of their rows are; they would decide who is a person.

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
    """Refuse sources that would write one person in two ways; before the connection is locked.

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
    """Columns of every file by itself: read together, whole numbers and doubles are doubles.

    Names of folders are no part of a file.
    """
    names = ", ".join(map(DUCKDB.text, files))
    select = f"SELECT file_name, name, num_children, duckdb_type FROM parquet_schema([{names}])"
    stores: dict[str, dict[str, StoredColumn]] = {}
    inside: list[int] = []
    for file, name, children, kind in connection.execute(select).fetchall():
        # A tree, each node before its children; the root of a file has its columns for children.
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
