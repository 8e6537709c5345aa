"""Every page of the console under an accessibility checker: light and dark, on a desk and on a phone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from support.accessible import DESK, FLAGS, findings
from support.served import COUNT, Served, serve
from support.visiting import listening
from tacit.server.api.request import release_of

pytestmark = pytest.mark.browser

PAGES = ("datasets", "history", "budget", "guarantee", "releases", "people",
         "people/one?name=alice", "ledger", "sessions", "nowhere", "answers/1", "releases?make=workload",
         "releases?make=model")  # fmt: skip
OUTSIDE = ("sign-in", "link/x")


@pytest.fixture(scope="module")
def hospital() -> Iterator[Served]:
    found = serve(response_step=0.05)
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(hospital: Served) -> Iterator[Any]:
    """A window; one browser and one server for all."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("TACIT_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright, listening(hospital.app) as address:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        context = browser.new_context(base_url=address, viewport=DESK)
        context.set_default_timeout(20_000)
        yield context.new_page()
        browser.close()


def table_of(served: Served) -> int:
    """The place of a synthetic table."""
    words = {"source": "SELECT ward FROM visits", "method": "independent", "epsilon": 1, "delta": 1e-7}
    said = release_of(json.dumps({"kind": "synthesis"} | words).encode())
    return served.service.make_release(served.access("olga"), said, key="a table").receipt.position


def workload_of(served: Served) -> int:
    """The place of an answered workload."""
    words = {"source": "SELECT ward FROM visits", "workload": [{"each": "ward"}], "epsilon": 1, "delta": 1e-7}
    said = release_of(json.dumps({"kind": "workload"} | words).encode())
    return served.service.make_release(served.access("olga"), said, key="a workload").receipt.position


def test_the_checker_finds_nothing_on_any_page(page: Any, hospital: Served) -> None:
    found = []
    for name in OUTSIDE:
        page.goto(f"/console/{name}")
        found += findings(page)
    page.goto(f"/console/link/{hospital.people.link('olga', operator='test')}")
    found += findings(page)
    page.click("button.main")
    page.wait_for_url("**/console/ask")
    page.fill("#sql", COUNT)
    page.fill("#amount", "0.5")
    page.wait_for_selector("#price:not(.stale) .price:has-text('ε')")
    page.click("#run")
    page.wait_for_selector("#result[aria-busy=false] h2")
    page.click("summary:has-text('Noise')")
    found += findings(page)
    paid = [f"releases/{table_of(hospital)}", f"releases/{workload_of(hospital)}"]
    for name in (*PAGES, *paid):
        page.goto(f"/console/{name}")
        found += findings(page)
    page.goto("/console/releases?make=synthesis")
    page.click("summary:has-text('Two tables')")
    found += findings(page)
    page.goto("/console/ask")
    page.fill("#sql", "")
    page.type("#sql", "SELECT COUNT(*) FROM vis")
    page.wait_for_selector("#completions:not([hidden])")
    found += findings(page)
    page.fill("#sql", "SELECT * FROM visits")
    page.wait_for_selector("#trouble .trouble")
    found += findings(page)
    assert found == [], "\n".join(found)
    assert hospital.spent() > 0


def test_the_checker_would_find_something(page: Any) -> None:
    page.goto("/console/guarantee")
    page.evaluate("document.querySelector('h1').insertAdjacentHTML('afterend', '<img src=\"/x\"><button></button>')")
    found = " ".join(findings(page))
    assert "image-alt" in found
    assert "button-name" in found
