"""``tacit demo``: the story holds together, on terminals of any width, and leaves nothing behind."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import Result

from support.bits import SeededBits
from tacit.cli import demo as attack
from tacit.cli.demo import Stage, tell
from tacit.noise import entropy
from tacit.project.example_hospital import PATIENTS, make_hospital

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The story once, as told and as seen on 80 columns, always with the same noise."""
    stage = Stage(quiet=True)
    stage.screen = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)
    bits = SeededBits(20261116)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "current", lambda: bits)
        story = tell(stage, tmp_path_factory.mktemp("hospital"))
    assert isinstance(stage.screen.file, io.StringIO)
    return json.loads(json.dumps(story, default=str)), stage.screen.file.getvalue()


def test_the_story(told: tuple[dict[str, Any], str]) -> None:
    story, _ = told
    assert story["tables"] == {"patients": PATIENTS, "visits": 21592, "wards": 6}
    assert [answer["charge"]["repeat"] for answer in story["queries"]] == [False] * 4
    assert story["repeat"]["charge"]["repeat"]
    assert [refused["code"] for refused in story["refused"]] == ["query.not_aggregated", "query.unit_exposed"]
    assert story["attack"]["unprotected"] == {"patients": 24, "right": 24}
    assert [stop["analyst"] for stop in story["stopped"]] == ["mallory", "alice"]
    assert "for analyst mallory" in story["stopped"][0]["message"]
    assert "analyst" not in story["stopped"][1]["message"]
    assert story["receipt"]["ok"]
    assert {"signature", "charge"} <= set(story["receipt"]["forged_fails"])
    assert story["ledger"]["ok"]
    assert story["ledger"]["charges"] == 4 + 2 * 24


def test_the_attack_is_no_better_than_a_coin(told: tuple[dict[str, Any], str]) -> None:
    """A guess from two answers, epsilon 0.04 together, is right with probability at most 0.51."""
    assert 7 <= told[0]["attack"]["protected"]["right"] <= 17


def test_nothing_is_cut_off_on_80_columns(told: tuple[dict[str, Any], str]) -> None:
    _, seen = told
    lines = seen.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line and "Half of all" not in line and "(…)" not in line]
    for words in ("A hospital that lets strangers ask", "±", "●", "free", "Mallory", "does not fit", "Your turn"):
        assert words in seen


def test_the_command_and_a_hospital_to_keep(folder: Path, run: Run) -> None:
    result = run("demo", "--keep", "hospital", "--json")
    assert result.exit_code == 0
    assert set(json.loads(result.stdout)) == {
        "tables", "queries", "repeat", "refused", "attack", "stopped", "receipt", "ledger", "budget", "seconds",
    }  # fmt: skip
    assert run("budget", "-p", "hospital/tacit.toml").exit_code == 0
    assert run("ledger", "verify", "-p", "hospital/tacit.toml").exit_code == 0
    result = run("demo", "--keep", "hospital")
    assert result.exit_code == 2
    assert "holds a project already" in result.stderr
    assert not (folder.parent / "state" / "anchors").exists()


def test_the_hospital_is_always_the_same_and_looks_like_one() -> None:
    hospital = make_hospital()
    assert hospital == make_hospital()
    assert {visit.ward for visit in hospital.visits} == {ward.name for ward in hospital.wards}
    ages = {patient.patient_id: patient.age for patient in hospital.patients}
    assert all(0 <= age <= 97 for age in ages.values())
    assert all(ages[visit.patient_id] < 16 for visit in hospital.visits if visit.ward == "paediatrics")
    assert all(0 <= visit.nights <= 14 and 0 < visit.cost < 8000 for visit in hospital.visits)


def test_victims_are_there_and_not_there_in_turn() -> None:
    victims = attack.choose_victims(make_hospital(), 24)
    assert [truth for _, truth in victims] == [True, False] * 12
    assert len({patient for patient, _ in victims}) == 24
