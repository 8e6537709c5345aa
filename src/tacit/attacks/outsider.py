"""Impossibility of perfect privacy: inference about a person outside the study.

A study finds that smokers fall ill more often. An insurer knows that a person smokes and now thinks worse of their
health, although the person took part in nothing. No useful release can prevent it: the finding holds for people in
general. Differential privacy promises another thing, that a person's *own* row changes hardly anything. Both can be put
in numbers, with a release that is exact and with one that is private.

>>> print(Study(smokers=(45, 300), others=(14, 700)).learned(epsilon=1))
belief that a smoker falls ill: 5.9% before the study, 15% after it
  exact release:   15% without the person, 15.28% with them
  epsilon 1:       15% give or take 1.4 points either way; e^epsilon = 2.72 bounds what the person's own row adds
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.attacks.success_rate import Result
from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, exp_bounds, float_nearest
from tacit.mechanisms.laplace import Laplace

#: Ill people, and all people.
Group = tuple[int, int]


@dataclass(frozen=True)
class Learned(Result):
    """Belief of an outsider about a smoker: before, and after a study that was released exactly or privately.

    Args:
        before: the share of all people who are ill, which was known anyway.
        without: the share of ill smokers in a study that the person took no part in.
        with_person: the same if the person took part, and is ill.
        epsilon: of the private release.
        spread: how far the private release of the share is off, with probability 95%, at most.
    """

    before: Fraction
    without: Fraction
    with_person: Fraction
    epsilon: Fraction
    spread: Fraction

    @property
    def learned(self) -> Fraction:
        """Change of the belief about a person who was not in the data."""
        return self.without - self.before

    @property
    def own_share(self) -> Fraction:
        """Change that the person's own row adds, in an exact release."""
        return abs(self.with_person - self.without)

    @property
    def own_factor(self) -> Fraction:
        """e^ε, rounded up: no conclusion from the private release becomes likelier by more than this factor."""
        return exp_bounds(self.epsilon)[1]

    @property
    def title(self) -> str:
        """A headline."""
        return "What a study tells about a person who is not in it"

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "before": float_nearest(self.before),
            "after_without": float_nearest(self.without),
            "after_with": float_nearest(self.with_person),
            "epsilon": float_nearest(self.epsilon),
            "private_off_by": float_nearest(self.spread),
            "own_factor": float_nearest(self.own_factor),
        }

    def draw(self) -> Any:
        """The belief before and after, without and with the person, exactly and privately."""
        from tacit.attacks.plots import draw_shares

        beliefs = {
            "before the study": self.before,
            "after it, without the person": self.without,
            "after it, with the person": self.with_person,
        }
        rows = [
            (name, {"believed ill": float_nearest(share), "believed well": float_nearest(1 - share)})
            for name, share in beliefs.items()
        ]
        return draw_shares(
            rows, title=self.title, subtitle=f"a private release is off by at most {_percent(self.spread)}"
        )

    def __str__(self) -> str:
        return (
            f"belief that a smoker falls ill: {_percent(self.before)} before the study, "
            f"{_percent(self.without)} after it\n"
            f"  exact release:   {_percent(self.without)} without the person, {_percent(self.with_person)} with them\n"
            f"  epsilon {float_nearest(self.epsilon):g}:       {_percent(self.without)} give or take "
            f"{float_nearest(100 * self.spread):.2g} points either way; "
            f"e^epsilon = {float_nearest(self.own_factor):.2f} bounds what the person's own row adds"
        )


@dataclass(frozen=True)
class Study:
    """Counts of ill people and of all people, among smokers and among others; the person is not one of them."""

    smokers: Group
    others: Group

    def __post_init__(self) -> None:
        for name in ("smokers", "others"):
            ill, all_of_them = getattr(self, name)
            check_count(all_of_them, name)
            if not 0 <= check_count(ill, name, minimum=0) <= all_of_them:
                raise InputError(name, "must be (ill, all of them), with no more ill than there are")

    def learned(self, *, epsilon: Number) -> Learned:
        """Learn about a smoker from this study, exactly and with ``epsilon``.

        The private release is a histogram of the four groups, so one person changes one count by one. The noise on ill
        smokers and on smokers who are well is at most w for both, with probability 95%. A share a/(a + b) then becomes
        (a + e)/(a + b + e + f) with |e|, |f| <= w, which moves it by |b·e - a·f|/(n(n + e + f)) <= w/(n - 2w).
        """
        ill, smokers = self.smokers
        price = exact_positive(epsilon, "epsilon")
        off = int(Laplace(epsilon=price, l1_sensitivity=1).error("0.05", k=2))
        spread = Fraction(off, smokers - 2 * off) if smokers > 2 * off else Fraction(1)
        return Learned(
            before=Fraction(ill + self.others[0], smokers + self.others[1]),
            without=Fraction(ill, smokers),
            with_person=Fraction(ill + 1, smokers + 1),
            epsilon=price,
            spread=min(spread, Fraction(1)),
        )


def _percent(share: Fraction) -> str:
    return f"{float_nearest(100 * share):.4g}%"
