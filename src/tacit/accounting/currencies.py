"""Currencies of accounts: pure, approx, zcdp and gdp, one object each.

A currency joins a kind of guarantee to the filter that adds it up: the numbers that state the guarantee, the amounts
that an account is charged for it, the cost of a charge, the event that states only the guarantee, and the text
for people. All other packages use this object and name no currency, so that a new currency is added here alone.

======== ============ ==================== ================= =============================================
kind     guarantee    numbers              amounts           the cost of a query may be stated in
======== ============ ==================== ================= =============================================
pure     PureDP       epsilon              epsilon           epsilon
approx   ApproxDP     epsilon, delta       epsilon, delta    epsilon
zcdp     ZCDP         rho, delta           rho, delta        epsilon, rho
gdp      GDP          mu                   mu squared        epsilon, mu
======== ============ ==================== ================= =============================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal

from tacit.accounting.filters import ApproxFilter, Filter, GDPFilter, PureFilter, ZCDPFilter
from tacit.accounting.prices import Charge, Spend, approx_price, gdp_price, pure_price, zcdp_price
from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, Event, GaussianEvent, PureEvent, ZCDPEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import format_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation

#: The kinds of guarantee that accounts are charged in.
AccountGuarantee = PureDP | ApproxDP | ZCDP | GDP
CurrencyKind = Literal["pure", "approx", "zcdp", "gdp"]
#: Greek letters of numbers and amounts, by name.
SYMBOLS: Final = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "mu squared": "μ²"}
#: The δ at which a guarantee without a δ is shown as (ε, δ).
_SHOWN_DELTA: Final = Fraction(1, 10**6)


class Currency(ABC):
    """One currency of accounts.

    Attributes:
        kind: its name in a project file.
        concept: the name of the privacy definition, for people.
        numbers: the parameters that state a guarantee, the main one first.
        optional: the parameters among them that are shown only if positive.
        amounts: the currencies that an account of this kind adds up.
        prices: the numbers in which a query may state its cost.
        budgets: the sets of numbers by which a project file may state an account.
        relaxed: whether the guarantee is not an (ε, δ) itself, so that its (ε, δ) is shown as well.
    """

    kind: ClassVar[CurrencyKind]
    concept: ClassVar[str] = "differential privacy"
    numbers: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()
    amounts: ClassVar[tuple[str, ...]]
    prices: ClassVar[tuple[str, ...]] = ("epsilon",)
    budgets: ClassVar[tuple[Set[str], ...]]
    relaxed: ClassVar[bool] = False

    guarantee_type: ClassVar[Any]
    filter_type: ClassVar[Any]
    _price: ClassVar[Callable[[Charge, Relation], Spend]]

    @property
    def has_delta(self) -> bool:
        return "delta" in self.amounts

    def guarantee(self, numbers: Mapping[str, Any], relation: Relation = ADD_REMOVE) -> AccountGuarantee:
        """Return the guarantee with these numbers."""
        stated: AccountGuarantee = self.guarantee_type(**numbers, relation=relation)
        return stated

    def numbers_of(self, guarantee: Any) -> dict[str, Fraction]:
        """Return the numbers that state a guarantee."""
        return {name: getattr(guarantee, name) for name in self.numbers}

    def amounts_of(self, guarantee: Any) -> dict[str, Fraction]:
        """Return the amounts that an account is charged for a guarantee."""
        return self.numbers_of(guarantee)

    def from_amounts(self, amounts: Mapping[str, Fraction], relation: Relation = ADD_REMOVE) -> AccountGuarantee:
        """Return the guarantee of charges that add up to ``amounts``."""
        return self.guarantee(amounts, relation)

    def nothing(self, relation: Relation = ADD_REMOVE) -> AccountGuarantee:
        """Return the guarantee of a release that does not depend on data."""
        return self.guarantee(dict.fromkeys(self.numbers, 0), relation)

    def cost(self, charge: Charge, relation: Relation) -> dict[str, Fraction]:
        """Return the amounts that a charge costs, rounded up.

        Raises:
            AccountingError: no theorem gives it a cost in this currency.
        """
        return dict(zip(self.amounts, type(self)._price(charge, relation), strict=False))

    def price(self, charge: Charge, relation: Relation) -> AccountGuarantee:
        """Return the guarantee that costs exactly as much as a charge."""
        return self.from_amounts(self.cost(charge, relation), relation)

    def covers(self, guarantee: Any, cost: Mapping[str, Fraction]) -> bool:
        """Return whether amounts are at most those of a guarantee."""
        return all(
            amount <= cap for amount, cap in zip(cost.values(), self.amounts_of(guarantee).values(), strict=True)
        )

    @abstractmethod
    def event(self, guarantee: Any, mechanism: str = "") -> Event:
        """Return the event of a release of which only the guarantee is known."""

    def filter(self, numbers: Mapping[str, Any], relation: Relation | str = ADD_REMOVE) -> Filter:
        """Return the filter of an account, nothing spent, from the numbers of its budget; see :attr:`budgets`."""
        empty: Filter = self.filter_type(**numbers, relation=relation)
        return empty

    def caps(self, epsilon: Fraction, delta: Fraction, own_delta: Fraction) -> dict[str, Fraction]:  # noqa: ARG002
        """Return caps under which all charges together are (ε, δ)-DP.

        ``own_delta`` is the part of δ that the account reserves for charges with a positive δ.
        """
        stated = {"epsilon": epsilon, "delta": delta}
        return {name: stated[name] for name in self.amounts}

    def as_pair(self, guarantee: Any) -> ApproxDP:
        """Return the guarantee as (ε, δ) for people: at its own δ, or at one in a million if it has none."""
        pair: ApproxDP = guarantee.to_approx(_SHOWN_DELTA)
        return pair

    def largest_query(self, left: Mapping[str, Fraction], account: Any) -> ApproxDP | None:  # noqa: ARG002
        """Return the (ε, δ) of the largest query that remaining amounts pay for; None where accounts count ε itself.

        Args:
            left: remaining amounts, by name.
            account: guarantee of the account, which determines the default δ of queries.
        """
        return None

    def shown(self, guarantee: Any) -> dict[str, Fraction]:
        """Return the numbers of a guarantee that are shown to people."""
        found = self.numbers_of(guarantee)
        return {name: value for name, value in found.items() if value or name not in self.optional}

    def text(self, amounts: Mapping[str, Fraction]) -> str:
        """Return text such as ``rho 0.5, delta 1e-06``; only the main amount is shown when it is zero."""
        return ", ".join(
            f"{name} {format_up(amount)}" for name, amount in amounts.items() if amount or name == self.amounts[0]
        )

    def __repr__(self) -> str:
        return f"<Currency {self.kind}>"


class _Pure(Currency):
    kind = "pure"
    numbers = amounts = ("epsilon",)
    budgets = ({"epsilon"},)
    guarantee_type, filter_type, _price = PureDP, PureFilter, pure_price

    def event(self, guarantee: PureDP, mechanism: str = "") -> Event:
        return PureEvent(guarantee.epsilon, mechanism, relation=guarantee.relation)

    def as_pair(self, guarantee: PureDP) -> ApproxDP:
        return guarantee.to_approx(0)


class _Approx(Currency):
    kind = "approx"
    numbers = amounts = ("epsilon", "delta")
    budgets = ({"epsilon", "delta"},)
    guarantee_type, filter_type, _price = ApproxDP, ApproxFilter, approx_price

    def event(self, guarantee: ApproxDP, mechanism: str = "") -> Event:
        return ApproxEvent(guarantee.epsilon, guarantee.delta, mechanism, relation=guarantee.relation)

    def as_pair(self, guarantee: ApproxDP) -> ApproxDP:
        return guarantee


class _ZCDP(Currency):
    kind = "zcdp"
    concept = "concentrated differential privacy"
    numbers = amounts = ("rho", "delta")
    optional = ("delta",)
    prices = ("epsilon", "rho")
    budgets = ({"epsilon", "delta"}, {"rho"}, {"rho", "delta"})
    relaxed = True
    guarantee_type, filter_type, _price = ZCDP, ZCDPFilter, zcdp_price

    def event(self, guarantee: ZCDP, mechanism: str = "") -> Event:
        return ZCDPEvent(guarantee.rho, guarantee.delta, mechanism, relation=guarantee.relation)

    def filter(self, numbers: Mapping[str, Any], relation: Relation | str = ADD_REMOVE) -> Filter:
        if "epsilon" not in numbers:
            return super().filter(numbers, relation)
        # Half of delta is used by the conversion, half by queries that select groups privately.
        return ZCDPFilter.for_target(**numbers, own_delta=Fraction(numbers["delta"]) / 2, relation=relation)

    def caps(self, epsilon: Fraction, delta: Fraction, own_delta: Fraction) -> dict[str, Fraction]:
        part = min(own_delta, delta / 2)
        share = ZCDPFilter.for_target(epsilon=epsilon, delta=delta, own_delta=part)
        return {"rho": share.rho, **({"delta": part} if own_delta else {})}

    def largest_query(self, left: Mapping[str, Fraction], account: ZCDP) -> ApproxDP | None:
        # A query adds Gaussian noise, whose ε is below that of other releases of the same ρ. Half of an
        # account's δ is its own (``filter``); a query may have all of it.
        rho = left.get("rho")
        return GDP(sqrt_bounds(2 * rho)[0]).to_approx(2 * account.delta or _SHOWN_DELTA) if rho else None

    def as_pair(self, guarantee: ZCDP) -> ApproxDP:
        return guarantee.to_approx(max(_SHOWN_DELTA, min(2 * guarantee.delta, (1 + guarantee.delta) / 2)))


class _GDP(Currency):
    kind = "gdp"
    concept = "Gaussian differential privacy"
    numbers = ("mu",)
    amounts = ("mu squared",)
    prices = ("epsilon", "mu")
    budgets = ({"epsilon", "delta"}, {"mu"})
    relaxed = True
    guarantee_type, filter_type, _price = GDP, GDPFilter, gdp_price

    def amounts_of(self, guarantee: GDP) -> dict[str, Fraction]:
        return {"mu squared": guarantee.mu**2}

    def from_amounts(self, amounts: Mapping[str, Fraction], relation: Relation = ADD_REMOVE) -> GDP:
        return GDP(sqrt_bounds(amounts["mu squared"])[1], relation=relation)

    def event(self, guarantee: GDP, mechanism: str = "") -> Event:  # noqa: ARG002 - Gaussian events have no label
        # μ-GDP: telling neighbours apart is no easier than with Gaussian noise of σ = 1 on a value that moves by μ.
        return GaussianEvent(Fraction(1), guarantee.mu, relation=guarantee.relation)

    def filter(self, numbers: Mapping[str, Any], relation: Relation | str = ADD_REMOVE) -> Filter:
        return (
            super().filter(numbers, relation) if "mu" in numbers else GDPFilter.for_target(**numbers, relation=relation)
        )

    def caps(self, epsilon: Fraction, delta: Fraction, own_delta: Fraction) -> dict[str, Fraction]:  # noqa: ARG002
        return {"mu squared": GDPFilter.for_target(epsilon=epsilon, delta=delta).mu ** 2}

    def largest_query(self, left: Mapping[str, Fraction], account: GDP) -> ApproxDP | None:  # noqa: ARG002
        squared = left.get("mu squared")
        return GDP(sqrt_bounds(squared)[0]).to_approx(_SHOWN_DELTA) if squared else None


PURE: Final = _Pure()
APPROX: Final = _Approx()
ZERO_CONCENTRATED: Final = _ZCDP()
GAUSSIAN: Final = _GDP()
#: By kind, as project files, receipts and ledgers write it.
CURRENCIES: Final[dict[str, Currency]] = {each.kind: each for each in (PURE, APPROX, ZERO_CONCENTRATED, GAUSSIAN)}
_BY_TYPE: Final[dict[type, Currency]] = {
    kind: each for each in CURRENCIES.values() for kind in (each.guarantee_type, each.filter_type)
}


def currency_named(kind: str) -> Currency:
    """Return the currency of a kind of account.

    Raises:
        InputError: no currency has this name.
    """
    if kind not in CURRENCIES:
        raise InputError("account", f"must be one of {', '.join(CURRENCIES)}, got {kind!r}")
    return CURRENCIES[kind]


def currency_of(stated: Guarantee | Filter) -> Currency:
    """Return the currency of a guarantee or of a filter.

    Raises:
        InputError: accounts are not charged in it.
    """
    for kind in type(stated).__mro__:
        if kind in _BY_TYPE:
            return _BY_TYPE[kind]
    raise InputError("guarantee", f"{type(stated).__name__} is not what an account is charged in")


def implied_currency(stated: Set[str]) -> Currency:
    """Return the currency that the numbers of a budget imply where none is named."""
    if "mu" in stated:
        return GAUSSIAN
    return ZERO_CONCENTRATED if stated & {"delta", "rho"} else PURE
