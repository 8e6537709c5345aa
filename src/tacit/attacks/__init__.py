"""The attacks that show why: on an unprotected twin they succeed, on a curator they are reduced to guessing.

Every attack is a function of plain rows or arrays and of *asks*, callables that answer its questions: one that has no
protection, and some that have a curator behind them. None of them knows what is behind the callable.

``linkage``, ``small_cells``, ``sampling``   nameless rows, tables of counts, a few random rows
``ratings``                                  linkage by what is known inexactly, with a scoring rule
``outsider``                                 what a study tells about a person who is not in it, private or not
``differencing``                             just statistics: differences of totals, and averages of repeated answers
``reconstruction``                           many totals solved like a puzzle
``membership``, ``models``                   who was in the study, which rows trained the model
``collusion``                                many analysts, one table
``naive``                                    protections that do not protect
``comparison``, ``rates``, ``plots``, ``report``   success against epsilon: figures, charts, a page

>>> from tacit.attacks import most_that_any_can
>>> most_that_any_can(0.0), round(most_that_any_can(0.5), 2)
(0.5, 0.62)
"""

from __future__ import annotations

from tacit.attacks.collusion import Collusion, Pooling, pool
from tacit.attacks.comparison import Attack, Comparison, compare, most_that_any_can
from tacit.attacks.differencing import Averaging, Differencing
from tacit.attacks.linkage import Linkage, LinkageProfile, link, link_by_steps
from tacit.attacks.membership import Marginal, Membership, indicators
from tacit.attacks.models import ModelMembership, nearest_neighbour, ridge
from tacit.attacks.outsider import Learned, Study
from tacit.attacks.rates import Rate
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
from tacit.attacks.result import Result
from tacit.attacks.sampling import Exposure, exposure
from tacit.attacks.small_cells import SmallCells

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
    "Rate",
    "Rating",
    "Reconstruction",
    "ReconstructionGrid",
    "Result",
    "SmallCells",
    "Study",
    "Subset",
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
