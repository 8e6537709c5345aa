"""Stored types of identifying columns in Spark sources; reads no row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.engines.protocol import SourceLike
from tacit.engines.spark.parquet_files import read_from
from tacit.engines.stored_units import Form, StoredColumn, check_stored_units
from tacit.query.canonical_unit import identifying
from tacit.query.catalog import Catalog

__all__ = ["check_identities", "form_of"]

_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)\Z")
_FORMS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Form.WHOLE),
    "date": Form.DATE,
    "boolean": Form.BOOLEAN,
    "void": Form.NOTHING,
}


def form_of(kind: str) -> StoredColumn:
    """A type of Spark as the form of a person."""
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
    """Refuse sources that would write one person in two ways.

    Files of different types do not get here: Spark itself refuses to read them together.

    Args:
        spark: the session.
        catalog: the tables.
        sources: by table name in small letters.
        views: what each is called in the session, likewise.

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
    """The columns that stand in files, and not in the names of folders."""
    reader = spark.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
    try:
        return {name.lower() for name in reader.parquet(*read_from(source.path or "")[0]).columns}
    except Exception:
        raise InputError("source", "Spark cannot read the columns of the files") from None
