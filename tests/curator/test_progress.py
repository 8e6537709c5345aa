"""The bar of a long scan: on a terminal only, after a second, wiped away at the end, and never in the way."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from fractions import Fraction

import pytest

from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.curator.curator import ProgressBar, terminal_progress
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER

CATALOG = Catalog(
    (Table("visits", (Column("patient", INTEGER),), population="patients", unit="patient"),), (Population("patients"),)
)
COUNT = "SELECT COUNT(*) AS n FROM visits"
ROWS = [{"patient": i} for i in range(10)]
#: Control codes by which rich wipes a line away.
WIPED = "\x1b[2K"


@pytest.fixture(autouse=True)
def a_capable_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


class Terminal(io.StringIO):
    """A screen; ``gone`` makes it fail like one that was closed."""

    gone = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError("the terminal is gone")
        return super().write(text)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Scanning(ToyEngine):
    """An engine that tells how far it is before it answers."""

    def __init__(self, tell: Callable[[Callable[[float], None] | None], None]) -> None:
        super().__init__({"visits": ROWS})
        self.tell = tell

    def measure(self, work: MeasurementTask) -> Measurements:
        self.tell(work.progress)
        return super().measure(work)


def test_a_second_passes_before_anything_is_drawn() -> None:
    screen, clock = Terminal(), Clock()
    bar = ProgressBar(screen, clock)
    bar(10.0)
    clock.now += 0.9
    bar(20.0)
    assert screen.getvalue() == ""
    clock.now += 0.2
    bar(30.0)
    bar.close()
    assert "Reading" in screen.getvalue()
    assert "30%" in screen.getvalue()
    assert screen.getvalue().rstrip("\n").endswith(WIPED)
    drawn = screen.getvalue()
    bar(40.0)
    bar.close()
    assert screen.getvalue() == drawn


def test_short_queries_leave_no_trace() -> None:
    screen = Terminal()
    bar = ProgressBar(screen, Clock())
    bar(99.0)
    bar.close()
    assert screen.getvalue() == ""


@pytest.mark.parametrize("percent", [0.0, -1.0, 250.0, float("nan")])
def test_an_unknown_percentage_is_not_made_up(percent: float) -> None:
    screen, clock = Terminal(), Clock()
    bar = ProgressBar(screen, clock)
    clock.now += 2
    bar(percent)
    bar.close()
    assert "Reading" in screen.getvalue()
    assert "%" not in screen.getvalue()


def test_a_terminal_that_goes_away_stops_nothing() -> None:
    screen, clock = Terminal(), Clock()
    screen.gone = True
    bar = ProgressBar(screen, clock)
    clock.now += 2
    bar(10.0)
    bar(20.0)
    bar.close()


def test_a_curator_hands_a_bar_to_the_engine_and_wipes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()

    def long_scan(progress: Callable[[float], None] | None) -> None:
        assert isinstance(progress, ProgressBar)
        progress._start -= 5
        # Engines tell from a thread of their own.
        other = threading.Thread(target=progress, args=(42.0,))
        other.start()
        other.join()

    monkeypatch.setattr(sys, "stderr", screen)
    curator = toy_curator(CATALOG, Scanning(long_scan), {"epsilon": "4"})
    assert len(curator.sql(COUNT, epsilon="1")) == 1
    assert "42%" in screen.getvalue()
    assert screen.getvalue().rstrip("\n").endswith(WIPED)


def test_nothing_is_drawn_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    curator = toy_curator(CATALOG, Scanning(told.append), {"epsilon": "4"})
    for number, stream in enumerate((io.StringIO(), None)):
        monkeypatch.setattr(sys, "stderr", stream)
        curator.sql(COUNT, epsilon=Fraction(number + 1, 10))
    assert told == [None] * 4, "each query, and what it leaves out"


def test_queries_from_other_threads_have_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    given: list[object] = []

    def ask() -> None:
        with terminal_progress() as bar:
            given.append(bar)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert given == [None]
    with terminal_progress() as bar:
        assert isinstance(bar, ProgressBar)


def test_a_failure_wipes_the_bar_away_too(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)

    def fail() -> None:
        with terminal_progress() as bar:
            assert bar is not None
            bar._start -= 5
            bar(50.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert screen.getvalue().rstrip("\n").endswith(WIPED)
