"""Sensitivity: exact formulas under either relation, and measurement over all neighbours.

Each function below returns a :class:`Sensitivity`: the largest l1, l2 and l∞ distance of the statistic's values on
neighbouring databases. All are rationals; the l2 norm, a root, is kept as its exact square.

==================== ================================ =====================================================
statistic            add or remove one                replace one
==================== ================================ =====================================================
count                1                                1
bounded sum          max(|L|, |U|)                    U - L
bounded mean         max(|L|, |U|) / n                (U - L) / n
histogram            l1 = 1, l2 = 1                   l1 = 2, l2 = √2
k counting queries   l1 = k, l2 = √k                  l1 = k, l2 = √k
contributions        l1 = m·b, l2 = √m·b              l1 = 2m·b, l2 = max(√(2m)·b, √m·r)
bounded total        l1 = t, l2 = √(t·b)              l1 = 2t, l2 = √(2t·r)
==================== ================================ =====================================================

Contributions are vectors with one coordinate per group, in which a person appears in at most m groups with values in
[lo, hi]; b = max(|lo|, |hi|), r = hi - lo. In a bounded total their absolute values add up to at most t instead.
:func:`measure_sensitivity` finds the same numbers for *any* function by evaluating all neighbours over a small
universe; the tests of the table use it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, SupportsIndex

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact, exact_nonnegative, round_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation, as_relation, neighbouring_pairs

#: Result of a measured function: one exact number, or a vector of them.
Exact = int | Fraction | Iterable[int | Fraction]


@dataclass(frozen=True)
class Sensitivity:
    """The largest distance between a statistic's values on neighbours, exact in three norms.

    >>> histogram(relation="replace_one").l1, histogram(relation="replace_one").l2_squared
    (Fraction(2, 1), Fraction(2, 1))
    """

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction
    relation: Relation = ADD_REMOVE

    def __post_init__(self) -> None:
        for name in ("l1", "l2_squared", "linf"):
            object.__setattr__(self, name, exact_nonnegative(getattr(self, name), name))
        object.__setattr__(self, "relation", as_relation(self.relation))

    @property
    def l2(self) -> Fraction:
        """The l2 sensitivity: exact where the root is rational, else rounded up in its eighteenth digit."""
        low, high = sqrt_bounds(self.l2_squared)
        return high if low == high else round_up(high)

    def scaled(self, factor: Number) -> Sensitivity:
        """Return the sensitivity of the statistic times ``factor``."""
        times = abs(exact(factor, "factor"))
        return Sensitivity(self.l1 * times, self.l2_squared * times**2, self.linf * times, self.relation)

    def is_within(self, declared: Sensitivity) -> bool:
        """Return whether the relation is that of ``declared`` and no norm exceeds its norms."""
        return (
            self.relation is declared.relation
            and self.l1 <= declared.l1
            and self.l2_squared <= declared.l2_squared
            and self.linf <= declared.linf
        )


class MeasuredSensitivity(NamedTuple):
    """Result of :func:`measure_sensitivity`: the sensitivity, and a pair of neighbours that attains the l1 norm."""

    sensitivity: Sensitivity
    worst: tuple[tuple[Hashable, ...], tuple[Hashable, ...]]


def count(*, relation: Relation | str = ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of the number of people with a property: 1 under either relation."""
    return _scalar(Fraction(1), relation)


