"""A query that takes long shows its time on a terminal, and nothing anywhere else."""

from __future__ import annotations

import io
import threading

import pytest

from tacit.curator.curator import time_shown


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and tells when something was drawn on it."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        super().__init__()
        self.is_terminal, self.drawn = is_terminal, threading.Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        if "Reading" in text:
            self.drawn.set()
        return super().write(text)


def test_the_time_is_shown_and_erased() -> None:
    terminal = Terminal()
    with time_shown(terminal, after=0):
        assert terminal.drawn.wait(30)
    assert "0:00:0" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is erased"


def test_a_failure_erases_it_too() -> None:
    terminal = Terminal()

    def fail() -> None:
        terminal.drawn.wait(30)
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"), time_shown(terminal, after=0):
        fail()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_quick_work_scripts_and_other_threads_show_nothing() -> None:
    quick, script = Terminal(), Terminal(is_terminal=False)
    with time_shown(quick, after=600):
        pass
    with time_shown(script, after=0), time_shown(None, after=0):
        assert not script.drawn.wait(0.05)
    worker = Terminal()

    def ask() -> None:
        with time_shown(worker, after=0):
            worker.drawn.wait(0.05)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert quick.getvalue() == script.getvalue() == worker.getvalue() == ""
