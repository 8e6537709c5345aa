"""Durable operations on small files.

All files outside the database go through this module, so that tests can use a disk that fails, tears writes or
stops at any call.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SMALL: Final = 1 << 12


class HeldError(Exception):
    """A lock did not become free in time, and nothing was done."""


class Disk:
    """Small files on the real disk. Every failure is an :class:`OSError`."""

    def read(self, path: Path) -> bytes | None:
        """Return the contents of a file, or ``None`` if it does not exist."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def create(self, path: Path, content: bytes, *, replace: bool) -> bool:
        """Create a file with this content; after a crash it is there whole or not at all.

        Return whether it was created: an existing file is replaced if ``replace`` is set, and stays otherwise.
        """
        self.make_folder(path.parent)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write(file, content, 0)
            os.fsync(file)
        finally:
            os.close(file)
        made = True
        if replace:
            draft.replace(path)
        else:
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                made = False
            draft.unlink()
        self.sync_folder(path.parent)
        return made

    def change(self, path: Path, decide: Callable[[bytes], tuple[int, bytes] | None]) -> None:
        """Replace a part of an existing file, under its lock; a crash may garble that part, and no other.

        Args:
            path: the file.
            decide: maps the contents of the file to the offset and the bytes to write there, or ``None`` to write
                nothing.
        """
        file = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            decided = decide(os.pread(file, _SMALL, 0))
            if decided is not None:
                _write(file, decided[1], decided[0])
                _sync_data(file)
        finally:
            os.close(file)

    def make_folder(self, path: Path) -> None:
        """Create a folder and its missing parents, each durable in its parent."""
        missing = []
        while not path.exists():
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(folder.parent)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable."""
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def lock(self, path: Path) -> Iterator[None]:
        """Hold a file's lock, exclusive among all processes; the system frees it when the holder dies."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def locked(self, path: Path, work: Callable[[], None], *, patience: float) -> None:
        """Call ``work`` while a file's lock is held.

        Raises:
            HeldError: another process held it for longer than ``patience`` seconds, and ``work`` was not called.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _Turn(file, work).wait(patience)
            return
        except BaseException:
            os.close(file)
            raise
        try:
            work()
        finally:
            os.close(file)


class _Turn:
    """A place in the queue for a lock that is not free.

    The system's lock has no timeout, and asking for it again and again would lose the place in the queue. So a thread
    waits for it. The same thread does the work, so that the lock is held no longer than the work takes; if the caller
    has given up when the lock comes, the work is not done.
    """

    def __init__(self, file: int, work: Callable[[], None]) -> None:
        self._file = file
        self._work = work
        self._deciding = threading.Lock()
        self._begun, self._wanted = False, True
        self._problem: BaseException | None = None

    def wait(self, patience: float) -> None:
        thread = threading.Thread(target=self._run, name="tacit-gate", daemon=True)
        thread.start()
        try:
            thread.join(patience)
        finally:
            with self._deciding:
                self._wanted = self._begun
        if not self._wanted:
            raise HeldError(f"it was held for longer than {patience:g} s")
        thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            with self._deciding:
                self._begun = self._wanted
            if self._begun:
                self._work()
        except BaseException as problem:
            self._begun, self._problem = True, problem
        finally:
            os.close(self._file)


def _write(file: int, content: bytes, offset: int) -> None:
    while content:
        done = os.pwrite(file, content, offset)
        content, offset = content[done:], offset + done


def _sync_data(file: int) -> None:
    # The size does not change, so data alone is enough where the system can tell the two apart.
    getattr(os, "fdatasync", os.fsync)(file)
