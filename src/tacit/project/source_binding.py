"""Binding of sources and units to the populations they protect.

Binding happens when a project is opened and again whenever a source has changed: a known source under another
population is refused, and so is one that is suddenly called public. A changed file is a new version under the same
account.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from tacit.core.errors import EngineError, InputError, MissingSourceError
from tacit.engines.files import is_gone, schema_text
from tacit.engines.protocol import Engine
from tacit.ledger import Ledger
from tacit.ledger.protection import Binding
from tacit.project.source import Digests, Fingerprint, Source
from tacit.query.catalog import ROW, Catalog, Column, Table, unit_path, unit_type
from tacit.query.types import Value

#: The different lists of columns that the files of a source have.
Shape = frozenset[str]
_LONGEST_HEADER: Final = 2**20


class SourceBinder:
    """Sources of a project and their state; safe to use from several threads.

    Args:
        catalog: says whose each table is.
        sources: by table.
        ledger: remembers fingerprints.
        digests: computes them.
        veil: what the ledger gets to see of them: a digest of few or guessable rows would betray them.
        engine: knows the tables of a database; it has no files to look at.
    """

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, Source],
        ledger: Ledger,
        digests: Digests,
        veil: Callable[[str], str],
        engine: Engine | None = None,
    ) -> None:
        self._catalog = catalog
        self._sources = dict(sources)
        self._ledger = ledger
        self._digests = digests
        self._veil = veil
        self._engine = engine
        self._units = BoundUnits(catalog, ledger, veil)
        self._seen: dict[str, Fingerprint] = {}
        self._shapes: dict[str, Shape] = {}
        self._lock = threading.Lock()

    def bind(self) -> None:
        """Look at every source, and bind it.

        Raises:
            InputError: a source belongs to another population, which is named, or its persons are named by another
                column than before. Units and columns are compared before anything is written.
        """
        found = {table.name: self.fingerprint(table) for table in self._catalog.tables}
        self._units.check((table, found[table.name]) for table in self._catalog.tables)
        self._units.fix()
        # Protected ones first, so that a source cannot be both.
        for table in sorted(self._catalog.tables, key=lambda table: table.public):
            self._look(table, found[table.name])

    def version(self, tables: Iterable[str]) -> str:
        """Return a name for the present content of some tables."""
        try:
            read = [table for name in tables if (table := self._catalog.table(name)) is not None]
            self._units.still(dict.fromkeys(table.population for table in read if table.population is not None))
            found = [self._look(table) for table in read]
        except InputError as problem:
            # Names and places of files are the operator's business.
            raise EngineError(str(problem)) from None
        return self._veil("\n".join(found))

    def check_present(self) -> None:
        """Refuse where the files of a source are gone; nothing is read.

        Raises:
            MissingSourceError: naming the place, for the operator.
        """
        for name, source in self._sources.items():
            if is_gone(source.kind, source.path):
                raise MissingSourceError(f"tables.{name}.source: there is no file {source.path}")

    def _look(self, table: Table, found: Fingerprint | None = None) -> str:
        now = found or self.fingerprint(table)
        with self._lock:
            known = self._seen.get(table.name)
        if known != now:
            self._check_shape(table)
            self._bind(table, now)
            with self._lock:
                self._seen[table.name] = now
        return f"{table.name.lower()} {now.version}"

    def fingerprint(self, table: Table) -> Fingerprint:
        source = self._sources[table.name]
        # A table changes all the time, and when it did must not show: its version is its owner's word, and until
        # another is said an answer that was bought stays the answer.
        known = self._engine.marks(table.name) if source.is_elsewhere and self._engine is not None else None
        if known is None:
            found = self._digests.of(source, f"tables.{table.name}.source")
            # A view has rows of other tables of its file, so the file counts.
            is_view = self._engine is not None and source.inside != "" and self._engine.is_view(table.name)
            return replace(found, own=found.marks, rows=found.own) if is_view else found
        return Fingerprint(f"{known.version} {source.version or ''}", known.marks, known.own, known.rows)

    def _check_shape(self, table: Table) -> None:
        """Refuse a source that was written anew with other columns since the project was opened."""
        where = f"tables.{table.name}.source"
        now = shape_of(self._sources[table.name], where)
        if not now <= self._shapes.setdefault(table.name, now):
            raise InputError(where, "has other columns than when the project was opened; open it again")

    def _bind(self, table: Table, now: Fingerprint) -> None:
        if table.population is not None and not table.public:
            try:
                self._ledger.bind_source(table.population, [*map(self._veil, now.marks)], name=table.name)
            except InputError as problem:
                raise InputError(f"tables.{table.name}.population", problem.problem) from None
            self._units.bind(table, now)
            return
        # A public table may lie in a DuckDB file beside protected ones, so there the table counts, not the file.
        for mark in now.own:
            owner = self._ledger.source_of(self._veil(mark))
            if owner is not None:
                raise InputError(
                    f"tables.{table.name}.public",
                    f"this source holds persons of the population {owner!r}, and cannot be public",
                )


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
    """The units of a project's populations and the columns that name them, compared with the ledger.

    Units and columns are terms of the account: fixed by the first opening, refused when they are others later, and
    fixed anew by an operator's entry alone. Bounds, categories and limits may change; each change becomes an entry.
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
    ceilings = {"max_groups_limit": table.max_groups_limit, "max_rows_limit": table.max_rows_limit}
    terms |= {name: str(most) for name, most in ceilings.items() if most is not None}
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


def shape_of(source: Source, where: str) -> Shape:
    """The columns of a source's files as they are now; of frames and databases nothing, for engines look at those.

    The reading of a column, and that it can name a person, was settled when the project was opened. A CSV file whose
    columns were exchanged, or a Parquet file whose ids have become doubles, would be read by what was settled for
    another one.

    Raises:
        InputError: a file cannot be read.
    """
    if source.is_elsewhere or source.kind not in ("parquet", "csv"):
        return frozenset()
    found = set()
    for file in source.files:
        try:
            if source.kind == "parquet":
                found.add(schema_text(file))
            else:
                with file.open("rb") as stream:
                    found.add(repr(stream.readline(_LONGEST_HEADER)))
        except (OSError, InputError):
            raise InputError(where, f"cannot read the columns of {file.name}") from None
    return frozenset(found)
