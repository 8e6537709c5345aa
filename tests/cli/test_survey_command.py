"""``tacit survey``: from nothing to estimates, and refusals that say what to write."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import Result

from tacit.ledger import Ledger
from tacit.local import Client
from tacit.server.identity import People

Run = Callable[..., Result]
Json = Callable[..., Any]
CREATE = ("survey", "create", "drinks", "--category", "tea", "--category", "coffee", "--epsilon", "1")


@contextmanager
def people(clinic: Path) -> Iterator[People]:
    place = clinic / "tacit.ledger"
    with Ledger.open(place) as ledger, People.open(ledger, place) as found:
        yield found


def test_from_nothing_to_a_chart(clinic: Path, run: Run, run_json: Json) -> None:
    run("budget")
    shown = run(*CREATE, "--question", "Tea or coffee?").stdout
    assert "k-ary over" in shown
    assert "/v1/collect/drinks" in shown
    assert "spent ε 1 in all" in shown
    with people(clinic) as found:
        survey = found.surveys.one("drinks")
        client = Client(survey.protocol)
        reports = b"".join(client.report("tea" if i % 4 else "coffee").payload for i in range(400))
        found.surveys.collect(survey, b"\x01" + reports)
    assert "drinks: open, 400 reports by k-ary, ε 1 each" in run("survey", "status").stdout
    told = run_json("survey", "status")
    assert told["surveys"][0]["n"] == 400
    assert told["total_epsilon"] == "1"
    estimates = run_json("survey", "results", "drinks")["estimates"]
    assert [each["label"] for each in estimates] == ["tea", "coffee"]
    assert estimates[0]["low"] <= 0.75 + 0.2
    shown = run("survey", "results", "drinks", "--consistent", "--plot", str(clinic / "drinks.svg")).stdout
    assert "400 reports; all intervals hold with 95% confidence" in shown
    assert "tea" in shown
    assert (clinic / "drinks.svg").read_text().startswith("<svg")
    assert run("survey", "close", "drinks").stdout == "drinks is closed.\n"
    assert run_json("survey", "status")["total_epsilon"] == "0"


def test_a_mean(clinic: Path, run: Run, run_json: Json) -> None:
    run("budget")
    made = run_json("survey", "create", "age", "--bounds", "0,100", "--epsilon", "2")
    assert made["protocol"] == {"protocol": "mean", "epsilon": "2", "bounds": ["0", "100"], "method": "hybrid"}
    with people(clinic) as found:
        survey = found.surveys.one("age")
        found.surveys.collect(survey, b"\x01" + b"".join(Client(survey.protocol).report(30).payload for _ in range(50)))
    (mean,) = run_json("survey", "results", "age")["estimates"]
    assert mean["label"] == "mean"
    assert 0 <= mean["low"] <= mean["high"] <= 100


def test_refusals_name_the_option(clinic: Path, run: Run) -> None:
    run("budget")
    cases = (
        (("create", "x", "--category", "a", "--category", "b"), "epsilon"),
        (("create", "x", "--category", "a", "--epsilon", "1"), "category"),
        (("create", "x", "--bounds", "1", "--epsilon", "1"), "bounds"),
        (("create", "x", "--category", "a", "--category", "a", "--epsilon", "1"), "categories"),
        ((*CREATE[1:], "--protocol", "plain"), "protocol"),
        (("results", "none"), "survey"),
    )
    for words, told in cases:
        result = run("survey", *words)
        assert result.exit_code != 0
        assert told in result.stderr + result.stdout
    assert "There are no surveys" in run("survey", "status").stdout


def test_commands_of_the_page(clinic: Path, run: Run) -> None:
    """Every `tacit survey` line of the page, in order, with the report that the page sends."""
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "survey-without-a-trusted-party.md"
    lines = re.findall(r"^tacit (survey .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 6
    run("budget")
    for line in lines:
        words = shlex.split(line)
        if words[1] == "results" and "--plot" not in words:
            with people(clinic) as found:
                found.surveys.collect(found.surveys.one(words[2]), b"\x01" + base64.b64decode("AA=="), "7f3a")
        result = run(*[str(clinic / word) if word.endswith(".svg") else word for word in words])
        assert result.exit_code == 0, result.stderr
    assert (clinic / "drinks.svg").exists()
