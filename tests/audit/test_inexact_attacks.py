"""Linkage by inexact knowledge, and what a study tells about a person who is not in it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.audit.attacks import Rating, Study, blur, link_inexactly, made_up_films, score_rows
from tacit.core.errors import InputError
from tacit.mechanisms.laplace import Laplace


def test_the_score_by_hand() -> None:
    table = [{1: Rating(5, 10), 2: Rating(3, 0)}, {1: Rating(4, 40)}, {3: Rating(5, 10)}, {3: Rating(1, 1)}]
    known = {1: Rating(5, 10), 2: Rating(2, 30)}
    first = 1 / math.log(2) * 2 + 1 / math.log(2) * (math.exp(-1 / 1.5) + math.exp(-1))
    second = 1 / math.log(2) * (math.exp(-1 / 1.5) + math.exp(-1))
    scores = np.array([first, second, 0, 0])
    found = score_rows(known, table)
    assert found.best == 0
    assert found.lead == pytest.approx((first - second) / scores.std())
    assert found.named == (0 if found.lead >= 1.5 else None)


def test_no_person_is_named_who_does_not_stand_out() -> None:
    twins = [{1: Rating(4, 10)}, {1: Rating(4, 10)}, {2: Rating(1, 1)}]
    assert score_rows({1: Rating(4, 10)}, twins).named is None
    assert score_rows({9: Rating(4, 10)}, twins).named is None
    assert score_rows({1: Rating(4, 10)}, twins[:1]).named == 0
    with pytest.raises(InputError, match="at least one rating"):
        score_rows({}, twins)


def test_a_few_films_known_inexactly_find_most_people(seeded: SeededBits) -> None:
    table = made_up_films(people=400, films=300, per_person=25)
    assert all(len(row) == 25 for row in table)
    found = link_inexactly(table, films=[1, 4, 8], stars=1, days=14, victims=40)
    shares = [step.found.share for step in found]
    assert shares[0] < 0.5 < shares[2]
    assert shares[2] > 0.9
    assert found[2].misled <= 2
    exact = link_inexactly(table, films=[8], stars=0, days=0, victims=40)
    assert exact[0].found.share >= shares[2] - 0.05


def test_what_an_acquaintance_knows(seeded: SeededBits) -> None:
    row = {film: Rating(3, 100) for film in range(20)}
    known = blur(row, films=6, stars=1, days=14)
    assert len(known) == 6
    assert all(abs(r.stars - 3) <= 1 and abs(r.day - 100) <= 14 for r in known.values())
    assert blur(row, films=20, stars=0, days=0) == row
    with pytest.raises(InputError, match="films"):
        blur(row, films=21, stars=0, days=0)
    with pytest.raises(InputError, match="per_person"):
        made_up_films(people=1, films=3, per_person=4)
    with pytest.raises(InputError, match="victims"):
        link_inexactly([row], films=[1], victims=2)


def test_what_is_learned_about_a_person_who_is_not_in_the_data() -> None:
    found = Study(smokers=(45, 300), others=(14, 700)).learned(epsilon=1)
    assert found.before == Fraction(59, 1000)
    assert found.without == Fraction(15, 100)
    assert found.learned == Fraction(91, 1000)
    assert found.own_share == Fraction(46, 301) - Fraction(45, 300) < Fraction(1, 300)
    # Learned about every person, thirty times what the person's own row adds, and privacy changes neither by much.
    assert found.learned > 30 * found.own_share
    assert found.spread < Fraction(2, 100) < found.learned
    assert float(found.own_factor) == pytest.approx(math.e)
    assert str(found).startswith("belief that a smoker falls ill: 5.9% before the study, 15% after it")


def test_the_private_share_is_as_close_as_stated(seeded: SeededBits) -> None:
    study = Study(smokers=(45, 300), others=(14, 700))
    found, noise = study.learned(epsilon="0.5"), Laplace(epsilon="0.5", l1_sensitivity=1)
    misses = 0
    for _ in range(400):
        ill, well = noise.release([45, 255])
        misses += abs(Fraction(ill, ill + well) - found.without) > found.spread
    # At most 5% in truth; 400 tries exceed 10% with probability below 1e-4.
    assert misses <= 40
    assert Study(smokers=(1, 2), others=(0, 1)).learned(epsilon="0.1").spread == 1
    with pytest.raises(InputError, match="no more ill"):
        Study(smokers=(3, 2), others=(0, 1))
