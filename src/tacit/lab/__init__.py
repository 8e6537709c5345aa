"""Laboratory: small worlds in which privacy claims are computed exactly.

Modules:
* :mod:`.adversaries` — Exact worst case of adaptive adversaries against a stopping rule
* :mod:`.bounds` — Theorems checked in small worlds: composition from basic to exact, group privacy, post-processing
* :mod:`.definition` — The definition of (ε, δ)-DP for a pair: both output laws, e^ε times one of them, and the
  uncovered mass δ
* :mod:`.distributions` — Distributions of noise as objects: density or mass, tail, quantile, variance
* :mod:`.experiment` — The k-fold adaptive composition experiment, runnable: moves, adversaries, coins, views
* :mod:`.finite` — Finite mechanisms, where every privacy query has an exact answer, and examples of them
* :mod:`.martingale` — Proof of advanced composition in numbers: loss martingale, Azuma's inequality, set of bad
  views
* :mod:`.plots` — Charts of privacy loss, as Altair objects: they show in a notebook and save as SVG or PNG
"""

from __future__ import annotations

from tacit.core.charts import save_chart
from tacit.lab.adversaries import WorstAdversary, admitted_by, curve_fits, worst_adversary
from tacit.lab.bounds import (
    CompositionBounds,
    TheoremCheck,
    composition_bounds,
    group_privacy,
    optimal_pair,
    post_processing,
)
from tacit.lab.definition import Definition, definition
from tacit.lab.experiment import (
    Adversary,
    CompositionExperiment,
    EstimatedLoss,
    Move,
    RandomizedStrategy,
    Releases,
    Repeat,
    Strategy,
    Views,
    check_neighbours,
    in_or_out,
    private,
    probability_bounds,
)
from tacit.lab.finite import (
    FiniteMechanism,
    ProfilePoint,
    Worst,
    geometric,
    leak,
    randomized_response,
    release_random_row,
    sample_rows,
    subsample_then_count,
)
from tacit.lab.martingale import AzumaPoint, LossStep, azuma, azuma_points, loss_path, loss_threshold
from tacit.lab.plots import (
    chart_azuma,
    chart_experiment,
    chart_profile,
)

__all__ = [
    "Adversary",
    "AzumaPoint",
    "CompositionBounds",
    "CompositionExperiment",
    "Definition",
    "EstimatedLoss",
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
    "post_processing",
    "private",
    "probability_bounds",
    "randomized_response",
    "release_random_row",
    "sample_rows",
    "save_chart",
    "subsample_then_count",
    "worst_adversary",
]
