"""Integer measurements behind aggregates, with their sensitivities and the limits of one unit's contribution.

A measurement is one integer per group (or one per group and leaf, or per group and category): a sum over units of a
small integer vector that depends on one unit's rows alone. Per (unit, group), with q(x) = floor(x / step + 1/2) after
clamping x so that low ≤ q(x) ≤ high, and n the number of values that count (rows where the FILTER holds and the
argument is not NULL):

=============== ========================================================== ==========================================
kind            value                                                      then clamped to
=============== ========================================================== ==========================================
UNITS           1 if any row counts                                        [0, 1]
ROWS            rows that count                                            [0, rows]
VALUES          n                                                          [0, rows]
DISTINCT        the unit's distinct values, at most ``rows`` kept by       a set; the group's measurement is the size
                keyed hash                                                 of the union over units
DISTINCT_SUM    the same set                                               the group's measurement is Σ (q(x) - centre)
                                                                           over the union
SUM             Σ q(x)                                                     ``clamp``
CENTRED_SUM     Σ (q(x) - centre), times rows/n (rounded) if n > rows      ``clamp``
CENTRED_SQUARES Σ (q(x) - centre)², times rows/n (rounded) if n > rows     ``clamp``
LEAVES          one count per leaf of width ``leaf`` over [low, high], of  [0, rows] in each leaf and in all together
                at most ``rows`` values kept by keyed hash
PLACES          the same counts, for quantiles: as many leaves as the      likewise
                range has steps (2²⁰ at most), listed where not 0
CATEGORIES      one count per declared category, likewise                  [0, rows] in each and in all together
=============== ========================================================== ==========================================

Scaling a heavy contributor down (instead of only clamping the total) keeps that unit's mean, and is a function of the
unit's own rows, so it changes no sensitivity.

Sensitivity: see :func:`tacit.core.sensitivity.contributions`, with ``clamp`` as the values a unit may have in a group.

*Contribution bounds* limit the number of groups of a unit that count (``max_groups``), and of its rows in each group
(``max_rows``).

The owner of a table declares both; they bound a query that states neither (the largest, if it reads several tables). A
query may state any other numbers: the noise follows them, so that the guarantee needs no cap (``docs/semantics.md``,
section 6). An owner may still set a ceiling as policy, and a query that states more is refused; of several ceilings the
smallest counts. A query may always state less than the declared number.

Either may be AUTO, declared or stated: the number is found privately, within the cost of the query
(:mod:`tacit.query.planning.auto_limits`), and never exceeds the ceiling.

If declarations imply that a unit is in one group, or has one row in each, the bound is 1 whatever is stated: bounding
enforces it on any data, and a larger number would only add noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Final, NamedTuple

from tacit.core.errors import InternalError
from tacit.core.relations import ADD_REMOVE
from tacit.core.relations import Relation as Neighbouring
from tacit.core.sensitivity import Sensitivity, contributions
from tacit.query.contribution import AUTO, ContributionNumber
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, scans
from tacit.query.relational.expressions import Expression, text_of
from tacit.query.types import Kind, SqlType, Value

#: Largest number of leaves over which quantiles are searched; finer grids are merged into that many.
MAX_LEAVES = 1024
#: Largest number of places among which quantiles are drawn.
MAX_PLACES = 1 << 20
#: A DOUBLE is rounded to a power of two about this many times finer than the largest value that counts.
_RELATIVE_GRID = 2**20
#: Row values without bounds are clamped to this, in steps, before their total is clamped to stated bounds.
UNBOUNDED = 2**52


class _Traits(NamedTuple):
    """Properties of a kind of measurement.

    Args:
        sentence: the contribution of one unit, as text after "one unit", with {low} and {high} for the clamp.
        adds_values: whether values are added up, so that 62 bits may be too few; otherwise rows or values are counted.
        spread: whether a group has several integers: one per leaf or category.
        own_statement: whether an engine runs a separate statement for it.
        power: power of a value's bounds with which the measurement grows.
        unites: whether it counts the union of the units' values, each distinct value once.
    """

    sentence: str
    adds_values: bool = False
    spread: bool = False
    own_statement: bool = False
    power: int = 0
    unites: bool = False


class MeasureKind(Enum):
    """Kind of a measurement; see the table of the module."""

    traits: _Traits

    def __new__(cls, value: str, traits: _Traits) -> MeasureKind:
        """Return the member with a value, and with its properties as an attribute."""
        kind = object.__new__(cls)
        kind._value_ = value
        kind.traits = traits
        return kind

    UNITS = "units", _Traits("counts once per group")
    ROWS = "rows", _Traits("counts in a group with at most {high} rows")
    VALUES = "values", _Traits("counts in a group with at most {high} values")
    DISTINCT = (
        "distinct",
        _Traits("adds at most {high} distinct values to a group", own_statement=True, unites=True),
    )
    DISTINCT_SUM = (
        "distinct_sum",
        _Traits(
            "adds distinct values of between {low} and {high} steps together, counted from the centre, to a group",
            own_statement=True,
            unites=True,
        ),
    )
    SUM = "sum", _Traits("adds between {low} and {high} steps to a group", adds_values=True, power=1)
    CENTRED_SUM = (
        "centred_sum",
        _Traits("adds between {low} and {high} steps, counted from the centre, to a group", adds_values=True, power=1),
    )
    CENTRED_SQUARES = (
        "centred_squares",
        _Traits("adds at most {high} squared steps to a group", adds_values=True, power=2),
    )
    LEAVES = (
        "leaves",
        _Traits("adds at most {high} values to the leaves of a group", spread=True, own_statement=True),
    )
    PLACES = (
        "places",
        _Traits("adds at most {high} values to the places of a group", spread=True, own_statement=True),
    )
    CATEGORIES = (
        "categories",
        _Traits("adds at most {high} values to the categories of a group", spread=True, own_statement=True),
    )


#: Kinds of aggregates that planning refers to by name: counts of rows, values and units; the categories of a search.
COUNT_ROWS: Final = "count_rows"
COUNT_VALUES: Final = "count_values"
COUNT_UNITS: Final = "count_units"
MOST_COMMON: Final = "most_common"


@dataclass(frozen=True, slots=True)
class Measure:
    """One integer measurement; a pure value, so that equal measurements are taken and charged once.

    Args:
        kind: see the table of the module.
        argument: the expression x over the source; None for ROWS and UNITS.
        where: the FILTER condition; None when every row counts.
        step: the value of one step, in ordinals of the argument (days for dates).
        low: the smallest row value in steps.
        high: the largest row value in steps.
        centre: the public midpoint, in steps; 0 unless centred.
        clamp: the values a unit may have in a group, in steps (in squared steps for CENTRED_SQUARES); 0, which
            a unit without rows has, is one of them.
        rows: the most rows of a unit that count in a group.
        leaf: width of one leaf or place in steps; 0 unless LEAVES or PLACES.
        width: number of integers per group; 1 unless LEAVES, PLACES or CATEGORIES.
        categories: the declared values; empty unless CATEGORIES.
        auto: whether the analyst wrote ``CLAMP(x, AUTO)``: low and high stand for bounds that are found privately
            (:mod:`tacit.query.planning.auto_bounds`), or were.
        auto_rows: whether ``rows`` and ``clamp`` follow a ``max_rows`` that is found privately
            (:mod:`tacit.query.planning.auto_limits`), or was; they stand for one row until then.
    """

    kind: MeasureKind
    argument: Expression | None
    where: Expression | None
    step: Fraction
    low: int
    high: int
    centre: int
    clamp: tuple[int, int]
    rows: int
    leaf: int = 0
    width: int = 1
    categories: tuple[Value | None, ...] = ()
    auto: bool = False
    auto_rows: bool = False

    def __post_init__(self) -> None:
        if not self.clamp[0] <= 0 <= self.clamp[1]:
            raise InternalError(f"a unit without rows has 0, which is not in {self.clamp}")

    def of_rows(self, rows: int) -> Measure:
        """Return this measurement of one row, for at most ``rows`` rows: every clamp is a multiple of ``rows``."""
        return replace(self, rows=rows, clamp=(rows * self.clamp[0], rows * self.clamp[1]))

    @property
    def reach(self) -> int:
        """The largest distance of a row value from the centre, in steps."""
        return max(self.high - self.centre, self.centre - self.low)

    @property
    def per_row(self) -> int | None:
        """Largest absolute value that one row adds; None if the clamp does not follow from the number of rows."""
        low, high, square = self.low - self.centre, self.high - self.centre, self.kind is MeasureKind.CENTRED_SQUARES
        if self.kind in (MeasureKind.ROWS, MeasureKind.VALUES):
            row = (0, 1)
        elif self.kind.traits.adds_values:
            row = (0, max(low**2, high**2)) if square else (min(0, low), max(0, high))
        else:
            return None
        return max(-row[0], row[1]) if self.clamp == (self.rows * row[0], self.rows * row[1]) and any(row) else None

    @property
    def unit_of_value(self) -> Fraction:
        """Value of one step of the released integer: ``step``, or its square for squares."""
        return self.step**2 if self.kind is MeasureKind.CENTRED_SQUARES else self.step

    def sensitivity(
        self, *, max_groups: int, relation: Neighbouring | str = ADD_REMOVE, groups: int | None = None
    ) -> Sensitivity:
        """Bound the change of the vector of all groups by one unit.

        A unit's counts in one group of LEAVES or CATEGORIES add up to at most ``rows``, so under add/remove the worst
        case is that all of them are in one leaf. A unit and its replacement may be in different leaves of one group, so
        under replace-one each leaf counts as a group, and a small number of groups does not tighten the bound.
        """
        # A public number of groups tightens the bound only if a unit cannot spread within a group.
        known = None if self.kind.traits.spread else groups
        return contributions(bounds=self.clamp, max_groups=max_groups, groups=known, relation=relation)

    @property
    def text(self) -> str:
        """Canonical text."""
        what = "*" if self.argument is None else text_of(self.argument)
        where = "" if self.where is None else f" where {text_of(self.where)}"
        numbers = (
            f"{self.step} {self.low}..{self.high} @{self.centre} {self.clamp} {self.rows} {self.leaf}x{self.width}"
        )
        sought = (" auto" if self.auto else "") + (" auto rows" if self.auto_rows else "")
        return f"{self.kind.value}({what}{where}) [{numbers} {self.categories!r}{sought}]"


def count_measure(
    kind: MeasureKind,
    argument: Expression | None,
    where: Expression | None,
    *,
    rows: int,
    clamp: tuple[int, int] | None = None,
) -> Measure:
    """Return a UNITS, ROWS, VALUES or DISTINCT measurement; ``clamp`` replaces [0, rows]."""
    most = 1 if kind is MeasureKind.UNITS else rows
    limits = clamp or (0, most)
    return Measure(kind, argument, where, Fraction(1), 0, 1, 0, limits, 1 if kind is MeasureKind.UNITS else limits[1])


def sum_measure(
    kind: MeasureKind,
    argument: Expression,
    where: Expression | None,
    *,
    bounds: tuple[Fraction, Fraction] | None,
    step: Fraction,
    rows: int,
    total: tuple[Fraction, Fraction] | None = None,
    centred: bool = True,
) -> Measure:
    """Return a sum of a value in ``bounds``: plain, centred, of squares or of distinct values.

    ``total`` gives the bounds of a SUM per group. A sum of distinct values is centred if a mean is computed from it.
    """
    low, high = (-UNBOUNDED, UNBOUNDED) if bounds is None else (quantise(bounds[0], step), quantise(bounds[1], step))
    centre = 0 if kind is MeasureKind.SUM or not centred else (low + high) // 2
    if kind is MeasureKind.CENTRED_SQUARES:
        limits = (0, rows * max((low - centre) ** 2, (high - centre) ** 2))
    elif total is not None:
        limits = (min(0, quantise(total[0], step)), max(0, quantise(total[1], step)))
    else:
        limits = (min(0, rows * (low - centre)), max(0, rows * (high - centre)))
    if limits == (0, 0):
        # A constant has no sensitivity, but a release needs a scale; one step is the smallest there is.
        limits = (0, 1)
    return Measure(kind, argument, where, step, low, high, centre, limits, rows)


def leaves_measure(
    kind: MeasureKind,
    argument: Expression,
    where: Expression | None,
    *,
    bounds: tuple[Fraction, Fraction],
    step: Fraction,
    rows: int,
) -> Measure:
    """Return LEAVES or PLACES: counts over at most MAX_LEAVES or MAX_PLACES leaves of equal width in [low, high]."""
    low, high = quantise(bounds[0], step), quantise(bounds[1], step)
    leaf = -(-(high - low + 1) // (MAX_PLACES if kind is MeasureKind.PLACES else MAX_LEAVES))
    width = -(-(high - low + 1) // leaf)
    return Measure(kind, argument, where, step, low, high, 0, (0, rows), rows, leaf, width)


def categories_measure(
    argument: Expression, where: Expression | None, *, values: tuple[Value | None, ...], rows: int
) -> Measure:
    """Return counts of each of the public ``values`` of ``argument``, without NULL, as in SQL."""
    listed = tuple(value for value in values if value is not None)
    one = Fraction(1)
    return Measure(MeasureKind.CATEGORIES, argument, where, one, 0, 1, 0, (0, rows), rows, 0, len(listed), listed)


def quantise(value: Fraction, step: Fraction) -> int:
    """Return q(x) = floor(x / step + 1/2), exactly."""
    return (value / step + Fraction(1, 2)).__floor__()


def grid_step(declared: Fraction | None, kind: SqlType, bounds: tuple[Fraction, Fraction]) -> Fraction:
    """Return the public step of a value: the declared grid, or for DOUBLE a power of two well below the largest bound.

    A declared grid finer than 2^-40 of the bounds would make integers too wide to add up safely: decimals then lose
    their last digits.
    """
    largest = max(abs(bounds[0]), abs(bounds[1]))
    known = declared if declared is not None else kind.step
    if known is not None and largest <= known * 2**40:
        return known
    if kind.kind is Kind.INTEGER or kind.is_temporal:
        return Fraction(1)
    if kind.kind is Kind.DECIMAL and known is not None:
        while largest > known * 2**40:
            known *= 10
        return known
    return _power_of_two_below(largest / _RELATIVE_GRID) if largest else Fraction(1)


def _power_of_two_below(value: Fraction) -> Fraction:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= value else power / 2


#: Nouns of the limits in messages.
_NOUNS: Final = {"max_groups": "group", "max_rows": "row"}


@dataclass(frozen=True, slots=True)
class ContributionLimit:
    """One contribution bound, ``max_groups``, ``max_rows`` or ``max_rows_total``, with its origin.

    Args:
        name: its name.
        declared: the number, or AUTO, for a query that states none.
        single: whether it is 1 whatever is stated.
        stated: the number, or AUTO, that the query states; None for none.
        most: the owner's ceiling; None for none.
        found: the number that AUTO found; None before the search.
        default: whether ``stated`` is the public default that ``within`` takes for AUTO.
    """

    name: str
    declared: ContributionNumber
    single: bool = False
    stated: ContributionNumber | None = None
    most: int | None = None
    found: int | None = None
    default: bool = False

    @property
    def asked(self) -> ContributionNumber:
        """The number in force, or AUTO."""
        return 1 if self.single else self.declared if self.stated is None else self.stated

    @property
    def is_auto(self) -> bool:
        """Whether AUTO is in force, before or after the search."""
        return self.asked == AUTO

    @property
    def number(self) -> int:
        """The number in force; for AUTO the number found, and 1 before the search."""
        asked = self.asked
        return (self.found or 1) if isinstance(asked, str) else asked

    def among(self, groups: int | None) -> int:
        """Return the number in force, at most ``groups``, the number of public groups; None for private groups."""
        return self.number if groups is None else min(self.number, max(groups, 1))

    def stating(self, number: ContributionNumber | None, source: RelationNode) -> ContributionLimit:
        """Return this limit with the number that a query states.

        Raises:
            Refusal: the number is more than the owner of a table that is read allows.
        """
        found = ceiling(source, self.name)
        most = None if found is None else found[0] if isinstance(self.declared, str) else max(found[0], self.declared)
        if most is not None and found is not None and isinstance(number, int) and number > most:
            cap, table = found
            raise Refusal(
                "option",
                f"{self.name} = {number} is more than the {cap} {_NOUNS[self.name]}{'s' if cap > 1 else ''} of one "
                f"person that the owner of {table} allows; state at most {most}, or leave it out.",
            )
        return replace(self, stated=self.stated if number is None else number, most=most)

    def words(self, used: int) -> str:
        """Describe the number in use and its origin."""
        if self.default:
            return f"{self.name} {used} (the default: with within, AUTO searches nothing)"
        if self.is_auto:
            said = "declared" if self.stated is None else "stated"
            if self.found is None:
                return f"{self.name} AUTO ({said}: found privately within the cost)"
            return f"{self.name} {used} (found: AUTO {said})"
        parts = [] if self.stated is None else ["stated" if self.stated == used else f"{_shown(self.stated)} stated"]
        if self.single:
            anyway = "" if self.stated in (None, used) else " anyway"
            parts.append(
                ("a unit is in one group" if self.name == "max_groups" else "a unit has one row in each") + anyway
            )
        else:
            parts.append("declared" if self.declared == used and not parts else f"{_shown(self.declared)} declared")
            if used < self.number:
                parts.append(f"there are {used} groups")
        return f"{self.name} {used} ({', '.join(parts)})"


def _shown(number: ContributionNumber) -> str:
    return str(number).upper()


@dataclass(frozen=True, slots=True)
class ContributionLimits:
    """Contribution bounds of a final aggregation.

    Args:
        groups: ``max_groups``.
        rows: ``max_rows``.
        total: ``max_rows_total``; None without a bound on all groups together.
        both: whether AUTO finds ``max_rows`` beside ``max_rows_total``.
    """

    groups: ContributionLimit
    rows: ContributionLimit
    total: ContributionLimit | None = None
    both: bool = False

    def found(self, groups: int | None, rows: int | None, total: int | None = None) -> ContributionLimits:
        """Return these limits with the numbers that AUTO found; None for a limit that was not searched."""
        found = replace(self, groups=replace(self.groups, found=groups), rows=replace(self.rows, found=rows))
        return found if self.total is None else replace(found, total=replace(self.total, found=total))


def ceiling(source: RelationNode, name: str) -> tuple[int, str] | None:
    """Return the smallest ceiling among the protected tables of a relation, with its table; None without a ceiling."""
    found = [
        (most, scan.table)
        for scan in scans(source)
        if not scan.is_public and (most := getattr(scan, f"{name}_limit")) is not None
    ]
    return min(found, default=None)
