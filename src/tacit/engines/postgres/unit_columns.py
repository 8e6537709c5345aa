"""Stored types of identifying columns in PostgreSQL; reads no row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tacit.core.errors import InputError
from tacit.engines.postgres.tables import Described
from tacit.engines.stored_units import Form, StoredColumn, check_stored_units
from tacit.query.canonical_unit import identifying
from tacit.query.catalog import Catalog

__all__ = ["check_identities", "form_of"]

_FORMS: Final = {
    **dict.fromkeys(("int2", "int4", "int8"), Form.WHOLE),
    **dict.fromkeys(("text", "varchar", "enum", "citext"), Form.TEXT),
    "bpchar": Form.PADDED,
    "uuid": Form.UUID,
    "date": Form.DATE,
    "bool": Form.BOOLEAN,
}


def form_of(type_name: str, modifier: int) -> StoredColumn:
    """A type of PostgreSQL as the form of a person."""
    if type_name == "numeric" and modifier >= 4:
        # The scale, of 11 bits with a sign, stands in the lower half.
        scale = ((modifier - 4) & 0x7FF ^ 0x400) - 0x400
        form = Form.DECIMAL if scale > 0 else Form.WHOLE
        return StoredColumn(form, f"numeric({(modifier - 4) >> 16},{scale})", max(scale, 0))
    return StoredColumn(_FORMS.get(type_name, Form.OTHER), "char(n)" if type_name == "bpchar" else type_name)


def check_identities(catalog: Catalog, described: Mapping[str, Described]) -> None:
    """Refuse tables that would write one person in two ways; ``described`` by name in small letters.

    Raises:
        InputError: see :func:`tacit.engines.stored_units.check_stored_units`.
    """
    found: dict[str, dict[str, list[StoredColumn]]] = {}
    for table in catalog.tables:
        there = described[table.name.lower()]
        stored = {name.lower(): (name, kind) for name, kind in there.columns.items()}
        # Where two names differ in case alone, the one that is written so.
        stored |= {
            column.name.lower(): (column.name, there.columns[column.name])
            for column in table.columns
            if column.name in there.columns
        }
        names = identifying(catalog, table)
        for name in sorted(names):
            if stored[name][0] in there.inexact:
                raise InputError(
                    f"tables.{table.name}.columns.{name}",
                    "tells persons apart and is compared regardless of case or accents there, and byte by byte here; "
                    f"name a view that has it in one spelling, such as lower({name}::text)",
                )
        found[table.name.lower()] = {name: [form_of(*stored[name][1])] for name in names}
    check_stored_units(catalog, found)
