"""Number formats of the pages, and that of times."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from tacit.accounting.currencies import SYMBOLS, currency_of
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import float_nearest, format_up, round_down

_DIGITS: Final = 4


def symbol(currency: str) -> str:
    """The letter of a currency; its name where it has none."""
    return SYMBOLS.get(currency, currency)


def up(value: Fraction) -> str:
    """Format an amount that was or will be spent: never shown too small."""
    return format_up(Fraction(value), _DIGITS)


def down(value: Fraction) -> str:
    """A cap, or what is left of it: never shown too large."""
    return format_up(round_down(value, _DIGITS), _DIGITS)


def percent(share: Fraction) -> str:
    """A length on a gauge, for an attribute: from 0% to 100%."""
    return f"{float_nearest(100 * min(max(share, Fraction(0)), Fraction(1))):.3f}%"


def charge_of(guarantee: Guarantee) -> dict[str, Fraction]:
    """Charge of a guarantee, by currency of the account's lines."""
    return currency_of(guarantee).amounts_of(guarantee)


def amounts_text(amounts: dict[str, Fraction]) -> str:
    """Amounts as text, such as ``ε 0.5, δ 1e-08``, without zeros."""
    return ", ".join(f"{symbol(currency)} {up(amount)}" for currency, amount in amounts.items() if amount)


def charge_text(amounts: dict[str, Fraction], typed: str) -> str:
    """A charge as text: the epsilon that was typed first, where the account counts something else."""
    counted = amounts_text(amounts)
    return f"{typed.replace('epsilon', 'ε')} ({counted})" if typed and counted else counted


def as_pair(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """(ε, δ) of a guarantee, rounded up; at the δ it has, else at one in a million where it needs one."""
    currency = currency_of(guarantee)
    first, *others = currency.numbers_of(guarantee).values()
    if not first:
        return first, sum(others, Fraction(0))
    pair = currency.as_pair(guarantee)
    return pair.epsilon, pair.delta


def when(time: str) -> str:
    """Time as text, such as ``2026-11-16 08:15 UTC``."""
    return f"{time[:16].replace('T', ' ')} UTC" if len(time) >= 16 else time
