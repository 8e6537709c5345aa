"""Tools of an assistant: tables, quote, ask, budget, history, published numbers.

Every reply has two forms: structured content, with exact amounts as text, and a few sentences. Both state what was or
would be charged, the error and bias of the numbers, and the remaining share of the conversation, of the person, and of
the population's budget. A refusal states the reason, that nothing was charged, and a request that would be accepted,
with what it leaves out: its query is the one that the refusal proposes, at a cost that the budgets allow. It is quoted
first; data is not read, and nothing is charged.

Arguments are those of ``POST /v1/query``, parsed by the same strict reader. No argument names the conversation, its
share or the person: those come from the command line, or from the token, which an owner issues.

The tools reach the data through a *door*: a curator in this process, or a person at a server. Both process queries in
the same way, with the same plans, costs, ledger and refusals. At a server, rate limits, threads and response times are
also those of the API.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from mcp.types import Tool, ToolAnnotations

from tacit.accounting.filters import Line
from tacit.client.account_responses import EntryResponse, TableResponse
from tacit.client.responses import AnswerResponse, QueryRequest, QuoteResponse, about_answer, query_body, read_query
from tacit.core.errors import BudgetError, InputError, QueryError, TacitError
from tacit.core.numbers import format_up, round_down
from tacit.curator.curator import check_own
from tacit.ledger.entries import plain_name
from tacit.query.aggregates import SQL_NAMES
from tacit.query.catalog import Table
from tacit.query.refusal import Proposal, Refusal
from tacit.query.request import OPTIONS, Request
from tacit.releases.accounts import Budget
from tacit.releases.payment import entry_of
from tacit.releases.published_numbers import NumberSearch, find_number
from tacit.server.api.request import read_json
from tacit.server.api.worker_runtime import let_run
from tacit.server.errors import describe, failure_json

if TYPE_CHECKING:
    from tacit.curator.curator import Conversation, Curator, TableInfo
    from tacit.releases.accounts import Entry
    from tacit.releases.answer import Answer
    from tacit.releases.plans import Quote
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access

INSTRUCTIONS: Final = (
    "Protected data about people, asked in SQL. Answers have noise, and each is charged to a privacy budget that does "
    "not come back. Call list_tables first; quote is free and says cost and error; ask is charged. Ask one query "
    "with several aggregates rather than several queries. Read the interval of every number and its bias, "
    "and say both to the person. A repeated query is free. The conversation has a share of the budget that no "
    "argument can raise: where a reply says stop, stop asking and tell the person what you have."
)
#: Error codes that imply that nothing was charged; other codes do not tell.
_BEFORE: Final = ("input", "query", "budget", "access", "accounting", "auth", "rate", "busy", "request")
#: Maximum rows and history entries in one reply; more would not help a model.
_MOST_ROWS: Final = 200
_MOST_ENTRIES: Final = 50
#: Maximum number of rows in the text.
_MOST_LINES: Final = 40
_HOW: Final = (
    f"One SELECT that aggregates, with {', '.join(sorted(name.upper() for name in SQL_NAMES))}.",
    "It may have WHERE, GROUP BY, joins along the declared keys, CTEs and subqueries.",
    "Columns with categories make group keys at no cost; other keys are chosen privately for a part of the cost.",
    "Sums and averages need declared bounds, or AUTO.",
    "State one cost: epsilon, or within (the largest error) instead. There is no default.",
    "Rows of single people are never shown.",
)
#: Maximum characters of a text that is searched for names.
_LONGEST: Final = 5_000
_WORD: Final = re.compile(r"[^\W\d]\w*")
#: A clause that states only a cost.
_PRICE: Final = re.compile(
    r"\bWITH\s+DIFFERENTIAL_PRIVACY\s+OPTIONS\s*\(\s*((epsilon|delta|rho)\s*=\s*[\d.eE+/-]+\s*,?\s*)*\)", re.IGNORECASE
)
#: Significant digits of proposed costs.
_DIGITS: Final = 6
#: Share of the remaining budget proposed as the cost of a query that states none.
_PART: Final = Fraction(1, 10)
_OF_USE: Final = 1000


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Reply of a tool: structured content, text, and whether it is a refusal or a failure."""

    content: dict[str, Any]
    text: str
    failed: bool = False


