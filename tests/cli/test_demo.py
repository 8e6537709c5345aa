"""``tacit demo``: the story holds together, on terminals of any width, and leaves nothing behind."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import Result

from support.bits import SeededBits
from tacit.cli import demo as attack
from tacit.cli.demo import tell
from tacit.noise import entropy
from tacit.project.example_hospital import PATIENTS, make_hospital

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The story once, as seen on 80 columns, always with the same noise."""
    screen = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)
    bits = SeededBits(20261116)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "current", lambda: bits)
        tell(screen, tmp_path_factory.mktemp("hospital"))
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_the_story(told: str) -> None:
    text = " ".join(told.replace("│", " ").split())
    assert f"{PATIENTS:,} patients, 21,592 visits, 6 wards." in text
    assert "Charged epsilon 0.1" in text
    assert "✔ A repeated query: charged nothing." in text
    assert "✘ Rows of protected tables are never returned" in text
    assert "✘ The result would have a row per person" in text
    assert "✘ Unprotected, Mallory is right about 24 of 24 patients." in text
    assert "for analyst mallory" in text[text.index("✘ Mallory") : text.index("✘ Alice")]
    assert "for analyst" not in text[text.index("✘ Alice") : text.index("The stop holds")]
    assert "✔ the signature is of exactly these words" in text
    assert "fails: signature and charge do not hold." in text
    assert f"{2 + 2 * 24} charges: chain, charges, sums and caps hold." in text


def test_the_attack_is_no_better_than_a_coin(told: str) -> None:
    """A guess from two answers, epsilon 0.04 together, is right with probability at most 0.51."""
    right = re.search(r"Through Tacit, about (\d+) of 24", told)
    assert right
    assert 7 <= int(right[1]) <= 17


def test_nothing_is_cut_off_on_80_columns(told: str) -> None:
    lines = told.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line and "Half of all" not in line and "(…)" not in line]
    for words in ("A hospital that lets strangers ask", "±", "●", "free", "Mallory", "does not fit", "Your turn"):
        assert words in told


def test_the_command_and_a_hospital_to_keep(folder: Path, run: Run) -> None:
    result = run("demo", "--keep", "hospital")
    assert result.exit_code == 0
    assert "Left in hospital" in result.stdout
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
