"""Contribution numbers: ``max_groups`` and ``max_rows``, each a whole number or AUTO.

A number bounds how many groups of one unit count, or how many of its rows in each. With AUTO it is found privately,
within the cost of the query (:mod:`tacit.query.planning.auto_limits`). The word is ``auto``, in any case.

>>> contribution_number(3, "max_rows"), contribution_number("AUTO", "max_rows")
(3, 'auto')
>>> larger(3, 5), larger(3, AUTO)
(5, 'auto')
"""

from __future__ import annotations

from typing import Any, Final, Literal

from tacit.core.errors import InputError
from tacit.core.numbers import check_count

#: Contribution number that is found privately.
AUTO: Final = "auto"
#: Largest ``max_groups`` or ``max_rows`` that may be stated, even where a smaller one would have the same effect.
MOST_COUNTED: Final = 999_999_999
#: Largest ``max_rows_total``, rows of one person in all groups together: times 2^40 rows of a table, it fits 64 bits.
MOST_TOTAL: Final = 2**20

#: Confidence intervals allow for the bias where that makes them less than this many times as wide.
MOST_WIDENED: Final = 3

ContributionNumber = int | Literal["auto"]


def contribution_number(value: Any, name: str, *, most: int = MOST_COUNTED) -> ContributionNumber:
    """Return a contribution number, checked: a whole number of at most ``most``, or AUTO.

    Raises:
        InputError: it is neither.
    """
    if isinstance(value, str):
        if value.strip().lower() == AUTO:
            return AUTO
        raise InputError(name, f"must be a whole number or AUTO, got {value[:40]!r}")
    return check_count(value, name, maximum=most)


def larger(one: ContributionNumber, other: ContributionNumber) -> ContributionNumber:
    """Return the contribution number of a relation made of two: the larger one, or AUTO where either is AUTO."""
    if isinstance(one, str) or isinstance(other, str):
        return AUTO
    return max(one, other)
