"""The only door to randomness: nothing is ever drawn twice, whatever processes and threads do."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.noise import entropy
from tacit.noise.entropy import SystemEntropy


def in_child(action: str) -> list[int]:
    """Words drawn by a forked child, as a list sent through a pipe."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - runs in the child
        os.close(read)
        source = entropy.current()
        words = source.words(600).tolist() if action == "bulk" else [source.bits(64) for _ in range(8)]
        os.write(write, b",".join(str(word).encode() for word in words[:50]))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return [int(word) for word in data.split(b",")]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("action", ["single", "bulk"])
def test_forked_children_share_no_word(action: str) -> None:
    entropy.current().word()  # a pool exists and is half full when the children are made
    entropy.current().bits(3)
    drawn = [in_child(action) for _ in range(3)]
    source = entropy.current()
    drawn.append([source.bits(64) for _ in range(50)])
    everything = [word for words in drawn for word in words]
    assert len(set(everything)) == len(everything)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_made_without_python_hooks_is_noticed_by_its_process_id(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SystemEntropy()
    source.word()
    pool = list(source._pool)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    drawn = [source.word() for _ in range(100)]
    assert not set(drawn) & set(pool)


def test_spare_bits_do_not_survive_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SystemEntropy()
    source.bits(1)
    assert source._spare_bits == 63
    monkeypatch.setattr(os, "getpid", lambda: -1)
    source.bits(1)
    assert source._spare_bits == 63  # a fresh word was opened, not the rest of the parent's


def test_separate_processes_differ() -> None:
    program = "from tacit.noise import entropy; print(entropy.current().word(), entropy.current().words(600)[0])"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(3)]
    words = [word for run in runs for word in run.split()]
    assert len(set(words)) == 6


def test_threads_have_their_own_sources() -> None:
    sources: list[object] = []
    words: list[int] = []

    def work() -> None:
        source = entropy.current()
        sources.append(source)
        words.extend(source.word() for _ in range(2000))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(source) for source in sources}) == 8
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda source: pickle.loads(pickle.dumps(source))])
def test_copies_start_empty(clone: object) -> None:
    source = SystemEntropy()
    source.word()
    twin = clone(source)  # type: ignore[operator]
    assert twin._pool == []
    assert twin.word() not in source._pool


def test_there_is_no_seed() -> None:
    assert list(inspect.signature(SystemEntropy).parameters) == []
    assert list(inspect.signature(entropy.current).parameters) == []


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 40_000])
def test_arrays_of_words(count: int) -> None:
    words = SystemEntropy().words(count)
    assert words.dtype == np.uint64
    assert len(words) == count
    assert len(set(words.tolist())) == count
    if count:
        words[0] = 0  # the caller may overwrite


@pytest.mark.parametrize("count", [0, 1, 3, 63, 64, 65, 1000])
def test_bits_have_the_width_asked_for(count: int) -> None:
    source = SystemEntropy()
    drawn = [source.bits(count) for _ in range(50)]
    assert all(0 <= value < 2**count for value in drawn)
    if count > 8:
        assert max(drawn) >= 2 ** (count - 1)  # fails with probability 2^-50


def test_bits_of_the_system_are_fair() -> None:
    """Real entropy, so this one is not repeatable: false alarm below 1e-9 per run."""
    source = SystemEntropy()
    for words in (source.words(1 << 16), np.array([source.word() for _ in range(1 << 14)], dtype=np.uint64)):
        ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0)
        assert np.abs(ones - len(words) / 2).max() < 7 * (len(words) / 4) ** 0.5


def test_helper_bits_match_the_protocol() -> None:
    bits = SeededBits(1)
    assert 0 <= bits.bits(5) < 32
    assert bits.words(3).dtype == np.uint64
