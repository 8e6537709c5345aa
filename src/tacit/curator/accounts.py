"""Who may authorise a charge: the small protocol behind which budgets live, and the one that lives in memory.

``reserve → run → commit``: a charge is admitted *before* data is read and counts from that moment on, whatever happens
next; ``commit`` records that its answer exists. There is no refund, so a failure after the reservation costs what was
reserved.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from tacit.accounting.filters import ApproxFilter, Filter, GDPFilter, Line, PureFilter, ZCDPFilter
from tacit.accounting.prices import Charge
from tacit.core.errors import BudgetError, InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import exact_positive, exact_probability, format_up, round_down
from tacit.query.request import Account as AccountKind

if TYPE_CHECKING:
    from tacit.curator.config import PopulationModel

__all__ = ["Account", "Amount", "Budget", "Entry", "MemoryAccount", "open_account"]

#: How many questions that need a delta and state none the budget's delta lasts for.
_QUESTIONS = 100


@dataclass(frozen=True, slots=True)
class Amount:
    """So much of one currency."""

    currency: str
    amount: Fraction

    def __str__(self) -> str:
        return f"{self.currency} {format_up(self.amount)}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of an account: what was asked and what it cost.

    Args:
        number: its place, from 1; 0 for a repeated question, which is not entered.
        population: whose budget.
        amounts: what was charged; empty for a repeated question.
        sql: the question.
        digest: of the plan.
        committed: whether its answer exists; if not, the charge counts all the same.
    """

    number: int
    population: str
    amounts: tuple[Amount, ...]
    sql: str
    digest: str
    committed: bool = False

    @property
    def text(self) -> str:
        """Such as ``Charged epsilon 0.5 to patients``."""
        if not self.amounts:
            return "A repeated question: charged nothing"
        return f"Charged {', '.join(map(str, self.amounts))} to {self.population}"


@dataclass(frozen=True)
class Budget:
    """What a population's account holds: for each currency its cap, what was spent and what is left."""

    population: str
    guarantee: Guarantee
    lines: tuple[Line, ...]
    questions: int | None = None

    @property
    def spent(self) -> tuple[Amount, ...]:
        """What was charged so far."""
        return tuple(Amount(line.currency, Fraction(line.spent)) for line in self.lines)

    @property
    def left(self) -> tuple[Amount, ...]:
        """What still fits."""
        return tuple(Amount(line.currency, line.left) for line in self.lines)

    def __str__(self) -> str:
        parts = [
            f"{line.currency}: {format_up(Fraction(line.spent))} of {_down(line.cap)} spent, {_down(line.left)} left"
            for line in self.lines
            if line.cap
        ]
        more = "" if self.questions is None else f"; {self.questions} more such questions fit"
        return f"{self.population}: {'; '.join(parts)}{more}"


class Account(Protocol):
    """Where charges are authorised; the ledger implements it durably."""

    kind: AccountKind
    population: str

    def reserve(self, charge: Charge, *, sql: str, digest: str) -> Entry:
        """Admit a charge, or raise :class:`BudgetError` and change nothing. It counts from here on."""

    def commit(self, entry: Entry) -> Entry:
        """Record that the answer of a reserved charge exists."""

    def budget(self, charge: Charge | None = None) -> Budget:
        """What is spent and left, and how many more charges like ``charge`` fit."""

    def history(self) -> tuple[Entry, ...]:
        """All entries, in order."""


