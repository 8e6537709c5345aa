"""Memory that a process keeps for its next question.

The C library gives what a thread frees back to the system at once, and the arrays of the next question have to be
mapped and cleared again, page by page: a sixth of all that a small question cost.
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["keep_memory"]

# The names are those of glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: Bytes that stay when they are free, and the largest piece that comes out of them.
_KEPT: Final = 64 * 2**20
_PIECE: Final = 32 * 2**20
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
