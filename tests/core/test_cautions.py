"""Numbers that hold and protect little: a sentence, no refusal and no Python warning."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import pytest

import tacit
from tacit.core.cautions import cautions, cautions_about, guess_probability
from tacit.mechanisms.planning import plan


def test_the_two_numbers_that_nothing_was_said_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = tacit.Gaussian(epsilon=1, delta="0.1", l2_sensitivity=1).cautions(people=50)
        assert len(said) == 1
        assert "publishing 5 whole records is as private" in said[0]
        said = tacit.Laplace(epsilon=1000, l1_sensitivity=1).cautions()
        assert "probability up to 100%" in said[0]


@pytest.mark.parametrize(
    ("epsilon", "delta", "people", "sentences"),
    [
        (1, None, None, 0),
        ("4.5", None, None, 0),
        ("4.6", None, None, 1),
        (1, "1e-6", 1000, 0),
        (1, "1e-4", 1000, 1),
        (1, "1e-5", 1000, 0),
        (1, "1e-4", None, 0),
        (1, "0.01", None, 1),
        (100, "0.5", 10, 2),
        (None, 1, 10, 1),
    ],
)
def test_when_a_sentence_is_due(epsilon: object, delta: object, people: object, sentences: int) -> None:
    assert len(cautions(epsilon=epsilon, delta=delta, people=people)) == sentences  # type: ignore[arg-type]


def test_the_guess_is_that_of_randomized_response() -> None:
    assert float(guess_probability(1)) == pytest.approx(math.e / (1 + math.e))
    assert guess_probability(10**6) == 1
    assert guess_probability(0) == Fraction(1, 2)


def test_other_guarantees_are_read_at_a_usual_delta() -> None:
    assert not cautions_about(tacit.ZCDP("0.01"))
    assert cautions_about(tacit.GDP(10))
    assert cautions_about(tacit.RDP.at(2, 50))


def test_a_plan_carries_its_cautions() -> None:
    assert not plan("count", within="0.01", confidence="0.95", epsilon="0.1").cautions
    assert plan("count", within="0.01", confidence="0.999999", people=10).cautions


def test_a_delta_that_pays_for_the_noise_alone_needs_hardly_any_epsilon() -> None:
    """It used to be refused, with words about an epsilon that the caller had not given."""
    found = tacit.Gaussian.for_error(within=10, beta="0.05", delta="0.1", l2_sensitivity=1)
    assert found.error("0.05") <= 10
    assert found.guarantee.to_approx("0.1").epsilon == Fraction(1, 10**6)
