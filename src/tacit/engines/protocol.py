"""Engine protocol: exact integer measurements of owned relations, rows of public ones.

An engine promises, for one final aggregation:

* rows of the relation and values of expressions as :mod:`tacit.query` defines them (no row can fail);
* every unit bounded as ``semantics.md`` section 3 says, by a rule that reads that unit's rows alone;
* integers that depend on the multiset of rows only: not on their order, on threads, or on memory;
* no words about data: any failure is an :class:`~tacit.core.errors.EngineError` that carries an id.
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
    """The text with variables of the environment put in, each as ``spelled`` writes it.

    Raises:
        InputError: one of them is not set. It is named; the text is not quoted.
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
        final: what to measure.
        key_secret: decides, with a unit's own rows, which of its groups and values are kept. It belongs to the data
            set and stays the same, so that equal queries keep equal rows. Privacy does not rest on its secrecy.
        timeout: seconds after which the work is interrupted; None for the engine's own limit.
        progress: told now and then, from any thread, what percentage has been read; 0 while that is not known. Data
            decides it, so it is for the holder of the data alone.
        bias: the table of what bounding leaves out, to be counted on the same state of the data.
    """

    final: FinalAggregation
    key_secret: bytes
    timeout: float | None = None
    progress: Callable[[float], None] | None = field(default=None, compare=False, repr=False)
    bias: BiasTable | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Exact integers, before noise. They never leave ``engines/`` and ``curator/``.

    Args:
        keys: group keys: all public ones in product order (the last key varies fastest), or those present in the
            data, sorted.
        raw_units: for each key, how many units count in it after bounding; int64.
        raw: one array of integers per measure, int64 or Python's own where 64 bits might not do: one number per key,
            or for LEAVES and CATEGORIES one row of ``width`` numbers per key; for PLACES one array per key, of
            two columns: places that occur, ascending, and their counts.
        raw_bias: number of units in each cell of the table of what bounding leaves out; None where it was not asked
            for, or the engine has to be asked for it as for any other query.
    """

    keys: tuple[tuple[Value | None, ...], ...]
    raw_units: NDArray[np.int64]
    raw: tuple[NDArray[Any], ...]
    raw_bias: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Identity of a table of a database, in any project and under any name.

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


@dataclass(frozen=True)
class Limits:
    """Resources of one engine; each engine says which of them it knows.

    Args:
        memory: a size such as ``"4GB"``; a query that needs more fails, or is spilled by a server. None for the
            engine's own limit.
        threads: how many cores, or helpers of a server's process; None for the engine's own limit.
        seconds: how long one query may take; None for no limit.
        spill: a directory for intermediate rows that exceed memory; None to keep them off disk.
    """

    memory: str | None = None
    threads: int | None = None
    seconds: float | None = None
    spill: str | None = None


class SourceLike(Protocol):
    """Rows of a table as engines are told of them; :class:`DataSource` is one."""

    @property
    def kind(self) -> str:
        """``"parquet"``, ``"csv"``, ``"duckdb"``, ``"frame"`` or ``"table"``."""

    @property
    def path(self) -> str | None:
        """A file or pattern; for ``"duckdb"``, ``file#table``; for ``"table"`` its name."""

    @property
    def frame(self) -> Any:
        """An Arrow table, or a pandas, Polars or Spark frame."""

    @property
    def csv(self) -> CsvFormat:
        """Form of CSV files."""


@dataclass(frozen=True)
class DataSource:
    """A file, a pattern of files, a table of a DuckDB file (``file#table``) or of a server, or a frame in memory."""

    kind: str
    path: str | None = None
    frame: Any = field(default=None, repr=False, compare=False)
    csv: CsvFormat = field(default_factory=CsvFormat)


@dataclass(frozen=True)
class DoctorCheck:
    """One check of ``tacit doctor``: its name, whether it passed, the finding, and the remedy."""

    name: str
    ok: bool
    words: str
    remedy: str = ""


class Engine(Closing):
    """A database that can be measured.

    Attributes:
        operation_seconds: processor time of one row operation (:mod:`tacit.query.planning.work`) at most, as
            ``benchmarks/work_search.py`` measures it.
        start_seconds: of a query on few rows.
    """

    operation_seconds: ClassVar[float] = 5e-8
    start_seconds: ClassVar[float] = 0.02

    @abstractmethod
    def check(self, final: FinalAggregation) -> None:
        """Refuse what this engine cannot compute exactly; reads no data and costs nothing.

        Raises:
            Refusal: naming what to write instead.
        """

    def check_bias(self, final: FinalAggregation, table: BiasTable) -> None:
        """The same for the table of what bounding leaves out of a query that was checked.

        Raises:
            Refusal: naming what to write instead.
        """
        # The planner is loaded where a query is planned, and not where an engine is named.
        from tacit.query.planning.bias import bias_query

        self.check(bias_query(final, table))

    @abstractmethod
    def measure(self, work: MeasurementTask) -> Measurements:
        """Read the data.

        Raises:
            EngineError: for any failure, with an id and no other word.
        """

    def check_rows(self, relation: RelationNode) -> None:
        """Refuse a public relation that this engine cannot compute exactly; reads no data. None by default.

        Raises:
            Refusal: naming what to write instead.
        """

    @abstractmethod
    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """All rows of a relation that is public throughout, sorted by its columns with NULL last.

        Only steps above the final aggregation need them. An engine checks for itself that every table the relation
        reads is public.

        Raises:
            Refusal: when there are more than ``most``, which is a matter of public data.
            EngineError: for any failure, with an id and no other word.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """Stop all queries that run; their callers get an EngineError."""

    def interrupt_thread(self, thread: int) -> None:
        """Stop what a thread runs, by its identifier; its caller gets an EngineError."""

    def explain(
        self,
        final: FinalAggregation,  # noqa: ARG002 - an engine may have no statements
        bias: BiasTable | None = None,  # noqa: ARG002
    ) -> tuple[str, ...]:
        """The statements that would run, for people; reads no data. None by default."""
        return ()

    def check_examples(self, relation: RelationNode) -> None:  # noqa: ARG002 - an engine may read none
        """Refuse rows that cannot be read for a model, by default all; reads no data.

        Raises:
            InputError: this engine reads none.
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
        """One row of each unit, for a model that is trained in this process: ``numbers`` and ``label`` are slots."""
        self.check_examples(relation)
        raise InternalError("an engine that accepts rows for a model has to read them")

    def marks(self, table: str) -> Marks | None:  # noqa: ARG002 - most tables are files
        """By what a table of the catalog is recognised; reads no row. None, the default, for tables that are files."""
        return None

    def is_view(self, table: str) -> bool:  # noqa: ARG002 - most engines read no files with views
        """Whether a table of the catalog may have rows of any table in its file; False by default."""
        return False
