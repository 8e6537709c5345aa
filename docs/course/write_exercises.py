"""Write the exercises into the chapters, from the table in ``tacit.course``: python docs/course/write_exercises.py."""

from __future__ import annotations

from pathlib import Path

from tacit.course import CHAPTERS, exercises_of

HERE = Path(__file__).parent
_HEADING = "## Exercises\n"


def page(chapter: int) -> str:
    """Text of a chapter's page with its exercises as the table has them."""
    body, _, _ = (HERE / CHAPTERS[chapter - 1][1]).read_text(encoding="utf-8").partition(_HEADING)
    parts = [body.rstrip(), _HEADING.rstrip()]
    for exercise in exercises_of(chapter):
        question, *options = exercise.question.splitlines()
        listed = "\n".join(f"    * {option}" for option in options)
        parts.append(f"* **{exercise.number}** {question}" + (f"\n\n{listed}" if listed else ""))
    parts.append(f"Check an answer with `tacit course check {chapter}.1 ANSWER`.")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for number, (_, name) in enumerate(CHAPTERS, 1):
        (HERE / name).write_text(page(number), encoding="utf-8")
