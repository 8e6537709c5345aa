"""The cache keeps the most recently used entries within a weight, also under concurrent use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tacit.releases.plans import WeightedLRUCache


def test_what_was_not_used_for_longest_goes_first() -> None:
    kept: WeightedLRUCache[str, int] = WeightedLRUCache(32)
    for number, name in enumerate("abcdefghijklmnop"):
        kept.put(name, number, 2)
    assert (len(kept), kept.weight) == (16, 32)
    assert kept.get("a") == 0
    kept.put("q", 16, 2)
    assert (kept.get("a"), kept.get("b"), kept.get("q")) == (0, None, 16)
    assert (len(kept), kept.weight) == (16, 32)


def test_one_heavy_thing_drives_nothing_out() -> None:
    kept: WeightedLRUCache[str, str] = WeightedLRUCache(160)
    kept.put("light", "x", 10)
    assert kept.put("heavy", "y", 11) == "y"
    assert (kept.get("heavy"), kept.get("light"), kept.weight) == (None, "x", 10)


def test_the_first_value_holds() -> None:
    kept: WeightedLRUCache[str, list[int]] = WeightedLRUCache(1000)
    first = kept.put("a", [1], 5)
    assert kept.put("a", [2], 5) is first
    assert (kept.get("a"), kept.weight) == ([1], 5)


def test_many_threads_never_exceed_the_weight_nor_mix_things_up() -> None:
    kept: WeightedLRUCache[int, tuple[int]] = WeightedLRUCache(400)
    start = threading.Barrier(8)

    def work(seed: int) -> int:
        start.wait()
        worst = 0
        for step in range(2000):
            number = (seed * 31 + step * 7) % 97
            found = kept.get(number) or kept.put(number, (number,), 1 + number % 25)
            assert found == (number,)
            worst = max(worst, kept.weight)
        return worst

    with ThreadPoolExecutor(8) as pool:
        worst = max(pool.map(work, range(8)))
    # A thread may look while another puts something in, which is at most 25 heavy, and has not yet taken others out.
    assert worst <= 425
    left = [number for number in range(97) if kept.get(number) is not None]
    assert kept.weight == sum(1 + number % 25 for number in left) <= 400
    assert len(kept) == len(left)
