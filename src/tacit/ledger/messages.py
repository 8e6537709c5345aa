"""Messages about accounts and missing budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tacit.accounting.filters import Filter, Line
from tacit.core.numbers import format_up, round_down
from tacit.ledger.account_terms import PricedCharge
from tacit.ledger.fixed_point import from_grains
from tacit.ledger.protocol import BalanceState
from tacit.ledger.records import Balance, LedgerBudget

__all__ = ["amounts_words", "budget", "owner_words", "questions_left", "shortage", "terms_words"]


def budget(
    limit: Filter, population: str, owners: Sequence[str], levels: Sequence[BalanceState], priced: PricedCharge | None
) -> LedgerBudget:
    """The balances of an account and of the shares asked for."""
    held = {(level.pocket.owner, level.pocket.currency): level for level in levels}
    balances = tuple(_balance(limit, owner, held) for owner in owners)
    questions = None if priced is None else questions_left(levels, priced)
    return LedgerBudget(population, limit.guarantee, balances, questions)


def _balance(limit: Filter, owner: str, held: Mapping[tuple[str, str], BalanceState]) -> Balance:
    lines, limited = [], False
    for line in limit.lines:
        whole, share = held.get(("", line.currency)), held.get((owner, line.currency))
        limited = limited or (share is not None and share.cap is not None)
        cap = share.cap if share is not None and share.cap is not None else None if whole is None else whole.cap
        spent = 0 if share is None else share.spent
        lines.append(Line(line.currency, from_grains(cap or 0), from_grains(spent)))
    return Balance(owner_words(owner), limited, tuple(lines))


def questions_left(levels: Sequence[BalanceState], priced: PricedCharge) -> int | None:
    """How many more such charges fit in all of some pockets; None where nothing limits them."""
    counts = [
        max(level.cap - level.spent, 0) // priced.amounts[level.pocket.currency]
        for level in levels
        if level.cap is not None and priced.amounts[level.pocket.currency]
    ]
    return min(counts, default=None)


def shortage(body: Mapping[str, Any], levels: Sequence[BalanceState]) -> str:
    """Why a charge was refused: whose budget, how much it needs, how much is left."""
    parts = []
    for level in levels:
        cap = level.cap or 0
        left = from_grains(max(cap - level.spent, 0))
        whose = f" for {owner_words(level.pocket.owner)}" if level.pocket.owner else ""
        needed = format_up(Fraction(body["amounts"][level.pocket.currency]))
        parts.append(
            f"{level.pocket.currency} needs {needed} and has {_down(left)} of {_down(from_grains(cap))} left{whose}"
        )
    return f"{body['population']}: the charge does not fit: {'; '.join(parts)}"


def amounts_words(amounts: Mapping[str, str]) -> str:
    """Such as ``epsilon 0.5, delta 1e-06``; what is zero is left out."""
    parts = ((currency, Fraction(text)) for currency, text in amounts.items())
    return ", ".join(f"{currency} {format_up(amount)}" for currency, amount in parts if amount) or "nothing"


def owner_words(owner: str) -> str:
    """Such as ``analyst alice``."""
    return owner.replace(":", " ", 1) if owner else "population"


def terms_words(terms: Mapping[str, Any]) -> str:
    """Such as ``pure, epsilon 4 (add_remove)``."""
    parts = (f"{name} {_down(Fraction(value))}" for name, value in terms["parameters"].items())
    return f"{terms['rule']}, {', '.join(parts)} ({terms['relation']})"


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
