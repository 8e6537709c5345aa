"""Rows of two tables as SQL: persons with the number of their rows in the other table, and rows beside their person.

The texts are resolved by our own parser and never reach an engine.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.paid_work.marginal_counts import PublicColumn
from tacit.query.catalog import Table
from tacit.query.types import Kind
from tacit.synthetic_tables.column_bins import decimal_of

__all__ = ["StarNames", "numbers_sql", "persons_sql", "rows_sql"]

#: Columns that are counted, each with the SQL that numbers its values.
Listed = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StarNames:
    """Names of two tables, the columns by which they are joined, and how many rows of a person count."""

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
        taken = {each.name.lower() for each in self.rows.columns}
        name = f"{self.persons.name.lower()}_{column}"
        while name in taken:
            name += "_"
        return name


def numbers_sql(star: StarNames, rows: Listed, columns: Mapping[str, PublicColumn]) -> str:
    """The number of rows of each person, of those that count, up to the most."""
    read = dict(rows)
    kept = " AND ".join(_is_listed(read[name], column) for name, column in columns.items())
    return (
        f'SELECT "{star.owner}" AS u, LEAST(COUNT(*), {star.most}) AS n FROM "{star.rows.name}" '  # noqa: S608
        f'WHERE {kept} GROUP BY "{star.owner}"'
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
    listed += [f'k.n AS "{star.number}"', *(f'c."{name}" AS "{name}"' for name, _ in rows)]
    of_rows = ", ".join([f'"{star.owner}"', *(f'{read} AS "{name}"' for name, read in rows)])
    of_persons = ", ".join([f'"{star.person}"', *(f'{read} AS "{name}"' for name, read in persons)])
    return (
        f'SELECT {", ".join(listed)} FROM (SELECT {of_rows} FROM "{star.rows.name}") AS c '  # noqa: S608
        f'JOIN (SELECT {of_persons} FROM "{star.persons.name}") AS p ON c."{star.owner}" = p."{star.person}" '
        f'JOIN ({numbers}) AS k ON k.u = p."{star.person}"'
    )


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
