"""Attacks: they succeed on an unprotected twin and are reduced to guessing on a curator.

Every attack is a function of plain rows or arrays and of *asks*, callables that answer its queries: one that has no
protection, and some that have a curator behind them. None of them knows what is behind the callable.

>>> from tacit.audit.attacks import most_that_any_can
>>> most_that_any_can(0.0), round(most_that_any_can(0.5), 2)
(0.5, 0.62)

Modules:
* :mod:`.counts` — Attacks on counts: differencing, averaging, reconstruction, and defences that fail
* :mod:`.people` — Attacks on people in published data: linkage, sampling, inexact ratings, membership
* :mod:`.results` — Results of attacks: success rates with intervals, one attack at several epsilons, and the page that
  tells them
* :mod:`.scenarios` — Each attack with its victims, its unprotected twin and the curator, on the example or a project
"""

from __future__ import annotations

from tacit.audit.attacks.counts import (
    Averaging,
    Differencing,
    Reconstruction,
    Subset,
    modular_subsets,
    random_subsets,
    reconstruct,
    reconstruct_under_noise,
)
from tacit.audit.attacks.people import (
    Exposure,
    Learned,
    Linkage,
    Marginal,
    Membership,
    ModelMembership,
    Rating,
    Study,
    blur,
    exposure,
    indicators,
    link,
    link_by_steps,
    link_inexactly,
    made_up_films,
    ridge,
    score_rows,
)
from tacit.audit.attacks.results import Attack, Comparison, Figures, SuccessRate, compare, most_that_any_can

__all__ = [
    "Attack",
    "Averaging",
    "Comparison",
    "Differencing",
    "Exposure",
    "Figures",
    "Learned",
    "Linkage",
    "Marginal",
    "Membership",
    "ModelMembership",
    "Rating",
    "Reconstruction",
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
    "random_subsets",
    "reconstruct",
    "reconstruct_under_noise",
    "ridge",
    "score_rows",
]
