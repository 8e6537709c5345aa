"""Course: exercises of the ten chapters in ``docs/course/``, and the check of answers.

Modules:
* :mod:`.exercises` — Exercises of the course in ``docs/course/``, and the check of answers
"""

from __future__ import annotations

from tacit.course.exercises import CHAPTERS, EXERCISES, Exercise, blank_sheet, exercise_named, exercises_of, read_sheet

__all__ = ["CHAPTERS", "EXERCISES", "Exercise", "blank_sheet", "exercise_named", "exercises_of", "read_sheet"]
