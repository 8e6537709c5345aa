"""SQL dialect: the interface that each database implements.

The shared modules spell relations, aggregates, windows, casts and functions once. Everything that a database writes or
computes in its own way is a method here. Values live in these columns: BOOLEAN, BIGINT for INTEGER, BIGINT for DECIMAL
(the number without its point), doubles, text, DATE, TIMESTAMP. Holding decimals as integers makes their arithmetic
ours: overflow is a comparison, not an error.

Everything a method returns is SQL that cannot fail for any row, unless it says otherwise.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from tacit.query.types import Kind, SqlType, Value

if TYPE_CHECKING:
    from tacit.engines.sql.scalars import Lowering
    from tacit.query.planning.measures import Measure

#: Sizes of decimals, without their point, stay below this.
DECIMAL_LIMIT = 10**18
_BIGINT = 2**63 - 1


def column(slot: int) -> str:
    """The name of a column of a relation; analysts' names never reach the engine."""
    return f"c{slot}"


class Dialect(ABC):
    """Spelling of one database.

    Class attributes:
        lowerings: one per function of the registry.
        forms: expressions of one line, by the method that fills in its arguments; the other methods are overridden.
        wide: the type of whole numbers beyond 64 bits: 38 digits at least.
        double: the type of doubles.
        text_type: the type of texts.
        materialized: how a WITH clause says that it is computed once.
        longest: longer values are named once by :meth:`let` instead of being written several times.
        ieee_doubles: whether doubles follow IEEE arithmetic, in which nothing fails.
        ranks_heavy_units: whether rows are ranked only for units that have too many of them.
        window_quantiles: whether :meth:`quantile` can stand over a window.
        computes_again: whether the database may compute one side of an EXISTS, or of a join without an equality, again
            for each row of the other. EXISTS is then written as a join, and the sides of such joins are materialized.
        reads_once: whether a WITH clause that is materialized is computed once for all of its readers.
    """

    lowerings: ClassVar[Mapping[str, Lowering]]
    forms: ClassVar[Mapping[str, str]]
    wide: ClassVar[str]
    double: ClassVar[str] = "DOUBLE"
    text_type: ClassVar[str] = "VARCHAR"
    materialized: ClassVar[str] = "AS MATERIALIZED"
    longest: ClassVar[int] = 120
    ieee_doubles: ClassVar[bool] = False
    ranks_heavy_units: ClassVar[bool] = False
    window_quantiles: ClassVar[bool] = True
    computes_again: ClassVar[bool] = False
    reads_once: ClassVar[bool] = True

    # -- writing

    def storage(self, kind: SqlType) -> str:
        """The type in which values of a type are held."""
        match kind.kind:
            case Kind.BOOLEAN:
                return "BOOLEAN"
            case Kind.DOUBLE:
                return self.double
            case Kind.TEXT:
                return self.text_type
            case Kind.DATE:
                return "DATE"
            case Kind.TIMESTAMP:
                return self.timestamp_type
            case _:
                return "BIGINT"

    @property
    def timestamp_type(self) -> str:
        """The type of timestamps, which know no zone."""
        return "TIMESTAMP"

    def quoted(self, name: str) -> str:
        """A name of the data source as an identifier."""
        if "\0" in name:
            raise ValueError("a name cannot hold NUL")
        return '"' + name.replace('"', '""') + '"'

    @abstractmethod
    def text(self, value: str) -> str:
        """A text constant."""

    def constant(self, value: Value | None, kind: SqlType) -> str:
        """A constant, typed."""
        if value is None:
            return f"CAST(NULL AS {self.storage(kind)})"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dt.datetime):
            return f"{self.timestamp_type} '{value.isoformat(' ')}'"
        if isinstance(value, dt.date):
            return f"DATE '{value.isoformat()}'"
        if kind.kind is Kind.DOUBLE:
            return self.number(float(value))
        # Lists of keys hold thousands of whole numbers; fractions take their time.
        whole = (value if isinstance(value, int) else Fraction(value)) * 10**kind.scale
        return f"CAST({int(whole)} AS BIGINT)"

    def number(self, value: float) -> str:
        """A double, exactly."""
        return f"CAST('{value!r}' AS {self.double})"

    def derived(self, query: str) -> str:
        """A query after FROM, where nothing refers to it by name."""
        return f"({query})"

    def fenced(self, query: str) -> str:
        """A query after FROM whose columns are computed once; some planners write them out where they are read."""
        return self.derived(query)

    def settled(self, query: str) -> str:
        """The same query, with constant columns that no planner writes into the expressions above.

        For planners that compute these before any row, and past the CASE that guards them.
        """
        return query

    def kept_apart(self, query: str) -> str:
        """The same query, into which no planner moves an EXISTS; for planners that lose their way in a union."""
        return query

    @abstractmethod
    def bound(self, value: str, body: Callable[[str], str]) -> str:
        """``body`` of a value that is computed and written once."""

    def let(self, value: str, body: Callable[[str], str]) -> str:
        """``body`` of a value it uses several times; long values are computed and written once."""
        if len(value) <= self.longest:
            return "(" + body(f"({value})") + ")"
        return self.bound(value, body)

    # -- whole numbers

    def whole_type(self, largest: int) -> str:
        """The type for whole numbers up to a size."""
        return "BIGINT" if largest <= _BIGINT else self.wide

    def huge(self, value: str, factor: int = 1) -> str:
        """A whole number in the wide type, times a power of ten."""
        wide = f"CAST({value} AS {self.wide})"
        return wide if factor == 1 else f"{wide} * {factor}"

    @abstractmethod
    def divided(self, left: str, right: str, *, wide: bool) -> str:
        """Of whole numbers, towards zero; ``wide`` says that the left one is of the wide type."""

    def fit_integer(self, value: str) -> str:
        """A wide whole number as BIGINT, NULL where it does not fit."""
        return self.forms["fit_integer"].format(value)

    def whole_operation(self, operator: str, left: str, right: str) -> str:
        """``+``, ``-`` or ``*`` of two whole numbers, as BIGINT; NULL where it does not fit."""
        return self.fit_integer(f"({self.huge(left)}) {operator} ({self.huge(right)})")

    def unguarded(self) -> Self:
        """The same dialect for whole numbers that are so small that no result can leave 64 bits.

        Casts to wide numbers take many times as long.
        """
        found = copy(self)
        found.whole_operation = lambda operator, left, right: f"({left} {operator} {right})"  # type: ignore[method-assign]
        return found

    def fit_decimal(self, value: str) -> str:
        """A wide whole number as a DECIMAL without its point, NULL where it does not fit."""
        limit = DECIMAL_LIMIT - 1
        return self.let(value, lambda v: f"CASE WHEN {v} BETWEEN -{limit} AND {limit} THEN CAST({v} AS BIGINT) END")

    def total(self, value: str, largest: int | None = None) -> str:  # noqa: ARG002 - some need it
        """An aggregate: the sum of any number of whole numbers of at most ``largest`` in size, or of 64 bits."""
        return f"sum({value})"

    def flag(self, condition: str, kind: str = "BIGINT") -> str:
        """1 for true, 0 for false, NULL for NULL."""
        return f"CAST({condition} AS {kind})"

    # -- doubles

    def is_finite(self, value: str) -> str:
        """Whether a double is neither infinite nor NaN."""
        return self.forms["is_finite"].format(value)

    def finite(self, value: str) -> str:
        """A DOUBLE, NULL where it is not finite, and 0.0 for -0.0."""
        return self.let(value, lambda v: f"CASE WHEN {self.is_finite(v)} THEN {v} + {self.number(0.0)} END")

    def double_operation(self, operator: str, left: str, right: str) -> str:
        """``+``, ``-``, ``*``, ``/`` or ``%`` of finite doubles, finished: NULL where it is not finite, and no -0.0."""
        return self.finite(f"{left} {operator} {right}")

    def product(self, left: str, right: str) -> str:
        """Of doubles, where it may be infinite, or NULL instead."""
        return f"{left} * {right}"

    def double_to_integer(self, value: str) -> str:
        """A double as BIGINT, half to even, NULL where it does not fit."""
        return self.forms["double_to_integer"].format(value)

    def double_to_wide(self, value: str) -> str:
        """A whole double in the wide type, or NULL; exact for all below 2^64 in size."""
        return self.forms["double_to_wide"].format(value)

    def rounded(self, value: str) -> str:
        """A double to a whole one, half away from zero."""
        return f"round({value})"

    def cut(self, value: str) -> str:
        """A double to a whole one, towards zero."""
        return f"trunc({value})"

    @abstractmethod
    def double_steps(self, value: str, measure: Measure) -> str:
        """Number of steps of a double, as :mod:`~tacit.engines.sql.bounding` says; NULL if it is not finite."""

    # -- text

    def matches(self, value: str, pattern: str) -> str:
        """Whether all of a text has the form of a regular expression: sets, groups and counts only."""
        return self.forms["matches"].format(value, pattern)

    def read_integer(self, value: str) -> str:
        """A text of the form of a number as BIGINT, half away from zero, NULL where it does not fit."""
        return self.forms["read_integer"].format(value)

    @abstractmethod
    def read_decimal(self, value: str, scale: int) -> str:
        """The same as a DECIMAL without its point."""

    def read_double(self, value: str) -> str:
        """The same as the nearest double; NULL or infinite where there is none."""
        return self.forms["read_double"].format(value)

    def read_date(self, value: str) -> str:
        """A text ``dddd-dd-dd`` as DATE, NULL where there is no such day; years from 1 on."""
        return self.forms["read_date"].format(value)

    def read_timestamp(self, value: str) -> str:
        """A text of the form of a timestamp as TIMESTAMP, NULL where there is none; years from 1 on."""
        return self.forms["read_timestamp"].format(value)

    def show(self, value: str, kind: SqlType) -> str:  # noqa: ARG002 - some need it
        """A whole number, date or timestamp as text."""
        return f"CAST({value} AS {self.text_type})"

    def trimmed(self, value: str) -> str:
        """Without spaces at both ends."""
        return self.forms["trimmed"].format(value)

    # -- times

    def days(self, value: str) -> str:
        """A DATE as days since 1970, BIGINT."""
        return self.forms["days"].format(value)

    def microseconds(self, value: str) -> str:
        """A TIMESTAMP as microseconds since 1970, BIGINT."""
        return self.forms["microseconds"].format(value)

    def day_of(self, days: str) -> str:
        """Days since 1970, within the years 1 to 9999, as DATE."""
        return self.forms["day_of"].format(days)

    def moment_of(self, microseconds: str) -> str:
        """Microseconds since 1970, within the years 1 to 9999, as TIMESTAMP."""
        return self.forms["moment_of"].format(microseconds)

    @abstractmethod
    def part(self, name: str, value: str, kind: SqlType) -> str:
        """A part of a date or timestamp as BIGINT, by the name it has in the registry."""

    @abstractmethod
    def truncated(self, unit: str, value: str, kind: SqlType) -> str:
        """The start of the unit, in the same type."""

    @abstractmethod
    def months_later(self, value: str, months: str, kind: SqlType) -> str:
        """Moved by at most 10,000 years of months, cut at the month's end; NULL beyond the years 1 to 9999."""

    def made_date(self, year: str, month: str, day: str) -> str:
        """A DATE of three BIGINTs, NULL where there is no such day."""

        def digits(value: str, most: int) -> str:
            kind = self.text_type
            shown = self.let(value, lambda v: f"CASE WHEN {v} BETWEEN 1 AND {most} THEN CAST({v} AS {kind}) END")
            return f"lpad({shown}, {len(str(most))}, '0')"

        written = " || '-' || ".join((digits(year, 9999), digits(month, 12), digits(day, 31)))
        return self.forms["read_day"].format(written)

    def last_day(self, value: str, kind: SqlType) -> str:  # noqa: ARG002 - some need it
        """The last day of the month."""
        return self.forms["last_day"].format(value)

    # -- aggregates

    def collected(self, value: str, condition: str) -> str:
        """An aggregate: the doubles for which a condition holds, as a sorted list."""
        return self.forms["collected"].format(value, condition)

    def list_size(self, values: str) -> str:
        """Length of a list."""
        return self.forms["list_size"].format(values)

    def list_sum(self, values: str) -> str:
        """Their sum from the first to the last, one after the other; NULL for none, NULL or infinite for overflow."""
        return self.forms["list_sum"].format(values)

    def list_mean(self, values: str) -> str:
        """Their sum divided by their number, likewise."""
        return self.forms["list_mean"].format(values)

    def list_squares(self, values: str, mean: str, less: int) -> str:
        """The sum of (e - mean)·(e - mean) in that order, divided by their number less some, likewise."""
        return self.forms["list_squares"].format(values, mean, less)

    @abstractmethod
    def quantile(self, value: str, fraction: float, where: str, over: str) -> str:
        """An aggregate: the continuous quantile of doubles; not finite or NULL where it overflows."""

    def extreme(self, name: str, value: str, kind: SqlType) -> str:  # noqa: ARG002 - some need it
        """``min`` or ``max``."""
        return f"{name}({value})"

    # -- choosing

    def xor(self, left: str, right: str) -> str:
        """Of the bits of two BIGINTs."""
        return self.forms["xor"].format(left, right)

    def hexadecimal(self, digits: str) -> str:
        """Seven hexadecimal digits as BIGINT."""
        return self.forms["hexadecimal"].format(digits)

    @abstractmethod
    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:
        """The number, from 0, of a value among constants; NULL for others. NULL is found if it is among them."""

    def place_among(self, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
        """The same from the values themselves."""
        return self.position(value, [self.constant(item, kind) for item in values], kind)

    def numbered_copies(self, columns: str, count: str, source: str) -> str:
        """A query: each row of a source, whose ``count`` is a BIGINT, as many times; ``j`` counts them from 1."""
        return self.forms["numbered_copies"].format(columns, count, source)
