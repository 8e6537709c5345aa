"""The console in a real browser, against a real server on this machine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import tacit
from support.openid import openid
from support.served import COUNT, Served, serve
from support.visiting import listening
from tacit.project.project_file import OpenIDModel
from tacit.server.identity.oidc import open_providers

pytestmark = pytest.mark.browser

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
#: Lines that browsers log about a status that the test asked for; a violated policy is logged otherwise.
EXPECTED = "Failed to load resource: the server responded with a status of"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = os.environ.get("TACIT_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def hospital() -> Iterator[Served]:
    found = serve(response_step=0.05, row_seconds=1e-9)  # The tables are small, and declare no number of rows.
    yield found
    found.close()


@pytest.fixture
def address(hospital: Served) -> Iterator[str]:
    with listening(hospital.app) as found:
        yield found


Opens = Callable[..., Any]


@pytest.fixture
def opens(browser: Any, hospital: Served, address: str) -> Iterator[Opens]:
    """Opens a window, signed in as a named user if one is given; afterwards no window has complained about anything."""
    said: list[str] = []
    contexts: list[Any] = []

    def window(name: str = "", **options: Any) -> Any:
        context = browser.new_context(base_url=address, **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda problem: said.append(str(problem)))
        if name:
            page.goto(f"/console/link/{hospital.people.link(name, operator='test')}")
            page.click("button.main")
            page.wait_for_url("**/console/ask")
        return page

    yield window
    for context in contexts:
        context.close()
    assert [text for text in said if not text.startswith(EXPECTED)] == []


def quoted(page: Any, sql: str = COUNT, amount: str = "0.5") -> None:
    page.fill("#sql", sql)
    page.fill("#amount", amount)
    page.wait_for_selector(f"#price:not(.stale) .price:has-text('ε {amount}')")


def asked(page: Any) -> str:
    page.click("#run")
    page.wait_for_selector("#result[aria-busy=false] h2")
    return str(page.inner_text("#result"))


def test_the_price_stands_there_before_anything_is_asked(opens: Opens, hospital: Served) -> None:
    page = opens("alice")
    assert "The cost appears here" in page.inner_text("#quote")
    quoted(page)
    text = page.inner_text("#quote")
    assert "How far off, 95% of the time" in text
    assert "±" in text
    assert page.locator("#quote .pending").count() == 1, "the budget shows what it would take"
    page.select_option("#pay", "within")
    page.fill("#amount", "30")
    page.wait_for_selector("#price:not(.stale) .price:has-text('ε')")
    assert re.search(r"± (2\d|30)\b", page.inner_text("#quote"))
    assert page.inner_text("#said") != "", "screen readers are told"
    assert hospital.spent() == 0


@pytest.mark.smoke
def test_an_answer_a_chart_and_a_free_repeat(opens: Opens, hospital: Served) -> None:
    page = opens("alice")
    quoted(page)
    first = asked(page)
    assert "Charged ε 0.5" in first
    assert first.count("±") >= 1
    chart = page.locator("#result svg.plot:visible")
    assert chart.count() == 1
    assert "with 95% intervals" in chart.get_attribute("aria-label")
    assert page.evaluate("document.activeElement.textContent") == "Answer", "the answer is where one reads on"
    assert "9.5 of 10 left" in page.inner_text("#budgets").replace("\n", " ")
    again = asked(page)
    assert "Free repeat" in again
    assert page.inner_text("#price .price") == "Free"
    assert hospital.spent() == tacit.PureDP("0.5").epsilon
    # Below another query the answer says which it belongs to.
    assert not page.is_visible("#result .asked")
    before = page.input_value("#sql")
    page.fill("#sql", "SELECT 1")
    assert before in page.inner_text("#result .asked")
    page.fill("#sql", before)
    assert not page.is_visible("#result .asked")


def test_a_refusal_and_a_spent_budget(opens: Opens) -> None:
    page = opens("alice")
    page.fill("#sql", "SELECT * FROM visits")
    page.wait_for_selector("#trouble .trouble")
    assert "query.not_aggregated" in page.inner_text("#trouble")
    assert "No cost" in page.inner_text("#price")
    page.evaluate("document.querySelector('#trouble .trouble').dataset.old = '1'")
    page.click("#run")
    page.wait_for_selector("#trouble .trouble:not([data-old])")
    assert not page.inner_text("#result").strip(), "a refusal is said once"
    assert page.evaluate("document.activeElement.id") == "sql"
    refused = page.inner_text("#trouble")
    assert "This cannot be answered as written" in refused
    assert "Rule: a protected column outside an aggregate" in refused
    quoted(page, COUNT, "10")
    assert "this one is the last that fits" in page.inner_text("#quote")
    asked(page)
    quoted(page, "SELECT COUNT(*) AS n FROM visits", "1")
    assert "That is more than is left" in page.inner_text("#price")
    assert "The budget does not allow this" in asked(page)
    assert page.locator("#budgets .gauge").first.get_attribute("aria-label").endswith("0 left")


def test_history_has_receipts_that_verify(opens: Opens, hospital: Served, tmp_path: Path) -> None:
    page = opens("alice")
    quoted(page)
    asked(page)
    page.click("text=History")
    with page.expect_download() as found:
        page.click("text=Receipt")
    paper = tmp_path / "receipt.json"
    found.value.save_as(paper)
    assert tacit.verify_receipt(paper.read_text(), hospital.curator.public_key).ok
    page.click(".entries a:has-text('Answer')")
    assert "shown again, free" in page.inner_text("main")
    page.goto("/console/budget")
    assert page.locator("main svg.gauge:visible").count() == 3


def test_an_owner_adds_an_analyst_who_comes_in_and_is_out_when_revoked(opens: Opens, hospital: Served) -> None:
    olga = opens("olga")
    olga.click("text=People")
    olga.fill("#name", "erin")
    olga.click("text=Add and make a one-time link")
    assert "nothing is ticked" in olga.inner_text("[role=alert]")
    assert olga.input_value("#name") == "erin"
    olga.check("input[name=sees]")
    olga.click("text=Add and make a one-time link")
    link = olga.input_value("#shown")
    erin = opens()
    erin.goto(link)
    assert erin.inner_text("h1") == "Welcome, erin"
    erin.click("button.main")
    erin.wait_for_url("**/console/ask")
    erin.click(".who .name")
    assert "this one" in erin.inner_text("main")
    erin.goto("/console/ask")
    quoted(erin)
    olga.click(".data a:has-text('erin')")
    olga.click("text=Revoke…")
    olga.fill("#reason", "left")
    olga.click("text=Revoke erin now")
    assert "erin was revoked" in olga.inner_text("main")
    assert "Your session has ended" in asked(erin)
    assert erin.input_value("#sql") == COUNT, "what they wrote is not lost"
    erin.goto("/console/history")
    assert "/console/sign-in" in erin.url
    assert hospital.spent() == 0


def test_the_first_owner_comes_in_by_the_set_up_link(opens: Opens, hospital: Served) -> None:
    hospital.people.revoke("olga", operator="test")
    page = opens()
    page.goto(f"/console/link/{hospital.people.set_up_link()}")
    page.fill("#name", "ada")
    page.click("button.main")
    page.wait_for_url("**/console/ask")
    assert "ada, owner" in page.inner_text(".who")


def test_everything_can_be_done_with_keys_alone(opens: Opens, hospital: Served) -> None:
    hospital.people.revoke("olga", operator="test")
    page = opens()
    page.goto(f"/console/link/{hospital.people.set_up_link()}")
    # The browser gives the first field the focus when it draws the page, which may be after it has loaded it.
    page.wait_for_selector("#name:focus")
    page.keyboard.type("ada")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/ask")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    for _ in range(4):
        if page.evaluate("document.activeElement.id") == "sql":
            break
        page.keyboard.press("Tab")
    page.keyboard.type(COUNT)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("0.5")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "one sees where one is"
    page.wait_for_selector("#price .price:has-text('ε 0.5')")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result table")
    assert page.evaluate("document.activeElement.textContent") == "Answer"


def test_waiting_can_be_stopped(opens: Opens) -> None:
    page = opens("alice")
    quoted(page)
    held: list[Any] = []
    page.route("**/console/ask", lambda route: held.append(route))
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#stop", state="visible")
    assert page.is_disabled("#run")
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    assert "asking it again is free" in page.inner_text("#said")
    for route in held:
        # Or it would be sent on when nothing holds it any more.
        route.abort()
    page.unroute("**/console/ask")
    assert "Charged ε 0.5" in asked(page)


def test_a_phone_never_scrolls_sideways_and_the_dark_is_dark(opens: Opens) -> None:
    page = opens("olga", viewport={"width": 360, "height": 740}, color_scheme="dark")
    quoted(page, "SELECT ward, COUNT(*) AS n, SUM(cost) AS cost_of_all, AVG(cost) AS mean FROM visits GROUP BY ward")
    asked(page)
    fits = "document.documentElement.scrollWidth <= 360"
    assert page.evaluate(fits)
    for name in ("datasets", "history", "budget", "guarantee", "people", "people/one?name=alice", "ledger", "nowhere"):
        page.goto(f"/console/{name}")
        assert page.evaluate(fits), name
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(18, 21, 22)"


def test_without_scripts_everything_works(opens: Opens) -> None:
    page = opens("alice", java_script_enabled=False)
    page.fill("#sql", COUNT)
    page.fill("#amount", "0.5")
    page.click("text=Quote first, free")
    assert "ε 0.5" in page.inner_text("#price")
    assert page.input_value("#sql") == COUNT
    page.click("#run")
    assert "Charged ε 0.5" in page.inner_text("#result")
    assert page.locator("#result tbody tr").count() == 3
    page.click("text=Sign out")
    assert page.inner_text("h1") == "Sign in"


def test_every_page_has_landmarks_names_and_one_heading(opens: Opens) -> None:
    page = opens("olga")
    quoted(page)
    asked(page)
    unnamed = """[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a, img')]
        .filter(e => !(e.labels?.length || e.getAttribute('aria-label') || e.alt || e.textContent.trim()))
        .map(e => e.outerHTML)"""
    for name in ("", "datasets", "history", "budget", "guarantee", "people", "people/one?name=alice", "ledger"):
        if name:
            page.goto(f"/console/{name}")
        assert page.evaluate(unnamed) == [], name
        assert page.locator("h1").count() == 1, name
        for mark in ("header", "main", "nav", "footer"):
            assert page.locator(mark).count() == 1, (name, mark)
        assert page.locator("table:not(:has(caption))").count() == 0, name
        repeated = "(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))"
        assert page.evaluate(repeated) == 0, name


WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}
LONG = "SELECT CAST(FLOOR(cost) AS INTEGER) AS price, COUNT(*) AS n FROM visits GROUP BY 1"


def test_suggestions_cover_no_price_and_are_none_for_an_alias(opens: Opens) -> None:
    page = opens("alice")
    page.set_viewport_size(WIDE)
    box = "(e => { const b = e.getBoundingClientRect(); return [b.top, b.bottom]; })"
    page.focus("#sql")
    for typed in ("SELECT ward, COUNT(*) AS n", "SELECT ward, COUNT(*) n", "SELECT ward AS a", "SELECT ward a"):
        page.fill("#sql", typed[:-1])
        page.keyboard.press("End")
        page.keyboard.type(typed[-1])
        assert page.is_hidden("#completions"), typed
    page.fill("#sql", "SELECT ward, COUNT(*) FROM visits GROUP BY ")
    page.wait_for_selector("#price .price")
    page.keyboard.press("End")
    page.keyboard.type("w")
    page.wait_for_selector("#completions .column")
    page.wait_for_selector("#trouble .trouble")
    top, bottom = page.eval_on_selector("#completions", box)
    for other in ("#price .price", "#run"):
        begins, ends = page.eval_on_selector(other, box)
        assert bottom <= begins or top >= ends, other
    assert top >= page.eval_on_selector("header", box)[1]
    page.keyboard.type("ard HA")
    page.wait_for_selector("#completions .keyword")
    assert page.locator("#completions .keyword").all_inner_texts() == ["HAVING"]
    page.fill("#sql", "SELECT CAST(cost AS ")
    page.keyboard.press("End")
    page.keyboard.type("I")
    page.wait_for_selector("#completions .keyword")


def test_the_editor_completes_marks_and_keeps(opens: Opens) -> None:
    page = opens("alice")
    page.focus("#sql")
    page.keyboard.type("SELECT COUNT(*) AS n FROM vi")
    page.wait_for_selector("#completions:not([hidden])")
    assert page.get_attribute("#sql", "aria-activedescendant") == "completion-0"
    page.keyboard.press("Tab")
    page.keyboard.type(" WHERE ward = 'b")
    page.wait_for_selector("#completions .value")
    page.keyboard.press("Tab")
    assert page.input_value("#sql") == "SELECT COUNT(*) AS n FROM visits WHERE ward = 'b'"
    colours = page.locator(".paint .keyword").all_inner_texts()
    assert colours == ["SELECT", "AS", "FROM", "WHERE"]
    page.keyboard.press("Control+Z")
    assert page.input_value("#sql").endswith("ward = 'b"), "a suggestion is taken back like typing"
    page.keyboard.press("End")
    page.keyboard.type("' AND stret = 'x'")
    page.keyboard.press("Escape")
    assert page.locator("#trouble .trouble").count() == 0, "half a word is always wrong"
    page.wait_for_selector("#trouble .trouble")
    assert page.get_attribute("#sql", "aria-invalid") == "true"
    page.click("text=Write this")
    page.wait_for_selector("#price:not(.stale) .price:has-text('ε')")
    kept = page.input_value("#sql")
    page.fill("#amount", "0.3")
    page.reload()
    page.wait_for_selector("#price:not(.stale) .price:has-text('ε 0.3')")
    assert page.input_value("#sql") == kept
    page.click("text=Sign out")
    assert page.evaluate("Object.keys(sessionStorage).length") == 0, "the next user of the tab finds no draft"


def test_hostile_texts_in_the_editor_stay_text(opens: Opens) -> None:
    text = "SELECT '<img src=x onerror=alert(1)>' -- </pre><script>alert(1)</script>"
    page = opens("alice")
    page.goto(f"/console/ask?{urlencode({'sql': text})}")
    assert page.input_value("#sql") == text
    assert page.inner_text(".paint").rstrip("\u200b") == text
    assert page.locator(".paint img, .paint script").count() == 0
    page.fill("#sql", f'SELECT COUNT(*) AS "{text[8:36]}" FROM visits')
    page.wait_for_selector("#price:not(.stale) .price:has-text('ε')")
    asked(page)
    assert page.locator("#result img").count() == 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["desk", "phone"])
def test_price_ask_and_answer_are_where_one_looks(opens: Opens, size: dict[str, int]) -> None:
    page = opens("alice", viewport=size)
    quoted(page)
    inside = (
        f"(box => box.top >= 0 && box.bottom <= {size['height']})(document.querySelector('%s').getBoundingClientRect())"
    )
    for place in ("#price .price", "#run"):
        assert page.evaluate(inside % place), place
    asked(page)
    top = page.evaluate("document.querySelector('#result h2').getBoundingClientRect().top")
    assert 0 <= top <= 0.62 * size["height"]
    assert page.evaluate("document.querySelector('#result .plot').getBoundingClientRect().top") < size["height"]


def test_long_answers_come_in_pages_and_whole(opens: Opens) -> None:
    page = opens("alice")
    quoted(page, LONG, "1")
    asked(page)
    assert page.inner_text(".pager span") == "Rows 1 to 25 of 101"
    assert page.locator("#result tbody tr:visible").count() == 25
    page.focus(".pager button:has-text('Next')")
    for _ in range(4):
        page.keyboard.press("Enter")
    assert page.inner_text(".pager span") == "Rows 101 to 101 of 101"
    line = page.locator("#result .plot:visible .line").get_attribute("d")
    assert line.count("L") == 100, "every row is drawn"
    with page.expect_download() as found:
        page.click("#result button:has-text('CSV')")
    assert len(found.value.path().read_text().splitlines()) == 102
    with page.expect_download() as found:
        page.click("#result button:has-text('Parquet')")
    assert found.value.suggested_filename == "answer.parquet"


@pytest.mark.deep
def test_a_person_of_a_provider_signs_in_there_and_is_led_back(browser: Any) -> None:
    """Through two sites, with cookies that browsers keep back from one to the other."""
    with openid("") as provider:
        model = OpenIDModel(issuer=provider.issuer, client_id="tacit", groups={"analysts": {"role": "analyst"}})
        provider.client.secret, provider.user["preferred_username"] = "", "erin"
        served = serve(response_step=0.05, providers=open_providers({"house": model}))
        with listening(served.app) as address:
            # The names of one machine are different sites.
            address = address.replace("127.0.0.1", "localhost")
            provider.client.redirects[:] = [f"{address}/console/signed-in/house"]
            context = browser.new_context(base_url=address)
            page = context.new_page()
            page.goto("/console/history")
            page.click("text=Sign in with house")
            page.wait_for_url("**/console/history")
            assert "erin" in page.inner_text(".who")
            page.click("text=Sign out")
            page.wait_for_url("**/console/sign-in")
            context.close()
        served.close()
