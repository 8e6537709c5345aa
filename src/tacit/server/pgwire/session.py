"""One connected client: statements, portals, transactions.

A query is charged when it is executed (:mod:`.client_queries`). Parse, Bind, Describe and EXPLAIN plan it, which
is free. A portal holds the rows of its one execution; it is read to its end and never run again. Transactions and
savepoints change nothing about charges: there is no way back from a release.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.server.errors import Unauthenticated
from tacit.server.pgwire.client_queries import ClientQueries, WireResult
from tacit.server.pgwire.messages import (
    TEXT,
    BindMessage,
    CloseMessage,
    DescribeMessage,
    ExecuteMessage,
    FlushMessage,
    FrontendMessage,
    ParseMessage,
    QueryMessage,
    SyncMessage,
    TerminateMessage,
    WireColumn,
    WireFault,
    command_complete,
    data_row,
    error_response,
    message,
    parameter_description,
    parameter_status,
    ready,
    row_description,
)
from tacit.server.pgwire.sqlstates import StatementFault, error_of
from tacit.server.pgwire.statements import (
    StatementKind,
    WireStatement,
    after_explain,
    fetched,
    name_at,
    read_setting,
    sample_values,
)
from tacit.server.pgwire.types import JSON, TEXT_OID, decode, encode
from tacit.server.pgwire.variables import REPORTED, SessionVariables

if TYPE_CHECKING:
    from tacit.server.pgwire.stream import WireStream

#: Prepared statements of a connection, the characters and words of all of them, and portals.
MAX_PREPARED: Final = 1_000
MAX_PREPARED_TEXT: Final = 2_000_000
MAX_PREPARED_WORDS: Final = 100_000
MAX_PORTALS: Final = 64
#: Cells that open portals hold before nothing more is executed.
MAX_HELD: Final = 500_000
#: Characters of a line of the note about an answer.
_WIDTH: Final = 100
_IN_FAILED: Final = (StatementKind.COMMIT, StatementKind.ROLLBACK, StatementKind.EMPTY)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement, the types of its parameters, and its columns once they were described."""

    statement: WireStatement
    types: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A statement with its parameters; once executed, its rows and the place up to which they were sent."""

    prepared: Prepared
    values: tuple[Any, ...]
    formats: tuple[int, ...]
    result: WireResult | None = None
    sent: int = 0


class WireSession:
    """The conversation with a client that has proved who it is."""

    def __init__(self, queries: ClientQueries, stream: WireStream, variables: SessionVariables) -> None:
        self._queries = queries
        self._stream, self._write = stream, stream.write
        self._variables = variables
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._state = "I"
        self._skipping = False
        #: When the first message came that has no reply yet.
        self._arrived: float | None = None
        self.cancelled = queries.cancelled

    @property
    def state(self) -> str:
        """State of the transaction: I, T or E."""
        return self._state

    async def handle(self, said: FrontendMessage) -> bool:
        """Answer a message; False where the client leaves.

        Raises:
            WireFault: the message has no place here.
        """
        if self._arrived is None:
            self._arrived = self._queries.ticks.now()
        match said:
            case TerminateMessage():
                return False
            case SyncMessage():
                self._skipping = False
                await self._ready()
            case FlushMessage():
                await self._at_tick()
                await self._stream.flush()
            case QueryMessage(sql):
                self._skipping = False
                await self._guarded(self._simple(sql))
                await self._ready()
            case _ if self._skipping:
                pass
            case ParseMessage() | BindMessage() | DescribeMessage() | ExecuteMessage() | CloseMessage():
                if not await self._guarded(self._extended(said)):
                    self._skipping = True
            case _:
                raise WireFault("a message has no place here")
        # A series of small messages may have large answers: no more of them are made than the client takes.
        await self._stream.spill()
        return True

    async def _guarded(self, work: Any) -> bool:
        """Do some work; whether it succeeded. A failure is told to the client."""
        try:
            await work
        except (WireFault, OSError, asyncio.CancelledError):
            raise
        except Unauthenticated as problem:
            self._write(error_of(problem, "FATAL")[2])
            raise WireFault("the token of this connection is not valid any more", "28000") from None
        except Exception as problem:
            self._write(error_of(problem)[2])
            if self._state == "T":
                self._state = "E"
            return False
        return True

    async def _ready(self) -> None:
        self._end_implicit()
        await self._at_tick()
        self._write(ready(self._state))
        await self._stream.flush()

    async def _at_tick(self) -> None:
        """Hold what was done in no time: replies to SET and Parse, too, do not show how busy engines are."""
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            await self._queries.ticks.hold_first(arrived)

    def _end_implicit(self) -> None:
        """End the transaction that PostgreSQL makes of one series of messages: portals do not outlive it."""
        if self._state == "I":
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

    async def _extended(self, said: FrontendMessage) -> None:
        match said:
            case ParseMessage():
                await self._parse(said)
            case BindMessage():
                await self._bind(said)
            case DescribeMessage("S", name):
                await self._describe_statement(self._statement(name))
            case DescribeMessage(_, name):
                portal = self._portal(name)
                columns = await self._columns(portal)
                self._describe(columns, portal.formats)
            case ExecuteMessage(name, limit):
                await self._execute(self._portal(name), limit)
            case CloseMessage(kind, name):
                (self._prepared if kind == "S" else self._portals).pop(name, None)
                self._write(message(b"3"))

    async def _parse(self, said: ParseMessage) -> None:
        found = await self._queries.split(said.sql)
        if len(found) != 1:
            raise StatementFault("42601", "one statement at a time can be prepared")
        if said.name and said.name in self._prepared:
            raise StatementFault("42P05", "a prepared statement of that name exists")
        statement = found[0]
        text = sum(len(each.statement.text) for each in self._prepared.values()) + len(statement.text)
        words = sum(len(each.statement.words) for each in self._prepared.values()) + len(statement.words)
        if len(self._prepared) >= MAX_PREPARED or text > MAX_PREPARED_TEXT or words > MAX_PREPARED_WORDS:
            raise StatementFault("54000", "too many prepared statements; close some")
        count = statement.parameters
        types = await self._queries.inferred(statement, said.types, count) if count else said.types
        self._prepared[said.name] = Prepared(statement, tuple(types[:count]))
        self._write(message(b"1"))

    async def _bind(self, said: BindMessage) -> None:
        prepared = self._statement(said.statement)
        self._check_usable(prepared.statement)
        if said.portal and said.portal in self._portals:
            raise StatementFault("42P03", "a portal of that name exists")
        if len(said.values) != len(prepared.types):
            raise StatementFault("08P01", f"the statement has {len(prepared.types)} parameters")
        if len(self._portals) >= MAX_PORTALS:
            raise StatementFault("54000", "too many portals are open; close some")
        formats = said.formats if len(said.formats) > 1 else said.formats * len(said.values) or (TEXT,) * 1000
        values = tuple(
            decode(raw, oid, form) for raw, oid, form in zip(said.values, prepared.types, formats, strict=False)
        )
        self._portals[said.portal] = Portal(prepared, values, said.results)
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
        """Refuse to execute anything, before it is charged, while open portals hold many rows."""
        results = [each.result for each in self._portals.values() if each.result is not None]
        if sum(len(each.rows) * (len(each.columns or ()) + 1) for each in results) > MAX_HELD:
            raise StatementFault("54000", "open portals and cursors hold too many rows; close some")

    def _statement(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise StatementFault("26000", "there is no prepared statement of that name")
        return found

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise StatementFault("34000", "there is no cursor or portal of that name")
        return found

    # -- statements

    def _check_usable(self, statement: WireStatement) -> None:
        if self._state == "E" and statement.kind not in _IN_FAILED:
            raise StatementFault(
                "25P02", "the transaction has failed; statements are ignored until its end", "Send ROLLBACK."
            )

    async def _run(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> WireResult:
        self._check_usable(statement)
        match statement.kind:
            case StatementKind.QUERY | StatementKind.OTHER:
                return await self._queries.ask(self._queries.text(statement, values, types))
            case StatementKind.CATALOGUE:
                found, changes = await self._queries.catalogue(statement, values, types)
                if found.rows:
                    for name, value, local in changes:
                        self._change_settings(partial(self._variables.set, name, value, local=local))
                return WireResult(f"SELECT {len(found.rows)}", found.columns, found.rows)
            case StatementKind.EXPLAIN:
                return await self._queries.explain(statement, values, types)
            case StatementKind.SET:
                return self._set(statement)
            case StatementKind.RESET:
                return self._reset(statement)
            case StatementKind.SHOW:
                return await self._show(statement)
            case StatementKind.DECLARE:
                return await self._declare(statement, values, types)
            case StatementKind.FETCH:
                return self._fetch(statement)
            case StatementKind.CLOSE:
                if statement.upper(1) == "ALL":
                    self._portals.clear()
                elif self._portals.pop(name_at(statement, 1), None) is None:
                    raise StatementFault("34000", "there is no cursor of that name")
                return WireResult("CLOSE CURSOR")
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
        """Columns of what a portal will return; nothing is charged."""
        if portal.result is not None:
            return portal.result.columns
        statement, values, types = portal.prepared.statement, portal.values, portal.prepared.types
        match statement.kind:
            case StatementKind.QUERY:
                return await self._queries.quoted_columns(self._queries.text(statement, values, types))
            case StatementKind.CATALOGUE:
                return (await self._queries.catalogue(statement, values, types))[0].columns
            case StatementKind.EXPLAIN:
                return (WireColumn("QUERY PLAN", JSON if after_explain(statement)[1] else TEXT_OID),)
            case StatementKind.SHOW:
                return (await self._show(statement)).columns
            case StatementKind.FETCH:
                return await self._columns(self._portal(fetched(statement)[1]))
            case _:
                return None

    # -- settings

    def _set(self, statement: WireStatement) -> WireResult:
        """``SET [SESSION | LOCAL] name {= | TO} value``, ``SET TIME ZONE``, ``SET TRANSACTION``, ``SET NAMES``."""
        found = read_setting(statement)
        if found is None:
            return WireResult("SET")
        name, value, local = found
        if local and self._state == "I":
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

    async def _show(self, statement: WireStatement) -> WireResult:
        name = "".join(word.text for word in statement.words[1:]).lower()
        if name == "tacit.budget":
            names = ("population", "owner", "currency", "cap", "spent", "remaining")
            cells = [[each[name] for name in names] for each in await self._queries.balances()]
            return WireResult("SHOW", tuple(WireColumn(each, TEXT_OID) for each in names), cells)
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

    # -- cursors

    async def _declare(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> WireResult:
        """``DECLARE name … CURSOR FOR query``: the query is asked, and charged, here."""
        name = name_at(statement, 1)
        place = next((i for i, word in enumerate(statement.words) if word.upper == "FOR"), 0)
        words = [word.upper for word in statement.words[2:place]]
        if not place or "CURSOR" not in words or ("SCROLL" in words and "NO" not in words):
            raise StatementFault("0A000", "cursors are read forward", "DECLARE name CURSOR FOR SELECT …")
        if "BINARY" in words or ("HOLD" in words and "WITHOUT" not in words):
            words_of = "a cursor ends with its transaction, and is read as text"
            raise StatementFault("0A000", words_of, "DECLARE name CURSOR FOR SELECT …")
        if self._state == "I":
            raise StatementFault("25P01", "a cursor needs a transaction", "Send BEGIN first.")
        if name in self._portals:
            raise StatementFault("42P03", "a cursor of that name exists")
        if len(self._portals) >= MAX_PORTALS:
            raise StatementFault("54000", "too many cursors are open; close some")
        self._check_held()
        inner = (await self._queries.split(statement.after(place + 1)))[0]
        if inner.kind not in (StatementKind.QUERY, StatementKind.CATALOGUE):
            raise StatementFault("0A000", "only a SELECT can stand here")
        result = await self._run(inner, values, types)
        prepared, held = Prepared(inner, tuple(types)), WireResult(result.tag, result.columns, result.rows)
        self._portals[name] = Portal(prepared, tuple(values), (), held)
        return WireResult("DECLARE CURSOR", notices=result.notices)

    def _fetch(self, statement: WireStatement) -> WireResult:
        count, name = fetched(statement)
        portal = self._portal(name)
        if portal.result is None or portal.result.columns is None:
            raise StatementFault("55000", "the portal was not executed by DECLARE")
        end = len(portal.result.rows) if count is None else min(portal.sent + count, len(portal.result.rows))
        rows = portal.result.rows[portal.sent : end]
        portal.sent = end
        return WireResult(f"FETCH {len(rows)}", portal.result.columns, rows)

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
        """Transactions, which clients expect; they change nothing about charges."""
        words = [word.upper for word in statement.words]
        match statement.kind:
            case StatementKind.BEGIN:
                if self._state == "I":
                    self._state = "T"
                    self._variables.begin()
                    return WireResult("BEGIN")
                return WireResult("BEGIN", notices=(_warning("a transaction is under way already", "25001"),))
            case StatementKind.SAVEPOINT:
                self._need_transaction()
                if not self._variables.begin("s:" + name_at(statement, 1)):
                    raise StatementFault("54000", "there are too many savepoints; release some")
                return WireResult("SAVEPOINT")
            case StatementKind.RELEASE:
                self._need_transaction()
                if not self._variables.release("s:" + name_at(statement, len(words) - 1)):
                    raise StatementFault("3B001", "there is no savepoint of that name")
                return WireResult("RELEASE")
            case StatementKind.ROLLBACK if "TO" in words:
                self._need_transaction()
                name = "s:" + name_at(statement, len(words) - 1)
                self._change_settings(lambda: self._roll_back_to(name))
                self._state = "T"
                return WireResult("ROLLBACK")
            case StatementKind.COMMIT | StatementKind.ROLLBACK:
                if "PREPARED" in words:
                    raise StatementFault("0A000", "transactions in two phases are not supported")
                return self._end_transaction(commit=statement.kind is StatementKind.COMMIT)
            case _:
                raise StatementFault("0A000", "this statement is not supported")

    def _end_transaction(self, *, commit: bool) -> WireResult:
        if self._state == "I":
            tag = "COMMIT" if commit else "ROLLBACK"
            return WireResult(tag, notices=(_warning("there is no transaction under way", "25P01"),))
        kept = commit and self._state == "T"
        self._change_settings(self._variables.commit if kept else self._variables.roll_back)
        self._state = "I"
        self._end_implicit()
        return WireResult("COMMIT" if kept else "ROLLBACK")

    def _roll_back_to(self, name: str) -> None:
        if not self._variables.roll_back(name):
            raise StatementFault("3B001", "there is no savepoint of that name")

    def _need_transaction(self) -> None:
        if self._state == "I":
            raise StatementFault("25P01", "a savepoint needs a transaction", "Send BEGIN first.")


def _warning(words: str, state: str = "01000") -> bytes:
    return error_response("WARNING", state, words, notice=True)


def _formats(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """Formats of columns: none stated for text, one for all, or one for each."""
    if len(formats) > 1:
        if len(formats) != count:
            raise StatementFault("08P01", f"the result has {count} columns")
        return tuple(formats)
    return (formats[0] if formats else TEXT,) * count
