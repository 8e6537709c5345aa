"""Weights of independent noises in sums of released numbers whose noises depend on each other.

Groups that are estimated from noisy sums of groups (:mod:`tacit.mechanisms.residual_basis`) share the noises of these
sums. A sum of such estimates is a sum of independent noises again once the weights of the groups are carried over to
the levels; sums of several kinds of draws, and two sums at once for a quotient, go the same way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tacit.query.planning.noise_distribution import NoiseLaw
    from tacit.query.postprocess.cells import Draw

#: Kind and scale of a noise, and its weight in each of some sums.
Weighed = tuple[str, Fraction, tuple[Fraction, ...]]


def independent_noises(sums: Sequence[Mapping[Draw, Fraction]], laws: Sequence[NoiseLaw]) -> Counter[Weighed]:
    """Count the independent noises that have the same law and the same weights in all sums.

    Args:
        sums: of draws, each with its weight; the vectors that they are read off are known.
        laws: of the measurements of the draws.
    """
    plain: dict[tuple[int, int, int], list[Fraction]] = {}
    kinds: dict[int, NoiseLaw] = {}
    tables: dict[tuple[int, int], dict[int, list[tuple[int, Fraction]]]] = {}
    for side, weights in enumerate(sums):
        for draw, weight in weights.items():
            law = laws[draw.measure]
            source = -1 if law.source is None else law.source
            kinds[source] = law
            for place, sign in enumerate(law.signs):
                worth = sign * weight * law.unit
                if not worth:
                    continue
                if law.cells is None:
                    own = plain.setdefault((source, place, draw.group), [Fraction(0)] * len(sums))
                    own[side] += worth
                else:
                    tables.setdefault((source, place), {}).setdefault(side, []).append((draw.group, worth))
    found: Counter[Weighed] = Counter()
    for (source, _, _), own in plain.items():
        for kind, scale, weight, number in kinds[source].noises:
            found[kind, scale, tuple(weight * each for each in own)] += number if any(own) else 0
    for (source, _), sides in tables.items():
        found += _of_levels(kinds[source], sides, len(sums))
    return found


def _of_levels(law: NoiseLaw, sides: Mapping[int, Sequence[tuple[int, Fraction]]], count: int) -> Counter[Weighed]:
    """The noises of the levels of one place of a vector."""
    if law.cells is None:
        raise AssertionError("only estimates have levels")
    basis, noises = law.cells.basis, law.cells.noises
    bottom = math.lcm(*(worth.denominator for parts in sides.values() for _, worth in parts))
    levels: list[list[NDArray[Any]]] = []
    for side in range(count):
        # Python's own integers: weights may have long denominators.
        weights = np.zeros(math.prod(basis.sizes), dtype=object)
        for group, worth in sides.get(side, ()):
            weights[group] += worth.numerator * (bottom // worth.denominator)
        levels.append(basis.noise_weights(weights.reshape(basis.sizes)))
    found: Counter[Weighed] = Counter()
    for level, (kind, scale) in enumerate(noises):
        columns = zip(*(side[level].ravel().tolist() for side in levels), strict=True)
        for both, number in Counter(columns).items():
            if any(both):
                found[kind, scale, tuple(Fraction(int(weight), bottom) for weight in both)] += number
    return found
