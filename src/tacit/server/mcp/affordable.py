"""Request in place of one that was refused: the query that the refusal proposes, at a price that the budgets hold.

The request is quoted before it is shown. Data is not read, and nothing is charged.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tacit.accounting.filters import Line
from tacit.core.errors import BudgetError, QueryError, TacitError
from tacit.core.numbers import format_up, round_down
from tacit.query.catalog import Table
from tacit.query.refusal import Proposal, Refusal
from tacit.query.request import OPTIONS, Request
from tacit.releases.accounts import Budget

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
