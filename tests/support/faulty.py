"""Disks that fail on purpose, under the real database.

:func:`faulty_vfs` registers a file layer with SQLite that hands every call on to the real one, unless a plan says that
this write or this sync fails, is cut in half, or kills the process. It is made with the hooks that SQLite has for
this, called through ctypes; nothing is preloaded or patched.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import sqlite3
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, cast
from pathlib import Path
from typing import Any

from tacit.ledger.disk import Disk
from tacit.ledger.sqlite import connect_to

IOERR_WRITE, IOERR_FSYNC, FULL = 778, 1034, 13
#: Decides about a call by its kind ("write" or "sync") and its file; returns 0 to let it happen, a result code to
#: fail it, or minus a result code to do half of it and fail then.
Plan = Callable[[str, str], int]


class _Vfs(Structure):
    _fields_ = [
        ("version", c_int), ("size_of_file", c_int), ("longest_path", c_int), ("next", c_void_p), ("name", c_char_p),
        ("data", c_void_p), ("open", c_void_p), *[(f"method{n}", c_void_p) for n in range(15)],
    ]  # fmt: skip


class _Methods(Structure):
    _fields_ = [
        ("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", c_void_p), ("truncate", c_void_p),
        ("sync", c_void_p), *[(f"method{n}", c_void_p) for n in range(13)],
    ]  # fmt: skip


class _File(Structure):
    _fields_ = [("methods", POINTER(_Methods))]


_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(_File), c_int, c_void_p)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_NAME = "tacit-faulty"


class FaultyVfs:
    """The registered layer; its plan can be changed at any time."""

    def __init__(self) -> None:
        self.plan: Plan = lambda kind, name: 0
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        library.sqlite3_vfs_find.argtypes = [c_char_p]
        library.sqlite3_vfs_register.argtypes = [POINTER(_Vfs), c_int]
        real = library.sqlite3_vfs_find(None).contents
        self._vfs = _Vfs.from_buffer_copy(real)
        self._vfs.name = _NAME.encode()
        self._real_open = _OPEN(real.open)
        self._open = _OPEN(self._opened)
        self._vfs.open = cast(self._open, c_void_p).value
        self._methods: dict[int, tuple[Any, ...]] = {}
        self._names: dict[int, str] = {}
        assert library.sqlite3_vfs_register(ctypes.byref(self._vfs), 0) == 0

    def connect(self, path: Path) -> sqlite3.Connection:
        """As the ledger connects, through this layer."""
        return connect_to(path, options=f"vfs={_NAME}")

    def _opened(self, vfs: int, name: int, file: Any, flags: int, out: int) -> int:
        code = self._real_open(vfs, name, file, flags, out)
        if code == 0 and file.contents.methods:
            address = ctypes.addressof(file.contents)
            self._names[address] = "" if not name else os.path.basename(ctypes.string_at(name).decode())
            file.contents.methods = ctypes.pointer(self._wrapped(file.contents.methods.contents))
        return code

    def _wrapped(self, real: _Methods) -> _Methods:
        known = self._methods.get(ctypes.addressof(real))
        if known is not None:
            return known[0]
        real_write, real_sync = _WRITE(real.write), _SYNC(real.sync)

        def write(file: int, data: int, size: int, offset: int) -> int:
            code = self.plan("write", self._names.get(file, ""))
            if code < 0:
                real_write(file, data, size // 2, offset)
            return abs(code) or real_write(file, data, size, offset)

        def sync(file: int, flags: int) -> int:
            code = self.plan("sync", self._names.get(file, ""))
            return abs(code) or real_sync(file, flags)

        mine = _Methods.from_buffer_copy(real)
        callbacks = _WRITE(write), _SYNC(sync)
        mine.write, mine.sync = (cast(callback, c_void_p).value for callback in callbacks)
        self._methods[ctypes.addressof(real)] = (mine, callbacks, real_write, real_sync)
        return mine


_LAYER: list[FaultyVfs] = []


def faulty_vfs(plan: Plan) -> FaultyVfs:
    """The one layer of this process, with a plan."""
    if not _LAYER:
        _LAYER.append(FaultyVfs())
    _LAYER[0].plan = plan
    return _LAYER[0]


class MortalConnection:
    """A connection that may die before or after every statement."""

    def __init__(self, connection: sqlite3.Connection, tick: Callable[[], None]) -> None:
        self._connection = connection
        self._tick = tick

    def execute(self, *args: Any) -> Any:
        self._tick()
        result = self._connection.execute(*args)
        self._tick()
        return result

    def executemany(self, *args: Any) -> Any:
        self._tick()
        return self._connection.executemany(*args)

    def close(self) -> None:
        self._connection.close()


class MortalDisk(Disk):
    """Small files whose every system call may be the last."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick

    def create(self, path: Path, content: bytes, *, replace: bool) -> bool:
        self._tick()
        made = super().create(path, content, replace=replace)
        self._tick()
        return made

    def change(self, path: Path, decide: Callable[[bytes], tuple[int, bytes] | None]) -> None:
        self._tick()
        super().change(path, lambda content: self._torn(path, decide(content)))
        self._tick()

    def _torn(self, path: Path, decided: tuple[int, bytes] | None) -> tuple[int, bytes] | None:
        if decided is not None:
            file = os.open(path, os.O_WRONLY)
            os.pwrite(file, decided[1][:40], decided[0])
            os.close(file)
        self._tick()
        return decided


class FailingDisk(Disk):
    """Small files on a disk that fails from some call on."""

    def __init__(self) -> None:
        self.error: OSError | None = None

    def read(self, path: Path) -> bytes | None:
        self._fail()
        return super().read(path)

    def create(self, path: Path, content: bytes, *, replace: bool) -> bool:
        self._fail()
        return super().create(path, content, replace=replace)

    def change(self, path: Path, decide: Callable[[bytes], tuple[int, bytes] | None]) -> None:
        self._fail()
        super().change(path, decide)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error
