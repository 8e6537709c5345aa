"""Engine protocol: exact integer measurements of owned relations, rows of public ones.

An engine promises, for one final aggregation:

* rows of the relation and values of expressions as :mod:`tacit.query` defines them (no row can fail);
* contribution bounds enforced per unit as ``semantics.md`` section 3 says, by a rule that reads only that unit's rows;
* integers that depend only on the multiset of rows: not on their order, on threads, or on memory;
* errors that reveal no data: any failure is an :class:`~tacit.core.errors.EngineError` that carries an id.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tacit.core.closing import Closing
from tacit.core.errors import InputError, InternalError
from tacit.engines.files import CsvFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tacit.query.planning.bias import BiasTable
    from tacit.query.query import FinalAggregation
    from tacit.query.relational.algebra import RelationNode
    from tacit.query.types import Value


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(text: str, spelled: Callable[[str], str] = str) -> str:
    """Return the text with each ``${NAME}`` replaced by that environment variable, written by ``spelled``.

    Raises:
        InputError: a variable is not set. The message names it and does not quote the text.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise InputError("engine", f"needs the environment variable {name}, which is not set")
        return spelled(os.environ[name])

    return _VARIABLE.sub(value, text)


@dataclass(frozen=True, slots=True)
class MeasurementTask:
    """One query for an engine.

    Args:
        final: the final aggregation to measure.
        key_secret: decides, with a unit's own rows, which of its groups and values are kept. Each data set has one
            that never changes, so that equal queries keep equal rows. Privacy does not rest on its secrecy.
        timeout: seconds after which the work is interrupted; None for the engine's own limit.
        bias: the bias table to count on the same state of the data; None for no table.
    """

    final: FinalAggregation
    key_secret: bytes
    timeout: float | None = None
    bias: BiasTable | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Exact integer measurements before noise. They never leave ``engines/`` and ``curator/``.

    Args:
        keys: group keys: all public ones in product order (the last key varies fastest), or those present in the
            data, sorted.
        raw_units: for each key, number of units with a row in that group after bounding; int64.
        raw: one array of integers per measure, int64, or Python integers where 64 bits may not suffice: one number
            per key, or for LEAVES and CATEGORIES one row of ``width`` numbers per key; for PLACES one array per key
            with two columns: the places that occur, ascending, and their counts.
        raw_bias: number of units in each cell of the bias table; None if no table was requested, or if the engine
            needs a separate query for it.
    """

    keys: tuple[tuple[Value | None, ...], ...]
    raw_units: NDArray[np.int64]
    raw: tuple[NDArray[Any], ...]
    raw_bias: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Identifiers of a database table, the same in every project and under every name.

    Args:
        version: unchanged as long as it is the same table.
        marks: identifiers, any one of which is enough to recognise the table.
        own: the identifiers that no other table shares.
        rows: identifiers of the relations whose rows the table shows unchanged, under the same column names; None
            for ``own``.
    """

    version: str
    marks: tuple[str, ...]
    own: tuple[str, ...]
    rows: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Limits:
    """Resource limits of one engine; each engine documents which of them it supports.

    Args:
        memory: a size such as ``"4GB"``; a query that needs more fails, or is spilled by a server. None for the
            engine's own limit.
        threads: number of cores, or of parallel workers of a server's process; None for the engine's own limit.
        seconds: longest time of one query; None for no limit.
        spill: directory for intermediate rows that exceed memory; None to keep them off disk.
    """

    memory: str | None = None
    threads: int | None = None
    seconds: float | None = None
    spill: str | None = None


class SourceLike(Protocol):
    """Where the rows of one table are; :class:`DataSource` implements it."""

    @property
    def kind(self) -> str:
        """``"parquet"``, ``"csv"``, ``"duckdb"``, ``"frame"`` or ``"table"``."""

    @property
    def path(self) -> str | None:
        """File name or pattern; for ``"duckdb"``, ``file#table``; for ``"table"``, the table's name."""

    @property
    def frame(self) -> Any:
        """An Arrow table, or a pandas, Polars or Spark frame."""

    @property
    def csv(self) -> CsvFormat:
        """Format of CSV files."""


