"""Terms of an account and the price of a charge under them.

An account's rule is one of the filters that add up each currency and compare it with a cap. A charge is written down
as an *event*, also where it was stated as a guarantee, so that anyone can price it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tacit.accounting.currencies import CURRENCIES, AccountGuarantee, currency_of
from tacit.accounting.filters import Filter, RenyiFilter
from tacit.accounting.prices import Charge, HasEvent, HasGuarantee
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import Event, event_from_json, event_to_json
from tacit.core.guarantees import ApproxDP, Guarantee, PureDP
from tacit.core.numbers import Number, exact_nonnegative
from tacit.ledger.protocol import from_grains, grains_down, grains_up

__all__ = ["ChargePrices", "PricedCharge", "caps_of", "filter_from_terms", "price", "stated_caps", "terms_of"]

_MOST_PRICES: Final = 1024
#: By rule: the filter and the parameters that fix it.
_RULES: dict[str, tuple[type[Filter], tuple[str, ...]]] = {
    **{kind: (currency.filter_type, currency.numbers) for kind, currency in CURRENCIES.items()},
    "renyi": (RenyiFilter, ("alpha", "epsilon")),
}


class PricedCharge(NamedTuple):
    """A charge as it is written down: the event and, by currency, what it costs in grains."""

    event: str
    amounts: Mapping[str, int]


def terms_of(limit: Filter) -> dict[str, Any]:
    """Rule, relation and parameters of a filter, as JSON."""
    for rule, (kind, parameters) in _RULES.items():
        if type(limit) is kind:
            stated = {name: str(getattr(limit, name)) for name in parameters}
            return {"rule": rule, "relation": limit.relation.value, "parameters": stated}
    raise InputError(
        "limit", f"a ledger keeps sums with caps ({', '.join(_RULES)}); {type(limit).__name__} is another rule"
    )


def filter_from_terms(terms: Mapping[str, Any]) -> Filter:
    """The empty filter that :func:`terms_of` wrote down."""
    kind, parameters = _RULES[terms["rule"]]
    values = {name: Fraction(terms["parameters"][name]) for name in parameters}
    return kind(**values, relation=terms["relation"])  # type: ignore[arg-type]


def caps_of(limit: Filter) -> dict[str, int]:
    """The caps of a filter by currency, in grains, rounded down."""
    return {line.currency: grains_down(line.cap) for line in limit.lines}


def price(limit: Filter, charge: Charge) -> PricedCharge:
    """Price of a charge under a filter, and the event that says why.

    A mechanism states an event and a guarantee; the cheaper one is written down, as :meth:`Filter.price` prefers it.
    """
    best: PricedCharge | None = None
    for event in _events(charge):
        try:
            costs = limit.price(event)
        except AccountingError:
            continue
        lines = zip(limit.lines, costs, strict=True)
        priced = PricedCharge(event_to_json(event), {line.currency: grains_up(cost) for line, cost in lines})
        if best is None or _order(priced) < _order(best):
            best = priced
    if best is None:
        limit.price(charge)  # raises, with the words for it
        raise AccountingError("the charge cannot be written down as an event; charge a guarantee that it implies")
    return best


def _order(priced: PricedCharge) -> tuple[int, int]:
    """All are valid; what costs no δ of its own is preferred."""
    first = next(iter(priced.amounts.values()))
    return priced.amounts.get("delta", 0), first


def _events(charge: Charge) -> list[Event]:
    if isinstance(charge, Event):
        return [charge]
    if isinstance(charge, Guarantee):
        return _stated(charge)
    found: list[Event] = [charge.event] if isinstance(charge, HasEvent) else []
    return found + (_stated(charge.guarantee) if isinstance(charge, HasGuarantee) else [])


def _stated(guarantee: Guarantee) -> list[Event]:
    """The event of which nothing is known but the guarantee."""
    if not isinstance(guarantee, AccountGuarantee):
        return []
    if isinstance(guarantee, ApproxDP) and not guarantee.delta:
        guarantee = PureDP(guarantee.epsilon, relation=guarantee.relation)
    return [currency_of(guarantee).event(guarantee)]


class ChargePrices:
    """Prices of charges in the accounts of a ledger; equal ones are priced once: events and guarantees are values.

    Args:
        terms: of an account, by its population. The rule is fixed when an account is made, so it is read once.
    """

    def __init__(self, terms: Callable[[str], Mapping[str, Any]]) -> None:
        self._terms = terms
        self._limits: dict[str, Filter] = {}
        self._prices: dict[tuple[str, Event | Guarantee], PricedCharge] = {}

    def of(self, population: str, charge: Charge) -> PricedCharge:
        """The price of a charge in an account."""
        key = (population, charge) if isinstance(charge, Event | Guarantee) else None
        priced = self._prices.get(key) if key is not None else None
        if priced is None:
            priced = price(self._limit(population), charge)
            _check_readable(priced)
            if key is not None:
                if len(self._prices) >= _MOST_PRICES:
                    self._prices.clear()
                self._prices[key] = priced
        return priced

    def _limit(self, population: str) -> Filter:
        known = self._limits.get(population)
        if known is None:
            known = self._limits[population] = filter_from_terms(self._terms(population))
        return known


def _check_readable(priced: PricedCharge) -> None:
    """Refuse numbers with too many digits before they are kept: verification must be able to read them again."""
    try:
        event_from_json(priced.event)
    except InputError:
        raise InputError("charge", "its numbers have too many digits to be kept; state fewer") from None


def stated_caps(limit: Filter, caps: Mapping[str, Number]) -> dict[str, str | None]:
    """Caps of a share of an account by currency, as text rounded down; None where none is stated.

    Raises:
        InputError: a currency is not one of the account.
    """
    currencies = [line.currency for line in limit.lines]
    for currency in caps:
        if currency not in currencies:
            raise InputError(currency, f"is not what this account counts: {', '.join(currencies)}")
    exact = {c: from_grains(grains_down(exact_nonnegative(cap, c))) for c, cap in caps.items()}
    return {c: str(exact[c]) if c in exact else None for c in currencies}
