"""Rows of two tables as SQL: persons with the number of their rows in the other table, and rows beside their person.

The texts are resolved by our own parser and never reach an engine.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.query.catalog import Table
from tacit.query.types import Kind
from tacit.synth.column_bins import decimal_of
from tacit.synth.marginal_counts import PublicColumn

#: Columns that are counted, each with the SQL that numbers its values.
Listed = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StarNames:
    """Names of two tables, the columns by which they are joined, and how many rows of a person count.

    Args:
        persons: the table with a row for each person.
        rows: the table with several.
        person: the column of persons by which they are joined.
        owner: the column of rows by which they are joined.
        most: the most rows of a person.
    """

    persons: Table
    rows: Table
    person: str
    owner: str
    most: int

    @property
    def number(self) -> str:
        """The column of persons that says how many rows they have in the other table."""
        taken = {column.name.lower() for column in (*self.persons.columns, *self.rows.columns)}
        name = f"number_of_{self.rows.name.lower()}"
        while name in taken:
            name += "_"
        return name

    def outer(self, column: str) -> str:
        """The name of a column of persons beside rows of the other table."""
        name = f"{self.persons.name.lower()}_{column}"
        taken = {each.name.lower() for each in self.rows.columns}
        while name in taken:
            name += "_"
        return name


def numbers_sql(star: StarNames, rows: Listed, columns: Mapping[str, PublicColumn]) -> str:
    """The number of rows of each person, of those that count, up to the most."""
    return (
        f'SELECT "{star.owner}" AS u, LEAST(COUNT(*), {star.most}) AS n FROM "{star.rows.name}" '  # noqa: S608
        f'WHERE {_kept(rows, columns)} GROUP BY "{star.owner}"'
    )


def persons_sql(star: StarNames, persons: Listed, numbers: str) -> str:
    """One row for each person, with the number of rows in the other table; columns are read of ``p``."""
    listed = [f'{read} AS "{name}"' for name, read in persons]
    listed.append(f'COALESCE(k.n, 0) AS "{star.number}"')
    return (
        f'SELECT {", ".join(listed)} FROM "{star.persons.name}" AS p LEFT JOIN ({numbers}) AS k '  # noqa: S608
        f'ON p."{star.person}" = k.u'
    )


def rows_sql(star: StarNames, persons: Listed, rows: Listed, numbers: str) -> str:
    """Rows of the other table beside their person and the number of the person's rows."""
    # Bins are found before the join, once for each row of a table.
    listed = [f'p."{name}" AS "{star.outer(name)}"' for name, _ in persons]
    listed.append(f'k.n AS "{star.number}"')
    of_rows = ", ".join([f'"{star.owner}"', *(f'{read} AS "{name}"' for name, read in rows)])
    source = f'SELECT {of_rows} FROM "{star.rows.name}"'  # noqa: S608
    listed += [f'c."{name}" AS "{name}"' for name, _ in rows]
    of_persons = ", ".join([f'"{star.person}"', *(f'{read} AS "{name}"' for name, read in persons)])
    return (
        f"SELECT {', '.join(listed)} FROM ({source}) AS c "  # noqa: S608
        f'JOIN (SELECT {of_persons} FROM "{star.persons.name}") AS p ON c."{star.owner}" = p."{star.person}" '
        f'JOIN ({numbers}) AS k ON k.u = p."{star.person}"'
    )


def _kept(rows: Listed, columns: Mapping[str, PublicColumn]) -> str:
    """SQL: whether all values of a row are on the public lists of their columns."""
    read = dict(rows)
    return " AND ".join(_is_listed(read[name], column) for name, column in columns.items())


def _is_listed(read: str, column: PublicColumn) -> str:
    """SQL: whether a value is on the public list of a column."""
    listed = [value for value in column.values if value is not None]
    parts = [f"({read}) IN ({', '.join(map(_constant, listed))})"] if listed else []
    if column.type.kind is Kind.BOOLEAN and len(listed) == 2:
        parts = [f"({read}) IS NOT NULL"]
    if None in column.values:
        parts.append(f"({read}) IS NULL")
    return f"({' OR '.join(parts)})"


def _constant(value: Any) -> str:
    """A value as SQL."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Fraction():
            return decimal_of(Fraction(value))
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"
