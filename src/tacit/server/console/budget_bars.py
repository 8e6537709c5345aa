"""Budget bars of the pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tacit.accounting.filters import Line
from tacit.core.numbers import format_up
from tacit.ledger import Balance
from tacit.releases.accounts import Budget, EpsilonSpent
from tacit.server.console.number_format import down, percent, symbol, up


@dataclass(frozen=True)
class Gauge:
    """Bar of one currency of one share: amounts as text (spent rounded up, cap and left down), widths of the ruler.

    Args:
        share: whose share, in words; empty for the whole.
        letter: of the currency.
        width: of the part that is spent.
        pending: width of the amount that a question would add, from ``start`` on; empty without one.
        fits: whether it would fit.
        full: whether nothing is left.
        used: the part that is spent, for comparing gauges.
    """

    population: str
    share: str
    letter: str
    spent: str
    cap: str
    left: str
    width: str
    pending: str
    start: str
    fits: bool
    full: bool
    used: Fraction

    @property
    def words(self) -> str:
        """Text of the bar for screen readers."""
        whose = f"{self.share} of {self.population}" if self.share else self.population
        return f"{whose}: {self.letter} {self.spent} of {self.cap} spent, {self.left} left"


def gauges(budget: Budget, *, charge: Mapping[str, Fraction] | None = None, analyst: str = "") -> tuple[Gauge, ...]:
    """The rulers of a budget: of the whole account, then of the limited shares; δ after what it belongs to."""
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
    """The one that will stop first."""
    return max(found, key=lambda gauge: gauge.used, default=None)


def left_words(budget: Budget, analyst: str) -> str:
    """Budget left in total and in each limited share: the one used up first counts."""
    whole, *own = map(_of, budget.balances, budget.epsilons)
    shares = [each for each in zip(budget.balances[1:], own, strict=True) if each[0].limited]
    left = [f"Of the budget {whole} is left", *(f"of {_share(balance, analyst)} {words}" for balance, words in shares)]
    if budget.questions is None:
        return f"{', '.join(left)}."
    more = {0: "not enough for another question like this", 1: "enough for one more like this"}
    return f"{', '.join(left)}: {more.get(budget.questions, f'enough for {budget.questions:,} more like this')}."


def _of(balance: Balance, epsilon: EpsilonSpent | None) -> str:
    line = balance.lines[0]
    if epsilon is not None:
        return f"{epsilon.left} of ε {up(epsilon.cap)}"
    return f"{symbol(line.currency)} {down(line.left)} of {down(line.cap)}"


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
        start=percent(used),
        fits=fits,
        full=line.left == 0,
        used=used,
    )
