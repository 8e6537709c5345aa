"""The prompt: statements over several lines, prices before spending, commands, and errors that end nothing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from cli.terminal import at_a_terminal
from tacit.cli.common import opened
from tacit.cli.query import Prompt, is_complete
from tacit.query.request import Request


def session(clinic: Path, *lines: str, price: Request | None = None) -> str:
    """Screen after these lines are typed."""
    screen = Console(file=io.StringIO(), width=200)
    waiting: Iterator[str] = iter(lines)

    def read(prompt: str) -> str:
        screen.print(prompt, end="", markup=False)
        line = next(waiting, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        screen.print(line, markup=False)
        return line

    with opened(clinic / "tacit.toml") as curator:
        Prompt(curator, price or Request(), screen, read).run()
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_a_query_over_several_lines_is_priced_then_asked(clinic: Path) -> None:
    seen = session(clinic, r"\epsilon 0.5", "SELECT ward, COUNT(*) AS n", "FROM visits", "GROUP BY ward;", "y", r"\q")
    assert seen.count("  ...> ") == 2
    assert seen.index("It costs epsilon 0.5") < seen.index("Ask it? [y/N]") < seen.index("cardiology")
    assert "0.5 of 4 spent" in seen


@pytest.mark.parametrize("said", ["", "n", "no", "Y es", "^C"])
def test_nothing_is_spent_without_a_yes(clinic: Path, said: str) -> None:
    seen = session(clinic, "SELECT COUNT(*) FROM visits;", said, r"\budget", price=Request(epsilon="1"))
    assert "Charged" not in seen
    assert "0 of 4 spent" in seen


def test_errors_end_nothing(clinic: Path) -> None:
    seen = session(
        clinic,
        "SELECT COUNT(*) FROM visits;",
        "SELECT * FROM visits;",
        r"\epsilon",
        r"\nonsense [bold]x",
        r"\epsilon 9",
        "SELECT COUNT(*) FROM visits;",
        "y",
        r"\tables",
        r"\help",
    )
    assert "state what the query may cost" in seen
    assert "never returned" in seen
    assert "needs a number after it" in seen
    assert r"There is no \nonsense" in seen
    assert "patients: " in seen
    assert "does not fit" in seen
    assert "visits: protects patients" in seen
    assert "what a query may cost" in seen


def test_prices_replace_one_another(clinic: Path) -> None:
    query = "SELECT COUNT(*) AS n FROM visits;"
    seen = session(clinic, r"\epsilon 1", r"\within 50", query, "n", r"\within n=90", query, "n", r"\confidence .5")
    assert "contradicts" not in seen
    assert "within 50" in seen
    assert "within 90" in seen


def test_control_c_drops_what_was_written(clinic: Path) -> None:
    seen = session(clinic, "SELECT nonsense", "^C", "SELECT COUNT(*) FROM visits;", "n", price=Request(epsilon="1"))
    assert "It costs epsilon 1" in seen


def test_explain_is_for_the_next_query(clinic: Path) -> None:
    query = "SELECT COUNT(*) AS n FROM visits;"
    seen = session(clinic, r"\explain", query, "n", query, "n", price=Request(epsilon="1"))
    assert seen.count("Releases") == 1


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; ", True),
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT ';';", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1 -- done;", False),
        ("SELECT 1 /* ; */", False),
        ("SELECT 1 /* ;", False),
        ('SELECT "a;b";', True),
        ("SELECT 'it''s;", False),
        ("SELECT 'it''s';", True),
        ("SELECT 1; SELECT 2", False),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_at_a_real_terminal(clinic: Path) -> None:
    typed = [
        ("tacit> ", "SELECT COUNT(*) AS n\n"),
        ("...> ", "FROM visits;\n"),
        ("Ask it? [y/N] ", "y\n"),
        ("tacit> ", "\\budget\n"),
        ("left", ""),
        ("tacit> ", "\\q\n"),
    ]
    code, screen = at_a_terminal(["query", "--epsilon", "0.5"], typed, clinic)
    assert code == 0, screen
    assert "Charged epsilon 0.5 to patients" in screen
    assert "0.5 of 4 spent" in screen
    assert "Traceback" not in screen


@pytest.mark.parametrize("word", ["exit", "quit", "EXIT;", " quit ", r"\q", r"\exit"])
def test_words_that_leave(clinic: Path, word: str) -> None:
    seen = session(clinic, word, "SELECT COUNT(*) FROM visits;", price=Request(epsilon="1"))
    assert "It costs" not in seen


def test_help_tables_and_history(clinic: Path) -> None:
    seen = session(clinic, "help", r"\d visits", r"\d nothing", "SELECT COUNT(*) FROM visits;", "y", "history",
                   price=Request(epsilon="1"))  # fmt: skip
    assert "what is spent and what is left" in seen
    assert "visits: protects patients" in seen
    assert "there is no table 'nothing'; there are visits" in seen
    assert "Charged epsilon 1 to patients: SELECT COUNT(*) FROM visits;" in seen
