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
        page.click("section[aria-labelledby=whose] button")
        page.wait_for_selector("#limits")
        assert "8 rows have no patient_nr" in page.inner_text("#facts")
        found += findings(page)
        page.click("th a:has-text('Station')")
        page.fill("#categories", "Chirurgie\nKardiologie")
        page.click("#declare button.main")
        page.wait_for_selector("#unlisted")
        assert "nearly" in page.inner_text("#view").lower()
        page.click("nav a:has-text('aufnahmen')")
        page.click("th a:has-text('kosten')")
        page.click("button[data-high='500']")
        page.wait_for_selector("#kept b")
        assert "bounds = [0, 500]" in page.inner_text("#file")
        found += findings(page)
        page.click("nav a:has-text('Budget')")
        page.fill("#epsilon", "4")
        page.keyboard.press("Enter")
        page.wait_for_selector("b:has-text('4, chosen')")
        found += findings(page)
        page.click("nav a:has-text('Check')")
        page.wait_for_selector("#left:has-text('Nothing left open')")
        found += findings(page)
        page.click("button:has-text('Finish')")
        page.wait_for_selector("h1:has-text('Finished')")
        browser.close()
    assert process.wait(timeout=20) == 0
    assert found == [], "\n".join(found)
    assert said == []
    asked = ["query", "SELECT Station, COUNT(*), AVG(kosten) FROM aufnahmen GROUP BY Station", "--epsilon", "1"]
    answer = run_command(*asked, "--project", str(folder / "tacit.toml"))
    assert answer.exit_code == 0, answer.output
    assert "Kardiologie" in answer.output


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
    assert "Then: tacit doctor --project tacit.toml" in done.stdout
    assert sorted(file.name for file in folder.iterdir()) == ["aufnahmen.csv", "tacit.toml"]
