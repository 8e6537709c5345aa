"""Draw laws, the definition and the set of bad views: python docs/figures/definition.py [folder]."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from tacit import laws
from tacit.lab import CompositionExperiment, Move, Repeat, chart_azuma, definition, randomized_response, save_chart
from tacit.mechanisms.laplace import Laplace

HERE = Path(__file__).parent


def draw(folder: Path = HERE) -> None:
    """Draw all figures of the page."""
    save_chart(laws.chart_laws(laws.DiscreteLaplaceLaw(scale=2), laws.LaplaceLaw(scale=2)), folder / "laws.svg")
    gaussian = definition(laws.GaussianLaw(sigma=1), 0, 1, epsilon=1)
    save_chart(gaussian.chart(), folder / "definition-gaussian.svg")
    count = definition(Laplace(epsilon=1, l1_sensitivity=1), 10, 11, epsilon="0.5")
    save_chart(count.chart(), folder / "definition-count.svg")
    views = CompositionExperiment(Repeat(Move(randomized_response(ratio="1.1"), 0, 1)), rounds=400).exact()
    points = [Fraction(i, 4) for i in range(1, 17)]
    save_chart(chart_azuma(views, zs=points, tight=True), folder / "composition-azuma.svg")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
