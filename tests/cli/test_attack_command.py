"""``tacit attack``: on the demo's data and on an owner's table, with figures, a page, and rows only if asked."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from support.bits import SeededBits
from support.command_line import run_command
from tacit.audit.attacks import scenarios as attack_chapters
from tacit.noise import entropy

TOWNS = ("arden", "brill", "corve", "deane")
ILLNESSES = ("asthma", "diabetes", "none")
PROJECT = """
[populations.members]
epsilon = "2"

[tables.members]
source = "{source}"
population = "members"
unit = "member"

[tables.members.columns]
member  = {{ type = "{unit}" }}
born    = {{ type = "integer", bounds = [1930, 2009] }}
sex     = {{ type = "text", categories = ["f", "m"] }}
town    = {{ type = "text", categories = ["arden", "brill", "corve", "deane"] }}
illness = {{ type = "text", categories = ["asthma", "diabetes", "none"] }}
"""
EVERY = ["linkage", "sampling", "differencing", "averaging", "reconstruction", "membership", "models"]


def members(prefix: str = "") -> list[tuple[Any, ...]]:
    """400 people; 640 combinations of what outsiders know, so that many are alone."""
    return [
        (f"{prefix}{i}", 1930 + i * 7919 % 80, "fm"[i * 31 % 7 % 2], TOWNS[i * i % 11 % 4], ILLNESSES[i * 13 % 17 % 3])
        for i in range(400)
    ]


def write(folder: Path, *, unit: str = "integer") -> Path:
    rows = members("" if unit == "integer" else "m-")
    names = ("member", "born", "sex", "town", "illness")
    if unit == "text":
        with (folder / "members.csv").open("w", newline="") as file:
            csv.writer(file).writerows([names, *rows])
    else:
        columns = [[int(row[0]) for row in rows], *(list(column) for column in list(zip(*rows, strict=True))[1:])]
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), folder / "members.parquet")
    source = "members.csv" if unit == "text" else "members.parquet"
    (folder / "tacit.toml").write_text(PROJECT.format(unit=unit, source=source))
    return folder / "tacit.toml"


def attack(*words: str) -> Result:
    """The command, always with the same chances."""
    bits = SeededBits(8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "current", lambda: bits)
        return run_command("attack", *words)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """Every attack on the members, as JSON and as a page."""
    folder = tmp_path_factory.mktemp("members")
    page = folder / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        # Fewer queries than in earnest, so that it takes seconds.
        for name, size in {"_VICTIMS": 24, "_TOTALS": 12, "_PAID_REPEATS": 2}.items():
            patch.setattr(attack_chapters, name, size)
        result = attack(
            "--project", str(write(folder)), "--epsilon", "0.1", "--epsilon", "30", "--json", "--html", str(page)
        )
    assert result.exit_code == 0, result.stderr
    assert not (folder / "tacit.ledger").exists()
    return json.loads(result.stdout), page.read_text()


def found(told: tuple[dict[str, Any], str], name: str) -> dict[str, Any]:
    return next(chapter for chapter in told[0]["attacks"] if chapter["attack"] == name)


@pytest.mark.deep
def test_every_attack_is_told_in_order(told: tuple[dict[str, Any], str]) -> None:
    assert [chapter["attack"] for chapter in told[0]["attacks"]] == EVERY
    assert all(chapter["results"] for chapter in told[0]["attacks"])


@pytest.mark.parametrize("name", [name for name in EVERY if name != "sampling"])
def test_it_succeeds_unprotected_and_guesses_at_small_epsilon(told: tuple[dict[str, Any], str], name: str) -> None:
    """At epsilon 0.1 a rate above chance + 0.25 has probability below 0.02 for the fewest victims (12), 1e-6 for most.
    At 30 the noise is below one half, and all but the models (which have other reasons to be poor) and the totals
    (whose noise is multiplied) give way: the curator is as bad as its budget."""
    comparison = next(result for result in found(told, name)["results"] if "protected" in result)
    assert comparison["unprotected"]["share"] > 0.75
    low, high = comparison["protected"]
    assert low["epsilon"] == "0.1"
    assert low["share"] <= comparison["chance"] + 0.25
    if name not in ("models", "reconstruction"):
        assert high["share"] > comparison["unprotected"]["share"] - 0.1


def test_who_is_alone_is_counted_exactly(told: tuple[dict[str, Any], str]) -> None:
    rows = [row[1:4] for row in members()]
    alone = sum(rows.count(row) == 1 for row in rows)
    steps = found(told, "linkage")["results"][0]["rows"]
    # Few values first: sex (2), town (4), born (80).
    assert steps[-1]["known"] == "sex, town, born"
    assert steps[-1]["people_found"] == alone
    assert f"{alone} people alone" in found(told, "sampling")["results"][0]["title"]


def test_the_page_holds_charts_and_no_person(told: tuple[dict[str, Any], str]) -> None:
    _, page = told
    assert page.count("<svg") == len(EVERY) - 1
    assert page.count("<table>") == len(EVERY) + 2
    assert page.count("<h2>") == len(EVERY) + 1
    # Nothing to load: the only addresses are the names of SVG's own vocabulary.
    assert set(re.findall(r"https?://[^\"'<\s]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "<script" not in page
    assert "corve" not in page
    assert "do not publish" in page


def test_no_person_is_shown(tmp_path: Path) -> None:
    shown = attack("linkage", "--project", str(write(tmp_path)), "--epsilon", "1")
    assert shown.exit_code == 0
    assert not any(town in shown.stdout for town in TOWNS)


def test_text_numbers_can_be_reconstructed_too(tmp_path: Path) -> None:
    result = attack("reconstruction", "--project", str(write(tmp_path, unit="text")), "--epsilon", "1", "--json")
    assert result.exit_code == 0, result.stderr
    comparison = json.loads(result.stdout)["attacks"][0]["results"][0]
    assert comparison["unprotected"]["share"] > 0.95
    assert comparison["protected"][0]["share"] < 0.7


def test_the_hospital_is_attacked_without_a_project() -> None:
    result = attack("linkage", "--epsilon", "0.1")
    assert result.exit_code == 0, result.stderr
    assert "made-up hospital: 12,000 patients" in result.stdout
    assert "in the long run no attack above" in result.stdout
    assert re.search(r"epsilon 0.1 .* 20%", result.stdout)
    assert result.stderr.splitlines()[-1] == "1 of 1: linkage: epsilon 0.1", "where no bar is shown, lines are"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("telepathy",), "name: must be one of linkage, sampling"),
        (("--epsilon", "0"), "--epsilon: "),
        (("--known", "age"), "--project: say which project"),
        (("--project", "nowhere.toml"), "--project: there is no nowhere.toml"),
        (("--project", "{project}", "--table", "visits"), "--table: the project has no protected table 'visits'"),
        (("--project", "{project}", "--secret", "shoe"), "--secret: there is no column 'shoe'; choose from "),
        (("--project", "{project}", "--known", "sex,shoe"), "--known: there is no column 'shoe'; choose from "),
        (("linkage", "--project", "{project}", "--epsilon", "1", "--html", "{folder}"), "--html: cannot write"),
    ],
)
def test_what_cannot_be_used_is_named(words: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    project = write(tmp_path)
    result = attack(*(word.format(project=project, folder=tmp_path) for word in words))
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.output


def test_a_table_with_little_to_count_by(clinic: Path, run: Callable[..., Result]) -> None:
    """One column with bounds, one with categories: no table of two columns, so that some attacks have nothing to do."""
    result = run("attack", "membership", "--project", str(clinic / "tacit.toml"), "--json")
    assert result.exit_code == 0, result.stderr
    chapter = json.loads(result.stdout)["attacks"][0]
    assert chapter["results"] == []
    assert "No two columns" in chapter["note"]
