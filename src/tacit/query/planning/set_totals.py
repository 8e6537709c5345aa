"""Grouping sets in planning: which aggregates have totals, of how many groups a total is the sum, and its error.

The finest groups, by all keys of all sets, are bounded once, and every other group is the sum of its parts
(:mod:`tacit.query.postprocess.result`), so that totals agree with their parts. Either the finest groups get
noise, and the noise of a total over m groups is that of m cells; or sums of them by some of the keys get noise of their
own, and all groups are estimated from them together (:mod:`tacit.mechanisms.residual_basis`), whichever has the smaller
variance over all sets (:func:`tacit.query.planning.pricing.price`). Which groups there are is public: a set has the
product of its keys' values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tacit.query import limits
from tacit.query.planning.measures import AggregateKind
from tacit.query.query import FinalAggregation, Query, TotalOf, Totals, with_branches
from tacit.query.refusal import Refusal

#: Aggregates whose total follows from the parts; of persons, where each is in one group.
ADDITIVE: Final = (
    AggregateKind.COUNT_UNITS,
    AggregateKind.COUNT_ROWS,
    AggregateKind.COUNT_VALUES,
    AggregateKind.SUM,
    AggregateKind.AVG,
    AggregateKind.VAR_SAMP,
    AggregateKind.VAR_POP,
    AggregateKind.STDDEV_SAMP,
    AggregateKind.STDDEV_POP,
    AggregateKind.MOST_COMMON,
)
#: Sets that are named when a plan is shown.
_SHOWN: Final = 8


def check_totals(query: Query) -> None:
    """Refuse grouping sets whose totals are no sums of released groups.

    Raises:
        Refusal: keys are private, there are too many groups, or an aggregate of a total is not made of its parts.
    """
    for part in range(len(query.finals)):
        for totals in totals_of_part(query, part):
            _check(query.finals[part], totals)


def _check(final: FinalAggregation, totals: Totals) -> None:
    if not final.public_keys:
        private = ", ".join(key.name for key in final.keys)
        raise Refusal(
            "grouping_sets",
            f"ROLLUP, CUBE and GROUPING SETS need public keys, at most {limits.MAX_KEYS} together, and {private} are "
            "chosen privately: a total would silently lack the groups that are not chosen. Group by declared "
            f"categories, list values with WHERE key IN (…), or ask GROUP BY {private} and the total apart.",
        )
    groups = sum(each.groups for each in set_sizes(final, totals))
    limits.check_size(groups, limits.MAX_SET_GROUPS, "groups in its grouping sets")
    for aggregate in final.aggregates:
        if aggregate.kind not in ADDITIVE:
            raise Refusal(
                "grouping_sets",
                f"{aggregate.label} is not computed for totals: grouping sets have COUNT, SUM, AVG, VARIANCE and "
                "STDDEV. Ask for each grouping in a query of its own.",
            )


def check_units_of_totals(query: Query) -> None:
    """Refuse totals of persons where one person may be in several parts, with the limits that are in force.

    Raises:
        Refusal: COUNT(DISTINCT unit) with grouping sets, and max_groups above 1 or AUTO.
    """
    for part, final in enumerate(query.finals):
        units = [each.label for each in final.aggregates if each.kind is AggregateKind.COUNT_UNITS]
        if units and totals_of_part(query, part) and (final.auto_groups or final.max_groups > 1):
            many = "several" if final.auto_groups else final.max_groups
            raise Refusal(
                "grouping_sets",
                f"{units[0]} of a total is not the sum of its parts while a person may be in {many} groups: state "
                "max_groups = 1, so that each counts in one, or ask for each grouping in a query of its own.",
            )


def totals_of_part(query: Query, part: int) -> tuple[Totals, ...]:
    """The grouping sets that are asked of one part of a query, in the order of the steps."""
    found = (each.totals for each in with_branches(query) if each.part == part)
    return tuple(dict.fromkeys(totals for totals in found if totals is not None))


class SetSize(NamedTuple):
    """One grouping set.

    Args:
        names: of its keys.
        groups: how many it has.
        total: which sum of finest groups one of them is, of the most.
    """

    names: tuple[str, ...]
    groups: int
    total: TotalOf


def set_sizes(final: FinalAggregation, totals: Totals) -> Iterator[SetSize]:
    """The grouping sets, in order."""
    names = [final.keys[index].name for index in totals.keys]
    for places in totals.sets:
        kept = tuple(totals.keys[place] for place in places)
        groups, merged = parts_of_totals(final, totals, places)
        yield SetSize(tuple(names[place] for place in places), groups, TotalOf(kept, merged))


def sets_of_part(query: Query, part: int) -> tuple[tuple[int, ...], ...]:
    """Places of the keys by which groups of a part are read, all of them if a step reads those; () without totals."""
    found: dict[tuple[int, ...], None] = {}
    read = [each for one in (query, *(value for _, value in query.values)) for each in with_branches(one)]
    readers = [each for each in read if each.part == part]
    if all(each.totals is None for each in readers):
        return ()
    for each in readers:
        if each.totals is None:
            found[tuple(range(len(query.finals[part].keys)))] = None
        else:
            found |= dict.fromkeys(
                tuple(sorted(each.totals.keys[place] for place in places)) for places in each.totals.sets
            )
    return tuple(found)


def parts_of_totals(final: FinalAggregation, totals: Totals, places: Sequence[int]) -> tuple[int, int]:
    """Number of groups of a set of public keys, and of how many finest groups one of them is the sum at most."""
    kept = [totals.keys[place] for place in places]
    return math.prod(len(final.keys[index].values or ()) for index in kept), final.parts_by(kept)


def sets_in_words(query: Query, levels: Sequence[Sequence[tuple[int, ...]]]) -> str | None:
    """The grouping sets and how their totals are made; None without any. ``levels``: of each part, if there are any."""
    words = [
        _in_words(final, totals, levels[part])
        for part, final in enumerate(query.finals)
        for totals in totals_of_part(query, part)
    ]
    return "; ".join(words) or None


def _in_words(final: FinalAggregation, totals: Totals, levels: Sequence[tuple[int, ...]]) -> str:
    sizes = list(set_sizes(final, totals))
    named = _sets([each.names for each in sizes])
    if levels:
        measured = _sets([tuple(final.keys[axis].name for axis in axes) for axes in levels])
        return (
            f"{named}: the groups by {measured} are measured, each with noise of its own, and groups of all sets are "
            "estimated from all of them together, so that every total is exactly the sum of its parts"
        )
    return (
        f"{named}: totals are sums of the {final.group_count} finest groups, which are measured once; one is the "
        f"sum of up to {max(each.total.copies for each in sizes)}"
    )


def _sets(sets: Sequence[tuple[str, ...]]) -> str:
    more = f" and {len(sets) - _SHOWN} more" if len(sets) > _SHOWN else ""
    return ", ".join(f"({', '.join(names)})" for names in sets[:_SHOWN]) + more
