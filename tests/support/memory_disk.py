"""Files of tests on a disk in memory, where there is one with room: a ledger waits for the disk at every charge.

What a sync is worth, only pulling the plug could show; that it is asked for and obeyed is tested with disks that fail.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["use_memory_disk"]

_MEMORY = Path("/dev/shm")
#: Bytes that must be free; a run of all tests needs a part of them.
_ROOM = 4 * 2**30


def use_memory_disk() -> None:
    """Make it the place of temporary files, of this process and of those it starts, unless another one is given."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return
    os.environ["TMPDIR"] = str(_MEMORY)
    # It was found, and kept, before.
    tempfile.tempdir = None
