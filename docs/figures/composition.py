"""Draw the figures of docs/composition.md: python docs/figures/composition.py [folder]."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from tacit.accounting.compose import compose
from tacit.accounting.filters import PureFilter, PureOrZCDPFilter, ZCDPFilter
from tacit.core.events import LaplaceEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import float_up
from tacit.lab import Adversary, Move, chart_experiment, chart_profile, randomized_response, save_chart
from tacit.lab.charts import chart_curves
from tacit.lab.finite import release_random_row, subsample_then_count

HERE = Path(__file__).parent
DELTA = "1e-6"


class StrongWhenEven(Adversary):
    """Asks a strong question while the answers are even, and a weak one otherwise; remembers only the lead."""

    def __init__(self) -> None:
        self._strong = Move(randomized_response(ratio="1.2"), 0, 1)
        self._weak = Move(randomized_response(ratio="1.1"), 0, 1)

    def start(self) -> int:
        """No answers yet."""
        return 0

    def choose(self, state: int) -> Move:
        """By the lead alone."""
        return self._strong if state == 0 else self._weak

    def observe(self, state: int, output: object) -> int:
        """One answer for b = 0 or one against."""
        return state + (1 if output == 0 else -1)


def draw_bounds(folder: Path) -> None:
    """ε of k releases of Laplace noise, by every method of ``compose``."""
    names = {"basic": "basic", "advanced": "advanced", "zcdp": "zCDP", "optimal": "optimal", "pld": "PLD"}
    release = LaplaceEvent(Fraction(10), Fraction(1))
    rounds = [1, *range(5, 151, 5)]
    curves = {
        name: [(float(k), float_up(compose([(release, k)], delta=DELTA, method=method).epsilon)) for k in rounds]
        for method, name in names.items()
    }
    chart = chart_curves(
        curves,
        x="releases k",
        y="ε of all k together",
        title=f"k releases of Laplace noise, ε = 0.1 each, at δ = {DELTA}",
    )
    save_chart(chart, folder / "composition-bounds.svg")


def draw_experiment(folder: Path) -> None:
    """The exact view of one adaptive adversary beside the bounds that cover every adversary."""
    chart = chart_experiment(StrongWhenEven(), rounds=[1, *range(4, 61, 4)], delta=DELTA)
    save_chart(chart, folder / "composition-experiment.svg")


def draw_profiles(folder: Path) -> None:
    """δ(ε) of three small mechanisms."""
    mechanisms = {
        "a random row of 4": release_random_row(universe="ab", size=4),
        "randomized response": randomized_response(ratio=3),
        "count of a 1/4 sample": subsample_then_count(ratio=3, rate="1/4", rows=3),
    }
    chart = chart_profile(mechanisms, epsilons=[Fraction(i, 20) for i in range(27)])
    save_chart(chart, folder / "composition-profiles.svg")


def draw_filters(folder: Path) -> None:
    """Chart the number of charges of each size that fit one budget, under three rules."""
    target = {"epsilon": "1", "delta": DELTA}
    rules = {
        "pure": PureFilter(epsilon="1"),
        "zCDP": ZCDPFilter.for_target(**target),
        "pure or zCDP": PureOrZCDPFilter(**target),
    }
    sizes = [Fraction(n, 1000) for n in (5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 220)]
    curves = {name: [(float(e), float(rule.how_many(PureDP(e)) or 0.5)) for e in sizes] for name, rule in rules.items()}
    chart = chart_curves(
        curves, x="ε of each question", y="questions that fit", title=f"Questions within (1, {DELTA})", log=True
    )
    save_chart(chart, folder / "filters-queries.svg")


def main(folder: Path = HERE) -> None:
    """Draw everything into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (draw_bounds, draw_experiment, draw_profiles, draw_filters):
        draw(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
