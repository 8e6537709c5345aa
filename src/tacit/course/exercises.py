"""Table of exercises, three for each chapter, with truths that Tacit computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import tacit
from tacit.core import sensitivity
from tacit.core.databases import Universe, histogram, l1_distance
from tacit.core.errors import InputError
from tacit.course.exercise import ChoiceAnswer, Exercise, LawAnswer, NumberAnswer
from tacit.lab import (
    CompositionExperiment,
    FiniteMechanism,
    Move,
    Repeat,
    randomized_response,
    release_random_row,
    sample_rows,
)
from tacit.mechanisms import planning


@dataclass(frozen=True, slots=True)
class CourseChapter:
    """A chapter of the course.

    Args:
        number: from 1.
        title: as on its page.
        page: its file in ``docs/course/``.
        exercises: in order.
    """

    number: int
    title: str
    page: str
    exercises: tuple[Exercise, ...]


def exercise_named(number: str) -> Exercise:
    """The exercise with a number such as ``3.2``.

    Raises:
        InputError: there is none.
    """
    for exercise in EXERCISES:
        if exercise.number == number.strip():
            return exercise
    raise InputError("exercise", f"there is no {number!r}; the exercises are {EXERCISES[0].number} to {_LAST}")


def _distance() -> int:
    universe = Universe(["flu", "cold", "none"])
    one, other = (histogram(counts, universe=universe) for counts in ([4, 2, 1], [3, 2, 2]))
    return l1_distance(one, other)


def _truthful(mechanism: FiniteMechanism) -> bool:
    """Whether a mechanism on one bit is ln 2-DP and tells the truth with probability at least 0.66."""
    truths = [mechanism.distribution(bit).get(bit) for bit in (0, 1)]
    tells = all(truth is not None and truth.value >= Fraction("0.66") for truth in truths)
    return tells and mechanism.is_private(ratio=2)


def _two_rounds() -> Fraction | float:
    move = Move(randomized_response(ratio=2), 0, 1)
    return CompositionExperiment(Repeat(move), rounds=2).exact().delta(ratio=2).value


def _alone() -> int:
    people = [(40, "f"), (41, "f"), (41, "m"), (50, "m"), (50, "m"), (60, "f")]
    return tacit.attacks.link(people, people, owners=range(6)).linked.hits


def _averaged() -> Fraction:
    noise = tacit.laws.law_of(tacit.Laplace(epsilon=1, l1_sensitivity=1))
    return Fraction(noise.std.up / math.sqrt(10_000))


def _moved_weights() -> Fraction:
    from tacit.learn.output_perturbation import OutputRelease
    from tacit.learn.smooth_losses import SmoothLogistic

    return OutputRelease(SmoothLogistic(1), Fraction(10)).l2_sensitivity


def _amplified() -> Fraction:
    from tacit.accounting.amplification import amplify

    return amplify(epsilon=1, rate="0.01").epsilon


CHAPTERS: tuple[CourseChapter, ...] = (
    CourseChapter(
        1,
        "Databases and neighbours",
        "01-databases-and-neighbours.md",
        (
            Exercise(
                "1.1",
                "Two databases over (flu, cold, none) have the histograms (4, 2, 1) and (3, 2, 2). What is their "
                "l1 distance?",
                NumberAnswer(_distance),
                "Add up the absolute differences of the counts.",
                "One person's illness changed: one count falls and another rises, so the distance is 2.",
                "tests/unit/test_databases.py::test_both_forms_say_the_same",
            ),
            Exercise(
                "1.2",
                "Under which relation are these two databases neighbours?",
                ChoiceAnswer(
                    {
                        "a": "add or remove one person",
                        "b": "replace one person",
                        "c": "both",
                        "d": "neither",
                    },
                    "b",
                ),
                "Count the people of each. Can adding one person lead from the first to the second?",
                "Both have seven people, so no person was added or removed; one was replaced.",
                "tests/unit/test_relations.py::test_distances_by_hand",
            ),
            Exercise(
                "1.3",
                "How many databases of 4 people are there over a universe of 3 types, if only the histogram counts?",
                NumberAnswer(lambda: Universe(["flu", "cold", "none"]).count_databases(4)),
                "Stars and bars: place 4 people into 3 bins.",
                "(4 + 2 choose 2) = 15. Small worlds like this one can be searched completely.",
                "tests/unit/test_databases.py::test_universes",
            ),
        ),
    ),
    CourseChapter(
        2,
        "The definition",
        "02-the-definition.md",
        (
            Exercise(
                "2.1",
                "A mechanism reports a person's bit truthfully with probability 0.8 and otherwise its opposite. What "
                "is the smallest epsilon for which it is epsilon-DP?",
                NumberAnswer(lambda: randomized_response(ratio=4).epsilon().up, Fraction("0.001")),
                "Divide the larger probability of one output by the smaller one, and take the logarithm.",
                "ln(0.8/0.2) = ln 4 = 1.386.",
                "tests/unit/test_lab_finite.py::test_randomized_response_is_exactly_ln_3",
            ),
            Exercise(
                "2.2",
                "For the same mechanism, what is the smallest delta at epsilon = ln 2?",
                NumberAnswer(lambda: randomized_response(ratio=4).delta(ratio=2).value, Fraction("0.0001")),
                "Take the event that separates best, and compute P(S) - e^epsilon Q(S).",
                "0.8 - 2 · 0.2 = 0.4: one failure in two and a half, which is no privacy at all.",
                "tests/unit/test_divergences.py::test_hockey_stick_of_randomized_response",
            ),
            Exercise(
                "2.3",
                "Before the answer an attacker gives a person's bit even odds. The mechanism is 1-DP. What is the "
                "largest probability with which the attacker can be right afterwards?",
                NumberAnswer(lambda: planning.guess_probability(1), Fraction("0.001")),
                "Odds of 1:1 become at most e:1.",
                "e/(1 + e) = 0.731, whatever else the attacker knows.",
                "tests/attacks/test_statistics_attack.py::test_the_limit_of_all_attacks",
            ),
        ),
    ),
    CourseChapter(
        3,
        "Randomized response",
        "03-randomized-response.md",
        (
            Exercise(
                "3.1",
                "In a survey each person tells the truth with probability 3/4 and lies otherwise. 400 of 1000 reports "
                "say yes. Which share of the people would truly say yes, by the unbiased estimate?",
                NumberAnswer(
                    lambda: (Fraction(400, 1000) - tacit.RandomizedResponse(gamma="0.25").lie) / Fraction(1, 2),
                    Fraction("0.001"),
                ),
                "The expected share of yes is 1/4 + f/2. Solve for f.",
                "(0.4 - 0.25)/0.5 = 0.3.",
                "tests/unit/test_randomized_response.py::test_the_estimate_is_unbiased_for_every_true_count",
            ),
            Exercise(
                "3.2",
                "With gamma = 1/4, how many people does the classic bound n = 1/(gamma² · alpha²) ask for, if the "
                "share shall be within alpha = 0.05 with probability 3/4?",
                NumberAnswer(lambda: 1 / (Fraction(1, 4) ** 2 * Fraction(5, 100) ** 2)),
                "Insert the numbers. The bound follows from Chebyshev's inequality.",
                "16 · 400 = 6400 people. A trusted curator needs about 25 at the same epsilon.",
                "tests/unit/test_survey_bounds.py::test_bias_and_bounds_against_the_exact_law",
            ),
            Exercise(
                "3.3",
                "Write a file with a function law(bit) that returns {output: probability}, with the outputs 0 and 1. "
                "The mechanism must be (ln 2)-DP and tell the truth with probability at least 0.66. Probabilities "
                "are fractions or texts such as '2/3'.",
                LawAnswer(_truthful),
                "Truth p and lie 1 - p: the ratio p/(1 - p) may be at most 2.",
                "With p = 2/3 the ratio is exactly 2; every p from 0.66 to 2/3 solves it.",
                "tests/unit/test_lab_finite.py::test_release_follows_the_table",
            ),
        ),
    ),
    CourseChapter(
        4,
        "Sensitivity and the Laplace mechanism",
        "04-laplace.md",
        (
            Exercise(
                "4.1",
                "Salaries are clamped to [0, 200] and summed. What is the l1 sensitivity, if neighbours differ by "
                "adding or removing one person?",
                NumberAnswer(lambda: sensitivity.bounded_sum(bounds=(0, 200)).l1),
                "How much can one clamped salary be?",
                "200: the bound decides, not the data.",
                "tests/unit/test_sensitivity.py::test_a_sum_by_hand",
            ),
            Exercise(
                "4.2",
                "Which scale of Laplace noise makes this sum 0.5-DP?",
                NumberAnswer(lambda: tacit.Laplace(epsilon="0.5", l1_sensitivity=200).scale),
                "The scale is the sensitivity divided by epsilon.",
                "200/0.5 = 400.",
                "tests/unit/test_laplace_mechanism.py::test_parameters_are_exact",
            ),
            Exercise(
                "4.3",
                "A count is released with epsilon = 0.1. Which distance does the noise exceed with probability at "
                "most 0.05?",
                NumberAnswer(lambda: tacit.Laplace(epsilon="0.1", l1_sensitivity=1).error("0.05"), Fraction(1)),
                "P(|noise| > t) = e^(-epsilon t) for the continuous law.",
                "ln(20)/0.1 = 29.96: for a count of thousands that is nothing, for a count of ten it is everything.",
                "tests/unit/test_laplace_mechanism.py::test_error_is_the_exact_quantile",
            ),
        ),
    ),
    CourseChapter(
        5,
        "Counting queries and histograms",
        "05-counting-and-histograms.md",
        (
            Exercise(
                "5.1",
                "What is the l1 sensitivity of a histogram with 50 bins, if neighbours differ by replacing one person?",
                NumberAnswer(lambda: sensitivity.histogram(relation="replace_one").l1),
                "A person leaves one bin and enters another.",
                "2, whatever the number of bins.",
                "tests/unit/test_sensitivity.py::test_a_histogram_by_hand",
            ),
            Exercise(
                "5.2",
                "100 arbitrary counting queries share epsilon = 1. Which scale of Laplace noise does each answer get?",
                NumberAnswer(lambda: tacit.Laplace(epsilon=1, l1_sensitivity=100).scale),
                "One person may be counted by all of them.",
                "100: noise grows with the number of queries, until the next chapters help.",
                "tests/unit/test_sensitivity.py::test_counting_queries",
            ),
            Exercise(
                "5.3",
                "How far off is the worst of 10,000 bins of a histogram at epsilon = 1, with probability 0.95?",
                NumberAnswer(
                    lambda: tacit.Histogram(epsilon=1, bins=range(10_000)).error("0.05"),
                    Fraction(1),
                ),
                "Each bin may fail with probability 0.05/10,000.",
                "ln(10,000/0.05) = 12.2: the logarithm of the number of bins, not the number.",
                "tests/unit/test_histogram.py::test_the_error_is_the_exact_simultaneous_one",
            ),
        ),
    ),
    CourseChapter(
        6,
        "Selection",
        "06-selection.md",
        (
            Exercise(
                "6.1",
                "Three candidates have the scores 0, 1 and 2, each of sensitivity 1. With which probability does the "
                "exponential mechanism at epsilon = 2 choose the best?",
                NumberAnswer(
                    lambda: tacit.Exponential(epsilon=2, sensitivity=1).probabilities([0, 1, 2])[2], Fraction("0.001")
                ),
                "Weights are e^(epsilon · score / 2).",
                "e²/(1 + e + e²) = 0.665.",
                "tests/reference/test_selection_vectors.py::test_probabilities",
            ),
            Exercise(
                "6.2",
                "Among 1000 candidates at epsilon = 1, by how much may the score of the chosen one fall short of the "
                "best, except with probability e^(-3)? Use the theorem 2(ln|R| + t)/epsilon.",
                NumberAnswer(lambda: Fraction(2 * (math.log(1000) + 3)), Fraction("0.01")),
                "Insert |R| = 1000 and t = 3.",
                "2 · (6.908 + 3) = 19.82.",
                "tests/reference/test_selection_vectors.py::test_the_accuracy_of_the_exponential_mechanism",
            ),
            Exercise(
                "6.3",
                "Report noisy max compares 10,000 noisy counts and tells which is largest. Each count has noise of "
                "scale 1/epsilon. What does it cost?",
                ChoiceAnswer(
                    {"a": "10,000 epsilon", "b": "100 epsilon", "c": "epsilon", "d": "it is not private"},
                    "c",
                ),
                "The noisy counts themselves are not released.",
                "epsilon: one index is released, and one person moves all counts the same way.",
                "tests/privacy/test_selection_exact.py::test_noisy_max_is_private_ties_included",
            ),
        ),
    ),
    CourseChapter(
        7,
        "Delta and the Gaussian mechanism",
        "07-delta-and-the-gaussian.md",
        (
            Exercise(
                "7.1",
                "A mechanism publishes the row of one of 200 people, chosen at random. For which smallest delta is it "
                "(0, delta)-DP?",
                NumberAnswer(lambda: release_random_row(universe="ab", size=4).delta(epsilon=0).value * 4 / 200),
                "What is the probability that the row of the person in question is published?",
                "1/200. So delta must be far below one over the number of people.",
                "tests/unit/test_lab_finite.py::test_releasing_a_random_row_has_a_small_delta_and_is_terrible",
            ),
            Exercise(
                "7.2",
                "Which sigma makes Gaussian noise (1, 1e-6)-DP for l2 sensitivity 1? Ask "
                "tacit.Gaussian(epsilon=1, delta='1e-6', l2_sensitivity=1).",
                NumberAnswer(lambda: tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1).sigma, Fraction("0.02")),
                "Read the attribute sigma.",
                "4.23, where the classic formula asks for 5.30: the exact profile saves a fifth of the noise.",
                "tests/reference/test_gaussian_calibration.py::test_classic_sigma_and_what_it_really_gives",
            ),
            Exercise(
                "7.3",
                "At epsilon = 10, the classic formula sigma = sqrt(2 ln(1.25/delta))/epsilon gives",
                ChoiceAnswer(
                    {"a": "exactly the noise needed", "b": "too little noise", "c": "too much noise"},
                    "b",
                ),
                "Its proof needs epsilon below 1. Compute the delta of lab.definition(laws.GaussianLaw(…)).",
                "Too little: its true delta is more than twice what was asked for.",
                "tests/reference/test_gaussian_calibration.py::test_classic_sigma_and_what_it_really_gives",
            ),
        ),
    ),
    CourseChapter(
        8,
        "Composition",
        "08-composition.md",
        (
            Exercise(
                "8.1",
                "Five releases of epsilon 0.1 and two of 0.25, by basic composition: which epsilon together?",
                NumberAnswer(lambda: tacit.compose([(tacit.PureDP("0.1"), 5), (tacit.PureDP("0.25"), 2)]).epsilon),
                "Add them up.",
                "0.5 + 0.5 = 1.",
                "tests/unit/test_compose.py::test_pure_releases_need_no_delta",
            ),
            Exercise(
                "8.2",
                "A hundred releases of epsilon 0.1: which epsilon does advanced composition promise at delta = 1e-6?",
                NumberAnswer(
                    lambda: tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6", method="advanced").epsilon,
                    Fraction("0.02"),
                ),
                "epsilon·sqrt(2k ln(1/delta)) + k·epsilon·(e^epsilon - 1).",
                "6.31 instead of 10; the optimal theorem gives 4.77.",
                "tests/reference/test_accounting_vectors.py::test_advanced_formula",
            ),
            Exercise(
                "8.3",
                "Randomized response with epsilon = ln 2 is asked twice about the same bit. What is the exact delta "
                "of both reports together at epsilon = ln 2?",
                NumberAnswer(_two_rounds, Fraction("0.0001")),
                "Write down the four pairs of reports with their probabilities under both bits.",
                "4/9 - 2 · 1/9 = 2/9: only the pair of equal reports tells more than ln 2.",
                "tests/unit/test_lab_adaptive.py::test_the_set_of_bad_views_by_hand",
            ),
        ),
    ),
    CourseChapter(
        9,
        "Why anonymising, sampling and just statistics fail",
        "09-why-not-just.md",
        (
            Exercise(
                "9.1",
                "A table without names has the rows (40, f), (41, f), (41, m), (50, m), (50, m), (60, f) of age and "
                "sex. An attacker knows age and sex of all six. How many does the attacker find?",
                NumberAnswer(_alone),
                "A row is found if no other row has the same age and sex.",
                "4: all but the two men of 50.",
                "tests/attacks/test_linkage_attack.py::test_linkage_finds_exactly_those_who_are_alone",
            ),
            Exercise(
                "9.2",
                "A server adds fresh Laplace noise of epsilon = 1 to a count at every question, and keeps no account. "
                "What is the standard deviation of the mean of 10,000 answers to the same question?",
                NumberAnswer(_averaged, Fraction("0.001")),
                "The standard deviation of one is about 1.4; that of the mean is smaller by the square root.",
                "0.014: the count is known exactly. Repeats must return the same answer, or be paid for.",
                "tests/attacks/test_statistics_attack.py::test_averaging_defeats_fresh_noise_and_not_free_repeats",
            ),
            Exercise(
                "9.3",
                "Publishing 10 of 1000 rows, chosen at random, is (0, delta)-DP for which smallest delta?",
                NumberAnswer(
                    lambda: sample_rows(universe="ab", size=4, sample=1).delta(epsilon=50).value * 4 * 10 / 1000
                ),
                "With which probability is a given person among the ten?",
                "1/100, at every epsilon: ten people are published whole.",
                "tests/unit/test_lab_finite.py::test_sampling_rows_is_not_private_for_any_epsilon",
            ),
        ),
    ),
    CourseChapter(
        10,
        "Learning",
        "10-learning.md",
        (
            Exercise(
                "10.1",
                "A regularised logistic regression minimises the sum of the losses plus 10/2·|w|². Rows have norm at "
                "most 1, so the loss is 1-Lipschitz. By how much can adding one row move the minimiser, in l2?",
                NumberAnswer(_moved_weights, Fraction("0.001")),
                "The objective is 10-strongly convex; one row changes its gradient by at most 1.",
                "1/10: the Lipschitz constant divided by the strong convexity.",
                "tests/learn/test_learn_minimisers.py::test_the_minimiser_moves_by_no_more_than_declared",
            ),
            Exercise(
                "10.2",
                "How many rows does sqrt(d·ln(1/delta))/(alpha²·epsilon) ask for with d = 50, delta = 1e-6, "
                "alpha = 0.1 and epsilon = 0.5?",
                NumberAnswer(
                    lambda: tacit.learn.rows_by_theorem(excess="0.1", epsilon="0.5", delta="1e-6", dimensions=50),
                    Fraction(2),
                ),
                "Insert the numbers, and round up.",
                "5257. The constant that lectures leave out is taken as 1; learn.rows_needed measures.",
                "tests/unit/test_cli_plan.py::test_learning_shows_the_theorem_beside_the_measured_planner",
            ),
            Exercise(
                "10.3",
                "Each step of gradient descent looks at every row with probability 1/100 and is 1-DP for the rows it "
                "looks at. Which epsilon has the step for a person in the whole table?",
                NumberAnswer(_amplified, Fraction("0.0005")),
                "ln(1 + q(e^epsilon - 1)).",
                "0.0170: sampling amplifies, although by itself it protects no one.",
                "tests/reference/test_accounting_vectors.py::test_amplification",
            ),
        ),
    ),
)
EXERCISES: tuple[Exercise, ...] = tuple(exercise for chapter in CHAPTERS for exercise in chapter.exercises)
_LAST = EXERCISES[-1].number
