"""Pipe between a worker and its supervisor."""

from __future__ import annotations

import json
import os
from typing import Any, Final

__all__ = ["WorkerLink", "make_link"]

_MOST: Final = 1 << 20


class WorkerLink:
    """Two pipes: on one the worker reports, and the other ends when the supervisor is gone.

    Each side calls :meth:`as_worker` or :meth:`as_supervisor` once, which closes what belongs to the other.
    """

    def __init__(self, reports: tuple[int, int], life: tuple[int, int]) -> None:
        self._reports = reports
        self._life = life
        self._partial = b""
        self._closed = False
        self.open = True

    def as_worker(self) -> None:
        """Keep the end that reports, and the one that tells whether the supervisor lives."""
        os.close(self._reports[0])
        os.close(self._life[1])
        os.set_blocking(self._reports[1], False)

    def as_supervisor(self) -> None:
        """Keep the other ends."""
        os.close(self._reports[1])
        os.close(self._life[0])
        os.set_blocking(self._reports[0], False)

    @property
    def reading(self) -> int:
        """What the supervisor waits for."""
        return self._reports[0]

    @property
    def life(self) -> int:
        """Becomes readable, for the worker, when the supervisor is gone."""
        return self._life[0]

    def tell(self, **about: Any) -> None:
        """Report something; a supervisor that does not listen is not waited for."""
        try:
            os.write(self._reports[1], json.dumps(about).encode() + b"\n")
        except OSError:
            return

    def told(self) -> list[dict[str, Any]]:
        """What was reported since the last call; :attr:`open` becomes false where there will be no more."""
        try:
            while part := os.read(self._reports[0], 65536):
                self._partial += part
                if len(self._partial) > _MOST:
                    self._partial = b""
            self.open = False
        except BlockingIOError:
            pass
        except OSError:
            self.open = False
        *lines, self._partial = self._partial.split(b"\n")
        return [told for line in lines if isinstance(told := _read(line), dict)]

    def close(self) -> None:
        """The supervisor's ends, once: their numbers may be somebody else's afterwards."""
        if not self._closed:
            self._closed = True
            os.close(self._reports[0])
            os.close(self._life[1])


def make_link() -> WorkerLink:
    """Before a worker is forked."""
    return WorkerLink(os.pipe(), os.pipe())


def _read(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
