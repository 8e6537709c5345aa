"""Accuracy: the smallest price at which every error that is asked for is kept."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final

from tacit.accounting.currencies import AccountGuarantee
from tacit.core.errors import InputError
from tacit.core.numbers import log_bounds
from tacit.core.relations import Relation
from tacit.mechanisms.base import smallest_that
from tacit.query.aggregates import entry_of, expected_error
from tacit.query.planning.delta_budgets import LARGEST_MU
from tacit.query.planning.pricing import buy
from tacit.query.planning.releases import Priced, PricedPart
from tacit.query.planning.set_totals import set_sizes, totals_of_part
from tacit.query.query import FinalAggregation, Query, TotalOf
from tacit.query.request import EVERY, Terms

#: An accuracy that needs more epsilon than this is refused as a typing error.
LARGEST_EPSILON: Final = Fraction(50)
_PRICE_DIGITS: Final = 4
#: Aggregates that a name stands for: the number of the part, and the number of the aggregate in it.
NamedAggregates = dict[str, frozenset[tuple[int, int]]]


def buy_accuracy(
    query: Query, parts: Sequence[PricedPart], relation: Relation, terms: Terms, names: NamedAggregates
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    """The releases at the smallest price, to four digits and rounded up, at which every bound asked for is kept.

    The price is an epsilon, or the mu of a gdp account. With grouping sets a bound is kept in every set, and so in the
    totals of most groups.
    """
    wanted = _wanted(parts, terms, names)
    sums: list[list[TotalOf | None]] = [
        [each.total for totals in totals_of_part(query, number) for each in set_sizes(part.final, totals)]
        for number, part in enumerate(parts)
    ]
    if not wanted:
        raise InputError("within", "there is no aggregate to be accurate; state epsilon")
    beta = 1 - terms.confidence
    currency, most = ("mu", Fraction(LARGEST_MU)) if terms.account == "gdp" else ("epsilon", LARGEST_EPSILON)

    @cache
    def bought(amount: Fraction) -> tuple[tuple[Priced, ...], AccountGuarantee]:
        return buy(parts, relation, terms, currency, amount)

    def kept(amount: Fraction) -> bool:
        if amount > most:
            return True
        priced, _ = bought(amount)
        for (part, index), bound in wanted.items():
            final, asked = parts[part].final, parts[part].final.aggregates[index]
            for total in sums[part] or [None]:
                reached = expected_error(final, asked, priced[part], beta, terms.suppose, total).bound
                if reached is None or reached > bound:
                    return False
        return True

    def guess(final: FinalAggregation, index: int, bound: Fraction) -> Fraction:
        measure = final.measures[final.aggregates[index].measures[-1]]
        moved = measure.sensitivity(max_groups=final.max_groups, relation=relation, groups=final.group_count).l1
        people = terms.suppose if len(final.aggregates[index].measures) > 1 and terms.suppose else 1
        return max(moved, Fraction(1)) * measure.unit_of_value * log_bounds(1 / beta)[1] / (bound * people)

    if not kept(most):
        raise InputError("within", f"cannot be kept at any sensible {currency}; allow a larger error")
    count = sum(len(final.measures) for final, *_ in parts)
    start = count * max(guess(parts[part].final, index, bound) for (part, index), bound in wanted.items())
    return bought(smallest_that(kept, min(start, most), digits=_PRICE_DIGITS, near=Fraction(1, 4)))


def _wanted(parts: Sequence[PricedPart], terms: Terms, names: NamedAggregates) -> dict[tuple[int, int], Fraction]:
    every = terms.within[0][0] == EVERY
    if every:
        places = [(part, index) for part, (final, *_) in enumerate(parts) for index in range(len(final.aggregates))]
        wanted = dict.fromkeys(places, terms.within[0][1])
    else:
        wanted = {place: bound for name, bound in terms.within for place in sorted(places_of(name, names, "within"))}
    for part, index in wanted:
        aggregate = parts[part].final.aggregates[index]
        if len(aggregate.measures) > 1 and terms.suppose is None:
            raise InputError(
                "within",
                f"the error of {aggregate.label} depends on how many values a group has; state suppose=…, or name the "
                "counts and sums that matter",
            )
        kind = entry_of(aggregate.kind).released.error_kind
        if kind != "value" and every:
            raise InputError(
                "within",
                f"{aggregate.label} is off in {kind}, not in value; name it to state how much, or state epsilon",
            )
    return wanted


def places_of(name: str, names: NamedAggregates, parameter: str) -> frozenset[tuple[int, int]]:
    """The aggregates that a name stands for; ``parameter`` is where it was stated."""
    if name.lower() not in names:
        known = ", ".join(sorted(names)) or "none"
        raise InputError(parameter, f"names {name!r}, which is not an aggregate of this query; those are: {known}")
    return names[name.lower()]
