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
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from tacit.accounting.filters import Line
from tacit.core.errors import BudgetError, InputError, QueryError, TacitError
from tacit.core.numbers import format_up, round_down
from tacit.ledger.entries import plain_name
from tacit.query.catalog import Table
from tacit.query.refusal import Proposal, Refusal
from tacit.query.request import OPTIONS, Request
from tacit.releases.accounts import Budget
from tacit.releases.payment import Caller, hide_internal_errors
from tacit.releases.published_table import NumberSearch, find_number
from tacit.releases.query import answer
from tacit.server.api.worker_runtime import let_run

if TYPE_CHECKING:
    from tacit.curator.curator import Conversation, Curator, TableInfo
    from tacit.ledger import Record
    from tacit.query.request import Request
    from tacit.releases.accounts import Budget
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
    """Operations that the tools need."""

    about: dict[str, Any]

    async def tables(self) -> tuple[TableInfo, ...]:
        """Tables, and what is publicly known about them."""

    async def quote(self, ask: Request) -> Quote:
        """Effect and price of a query; free."""

    async def ask(self, ask: Request) -> Answer:
        """The answer to a query, charged."""

    async def budgets(self, quote: Quote | None = None) -> tuple[Budget, ...]:
        """Accounts with the share of the conversation last; with a quote, the one that it would be charged to."""

    async def history(self, limit: int) -> tuple[Record, ...]:
        """Charges of the person, newest first."""

    async def find(self, number: str) -> NumberSearch:
        """A quoted number in signed releases; free."""


class CuratorDoor:
    """The curator of a project file, and the conversation whose share is charged."""

    def __init__(self, curator: Curator, conversation: Conversation) -> None:
        if not curator.ledger.durable:
            # A restart would give the share anew.
            raise InputError("project.ledger", 'an assistant needs one that lasts; write ledger = "tacit.ledger"')
        self.about: dict[str, Any] = {}
        self._curator = curator
        self._conversation = conversation
        for population in curator.context.accounts:
            conversation.begin(curator.context, curator.analyst, population)

    async def tables(self) -> tuple[TableInfo, ...]:
        """Tables, and what is publicly known about them."""
        return self._curator.tables()

    async def quote(self, ask: Request) -> Quote:
        """Effect and price of a query; free."""
        return await asyncio.to_thread(self._curator.explain, ask.sql, **ask.options)

    async def ask(self, ask: Request) -> Answer:
        """The answer to a query, charged."""
        caller = Caller(self._curator.analyst, conversation=self._conversation.name)
        return await asyncio.to_thread(answer, self._curator.context, ask.sql, ask, caller)

    async def budgets(self, quote: Quote | None = None) -> tuple[Budget, ...]:
        """Accounts with the share of the conversation last; with a quote, the one that it would be charged to."""
        context, who = self._curator.context, self._curator.analyst
        if quote is not None and quote.plan is not None:
            population, charge = quote.plan.final.population, quote.plan.guarantee
            return (await asyncio.to_thread(self._conversation.budget, context, who, population, charge),)
        return await asyncio.to_thread(
            lambda: tuple(self._conversation.budget(context, who, name) for name in context.accounts)
        )

    async def history(self, limit: int) -> tuple[Record, ...]:
        """Charges of the person, newest first."""

        def charges() -> tuple[Record, ...]:
            with hide_internal_errors():
                found = self._curator.ledger.history(analyst=self._curator.analyst, newest_first=True)
                return tuple(islice(found, limit))

        return await asyncio.to_thread(charges)

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
        """Tables, and what is publicly known about them."""
        return await self._runtime.run(self._runtime.service.tables, self._access)

    async def quote(self, ask: Request) -> Quote:
        """Effect and price of a query; free."""
        return await self._runtime.quote(self._access, ask)

    async def ask(self, ask: Request) -> Answer:
        """The answer to a query, charged."""
        if self._conversation is None and self._access.share is None:
            raise InputError(
                "Tacit-Share",
                "the person must state how much this conversation may spend, in the assistant's configuration: "
                'the header "Tacit-Share": "1"; or the owner issues a token with a share',
            )
        # A client that leaves ends the wait, not the work: its charge is paid, and it departs when it was to depart.
        work = asyncio.ensure_future(self._runtime.ask(self._access, ask, conversation=self._conversation))
        let_run(work)
        return await asyncio.shield(work)

    async def budgets(self, quote: Quote | None = None) -> tuple[Budget, ...]:
        """Accounts with the share of the conversation last; with a quote, the one that it would be charged to."""
        return await self._runtime.run(
            self._runtime.service.budget, self._access, quote=quote, conversation=self._conversation
        )

    async def history(self, limit: int) -> tuple[Record, ...]:
        """Charges of the person, newest first."""
        page = await self._runtime.run(self._runtime.service.history, self._access, limit=limit)
        return page.records

    async def find(self, number: str) -> NumberSearch:
        """A quoted number in what the person sees; free."""
        return await self._runtime.run(self._runtime.service.find_number, self._access, number)
