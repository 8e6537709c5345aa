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
_SIGNS = {"=": "=", "<=": "at most", ">=": "at least"}


INTRODUCTION = f"""\
What a first course on differential privacy names, from top to bottom: {len(ROWS)} definitions, mechanisms, theorems,
algorithms, bounds, examples and remarks. Each has the textbook's statement, the textbook's number, the call, and the
value that it gives. The tests run every call and compare its value with the number, which they compute without Tacit.
This page is generated from the table in `docs/lecture/`.

Where the textbook's number is a bound, the sign says so: *at most* means that the value is within it. Parameters are
exact: `"0.1"` and `Fraction(1, 10)` are the same number, and answers are fractions wherever they can be.

Every call below can be typed after these lines:"""
REFERENCES = """\
References: Dwork and Roth, *The Algorithmic Foundations of Differential Privacy* (2014); Vadhan, *The Complexity of
Differential Privacy* (2017); Chaudhuri, Monteleoni, Sarwate (2011) and Bassily, Smith, Thakurta (2014) for learning;
Narayanan, Shmatikov (2008) and Dinur, Nissim (2003) for attacks."""


def page() -> str:
    """The page, from the table alone: nothing is run here, the tests do that."""
    header = _fenced([f">>> {line}" for line in HEADER.splitlines()])
    parts = ["# From the lecture to the call", INTRODUCTION, header]
    number = 0
    for chapter in CHAPTERS:
        parts += [f"## {chapter.title}", chapter.words, _summary(chapter, number + 1)]
        for row in chapter.rows:
            number += 1
            parts.append(_block(row, number))
    parts.append(REFERENCES)
    return "\n\n".join(parts) + "\n"


def _summary(chapter: Chapter, first: int) -> str:
    lines = ["| | concept | the textbook's number | | the call gives |", "|---|---|---|---|---|"]
    for number, row in enumerate(chapter.rows, start=first):
        cells = (str(number), row.concept, row.number, _SIGNS[row.how], f"`{row.value}`")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _block(row: Row, number: int) -> str:
    file, _, name = row.test.partition("::")
    return "\n\n".join(
        [
            f"### {number}. {row.concept}",
            f"{row.says} *Textbook:* {row.number}.",
            _fenced([*row.lines, row.value]),
            f"More: [{row.place}]({row.place}). Test: `{name}` in `{file}`.",
        ]
    )


def _fenced(lines: list[str]) -> str:
    return "\n".join(["```python", *lines, "", "```"])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{len(ROWS)} rows")
