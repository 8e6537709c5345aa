"""The order of a mapping, and which of several equal keys it holds, never show in a release.

One unit may decide both: the first row of a table makes its key the first of a counter. So the same numbers, filled in
another order or under another of the equal keys, must give the same output from the same bits.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.key_order import plain_order
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import RULES, PartitionSelection
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.top_k import TopK
from tacit.noise import entropy

WARDS = ("surgery", "cardiology", 12, 3.5, ("x", 1), date(2020, 1, 1), None, b"\xff")


class Shade(enum.IntEnum):
    DARK = 7


class Loud(str):
    """Text whose own methods lie."""

    def __str__(self) -> str:
        raise ValueError

    def __lt__(self, other: object) -> bool:
        raise ValueError


class Odd:
    """A key that can do nothing but be one."""

    def __lt__(self, other: object) -> bool:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


def shown(value: object) -> str:
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("turn", range(len(WARDS)))
def test_the_first_key_of_a_counter_does_not_come_out_first(rule: str, turn: int) -> None:
    keys = PartitionSelection(epsilon=1, delta="1e-5", rule=rule)
    counts = dict.fromkeys(WARDS, 10**6)
    turned = dict.fromkeys((*WARDS[turn:], *WARDS[:turn]), 10**6)
    assert list(map(shown, keys.release(turned))) == list(map(shown, keys.release(counts)))


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Decimal("1.00"), Fraction(1), np.int8(1), np.float32(1), complex(1), np.True_),
        (7, Shade.DARK, np.uint64(7)),
        (0.0, -0.0, 0, False),
        (0.5, Decimal("0.50"), Fraction(1, 2), np.float16(0.5)),
        (Decimal("0.1"), Fraction(1, 10), Decimal("0.100")),
        (10**400, Fraction(10**400)),
        ("a", np.str_("a"), Loud("a")),
        ((1, "a"), (True, np.str_("a")), (1.0, "a")),
        (frozenset({1, 2}), frozenset({2.0, True})),
        (datetime(2020, 1, 1, 12, tzinfo=UTC), datetime(2020, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
        (math.inf, Decimal("Infinity"), np.float64("inf")),
    ],
)
def test_equal_keys_come_out_alike(equal: tuple[Hashable, ...]) -> None:
    keys = PartitionSelection(epsilon=1, delta="1e-5")
    assert len(dict.fromkeys(equal)) == 1
    released = {shown(*keys.release({key: 10**6})) for key in equal}
    assert len(released) == 1
    assert equal[0] == keys.release({equal[-1]: 10**6})[0]


def test_what_comes_out_is_what_went_in() -> None:
    plain = [None, -math.inf, -3, 0, 0.25, Decimal("0.3"), Fraction(1, 3), 7, math.inf, "", "a", b"", date(1, 1, 1)]
    for order in (plain, plain[::-1]):
        assert list(map(shown, plain_order(order).values())) == list(map(shown, plain))


def test_no_key_raises_and_strangers_come_last_in_random_order(seeded: SeededBits) -> None:
    deep: Any = ()
    for _ in range(100):
        deep = (deep,)
    strangers = [Odd(), deep, Decimal("1e9999"), Decimal("nan"), (1, Odd()), object]
    firsts = set()
    for _ in range(200):
        found = list(plain_order([*strangers, "a", math.nan, float("nan")]).values())
        assert found[0] is found[1]
        assert math.isnan(found[0])
        assert found[2] == "a"
        firsts.add(id(found[3]))
    assert len(firsts) == len(strangers)


def test_a_random_order_is_uniform(seeded: SeededBits) -> None:
    """Six orders of three strangers in 6000 draws: each count is off its mean by less than five deviations."""
    strangers = [Odd() for _ in range(3)]
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        order = tuple(plain_order(strangers))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert all(abs(count - 1000) < 5 * math.sqrt(1000 * 5 / 6) for count in seen.values())


@pytest.mark.parametrize(
    "mechanism",
    [
        NoisyMax(epsilon=4, sensitivity=1),
        NoisyMax(epsilon=4, sensitivity=1, gap=True),
        NoisyMax(epsilon=4, sensitivity=1, noise="exponential"),
        Exponential(epsilon=1, sensitivity=1),
        PermuteAndFlip(epsilon=1, sensitivity=1),
        TopK(epsilon=1, k=2, sensitivity=1),
    ],
    ids=repr,
)
def test_a_choice_does_not_follow_the_order_of_the_mapping(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits, the same scores, another order: the same choice, ties included."""
    scores = {"flu": 3, "cold": 3, "cough": 3, 4: 3}
    for seed in range(60):
        found = set()
        for order in permutations(scores):
            bits = SeededBits(seed)
            monkeypatch.setattr(entropy, "current", lambda bits=bits: bits)
            found.add(repr(mechanism.release({key: scores[key] for key in order})))
        assert len(found) == 1


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_the_law_of_a_mapping_is_told_in_its_own_order(kind: Any) -> None:
    choice = kind(epsilon=1, sensitivity=1)
    assert choice.probabilities({"z": 3, "a": 0}) == choice.probabilities([3, 0])
