"""Binding of sources to the populations they protect.

Binding happens when a project is opened and again whenever a source has changed: a known source under another
population is refused, and so is one that is suddenly called public. A changed file is a new version under the same
account.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tacit.core.errors import EngineError, InputError
from tacit.engines.protocol import Engine
from tacit.ledger import Ledger
from tacit.project.file_columns import Shape, shape_of
from tacit.project.fingerprints import Digests, Fingerprint
from tacit.project.source import Source
from tacit.project.unit_binding import BoundUnits
from tacit.query.catalog import Catalog, Table
from tacit.query.relational.algebra import RelationNode, Scan, sources

__all__ = ["SourceBinder", "scanned"]


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
        """Names the content of some tables as it is now."""
        try:
            read = [table for name in tables if (table := self._catalog.table(name)) is not None]
            self._units.still(dict.fromkeys(table.population for table in read if table.population is not None))
            found = [self._look(table) for table in read]
        except InputError as problem:
            # Names and places of files are the operator's business.
            raise EngineError(str(problem)) from None
        return self._veil("\n".join(found))

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
        """Fingerprint of the source of a table now."""
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


def scanned(node: RelationNode) -> Iterator[str]:
    """The tables that a relation reads, those that lead to the unit included, in order, each once."""
    return iter(dict.fromkeys(_scans(node)))


def _scans(node: RelationNode) -> Iterator[str]:
    if isinstance(node, Scan):
        yield node.table
        yield from (hop.table for hop in node.path)
    for part in sources(node):
        yield from _scans(part)
