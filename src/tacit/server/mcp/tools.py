"""Tools of an assistant: tables, quote, ask, budget, history, published numbers.

Every reply has two forms: structured content, with exact amounts as text, and a few sentences. Both say what was or
would be charged, how far off the numbers may be, their bias, and what is left of the share of the conversation,
of the person's and of the population's budget. A refusal says why, that nothing was charged, and the request that would
be accepted in its place, with what that leaves out.

Arguments are those of ``POST /v1/query``, read by the same strict reader. No argument names the conversation, its share
or the person: those come from the command line, or from the headers of the request, which the person writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.client.account_responses import EntryResponse, TableResponse
from tacit.client.responses import AnswerResponse, QueryRequest, QuoteResponse, about_answer, query_body, read_query
from tacit.core.errors import BudgetError, InputError
from tacit.core.numbers import format_up, round_down
from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Proposal, Refusal
from tacit.query.request import Request
from tacit.releases.accounts import Budget
from tacit.server.api.request import read_json
from tacit.server.errors import describe, failure_json
from tacit.server.mcp.doors import AssistantDoor, affordable_request, is_used_up

INSTRUCTIONS: Final = (
    "Protected data about people, asked in SQL. Answers have noise, and each is charged to a privacy budget that does "
    "not come back. Call list_tables first; quote is free and says price and error; ask is charged. Ask one query "
    "with several aggregates rather than several queries. Read the interval of every number and its bias, "
    "and say both to the person. A repeated query is free. The conversation has a share of the budget that no "
    "argument can raise: where a reply says stop, stop asking and tell the person what you have."
)
#: Failures before anything was charged; of others that is not known.
_BEFORE: Final = ("input", "query", "budget", "access", "accounting", "auth", "rate", "busy", "request")
#: Rows and history entries in one reply; a model reads no more of use.
_MOST_ROWS: Final = 200
_MOST_ENTRIES: Final = 50
#: Rows that are written out in the text.
_MOST_LINES: Final = 40
_HOW: Final = (
    f"One SELECT that aggregates, with {', '.join(sorted(name.upper() for name in SQL_NAMES))}.",
    "It may have WHERE, GROUP BY, joins along the declared keys, CTEs and subqueries.",
    "Columns with categories make group keys for nothing; other keys are chosen privately and cost part of the price.",
    "Sums and averages need declared bounds, or AUTO.",
    "State one price: epsilon, or within (the largest error) instead. There is no default.",
    "Rows of single people are never shown.",
)


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Reply of a tool: structured content, a few sentences, and whether it is a refusal or a failure."""

    content: dict[str, Any]
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolKind:
    """A tool as assistants see it: ``title`` is for people, ``description`` for the model.

    ``schema`` describes its arguments; ``charges`` says whether it can be charged.
    """

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    charges: bool = False


_NOTHING: Final = {"type": "object", "properties": {}, "additionalProperties": False}
_QUERY: Final = QueryRequest.model_json_schema()
_PAGE: Final = {
    "type": "object",
    "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": _MOST_ENTRIES}},
    "additionalProperties": False,
}
#: The tools by name.
TOOLS: Final[Mapping[str, ToolKind]] = {
    kind.name: kind
    for kind in (
        ToolKind(
            "list_tables",
            "Tables",
            "Tables and columns with types, bounds and categories, whom they protect, and what may be asked. Free.",
            _NOTHING,
        ),
        ToolKind(
            "quote",
            "Price of a query",
            "Price, expected error and releases of a query, and how many such queries fit in what is left. Free; "
            "reads no data.",
            _QUERY,
        ),
        ToolKind(
            "ask",
            "Ask a query",
            "The noisy answer to a query, with an interval for every number and an estimate of the bias. "
            "Charged to the budget before data is read; the same query again is free.",
            _QUERY,
            charges=True,
        ),
        ToolKind(
            "budget",
            "Budget",
            "What is spent and left: of this conversation, the person, the population. Free.",
            _NOTHING,
        ),
        ToolKind(
            "history", "History", "The person's charges, newest first, with their queries and prices. Free.", _PAGE
        ),
        ToolKind(
            "find_number",
            "Was this number released?",
            "Whether a quoted number, such as 6,334 or 12.5%, stands in a signed release: what it is the answer to and "
            "its interval, or that it is in none. Free; reads no data.",
            {
                "type": "object",
                "properties": {"number": {"type": "string", "maxLength": 60}},
                "required": ["number"],
                "additionalProperties": False,
            },
        ),
    )
}


