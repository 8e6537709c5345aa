"""Memory that workers keep between queries."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tacit.project.project_file import LimitsModel, Project
from tacit.query.catalog import Catalog
from tacit.server.serve.processes import machine_memory, with_shared_memory

# Arrays of some megabytes, made and dropped in a thread, as queries do; how often the system had to give a page.
_WORK = """
import resource, sys, threading
import numpy as np
from tacit.server.serve.processes import keep_memory

if sys.argv[1] == "keep":
    assert keep_memory()

def queries(count):
    for _ in range(count):
        made = [np.ones(2**18) for _ in range(8)]
        del made

def watched():
    # In one thread: another one may have a heap of its own, which is new to it.
    queries(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    queries(20)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=watched)
thread.start()
thread.join()
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _WORK, how], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


# Quotes of texts that were never asked before, as analysts send them for hours.
_TEXTS = """
import gc
from support.served import serve
from tacit.server.serve.processes import collect_rarely

served = serve()
collect_rarely()
freed = []
gc.callbacks.append(lambda phase, info: freed.append(info["collected"]) if info["generation"] == 2 else None)
for number in range(1_000):
    sql = f"SELECT ward, COUNT(*) AS n FROM visits WHERE cost < {number % 97}.{number:05} GROUP BY ward"
    served.curator.explain(sql, epsilon="0.1")
print(max(freed, default=0))
served.close()
"""


@pytest.mark.deep
def test_what_queries_leave_in_cycles_is_given_back() -> None:
    """Each new text leaves about a hundred objects, 10 kB, that only a collection of old objects frees."""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _TEXTS], capture_output=True, text=True, timeout=120, env=path)
    assert int(done.stdout) > 10_000, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_a_query_uses_the_memory_of_the_one_before() -> None:
    """Twenty queries of sixteen megabytes are 80,000 pages; kept, the first one's do for all."""
    assert faults("keep") < 1_000
    assert faults("give back") > 40_000


def test_workers_share_the_memory_of_the_machine() -> None:
    """All of them together have three fifths, so that none can take what another needs."""
    gigabyte = 2**30
    project = Project("clinic", Catalog((), ()), {}, {})

    def share(workers: int, machine: int, project: Project = project) -> str | None:
        return with_shared_memory(project, workers, machine).limits.memory

    assert [share(n, 10 * gigabyte) for n in (1, 2, 4)] == ["6144MiB", "3072MiB", "1536MiB"]
    assert share(64, 10 * gigabyte) == "512MiB", "a least size, below which ordinary queries fail"
    assert share(4, 0) is None
    said = LimitsModel(memory="3GB")
    assert share(4, 10 * gigabyte, Project("clinic", Catalog((), ()), {}, {}, limits=said)) == "3GB"
    assert share(4, 10 * gigabyte, Project("clinic", Catalog((), ()), {}, {}, engine="postgresql://x/y")) is None
    assert machine_memory() > gigabyte // 4
    assert with_shared_memory(project, 1).limits.memory == f"{max(machine_memory() * 6 // 10 // 2**20, 512)}MiB"
