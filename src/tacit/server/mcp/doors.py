"""Doors behind the tools: a curator in this process, or a person at a server; and what to ask instead of a refusal.

Both doors lead to the one way of a query: the same plans, prices, ledger and refusals. At a server rates, threads
and departure times are those of the API as well. In place of a refused request one is shown with the query that the
refusal proposes, at a price that the budgets hold: it is quoted first; data is not read, and nothing is charged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol

from tacit.accounting.filters import Line
from tacit.core.errors import BudgetError, InputError, QueryError, TacitError
from tacit.core.numbers import format_up, round_down
from tacit.curator.curator import check_own
from tacit.ledger.entries import plain_name
from tacit.query.catalog import Table
from tacit.query.refusal import Proposal, Refusal
from tacit.query.request import OPTIONS, Request
from tacit.releases.accounts import Budget
from tacit.releases.payment import entry_of
from tacit.releases.published_table import NumberSearch, find_number
from tacit.server.api.worker_runtime import let_run

if TYPE_CHECKING:
    from tacit.curator.curator import Conversation, Curator, TableInfo
    from tacit.query.request import Request
    from tacit.releases.accounts import Budget, Entry
    from tacit.releases.answer import Answer
    from tacit.releases.planner import Quote
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access

#: A longer text is not searched for names.
_LONGEST: Final = 5_000
_WORD: Final = re.compile(r"[^\W\d]\w*")
#: A clause that states a price and nothing else.
_PRICE: Final = re.compile(
    r"\bWITH\s+DIFFERENTIAL_PRIVACY\s+OPTIONS\s*\(\s*((epsilon|delta|rho)\s*=\s*[\d.eE+/-]+\s*,?\s*)*\)", re.IGNORECASE
)
#: Prices are written with so many digits.
_DIGITS: Final = 6
#: Part of what is left that a query without a price is proposed for.
_PART: Final = Fraction(1, 10)
_OF_USE: Final = 1000


async def affordable_request(
    problem: BaseException,
    refused: Request,
    tables: Sequence[Table],
    budgets: Sequence[Budget],
    accepted: Callable[[Request], Awaitable[None]],
) -> tuple[Request, str] | None:
    """A request that ``accepted`` does not refuse by raising, and what its query leaves out; None without any."""
    if not isinstance(problem, (BudgetError, QueryError, ValueError)):
        return None
    proposal = problem.proposal if isinstance(problem, Refusal) else Proposal(refused.sql)
    if proposal is None:
        return None
    for request in _at_prices(problem, replace(refused, sql=proposal.sql), tables, budgets):
        try:
            await accepted(request)
        except TacitError:
            continue
        return request, proposal.change
    return None


def _at_prices(
    problem: BaseException, wanted: Request, tables: Sequence[Table], budgets: Sequence[Budget]
) -> Iterator[Request]:
    """The request at the price that was stated, and at one that fits."""
    short = isinstance(problem, BudgetError)
    if wanted.is_priced and not short:
        yield wanted
    plain = _PRICE.sub("", wanted.sql) if len(wanted.sql) <= _LONGEST else ""
    words = {word.lower() for word in _WORD.findall(plain)}
    owners = {str(each.population).casefold() for each in tables if each.name.lower() in words and not each.public}
    budget = next((each for each in budgets if each.population.casefold() in owners), None)
    if budget is None or is_used_up(budget):
        return
    # Accounts that count the square of mu have no option of that name.
    currency = budget.lines[0].currency
    left = min(line.left for line in _limits(budget))
    price = round_down(left if short else left * _PART, _DIGITS)
    if currency in OPTIONS and price and price >= OPTIONS[currency].low:
        yield Request.of(plain, {currency: format_up(price)})


def is_used_up(budget: Budget) -> bool:
    """Whether an account, or a share of it, has less than a thousandth left: that buys nothing of use."""
    return any(line.left * _OF_USE < line.cap for line in _limits(budget))


def _limits(budget: Budget) -> list[Line]:
    """The first currency of an account and of the shares of it that are limited."""
    own = budget.balances[0]
    return [balance.lines[0] for balance in budget.balances if balance.limited or balance is own]


class AssistantDoor(Protocol):
    """:class:`tacit.curator.curator.Asking`, awaited, and what the tools need beside it."""

    about: dict[str, Any]

    async def tables(self) -> tuple[TableInfo, ...]: ...

    async def explain(self, sql: str, **options: Any) -> Quote: ...

    async def sql(
        self, sql: str, *, analyst: str | None = None, idempotency_key: str = "", **options: Any
    ) -> Answer: ...

    async def budget(
        self, quote: Quote | None = None, *, population: str | None = None, analyst: str | None = None
    ) -> Budget: ...

    async def budgets(self, quote: Quote | None = None) -> tuple[Budget, ...]: ...

    async def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]: ...

    async def find(self, number: str) -> NumberSearch:
        """A quoted number in signed releases; free."""


class CuratorDoor:
    """The curator of a project file, in threads, and the conversation whose share is charged."""

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
        """Charges of the analyst alone, where none is named."""
        who = analyst or self._curator.analyst
        return await asyncio.to_thread(self._curator.history, population=population, analyst=who, limit=limit)

    async def find(self, number: str) -> NumberSearch:
        """A quoted number in releases and in the person's own answers; free."""
        own = plain_name(self._curator.analyst, "analyst")
        return await asyncio.to_thread(
            find_number, self._curator.context, number, sees=lambda record: record.analyst == own
        )


class ServerDoor:
    """A person who has shown a token to a server; ``about`` takes public facts for the log.

    Args:
        conversation: whose share is charged; None where the request states none, and then nothing can be asked but with
            a token that has a share of its own.
    """

    def __init__(
        self, runtime: WorkerRuntime, access: Access, conversation: Conversation | None, about: dict[str, Any]
    ) -> None:
        self.about = about
        self._runtime = runtime
        self._access = access
        self._conversation = conversation

    async def tables(self) -> tuple[TableInfo, ...]:
        return await self._runtime.run(self._runtime.service.tables, self._access)

    async def explain(self, sql: str, **options: Any) -> Quote:
        return await self._runtime.quote(self._access, Request.of(sql, options))

    async def sql(self, sql: str, *, analyst: str | None = None, idempotency_key: str = "", **options: Any) -> Answer:
        check_own(analyst)
        if self._conversation is None and self._access.share is None:
            raise InputError(
                "Tacit-Share",
                "the person must state how much this conversation may spend, in the assistant's configuration: "
                'the header "Tacit-Share": "1"; or the owner issues a token with a share',
            )
        # A client that leaves ends the wait, not the work: its charge is paid, and it departs when it was to depart.
        ask, talk = Request.of(sql, options), self._conversation
        work = asyncio.ensure_future(self._runtime.ask(self._access, ask, idempotency_key, conversation=talk))
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
        return await self._runtime.run(
            self._runtime.service.budget, self._access, population, quote, conversation=self._conversation
        )

    async def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """The newest charges of the person, of one page."""
        check_own(analyst)
        page = await self._runtime.run(self._runtime.service.history, self._access, limit=limit)
        found = (entry_of(each) for each in page.records if population in (None, each.population))
        return tuple(found)[::-1]

    async def find(self, number: str) -> NumberSearch:
        """A quoted number in what the person sees; free."""
        return await self._runtime.run(self._runtime.service.find_number, self._access, number)
