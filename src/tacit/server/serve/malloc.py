"""Memory settings of the C allocator for worker processes.

A database without a limit takes most of the machine's memory, and so would that of every worker. So where a project
states none, workers share.

The C library returns memory that a thread frees to the system at once, and the arrays of the next question have to be
mapped and cleared again, page by page: a fifth of the processor time of a small question (docs/design-notes.md).
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tacit.project.project_file import Project

# The names are those of glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: Bytes that stay when they are free, and the largest piece that comes out of them.
_KEPT: Final = 64 * 2**20
_PIECE: Final = 32 * 2**20
#: Of ten parts of the machine's memory, those that the databases of all workers may use together.
_SHARED: Final = 6
_MEGABYTE: Final = 2**20
#: The least memory of a worker's database: several times the bounded work of one unit (docs/semantics.md, 11).
_LEAST: Final = 512
#: Where a container says how much it may use.
_LIMIT_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
#: Each heap keeps its own; threads that wait for the interpreter do not wait for each other's memory.
_HEAPS: Final = 2


def keep_memory() -> bool:
    """Keep freed memory, within limits; False where the C library knows no such thing, and nothing is changed."""
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    wanted = {_TRIM_THRESHOLD: _KEPT, _MMAP_THRESHOLD: _PIECE, _ARENA_MAX: _HEAPS}
    done = [choose(which, size) for which, size in wanted.items()]
    return all(done)


def with_shared_memory(project: Project, workers: int, machine: int | None = None) -> Project:
    """A project whose database has its share of the machine's memory, where the project file does not state a size.

    The bytes of the machine are looked up where they are not given.
    """
    # The other engines are servers with limits of their own.
    if project.engine != "duckdb" or project.limits.memory is not None:
        return project
    found = machine_memory() if machine is None else machine
    if not found:
        return project
    size = max(found * _SHARED // 10 // workers // _MEGABYTE, _LEAST)
    return replace(project, limits=project.limits.model_copy(update={"memory": f"{size}MiB"}))


def machine_memory() -> int:
    """Bytes that this machine or its container has; 0 where nothing says so."""
    found = []
    with suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in _LIMIT_FILES:
        with suppress(OSError, ValueError):
            found.append(int(Path(name).read_text(encoding="ascii")))
    return min((size for size in found if size > 0), default=0)
