"""Answer sheet: a TOML file with one line per exercise, written and read.

The sheet is the student's own file. A line is the number of an exercise and an answer as text; an empty text is not
answered yet.
"""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

from tacit.core.errors import InputError
from tacit.course.exercise import AnswerVerdict, Exercise
from tacit.course.exercises import CHAPTERS, EXERCISES, exercise_named

_WIDTH = 100


def blank_sheet() -> str:
    """The sheet with every question as a comment and no answer."""
    lines = ['# Write each answer between the quotes, then run "tacit course check".', ""]
    for chapter in CHAPTERS:
        lines += [f"# {chapter.number}. {chapter.title} (docs/course/{chapter.page})", ""]
        for exercise in chapter.exercises:
            for part in [*exercise.text.splitlines(), f"Answer: {exercise.answer.form}."]:
                lines += textwrap.wrap(part, _WIDTH, initial_indent="# ", subsequent_indent="# ")
            lines += [f'"{exercise.number}" = ""', ""]
    return "\n".join(lines)


def read_sheet(path: Path) -> dict[str, str]:
    """Answers by the number of their exercise, in the order of the course; those not answered yet are left out.

    Raises:
        InputError: the file is missing, is no TOML, or names an exercise that does not exist.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("sheet", f'there is no {path}; "tacit course start" writes one') from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("sheet", f"{path} cannot be read: {error}") from None
    unknown = sorted(set(found) - {exercise.number for exercise in EXERCISES})
    if unknown:
        raise InputError("sheet", f"{path} answers {', '.join(unknown)}, which are no exercises of the course")
    answers = {exercise.number: str(found.get(exercise.number, "")).strip() for exercise in EXERCISES}
    return {number: answer for number, answer in answers.items() if answer}


def check_sheet(path: Path) -> list[tuple[Exercise, AnswerVerdict]]:
    """Judge all answers of a sheet; one that has another form than asked for is wrong, with the form as the reason."""
    return [
        (exercise_named(number), _judged(exercise_named(number), text)) for number, text in read_sheet(path).items()
    ]


def _judged(exercise: Exercise, answer: str) -> AnswerVerdict:
    try:
        return exercise.check(answer)
    except InputError as error:
        return AnswerVerdict(False, str(error))