@dataclass(frozen=True)
class DataSource:
    """A file, a pattern of files, a table of a DuckDB file (``file#table``) or of a server, or a frame in memory."""

    kind: str
    path: str | None = None
    frame: Any = field(default=None, repr=False, compare=False)
    csv: CsvFormat = field(default_factory=CsvFormat)


@dataclass(frozen=True)
class DoctorCheck:
    """Result of one check of ``tacit doctor``: its name, whether it passed, the finding, and the remedy."""

    name: str
    ok: bool
    words: str
    remedy: str = ""


class Engine(Closing):
    """Engine that measures the tables of one database.

    Attributes:
        operation_seconds: upper bound of the processor time of one row operation (:mod:`tacit.query.planning.work`),
            in seconds, as ``benchmarks/work_search.py`` measures it.
        start_seconds: time of a query on few rows, in seconds.
    """

    operation_seconds: ClassVar[float] = 5e-8
    start_seconds: ClassVar[float] = 0.02

    @abstractmethod
    def check(self, final: FinalAggregation) -> None:
        """Refuse a query that this engine cannot compute exactly; reads no data and is free.

        Raises:
            Refusal: naming what to write instead.
        """

    def check_bias(self, final: FinalAggregation, table: BiasTable) -> None:
        """Refuse a bias table that this engine cannot compute exactly; its query has passed :meth:`check`.

        Raises:
            Refusal: naming what to write instead.
        """
        # Imported here so that naming an engine does not load the planner.
        from tacit.query.planning.bias import bias_query

        self.check(bias_query(final, table))

    @abstractmethod
    def measure(self, work: MeasurementTask) -> Measurements:
        """Compute the exact measurements of one query.

        Raises:
            EngineError: for any failure; it carries an id and no detail.
        """

    def check_rows(self, relation: RelationNode) -> None:
        """Refuse a public relation that this engine cannot compute exactly; reads no data. Refuses none by default.

        Raises:
            Refusal: naming what to write instead.
        """

    @abstractmethod
    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """Return all rows of a public relation, sorted by its columns with NULL last.

        Only steps above the final aggregation need these rows. The engine itself checks that every table the relation
        reads is public.

        Raises:
            Refusal: when there are more than ``most`` rows; their number is public.
            EngineError: for any failure; it carries an id and no detail.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """Interrupt all running queries; their callers get an EngineError."""

    def interrupt_thread(self, thread: int) -> None:
        """Interrupt the query that a thread runs, by the thread's identifier; its caller gets an EngineError."""

    def explain(
        self,
        final: FinalAggregation,  # noqa: ARG002 - an engine may have no statements
        bias: BiasTable | None = None,  # noqa: ARG002
    ) -> tuple[str, ...]:
        """Return the SQL statements that would run, for people to read; reads no data. Empty by default."""
        return ()

    def check_examples(self, relation: RelationNode) -> None:  # noqa: ARG002 - an engine may read none
        """Refuse a relation whose rows cannot be read to train a model, by default every one; reads no data.

        Raises:
            InputError: this engine reads no rows for models.
            Refusal: naming what to write instead.
        """
        raise InputError("estimator", "this project's engine cannot read rows for a model yet; use DuckDB")

    def examples(
        self,
        relation: RelationNode,
        numbers: Sequence[int],  # noqa: ARG002 - an engine may read none
        label: int | None,  # noqa: ARG002
        key_secret: bytes,  # noqa: ARG002
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        """Read one row of each unit, to train a model in this process.

        Args:
            relation: the protected relation.
            numbers: slots of the features.
            label: slot of the label; None for no label.
            key_secret: decides, with a unit's own rows, which row is read.
        """
        self.check_examples(relation)
        raise InternalError("an engine that accepts rows for a model has to read them")

    def marks(self, table: str) -> Marks | None:  # noqa: ARG002 - most tables are files
        """Return the identifiers of a database table; None, the default, for tables that are files. Reads no row."""
        return None

    def is_view(self, table: str) -> bool:  # noqa: ARG002 - most engines read no files with views
        """Whether a catalog table is a view, which may show rows of any table in its file; False by default."""
        return False
