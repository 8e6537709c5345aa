"""Nearest acceptable question to one that was refused.

Candidates are written from the words of the refused text and from public metadata, and each is quoted before it is
shown, so that a question that is proposed can be asked. Data is not read, and nothing is charged.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Final

from tacit.accounting.filters import Line
from tacit.charges.accounts import Budget
from tacit.core.errors import BudgetError, QueryError, TacitError
from tacit.core.numbers import format_up, round_down
from tacit.query.catalog import Table
from tacit.query.request import OPTIONS, Request

#: A longer text is not searched for names.
_LONGEST: Final = 5_000
_MOST_COLUMNS: Final = 2
_MOST_CANDIDATES: Final = 6
_WORD: Final = re.compile(r"[^\W\d]\w*")
_OPTIONS: Final = re.compile(r"\bWITH\s+DIFFERENTIAL_PRIVACY\s*(OPTIONS\s*\([^()]*\))?", re.IGNORECASE)
#: Prices are written with so many digits.
_DIGITS: Final = 6
#: Part of what is left that a question without a price is proposed for.
_PART: Final = Fraction(1, 10)
_OF_USE: Final = 1000
#: Words of SQL that are not taken for misspelt names.
_SQL: Final = frozenset(
    (
        *("select", "from", "where", "group", "by", "order", "limit", "offset", "as", "and", "or", "not", "in", "is"),
        *("null", "between", "like", "case", "when", "then", "else", "end", "count", "sum", "avg", "min", "max"),
        *("distinct", "on", "join", "inner", "left", "right", "full", "using", "having", "asc", "desc", "with"),
        *("cast", "interval", "date"),
    )
)


async def nearest_question(
    problem: BaseException,
    refused: Request,
    tables: Sequence[Table],
    budgets: Sequence[Budget],
    accepted: Callable[[Request], Awaitable[None]],
) -> Request | None:
    """The first candidate that ``accepted`` does not refuse by raising; None where there is none."""
    if not isinstance(problem, (BudgetError, QueryError, ValueError)):
        return None
    for number, candidate in enumerate(_candidates(problem, refused, tables, budgets)):
        if number >= _MOST_CANDIDATES:
            return None
        try:
            await accepted(candidate)
        except TacitError:
            continue
        return candidate
    return None


def _candidates(
    problem: BaseException, refused: Request, tables: Sequence[Table], budgets: Sequence[Budget]
) -> Iterator[Request]:
    plain = _OPTIONS.sub("", refused.sql) if len(refused.sql) <= _LONGEST else ""
    table = _table(plain, tables)
    name = "" if table is None else (table.population or "").casefold()
    budget = next((each for each in budgets if each.population.casefold() == name), None)
    if table is None or budget is None:
        return
    # Accounts that count the square of mu have no option of that name.
    currency = budget.lines[0].currency
    if is_used_up(budget):
        return
    left = min(line.left for line in _limits(budget))
    short = isinstance(problem, BudgetError)
    price = round_down(left if short else left * _PART, _DIGITS)
    if currency not in OPTIONS or price < OPTIONS[currency].low or not price:
        return
    priced = Request.of(plain, {currency: format_up(price)})
    if short:
        yield priced
        return
    if not refused.is_priced:
        yield priced
    for sql in (*_respelt(plain, tables), *_counts(plain, table)):
        # At the price that was stated, if it fits.
        if refused.is_priced:
            yield replace(refused, sql=sql)
        yield replace(priced, sql=sql)


def is_used_up(budget: Budget) -> bool:
    """Whether an account, or a share of it, has less than a thousandth left: that buys nothing of use."""
    return any(line.left * _OF_USE < line.cap for line in _limits(budget))


def _limits(budget: Budget) -> list[Line]:
    """The first currency of an account and of the shares of it that are limited."""
    own = budget.balances[0]
    return [balance.lines[0] for balance in budget.balances if balance.limited or balance is own]


def _table(sql: str, tables: Sequence[Table]) -> Table | None:
    """The first protected table that a text names; the first of all where it names none."""
    words = {word.lower() for word in _WORD.findall(sql)}
    protected = [table for table in tables if not table.public]
    return next((table for table in protected if table.name.lower() in words), next(iter(protected), None))


def _respelt(sql: str, tables: Sequence[Table]) -> Iterator[str]:
    """The text with unknown words replaced by the names that they resemble."""
    names = {name.lower(): name for table in tables for name in (table.name, *(c.name for c in table.columns))}
    changed = False

    def respell(word: re.Match[str]) -> str:
        nonlocal changed
        text = word.group()
        if text.lower() in names or text.lower() in _SQL:
            return text
        close = get_close_matches(text.lower(), names, 1, 0.7)
        changed = changed or bool(close)
        return names[close[0]] if close else text

    text = _WORD.sub(respell, sql)
    if changed:
        yield text


def _counts(sql: str, table: Table) -> Iterator[str]:
    """Counts and averages over the columns of a table that the text names, and a count of everything."""
    words = {word.lower() for word in _WORD.findall(sql)}
    columns = [column for column in table.columns if column.name.lower() in words]
    keys = [_quoted(column.name) for column in columns if column.categories is not None][:_MOST_COLUMNS]
    numbers = [column.name for column in columns if column.bounds is not None and column.type.is_numeric]
    summed = [name for name in numbers if name != table.unit][:_MOST_COLUMNS]
    means = [f"AVG({_quoted(name)}) AS {_quoted(f'mean_{name}')}" for name in summed]
    if keys or means:
        shown = ", ".join([*keys, "COUNT(*) AS n", *means])
        yield f"SELECT {shown} FROM {_quoted(table.name)}" + (f" GROUP BY {', '.join(keys)}" if keys else "")
    yield f"SELECT COUNT(*) AS n FROM {_quoted(table.name)}"


def _quoted(name: str) -> str:
    if name.isascii() and name.isidentifier() and name.lower() not in _SQL:
        return name
    return '"' + name.replace('"', '""') + '"'
