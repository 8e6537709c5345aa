"""Engine of a database that speaks SQL: check, explain, measure, public rows, training rows, interrupt, close.

A database adds its tables, its sessions and the writer of its statements. Any failure (memory, time, a damaged file, a
lost connection, a bug in Tacit) becomes an EngineError that carries an id; a database's own message can quote data and
goes only to the logger ``tacit.operator``.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from operator import lt
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import EngineError, InternalError, TacitError
from tacit.engines.protocol import Engine, Limits, Measurements, MeasurementTask
from tacit.engines.sql.bounding import Chooser, Groups, check_width, fits_64_bits
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.relations import StoredTable, check_windows, has_row_units, relation_sql, tables_of
from tacit.engines.sql.statements import SPREAD, KeyTotals, SpreadRows, Statement, Writer, cells_and_rows
from tacit.query.catalog import Catalog
from tacit.query.planning.bias import BiasTable, bias_query
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, is_public_throughout, walk_relations
from tacit.query.types import DOUBLE, Kind, SqlType, Value, sort_key

Result = TypeVar("Result")
_OPERATOR = logging.getLogger("tacit.operator")


class SqlSession(Protocol):
    """A session of one query; all its statements read one state of the data."""

    def rows(self, sql: str) -> list[Any]:
        """Return all rows of a statement."""

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
        """Return the first columns of a statement's result, one per flag.

        A column is an array of objects with None for NULL where its flag is true, else of floats with NaN for NULL.
        """

    def interrupt(self) -> object:
        """Stop the session; statements that have not started yet will not run."""


class Answered(NamedTuple):
    """Result rows of a statement, with the units per cell of the bias table if it counted them."""

    statement: Statement
    rows: list[Any] | SpreadRows | KeyTotals
    bias: Sequence[int] | None = None


class ActiveSessions:
    """Running sessions, which another thread can interrupt; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Running sessions with the identifiers of the threads that run them.
        self._sessions: dict[SqlSession, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @contextmanager
    def entered(self, session: SqlSession) -> Iterator[None]:
        """Register a session as running inside this block."""
        with self._lock:
            self._sessions[session] = threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                self._sessions.pop(session, None)

    def interrupt(self, thread: int | None = None) -> None:
        """Interrupt all sessions, or only those that ``thread`` runs."""
        with self._lock:
            sessions = [session for session, own in self._sessions.items() if thread in (None, own)]
        # Outside the lock: an interrupt may be slow, and other sessions start and end meanwhile.
        for session in sessions:
            session.interrupt()


class SqlEngine(Engine):
    """Engine that measures tables by SQL statements."""

    dialect: ClassVar[Dialect]
    writer: ClassVar[type[Writer]]

    def __init__(self, catalog: Catalog, limits: Limits | None) -> None:
        self._catalog = catalog
        self._limits = limits or Limits()
        self._public = frozenset(table.name.lower() for table in catalog.tables if table.public)
        self._running = ActiveSessions()

    # -- methods that each database implements

    @property
    @abstractmethod
    def _tables(self) -> Mapping[str, StoredTable]:
        """The stored tables by lower-case name."""

    @abstractmethod
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> AbstractContextManager[tuple[SqlSession, Mapping[str, StoredTable]]]:
        """Open a session that reads a relation, together with the stored tables it reads.

        ``work`` is None where the session is not for measuring.
        """

    def _answer(self, session: Any, statement: Any) -> Answered:
        """Run a statement."""
        return Answered(statement, session.rows(statement.sql))

    def _named_tables(self) -> Mapping[str, StoredTable]:
        """Return the stored tables for :meth:`explain`, which shows them by their catalog names."""
        return {name: replace(stored, scan=self.dialect.quoted(name)) for name, stored in self._tables.items()}

    def _shown(self, statement: Any) -> str:
        """Return the text of a statement for :meth:`explain`."""
        return str(statement.sql)

    def _operator_words(self, relation: RelationNode) -> str:
        """Return a relation's sources for the operator's log: a database may not say which file or table failed."""
        return "; ".join(self._tables[table].scan for table in sorted(tables_of(relation)))

    # -- methods shared by all databases

    def check(self, final: FinalAggregation) -> None:
        """Refuse a query that cannot be computed exactly or has no SQL; reads no data."""
        for measure in final.measures:
            check_width(measure)
        check_windows(self.dialect, final.nodes)
        self._written(final)

    def check_bias(self, final: FinalAggregation, table: BiasTable) -> None:
        """Refuse a bias table only if it needs a separate statement that cannot be computed exactly."""
        made = self._written(final, table)
        if not any(statement.tells_bias for statement in made):
            self.check(bias_query(final, table))

    def _written(self, final: FinalAggregation, bias: BiasTable | None = None) -> Sequence[Statement]:
        """Return the statements of a query after writing their SQL.

        Raises:
            Refusal: a statement cannot be written.
        """
        made = self.writer.of(self.dialect, final, self._tables, b"secret", bias).statements()
        for statement in made:
            _ = statement.sql
        return made

    def explain(self, final: FinalAggregation, bias: BiasTable | None = None) -> tuple[str, ...]:
        """Return the statements of a final aggregation for people to read, without the key secret."""
        made = self.writer.of(self.dialect, final, self._named_tables(), b"secret", bias).statements()
        shown = tuple(map(self._shown, made))
        if bias is None or any(statement.tells_bias for statement in made):
            return shown
        return (*shown, *self.explain(bias_query(final, bias)))

    def measure(self, work: MeasurementTask) -> Measurements:
        """Run the statements, all of them on one state of the data."""
        self.check(work.final)
        return self._hidden(work.final.source, lambda: self._measure(work))

    def _measure(self, work: MeasurementTask) -> Measurements:
        with self._session(work.final.source, work) as (session, tables):
            answered = self._answers(session, work.final, tables, work)
            found = read_measurements(work.final, answered)
            if work.bias is None:
                return found
            cells: Any = next((each.bias for each in answered if each.bias is not None), None)
            if cells is None:
                query = bias_query(work.final, work.bias)
                cells = read_measurements(query, self._answers(session, query, tables, work)).raw[0]
        return replace(found, raw_bias=np.asarray(cells, dtype=np.int64))

    def _answers(
        self, session: SqlSession, final: FinalAggregation, tables: Mapping[str, StoredTable], work: MeasurementTask
    ) -> list[Answered]:
        """Run all statements of a final aggregation."""
        table = work.bias if final is work.final else None
        planned = self.writer.of(self.dialect, final, tables, work.key_secret, table).statements()
        # The first statement runs last: the others may already have computed its result.
        answered = [self._answer(session, statement) for statement in reversed(planned)][::-1]
        return answered if table is None else [with_cells(each, final, table) for each in answered]

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """Return all rows of a public relation, sorted; refuse more than ``most`` rows."""
        check_public(relation, self._public)
        self.check_rows(relation)

        def run() -> list[Any]:
            with self._session(relation, None) as (session, tables):
                return session.rows(rows_sql(self.dialect, relation, most, tables))

        return public_rows(self._hidden(relation, run), relation, most)

    def check_rows(self, relation: RelationNode) -> None:
        """Refuse windows that cannot be computed exactly; reads no data."""
        check_windows(self.dialect, walk_relations(relation))

    check_examples = check_rows

    def examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, key_secret: bytes
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        """Read one row of each unit: features as float64 with NaN for NULL, and labels with None for NULL.

        If a feature is a text, all features are objects: floats, and texts with None for NULL.
        """
        self.check_examples(relation)

        texts = [_example_type(relation.fields[slot].type) is not DOUBLE for slot in numbers]

        def run() -> list[NDArray[Any]]:
            with self._session(relation, None) as (session, tables):
                sql = examples_sql(self.dialect, relation, numbers, label, key_secret, tables)
                return session.columns(sql, [*texts, *([] if label is None else [True])])

        found = self._hidden(relation, run)
        raw = np.empty((len(found[0]) if found else 0, len(numbers)), dtype=object if any(texts) else np.float64)
        for place in range(len(texts)):
            raw[:, place] = found[place]
        return raw, None if label is None else found[-1]

    @property
    def limits(self) -> Limits:
        """Resource limits of one query."""
        return self._limits

    def _seconds(self, work: MeasurementTask | None) -> float | None:
        return self._limits.seconds if work is None or work.timeout is None else work.timeout

    def interrupt(self) -> None:
        self._running.interrupt()

    def interrupt_thread(self, thread: int) -> None:
        """Interrupt the statements that a thread runs."""
        self._running.interrupt(thread)

    def _hidden(self, relation: RelationNode, run: Callable[[], Result]) -> Result:
        return opaquely(run, lambda: self._operator_words(relation))


def opaquely(run: Callable[[], Result], read: Callable[[], str]) -> Result:
    """Return ``run()``; turn any exception but a TacitError into an :class:`EngineError` that carries only an id."""
    try:
        return run()
    except TacitError:
        raise
    except Exception:
        name = uuid.uuid4().hex
        _OPERATOR.exception("engine failure %s while reading %s", name, read())
    # Raised outside the handler so that the failure, whose message may quote data, is not chained to it.
    raise EngineError(name)


# -- Measurements from result rows: every public group, or private groups in key order.


def with_cells(answered: Answered, final: FinalAggregation, table: BiasTable) -> Answered:
    """Split the units per cell of the bias table from the group rows, if the statement counted them."""
    statement, rows, _ = answered
    if not statement.counts_cells or not isinstance(rows, list):
        return answered
    cells, groups = cells_and_rows(rows, table, Groups(final))
    return Answered(statement, groups, cells)


def read_measurements(final: FinalAggregation, answered: Sequence[Answered]) -> Measurements:
    """Convert the results of all statements into measurements."""
    groups = Groups(final)
    width = len(groups.columns)
    first = answered[0].rows
    if isinstance(first, SpreadRows):
        raise InternalError("the first statement is that of sums, or counts units")
    keys: tuple[KeyTuple, ...] | None = None
    places: dict[tuple[Any, ...], int] = {}
    if isinstance(first, KeyTotals):
        keys, places = listed_keys(first.keys, groups.types, alone=len(answered) == 1)
    if keys is None:
        first = first.rows() if isinstance(first, KeyTotals) else first
        public = groups.is_public
        keys, places = groups.numbered() if public else keys_in_order(groups, [tuple(row[:width]) for row in first])
    units = np.zeros(len(keys), dtype=np.int64)
    if answered[0].statement.is_spread and isinstance(first, list):
        for row in first:
            units[places[tuple(row[:width])]] += int(row[width + 1])
    arrays: dict[int, NDArray[Any]] = {}
    for statement, rows in [(answered[0].statement, first), *((other.statement, other.rows) for other in answered[1:])]:
        for index in statement.measures:
            arrays[index] = _empty(final.measures[index], len(keys))
        if statement.is_spread:
            (index,) = statement.measures
            if final.measures[index].kind.traits.unites and isinstance(rows, list):
                # One number per group, which may exceed 64 bits.
                for row in rows:
                    arrays[index][places[tuple(row[:width])], 0] += int(row[width + 1])
            else:
                own, found = rows if isinstance(rows, SpreadRows) else SpreadRows.of(rows, width)
                _spread(final.measures[index], arrays[index], [places[key] for key in own], found)
            continue
        if isinstance(rows, KeyTotals):
            # The same groups as the keys, in the same order.
            units += rows.numbers[0]
            for index, totals in zip(statement.measures, rows.numbers[1:], strict=True):
                arrays[index] += totals
            continue
        if not rows:
            continue
        columns = list(zip(*rows, strict=True))
        found_places = np.fromiter(map(places.__getitem__, zip(*columns[:width], strict=True)), np.int64, len(rows))
        # Added, not assigned: keys that differ in the database but are equal in Python are one group.
        np.add.at(units, found_places, np.fromiter(map(int, columns[width]), np.int64, len(rows)))
        for index, cells in zip(statement.measures, columns[width + 1 :], strict=True):
            _add(arrays[index], found_places, cells)
    raw = [_shaped(measure, arrays[index]) for index, measure in enumerate(final.measures)]
    return Measurements(keys, units, tuple(raw))


def _add(array: NDArray[Any], groups: NDArray[np.int64], cells: Sequence[Any]) -> None:
    """Add integers to the array entries of their groups."""
    if array.dtype != object:
        np.add.at(array, groups, np.fromiter(map(int, cells), np.int64, len(cells)))
        return
    for group, cell in zip(groups.tolist(), cells, strict=True):
        array[group] += int(cell)


def _spread(measure: Measure, array: NDArray[Any], groups: Sequence[int], found: Sequence[NDArray[np.int64]]) -> None:
    """Add places and counts of groups to an array.

    Counts of equal places are added: keys that differ in the database but are equal in Python are one group.
    """
    for group, cells in zip(groups, found, strict=True):
        if measure.kind is not MeasureKind.PLACES:
            np.add.at(array[group], cells[:, 0], cells[:, 1])
        elif not len(array[group]):
            array[group] = cells
        else:
            places, numbers = np.unique(np.append(array[group][:, 0], cells[:, 0]), return_inverse=True)
            counts = np.zeros(len(places), dtype=np.int64)
            np.add.at(counts, numbers, np.append(array[group][:, 1], cells[:, 1]))
            array[group] = np.column_stack((places, counts))


def _empty(measure: Measure, groups: int) -> NDArray[Any]:
    """Return zeros, int64 if no sum can exceed 64 bits, else Python integers; for PLACES, empty arrays."""
    if measure.kind is MeasureKind.PLACES:
        array = np.empty(groups, dtype=object)
        for group in range(groups):
            array[group] = np.zeros((0, 2), dtype=np.int64)
        return array
    narrow = measure.kind is not MeasureKind.DISTINCT_SUM or fits_64_bits(max(map(abs, measure.clamp)))
    if measure.kind in SPREAD:
        return np.zeros((groups, measure.width), dtype=np.int64 if narrow else object)
    return np.zeros(groups, dtype=np.int64 if fits_64_bits(max(map(abs, measure.clamp))) else object)


def _shaped(measure: Measure, array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(len(array)) if measure.kind.traits.unites else array


# -- Rows of public relations, for steps above the final aggregation. No protected row may be returned here, so a
# relation is checked node by node, and every table it reads once more against the catalog.


def check_public(relation: RelationNode, public: Collection[str]) -> None:
    """Raise if a relation reads protected data; ``public`` holds the lower-case names of the public tables."""
    if not is_public_throughout(relation) or not tables_of(relation) <= set(public):
        raise InternalError("rows of protected tables are never read out")


def rows_sql(d: Dialect, relation: RelationNode, most: int, tables: Mapping[str, StoredTable]) -> str:
    """Write the query for all rows, sorted by their columns with NULL last; its LIMIT is ``most`` + 1."""
    slots = range(len(relation.fields))
    inner = relation_sql(d, relation, frozenset(slots), tables)
    order = f" ORDER BY {', '.join(f'{column(slot)} NULLS LAST' for slot in slots)}" if slots else ""
    return f"SELECT * FROM {d.derived(inner)}{order} LIMIT {most + 1}"


def public_rows(
    found: Sequence[Sequence[Any]], relation: RelationNode, most: int
) -> tuple[tuple[Value | None, ...], ...]:
    """Return the rows of :func:`rows_sql` as canonical values.

    Raises:
        Refusal: when there are more than ``most`` rows.
    """
    if len(found) > most:
        raise Refusal(
            "too_large",
            f"The public rows are more than {most}; filter or group them, or keep the first with LIMIT.",
        )
    kinds = [part.type for part in relation.fields]
    return tuple(tuple(value_of(cell, kind) for cell, kind in zip(row, kinds, strict=False)) for row in found)


# -- Protected rows for a model trained in this process. At most one row of a unit is read: the first by md5 of the
# secret, the unit and the row itself, a rule that reads only that unit's rows.


def examples_sql(
    d: Dialect,
    relation: RelationNode,
    numbers: Sequence[int],
    label: int | None,
    secret: bytes,
    tables: Mapping[str, StoredTable],
) -> str:
    """Write the query for one row of each unit: features as doubles, then the label unchanged, sorted by these."""
    unit = relation.unit
    assert unit is not None  # noqa: S101 - the rows of public tables are not asked for here
    read = [*numbers, *([] if label is None else [label])]
    inner = relation_sql(d, relation, frozenset([*read, unit]), tables, secret)
    if not relation.row_units:
        kinds = [part.type for part in relation.fields]
        chooser = Chooser(secret, kinds[unit], has_row_units(walk_relations(relation)))
        order = chooser.digest(d, "rows", column(unit), [(column(slot), kinds[slot]) for slot in read])
        # Rows that still tie differ only in doubles, and are ordered by these.
        ties = ", ".join(f"{column(slot)} NULLS LAST" for slot in read)
        first = f"row_number() OVER (PARTITION BY {column(unit)} ORDER BY {order}, {ties})"
        inner = f"SELECT * FROM {d.derived(f'SELECT *, {first} AS place FROM {d.derived(inner)}')} WHERE place = 1"
    kinds = [relation.fields[slot].type for slot in numbers]
    shown = [
        _double(d, column(slot), kind) if _example_type(kind) is DOUBLE else column(slot)
        for slot, kind in zip(numbers, kinds, strict=True)
    ]
    shown += [] if label is None else [column(label)]
    made = f"SELECT {', '.join(f'{sql} AS e{place}' for place, sql in enumerate(shown))} FROM {d.derived(inner)}"
    order = ", ".join(f"e{place} NULLS LAST" for place in range(len(shown)))
    return f"SELECT * FROM {d.derived(made)} ORDER BY {order}"


def _example_type(kind: SqlType) -> SqlType:
    """Return the type that a model reads: TEXT for text (categories), DOUBLE for every other type."""
    return kind if kind.kind is Kind.TEXT else DOUBLE


def _double(d: Dialect, value: str, kind: SqlType) -> str:
    double = f"CAST({d.flag(value) if kind.kind is Kind.BOOLEAN else value} AS {d.double})"
    # Decimals are held without their point.
    return f"{double} / {d.number(10.0**kind.scale)}" if kind.kind is Kind.DECIMAL and kind.scale else double


# Keys of the groups that a statement returned: as canonical values, in order, and where each stands -------------------


KeyTuple = tuple[Value | None, ...]


def keys_in_order(
    groups: Groups, found: list[tuple[Any, ...]]
) -> tuple[tuple[KeyTuple, ...], dict[tuple[Any, ...], int]]:
    """Return all private group keys, sorted, and the index of each by its group columns as returned by the database."""
    kinds = groups.types
    if _sort_by_themselves(found, kinds):
        rows = sorted(set(found))
        places = {row: place for place, row in enumerate(rows)}
        exact = all(kind.kind is not Kind.DECIMAL for kind in kinds)
        return tuple(rows if exact else (tuple(map(value_of, row, kinds)) for row in rows)), places
    decoded = [tuple(map(value_of, row, kinds)) for row in found]
    order = sorted(set(decoded), key=lambda row: tuple(map(sort_key, row, kinds)))
    places = {key: place for place, key in enumerate(order)}
    return tuple(order), {row: places[key] for row, key in zip(found, decoded, strict=True)}


def listed_keys(
    columns: Sequence[Sequence[Any]], kinds: Sequence[SqlType], *, alone: bool
) -> tuple[tuple[KeyTuple, ...] | None, dict[tuple[Any, ...], int]]:
    """Return the keys of groups that are sorted already, and the index of each, creating few objects.

    The keys are None where Python's order differs from the database's. There is no index if there is one key column and
    ``alone`` is true. There may be as many keys as rows, and converting them is then most of a query's time.
    """
    bodies = [list(each) for each in columns]
    for body, kind in zip(bodies, kinds, strict=True):
        if not set(map(type, body)) <= {_STORED.get(kind.kind), type(None)}:
            return None, {}
    stored = list(zip(*bodies, strict=True)) if len(bodies) > 1 or not alone else []
    ordered: list[Any] = stored if len(bodies) > 1 else bodies[0]
    if len(bodies) == 1 and ordered and ordered[-1] is None:
        ordered = ordered[:-1]
    try:
        if not all(map(lt, ordered, islice(ordered, 1, None))):
            return None, {}
    except TypeError:
        # A key column holds both NULL and another value.
        return None, {}
    if stored and all(kind.kind is not Kind.DECIMAL for kind in kinds):
        keys = stored
    else:
        values = (
            [value_of(cell, kind) for cell in body] if kind.kind is Kind.DECIMAL else body
            for body, kind in zip(bodies, kinds, strict=True)
        )
        keys = list(zip(*values, strict=True))
    return tuple(keys), {row: place for place, row in enumerate(stored)}


#: Python types of stored values whose order is that of the values; decimals are stored without their point.
_STORED = {
    Kind.INTEGER: int,
    Kind.DECIMAL: int,
    Kind.TEXT: str,
    Kind.BOOLEAN: bool,
    Kind.DATE: dt.date,
    Kind.TIMESTAMP: dt.datetime,
}


def _sort_by_themselves(found: list[tuple[Any, ...]], kinds: Sequence[SqlType]) -> bool:
    """Whether stored keys sort as the values they stand for; whole columns are checked, since keys may be many."""
    columns = zip(*found, strict=True)
    return bool(found) and all(
        set(map(type, column)) == {_STORED.get(kind.kind)} for column, kind in zip(columns, kinds, strict=True)
    )


def value_of(cell: Any, kind: SqlType) -> Value | None:
    """Return a stored value as the canonical Python value of its type."""
    if cell is None:
        return None
    if kind.kind is Kind.DECIMAL:
        whole, rest = divmod(int(cell), 10**kind.scale)
        # Reducing a fraction takes longer than the rest of the work on a key.
        return Fraction(int(cell), 10**kind.scale) if rest else Fraction(whole)
    if isinstance(cell, (bool, int, float, str, dt.date)):
        return cell
    raise InternalError(f"a key of {kind} came back as {type(cell).__name__}")
