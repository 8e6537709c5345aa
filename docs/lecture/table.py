"""All rows, and the page made of them: ``python docs/lecture/table.py`` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from lecture import composing, definition, learning, noise, selection, why
from lecture.row import HEADER, Chapter, Row

CHAPTERS: tuple[Chapter, ...] = (
    why.CHAPTER,
    definition.DATABASES,
    definition.DEFINITION,
    noise.RESPONSE,
    noise.LAPLACE,
    noise.GAUSSIAN,
    selection.CHAPTER,
    composing.CHAPTER,
    learning.CHAPTER,
)
ROWS: tuple[Row, ...] = tuple(row for chapter in CHAPTERS for row in chapter.rows)
PAGE = Path(__file__).parents[1] / "from-the-lecture-to-the-call.md"
_SIGNS = {"=": "", "<=": "at most", ">=": "at least"}


INTRODUCTION = f"""\
What a first course on differential privacy names: {len(ROWS)} definitions, mechanisms, theorems, bounds and examples,
each with the call, its value and the textbook's number, which the tests compute without Tacit. *At most* and *at least*
mean that the number is a bound.

Every call below can be typed after these lines (`pip install 'tacit-dp[arrow,learn]'`):"""
REFERENCES = """\
Textbooks: Dwork and Roth, *The Algorithmic Foundations of Differential Privacy* (2014); Vadhan, *The Complexity of
Differential Privacy* (2017)."""


def page() -> str:
    """The page, from the table alone: nothing is run here, the tests do that."""
    header = _fenced([f">>> {line}" for line in HEADER.splitlines()])
    parts = ["# From the lecture to the call", INTRODUCTION, header]
    number = 1
    for chapter in CHAPTERS:
        parts += [f"## {chapter.title}", chapter.words, _table(chapter, number)]
        number += len(chapter.rows)
    parts.append(REFERENCES)
    return "\n\n".join(parts) + "\n"


def _table(chapter: Chapter, first: int) -> str:
    lines = ["| | concept | call | gives | textbook |", "|---|---|---|---|---|"]
    for number, row in enumerate(chapter.rows, start=first):
        call = "<br>".join(f"`{line}`" for line in row.call.strip().splitlines())
        textbook = f"{_SIGNS[row.how]} {row.number}".strip()
        cells = (str(number), f"[{row.concept}]({row.place}). {row.says}", call, f"`{row.value}`", textbook)
        lines.append("|" + "|".join(cell.replace("|", "\\|") for cell in cells) + "|")
    return "\n".join(lines)


def _fenced(lines: list[str]) -> str:
    return "\n".join(["```python", *lines, "", "```"])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{len(ROWS)} rows")
