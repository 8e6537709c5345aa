"""Engine protocol: exact integer measurements of owned relations, rows of public ones.

An engine promises, for one final aggregation:

* rows of the relation and values of expressions as :mod:`tacit.query` defines them (no row can fail);
* every unit bounded as ``semantics.md`` section 3 says, by a rule that reads that unit's rows alone;
* integers that depend on the multiset of rows only: not on their order, on threads, or on memory;
* no words about data: any failure is an :class:`~tacit.core.errors.EngineError` that carries an id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import Value

__all__ = ["Engine", "HasViews", "Marks", "MeasurementTask", "Measurements", "Recognises"]


@dataclass(frozen=True, slots=True)
class MeasurementTask:
    """One question for an engine.

    Args:
        final: what to measure.
        key_secret: decides, with a unit's own rows, which of its groups and values are kept. It belongs to the data
            set and stays the same, so that equal questions keep equal rows. Privacy does not rest on its secrecy.
        timeout: seconds after which the work is interrupted; None for the engine's own limit.
        progress: told now and then, from any thread, what percentage has been read; 0 while that is not known. Data
            decides it, so it is for whoever holds the data and for nobody else.
    """

    final: FinalAggregation
    key_secret: bytes
    timeout: float | None = None
    progress: Callable[[float], None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Exact integers, before noise. They never leave ``engines/`` and ``curator/``.

    Args:
        keys: group keys: all public ones in product order (the last key varies fastest), or those present in the
            data, sorted.
        raw_units: for each key, how many units count in it after bounding; int64.
        raw: one array of integers per measure, int64 or Python's own where 64 bits might not do: one number per key,
            or for LEAVES and CATEGORIES one row of ``width`` numbers per key.
    """

    keys: tuple[tuple[Value | None, ...], ...]
    raw_units: NDArray[np.int64]
    raw: tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """By what a table of a database is recognised, in any project and under any name.

    Args:
        version: the same as long as it is the same table.
        marks: any one of them is enough.
        own: those that no other table shares.
        rows: those of relations whose rows it has as they are, under the same names of columns; None for ``own``.
    """

    version: str
    marks: tuple[str, ...]
    own: tuple[str, ...]
    rows: tuple[str, ...] | None = None


@runtime_checkable
class Engine(Protocol):
    """A database that can be measured."""

    def check(self, final: FinalAggregation) -> None:
        """Refuse what this engine cannot compute exactly; reads no data and costs nothing.

        Raises:
            Refusal: naming what to write instead.
        """

    def explain(self, final: FinalAggregation) -> tuple[str, ...]:
        """The statements that would run, for people; reads no data."""

    def measure(self, work: MeasurementTask) -> Measurements:
        """Read the data.

        Raises:
            EngineError: for any failure, with an id and no other word.
        """

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """All rows of a relation that is public throughout, sorted by its columns with NULL last.

        Only what stands above the final aggregation needs them. An engine checks for itself that every table the
        relation reads is public.

        Raises:
            Refusal: when there are more than ``most``, which is a matter of public data.
            EngineError: for any failure, with an id and no other word.
        """

    def interrupt(self) -> None:
        """Stop whatever is being measured; its callers get an EngineError."""

    def close(self) -> None:
        """Give everything back."""


@runtime_checkable
class Recognises(Protocol):
    """An engine whose tables are known to it and are no files."""

    def marks(self, table: str) -> Marks:
        """By what a table of the catalog is recognised; reads no row."""


@runtime_checkable
class HasViews(Protocol):
    """An engine that reads files in which views lie beside tables."""

    def is_view(self, table: str) -> bool:
        """Whether a table of the catalog may have rows of any table in its file."""
