"""Course: exercises of the ten chapters in ``docs/course/``, and the check of answers.

An answer is text, as a student types it on a command line or into the answer sheet: a letter of the question's list, or
a number such as ``0.25`` or ``1/4``. Numbers are right within 2 %. The sheet is a TOML file with one line per exercise.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from tacit.core.errors import InputError
from tacit.core.numbers import exact

_WITHIN: Final = Fraction(1, 50)


class Exercise(NamedTuple):
    """A question of a chapter; its number is that of the chapter and within it, such as ``3.2``."""

    number: str
    question: str
    hint: str
    answer: str

    @property
    def form(self) -> str:
        """Form of the answer."""
        letters = re.findall(r"^\((\w)\) ", self.question, re.MULTILINE)
        return f"one of {', '.join(letters)}" if letters else "a number or a fraction"

    def objection(self, answer: str) -> str:
        """The hint for a wrong answer, or the form that is asked for; empty where the answer is right."""
        given = answer.strip().lower()
        if self.answer.isalpha():
            known, right = given in self.form.removeprefix("one of ").split(", "), given == self.answer
        else:
            try:
                truth, found = exact(self.answer, "answer"), exact(given, "answer")
                known, right = True, abs(found - truth) <= _WITHIN * truth
            except InputError:
                known = right = False
        return "" if right else self.hint if known else f"{answer!r} is not {self.form}."


#: Title and page of each chapter, from 1.
CHAPTERS: Final = (
    ("Databases and neighbours", "01-databases-and-neighbours.md"),
    ("The definition", "02-the-definition.md"),
    ("Randomized response", "03-randomized-response.md"),
    ("Sensitivity and the Laplace mechanism", "04-laplace.md"),
    ("Counting queries and histograms", "05-counting-and-histograms.md"),
    ("Selection", "06-selection.md"),
    ("Delta and the Gaussian mechanism", "07-delta-and-the-gaussian.md"),
    ("Composition", "08-composition.md"),
    ("Why not just anonymise?", "09-why-not-just.md"),
    ("Learning", "10-learning.md"),
)
EXERCISES: Final = (
    Exercise(
        "1.1",
        "Two databases over (flu, cold, none) have the histograms (4, 2, 1) and (3, 2, 2). What is their l1 distance?",
        "Add up the absolute differences of the counts.",
        "2",
    ),
    Exercise(
        "1.2",
        "Under which relation are the two databases of 1.1 neighbours?\n"
        "(a) add or remove one person\n"
        "(b) replace one person\n"
        "(c) both\n"
        "(d) neither",
        "Count the people of each. Can adding one person lead from the first to the second?",
        "b",
    ),
    Exercise(
        "1.3",
        "How many databases of 4 people are there over a universe of 3 types, if only the histogram counts?",
        "Stars and bars: place 4 people into 3 bins.",
        "15",
    ),
    Exercise(
        "2.1",
        "A mechanism reports a person's bit truthfully with probability 0.8 and otherwise its opposite. What is the "
        "smallest epsilon for which it is epsilon-DP?",
        "Divide the larger probability of one output by the smaller one, and take the logarithm.",
        "1.3863",
    ),
    Exercise(
        "2.2",
        "For the mechanism of 2.1, what is the smallest delta at epsilon = ln 2?",
        "Take the event that separates best, and compute P(S) - e^epsilon Q(S).",
        "2/5",
    ),
    Exercise(
        "2.3",
        "Before the answer an attacker gives a person's bit even odds. The mechanism is 1-DP. What is the largest "
        "probability with which the attacker can be right afterwards?",
        "Odds of 1:1 become at most e:1.",
        "0.73106",
    ),
    Exercise(
        "3.1",
        "In a survey each person tells the truth with probability 3/4 and lies otherwise. 400 of 1000 reports say "
        "yes. Which share of the people would truly say yes, by the unbiased estimate?",
        "The expected share of yes is 1/4 + f/2. Solve for f.",
        "0.3",
    ),
    Exercise(
        "3.2",
        "With gamma = 1/4, how many people does the classic bound n = 1/(gamma² · alpha²) ask for, if the share "
        "is to be within alpha = 0.05 with probability 3/4?",
        "Insert the numbers. The bound follows from Chebyshev's inequality.",
        "6400",
    ),
    Exercise(
        "3.3",
        "A mechanism reports a person's bit truthfully with probability p and otherwise its opposite. Which is the "
        "largest p for which it is (ln 2)-DP?",
        "Truth p and lie 1 - p: the ratio p/(1 - p) may be at most 2.",
        "2/3",
    ),
    Exercise(
        "4.1",
        "Salaries are clipped to [0, 200] and summed. What is the l1 sensitivity, if neighbours differ by adding or "
        "removing one person?",
        "How much can one clipped salary be?",
        "200",
    ),
    Exercise(
        "4.2",
        "Which scale of Laplace noise makes the sum of 4.1 0.5-DP?",
        "The scale is the sensitivity divided by epsilon.",
        "400",
    ),
    Exercise(
        "4.3",
        "A count is released with epsilon = 0.1. Which distance does the noise exceed with probability at most 0.05?",
        "P(|noise| > t) = e^(-epsilon t) for the continuous law.",
        "29.957",
    ),
    Exercise(
        "5.1",
        "What is the l1 sensitivity of a histogram with 50 bins, if neighbours differ by replacing one person?",
        "A person leaves one bin and enters another.",
        "2",
    ),
    Exercise(
        "5.2",
        "100 arbitrary counting queries share epsilon = 1. Which scale of Laplace noise does each answer get?",
        "One person may be counted by all of them.",
        "100",
    ),
    Exercise(
        "5.3",
        "How far off is the worst of 10,000 bins of a histogram at epsilon = 1, with probability 0.95?",
        "Each bin may fail with probability 0.05/10,000.",
        "12.206",
    ),
    Exercise(
        "6.1",
        "Three candidates have the scores 0, 1 and 2, each of sensitivity 1. With which probability does the "
        "exponential mechanism at epsilon = 2 choose the best?",
        "Weights are e^(epsilon · score / 2).",
        "0.66524",
    ),
    Exercise(
        "6.2",
        "Among 1000 candidates at epsilon = 1, by how much may the score of the chosen one fall short of the best, "
        "except with probability e^(-3)? Use the theorem 2(ln|R| + t)/epsilon.",
        "Insert |R| = 1000 and t = 3.",
        "19.816",
    ),
    Exercise(
        "6.3",
        "Report noisy max compares 10,000 noisy counts and tells which is largest. Each count has noise of scale "
        "1/epsilon. What does it cost?\n"
        "(a) 10,000 epsilon\n"
        "(b) 100 epsilon\n"
        "(c) epsilon\n"
        "(d) it is not private",
        "The noisy counts themselves are not released.",
        "c",
    ),
    Exercise(
        "7.1",
        "A mechanism publishes the row of one of 200 people, chosen at random. For which smallest delta is it (0, "
        "delta)-DP?",
        "What is the probability that the row of the person in question is published?",
        "1/200",
    ),
    Exercise(
        "7.2",
        "Which sigma makes Gaussian noise (1, 1e-6)-DP for l2 sensitivity 1? Ask tacit.Gaussian(epsilon=1, "
        "delta='1e-6', l2_sensitivity=1).",
        "Read the attribute sigma.",
        "4.2247",
    ),
    Exercise(
        "7.3",
        "At epsilon = 10, the classic formula sigma = sqrt(2 ln(1.25/delta))/epsilon gives\n"
        "(a) exactly the noise needed\n"
        "(b) too little noise\n"
        "(c) too much noise",
        "Its proof needs epsilon below 1. Compute the delta of lab.definition(laws.GaussianLaw(…)).",
        "b",
    ),
    Exercise(
        "8.1",
        "Five releases of epsilon 0.1 and two of 0.25, by basic composition: which epsilon together?",
        "Add them up.",
        "1",
    ),
    Exercise(
        "8.2",
        "A hundred releases of epsilon 0.1: which epsilon does advanced composition promise at delta = 1e-6?",
        "epsilon·sqrt(2k ln(1/delta)) + k·epsilon·(e^epsilon - 1).",
        "6.3082",
    ),
    Exercise(
        "8.3",
        "Randomized response with epsilon = ln 2 is asked twice about the same bit. What is the exact delta of both "
        "reports together at epsilon = ln 2?",
        "Write down the four pairs of reports with their probabilities under both bits.",
        "2/9",
    ),
    Exercise(
        "9.1",
        "A table without names has the rows (40, f), (41, f), (41, m), (50, m), (50, m), (60, f) of age and sex. An "
        "attacker knows age and sex of all six. How many does the attacker find?",
        "A row is found if no other row has the same age and sex.",
        "4",
    ),
    Exercise(
        "9.2",
        "A server adds fresh Laplace noise of scale 1, whose standard deviation is √2, to a count at every question, "
        "and keeps no account. What is the standard deviation of the mean of 10,000 answers to the same question?",
        "That of the mean is smaller than that of one answer by the square root of their number.",
        "0.014142",
    ),
    Exercise(
        "9.3",
        "Publishing 10 of 1000 rows, chosen at random, is (0, delta)-DP for which smallest delta?",
        "With which probability is a given person among the ten?",
        "1/100",
    ),
    Exercise(
        "10.1",
        "A regularised logistic regression minimises the sum of the losses plus 10/2·|w|². Rows have norm at most "
        "1, so the loss is 1-Lipschitz. By how much can adding one row move the minimiser, in l2?",
        "The objective is 10-strongly convex; one row changes its gradient by at most 1.",
        "0.1",
    ),
    Exercise(
        "10.2",
        "How many rows does sqrt(d·ln(1/delta))/(alpha²·epsilon) ask for with d = 50, delta = 1e-6, alpha = 0.1 and "
        "epsilon = 0.5?",
        "Insert the numbers, and round up.",
        "5257",
    ),
    Exercise(
        "10.3",
        "Each step of gradient descent looks at every row with probability 1/100 and is 1-DP for the rows it looks "
        "at. Which epsilon has the step for a person in the whole table?",
        "ln(1 + q(e^epsilon - 1)).",
        "0.017037",
    ),
)


def exercise_named(number: str) -> Exercise:
    """The exercise with a number such as ``3.2``.

    Raises:
        InputError: there is none.
    """
    for exercise in EXERCISES:
        if exercise.number == number.strip():
            return exercise
    last = EXERCISES[-1].number
    raise InputError("exercise", f"there is no {number!r}; the exercises are {EXERCISES[0].number} to {last}")


def exercises_of(chapter: int) -> list[Exercise]:
    """The exercises of a chapter."""
    return [exercise for exercise in EXERCISES if exercise.number.startswith(f"{chapter}.")]


def blank_sheet() -> str:
    """The sheet with every question as a comment and no answer."""
    lines = ['# Write each answer between the quotes, then run "tacit course check". Numbers are right within 2 %.', ""]
    for chapter, (title, _) in enumerate(CHAPTERS, 1):
        lines += [f"# {chapter}. {title}", ""]
        for exercise in exercises_of(chapter):
            for part in [*exercise.question.splitlines(), f"Answer: {exercise.form}."]:
                lines += textwrap.wrap(part, 100, initial_indent="# ", subsequent_indent="# ")
            lines += [f'"{exercise.number}" = ""', ""]
    return "\n".join(lines)


def read_sheet(path: Path) -> list[tuple[Exercise, str]]:
    """Exercises that are answered, in the order of the course, each with the answer.

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
    answers = [(exercise, str(found.get(exercise.number, "")).strip()) for exercise in EXERCISES]
    return [(exercise, answer) for exercise, answer in answers if answer]
