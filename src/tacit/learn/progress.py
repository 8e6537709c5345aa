"""A progress bar for long fits: only on a terminal, only when it takes a while, and only about public numbers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: A fit that is done by then shows nothing.
_PATIENCE: Final = 1.0


def progress(items: Sequence[T], title: str) -> Iterator[T]:
    """``items``, with a bar on standard error if it is a terminal and the first of them took long.

    The number of items is public; a bar shows nothing else of the fit but how long it takes.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    yield from _shown(items, title)


def _shown(items: Sequence[T], title: str) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=len(items))
    shown = False
    try:
        for item in items:
            yield item
            bar.advance(task)
            if not shown and time.monotonic() - start > _PATIENCE:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()
