"""Attacks: they succeed on an unprotected twin and are reduced to guessing on a curator.

Every attack is a function of plain rows or arrays and of *asks*, callables that answer its questions: one that has no
protection, and some that have a curator behind them. None of them knows what is behind the callable.

>>> from tacit.attacks import most_that_any_can
>>> most_that_any_can(0.0), round(most_that_any_can(0.5), 2)
(0.5, 0.62)

Modules:
* :mod:`.broken_defences` — Protections that do not protect: rounding, suppression and other habits of unprotected
  twins
* :mod:`.collusion` — Collusion: analysts with separate budgets pool their answers
* :mod:`.comparison` — Comparison of one attack against an unprotected twin and a curator at several epsilons
* :mod:`.differencing` — Differencing and averaging: two totals that differ in one person, and repeated noisy
  answers
* :mod:`.linkage` — Linkage: re-identification of rows without names by age, sex, district and date
* :mod:`.membership` — Membership inference from published averages of a study
* :mod:`.models` — Membership inference from a trained model
* :mod:`.outsider` — Impossibility of perfect privacy: inference about a person outside the study
* :mod:`.plots` — Charts of attacks in one style: red for unprotected, blue for the curator, grey for guessing
* :mod:`.random_choice` — Random choices of an attacker; no guarantee rests on them
* :mod:`.ratings` — Linkage with inexact knowledge: film ratings off by one, dates off by weeks
* :mod:`.reconstruction` — Reconstruction: solving many noisy totals for every person's secret
* :mod:`.report` — Report of all attacks on one self-contained HTML page
* :mod:`.sampling` — Sampling: publishing a few random rows exposes the persons in them
* :mod:`.small_cells` — Small cells: a table of counts so fine that some cells hold one person
* :mod:`.success_rate` — Success rate of an attack with its confidence interval, and the base class of attack results
"""

from __future__ import annotations

from tacit.attacks.collusion import Collusion, Pooling, pool
from tacit.attacks.comparison import Attack, Comparison, compare, most_that_any_can
from tacit.attacks.differencing import Averaging, Differencing
from tacit.attacks.linkage import Linkage, LinkageProfile, link, link_by_steps
from tacit.attacks.membership import Marginal, Membership, indicators
from tacit.attacks.models import ModelMembership, nearest_neighbour, ridge
from tacit.attacks.outsider import Learned, Study
from tacit.attacks.ratings import InexactLinkage, Rating, blur, link_inexactly, made_up_films, score_rows
from tacit.attacks.reconstruction import (
    Reconstruction,
    ReconstructionGrid,
    Subset,
    modular_subsets,
    random_subsets,
    reconstruct,
    reconstruct_under_noise,
)
from tacit.attacks.sampling import Exposure, exposure
from tacit.attacks.small_cells import SmallCells
from tacit.attacks.success_rate import Result, SuccessRate

__all__ = [
    "Attack",
    "Averaging",
    "Collusion",
    "Comparison",
    "Differencing",
    "Exposure",
    "InexactLinkage",
    "Learned",
    "Linkage",
    "LinkageProfile",
    "Marginal",
    "Membership",
    "ModelMembership",
    "Pooling",
    "Rating",
    "Reconstruction",
    "ReconstructionGrid",
    "Result",
    "SmallCells",
    "Study",
    "Subset",
    "SuccessRate",
    "blur",
    "compare",
    "exposure",
    "indicators",
    "link",
    "link_by_steps",
    "link_inexactly",
    "made_up_films",
    "modular_subsets",
    "most_that_any_can",
    "nearest_neighbour",
    "pool",
    "random_subsets",
    "reconstruct",
    "reconstruct_under_noise",
    "ridge",
    "score_rows",
]