def _tool(name: str, title: str, description: str, schema: Mapping[str, Any], *, charges: bool = False) -> Tool:
    """Return a tool's MCP description: ``title`` is for people, ``description`` for the model."""
    hints = ToolAnnotations(
        title=title, read_only_hint=not charges, destructive_hint=charges, idempotent_hint=True, open_world_hint=False
    )
    return Tool(name=name, title=title, description=description, input_schema=dict(schema), annotations=hints)


_NOTHING: Final = {"type": "object", "properties": {}, "additionalProperties": False}
_QUERY: Final = QueryRequest.model_json_schema()
_PAGE: Final = {
    "type": "object",
    "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": _MOST_ENTRIES}},
    "additionalProperties": False,
}
#: The tools by name.
TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        _tool(
            "list_tables",
            "Tables",
            "Tables and columns with types, bounds and categories, whom they protect, and what may be asked. Free.",
            _NOTHING,
        ),
        _tool(
            "quote",
            "Cost of a query",
            "Cost, expected error and releases of a query, and how many such queries fit in what is left. Free; "
            "reads no data.",
            _QUERY,
        ),
        _tool(
            "ask",
            "Ask a query",
            "The noisy answer to a query, with an interval for every number and an estimate of the bias. "
            "Charged to the budget before data is read; the same query again is free.",
            _QUERY,
            charges=True,
        ),
        _tool(
            "budget",
            "Budget",
            "What is spent and left: of this conversation, the person, the population. Free.",
            _NOTHING,
        ),
        _tool("history", "History", "The person's charges, newest first, with their queries and costs. Free.", _PAGE),
        _tool(
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


# -- the two doors


class CuratorDoor:
    """The curator of a project file, called in threads, and the conversation whose share is charged."""

    def __init__(self, curator: Curator, conversation: Conversation) -> None:
        self.about: dict[str, Any] = {}
        self._curator = curator.conversing(conversation)

    async def tables(self) -> tuple[TableInfo, ...]:
        return self._curator.tables()

    async def explain(self, sql: str, **options: Any) -> Quote:
        return await asyncio.to_thread(self._curator.explain, sql, **options)

    async def sql(self, sql: str, *, analyst: str | None = None, idempotency_key: str = "", **options: Any) -> Answer:
        words = {"analyst": analyst, "idempotency_key": idempotency_key, **options}
        return await asyncio.to_thread(self._curator.sql, sql, **words)

    async def budget(
        self, quote: Quote | None = None, *, population: str | None = None, analyst: str | None = None
    ) -> Budget:
        return await asyncio.to_thread(self._curator.budget, quote, population=population, analyst=analyst)

    async def budgets(self, quote: Quote | None = None) -> tuple[Budget, ...]:
        return await asyncio.to_thread(self._curator.budgets, quote)

    async def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Return charges of the named analyst; by default, of the curator's analyst."""
        who = analyst or self._curator.analyst
        return await asyncio.to_thread(self._curator.history, population=population, analyst=who, limit=limit)

    async def find(self, number: str) -> NumberSearch:
        """Search for a quoted number in releases and in the person's own answers. Free."""
        own = plain_name(self._curator.analyst, "analyst")
        return await asyncio.to_thread(
            find_number, self._curator.context, number, sees=lambda record: record.analyst == own
        )


class ServerDoor:
    """An authenticated person at a server, whose token has a share; ``about`` collects public facts for the log."""

    def __init__(self, runtime: WorkerRuntime, access: Access, about: dict[str, Any]) -> None:
        self.about = about
        self._runtime = runtime
        self._access = access

    async def tables(self) -> tuple[TableInfo, ...]:
        return await self._runtime.run(self._runtime.service.tables, self._access)

    async def explain(self, sql: str, **options: Any) -> Quote:
        return await self._runtime.quote(self._access, Request.of(sql, options))

    async def sql(self, sql: str, *, analyst: str | None = None, idempotency_key: str = "", **options: Any) -> Answer:
        check_own(analyst)
        if self._access.share is None:
            raise InputError(
                "token",
                "an assistant asks with a token that has a share of its own, which says how much it may spend: "
                "tacit analysts token NAME --share 1",
            )
        # If the client disconnects, the work goes on: its charge is paid, and its response time does not change.
        work = asyncio.ensure_future(self._runtime.ask(self._access, Request.of(sql, options), idempotency_key))
        let_run(work)
        return await asyncio.shield(work)

    async def budget(
        self, quote: Quote | None = None, *, population: str | None = None, analyst: str | None = None
    ) -> Budget:
        check_own(analyst)
        return (await self._budgets(quote, population))[0]

    async def budgets(self, quote: Quote | None = None) -> tuple[Budget, ...]:
        return await self._budgets(quote)

    async def _budgets(self, quote: Quote | None, population: str | None = None) -> tuple[Budget, ...]:
        return await self._runtime.run(self._runtime.service.budget, self._access, population, quote)

    async def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Return the person's newest charges, at most one page."""
        check_own(analyst)
        page = await self._runtime.run(self._runtime.service.history, self._access, limit=limit)
        found = (entry_of(each) for each in page.records if population in (None, each.population))
        return tuple(found)[::-1]

    async def find(self, number: str) -> NumberSearch:
        """Search for a quoted number in everything the person may see. Free."""
        return await self._runtime.run(self._runtime.service.find_number, self._access, number)


# -- the tools


class AssistantTools:
    """The tools for one person in one conversation; ``door`` gives access to the curator or server."""

    def __init__(self, door: CuratorDoor | ServerDoor) -> None:
        self._door = door

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> ToolReply:
        """Call a tool; failures are returned as replies."""
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
            known = TOOLS[name].input_schema["properties"]
            unknown = next((word for word in given if word not in known), None)
            if unknown is not None:
                raise InputError(unknown[:80], f"is not an argument; expected {', '.join(known) or 'none'}")
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
        del content["response_time"]
        errors = [f"{each.label} {each.meaning}" for each in quote.explanation.errors]
        lost = quote.explanation.bias
        text = [
            f"Cost: {quote.charge}.",
            *([f"Expected error: {'; '.join(errors)}."] if errors else []),
            *([] if quote.is_public else [f"Bounding: {quote.explanation.bounding}."]),
            *([] if lost is None else [f"Bias: {lost}."]),
            *(quote.explanation.advice or ()),
            _left_words(budgets),
        ]
        return ToolReply({**content, **_left_content(budgets)}, "\n".join(text))

    async def _ask(self, ask: Request) -> ToolReply:
        answer = await self._door.sql(ask.sql, **ask.options)
        about = about_answer(answer)
        self._door.about |= about
        content = AnswerResponse.of(answer).plain()
        rows = content["rows"]
        content["rows"] = rows[:_MOST_ROWS]
        cut = []
        if len(rows) > _MOST_ROWS:
            cut = [f"Only {_MOST_ROWS} of {len(rows)} rows are shown; add ORDER BY and LIMIT, which is free."]
            content["rows_not_shown"] = len(rows) - _MOST_ROWS
        if answer.receipt is not None:
            content["receipt"] = {"position": answer.receipt.position, "signature": answer.receipt.signature}
        content["charged_now"] = about.get("charge", {})
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
            # Report the original failure.
            return ToolReply({**content, "nearest": None, "stop": False}, " ".join(words), failed=True)
        if nearest is not None:
            request, change = nearest
            content["nearest"] = {"tool": "ask", "change": change, "arguments": json.loads(_stated(request))}
            words.append(str(Proposal(_stated(request), change)))
        else:
            content["nearest"] = None
        # Stop only if the budget is used up, not for a query that the model could correct.
        content |= left
        content["stop"] = left["stop"] or (isinstance(problem, BudgetError) and nearest is None)
        return ToolReply(content, "\n".join([*words, _left_words(budgets)]), failed=True)

    async def _nearest(
        self, problem: Exception, refused: Request, budgets: Sequence[Budget]
    ) -> tuple[Request, str] | None:
        """Return a request that would be accepted, and what its query leaves out; None if none is found."""
        if not isinstance(problem, (BudgetError, QueryError, ValueError)):
            return None
        proposal = problem.proposal if isinstance(problem, Refusal) else Proposal(refused.sql)
        if proposal is None:
            return None
        tables = [info.table for info in await self._door.tables()]
        for request in _at_prices(problem, replace(refused, sql=proposal.sql), tables, budgets):
            try:
                quote = await self._door.explain(request.sql, **request.options)
                if quote.is_public or (await self._door.budgets(quote))[0].queries != 0:
                    return request, proposal.change
            except TacitError:
                continue
        return None


def _at_prices(
    problem: BaseException, wanted: Request, tables: Sequence[Table], budgets: Sequence[Budget]
) -> Iterator[Request]:
    """Yield the request at its stated cost, then at a cost that fits in the budget."""
    short = isinstance(problem, BudgetError)
    if wanted.is_priced and not short:
        yield wanted
    plain = _PRICE.sub("", wanted.sql) if len(wanted.sql) <= _LONGEST else ""
    words = {word.lower() for word in _WORD.findall(plain)}
    owners = {str(each.population).casefold() for each in tables if each.name.lower() in words and not each.public}
    budget = next((each for each in budgets if each.population.casefold() in owners), None)
    if budget is None or _is_used_up(budget):
        return
    # Accounts in squared mu have no option of that name.
    currency = budget.lines[0].currency
    left = min(line.left for line in _limits(budget))
    price = round_down(left if short else left * _PART, _DIGITS)
    if currency in OPTIONS and price and price >= OPTIONS[currency].low:
        yield Request.of(plain, {currency: format_up(price)})


def _is_used_up(budget: Budget) -> bool:
    """Whether less than a thousandth of an account or of a share of it remains, too little for a useful query."""
    return any(line.left * _OF_USE < line.cap for line in _limits(budget))


def _limits(budget: Budget) -> list[Line]:
    """Return the line of the first currency, for the account and for each limited share of it."""
    own = budget.balances[0]
    return [balance.lines[0] for balance in budget.balances if balance.limited or balance is own]


def _cell(cell: Any) -> str:
    if not isinstance(cell, dict):
        return "NULL" if cell is None else str(cell)
    value, low, high = (_short(cell[word]) for word in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _strict(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Parse arguments as strictly as request bodies; numbers are read from their printed decimal text."""
    try:
        text = json.dumps(dict(arguments or {}), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError("arguments", "must be a JSON object") from None
    given: dict[str, Any] = read_json(text)
    return given


def _stated(ask: Request) -> str:
    """Return the tool arguments for a query as JSON, without options that have their default."""
    plain = Request()
    stated = {name: value for name, value in ask.options.items() if value != getattr(plain, name)}
    body = json.loads(query_body(Request.of(ask.sql, stated)))
    kept = {name: body[name] for name in ("sql", *stated)}
    return json.dumps(kept, ensure_ascii=False)


def _left_content(budgets: Sequence[Budget]) -> dict[str, Any]:
    """Return the remaining amounts by population and owner, and whether the conversation has to stop."""
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
    return {"left": left, "stop": bool(budgets) and all(map(_is_used_up, budgets))}


def _left_words(budgets: Sequence[Budget]) -> str:
    words = [f"Left: {budget}." for budget in budgets]
    if _left_content(budgets)["stop"]:
        words.append("Stop: nothing more can be asked here. What was asked before can be asked again, free.")
    return " ".join(words)


def _down(value: Any) -> str:
    return format_up(round_down(value, 6))
