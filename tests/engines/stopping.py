"""Stops that come from another thread while an engine is at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

__all__ = ["interrupting", "once_running"]


@contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Work in another thread, which is told when the block ends and waited for."""
    ended = threading.Event()
    other = threading.Thread(target=work, args=(ended,))
    other.start()
    try:
        yield
    finally:
        ended.set()
        other.join()


def interrupting(engine: Any) -> AbstractContextManager[None]:
    """Interrupt the engine again and again until the block ends."""

    def keep_on(ended: threading.Event) -> None:
        while not ended.wait(0.05):
            engine.interrupt()

    return _beside(keep_on)


def once_running(engine: Any, act: Callable[[], object], *, after: float = 0.0) -> AbstractContextManager[None]:
    """Do something so many seconds after the engine has begun a query in this block."""

    def soon(ended: threading.Event) -> None:
        while not engine._running:
            if ended.wait(0.05):
                return
        time.sleep(after)
        act()

    return _beside(soon)
