"""Units of populations, columns of sources and declarations, compared with the ledger.

The unit and the columns are terms of the account: fixed by the first opening, refused when they are others later, and
fixed anew by an operator's entry alone. Bounds, categories and limits may change; each change becomes an entry.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tacit.core.errors import EngineError, InputError
from tacit.ledger.protection import Binding
from tacit.project.fingerprints import Fingerprint
from tacit.query.canonical_unit import ROW, unit_path, unit_type
from tacit.query.types import Value

if TYPE_CHECKING:
    from tacit.ledger import Ledger
    from tacit.query.catalog import Catalog, Column, Table

__all__ = ["BoundUnits", "declared_terms", "unit_terms"]

#: A list of categories that is longer is kept as its length and digest.
_LONGEST: Final = 400


def unit_terms(catalog: Catalog) -> dict[str, dict[str, str]]:
    """By population that a table is about: what one person of it is, as the ledger keeps it."""
    found = {}
    for table in catalog.tables:
        if table.population is not None and not table.public:
            kind = unit_type(catalog, table.population)
            found[table.population] = {"unit": ROW} if kind is None else {"unit": "id", "type": str(kind)}
    return found


class BoundUnits:
    """The units of a project's populations and the columns that name them.

    Args:
        catalog: the tables.
        ledger: keeps what was fixed.
        veil: what the ledger gets to see of marks.
    """

    def __init__(self, catalog: Catalog, ledger: Ledger, veil: Callable[[str], str]) -> None:
        self._catalog = catalog
        self._ledger = ledger
        self._veil = veil
        self._entries: dict[str, int] = {}

    def check(self, found: Iterable[tuple[Table, Fingerprint]]) -> None:
        """Compare everything with what was fixed, and tables of this project with each other; writes nothing.

        Raises:
            InputError: naming the table, or the two tables.
        """
        for population, unit in unit_terms(self._catalog).items():
            self._ledger.units.check_unit(population, unit)
        for population, binding in self.bindings(found):
            self._ledger.units.check_column(population, binding)

    def bindings(self, found: Iterable[tuple[Table, Fingerprint]]) -> list[tuple[str, Binding]]:
        """The population and what the ledger keeps, of every protected source.

        Raises:
            InputError: two tables read the same rows and name persons by two columns.
        """
        first: dict[str, tuple[str, str]] = {}
        listed = []
        for table, fingerprint in found:
            binding = self.binding(table, fingerprint)
            if binding is None or table.population is None:
                continue
            listed.append((table.population, binding))
            for mark in binding.rows:
                other, column = first.setdefault(mark, (table.name, binding.column))
                if column != binding.column:
                    raise InputError(
                        f"tables.{table.name}.unit",
                        f"reads the same rows as {other}, where persons are named by {column!r} and here by "
                        f"{binding.column!r}: a source has one unit; declare the same one, or leave one table out",
                    )
        return listed

    def fix(self) -> None:
        """Fix the units of all populations, where that is not done."""
        for population, unit in unit_terms(self._catalog).items():
            self._ledger.units.ensure_unit(population, unit)
            self._entries[population] = self._ledger.unit_entry(population)

    def bind(self, table: Table, fingerprint: Fingerprint) -> None:
        """Fix the column of a source that names the person, where that is not done.

        Raises:
            InputError: it is known with another column.
        """
        binding = self.binding(table, fingerprint)
        if binding is not None and table.population is not None:
            self._ledger.units.bind_column(table.population, binding)

    def binding(self, table: Table, fingerprint: Fingerprint) -> Binding | None:
        """Record of a protected source for the ledger; None for public ones."""
        if table.public or table.population is None:
            return None
        rows = fingerprint.own if fingerprint.rows is None else fingerprint.rows
        marks = tuple(dict.fromkeys(self._veil(f"rows {mark}") for mark in rows))
        return Binding(table.name, marks, unit_path(self._catalog, table))

    def still(self, populations: Iterable[str]) -> None:
        """Stop where an operator has fixed a unit anew since this project was opened.

        Raises:
            EngineError: the project must be opened again.
        """
        for population in populations:
            if self._ledger.unit_entry(population) != self._entries.get(population, 0):
                raise EngineError(f"the unit of {population} was fixed anew; open the project again")


def declared_terms(catalog: Catalog, table: Table) -> dict[str, str]:
    """Declarations of a project about a protected table and its columns, by name, as plain text."""
    terms = {
        "unit": unit_path(catalog, table),
        "max_groups": str(table.max_groups),
        "max_rows": str(table.max_rows),
    }
    for column in table.columns:
        for word, said in _said(column).items():
            terms[f"{column.name.lower()}.{word}"] = said
    return terms


def _said(column: Column) -> Mapping[str, str]:
    said = {"type": str(column.type)}
    if column.bounds is not None:
        said["bounds"] = " to ".join(_text(end) for end in column.bounds)
    if column.step is not None:
        said["step"] = str(column.step)
    if column.categories is not None:
        listed = ", ".join("NULL" if value is None else repr(_text(value)) for value in column.categories)
        digest = hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()
        many = f"{len(column.categories)} values with digest {digest}"
        said["categories"] = listed if len(listed) <= _LONGEST else many
    if not column.nullable:
        said["nullable"] = "no"
    if column.unique:
        said["unique"] = "yes"
    return said


def _text(value: Value) -> str:
    return value.isoformat() if isinstance(value, dt.date) else str(value)
