"""Canonical unit of a population: one type in every table.

Rows of several tables meet in one query (UNION ALL, joins, key selection), and what makes two of them one person's
is that their units are *equal*. That is a statement about persons only if every table writes a person in one way. So:

* all tables of a population have units of one type, and every column on the way to the unit has the type of the
  column that it points to;
* the type is one whose values have one written form on every engine: INTEGER, DECIMAL, TEXT, DATE or BOOLEAN.
  DOUBLE is none (2^53 and 2^53 + 1 are one number), and TIMESTAMP is none (zones and fractions of a second differ from
  store to store);
* ``unit = "row"`` stands alone: a row has no name, so nothing says whether a row here and a row, or an id, there are
  one person.

``docs/semantics.md`` section 1 has the argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tacit.core.errors import InputError
from tacit.query.types import Kind, SqlType

if TYPE_CHECKING:
    from tacit.query.catalog import Catalog, Column, Table

#: The unit of a table in which every row is its own unit.
ROW: Final = "row"
_CANONICAL: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.DATE, Kind.BOOLEAN)


def unit_type(catalog: Catalog, population: str) -> SqlType | None:
    """The one type of a population's units; None where they are rows, or where no table is about them."""
    table = next((table for table in catalog.tables if _about(table, population)), None)
    return None if table is None or table.unit == ROW else _named(catalog, table)[1].type


def unit_path(catalog: Catalog, table: Table) -> str:
    """Path to the unit of a protected table, by columns: ``"row"``, ``"patient"``, ``"visit > id > patient"``.

    Columns are called as their sources call them, so that giving one another name does not change who is a person.
    A key that points to the unit column itself is the person, as that column is.
    """
    if table.unit is not None:
        return ROW if table.unit == ROW else table.stored_name(table.unit)
    path, (_, unit) = catalog.path_to_unit(table), _named(catalog, table)
    steps, here = [], table
    for key in path:
        there = _of(catalog, key.table, key.references)[0]
        steps += [here.stored_name(key.column), there.stored_name(key.references)]
        here = there
    last = unit.stored_name.lower()
    return " > ".join(steps[:-1] if steps[-1] == last else [*steps, last])


def identifying(catalog: Catalog, table: Table) -> frozenset[str]:
    """The columns of a table, in small letters, by which rows of protected tables are told to be one person's."""
    if table.public:
        return frozenset()
    found = {table.unit.lower()} if table.unit not in (None, ROW) else set()
    for other in catalog.tables:
        if other.public:
            continue
        for key in catalog.path_to_unit(other):
            if other is table and key is catalog.path_to_unit(other)[0]:
                found.add(key.column.lower())
            if key.table.lower() == table.name.lower():
                found.add(key.references.lower())
    return frozenset(found)


def check_units(catalog: Catalog) -> None:
    """Refuse a population whose tables would write one person in two ways.

    Raises:
        InputError: naming both tables, both types, and what to declare instead.
    """
    first: dict[str, Table] = {}
    for table in catalog.tables:
        if table.population is None or table.public:
            continue
        _check_form(catalog, table)
        other = first.setdefault(table.population, table)
        if other is not table:
            _check_pair(catalog, other, table)


def _check_form(catalog: Catalog, table: Table) -> None:
    if table.unit == ROW:
        if table.find(ROW) is not None:
            raise InputError(
                f"{table.name}.unit",
                'is "row", and the table has a column of that name: is a person a row, or what stands in the column? '
                "Leave the column out, or read it under another name from a view or a file that calls it otherwise",
            )
        return
    # The columns between are of the types that they point to, which the catalog checks.
    columns = [_of(catalog, key.table, key.references) for key in catalog.path_to_unit(table)]
    for owner, column in (*columns, _named(catalog, table)):
        if column.type.kind not in _CANONICAL:
            raise InputError(
                f"{owner.name}.{column.name}",
                f"tells persons apart and is of type {column.type}, in which one person can have several forms, or "
                'several persons one; declare it as type = "integer" or "text", and store it so',
            )


def _check_pair(catalog: Catalog, first: Table, second: Table) -> None:
    where = f"{second.name}.unit"
    if ROW in (first.unit, second.unit):
        raise InputError(
            where,
            f"the population {second.population!r} has {_words(catalog, first)} and {_words(catalog, second)}, and "
            "nothing says which of them are the same person; name a unit column in both, or give each table a "
            "population of its own",
        )
    one, other = _named(catalog, first)[1].type, _named(catalog, second)[1].type
    if one != other:
        raise InputError(
            where,
            f"the population {second.population!r} has {_words(catalog, first)} and {_words(catalog, second)}: one "
            f"person would be two in a query that reads both; {_remedy(one, other)}, or give each table a "
            "population of its own",
        )


def _remedy(one: SqlType, other: SqlType) -> str:
    """Advice on the type to declare where both columns can be read so; texts can be read as any type."""
    kinds = {one.kind, other.kind}
    if kinds <= {Kind.INTEGER, Kind.DECIMAL}:
        return 'declare type = "integer" for both columns, and store whole numbers in both'
    if Kind.TEXT in kinds:
        (word,) = {kind.value for kind in kinds - {Kind.TEXT}}
        return f'declare type = "{word}" for both columns'
    return "store and declare both columns with one type"


def _words(catalog: Catalog, table: Table) -> str:
    if table.unit == ROW:
        return f"every row of {table.name}"
    owner, column = _named(catalog, table)
    reached = "" if owner is table else f", for {table.name},"
    return f"{column.type} in {owner.name}.{column.name}{reached}"


def _named(catalog: Catalog, table: Table) -> tuple[Table, Column]:
    """The unit column of a table, and the table it stands in."""
    path = catalog.path_to_unit(table)
    owner = table if not path else catalog.table(path[-1].table)
    column = None if owner is None else owner.find(owner.unit or "")
    if owner is None or column is None:
        raise AssertionError("the catalog checks paths")
    return owner, column


def _of(catalog: Catalog, table: str, column: str) -> tuple[Table, Column]:
    owner = catalog.table(table)
    found = None if owner is None else owner.find(column)
    if owner is None or found is None:
        raise AssertionError("the catalog checks foreign keys")
    return owner, found


def _about(table: Table, population: str) -> bool:
    return table.population == population and not table.public
