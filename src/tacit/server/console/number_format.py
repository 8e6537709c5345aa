"""Number formats of the pages."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from tacit.core.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import float_nearest, format_up, round_down

__all__ = ["SYMBOLS", "amounts_text", "as_pair", "charge_of", "down", "percent", "symbol", "up"]

SYMBOLS: Final = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "mu squared": "μ²"}
_DIGITS: Final = 4
#: At which δ a concentrated guarantee is told as a pair, as quotes do.
_DELTA: Final = Fraction(1, 10**6)


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
    match guarantee:
        case PureDP():
            return {"epsilon": guarantee.epsilon}
        case ApproxDP():
            return {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
        case ZCDP():
            return {"rho": guarantee.rho, "delta": guarantee.delta}
        case GDP():
            return {"mu squared": guarantee.mu**2}
        case _:
            return {}


def amounts_text(amounts: dict[str, Fraction]) -> str:
    """Amounts as text, such as ``ε 0.5, δ 1e-08``, without zeros."""
    return ", ".join(f"{symbol(currency)} {up(amount)}" for currency, amount in amounts.items() if amount)


def as_pair(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """(ε, δ) of a guarantee, rounded up; at the δ it has, else at one in a million where it needs one."""
    match guarantee:
        case PureDP():
            return guarantee.epsilon, Fraction(0)
        case ApproxDP():
            return guarantee.epsilon, guarantee.delta
        case ZCDP() if guarantee.rho == 0:
            return Fraction(0), guarantee.delta
        case ZCDP():
            pair = guarantee.to_approx(min(max(_DELTA, 2 * guarantee.delta), Fraction(1, 2)))
            return pair.epsilon, pair.delta
        case GDP() if guarantee.mu == 0:
            return Fraction(0), Fraction(0)
        case GDP():
            pair = guarantee.to_approx(_DELTA)
            return pair.epsilon, pair.delta
        case _:
            raise TypeError(f"{type(guarantee).__name__} is not what accounts promise")
