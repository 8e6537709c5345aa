"""Pages of surveys: charts for those who run them; the form randomises in a real browser, by the exact law."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.served import Served, serve
from support.visiting import PASSWORD, Visitor, listening
from tacit.local import Client, HeavyHitters, KaryResponse, UnaryEncoding

PROTOCOL = KaryResponse(categories=["tea", "<b>coffee</b>", "other"], epsilon="1")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture
def served() -> Iterator[Served]:
    found = serve(collects_per_minute=10**6)
    found.people.set_password("alice", PASSWORD, operator="test")
    found.people.surveys.create("drinks", PROTOCOL, question="What do you drink?", operator="olga")
    yield found
    found.close()


def test_estimates_are_charted(served: Served) -> None:
    surveys = served.people.surveys
    client = Client(PROTOCOL)
    visitor = Visitor(served)
    visitor.sign_in("alice")
    empty = visitor.get("/console/surveys")
    assert "No reports yet." in empty.text
    reports = b"".join(client.report("tea").payload for _ in range(300))
    surveys.collect(surveys.one("drinks"), b"\x01" + reports)
    surveys.create("ages", KaryResponse(categories=2, epsilon="0.5"), operator="olga")
    surveys.close("ages", operator="olga")
    page = visitor.get("/console/surveys")
    assert "300 reports by k-ary, each ε 1 for its sender" in page.text
    assert "spent ε 1 in all" in page.text
    assert "closed" in page.text
    assert "&lt;b&gt;coffee&lt;/b&gt;" in page.text
    assert "<b>coffee</b>" not in page.text
    assert '<svg class="plot" role="img" aria-label="Chart of estimate with 95% intervals' in page.text
    visitor.close()


def test_strangers_see_the_form_and_not_the_estimates(served: Served) -> None:
    visitor = Visitor(served)
    page = visitor.get("/console/survey/drinks")
    assert page.status_code == 200
    assert "What do you drink?" in page.text
    assert "One answer costs you ε 1" in page.text
    assert visitor.get("/console/survey/none").status_code == 404
    assert visitor.get("/console/surveys").status_code == 303
    served.people.surveys.create("words", HeavyHitters(epsilon="1", length=2, hashes=64), operator="olga")
    assert "answered by an app" in visitor.get("/console/survey/words").text
    served.people.surveys.close("drinks", operator="olga")
    assert "This survey is closed." in visitor.get("/console/survey/drinks").text
    visitor.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = os.environ.get("TACIT_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield found
        found.close()


DESCRIPTION = "name => fetch('/v1/surveys/' + name).then((response) => response.json())"
#: Replaces the draws of the script by given ones, and returns the report and the bounds that were asked for.
WALK = """([survey, place, drawn]) => {
  const bounds = [], kept = window.below;
  window.below = (bound) => { bounds.push(bound.toString()); return BigInt(drawn.shift()); };
  try { return [Array.from(randomise(survey, place)), bounds]; } finally { window.below = kept; }
}"""


@pytest.mark.browser
def test_the_browser_randomises_exactly_and_sends(served: Served, browser: Any) -> None:
    said: list[str] = []
    with listening(served.app) as address:
        context = browser.new_context(base_url=address)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda problem: said.append(str(problem)))
        page.goto("/console/survey/drinks")
        page.check("input[value='0']")
        page.click("button.main")
        # Not by a function of the page: its policy lets no text be run as one.
        page.locator("#sent", has_text=re.compile(r"^\s*Sent")).wait_for()
        assert served.people.surveys.sums(served.people.surveys.one("drinks")).n == 1
        _check_draws(page)
        _check_k_ary(page)
        _check_unary(page, served)
        context.close()
    assert said == []


def _check_draws(page: Any) -> None:
    """Every byte that the system could draw, once: each number below five comes equally often."""
    found = page.evaluate("""() => {
      const kept = crypto.getRandomValues, found = [];
      for (let byte = 0; byte < 256; byte++) {
        let first = true;
        crypto.getRandomValues = (into) => { into.fill(first ? byte : 0); if (!first) throw "again"; first = false; };
        try { found.push(Number(below(5n))); } catch (again) { found.push(-1); }
      }
      crypto.getRandomValues = kept;
      return found;
    }""")
    assert np.bincount(np.array(found) + 1).tolist() == [96, 32, 32, 32, 32, 32]
    assert page.evaluate("rational('0.75').map(String)") == ["75", "100"]
    assert page.evaluate("rational('3/4').map(String)") == ["3", "4"]


def _check_k_ary(page: Any) -> None:
    survey = page.evaluate(DESCRIPTION, "drinks")
    truth = Fraction(survey["probabilities"]["truth"])
    assert truth == PROTOCOL.truth
    text = survey["probabilities"]["truth"]
    numerator, denominator = map(int, text.split("/"))
    for place in range(3):
        report, bounds = page.evaluate(WALK, [survey, place, [str(numerator - 1)]])
        assert (report, bounds) == ([place], [str(denominator)])
        others = [page.evaluate(WALK, [survey, place, [str(numerator), str(other)]]) for other in range(2)]
        assert sorted(report[0] for report, _ in others) == [each for each in range(3) if each != place]
        assert all(bounds == [str(denominator), "2"] for _, bounds in others)


def _check_unary(page: Any, served: Served) -> None:
    protocol = UnaryEncoding(categories=10, epsilon="1")
    served.people.surveys.create("bits", protocol, operator="olga")
    survey = page.evaluate(DESCRIPTION, "bits")
    probabilities = [Fraction(survey["probabilities"][name]) for name in ("noise", "truth")]
    assert probabilities == [protocol.noise, protocol.truth]
    # All draws zero: every coin shows one. All draws at their numerators: none does.
    ones, bounds = page.evaluate(WALK, [survey, 9, ["0"] * 10])
    assert ones == [255, 3]
    assert len(set(bounds[:9])) == 1
    assert bounds[9] != bounds[8]
    numerator = page.evaluate("text => rational(text)[0].toString()", survey["probabilities"]["noise"])
    none, _ = page.evaluate(WALK, [survey, 9, [numerator] * 9 + ["0"]])
    assert none == [0, 2]
