"""Course: exercises of the ten chapters in ``docs/course/``, and the checks of their answers.

Modules:
* :mod:`.answer_sheet` — Answer sheet: a TOML file with one line per exercise, written and read
* :mod:`.exercise` — Exercises: a question, its checked answer, and the verdict on an answer
* :mod:`.exercises` — Table of exercises, three for each chapter, with truths that Tacit computes
"""

from __future__ import annotations

from tacit.course.answer_sheet import blank_sheet, check_sheet, read_sheet
from tacit.course.exercise import AnswerVerdict, Exercise
from tacit.course.exercises import CHAPTERS, EXERCISES, CourseChapter, exercise_named

__all__ = [
    "CHAPTERS",
    "EXERCISES",
    "AnswerVerdict",
    "CourseChapter",
    "Exercise",
    "blank_sheet",
    "check_sheet",
    "exercise_named",
    "read_sheet",
]
