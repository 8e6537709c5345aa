"""The course: pages hold the exercises of the table, references exist, and answers are judged rightly."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import Result

import tacit
from support.command_line import run_command
from tacit import attacks, lab, learn
from tacit.accounting.prices import amplify
from tacit.core import sensitivity
from tacit.core.databases import Universe, histogram, l1_distance
from tacit.core.numbers import Number
from tacit.course import CHAPTERS, EXERCISES, blank_sheet, exercise_named, exercises_of, read_sheet
from tacit.lab import CompositionExperiment, Move, Repeat, randomized_response
from tacit.learn.losses import SmoothLogistic
from tacit.learn.minimiser import OutputRelease
from tacit.mechanisms import planning

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "course"
#: Right answers, computed without Tacit.
RIGHT: dict[str, str] = {
    "1.1": "2",
    "1.2": "b",
    "1.3": str(math.comb(6, 2)),
    "2.1": str(math.log(4)),
    "2.2": "2/5",
    "2.3": str(math.e / (1 + math.e)),
    "3.1": "0.3",
    "3.2": "6400",
    "3.3": "2/3",
    "4.1": "200",
    "4.2": "400",
    "4.3": str(math.log(20) / 0.1),
    "5.1": "2",
    "5.2": "100",
    "5.3": str(math.log(10_000 / 0.05)),
    "6.1": str(math.e**2 / (1 + math.e + math.e**2)),
    "6.2": str(2 * (math.log(1000) + 3)),
    "6.3": "c",
    "7.1": "1/200",
    "7.2": "4.2247",
    "7.3": "b",
    "8.1": "1",
    "8.2": str(0.1 * math.sqrt(200 * math.log(1e6)) + 10 * (math.exp(0.1) - 1)),
    "8.3": str(Fraction(4, 9) - 2 * Fraction(1, 9)),
    "9.1": "4",
    "9.2": str(math.sqrt(2) / 100),
    "9.3": "1/100",
    "10.1": "0.1",
    "10.2": str(math.ceil(math.sqrt(50 * math.log(1e6)) / (0.01 * 0.5))),
    "10.3": str(math.log(1 + 0.01 * (math.e - 1))),
}
#: The same, as Tacit computes them; quantiles of discrete noise are whole numbers.
CALLS: dict[str, Callable[[], Number]] = {
    "1.1": lambda: l1_distance(*(histogram(x, universe=Universe("fcn")) for x in ([4, 2, 1], [3, 2, 2]))),
    "1.3": lambda: Universe("fcn").count_databases(4),
    "2.1": lambda: randomized_response(ratio=4).epsilon().up,
    "2.2": lambda: randomized_response(ratio=4).delta(ratio=2).value,
    "2.3": lambda: planning.guess_probability(1),
    "3.1": lambda: (Fraction(400, 1000) - tacit.RandomizedResponse(gamma="0.25").lie) / Fraction(1, 2),
    "3.3": lambda: randomized_response(ratio=2).distribution(1)[1].value,
    "4.1": lambda: sensitivity.bounded_sum(bounds=(0, 200)).l1,
    "4.2": lambda: tacit.Laplace(epsilon="0.5", l1_sensitivity=200).scale,
    "4.3": lambda: tacit.Laplace(epsilon="0.1", l1_sensitivity=1).error("0.05"),
    "5.1": lambda: sensitivity.histogram(relation="replace_one").l1,
    "5.2": lambda: tacit.Laplace(epsilon=1, l1_sensitivity=100).scale,
    "5.3": lambda: tacit.Histogram(epsilon=1, bins=range(10_000)).error("0.05"),
    "6.1": lambda: tacit.Exponential(epsilon=2, sensitivity=1).probabilities([0, 1, 2])[2],
    "7.1": lambda: lab.release_random_row(universe="ab", size=4).delta(epsilon=0).value * 4 / 200,
    "7.2": lambda: tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1).sigma,
    "8.1": lambda: tacit.compose([(tacit.PureDP("0.1"), 5), (tacit.PureDP("0.25"), 2)]).epsilon,
    "8.2": lambda: tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6", method="advanced").epsilon,
    "8.3": lambda: (
        CompositionExperiment(Repeat(Move(randomized_response(ratio=2), 0, 1)), rounds=2).exact().delta(ratio=2).value
    ),
    "9.1": lambda: (
        attacks.link(
            people := [(40, "f"), (41, "f"), (41, "m"), (50, "m"), (50, "m"), (60, "f")], people, range(6)
        ).linked.hits
    ),
    "9.3": lambda: lab.sample_rows(universe="ab", size=4, sample=1).delta(epsilon=50).value * 4 * 10 / 1000,
    "10.1": lambda: OutputRelease(SmoothLogistic(1), Fraction(10)).l2_sensitivity,
    "10.2": lambda: learn.rows_by_theorem(excess="0.1", epsilon="0.5", delta="1e-6", dimensions=50),
    "10.3": lambda: amplify(epsilon=1, rate="0.01").epsilon,
}
CHOICES = {"1.2", "6.3", "7.3"}


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str) -> Result:
    return run_command("course", *arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_every_chapter_has_a_page_with_its_exercises() -> None:
    site = loaded(ROOT / "docs" / "reference_pages.py")
    assert len(CHAPTERS) == 10
    for chapter, (_, page) in enumerate(CHAPTERS, 1):
        text = (PAGES / page).read_text()
        shown = "\n".join(site.exercises(f"course/{page}"))
        assert all(f"**{chapter}.{number}** " in shown for number in (1, 2, 3))
        assert f"`tacit course check {chapter}.1 ANSWER`" in text
        assert text.startswith(f"# {chapter}. ")
        assert ">>> " in text
        assert "![" in text
        assert len(exercises_of(chapter)) == 3


def test_code_and_tests_that_chapters_name_exist() -> None:
    named = [re.findall(r"`((?:src|tests)/[^`]+)`", (PAGES / page).read_text()) for _, page in CHAPTERS]
    assert all(len(each) >= 4 for each in named)
    for reference in (each for page in named for each in page):
        file, _, name = reference.partition("::")
        assert (ROOT / file).exists(), reference
        assert not name or f"def {name}(" in (ROOT / file).read_text(), reference


def test_right_answers_are_right() -> None:
    assert list(RIGHT) == [exercise.number for exercise in EXERCISES]
    for number, answer in RIGHT.items():
        exercise = exercise_named(number)
        assert exercise.objection(answer) == ""
        if number not in CHOICES:
            assert float(Fraction(exercise.answer)) == pytest.approx(float(Fraction(answer)), rel=1e-4)


@pytest.mark.parametrize("number", CALLS)
def test_the_table_has_what_tacit_computes(number: str) -> None:
    assert exercise_named(number).objection(str(CALLS[number]())) == ""


@pytest.mark.parametrize("number", sorted(set(RIGHT) - CHOICES))
def test_wrong_numbers_get_the_hint(number: str) -> None:
    exercise = exercise_named(number)
    for factor in (0.97, 1.03, -1):
        assert exercise.objection(str(float(Fraction(RIGHT[number])) * factor)) == exercise.hint


def test_letters_are_those_of_the_list() -> None:
    for number in CHOICES:
        exercise = exercise_named(number)
        assert exercise.answer in exercise.form
        assert exercise.objection("a") == exercise.hint
        assert "is not one of a, b, c" in exercise.objection("z")


def test_the_sheet_is_written_once_and_checked(tmp_path: Path) -> None:
    sheet = tmp_path / "course.toml"
    assert run("start", "--sheet", str(sheet)).exit_code == 0
    assert read_sheet(sheet) == []
    assert sheet.read_text() == blank_sheet()
    assert run("start", "--sheet", str(sheet)).exit_code == 2
    text = sheet.read_text().replace('"2.2" = ""', '"2.2" = "0.4"').replace('"1.2" = ""', '"1.2" = "seven"')
    sheet.write_text(text)
    assert [(exercise.number, answer) for exercise, answer in read_sheet(sheet)] == [("1.2", "seven"), ("2.2", "0.4")]
    result = run("check", "--sheet", str(sheet))
    assert result.exit_code == 1
    assert "1 of 2 answers are right; 28 are open." in result.stdout
    assert json.loads(run("check", "--sheet", str(sheet), "--json").stdout)["right"] == 1
    sheet.write_text('"11.1" = "2"')
    assert run("check", "--sheet", str(sheet)).exit_code == 2


def test_one_answer_on_the_command_line() -> None:
    assert run("check", "2.1", "1.386").exit_code == 0
    assert run("check", "2.1", "1.5").exit_code == 1
    assert run("check", "2.1").exit_code == 2
    assert run("check", "11.1", "1").exit_code == 2
    assert "'many' is not a number" in run("check", "2.1", "many").stdout
    assert "one of a, b, c, d" in run("show", "1.2").stdout
    assert "10  Learning" in run("list").stdout
    assert run("check", "--sheet", "missing.toml").exit_code == 2
