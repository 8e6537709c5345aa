"""The laboratory: small worlds in which every claim about privacy can be computed exactly and looked at.

* :class:`FiniteMechanism`: a table of output probabilities; is it private, what is its exact profile, who is worst off?
* :mod:`~tacit.accounting.lab.examples`: randomized response, folded geometric counts, and some that are not private;
* :func:`definition`: the definition of (ε, δ)-DP drawn for a mechanism and a pair, with the worst event shaded;
* :class:`CompositionExperiment`: an adaptive adversary against a curator with a secret bit, exactly or by running it;
* :func:`azuma` and :func:`azuma_points`: the proof of advanced composition in numbers, with the set of bad views;
* :func:`worst_adversary`: the most that any adaptive adversary can gain under a stopping rule, valid or not;
* :func:`group_privacy` and :func:`post_processing`: two theorems as checks on a mechanism of one's own;
* :mod:`~tacit.accounting.lab.plots`: the charts of ``docs/composition.md``.
"""

from __future__ import annotations

from tacit.accounting.lab.adversaries import WorstAdversary, admitted_by, curve_fits, worst_adversary
from tacit.accounting.lab.bounds import CompositionBounds, composition_bounds, optimal_pair
from tacit.accounting.lab.checks import Check, group_privacy, post_processing
from tacit.accounting.lab.confidence import probability_bounds
from tacit.accounting.lab.definition import Definition, definition
from tacit.accounting.lab.examples import (
    geometric,
    leak,
    randomized_response,
    release_random_row,
    sample_rows,
    subsample_then_count,
)
from tacit.accounting.lab.experiment import CompositionExperiment, EstimatedLoss, Views
from tacit.accounting.lab.finite import FiniteMechanism, ProfilePoint, Worst
from tacit.accounting.lab.martingale import AzumaPoint, LossStep, azuma, azuma_points, loss_path, loss_threshold
from tacit.accounting.lab.moves import Move, Releases, check_neighbours, in_or_out, private
from tacit.accounting.lab.plots import (
    chart_azuma,
    chart_bounds,
    chart_experiment,
    chart_profile,
    save_chart,
)
from tacit.accounting.lab.strategies import Adversary, RandomizedStrategy, Repeat, Strategy

__all__ = [
    "Adversary",
    "AzumaPoint",
    "Check",
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
    "Views",
    "Worst",
    "WorstAdversary",
    "admitted_by",
    "azuma",
    "azuma_points",
    "chart_azuma",
    "chart_bounds",
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
