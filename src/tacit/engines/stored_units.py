"""Check that the stored types of identifying columns give one canonical unit.

:mod:`tacit.query.catalog` gives a population one *declared* type. This module checks the *stored* types: a column of
doubles declared as integers has lost the ids above 2^53 before it is read; a UUID and a text can spell one person in
two ways; ``char(n)`` has lost its trailing spaces. So an identifying column has one **form** in all of its files, and
all unit columns of a population that are texts have the same form.

========= ======================================= =============================
form      stored as                               may be declared as
========= ======================================= =============================
whole     integers of any width, DECIMAL(p, 0)    INTEGER, DECIMAL
decimal   DECIMAL(p, s) with s > 0                DECIMAL of at least that scale
text      text, CSV, enumerations                 anything: it is parsed
padded    char(n), without the spaces at its end  anything: it is parsed
uuid      UUID                                    TEXT
date      DATE                                    DATE
boolean   BOOLEAN                                 BOOLEAN
nothing   a column of NULLs alone                 anything: no row has a unit
absent    not in the file                         nothing
========= ======================================= =============================

Everything else (floats, times, binary strings) is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tacit.core.errors import InputError
from tacit.query.catalog import ROW, Catalog, Table, identifying
from tacit.query.types import Kind, SqlType


class Form(Enum):
    """Form in which a store writes the identifier of a unit."""

    WHOLE = "whole"
    DECIMAL = "decimal"
    TEXT = "text"
    PADDED = "padded"
    UUID = "uuid"
    DATE = "date"
    BOOLEAN = "boolean"
    NOTHING = "nothing"
    ABSENT = "absent"
    OTHER = "other"


_READABLE: Final = {
    Form.WHOLE: (Kind.INTEGER, Kind.DECIMAL),
    Form.DECIMAL: (Kind.DECIMAL,),
    Form.UUID: (Kind.TEXT,),
    Form.DATE: (Kind.DATE,),
    Form.BOOLEAN: (Kind.BOOLEAN,),
    Form.OTHER: (),
}
_WORDS: Final = {Form.TEXT: "text", Form.PADDED: "text padded with spaces", Form.UUID: "UUID"}


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Stored type of a column.

    Args:
        form: how the store writes the identifier of a unit.
        shown: the store's name of the type.
        scale: number of digits after the decimal point of a decimal.
        place: file name, if the table has several files; else empty.
    """

    form: Form
    shown: str
    scale: int = 0
    place: str = ""


def check_stored_units(catalog: Catalog, stored: Mapping[str, Mapping[str, Iterable[StoredColumn]]]) -> None:
    """Refuse stores that would write one unit in two ways, or two units in one.

    Args:
        catalog: the tables; its own check has found one declared type per population.
        stored: by lower-case table and column name, the stored type of the column in every file of the table.

    Raises:
        InputError: naming the table, the column, the stored types and what to do.
    """
    first: dict[str, tuple[Table, str, StoredColumn]] = {}
    for table in catalog.tables:
        for name in sorted(identifying(catalog, table)):
            found = _one(table, name, list(stored[table.name.lower()].get(name, ())))
            declared = table.find(name)
            if declared is None or found is None:
                continue
            _check_readable(table, declared.name, declared.type, found)
            if table.population is None or table.unit in (None, ROW) or name != (table.unit or "").lower():
                continue
            if found.form is not Form.NOTHING:
                other = first.setdefault(table.population, (table, declared.name, found))
                _check_same(other, (table, declared.name, found), declared.type)


def _one(table: Table, name: str, columns: list[StoredColumn]) -> StoredColumn | None:
    """Return the stored column common to all files; refuse files whose forms differ."""
    lacking = next((column for column in columns if column.form is Form.ABSENT), None)
    if lacking is not None:
        raise InputError(
            f"tables.{table.name}.source",
            f"{lacking.place} lacks the column {name}, which tells persons apart: it must stand in every file, and not "
            "in the name of a folder, where its type would depend on all names together",
        )
    columns = [column for column in columns if column.form is not Form.NOTHING] or columns[:1]
    for column in columns[1:]:
        if (column.form, column.scale) != (columns[0].form, columns[0].scale):
            raise InputError(
                f"tables.{table.name}.source",
                f"its files store {name}, which tells persons apart, in two ways: {columns[0].place} as "
                f"{columns[0].shown} and {column.place} as {column.shown}; write all files with one type",
            )
    return columns[0] if columns else None


def _check_readable(table: Table, name: str, declared: SqlType, stored: StoredColumn) -> None:
    allowed = _READABLE.get(stored.form)
    fits = allowed is None or declared.kind in allowed
    if fits and not (stored.form is Form.DECIMAL and stored.scale > declared.scale):
        return
    if stored.form is Form.WHOLE:
        remedy = 'declare type = "integer", and in the other tables of its population as well'
    elif stored.form is Form.OTHER:
        remedy = "store it as a whole number or as text (a view or a new file that casts it will do)"
    else:
        remedy = "declare the type that it is stored as, or store it as text"
    raise InputError(
        f"tables.{table.name}.columns.{name}",
        f"tells persons apart, is stored as {stored.shown} and declared as {declared}: one person could have several "
        f"forms, or several persons one; {remedy}",
    )


def _check_same(
    first: tuple[Table, str, StoredColumn], second: tuple[Table, str, StoredColumn], declared: SqlType
) -> None:
    """Refuse two text columns of one population with different forms: no parser would make their spellings equal."""
    if declared.kind is not Kind.TEXT or first[2].form is second[2].form:
        return
    (one, its, here), (other, name, there) = first, second
    raise InputError(
        f"tables.{other.name}.columns.{name}",
        f"names persons of the population {other.population!r} by {_WORDS[there.form]} ({there.shown}), and "
        f"{one.name}.{its} by {_WORDS[here.form]} ({here.shown}): one person could be spelled in two ways; store both "
        "alike, or read one of them through a view that casts it",
    )
