"""Write the exercises into the chapters, from the table in ``tacit.course``: python docs/course/write_exercises.py."""

from __future__ import annotations

from pathlib import Path

from tacit.course import CHAPTERS, CourseChapter

HERE = Path(__file__).parent
_HEADING = "## Exercises\n"


def page(chapter: CourseChapter) -> str:
    """Text of a chapter's page with its exercises as the table has them."""
    body, _, _ = (HERE / chapter.page).read_text(encoding="utf-8").partition(_HEADING)
    parts = [body.rstrip(), _HEADING.rstrip()]
    for exercise in chapter.exercises:
        question, *options = exercise.text.splitlines()
        listed = "\n".join(f"    * {option}" for option in options)
        parts.append(f"* **{exercise.number}** {question}" + (f"\n\n{listed}" if listed else ""))
    parts.append(f"Check an answer with `tacit course check {chapter.exercises[0].number} ANSWER`.")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for each in CHAPTERS:
        (HERE / each.page).write_text(page(each), encoding="utf-8")
