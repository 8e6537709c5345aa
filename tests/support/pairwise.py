"""Cases in which each value meets each value of every other list at least once: far fewer than the full product."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

__all__ = ["pairwise"]


def pairwise(*lists: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases with one value of each list, the same in every process; the case with most new pairs comes first."""

    def pairs(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(itertools.combinations(enumerate(case), 2))

    left = list(itertools.product(*(range(len(values)) for values in lists)))
    missing = set().union(*map(pairs, left))
    chosen = []
    while missing:
        case = max(left, key=lambda case: len(pairs(case) & missing))
        missing -= pairs(case)
        chosen.append(tuple(values[at] for values, at in zip(lists, case, strict=True)))
    return chosen
