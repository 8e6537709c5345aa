"""Contribution numbers: ``max_groups`` and ``max_rows``, each a whole number or AUTO.

A number says how many groups of one unit count, or how many of its rows in each. AUTO has the number found privately
within the price of the query (:mod:`tacit.query.planning.auto_limits`). The word is ``auto``, in any case.

>>> contribution_number(3, "max_rows"), contribution_number("AUTO", "max_rows")
(3, 'auto')
>>> larger(3, 5), larger(3, AUTO)
(5, 'auto')
"""

from __future__ import annotations

from typing import Any, Final, Literal

from tacit.core.errors import InputError
from tacit.core.numbers import check_count

#: The number is found privately.
AUTO: Final = "auto"
#: Of groups and rows of one person; a number that has no effect beyond may be stated up to here.
MOST_COUNTED: Final = 999_999_999
#: Rows of one person in all groups together: times the rows of a table, 2^40, they fit 64 bits.
MOST_TOTAL: Final = 2**20

#: Intervals that are shown allow for what is left out, where that makes them less than this many times as wide.
MOST_WIDENED: Final = 3

ContributionNumber = int | Literal["auto"]


def contribution_number(value: Any, name: str, *, most: int = MOST_COUNTED) -> ContributionNumber:
    """A whole number or AUTO, checked.

    Raises:
        InputError: it is neither.
    """
    if isinstance(value, str):
        if value.strip().lower() == AUTO:
            return AUTO
        raise InputError(name, f"must be a whole number or AUTO, got {value[:40]!r}")
    return check_count(value, name, maximum=most)


def larger(one: ContributionNumber, other: ContributionNumber) -> ContributionNumber:
    """The number of a relation that is made of two; AUTO where either is to be found."""
    if isinstance(one, str) or isinstance(other, str):
        return AUTO
    return max(one, other)