def bounded_sum(*, bounds: tuple[Number, Number], relation: Relation | str = ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of the sum of one value per person, each in ``bounds`` = [L, U].

    Add/remove: a value comes or goes, max(|L|, |U|). Replace: one value becomes another, U - L.
    """
    low, high = check_bounds(bounds)
    same_size = as_relation(relation) is not ADD_REMOVE
    return _scalar(high - low if same_size else max(abs(low), abs(high)), relation)


def bounded_total(
    *, total: Number, bounds: tuple[Number, Number], relation: Relation | str = ADD_REMOVE
) -> Sensitivity:
    """Return the sensitivity of a sum of vectors: each person's coordinates in ``bounds``, l1 norm at most ``total``.

    Add/remove: Σ|x| ≤ t, and Σx² ≤ max|x|·Σ|x| ≤ b·t. Replace: the difference of two such vectors has l1 ≤ 2t and
    coordinates of at most r, so that its square is at most 2t·r.

    >>> bounded_total(total=64, bounds=(0, 4)).l2_squared
    Fraction(256, 1)
    """
    low, high = check_bounds(bounds)
    relation, whole = as_relation(relation), exact_nonnegative(total, "total")
    if relation is ADD_REMOVE:
        most = min(max(abs(low), abs(high)), whole)
        return Sensitivity(whole, whole * most, most, relation)
    most = min(high - low, 2 * whole)
    return Sensitivity(2 * whole, 2 * whole * most, most, relation)


def bounded_mean(
    *, bounds: tuple[Number, Number], n: SupportsIndex, relation: Relation | str = Relation.REPLACE_ONE
) -> Sensitivity:
    """Return the sensitivity of a sum of one value per person in [L, U], divided by a *public* number ``n``.

    Replace-one: every neighbour has the same ``n`` people, this is their mean, and it moves by (U - L)/n; for bits by
    1/n. Add/remove: ``n`` cannot be both public and the true size, since neighbours differ in size. The sum over the
    fixed number is bounded, by max(|L|, |U|)/n. The mean over the *true* size moves by up to (U - L)/2 between one
    person and two, whatever n was hoped for: release a noisy sum and a noisy count instead.
    """
    people = check_count(n, "n")
    return bounded_sum(bounds=bounds, relation=relation).scaled(Fraction(1, people))


def histogram(*, bins: SupportsIndex | None = None, relation: Relation | str = ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of counts of people in disjoint bins, one bin (or none) per person.

    Add/remove changes one count by 1. Replace lowers one count and raises another: l1 = 2, l2² = 2. A histogram of
    a single bin (``bins=1``) is a count.
    """
    return contributions(bounds=(1, 1), max_groups=1, groups=bins, relation=relation)


def counting_queries(*, k: SupportsIndex, relation: Relation | str = ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of ``k`` counts that may overlap: one person can change all of them by 1."""
    queries = Fraction(check_count(k, "k"))
    return Sensitivity(queries, queries, Fraction(1), as_relation(relation))


def contributions(
    *,
    bounds: tuple[Number, Number],
    max_groups: SupportsIndex,
    groups: SupportsIndex | None = None,
    relation: Relation | str = ADD_REMOVE,
) -> Sensitivity:
    """Return the sensitivity of a sum of vectors, one coordinate per group, at most ``max_groups`` groups per person.

    Args:
        bounds: [lo, hi], the values a person may have in a group where they appear; elsewhere they add nothing.
        max_groups: m, the largest number of groups per person.
        groups: number of groups, if public; with fewer than 2m of them, two people must share groups.
        relation: which databases are neighbours.

    With b = max(|lo|, |hi|) and r = hi - lo, adding or removing moves m coordinates by b. Replacing one person by
    another moves the coordinates where only one of them appears by b, and those they share by r: with j shared,
    j·r + 2(m - j)·b in l1 and j·r² + 2(m - j)·b² in l2². Both are linear in j, so the worst j is an end of its range.
    """
    low, high = check_bounds(bounds)
    most = check_count(max_groups, "max_groups")
    if groups is not None:
        most = min(most, check_count(groups, "groups"))
    alone, shared = max(abs(low), abs(high)), high - low
    chosen = as_relation(relation)
    if chosen is ADD_REMOVE:
        return Sensitivity(most * alone, most * alone**2, alone, chosen)
    room = 2 * most if groups is None else min(2 * most, check_count(groups, "groups"))
    # j shared groups leave min(2(m - j), groups - j) for one person alone; the kink lies at j = 2m - groups.
    patterns = [(j, min(2 * (most - j), room - j)) for j in {0, 2 * most - room, most}]
    return Sensitivity(
        max(j * shared + single * alone for j, single in patterns),
        max(j * shared**2 + single * alone**2 for j, single in patterns),
        max(alone, shared),
        chosen,
    )


def measure_sensitivity(
    f: Callable[[tuple[Hashable, ...]], Exact],
    universe: Sequence[Hashable],
    n: SupportsIndex | Iterable[int],
    relation: Relation | str,
) -> MeasuredSensitivity:
    """Return the exact sensitivity of ``f`` over all databases of ``n`` records from ``universe`` and all neighbours.

    Args:
        f: takes the rows of a database; returns an exact number (int or Fraction) or a vector of them.
        universe: every possible record, each once.
        n: number of records of the first database of a pair; several sizes such as ``range(4)`` are allowed.
        relation: which databases are neighbours.

    The number of pairs grows like len(universe)^(n+1); three or four records and people usually attain the maximum.

    >>> measure_sensitivity(sum, [0, 3, 5], 2, "replace_one").sensitivity.l1
    Fraction(5, 1)
    """
    sizes = [n] if isinstance(n, SupportsIndex) else n
    chosen = as_relation(relation)
    values: dict[tuple[Hashable, ...], tuple[Fraction, ...]] = {}

    def value(rows: tuple[Hashable, ...]) -> tuple[Fraction, ...]:
        if rows not in values:
            values[rows] = _as_vector(f(rows))
        return values[rows]

    l1 = l2_squared = linf = Fraction(-1)
    worst: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ())
    for size in sizes:
        for left, right in neighbouring_pairs(universe, check_count(size, "n", minimum=0), chosen):
            gaps = _gaps(value(left), value(right))
            if sum(gaps) > l1:
                l1, worst = sum(gaps, Fraction(0)), (left, right)
            l2_squared = max(l2_squared, sum((gap * gap for gap in gaps), Fraction(0)))
            linf = max(linf, max(gaps, default=Fraction(0)))
    if l1 < 0:
        raise InputError("universe", "has no two neighbouring databases of that size")
    return MeasuredSensitivity(Sensitivity(l1, l2_squared, linf, chosen), worst)


def check_bounds(bounds: tuple[Number, Number], parameter: str = "bounds") -> tuple[Fraction, Fraction]:
    """Return a pair (lower, upper) as exact numbers; refuse it if lower exceeds upper."""
    try:
        lower, upper = bounds
    except (TypeError, ValueError):
        raise InputError(parameter, "must be a pair (lower, upper)") from None
    low, high = exact(lower, parameter), exact(upper, parameter)
    if low > high:
        raise InputError(parameter, f"the lower bound {lower} exceeds the upper bound {upper}")
    return low, high


def _scalar(size: Fraction, relation: Relation | str) -> Sensitivity:
    return Sensitivity(size, size**2, size, as_relation(relation))


def _as_vector(value: Exact) -> tuple[Fraction, ...]:
    return tuple(_as_fraction(item) for item in (value if isinstance(value, Iterable) else (value,)))


def _as_fraction(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, SupportsIndex):
        return Fraction(operator.index(value))
    # Floats may be equal where the exact values differ, so a maximum measured with them would prove nothing.
    raise InputError("f", f"must return whole numbers or Fractions, not {type(value).__name__}")


def _gaps(left: tuple[Fraction, ...], right: tuple[Fraction, ...]) -> list[Fraction]:
    if len(left) != len(right):
        raise InputError("f", "must return vectors of one length for every database")
    return [abs(a - b) for a, b in zip(left, right, strict=True)]
