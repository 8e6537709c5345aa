"""Progress bar for long scans on the data owner's terminal.

It is drawn only where standard error is a terminal, from the thread that asks (the main one), and only for questions
that take longer than a second, so that scripts, notebooks and servers never see it.

The progress of reading a source, and its speed, depend on the data: a bar is a timing channel with numbers on it.
That is no loss in front of a local terminal, whose user could read the file itself. It must never be sent to a remote
analyst, and no answer, receipt or log holds any of it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds that a question may take without a bar.
PATIENCE = 1.0
_WHOLE = 100.0


class ProgressBar:
    """Told a percentage now and then, it draws a bar once its patience is over; it never fails."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock()
        self._drawn: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._ended = False

    def __call__(self, percent: float) -> None:
        """Show that so much has been read; engines call this from a thread of their own."""
        with self._lock:
            if self._ended or self._clock() - self._start < PATIENCE:
                return
            try:
                self._show(percent)
            except Exception:
                # A terminal that went away must not stop the thread that also keeps the time limit.
                self._ended = True

    def close(self) -> None:
        """Wipe the bar away."""
        with self._lock:
            self._ended = True
            drawn, self._drawn = self._drawn, None
        if drawn is not None:
            try:
                drawn[0].stop()
            except Exception:
                # As above: what cannot be drawn need not be wiped away.
                return

    def _show(self, percent: float) -> None:
        if self._drawn is None:
            self._drawn = self._begin()
        bar, task = self._drawn
        # Before anything is known the bar swings instead of standing at nothing.
        known = 0 < percent <= _WHOLE
        bar.update(task, total=_WHOLE if known else None, completed=percent if known else 0)

    def _begin(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("Reading"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(file=self._stream), transient=True)
        bar.start()
        return bar, bar.add_task("reading", total=None)


@contextmanager
def terminal_progress() -> Iterator[ProgressBar | None]:
    """Progress bar for questions asked inside, or None where standard error is no terminal."""
    if not _is_watched():
        yield None
        return
    bar = ProgressBar(sys.stderr)
    try:
        yield bar
    finally:
        bar.close()


def _is_watched() -> bool:
    # Several threads that ask at once, as in a server, would draw over one another, and their callers sit elsewhere.
    here = threading.current_thread() is threading.main_thread()
    return here and sys.stderr is not None and sys.stderr.isatty()