class AssistantTools:
    """The tools, for one person in one conversation; ``door`` leads to the data."""

    def __init__(self, door: AssistantDoor) -> None:
        self._door = door

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> ToolReply:
        """Call a tool; failures are replies as well."""
        refused: Request | None = None
        try:
            given = _strict(arguments)
            if name not in TOOLS:
                raise InputError("name", f"must be one of {', '.join(TOOLS)}")
            self._door.about["tool"] = name
            if name in ("quote", "ask"):
                refused = read_query(given)
                self._door.about["sql"] = hashlib.sha256(refused.sql.encode()).hexdigest()[:16]
                return await (self._quote(refused) if name == "quote" else self._ask(refused))
            known = TOOLS[name].schema["properties"]
            unknown = next((word for word in given if word not in known), None)
            if unknown is not None:
                raise InputError(unknown[:80], f"is not an argument; there are {', '.join(known) or 'none'}")
            tools: dict[str, Callable[[], Awaitable[ToolReply]]] = {
                "list_tables": self._list_tables,
                "budget": self._budget,
                "history": lambda: self._history(given.get("limit")),
                "find_number": lambda: self._find(given.get("number")),
            }
            return await tools[name]()
        except Exception as problem:
            return await self._refused(problem, refused)

    async def _list_tables(self) -> ToolReply:
        tables = await self._door.tables()
        content = {"tables": [TableResponse.of(each).plain() for each in tables], "how_to_ask": list(_HOW)}
        left, words = await self._left()
        text = "\n".join([*map(str, tables), *_HOW, words])
        return ToolReply({**content, **left}, text)

    async def _quote(self, ask: Request) -> ToolReply:
        quote = await self._door.explain(ask.sql, **ask.options)
        budgets = await self._door.budgets(quote)
        fits = None if quote.is_public else budgets[0].queries
        content = QuoteResponse.of(quote, queries_left=fits).plain()
        del content["leaves_after"]
        errors = [f"{each.label} {each.meaning}" for each in quote.explanation.errors]
        lost = quote.explanation.bias
        text = [
            f"Price: {quote.charge}.",
            *([f"Expected error: {'; '.join(errors)}."] if errors else []),
            *([] if quote.is_public else [f"Bounding: {quote.explanation.bounding}."]),
            *([] if lost is None else [f"Left out: {lost}."]),
            *(quote.explanation.advice or ()),
            _left_words(budgets),
        ]
        return ToolReply({**content, **_left_content(budgets)}, "\n".join(text))

    async def _ask(self, ask: Request) -> ToolReply:
        answer = await self._door.sql(ask.sql, **ask.options)
        told = about_answer(answer)
        self._door.about |= told
        content = AnswerResponse.of(answer).plain()
        rows = content["rows"]
        content["rows"] = rows[:_MOST_ROWS]
        cut = []
        if len(rows) > _MOST_ROWS:
            cut = [f"Only {_MOST_ROWS} of {len(rows)} rows are shown; add ORDER BY and LIMIT, which is free."]
            content["rows_not_shown"] = len(rows) - _MOST_ROWS
        if answer.receipt is not None:
            content["receipt"] = {"position": answer.receipt.position, "signature": answer.receipt.signature}
        content["charged_now"] = told.get("charge", {})
        content["cut"] = cut
        left, words = await self._left(answer.charge.population)
        lines = [" | ".join(column["name"] for column in content["columns"])]
        lines += [" | ".join(map(_cell, row)) for row in content["rows"]]
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], "… (more rows are in the structured content)"]
        text = [*lines, answer.note, *cut, words]
        return ToolReply({**content, **left}, "\n".join(text))

    async def _budget(self) -> ToolReply:
        return ToolReply(*await self._left())

    async def _history(self, limit: Any) -> ToolReply:
        most = 10 if limit is None else int(limit) if str(limit).isdigit() and len(str(limit)) < 4 else 0
        if not 1 <= most <= _MOST_ENTRIES:
            raise InputError("limit", f"must be a whole number from 1 to {_MOST_ENTRIES}")
        entries = [EntryResponse.of(each).plain() for each in reversed(await self._door.history(limit=most))]
        lines = [
            f"{each['position']}: {', '.join(f'{name} {amount}' for name, amount in each['amounts'].items())} for "
            f"{' '.join(each['sql'].split())[:200]}" + ("" if each["answered"] else " (nothing was released)")
            for each in entries
        ]
        left, words = await self._left()
        return ToolReply({"entries": entries, **left}, "\n".join([*(lines or ["Nothing was charged yet."]), words]))

    async def _find(self, number: Any) -> ToolReply:
        if not isinstance(number, str):
            raise InputError("number", "must be a text, as it was quoted")
        result = await self._door.find(number)
        found = [
            {"position": each.position, "query": each.query, "about": each.about, "receipt_holds": each.signed}
            | {name: None if (end := getattr(each, name)) is None else float(end) for name in ("value", "low", "high")}
            for each in result.found[:_MOST_ENTRIES]
        ]
        return ToolReply({"number": result.number, "found": found, "looked_into": result.looked}, str(result))

    async def _left(self, population: str = "") -> tuple[dict[str, Any], str]:
        budgets = await self._door.budgets()
        chosen = [each for each in budgets if population in ("", each.population)]
        return _left_content(chosen), _left_words(chosen)

    async def _refused(self, problem: Exception, refused: Request | None) -> ToolReply:
        failure = describe(problem)
        self._door.about["code"] = failure.code
        content: dict[str, Any] = failure_json(failure)
        sentence = problem.sentence if isinstance(problem, Refusal) else failure.message
        words = [sentence if sentence.endswith(".") else f"{sentence}."]
        if failure.code.partition(".")[0] in _BEFORE:
            content["charged_now"] = {}
            words.append("Nothing was charged.")
        try:
            budgets = await self._door.budgets()
            left = _left_content(budgets)
            nearest = None if refused is None else await self._nearest(problem, refused, budgets)
        except Exception:
            # The first failure is the one to tell.
            return ToolReply({**content, "nearest": None, "stop": False}, " ".join(words), failed=True)
        if nearest is not None:
            request, change = nearest
            content["nearest"] = {"tool": "ask", "change": change, "arguments": json.loads(_stated(request))}
            words.append(str(Proposal(_stated(request), change)))
        else:
            content["nearest"] = None
        # The stop is for the budget, and not for a sentence that a model could correct.
        content |= left
        content["stop"] = left["stop"] or (isinstance(problem, BudgetError) and nearest is None)
        return ToolReply(content, "\n".join([*words, _left_words(budgets)]), failed=True)

    async def _nearest(
        self, problem: Exception, refused: Request, budgets: Sequence[Budget]
    ) -> tuple[Request, str] | None:
        tables = [info.table for info in await self._door.tables()]

        async def accepted(candidate: Request) -> None:
            quote = await self._door.explain(candidate.sql, **candidate.options)
            if not quote.is_public and (await self._door.budgets(quote))[0].queries == 0:
                raise BudgetError("it does not fit")

        return await affordable_request(problem, refused, tables, budgets, accepted)


