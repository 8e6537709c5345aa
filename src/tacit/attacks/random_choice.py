"""Random choices of an attacker; no guarantee rests on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.noise import entropy
from tacit.noise.uniform import sample_below, sample_below_many

_Item = TypeVar("_Item")


def choose(items: Sequence[_Item], count: int) -> list[_Item]:
    """``count`` different ones of ``items``, every set of them equally likely, in random order."""
    if not 0 <= count <= len(items):
        raise InputError("count", f"must be from 0 to {len(items)}, got {count}")
    places = np.arange(len(items))
    for i in range(count):
        other = i + sample_below(len(items) - i)
        places[i], places[other] = places[other], places[i]
    return [items[place] for place in places[:count]]


def choose_evenly(items: Sequence[_Item], truths: Sequence[bool], count: int) -> list[tuple[_Item, bool]]:
    """``count`` items and their truths, half of which hold, so that a coin is right half the time."""
    if len(items) != len(truths):
        raise InputError("truths", f"must have one entry for each of {len(items)} items, got {len(truths)}")
    sides = [[item for item, truth in zip(items, truths, strict=True) if bool(truth) is side] for side in (True, False)]
    half = min(count // 2, *map(len, sides))
    if half < 1:
        raise InputError("truths", "must hold for some and not for others: there is nothing to find out")
    pairs = [(item, side) for side, found in zip((True, False), sides, strict=True) for item in choose(found, half)]
    return choose(pairs, len(pairs))


def largest(values: Sequence[float]) -> int:
    """The place of the largest value; among equals, any one by lot."""
    best = max(values)
    places = [place for place, value in enumerate(values) if value == best]
    return places[sample_below(len(places))] if len(places) > 1 else places[0]


def toss(rows: int, columns: int) -> NDArray[np.bool_]:
    """Fair coins."""
    words = entropy.current().words(-(-rows * columns // 64))
    return np.unpackbits(words.view(np.uint8))[: rows * columns].reshape(rows, columns).astype(np.bool_)


def below(bound: int, count: int) -> NDArray[np.int64]:
    """``count`` independent whole numbers from 0 to ``bound`` - 1."""
    return sample_below_many(bound, count)
