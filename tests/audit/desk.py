"""A curator in twenty lines: counts with Laplace noise, repeats for nothing, one account."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction

from tacit.core.errors import BudgetError
from tacit.mechanisms.laplace import Laplace


class SmallDesk:
    """Answers queries by name; the same name gets the same answer, a new one costs ``price`` of an account's cap."""

    def __init__(self, *, price: str | Fraction, cap: str | Fraction = "1000000") -> None:
        self.price, self.cap = Fraction(price), Fraction(cap)
        self.accounts: dict[Hashable, Fraction] = {}
        self._mechanism = Laplace(epsilon=self.price, l1_sensitivity=1)
        self._stored: dict[Hashable, float] = {}

    @property
    def spent(self) -> Fraction:
        return sum(self.accounts.values(), Fraction(0))

    def ask(self, query: Hashable, truth: Callable[[], int], account: Hashable = "") -> float:
        if query not in self._stored:
            spent = self.accounts.get(account, Fraction(0)) + self.price
            if spent > self.cap:
                raise BudgetError("nothing is left")
            self.accounts[account] = spent
            self._stored[query] = float(self._mechanism.release(truth()))
        return self._stored[query]