class MemoryAccount:
    """An account that lasts as long as the process; safe to use from several threads.

    Privacy:
        that of the filter: charges are admitted while they fit, whatever the analyst does.

    Sensitivity:
        that of the charges.

    Error:
        none; sums are exact, prices rounded up.

    Assumes:
        that nobody restarts the process to get a fresh budget: a durable ledger prevents that, this does not.

    References:
        :mod:`tacit.accounting.filters`.
    """

    def __init__(self, population: str, limit: Filter, kind: AccountKind) -> None:
        self.population = population
        self.kind = kind
        self._filter = limit
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def reserve(self, charge: Charge, *, sql: str, digest: str) -> Entry:
        """Admit a charge, or raise :class:`BudgetError` and change nothing."""
        with self._lock:
            price = self._filter.price(charge)
            try:
                self._filter.charge(charge)
            except BudgetError as problem:
                raise BudgetError(f"{self.population}: {problem}") from None
            lines = zip(self._filter.lines, price, strict=True)
            amounts = tuple(Amount(line.currency, Fraction(cost)) for line, cost in lines if cost)
            entry = Entry(len(self._entries) + 1, self.population, amounts, sql, digest)
            self._entries.append(entry)
            return entry

    def commit(self, entry: Entry) -> Entry:
        """Record that the answer exists."""
        with self._lock:
            done = self._entries[entry.number - 1] = replace(entry, committed=True)
            return done

    def budget(self, charge: Charge | None = None) -> Budget:
        """What is spent and left."""
        more = None if charge is None else self._filter.how_many(charge)
        return Budget(self.population, self._filter.guarantee, self._filter.lines, more)

    def history(self) -> tuple[Entry, ...]:
        """All entries, in order."""
        with self._lock:
            return tuple(self._entries)


def open_account(name: str, model: PopulationModel) -> MemoryAccount:
    """An empty account with the budget that a project file states."""
    where = f"populations.{name}"
    limit = _filter(where, model)
    return MemoryAccount(name, limit, AccountKind(model.accounting, _query_delta(where, model, limit)))


def _filter(where: str, model: PopulationModel) -> Filter:
    stated = {word for word in ("epsilon", "delta", "rho", "mu") if getattr(model, word) is not None}
    relation = model.relation
    needs = {
        "pure": ({"epsilon"},),
        "approx": ({"epsilon", "delta"},),
        "zcdp": ({"epsilon", "delta"}, {"rho"}, {"rho", "delta"}),
        "gdp": ({"epsilon", "delta"}, {"mu"}),
    }[model.accounting]
    if stated not in needs:
        wanted = " or ".join(", ".join(sorted(words)) for words in needs)
        raise InputError(
            where,
            f"accounting = {model.accounting!r} needs {wanted}, and nothing else; "
            f"got {', '.join(sorted(stated)) or 'nothing'}",
        )
    epsilon, delta = model.epsilon or 0, model.delta or 0
    if "epsilon" in stated:
        exact_positive(epsilon, f"{where}.epsilon")
    if "delta" in stated:
        exact_probability(delta, f"{where}.delta")
    if model.accounting == "pure":
        return PureFilter(epsilon=epsilon, relation=relation)
    if model.accounting == "approx":
        return ApproxFilter(epsilon=epsilon, delta=delta, relation=relation)
    if model.accounting == "gdp":
        if model.mu is not None:
            return GDPFilter(mu=exact_positive(model.mu, f"{where}.mu"), relation=relation)
        return GDPFilter.for_target(epsilon=epsilon, delta=delta, relation=relation)
    if model.rho is not None:
        return ZCDPFilter(rho=exact_positive(model.rho, f"{where}.rho"), delta=delta, relation=relation)
    # Half of delta pays for the conversion, the other half for questions that choose groups privately.
    own = exact_probability(delta, "delta") / 2
    return ZCDPFilter.for_target(epsilon=epsilon, delta=delta, own_delta=own, relation=relation)


def _query_delta(where: str, model: PopulationModel, limit: Filter) -> Fraction | None:
    cap = next((line.cap for line in limit.lines if line.currency == "delta"), Fraction(0))
    if model.query_delta is None:
        return cap / _QUESTIONS if cap else None
    if not cap:
        raise InputError(f"{where}.query_delta", f"a {model.accounting} account without delta has none to give")
    return exact_probability(model.query_delta, f"{where}.query_delta")


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
