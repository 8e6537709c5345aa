"""OPTIONS of ``SELECT WITH DIFFERENTIAL_PRIVACY``.

Numbers are read exactly from their decimal text and must be constants; an unknown or repeated option is refused rather
than ignored, because an ignored epsilon is a surprise bill.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

__all__ = ["SELECTION_STRATEGIES", "Options"]

#: How private keys may be chosen: BigQuery's words, and Tacit's for the rule itself. PUBLIC_GROUPS insists on public
#: keys.
SELECTION_STRATEGIES = ("AUTO", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD", "TRUNCATED_GEOMETRIC", "PUBLIC_GROUPS")


@dataclass(frozen=True, slots=True)
class Options:
    """Options typed in the SQL text; None where nothing was said.

    Args:
        epsilon: the guarantee of the whole query.
        delta: likewise.
        rho: a zCDP price instead of epsilon.
        max_groups: ``max_groups_contributed``.
        max_rows: ``max_rows_contributed``, the most rows of a unit that count per group.
        group_selection: one of :data:`SELECTION_STRATEGIES`.
        within: half the width of the interval asked for, instead of epsilon.
        max_rows_joined: the most rows of a unit that enter a join which multiplies them, where that is less than the
            tables declare. Not shown: where it decides anything, the relation itself says so.
        confidence: of that interval and of DP_INTERVAL_LOW and DP_INTERVAL_HIGH.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    group_selection: str | None = None
    within: Fraction | None = None
    confidence: Fraction | None = None
    max_rows_joined: int | None = field(default=None, repr=False)
