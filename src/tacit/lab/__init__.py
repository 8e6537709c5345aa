"""Laboratory: small worlds in which privacy claims are computed exactly.

Modules:
* :mod:`.charts` — Charts of privacy loss, as Altair objects: they show in a notebook and save as SVG or PNG
* :mod:`.definition` — The definition of (ε, δ)-DP for a pair: both output laws, e^ε times one of them, and the
  uncovered mass δ
* :mod:`.distributions` — Distributions of noise as objects: density or mass, tail, quantile, variance
* :mod:`.experiment` — The k-fold adaptive composition experiment, runnable: moves, adversaries, coins, views; the loss
  martingale of a view, and the worst adversary against a stopping rule
* :mod:`.finite` — Finite mechanisms, where every privacy query has an exact answer, and theorems checked on them
"""

from __future__ import annotations

from tacit.core.charts import save_chart
from tacit.lab.charts import (
    chart_azuma,
    chart_experiment,
    chart_profile,
)
from tacit.lab.definition import Definition, definition
from tacit.lab.experiment import (
    Adversary,
    AzumaPoint,
    CompositionExperiment,
    LossStep,
    Move,
    RandomizedStrategy,
    Releases,
    Repeat,
    Strategy,
    Views,
    WorstAdversary,
    admitted_by,
    azuma,
    azuma_points,
    check_neighbours,
    curve_fits,
    in_or_out,
    loss_path,
    loss_threshold,
    private,
    probability_bounds,
    worst_adversary,
)
from tacit.lab.finite import (
    CompositionBounds,
    FiniteMechanism,
    ProfilePoint,
    TheoremCheck,
    Worst,
    composition_bounds,
    geometric,
    group_privacy,
    leak,
    optimal_pair,
    randomized_response,
    release_random_row,
    sample_rows,
    subsample_then_count,
)

__all__ = [
    "Adversary",
    "AzumaPoint",
    "CompositionBounds",
    "CompositionExperiment",
    "Definition",
    "FiniteMechanism",
    "LossStep",
    "Move",
    "ProfilePoint",
    "RandomizedStrategy",
    "Releases",
    "Repeat",
    "Strategy",
    "TheoremCheck",
    "Views",
    "Worst",
    "WorstAdversary",
    "admitted_by",
    "azuma",
    "azuma_points",
    "chart_azuma",
    "chart_experiment",
    "chart_profile",
    "check_neighbours",
    "composition_bounds",
    "curve_fits",
    "definition",
    "geometric",
    "group_privacy",
    "in_or_out",
    "leak",
    "loss_path",
    "loss_threshold",
    "optimal_pair",
    "private",
    "probability_bounds",
    "randomized_response",
    "release_random_row",
    "sample_rows",
    "save_chart",
    "subsample_then_count",
    "worst_adversary",
]
