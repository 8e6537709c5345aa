"""Catalogues of one worker: a database for each part of the catalogue that people see, and answers that are kept.

Public metadata do not change under the digest of a catalogue, so that an answer is a function of that digest, of what
the person sees, of who asks, of the text and of its parameters. All of them are in the key of a kept answer.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from tacit.releases.planner import WeightedLRUCache
from tacit.server.api.thread_pools import FairExecutor
from tacit.server.pgwire.statements import WireStatement, split_statements
from tacit.server.pgwire.system_catalog import CatalogueResult, SystemCatalog

if TYPE_CHECKING:
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access

#: Bytes of each cache, about.
_CACHED: Final = 8_000_000
#: Memory of a kept cell, as a value and in both formats; and of a statement, for each character of its text.
_PER_CELL: Final = 180
_PER_CHARACTER: Final = 40
#: Longer texts are read anew each time.
_LONGEST_KEPT: Final = 20_000
_MOST_CATALOGUES: Final = 16
#: Threads for queries of the catalogue, how many may wait, and threads for one analyst.
_POOL: Final = (2, 128, 1)


class Catalogues:
    """Tables of the system of one worker, and what is kept of queries about them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Analysts take turns, apart from quotes and budgets: a query may take seconds.
        self.pool = FairExecutor("catalogue", *_POOL)
        self._found: dict[frozenset[str] | None, tuple[str, SystemCatalog]] = {}
        self.results: WeightedLRUCache[tuple[Any, ...], CatalogueResult] = WeightedLRUCache(_CACHED)
        self.statements: WeightedLRUCache[tuple[str, Collection[str]], tuple[WireStatement, ...]] = WeightedLRUCache(
            _CACHED
        )
        #: Types of parameters.
        self.types: WeightedLRUCache[tuple[Any, ...], tuple[int, ...]] = WeightedLRUCache(_CACHED)

    def of(self, runtime: WorkerRuntime, access: Access) -> SystemCatalog:
        """The one for a person; for a thread."""
        catalog = runtime.service.catalog(access)
        key = access.person.populations
        with self._lock:
            known = self._found.get(key)
            if known is None or known[0] != catalog.digest:
                known = (catalog.digest, SystemCatalog(catalog, runtime.service.curator.name))
                if len(self._found) >= _MOST_CATALOGUES:
                    self._found.pop(next(iter(self._found)), None)
                self._found[key] = known
            return known[1]

    def split(self, sql: str, names: frozenset[str]) -> list[WireStatement]:
        """As :func:`split_statements`; equal texts are read once."""
        if len(sql) > _LONGEST_KEPT:
            return split_statements(sql, names)
        known = self.statements.get((sql, names))
        if known is None:
            known = tuple(split_statements(sql, names))
            self.statements.put((sql, names), known, _PER_CHARACTER * (len(sql) + 10))
        return list(known)

    def keep(self, key: tuple[Any, ...], found: CatalogueResult, text: str) -> None:
        """Keep an answer that stays the same."""
        cells = _PER_CELL * (len(found.rows) + 1) * (len(found.columns) + 1)
        # Texts are kept as values and in both formats.
        self.results.put(key, found, len(text) + cells + 3 * found.characters)

    def close(self) -> None:
        """Accept nothing new."""
        self.pool.close()
