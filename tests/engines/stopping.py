"""Stops that come from another thread while an engine is at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["interrupting", "once_running"]


@contextmanager
def interrupting(engine: Any) -> Iterator[None]:
    """Interrupt the engine again and again until the block ends."""
    stop = threading.Event()

    def keep_on() -> None:
        while not stop.wait(0.05):
            engine.interrupt()

    other = threading.Thread(target=keep_on)
    other.start()
    try:
        yield
    finally:
        stop.set()
        other.join()


@contextmanager
def once_running(engine: Any, act: Callable[[], object], *, after: float = 0.0) -> Iterator[None]:
    """Do something so many seconds after the engine has begun a question in this block."""
    stop = threading.Event()

    def soon() -> None:
        while not engine._running:
            if stop.wait(0.05):
                return
        time.sleep(after)
        act()

    other = threading.Thread(target=soon)
    other.start()
    try:
        yield
    finally:
        stop.set()
        other.join()
