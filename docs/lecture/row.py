"""One row of the table; ``tests/docs/test_lecture_page.py`` runs it."""

from __future__ import annotations

from dataclasses import dataclass

#: Names that every call may use; the page begins with it.
HEADER = """\
import math
from fractions import Fraction
import tacit
from tacit import attacks, lab, laws, learn
from tacit.core import databases, divergences, sensitivity
from tacit.mechanisms import planning
U = databases.Universe(["flu", "cold", "none"])
poll = tacit.RandomizedResponse(gamma="0.25")
coin = lab.randomized_response(ratio=3)
X, y = [[-1.0], [-0.8], [0.9], [1.0]] * 50, [0, 0, 1, 1] * 50"""


@dataclass(frozen=True)
class Row:
    """A concept of the lecture, and the call that runs it.

    Attributes:
        concept: its name.
        says: the textbook's statement.
        number: the textbook's number, as it would be written on a blackboard.
        truth: the same as an expression in Python's own mathematics, without Tacit: what the value is compared with.
        call: Python source; its last line is an expression, whose value is shown.
        value: what it gives, as the interpreter shows it.
        place: the page of the documentation that has more.
        test: the test that checks it at length.
        how: "=" if value and number agree, "<=" if the number is a bound from above on the value, ">=" from below.
        within: the relative difference up to which they agree.
    """

    concept: str
    says: str
    number: str
    truth: str
    call: str
    value: str
    place: str
    test: str
    how: str = "="
    within: float = 1e-6


@dataclass(frozen=True)
class Chapter:
    """Rows that belong together."""

    title: str
    words: str
    rows: tuple[Row, ...]
