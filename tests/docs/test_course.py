"""The course: pages hold the exercises of the table, references exist, and answers are judged rightly."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import Result

from support.command_line import run_command
from tacit.core.errors import InputError
from tacit.course import CHAPTERS, EXERCISES, blank_sheet, check_sheet, exercise_named, read_sheet

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "course"
#: Right answers, computed without Tacit.
RIGHT = {
    "1.1": "2",
    "1.2": "b",
    "1.3": str(math.comb(6, 2)),
    "2.1": str(math.log(4)),
    "2.2": "2/5",
    "2.3": str(math.e / (1 + math.e)),
    "3.1": "0.3",
    "3.2": "6400",
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


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str) -> Result:
    return run_command("course", *arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


def law(tmp_path: Path, text: str) -> str:
    path = tmp_path / "law.py"
    path.write_text(text)
    return str(path)


def test_every_chapter_has_a_page_with_its_exercises() -> None:
    written = loaded(PAGES / "write_exercises.py")
    assert len(CHAPTERS) == 10
    for chapter in CHAPTERS:
        text = (PAGES / chapter.page).read_text()
        assert text == written.page(chapter), (
            f"run python docs/course/write_exercises.py: {chapter.page} is not current"
        )
        assert text.startswith(f"# {chapter.number}. ")
        assert ">>> " in text
        assert "![" in text


def test_code_and_tests_that_chapters_name_exist() -> None:
    named = [re.findall(r"`((?:src|tests)/[^`]+)`", (PAGES / chapter.page).read_text()) for chapter in CHAPTERS]
    assert all(len(each) >= 6 for each in named)
    for reference in [*(each for page in named for each in page), *(exercise.test for exercise in EXERCISES)]:
        file, _, name = reference.partition("::")
        assert (ROOT / file).exists(), reference
        assert not name or f"def {name}(" in (ROOT / file).read_text(), reference


@pytest.mark.parametrize("number", RIGHT)
def test_right_answers_are_right(number: str) -> None:
    assert exercise_named(number).check(RIGHT[number]).right


def test_all_exercises_but_the_program_have_a_right_answer_here() -> None:
    assert {exercise.number for exercise in EXERCISES} - set(RIGHT) == {"3.3"}


@pytest.mark.parametrize("number", sorted(set(RIGHT) - {"1.2", "6.3", "7.3"}))
def test_wrong_numbers_get_the_hint(number: str) -> None:
    exercise = exercise_named(number)
    verdict = exercise.check(str(float(Fraction(RIGHT[number])) * 1.3))
    assert not verdict.right
    assert verdict.words == exercise.hint


def test_a_program_is_judged_by_its_exact_law(tmp_path: Path) -> None:
    exercise = exercise_named("3.3")
    truth = "def law(bit):\n    return {bit: '%s', 1 - bit: '%s'}\n"
    assert exercise.check(law(tmp_path, truth % ("2/3", "1/3"))).right
    assert not exercise.check(law(tmp_path, truth % ("0.7", "0.3"))).right, "more truth than ln 2 allows"
    assert not exercise.check(law(tmp_path, truth % ("0.6", "0.4"))).right, "too little truth"
    for broken in ("x = 1", "def law(bit):\n    return 3", "def law(bit):\n    raise KeyError(bit)", "def law("):
        with pytest.raises(InputError, match="answer"):
            exercise.check(law(tmp_path, broken))


def test_the_sheet_is_written_once_and_checked(tmp_path: Path) -> None:
    sheet = tmp_path / "course.toml"
    assert run("start", "--sheet", str(sheet)).exit_code == 0
    assert read_sheet(sheet) == {}
    assert sheet.read_text() == blank_sheet()
    assert run("start", "--sheet", str(sheet)).exit_code == 2
    text = sheet.read_text().replace('"2.2" = ""', '"2.2" = "0.4"').replace('"1.2" = ""', '"1.2" = "seven"')
    sheet.write_text(text)
    assert [(exercise.number, verdict.right) for exercise, verdict in check_sheet(sheet)] == [
        ("1.2", False),
        ("2.2", True),
    ]
    result = run("check", "--sheet", str(sheet))
    assert result.exit_code == 1
    assert "1 of 2 answers are right; 28 are open." in result.stdout
    assert json.loads(run("check", "--sheet", str(sheet), "--json").stdout)["right"] == 1


def test_one_answer_on_the_command_line() -> None:
    assert run("check", "2.1", "1.386").exit_code == 0
    assert run("check", "2.1", "1.4").exit_code == 1
    assert run("check", "2.1").exit_code == 2
    assert run("check", "11.1", "1").exit_code == 2
    assert run("check", "2.1", "many").exit_code == 2
    assert "one of a, b, c, d" in run("show", "1.2").stdout
    assert "10  Learning" in run("list").stdout
    assert run("check", "--sheet", "missing.toml").exit_code == 2
