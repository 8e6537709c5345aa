"""One connected client: queries, statements, portals, transactions.

*Charges.* A query is charged when it is executed, by :meth:`tacit.server.api.worker_runtime.WorkerRuntime.ask`, like
every query to this server, and at no other moment. Parse, Bind, Describe and EXPLAIN plan it, which is free. A portal
holds the rows of its one execution; it is read to its end and never run again. Transactions and savepoints
do not affect charges: a release cannot be rolled back.

*Cancelling* ends the wait, not the work. It is answered at once, whether or not the run has ended, so that it reveals
nothing about the running time.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.client.responses import about_answer
from tacit.core.errors import InputError
from tacit.core.numbers import exact_text, with_noun
from tacit.query.query import OutputColumn
from tacit.query.request import Request
from tacit.query.types import Kind
from tacit.releases.answer import plain
from tacit.releases.payment import entry_of
from tacit.server.api.worker_runtime import let_run
from tacit.server.console.amounts import down
from tacit.server.errors import Unauthenticated
from tacit.server.pgwire.catalog import CatalogueResult, Catalogues, WrittenQuery
from tacit.server.pgwire.protocol import (
    TEXT,
    TEXT_OID,
    FrontendMessage,
    StatementFault,
    WireColumn,
    WireFault,
    column_of,
    command_complete,
    data_row,
    decode,
    encode,
    error_of,
    error_response,
    message,
    parameter_description,
    parameter_status,
    ready,
    row_description,
)
from tacit.server.pgwire.statements import (
    StatementKind,
    WireStatement,
    after_explain,
    infer_types,
    name_at,
    read_setting,
    sample_values,
    split_statements,
)
from tacit.server.pgwire.variables import REPORTED, SessionVariables
from tacit.server.service import ADMIN

if TYPE_CHECKING:
    from tacit.releases.accounts import Budget
    from tacit.releases.answer import Answer
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access
    from tacit.server.pgwire.server import CancelKeys, WireStream

#: Seconds between two checks for a request to cancel, which may have reached any worker.
_LOOK: Final = 0.1
#: Seconds for which public metadata are returned without validating the token again.
_FRESH: Final = 1.0
#: Number of rows checked for a notice that the bias may exceed the intervals.
_LOOKED_AT: Final = 1_000
#: Doubles from this on are not rounded; others keep at most this number of decimal places.
_HUGE: Final = 1e15
_MOST_PLACES: Final = 12


@dataclass(frozen=True, slots=True)
class WireResult:
    """Outcome of a statement; its notices are sent first.

    Args:
        columns: of the rows; None for a statement without a result set.
    """

    tag: str
    columns: tuple[WireColumn, ...] | None = None
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[bytes, ...] = ()


class ClientQueries:
    """Queries of an authenticated client; ``note`` logs and counts each statement."""

    def __init__(
        self,
        runtime: WorkerRuntime,
        access: Access,
        variables: SessionVariables,
        catalogues: Catalogues,
        keys: CancelKeys,
        key: bytes,
        note: Callable[[dict[str, Any], str], None],
    ) -> None:
        self._runtime = runtime
        self.access = access
        self._variables = variables
        self._catalogues = catalogues
        self._keys = keys
        self._key = key
        self._note = note
        self._names: tuple[str, frozenset[str], frozenset[str]] | None = None
        self._renewed = -_FRESH
        #: Lines of SHOW tacit.note: the meaning of the last answer, and the remaining budgets.
        self.meaning: tuple[str, ...] = ()
        self.ticks = runtime.ticks

    async def inferred(self, statement: WireStatement, declared: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Return the types (oids) of the parameters of a statement."""
        catalog = await self._runtime.run(self._runtime.service.catalog, self.access)
        return await self._runtime.run(infer_types, statement.text, declared, count, catalog)

    async def split(self, sql: str) -> list[WireStatement]:
        if self._names is None:
            catalog = await self._runtime.run(self._runtime.service.catalog, self.access)
            tables = frozenset(table.name.lower() for table in catalog.tables)
            names = tables | {column.name.lower() for table in catalog.tables for column in table.columns}
            self._names = (self._runtime.service.curator.name, tables, names)
        return split_statements(sql, self._names[2])

    def text(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> str:
        """Return the text of a query with literals in place of its parameters."""
        database, tables, _ = self._names or ("", frozenset(), frozenset())
        return statement.bound(values, types, tables, database)

    async def renew(self) -> None:
        """Check that the token is still valid, since a connection may outlive it, and refresh the rights.

        Raises:
            Unauthenticated: the token is no longer valid.
        """
        found = await self._runtime.run(self._runtime.service.people.renewed, self.access)
        if found is None:
            raise Unauthenticated
        self.access, self._renewed = found, time.monotonic()

    async def ask(self, sql: str) -> WireResult:
        """Ask a query; it is charged."""
        about: dict[str, Any] = {"route": "postgres/ask", "sql": hashlib.sha256(sql.encode()).hexdigest()[:16]}
        try:
            await self.renew()
            about |= {"analyst": self.access.person.name, "token": self.access.id}
            answer = await self._waited(self._runtime.ask(self.access, Request.of(sql, self._variables.options)))
            about |= about_answer(answer)
            columns, rows = self._table(answer)
            notices = await self._notices(answer)
        except Exception as problem:
            about["code"], state, _ = error_of(problem)
            self._note(about, state)
            raise
        self._note(about, "00000")
        return WireResult(f"SELECT {len(rows)}", columns, rows, notices)

    async def _waited(self, work: Any) -> Answer:
        """Wait for a query, or until the client cancels it; the query itself runs to its end."""
        self._keys.clear(self._key)
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._cancelling())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not task.done():
                # The answer is kept; asked again, the query is free.
                let_run(task)
        if not task.done():
            raise StatementFault(
                "57014",
                "the query was cancelled; its charge stays",
                "The answer is kept: ask the same query again to get it free.",
            )
        answer: Answer = task.result()
        return answer

    async def _cancelling(self) -> None:
        while not self._keys.is_cancelled(self._key):
            await asyncio.sleep(_LOOK)

    def _table(self, answer: Answer) -> tuple[tuple[WireColumn, ...], list[list[Any]]]:
        wide = self._variables.intervals
        rows: list[list[Any]] = []
        for values, ends in zip(answer.finished.values, answer.finished.intervals(), strict=True):
            row: list[Any] = []
            for value, pair, column in zip(values, ends, answer.columns, strict=True):
                shown = [plain(each, column.type) for each in (value, *pair)]
                if column.noisy and column.type.kind is Kind.DOUBLE:
                    shown = readable(*shown)
                row += shown if wide and _has_ends(column) else shown[:1]
            rows.append(row)
        return _wire_columns(answer.columns, wide=wide), rows

    async def _notices(self, answer: Answer) -> tuple[bytes, ...]:
        """Return one line with the charge, the remaining budget and a hint; ``SHOW tacit.note`` has the full text."""
        self.meaning, level, state = (answer.meaning,), "notice", "00000"
        if answer.is_public:
            words = f"{answer.charge.text}. The values are exact."
            return (error_response("NOTICE", state, words, notice=True),) if self._variables.wants(level) else ()
        budgets = await self._runtime.run(self._runtime.service.budget, self.access, answer.charge.population)
        self.meaning += tuple(map(str, budgets))
        if not answer.finished.values:
            level, state, more = "warning", "02000", "No row is left"
        elif any(map(any, answer.finished.marked(rows=_LOOKED_AT))):
            more = "The bias may exceed the intervals"
        else:
            more = "The meaning of the intervals"
        words = f"{answer.charge.text}; {_left(budgets)}. {more}: SHOW tacit.note."
        return (error_response(level.upper(), state, words, notice=True),) if self._variables.wants(level) else ()

    async def explain(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> WireResult:
        """Answer ``EXPLAIN`` with the plan and cost of a query. Free."""
        place = after_explain(statement)
        inner = split_statements(statement.after(place), (self._names or ("", (), ()))[2])[0]
        if inner.kind is StatementKind.CATALOGUE:
            column = WireColumn("QUERY PLAN", TEXT_OID)
            return WireResult("EXPLAIN", (column,), [["A query of the catalogue: public metadata, free of charge."]])
        await self.renew()
        request = Request.of(self.text(inner, values, types), self._variables.options)
        quote = await self._runtime.quote(self.access, request)
        # The engine's SQL is for owners only, as over HTTP.
        engine = ADMIN in self.access.scopes
        fits = await self._runtime.run(self._runtime.service.queries_left, self.access, quote)
        words = str(quote.explanation if engine else replace(quote.explanation, engine_sql=None))
        lines = words.splitlines()
        if fits is not None:
            lines.append(f"{with_noun(fits, 'more such query fits', 'more such queries fit')} in the budget.")
        return WireResult("EXPLAIN", (WireColumn("QUERY PLAN", TEXT_OID),), [[line] for line in lines])

    async def catalogue(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> CatalogueResult:
        """Answer a query about the catalog."""
        # Earlier results are public metadata that this person may see: one second more reveals nothing.
        if time.monotonic() - self._renewed >= _FRESH:
            await self.renew()
        self._runtime.rates["reads"].take(self.access.person.name)
        known = self._catalogues.results.get(self._catalogue_key(statement, values, types))
        if known is not None:
            return known
        await self.renew()
        name, key = self.access.person.name, self._catalogue_key(statement, values, types)
        async with self._runtime.ticked():
            found, written = await self._catalogues.pool.run_for(name, self._looked_up, statement, values, types)
        if written.lasting:
            self._catalogues.keep(key, found, statement.text)
        return found

    def _catalogue_key(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> tuple[Any, ...]:
        digest, person = self._runtime.service.curator.context.catalog.digest, self.access.person
        return (digest, person.populations, person.name, statement.text, repr((values, types)) if values else "")

    def _looked_up(
        self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]
    ) -> tuple[CatalogueResult, WrittenQuery]:
        catalogue = self._catalogues.of(self._runtime, self.access)
        written = catalogue.written(statement.text, values, types)
        read = {"budget": self._budget_rows, "history": self._history_rows, "x_setting": self._setting_rows}
        rows = {name: read[name]() for name in written.dynamic}
        return catalogue.run(written.sql, {"user": self.access.person.name, **rows}), written

    def _budget_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the ``budget`` table: the balances that the client may see."""
        found = self._runtime.service.budget(self.access)
        return [
            {"population": each.population, "owner": balance.owner, "currency": line.currency}
            | {
                name: exact_text(Fraction(amount))
                for name, amount in (("cap", line.cap), ("spent", line.spent), ("remaining", line.left))
            }
            for each in found
            for balance in each.balances
            if balance is each.balances[0] or balance.limited
            for line in balance.lines
        ]

    def _history_rows(self) -> list[dict[str, Any]]:
        return [
            {"position": r.seq, "population": r.population, "charge": entry_of(r).cost, "sql": r.sql,
             "analyst": r.analyst, "answered": r.answered}
            for r in self._runtime.service.history(self.access).records
        ]  # fmt: skip

    def _setting_rows(self) -> list[dict[str, Any]]:
        return [{"x_name": name, "x_value": value} for name, value in self._variables.all()]

    async def quoted_columns(self, sql: str) -> tuple[WireColumn, ...]:
        """Return the columns of a query's answer, without charging it."""
        await self.renew()
        quote = await self._runtime.quote(self.access, Request.of(sql, self._variables.options))
        return _wire_columns(quote.columns, wide=self._variables.intervals)


def _left(budgets: Sequence[Budget]) -> str:
    """Return text about the tightest limit: the one with the least remaining budget."""
    lines = [
        (Fraction(balance.lines[0].left), f" for {balance.owner}" if place else "", balance.lines[0], epsilon)
        for each in budgets
        for place, (balance, epsilon) in enumerate(zip(each.balances, each.epsilons, strict=True))
        if balance.lines[0].cap and (balance.limited or not place)
    ]
    if not lines:
        return "no limit"
    left, owner, line, epsilon = min(lines, key=lambda each: each[0])
    if epsilon is not None:
        return f"{epsilon.left_text} left{owner}"
    return f"{line.currency} {down(left)} of {down(Fraction(line.cap))} left{owner}"


def readable(value: Any, low: Any, high: Any) -> list[Any]:
    """Round a double and the ends of its interval to the digits that the width of the interval warrants.

    The ends are rounded outwards, so that the interval contains what it contained.
    """
    known = [each for each in (value, low, high) if each is not None]
    if value is None or len(known) < 2 or max(map(abs, known)) >= _HUGE or (spread := max(known) - min(known)) <= 0:
        return [value, low, high]
    places = min(max(2 - math.floor(math.log10(spread)), 0), _MOST_PLACES)
    unit = Decimal(1).scaleb(-places)
    return [
        None if each is None else float(Decimal(each).quantize(unit, way))
        for each, way in ((value, ROUND_HALF_EVEN), (low, ROUND_FLOOR), (high, ROUND_CEILING))
    ]


def _has_ends(column: OutputColumn) -> bool:
    return column.noisy and (column.type.is_numeric or column.type.is_temporal)


def _wire_columns(columns: Sequence[OutputColumn], *, wide: bool) -> tuple[WireColumn, ...]:
    found: list[WireColumn] = []
    for column in columns:
        names = [column.name, *([f"{column.name}_low", f"{column.name}_high"] if wide and _has_ends(column) else [])]
        found += [column_of(name, column.type) for name in names]
    return tuple(found)


# -- the conversation

#: Per connection: prepared statements, their characters and tokens in total, and portals.
MAX_PREPARED: Final = 1_000
MAX_PREPARED_TEXT: Final = 2_000_000
MAX_PREPARED_WORDS: Final = 100_000
MAX_PORTALS: Final = 64
#: Cells held by open portals from which on no further statement is executed.
MAX_HELD: Final = 500_000
#: Characters per line of the note about an answer.
_WIDTH: Final = 100
_IN_FAILED: Final = (StatementKind.COMMIT, StatementKind.ROLLBACK, StatementKind.EMPTY)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement and the types (oids) of its parameters."""

    statement: WireStatement
    types: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A prepared statement with parameter values; once executed, its rows and the number of rows already sent."""

    prepared: Prepared
    values: tuple[Any, ...]
    formats: tuple[int, ...]
    result: WireResult | None = None
    sent: int = 0


class WireSession:
    """Message loop of one authenticated client."""

    def __init__(self, queries: ClientQueries, stream: WireStream, variables: SessionVariables) -> None:
        self._queries = queries
        self._stream, self._write = stream, stream.write
        self._variables = variables
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        #: Transaction state as in ReadyForQuery: I (idle), T (in a transaction) or E (failed).
        self.state = "I"
        self._skipping = False
        #: Arrival time of the first message without a reply.
        self._arrived: float | None = None

    async def handle(self, received: FrontendMessage) -> bool:
        """Answer a message; return False if the client ends the session.

        Raises:
            WireFault: the message is not allowed here.
        """
        if self._arrived is None:
            self._arrived = self._queries.ticks.now()
        match received:
            case ("X", _):
                return False
            case ("S", _):
                self._skipping = False
                await self._ready()
            case ("H", _):
                await self._at_tick()
                await self._stream.flush()
            case ("Q", (sql,)):
                self._skipping = False
                await self._guarded(self._simple(sql))
                await self._ready()
            case ("p", _):
                raise WireFault("a message has no place here")
            case _ if not self._skipping:
                self._skipping = not await self._guarded(self._extended(received))
        # A series of small messages may have large answers: no more of them are made than the client takes.
        await self._stream.spill()
        return True

    async def _guarded(self, work: Any) -> bool:
        """Run some work and return whether it succeeded; report a failure to the client."""
        try:
            await work
        except (WireFault, OSError, asyncio.CancelledError):
            raise
        except Unauthenticated as problem:
            self._write(error_of(problem, "FATAL")[2])
            raise WireFault("the token of this connection is not valid any more", "28000") from None
        except Exception as problem:
            self._write(error_of(problem)[2])
            if self.state == "T":
                self.state = "E"
            return False
        return True

    async def _ready(self) -> None:
        self._end_implicit()
        await self._at_tick()
        self._write(ready(self.state))
        await self._stream.flush()

    async def _at_tick(self) -> None:
        """Hold the reply until a tick, so that even replies to SET and Parse do not reveal how busy the engines are."""
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            await self._queries.ticks.hold_first(arrived)

    def _end_implicit(self) -> None:
        """End the implicit transaction of a series of messages: its portals are closed."""
        if self.state == "I":
            self._portals.clear()

    # -- the two protocols

    async def _simple(self, sql: str) -> None:
        for statement in await self._queries.split(sql):
            if statement.kind is StatementKind.EMPTY:
                self._write(message(b"I"))
                continue
            if statement.parameters:
                raise StatementFault("42P02", "there is no parameter $1", "Send parameters by the extended protocol.")
            result = await self._run(statement, (), ())
            self._write(b"".join(result.notices))
            if result.columns is not None:
                formats = (TEXT,) * len(result.columns)
                self._write(row_description(result.columns, formats))
                await self._rows(result, formats, 0, len(result.rows))
            self._write(command_complete(result.tag))

    async def _extended(self, received: FrontendMessage) -> None:
        match received:
            case ("P", (name, sql, types)):
                await self._parse(name, sql, types)
            case ("B", parts):
                await self._bind(*parts)
            case ("D", ("S", name)):
                await self._describe_statement(self._statement(name))
            case ("D", (_, name)):
                portal = self._portal(name)
                columns = await self._columns(portal)
                self._describe(columns, portal.formats)
            case ("E", (name, limit)):
                await self._execute(self._portal(name), max(limit, 0))
            case ("C", (kind, name)):
                (self._prepared if kind == "S" else self._portals).pop(name, None)
                self._write(message(b"3"))

    async def _parse(self, name: str, sql: str, declared: tuple[int, ...]) -> None:
        found = await self._queries.split(sql)
        if len(found) != 1:
            raise StatementFault("42601", "one statement at a time can be prepared")
        if name and name in self._prepared:
            raise StatementFault("42P05", "a prepared statement of that name exists")
        statement = found[0]
        text = sum(len(each.statement.text) for each in self._prepared.values()) + len(statement.text)
        words = sum(len(each.statement.words) for each in self._prepared.values()) + len(statement.words)
        if len(self._prepared) >= MAX_PREPARED or text > MAX_PREPARED_TEXT or words > MAX_PREPARED_WORDS:
            raise StatementFault("54000", "too many prepared statements; close some")
        count = statement.parameters
        types = await self._queries.inferred(statement, declared, count) if count else ()
        self._prepared[name] = Prepared(statement, types)
        self._write(message(b"1"))

    async def _bind(
        self,
        portal: str,
        name: str,
        stated: tuple[int, ...],
        raw: tuple[bytes | None, ...],
        results: tuple[int, ...],
    ) -> None:
        prepared = self._statement(name)
        self._check_usable(prepared.statement)
        if portal and portal in self._portals:
            raise StatementFault("42P03", "a portal of that name exists")
        if len(raw) != len(prepared.types):
            raise StatementFault("08P01", f"the statement has {len(prepared.types)} parameters")
        if len(self._portals) >= MAX_PORTALS:
            raise StatementFault("54000", "too many portals are open; close some")
        formats = stated if len(stated) > 1 else (stated or (TEXT,)) * len(raw)
        values = tuple(map(decode, raw, prepared.types, formats))
        self._portals[portal] = Portal(prepared, values, results)
        self._write(message(b"2"))

    async def _describe_statement(self, prepared: Prepared) -> None:
        self._write(parameter_description(prepared.types))
        values = tuple(sample_values(prepared.types))
        self._describe(await self._columns(Portal(prepared, values, ())), ())

    def _describe(self, columns: tuple[WireColumn, ...] | None, formats: tuple[int, ...]) -> None:
        if columns is None:
            self._write(message(b"n"))
        else:
            self._write(row_description(columns, _formats(formats, len(columns))))

    async def _execute(self, portal: Portal, limit: int) -> None:
        statement = portal.prepared.statement
        if statement.kind is StatementKind.EMPTY:
            self._write(message(b"I"))
            return
        if portal.result is None:
            self._check_held()
            portal.result = await self._run(statement, portal.values, portal.prepared.types)
            self._write(b"".join(portal.result.notices))
        result = portal.result
        if result.columns is None:
            self._write(command_complete(result.tag))
            return
        formats = _formats(portal.formats, len(result.columns))
        end = len(result.rows) if not limit else min(portal.sent + limit, len(result.rows))
        count = end - portal.sent
        await self._rows(result, formats, portal.sent, end)
        portal.sent = end
        if limit and count == limit:
            self._write(message(b"s"))
        else:
            tag = f"SELECT {count}" if result.tag.startswith("SELECT") else result.tag
            self._write(command_complete(tag))

    async def _rows(self, result: WireResult, formats: Sequence[int], start: int, end: int) -> None:
        oids = [column.oid for column in result.columns or ()]
        for row in result.rows[start:end]:
            cells = [encode(value, oid, form) for value, oid, form in zip(row, oids, formats, strict=True)]
            self._write(data_row(cells))
            await self._stream.spill()

    def _check_held(self) -> None:
        """Refuse to execute a statement, before it is charged, while open portals hold too many rows."""
        results = [each.result for each in self._portals.values() if each.result is not None]
        if sum(len(each.rows) * (len(each.columns or ()) + 1) for each in results) > MAX_HELD:
            raise StatementFault("54000", "open portals hold too many rows; close some")

    def _statement(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise StatementFault("26000", "there is no prepared statement of that name")
        return found

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise StatementFault("34000", "there is no portal of that name")
        return found

    # -- statements

    def _check_usable(self, statement: WireStatement) -> None:
        if self.state == "E" and statement.kind not in _IN_FAILED:
            raise StatementFault(
                "25P02", "the transaction has failed; statements are ignored until its end", "Send ROLLBACK."
            )

    async def _run(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> WireResult:
        self._check_usable(statement)
        match statement.kind:
            case StatementKind.QUERY | StatementKind.OTHER:
                return await self._queries.ask(self._queries.text(statement, values, types))
            case StatementKind.CATALOGUE:
                found = await self._queries.catalogue(statement, values, types)
                return WireResult(f"SELECT {len(found.rows)}", found.columns, found.rows)
            case StatementKind.EXPLAIN:
                return await self._queries.explain(statement, values, types)
            case StatementKind.SET:
                return self._set(statement)
            case StatementKind.RESET:
                return self._reset(statement)
            case StatementKind.SHOW:
                return self._show(statement)
            case StatementKind.DEALLOCATE:
                return self._deallocate(statement)
            case StatementKind.DISCARD:
                self._prepared.clear()
                self._portals.clear()
                self._change_settings(self._variables.reset)
                return WireResult("DISCARD ALL")
            case StatementKind.NOTHING:
                return WireResult(statement.upper(0))
            case _:
                return self._transaction(statement)

    # -- queries

    async def _columns(self, portal: Portal) -> tuple[WireColumn, ...] | None:
        """Return the columns that a portal will return, without charging anything."""
        if portal.result is not None:
            return portal.result.columns
        statement, values, types = portal.prepared.statement, portal.values, portal.prepared.types
        match statement.kind:
            case StatementKind.QUERY:
                return await self._queries.quoted_columns(self._queries.text(statement, values, types))
            case StatementKind.CATALOGUE:
                return (await self._queries.catalogue(statement, values, types)).columns
            case StatementKind.EXPLAIN:
                return (WireColumn("QUERY PLAN", TEXT_OID),)
            case StatementKind.SHOW:
                return self._show(statement).columns
            case _:
                return None

    # -- settings

    def _set(self, statement: WireStatement) -> WireResult:
        """``SET [SESSION | LOCAL] name {= | TO} value``, ``SET TIME ZONE``, ``SET TRANSACTION``, ``SET NAMES``."""
        found = read_setting(statement)
        if found is None:
            return WireResult("SET")
        name, value, local = found
        if local and self.state == "I":
            return WireResult("SET", notices=(_warning("SET LOCAL has no effect outside of a transaction"),))
        self._change_settings(lambda: self._variables.set(name, value, local=local))
        return WireResult("SET")

    def _reset(self, statement: WireStatement) -> WireResult:
        name = "".join(word.text for word in statement.words[1:])
        if name.upper() == "ALL":
            self._change_settings(self._variables.reset)
        else:
            self._change_settings(lambda: self._variables.set(name, None))
        return WireResult("RESET")

    def _change_settings(self, change: Callable[[], Any]) -> None:
        before = {name: self._variables.show(name) for name in REPORTED}
        change()
        for name, shown in REPORTED.items():
            if self._variables.show(name) != before[name]:
                self._write(parameter_status(shown, self._variables.show(name)))

    def _show(self, statement: WireStatement) -> WireResult:
        name = "".join(word.text for word in statement.words[1:]).lower()
        if name == "tacit.note":
            lines = [line for each in self._queries.meaning for line in textwrap.wrap(each, _WIDTH)]
            return WireResult("SHOW", (WireColumn(name, TEXT_OID),), [[line] for line in lines])
        if name == "all":
            rows = [[each, value, self._variables.help(each)] for each, value in self._variables.all()]
            return WireResult("SHOW", tuple(WireColumn(n, TEXT_OID) for n in ("name", "setting", "description")), rows)
        name = {"transactionisolationlevel": "transaction_isolation", "timezone": "timezone"}.get(name, name)
        try:
            value = self._variables.show(name)
        except InputError as problem:
            raise StatementFault("42704", str(problem)) from None
        return WireResult("SHOW", (WireColumn(name, TEXT_OID),), [[value]])

    def _deallocate(self, statement: WireStatement) -> WireResult:
        place = 2 if statement.upper(1) == "PREPARE" else 1
        if statement.upper(place) == "ALL":
            self._prepared.clear()
            return WireResult("DEALLOCATE ALL")
        if self._prepared.pop(name_at(statement, place), None) is None:
            raise StatementFault("26000", "there is no prepared statement of that name")
        return WireResult("DEALLOCATE")

    # -- transactions

    def _transaction(self, statement: WireStatement) -> WireResult:
        """Accept transaction statements, which clients expect; they do not affect charges."""
        words = [word.upper for word in statement.words]
        match statement.kind:
            case StatementKind.BEGIN:
                if self.state == "I":
                    self.state = "T"
                    self._variables.begin()
                    return WireResult("BEGIN")
                return WireResult("BEGIN", notices=(_warning("a transaction is under way already", "25001"),))
            case StatementKind.SAVEPOINT | StatementKind.RELEASE | StatementKind.ROLLBACK if (
                statement.kind is not StatementKind.ROLLBACK or "TO" in words
            ):
                # Nothing was written that could be taken back.
                if self.state == "I":
                    raise StatementFault("25P01", "a savepoint needs a transaction", "Send BEGIN first.")
                if statement.kind is StatementKind.ROLLBACK:
                    self.state = "T"
                return WireResult(statement.kind.name)
            case StatementKind.COMMIT | StatementKind.ROLLBACK:
                if "PREPARED" in words:
                    raise StatementFault("0A000", "transactions in two phases are not supported")
                return self._end_transaction(commit=statement.kind is StatementKind.COMMIT)
            case _:
                raise StatementFault("0A000", "this statement is not supported")

    def _end_transaction(self, *, commit: bool) -> WireResult:
        if self.state == "I":
            tag = "COMMIT" if commit else "ROLLBACK"
            return WireResult(tag, notices=(_warning("there is no transaction under way", "25P01"),))
        kept = commit and self.state == "T"
        self._change_settings(lambda: self._variables.end(commit=kept))
        self.state = "I"
        self._end_implicit()
        return WireResult("COMMIT" if kept else "ROLLBACK")


def _warning(words: str, state: str = "01000") -> bytes:
    return error_response("WARNING", state, words, notice=True)


def _formats(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """Expand the format codes of Bind: none means text for all columns, one applies to all, else one per column."""
    if len(formats) > 1:
        if len(formats) != count:
            raise StatementFault("08P01", f"the result has {count} columns")
        return tuple(formats)
    return (formats[0] if formats else TEXT,) * count
