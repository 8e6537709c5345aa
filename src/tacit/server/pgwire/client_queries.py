"""Queries of one connected client: asked, quoted and explained, and queries about the catalogue.

*Charges.* A query is charged when it is executed, by :meth:`tacit.server.api.worker_runtime.WorkerRuntime.ask`, the
way of every query to this server, and at no other moment.

*Cancelling* ends the wait, not the work. It is answered at once, whether or not the run has ended, so that it tells
nothing about how long the run takes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.client.responses import QuoteResponse, about_answer
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
from tacit.server.pgwire.messages import WireColumn, error_response
from tacit.server.pgwire.sqlstates import StatementFault, error_of
from tacit.server.pgwire.statements import StatementKind, WireStatement, after_explain, infer_types, split_statements
from tacit.server.pgwire.types import JSON, TEXT_OID, column_of
from tacit.server.pgwire.variables import SessionVariables
from tacit.server.service import ADMIN

if TYPE_CHECKING:
    from tacit.releases.accounts import Budget
    from tacit.releases.answer import Answer
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access
    from tacit.server.pgwire.server import CancelKeys

#: Seconds between two looks whether another worker was told to cancel.
_LOOK: Final = 0.1
#: Seconds for which public metadata are shown again without looking whether the token still counts.
_FRESH: Final = 1.0
#: Rows that decide whether a notice says that the bias may exceed the intervals.
_LOOKED_AT: Final = 1_000
#: Doubles are written out in full beyond this, and with at most so many places behind the point.
_HUGE: Final = 1e15
_MOST_PLACES: Final = 12
Changes = tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True)
class WireResult:
    """Outcome of a statement; notices are sent before it.

    Args:
        columns: of the rows; None where there are none to send.
    """

    tag: str
    columns: tuple[WireColumn, ...] | None = None
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[bytes, ...] = ()


class ClientQueries:
    """Queries of a client that has proved who it is; ``note`` logs and counts a statement."""

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
        #: Meaning of the last answer, and what is left of the budgets.
        self.meaning: tuple[str, ...] = ()
        self.cancelled = asyncio.Event()
        self.ticks = runtime.ticks

    async def inferred(self, statement: WireStatement, declared: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Types of parameters."""
        catalog = await self._runtime.run(self._runtime.service.catalog, self.access)
        return await self._runtime.run(infer_types, statement.text, declared, count, catalog)

    async def split(self, sql: str) -> list[WireStatement]:
        """Statements of a text."""
        if self._names is None:
            catalog = await self._runtime.run(self._runtime.service.catalog, self.access)
            tables = frozenset(table.name.lower() for table in catalog.tables)
            names = tables | {column.name.lower() for table in catalog.tables for column in table.columns}
            self._names = (self._runtime.service.curator.name, tables, names)
        return split_statements(sql, self._names[2])

    def text(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> str:
        """The text of a query with its parameters in place."""
        database, tables, names = self._names or ("", frozenset(), frozenset())
        text = statement.names(tables, database)
        if text != statement.text:
            statement = split_statements(text, names)[0]
        return statement.bound(values, types)

    async def renew(self) -> None:
        """Look whether the token still counts: a connection may be older than its end.

        Raises:
            Unauthenticated: it does not.
        """
        found = await self._runtime.run(self._runtime.service.people.renewed, self.access)
        if found is None:
            raise Unauthenticated
        self.access, self._renewed = found, time.monotonic()

    async def ask(self, sql: str) -> WireResult:
        """Ask a query, which is charged."""
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
        """Wait for a query, or for the client to cancel it; the work goes on in any case."""
        self.cancelled.clear()
        self._keys.clear(self._key)
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._cancelling())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not task.done():
                # What it bought is kept, and asked again it is free.
                let_run(task)
        if not task.done():
            raise StatementFault(
                "57014",
                "the query was cancelled; its charge stays",
                "The answer is kept: ask the same query again to get it for nothing.",
            )
        answer: Answer = task.result()
        return answer

    async def _cancelling(self) -> None:
        alone = self._runtime.settings.workers == 1
        while not self.cancelled.is_set():
            try:
                async with asyncio.timeout(None if alone else _LOOK):
                    await self.cancelled.wait()
            except TimeoutError:
                if self._keys.is_cancelled(self._key):
                    return

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
        """One line: the charge, what is left, and whether more is to be known; ``SHOW tacit.note`` has it all."""
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
        """``EXPLAIN``: the plan and price of a query, for nothing."""
        place, as_json = after_explain(statement)
        inner = split_statements(statement.after(place), (self._names or ("", (), ()))[2])[0]
        if inner.kind is StatementKind.CATALOGUE:
            column = WireColumn("QUERY PLAN", TEXT_OID)
            return WireResult("EXPLAIN", (column,), [["A query of the catalogue: public metadata, free of charge."]])
        await self.renew()
        request = Request.of(self.text(inner, values, types), self._variables.options)
        quote = await self._runtime.quote(self.access, request)
        # The statements of the engine are for owners, here as over HTTP.
        engine = ADMIN in self.access.scopes
        fits = await self._runtime.run(self._runtime.service.queries_left, self.access, quote)
        if as_json:
            leaves = self._runtime.leaves_after(self.access, quote)
            body = QuoteResponse.of(quote, engine=engine, queries_left=fits, leaves_after=leaves)
            told = json.dumps(body.plain(), ensure_ascii=False)
            return WireResult("EXPLAIN", (WireColumn("QUERY PLAN", JSON),), [[told]])
        words = str(quote.explanation if engine else replace(quote.explanation, engine_sql=None))
        lines = words.splitlines()
        if fits is not None:
            lines.append(f"{with_noun(fits, 'more such query fits', 'more such queries fit')} in the budget.")
        return WireResult("EXPLAIN", (WireColumn("QUERY PLAN", TEXT_OID),), [[line] for line in lines])

    async def catalogue(
        self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]
    ) -> tuple[CatalogueResult, Changes]:
        """An answer about the catalogue, and settings that change where it is executed and has rows."""
        # What was shown before is public and for this person's eyes: a second more of it tells nothing.
        if time.monotonic() - self._renewed >= _FRESH:
            await self.renew()
        self._runtime.rates["reads"].take(self.access.person.name)
        known = self._catalogues.results.get(self._catalogue_key(statement, values, types))
        if known is not None:
            return known, ()
        await self.renew()
        name, key = self.access.person.name, self._catalogue_key(statement, values, types)
        async with self._runtime.ticked():
            found, written = await self._catalogues.pool.run_for(name, self._looked_up, statement, values, types)
        if written.lasting:
            self._catalogues.keep(key, found, statement.text)
        return found, written.changes

    def _catalogue_key(self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]) -> tuple[Any, ...]:
        digest, person = self._runtime.service.curator.context.catalog.digest, self.access.person
        return (digest, person.populations, person.name, statement.text, repr((values, types)) if values else "")

    def _looked_up(
        self, statement: WireStatement, values: Sequence[Any], types: Sequence[int]
    ) -> tuple[CatalogueResult, WrittenQuery]:
        catalogue = self._catalogues.of(self._runtime, self.access)
        written = catalogue.written(statement.text, values, types)
        read = {"budget": self.budget_rows, "history": self._history_rows, "x_setting": self._setting_rows}
        rows = {name: read[name]() for name in written.dynamic}
        return catalogue.run(written.sql, {"user": self.access.person.name, **rows}), written

    def budget_rows(self) -> list[dict[str, Any]]:
        """Balances that the client may see."""
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

    async def balances(self) -> list[dict[str, Any]]:
        """Balances that the client may see, if its token still counts."""
        await self.renew()
        return await self._runtime.run(self.budget_rows)

    async def quoted_columns(self, sql: str) -> tuple[WireColumn, ...]:
        """Columns of the answer to a query; nothing is charged."""
        await self.renew()
        quote = await self._runtime.quote(self.access, Request.of(sql, self._variables.options))
        return _wire_columns(quote.columns, wide=self._variables.intervals)


def _left(budgets: Sequence[Budget]) -> str:
    """Amount left of the limit that will be reached first."""
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
    """A double and the ends of its interval with no more digits than the interval makes sense of.

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
