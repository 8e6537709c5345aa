"""One canonical unit per population: one type in all of its tables, rows alone, and no type without one form."""

from __future__ import annotations

import pytest

from tacit.core.errors import InputError
from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table, identifying, unit_path, unit_type
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, SqlType, decimal


def table(name: str, kind: SqlType | None, *, population: str = "p", column: str = "id") -> Table:
    if kind is None:
        return Table(name, (Column("x", INTEGER),), population=population, unit="row")
    return Table(name, (Column(column, kind), Column("x", INTEGER)), population=population, unit=column)


def catalog(*tables: Table) -> Catalog:
    return Catalog(tables, (Population("p"), Population("q")))


@pytest.mark.parametrize("kind", [INTEGER, TEXT, DATE, BOOLEAN, decimal(0), decimal(2)])
def test_one_type_in_all_tables(kind: SqlType) -> None:
    made = catalog(table("a", kind), table("b", kind, column="pid"), table("c", None, population="q"))
    assert (unit_type(made, "p"), unit_type(made, "q"), unit_type(made, "r")) == (kind, None, None)
    assert [unit_path(made, each) for each in made.tables] == ["id", "pid", "row"]


@pytest.mark.parametrize(
    ("first", "second", "remedy"),
    [
        (INTEGER, decimal(2), 'declare type = "integer" for both'),
        (decimal(2), decimal(3), 'declare type = "integer" for both'),
        (decimal(0), INTEGER, 'declare type = "integer" for both'),
        (INTEGER, TEXT, 'declare type = "integer" for both'),
        (TEXT, DATE, 'declare type = "date" for both'),
        (TEXT, BOOLEAN, 'declare type = "boolean" for both'),
        (DATE, INTEGER, "store and declare both columns with one type"),
    ],
)
def test_two_types_are_refused_with_both_names(first: SqlType, second: SqlType, remedy: str) -> None:
    with pytest.raises(InputError) as refused:
        catalog(table("a", first), table("b", second, column="pid"))
    words = str(refused.value)
    assert words.startswith("b.unit: ")
    assert all(part in words for part in ("a.id", "b.pid", str(first), str(second), remedy)), words
    # The same tables about different persons are fine.
    catalog(table("a", first), table("b", second, population="q"))


@pytest.mark.parametrize("kinds", [(None, INTEGER), (INTEGER, None), (None, None)])
def test_rows_stand_alone(kinds: tuple[SqlType | None, ...]) -> None:
    with pytest.raises(
        InputError, match=r"b\.unit: the population 'p' has .* and nothing says which of them are the same"
    ):
        catalog(*(table(name, kind) for name, kind in zip("ab", kinds, strict=True)))


@pytest.mark.parametrize("kind", [DOUBLE, TIMESTAMP])
def test_types_without_one_form_tell_no_persons_apart(kind: SqlType) -> None:
    with pytest.raises(InputError, match=r"a\.id: tells persons apart and is of type"):
        catalog(table("a", kind))
    visits = Table("visits", (Column("key", kind),), population="p", foreign_keys=(ForeignKey("key", "people", "key"),))
    people = Table("people", (Column("key", kind, unique=True), Column("id", INTEGER)), population="p", unit="id")
    with pytest.raises(InputError, match=r"people\.key: tells persons apart and is of type"):
        catalog(people, visits)


def test_a_unit_at_the_end_of_a_path_counts() -> None:
    people = Table("people", (Column("key", INTEGER, unique=True), Column("id", TEXT)), population="p", unit="id")
    visits = Table(
        "visits", (Column("who", INTEGER),), population="p", foreign_keys=(ForeignKey("who", "people", "key"),)
    )
    with pytest.raises(InputError, match=r"labs\.unit: .*TEXT in people\.id.*INTEGER in labs\.pid"):
        catalog(people, visits, table("labs", INTEGER, column="pid"))
    made = catalog(people, visits, table("labs", TEXT, column="pid"))
    assert [unit_path(made, each) for each in made.tables] == ["id", "who > key > id", "pid"]
    assert [identifying(made, each) for each in made.tables] == [{"key", "id"}, {"who"}, {"pid"}]


def test_a_column_called_row() -> None:
    """Is a person a row, or the number that stands in the column? A patient with 400 rows would be 400 persons."""
    columns = (Column("row", INTEGER), Column("x", INTEGER))
    with pytest.raises(InputError, match=r't\.unit: is "row", and the table has a column of that name'):
        catalog(Table("t", columns, population="p", unit="row"))
    catalog(Table("t", columns, population="p", unit="x"))