def _cell(cell: Any) -> str:
    if not isinstance(cell, dict):
        return "NULL" if cell is None else str(cell)
    value, low, high = (_short(cell[word]) for word in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _strict(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments by the strict reader of request bodies; numbers as the decimal text that they print as."""
    try:
        text = json.dumps(dict(arguments or {}), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError("arguments", "must be a JSON object") from None
    given: dict[str, Any] = read_json(text)
    return given


def _stated(ask: Request) -> str:
    """The arguments that ask a query, without options that have their default."""
    plain = Request()
    stated = {name: value for name, value in ask.options.items() if value != getattr(plain, name)}
    told = json.loads(query_body(Request.of(ask.sql, stated)))
    kept = {name: told[name] for name in ("sql", *stated)}
    return json.dumps(kept, ensure_ascii=False)


def _left_content(budgets: Sequence[Budget]) -> dict[str, Any]:
    """Amounts left, by population and owner, and whether the conversation has to stop."""
    left = [
        {
            "population": budget.population,
            "of": balance.owner,
            "currency": line.currency,
            "cap": _down(line.cap),
            "spent": format_up(Fraction(line.spent)),
            "left": _down(line.left),
        }
        for budget in budgets
        for balance in budget.balances
        if balance is budget.balances[0] or balance.limited
        for line in balance.lines
        if line.cap
    ]
    return {"left": left, "stop": bool(budgets) and all(map(is_used_up, budgets))}


def _left_words(budgets: Sequence[Budget]) -> str:
    words = [f"Left: {budget}." for budget in budgets]
    if _left_content(budgets)["stop"]:
        words.append("Stop: nothing more can be asked here. What was asked before can be asked again for nothing.")
    return " ".join(words)


def _down(value: Any) -> str:
    return format_up(round_down(value, 6))
