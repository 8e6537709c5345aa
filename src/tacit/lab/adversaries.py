"""Exact worst case of adaptive adversaries against a stopping rule.

The adversary has a menu of moves and may order any of them, in any order, as long as the rule admits what has been
ordered. It wants the two worlds to be as easy to tell apart as possible: the largest δ(ε) of its view. All that
matters of a view is its likelihood ratio and what has been ordered, so backward induction over those two finds the
best strategy among all, adaptive ones included. A valid filter keeps the result at its promise, an invalid one not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tacit.accounting.filters import Filter
from tacit.accounting.prices import Charge
from tacit.core.errors import BudgetError, InputError
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability
from tacit.lab.experiment import Adversary, CompositionExperiment, Move, Strategy, table_rows

#: Number of orders of each move of the menu.
Orders = tuple[int, ...]
Rule = Callable[[Orders], bool]


class _State(NamedTuple):
    likelihood: Fraction | None
    orders: Orders


class WorstAdversary(Adversary):
    """The adversary that attains the largest δ; run it in a :class:`CompositionExperiment` to see its views."""

    def __init__(self, menu: Sequence[Move], rule: Rule, rounds: int, ratio: Fraction) -> None:
        self._menu = tuple(menu)
        self._rule = rule
        self._rounds = rounds
        self._ratio = ratio
        self._rows = [table_rows(move) for move in self._menu]
        self._known: dict[_State, tuple[Fraction, int | None]] = {}

    @property
    def delta(self) -> Fraction:
        """The δ at the ratio given that it attains when the secret bit is 0: exact."""
        return self._best(self.start())[0]

    def start(self) -> _State:
        """Initial state: nothing seen, nothing ordered."""
        return _State(Fraction(1), (0,) * len(self._menu))

    def choose(self, state: Any) -> Move | None:
        """The order that leads to the largest δ."""
        if state.likelihood is None:
            return None
        choice = self._best(state)[1]
        return None if choice is None else self._menu[choice]

    def observe(self, state: Any, output: Hashable) -> Hashable:
        """The likelihood ratio after the output, and one more order."""
        choice = self._best(state)[1]
        if choice is None:
            raise InputError("state", "is one in which the adversary has stopped")
        orders = _one_more(state.orders, choice)
        a, b = next((a, b) for seen, a, b in self._rows[choice] if seen == output)
        return _State(state.likelihood * a / b if b else None, orders)

    def _best(self, state: _State) -> tuple[Fraction, int | None]:
        """Largest E_Q[max(0, P/Q - e^ε)] from here on, per unit of Q, and the move that leads to it."""
        if state in self._known:
            return self._known[state]
        likelihood = state.likelihood or Fraction(0)
        best: tuple[Fraction, int | None] = (max(Fraction(0), likelihood - self._ratio), None)
        if sum(state.orders) < self._rounds:
            for choice in range(len(self._menu)):
                orders = _one_more(state.orders, choice)
                if self._rule(orders):
                    value = self._value(likelihood, orders, choice)
                    if value > best[0]:
                        best = value, choice
        self._known[state] = best
        return best

    def _value(self, likelihood: Fraction, orders: Orders, choice: int) -> Fraction:
        value = Fraction(0)
        for _, a, b in self._rows[choice]:
            # An output that world 1 cannot give decides everything; its whole probability counts.
            value += b * self._best(_State(likelihood * a / b, orders))[0] if b else likelihood * a
        return value


def worst_adversary(menu: Sequence[Move], *, rule: Rule, rounds: int, ratio: Number) -> WorstAdversary:
    """The adversary of at most ``rounds`` orders that maximises δ at e^ε = ``ratio``, under ``rule``.

    ``rule`` says whether a tally of orders is admitted; whatever is ordered less than an admitted tally must be
    admitted too. :func:`admitted_by` makes one of a filter, :func:`curve_fits` that of exact composition.
    """
    if not menu:
        raise InputError("menu", "must hold at least one move")
    return WorstAdversary(menu, rule, check_count(rounds, "rounds", minimum=0), exact_positive(ratio, "ratio"))


def admitted_by(make_filter: Callable[[], Filter], charges: Sequence[Charge]) -> Rule:
    """The rule of a filter: ``charges[i]`` is what the i-th move of the menu costs."""

    def rule(orders: Orders) -> bool:
        budget = make_filter()
        try:
            for charge, count in zip(charges, orders, strict=True):
                if count:
                    budget.charge(charge, count)
        except BudgetError:
            return False
        return True

    return _remembered(rule)


def curve_fits(menu: Sequence[Move], *, ratio: Number, delta: Number) -> Rule:
    """The "natural" rule: compose what was ordered exactly, as if it had been fixed beforehand, and compare with δ.

    This is what stopping by a privacy loss distribution or by optimal composition amounts to. It is not valid.
    """
    promised = exact_probability(delta, "delta", zero=True)

    def rule(orders: Orders) -> bool:
        plan = [move for move, count in zip(menu, orders, strict=True) for _ in range(count)]
        fixed = Strategy(lambda view: plan[len(view)])
        composed = CompositionExperiment(fixed, rounds=len(plan)).exact()
        return composed.delta(ratio=ratio).high <= promised

    return _remembered(rule)


def _remembered(rule: Rule) -> Rule:
    known: dict[Orders, bool] = {}

    def remembered(orders: Orders) -> bool:
        if orders not in known:
            known[orders] = rule(orders)
        return known[orders]

    return remembered


def _one_more(orders: Orders, choice: int) -> Orders:
    return (*orders[:choice], orders[choice] + 1, *orders[choice + 1 :])
