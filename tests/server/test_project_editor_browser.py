"""The owner's editor in a real browser: from a messy CSV file to a project that answers, under a checker."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.accessible import DESK, FLAGS, findings
from support.command_line import run_command
from support.warm import WarmProcess, run_warm

pytestmark = pytest.mark.browser


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file as it comes: semicolons, an old encoding, decimal commas, odd dates, names with spaces."""
    wards = ("Chirurgie", "Kardiologie", "chirurgie ")
    rows = [f"{n % 90 if n % 50 else ''};{wards[n % 3]};{n * 7 % 900},50;{n % 28 + 1:02d}.02.2024" for n in range(400)]
    text = "\n".join(["Patient Nr;Station;Kosten (€);Datum", *rows]) + "\n"
    (tmp_path / "aufnahmen.csv").write_text(text, encoding="cp1252")
    return tmp_path


@pytest.fixture
def editor(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process, and the address that it printed."""
    command = [sys.executable, "-m", "tacit.cli", "init", "--edit", "--no-browser"]
    with WarmProcess(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(found.group() for line in process.stdout if (found := re.search(r"http://\S+", line)))
        yield process, address
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_from_a_messy_file_to_a_private_answer(editor: tuple[subprocess.Popen[str], str], folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    process, address = editor
    program = os.environ.get("TACIT_CHROMIUM") or shutil.which("chromium")
    found: list[str] = []
    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        context = browser.new_context(viewport=DESK)
        context.set_default_timeout(20_000)
        page: Any = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda problem: said.append(str(problem)))
        page.goto(address)
        page.fill("#source", "aufnahmen.csv")
        found += findings(page)
        page.keyboard.press("Enter")
        page.select_option("#unit", "patient_nr")
        page.wait_for_selector("#limits")
        assert "8 rows have no patient_nr" in page.inner_text("#facts")
        found += findings(page)
        page.click("th a:has-text('Station')")
        page.fill("#categories", "Chirurgie\nKardiologie")
        page.keyboard.press("Tab")
        page.wait_for_selector("#unlisted")
        assert "nearly" in page.inner_text("#view").lower()
        page.click("a:has-text('kosten')")
        page.click("button[data-high='500']")
        page.wait_for_selector("#kept b")
        assert "bounds = [0, 500]" in page.inner_text("#file")
        found += findings(page)
        page.click("nav a:has-text('Budget')")
        page.fill("#epsilon", "4")
        page.keyboard.press("Tab")
        page.wait_for_selector("b:has-text('4, chosen')")
        found += findings(page)
        page.click("nav a:has-text('Check and save')")
        page.wait_for_selector("#left:has-text('Ready')")
        found += findings(page)
        page.click("button[value=finish]")
        page.wait_for_selector("h1:has-text('Saved')")
        browser.close()
    assert process.wait(timeout=20) == 0
    assert found == [], "\n".join(found)
    assert said == []
    asked = ["query", "SELECT Station, COUNT(*), AVG(kosten) FROM aufnahmen GROUP BY Station", "--epsilon", "1"]
    answer = run_command(*asked, "--project", str(folder / "tacit.toml"))
    assert answer.exit_code == 0, answer.output
    assert "Kardiologie" in answer.output


def test_a_click_right_after_a_change_saves_once_and_is_not_called_stale(
    editor: tuple[subprocess.Popen[str], str], folder: Path
) -> None:
    """A field sends its form when it is left; the click that leaves it sends a form too, or goes to another page."""
    from playwright.sync_api import sync_playwright

    _, address = editor
    program = os.environ.get("TACIT_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        context = browser.new_context(viewport=DESK)
        context.set_default_timeout(20_000)
        page: Any = context.new_page()
        stale: list[str] = []

        def saved(button: str) -> None:
            with page.expect_navigation():
                page.click(button)
            if page.query_selector("#problem"):
                stale.append(page.inner_text("#problem"))

        page.goto(address)
        page.fill("#source", "aufnahmen.csv")
        saved("button.main")
        page.select_option("#unit", "patient_nr")
        page.wait_for_selector("#limits")
        for rows in ("2", "3", "4"):
            page.fill("#max_rows", rows)
            saved("form:has(#max_rows) button")
        page.click("th a:has-text('kosten')")
        for high in ("500", "600", "700"):
            page.fill("#low", "0")
            page.fill("#high", high)
            saved("#declare button.main")
        page.click("nav a:has-text('Budget')")
        for epsilon in ("2", "3"):
            page.fill("#epsilon", epsilon)
            saved("form button.main")
        # The change that a link interrupts is kept, and the page that follows knows of it.
        page.fill("#epsilon", "4")
        saved("nav a:has-text('Check and save')")
        saved("button[value=stay]")
        browser.close()
    assert stale == []
    text = (folder / "tacit.toml").read_text()
    for part in ("max_rows = 4", "bounds = [0, 700]", 'epsilon = "4"'):
        assert part in text


#: The command with a browser that asks for the page and then presses Ctrl-C.
VISITED = """
import os, re, signal, webbrowser
from pathlib import Path
from threading import Thread
from urllib.request import urlopen
from tacit.cli import command_line

def visit(page):
    # Other users of the machine see what a browser is started with, so that is a file of the owner's.
    file = Path(page.removeprefix("file://"))
    assert file.parent.stat().st_mode & 0o077 == 0
    with urlopen(re.search(r'http://[^"]+', file.read_text()).group()) as answer:
        print(answer.read().decode(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

webbrowser.open = lambda page: Thread(target=visit, args=(page,)).start()
command_line()(["init", "--edit", "aufnahmen.csv"])
"""


def test_it_opens_a_browser_and_an_interrupt_ends_it(folder: Path) -> None:
    done = run_warm([sys.executable, "-c", VISITED], cwd=folder, text=True)
    assert "One moment" in done.stdout
    assert "tacit.toml: nothing more was saved" in done.stdout
    assert [file.name for file in folder.iterdir()] == ["aufnahmen.csv"]
