"""Memory that workers keep between questions."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Arrays of some megabytes, made and dropped in a thread, as questions do; how often the system had to give a page.
_WORK = """
import resource, sys, threading
import numpy as np
from tacit.server.running.memory import keep_memory

if sys.argv[1] == "keep":
    assert keep_memory()

def questions(count):
    for _ in range(count):
        made = [np.ones(2**18) for _ in range(8)]
        del made

def watched():
    # In one thread: another one may have a heap of its own, which is new to it.
    questions(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    questions(20)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=watched)
thread.start()
thread.join()
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _WORK, how], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_a_question_uses_the_memory_of_the_one_before() -> None:
    """Twenty questions of sixteen megabytes are 80,000 pages; kept, the first one's do for all."""
    assert faults("keep") < 1_000
    assert faults("give back") > 40_000
