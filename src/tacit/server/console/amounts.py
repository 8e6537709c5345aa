"""Amounts as pages show them: numbers and times, bars of a budget, and what a guarantee means.

If the probabilities of an answer from two neighbouring databases are within a factor e^ε, then a reader with prior
probability p for one of the two has a posterior probability between ``p / (p + e^ε (1 - p))`` and
``e^ε p / (e^ε p + 1 - p)``, by Bayes' rule and whatever else they know. A δ above zero comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.accounting.currencies import SYMBOLS, currency_of
from tacit.accounting.filters import Line
from tacit.core.guarantees import ApproxDP, Guarantee
from tacit.core.numbers import exp_bounds, float_nearest, format_up, round_down
from tacit.core.relations import ADD_REMOVE
from tacit.ledger import Balance, Record
from tacit.releases.accounts import Budget, EpsilonSpent

_DIGITS: Final = 4


def symbol(currency: str) -> str:
    """Return the letter of a currency; its name if it has none."""
    return SYMBOLS.get(currency, currency)


def up(value: Fraction) -> str:
    """Format an amount that was or will be spent: never shown too small."""
    return format_up(Fraction(value), _DIGITS)


def down(value: Fraction) -> str:
    """Format a cap or a remaining amount: never shown too large."""
    return format_up(round_down(value, _DIGITS), _DIGITS)


def percent(share: Fraction) -> str:
    """Format a width on a gauge for an HTML attribute, from 0% to 100%."""
    return f"{float_nearest(100 * min(max(share, Fraction(0)), Fraction(1))):.3f}%"


def charge_of(guarantee: Guarantee) -> dict[str, Fraction]:
    """Return the charge of a guarantee, by currency of the account."""
    return currency_of(guarantee).amounts_of(guarantee)


def amounts_text(amounts: dict[str, Fraction]) -> str:
    """Format the nonzero amounts, such as ``ε 0.5, δ 1e-08``."""
    return ", ".join(f"{symbol(currency)} {up(amount)}" for currency, amount in amounts.items() if amount)


def charge_text(amounts: dict[str, Fraction], typed: str) -> str:
    """Format a charge: first as typed if the account counts in another currency."""
    counted = amounts_text(amounts)
    return f"{typed.replace('epsilon', 'ε')} ({counted})" if typed and counted else counted


def record_charge(record: Record) -> str:
    """Format the charge of a history entry, δ last."""
    amounts = sorted(((each.currency, each.amount) for each in record.amounts), key=lambda item: item[0] == "delta")
    return charge_text(dict(amounts), record.typed)


def is_spent(balance: Balance) -> bool:
    """Whether any currency of an account or share is used up."""
    return any(line.left == 0 and line.cap for line in balance.lines)


def as_pair(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """Return (ε, δ) of a guarantee, rounded up; at its own δ, else at δ = 10⁻⁶ if the conversion needs one."""
    currency = currency_of(guarantee)
    first, *others = currency.numbers_of(guarantee).values()
    if not first:
        return first, sum(others, Fraction(0))
    pair = currency.as_pair(guarantee)
    return pair.epsilon, pair.delta


def when(time: str) -> str:
    """Format a time, such as ``2026-11-16 08:15 UTC``."""
    return f"{time[:16].replace('T', ' ')} UTC" if len(time) >= 16 else time


#: Prior beliefs: a wild guess, a suspicion, a coin, near certainty.
_BEFORE: Final = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
#: Maximum epsilon that is expressed as odds.
_MOST: Final = Fraction(100)
_HUGE: Final = 10**26


@dataclass(frozen=True)
class Belief:
    """A prior probability and the range of the posterior probability, as text."""

    before: str
    least: str
    most: str


@dataclass(frozen=True)
class Promise:
    """(ε, δ) as text, and as bounds on beliefs."""

    epsilon: str
    delta: str
    one_in: str
    factor: str
    beliefs: tuple[Belief, ...]


def promise(epsilon: Fraction, delta: Fraction) -> Promise:
    """Return bounds on beliefs under (ε, δ), each rounded outwards."""
    factor = exp_bounds(min(epsilon, _MOST))[1]
    beliefs = tuple(_belief(before, factor) for before in _BEFORE)
    small, one_in = (up(delta), f"{int(1 / delta):,}") if delta else ("", "")
    return Promise(up(epsilon), small, one_in, _factor(factor), beliefs)


def promise_of_change(guarantee: Guarantee) -> Promise | None:
    """Return bounds on beliefs about the data of a person who is in it; None if neighbours replace a person.

    Replacing a person's data is one removal and one addition: group privacy of two.
    """
    if guarantee.relation is not ADD_REMOVE:
        return None
    both = ApproxDP(*as_pair(guarantee)).group(2)
    return promise(both.epsilon, both.delta)


def _belief(before: Fraction, factor: Fraction) -> Belief:
    most = factor * before / (factor * before + 1 - before)
    least = before / (before + factor * (1 - before))
    return Belief(_percent(before), _percent(_floor(least)), _percent(-_floor(-most)))


def _floor(share: Fraction) -> Fraction:
    """Round down to tenths of a percent, or to thousandths of a percent below one percent."""
    step = Fraction(1, 1000) if abs(share) >= Fraction(1, 100) else Fraction(1, 100_000)
    return (share // step) * step


def _percent(share: Fraction) -> str:
    return f"{float_nearest(100 * share):.4g}%"


def _factor(factor: Fraction) -> str:
    """Format a factor rounded up: to hundredths if small, else to an integer."""
    if factor > _HUGE:
        return "more than 10²⁶"
    hundredths = math.ceil(100 * factor)
    return f"at most {hundredths / 100:.4g}" if hundredths < 10_000 else f"at most {math.ceil(factor):,}"


@dataclass(frozen=True)
class Gauge:
    """Bar of one currency of a share: amounts as text (spent rounded up, cap and left down), widths in percent.

    Args:
        share: description of the share; empty for the whole account.
        letter: letter of the currency.
        width: width of the spent part.
        pending: width of the amount that a query would add; empty without a query.
        fits: whether that amount fits.
        used: spent fraction, to compare gauges.
    """

    population: str
    share: str
    letter: str
    spent: str
    cap: str
    left: str
    width: str
    pending: str
    fits: bool
    used: Fraction

    @property
    def words(self) -> str:
        """Text of the bar for screen readers."""
        whose = f"{self.share} of {self.population}" if self.share else self.population
        return f"{whose}: {self.letter} {self.spent} of {self.cap} spent, {self.left} left"


def gauges(budget: Budget, *, charge: Mapping[str, Fraction] | None = None, analyst: str = "") -> tuple[Gauge, ...]:
    """Return the gauges of a budget: of the whole account, then of the limited shares; δ after its main currency."""
    return tuple(
        _gauge(
            budget.population,
            _share(balance, analyst),
            line,
            (charge or {}).get(line.currency, Fraction(0)),
            None if place else epsilon,
        )
        for at, (balance, epsilon) in enumerate(zip(budget.balances, budget.epsilons, strict=True))
        if balance.limited or not at
        for place, line in enumerate(balance.lines)
        if line.cap or line.currency != "delta"
    )


def tightest(found: Iterable[Gauge]) -> Gauge | None:
    """Return the gauge with the largest spent fraction; None if there is none."""
    return max(found, key=lambda gauge: gauge.used, default=None)


def _share(balance: Balance, analyst: str) -> str:
    if balance.owner == "population":
        return ""
    kind, _, name = balance.owner.partition(" ")
    if kind == "analyst":
        return "your share" if name == analyst else f"share of {name}"
    return f"share of the {kind} {name}"


def _gauge(population: str, share: str, line: Line, charge: Fraction, epsilon: EpsilonSpent | None) -> Gauge:
    spent = Fraction(line.spent)
    used = spent / line.cap if line.cap else Fraction(1)
    fits = charge <= line.left
    room = 1 - min(used, Fraction(1))
    return Gauge(
        population=population,
        share=share,
        letter=symbol(line.currency if epsilon is None else "epsilon"),
        spent=up(spent) if epsilon is None else format_up(epsilon.spent, 3),
        cap=down(line.cap) if epsilon is None else up(epsilon.cap),
        left=down(line.left) if epsilon is None else epsilon.left,
        width=percent(used),
        pending=percent(min(charge / line.cap, room) if line.cap else Fraction(0)) if charge else "",
        fits=fits,
        used=used,
    )
