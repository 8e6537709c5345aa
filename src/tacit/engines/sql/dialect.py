"""SQL dialect: the interface that each database implements.

The shared modules write relations, aggregates, windows, casts and functions once for all databases. Everything that a
database writes or computes in its own way is a method here. Values are stored in these column types: BOOLEAN, BIGINT
for INTEGER, BIGINT for DECIMAL (the number without its decimal point), DOUBLE, text, DATE, TIMESTAMP. Because decimals
are stored as integers, their overflow is a comparison that Tacit writes, not an error of the database.

Every method returns SQL text; the SQL cannot fail for any row, unless the docstring says otherwise.
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

#: Exclusive bound of the absolute value of a DECIMAL without its point.
DECIMAL_LIMIT = 10**18
_BIGINT = 2**63 - 1


def column(slot: int) -> str:
    """Return the name of a column of a relation; analysts' names never reach the engine."""
    return f"c{slot}"


class Template(str):
    """SQL of an operation with places for its arguments."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> str:
        """Fill in the arguments; further ones are ignored."""
        return self.format(*arguments)


class Dialect(ABC):
    """SQL dialect of one database.

    Class attributes:
        lowerings: by name of a registry function, the Python function that writes its calls as SQL.
        wide: SQL type of integers beyond 64 bits: at least 38 digits.
        double: SQL type of doubles.
        text_type: SQL type of texts.
        materialized: keywords that make a WITH clause be computed once.
        longest: number of characters above which :meth:`let` names a value instead of repeating it.
        ieee_doubles: whether doubles follow IEEE arithmetic, in which no operation fails.
        ranks_heavy_units: whether rows are ranked only for units that have too many of them.
        window_quantiles: whether :meth:`quantile` can stand over a window.
        computes_again: whether the database may compute one side of an EXISTS, or of a join without an equality, again
            for each row of the other. EXISTS is then written as a join, and the sides of such joins are materialized.
        reads_once: whether a materialized WITH clause is computed once for all subqueries that read it.
    """

    lowerings: ClassVar[Mapping[str, Lowering]]
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
        """Return the SQL type in which values of a type are stored."""
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
        """SQL type of timestamps without time zone."""
        return "TIMESTAMP"

    def quoted(self, name: str) -> str:
        """Return a name of the data source as a quoted identifier."""
        if "\0" in name:
            raise ValueError("a name cannot hold NUL")
        return '"' + name.replace('"', '""') + '"'

    @abstractmethod
    def text(self, value: str) -> str:
        """Return a text constant."""

    def constant(self, value: Value | None, kind: SqlType) -> str:
        """Return a typed constant."""
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
        # Key lists hold thousands of integers, for which Fraction is slow.
        whole = (value if isinstance(value, int) else Fraction(value)) * 10**kind.scale
        return f"CAST({int(whole)} AS BIGINT)"

    def number(self, value: float) -> str:
        """Return a constant that is exactly this double."""
        return f"CAST('{value!r}' AS {self.double})"

    def derived(self, query: str) -> str:
        """Return a subquery for FROM to which no expression refers by name."""
        return f"({query})"

    def fenced(self, query: str) -> str:
        """Return a subquery for FROM whose columns are computed once; some planners inline them where they are read."""
        return self.derived(query)

    def settled(self, query: str) -> str:
        """Return the query, protecting its constant columns from being inlined into the expressions above it.

        For planners that evaluate inlined constants before any row, and outside the CASE that guards them.
        """
        return query

    def kept_apart(self, query: str) -> str:
        """Return the query so that no planner moves an EXISTS into it: some planners fail on EXISTS over a union."""
        return query

    @abstractmethod
    def bound(self, value: str, body: Callable[[str], str]) -> str:
        """Return ``body`` applied to a name for ``value``, which is computed and written once."""

    def let(self, value: str, body: Callable[[str], str]) -> str:
        """Return ``body`` applied to ``value``; a long value is computed and written once, and passed by name."""
        if len(value) <= self.longest:
            return "(" + body(f"({value})") + ")"
        return self.bound(value, body)

    # -- whole numbers

    def whole_type(self, largest: int) -> str:
        """Return the SQL type of integers up to ``largest`` in absolute value."""
        return "BIGINT" if largest <= _BIGINT else self.wide

    def huge(self, value: str, factor: int = 1) -> str:
        """Return an integer in the wide type, multiplied by ``factor``."""
        wide = f"CAST({value} AS {self.wide})"
        return wide if factor == 1 else f"{wide} * {factor}"

    @abstractmethod
    def divided(self, left: str, right: str, *, wide: bool) -> str:
        """Return the quotient of two integers, truncated towards zero; ``wide``: whether ``left`` has the wide type."""

    #: A wide integer as BIGINT, NULL where it does not fit.
    fit_integer: Callable[[str], str]

    def whole_operation(self, operator: str, left: str, right: str) -> str:
        """Return ``+``, ``-`` or ``*`` of two integers as BIGINT, NULL where the result does not fit."""
        return self.fit_integer(f"({self.huge(left)}) {operator} ({self.huge(right)})")

    def unguarded(self) -> Self:
        """Return a copy of this dialect without overflow checks, for integers whose results always fit 64 bits.

        Casts to wide numbers take many times as long.
        """
        found = copy(self)
        found.whole_operation = lambda operator, left, right: f"({left} {operator} {right})"  # type: ignore[method-assign]
        return found

    def fit_decimal(self, value: str) -> str:
        """Return a wide integer as a DECIMAL without its point, NULL where it does not fit."""
        limit = DECIMAL_LIMIT - 1
        return self.let(value, lambda v: f"CASE WHEN {v} BETWEEN -{limit} AND {limit} THEN CAST({v} AS BIGINT) END")

    def total(self, value: str, largest: int | None = None) -> str:  # noqa: ARG002 - some need it
        """Return the SUM of any number of integers, each at most ``largest`` in size, or any BIGINT if that is None."""
        return f"sum({value})"

    def flag(self, condition: str, kind: str = "BIGINT") -> str:
        """Return a condition as a number: 1 for true, 0 for false, NULL for NULL."""
        return f"CAST({condition} AS {kind})"

    # -- doubles

    #: Whether a double is neither infinite nor NaN.
    is_finite: Callable[[str], str]

    def finite(self, value: str) -> str:
        """Return a DOUBLE with NULL where it is not finite, and 0.0 for -0.0."""
        return self.let(value, lambda v: f"CASE WHEN {self.is_finite(v)} THEN {v} + {self.number(0.0)} END")

    def double_operation(self, operator: str, left: str, right: str) -> str:
        """Return ``+``, ``-``, ``*``, ``/`` or ``%`` of finite doubles.

        NULL where the result is not finite, and 0.0 for -0.0.
        """
        return self.finite(f"{left} {operator} {right}")

    #: The product of two doubles; on overflow infinite or NULL.
    product: Callable[[str, str], str] = Template("{0} * {1}")

    #: A double rounded half to even as BIGINT, NULL where it does not fit.
    double_to_integer: Callable[[str], str]
    #: An integral double in the wide type, or NULL; exact for absolute values below 2^64.
    double_to_wide: Callable[[str], str]
    #: A double rounded to an integral one, half away from zero.
    rounded: Callable[[str], str] = Template("round({0})")
    #: A double truncated towards zero.
    cut: Callable[[str], str] = Template("trunc({0})")

    @abstractmethod
    def double_steps(self, value: str, measure: Measure) -> str:
        """Return q(x) of a double, as defined in :mod:`~tacit.engines.sql.bounding`; NULL if it is not finite."""

    # -- text

    #: Whether the whole text matches a regular expression of character sets, groups and repetition counts only.
    matches: Callable[[str, str], str]
    #: Parse a numeric text as BIGINT, rounded half away from zero, NULL where it does not fit.
    read_integer: Callable[[str], str]

    @abstractmethod
    def read_decimal(self, value: str, scale: int) -> str:
        """Parse a numeric text as a DECIMAL without its point, rounded half away from zero, NULL if it does not fit."""

    #: Parse a numeric text as the nearest double; NULL or infinite where there is none.
    read_double: Callable[[str], str]
    #: Parse a text ``dddd-dd-dd`` as DATE, NULL where the day does not exist; years from 1 on.
    read_date: Callable[[str], str]
    #: Parse a text that has the form of a timestamp as TIMESTAMP, NULL where it does not exist; years from 1 on.
    read_timestamp: Callable[[str], str]

    def show(self, value: str, kind: SqlType) -> str:  # noqa: ARG002 - some need it
        """Return an integer, date or timestamp as text."""
        return f"CAST({value} AS {self.text_type})"

    #: A text without the spaces at both ends.
    trimmed: Callable[[str], str]
    # -- times

    #: A DATE as days since 1970-01-01, BIGINT.
    days: Callable[[str], str]
    #: A TIMESTAMP as microseconds since 1970-01-01, BIGINT.
    microseconds: Callable[[str], str]
    #: Days since 1970-01-01, within the years 1 to 9999, as DATE.
    day_of: Callable[[str], str]
    #: Microseconds since 1970-01-01, within the years 1 to 9999, as TIMESTAMP.
    moment_of: Callable[[str], str]

    @abstractmethod
    def part(self, name: str, value: str, kind: SqlType) -> str:
        """Return a field of a date or timestamp as BIGINT, by its name in the registry."""

    @abstractmethod
    def truncated(self, unit: str, value: str, kind: SqlType) -> str:
        """Return the start of the year, month, … that contains a date or timestamp, in the same type."""

    @abstractmethod
    def months_later(self, value: str, months: str, kind: SqlType) -> str:
        """Return a date or timestamp moved by at most 10,000 years of months, its day cut to the last of the month.

        NULL outside the years 1 to 9999.
        """

    #: Parse a text of a year from 1 to 9999, a month and a day as DATE, NULL where the day does not exist.
    read_day: Callable[[str], str]

    def made_date(self, year: str, month: str, day: str) -> str:
        """Return the DATE of a year, month and day (BIGINT), NULL where the day does not exist."""

        def digits(value: str, most: int) -> str:
            kind = self.text_type
            shown = self.let(value, lambda v: f"CASE WHEN {v} BETWEEN 1 AND {most} THEN CAST({v} AS {kind}) END")
            return f"lpad({shown}, {len(str(most))}, '0')"

        written = " || '-' || ".join((digits(year, 9999), digits(month, 12), digits(day, 31)))
        return self.read_day(written)

    #: The last day of the month of a date or timestamp.
    last_day: Callable[[str, SqlType], str]
    # -- aggregates

    #: An aggregate: the sorted list of the doubles in rows that satisfy ``condition``.
    collected: Callable[[str, str], str]
    list_size: Callable[[str], str]
    #: The sum of a list, added in its order; NULL for an empty list, NULL or infinite on overflow.
    list_sum: Callable[[str], str]
    #: The mean of a list, its values added in its order; NULL if empty, NULL or infinite on overflow.
    list_mean: Callable[[str], str]
    #: Σ (e - mean)² over a list, added in its order, divided by (length - ``less``). NULL for an empty list, NULL or
    #: infinite on overflow.
    list_squares: Callable[[str, str, int], str]

    @abstractmethod
    def quantile(self, value: str, fraction: float, where: str, over: str) -> str:
        """Return an aggregate: the continuous quantile of doubles; not finite or NULL on overflow."""

    def extreme(self, name: str, value: str, kind: SqlType) -> str:  # noqa: ARG002 - some need it
        """Return the aggregate ``min`` or ``max``."""
        return f"{name}({value})"

    # -- choosing

    #: The bitwise exclusive or of two BIGINTs.
    xor: Callable[[str, str], str]
    #: The value of seven hexadecimal digits as BIGINT.
    hexadecimal: Callable[[str], str]

    @abstractmethod
    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:
        """Return the index, from 0, of a value among SQL constants, which may include NULL; NULL if it is absent."""

    def place_among(self, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
        """Return the index, from 0, of a value among Python values, which may include None; NULL if it is absent."""
        return self.position(value, [self.constant(item, kind) for item in values], kind)

    #: A query with ``count`` (BIGINT) copies of each row of ``source``, numbered from 1 in column ``j``.
    numbered_copies: Callable[[str, str, str], str]
