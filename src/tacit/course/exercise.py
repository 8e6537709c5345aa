"""Exercises: a question, its checked answer, and the verdict on an answer.

An answer is text, as a student types it on a command line or into the answer sheet. What it must be depends on the
kind of the exercise:

============ =========================================================================================================
kind         answer
============ =========================================================================================================
number       a number such as ``0.25`` or ``1/4``, compared within the tolerance that the question states
choice       one of the letters that the question lists
law          a Python file with a function ``law(bit)`` that returns the exact probabilities of the outputs of a
             mechanism; :class:`~tacit.lab.FiniteMechanism` computes its loss
============ =========================================================================================================
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact
from tacit.lab import FiniteMechanism


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """Judgement of one answer.

    Args:
        right: whether the answer is the checked one.
        words: the reason, for the student; of a right answer, the result in one sentence.
    """

    right: bool
    words: str


class AnswerKind(Protocol):
    """Form of an answer, and its judgement."""

    @property
    def form(self) -> str:
        """Form of the answer, for the sheet."""

    def is_right(self, answer: str) -> bool:
        """Whether an answer is right.

        Raises:
            InputError: the answer does not have the form that is asked for.
        """


@dataclass(frozen=True, slots=True)
class NumberAnswer:
    """A number within a tolerance of the truth.

    Args:
        truth: computes the checked number, when it is first needed.
        within: largest distance that still is right.
    """

    truth: Callable[[], Number]
    within: Fraction = Fraction(0)

    @property
    def form(self) -> str:
        """Form of the answer, for the sheet."""
        return "a number or a fraction" if not self.within else f"a number, right to {float(self.within):g}"

    def is_right(self, answer: str) -> bool:
        """Whether the number is within the tolerance."""
        return abs(exact(answer.strip(), "answer") - exact(self.truth(), "truth")) <= self.within


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """One of some letters.

    Args:
        options: statements by their letter.
        right: letter of the true one.
    """

    options: Mapping[str, str]
    right: str

    @property
    def form(self) -> str:
        """Form of the answer, for the sheet."""
        return "one of " + ", ".join(self.options)

    def is_right(self, answer: str) -> bool:
        """Whether the letter is that of the true statement."""
        letter = answer.strip().lower()
        if letter not in self.options:
            raise InputError("answer", f"{answer!r} is not {self.form}")
        return letter == self.right


@dataclass(frozen=True, slots=True)
class LawAnswer:
    """A file with the exact law of a mechanism on one bit.

    Args:
        holds: whether a mechanism solves the exercise.
    """

    holds: Callable[[FiniteMechanism], bool]

    @property
    def form(self) -> str:
        """Form of the answer, for the sheet."""
        return "the path of a Python file with law(bit) -> {output: probability}"

    def is_right(self, answer: str) -> bool:
        """Whether the mechanism of the file solves the exercise; its law is computed with exactly."""
        path = Path(answer.strip())
        if not path.is_file():
            raise InputError("answer", f"{str(path)!r} is not a file; write one with a function law(bit)")
        # The file is the student's own program and may fail in any way.
        try:
            mechanism = FiniteMechanism.local(_laws(runpy.run_path(str(path)), path))
        except InputError:
            raise
        except Exception as error:
            raise InputError("answer", f"{path} stopped with {type(error).__name__}: {error}") from error
        return self.holds(mechanism)


def _laws(names: Mapping[str, Any], path: Path) -> dict[int, dict[Any, Any]]:
    law = names.get("law")
    if not callable(law):
        raise InputError("answer", f"{path} has no function law(bit)")
    laws = {bit: law(bit) for bit in (0, 1)}
    if not all(isinstance(each, Mapping) for each in laws.values()):
        raise InputError("answer", "law(bit) must return a dictionary from outputs to probabilities")
    return {bit: dict(each) for bit, each in laws.items()}


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question of a chapter.

    Args:
        number: of the chapter and within it, such as ``3.2``.
        question: for the student; states what is given and what is asked.
        answer: form and truth.
        hint: shown for a wrong answer; the theorem to use, not the number.
        result: shown for a right answer; the lesson in one sentence.
        test: the test in Tacit's own suite that checks the fact behind it.
    """

    number: str
    question: str
    answer: AnswerKind
    hint: str
    result: str
    test: str

    def check(self, answer: str) -> AnswerVerdict:
        """Judge an answer.

        Raises:
            InputError: the answer does not have the form that is asked for.
        """
        right = self.answer.is_right(answer)
        return AnswerVerdict(right, self.result if right else self.hint)

    @property
    def text(self) -> str:
        """The question with the statements to choose from, if there are any."""
        if not isinstance(self.answer, ChoiceAnswer):
            return self.question
        return "\n".join([self.question, *(f"({letter}) {text}" for letter, text in self.answer.options.items())])
