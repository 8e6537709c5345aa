"""Column expressions: comparisons, arithmetic, functions and aggregates, as SQL text.

An expression holds its text and how tightly its outermost operator binds, so that parentheses stand where they are
needed. In aggregates, keys and lists of columns a text is the name of a column; everywhere else it is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tacit.core.errors import InputError
from tacit.query.frames.sql_text import Constant, call_text, constant_text, name_text, type_text

# How tightly operators bind; SQL's own order.
_OR, _AND, _NOT, _COMPARED, _ADDED, _MULTIPLIED, _SIGNED, _ALONE = range(8)


def _operator(
    sign: str, binds: int, *, turned: bool = False, chains: bool = True
) -> Callable[[ColumnExpression, Operand], ColumnExpression]:
    """The method of an operator; ``turned`` of one whose left side is a constant."""

    def combined(one: ColumnExpression, other: Operand) -> ColumnExpression:
        return _binary(sign, binds, *((other, one) if turned else (one, other)), chains=chains)

    return combined


@dataclass(frozen=True, eq=False)
class ColumnExpression:
    """A value of each row, or of each group.

    Args:
        text: its SQL.
        binds: how tightly its outermost operator binds.
        name: what it is called; None where it has no name of its own.
        descending: as a term of ``sort``.

    >>> (col("age") >= 40) & (col("ward") == "surgery")
    "age" >= 40 AND "ward" = 'surgery'
    """

    text: str
    binds: int = _ALONE
    name: str | None = None
    descending: bool = False

    def __repr__(self) -> str:
        return self.text

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false; combine conditions with &, | and ~")

    # -- comparisons

    def __eq__(self, other: Operand) -> ColumnExpression:  # type: ignore[override]
        return self.is_null() if other is None else _binary("=", _COMPARED, self, other, chains=False)

    def __ne__(self, other: Operand) -> ColumnExpression:  # type: ignore[override]
        return self.is_not_null() if other is None else _binary("<>", _COMPARED, self, other, chains=False)

    __lt__ = _operator("<", _COMPARED, chains=False)
    __le__ = _operator("<=", _COMPARED, chains=False)
    __gt__ = _operator(">", _COMPARED, chains=False)
    __ge__ = _operator(">=", _COMPARED, chains=False)

    def is_null(self) -> ColumnExpression:
        """Whether there is no value."""
        return ColumnExpression(f"{_inside(self, _ALONE)} IS NULL", _COMPARED)

    def is_not_null(self) -> ColumnExpression:
        """Whether there is a value."""
        return ColumnExpression(f"{_inside(self, _ALONE)} IS NOT NULL", _COMPARED)

    def is_in(self, values: Iterable[Operand]) -> ColumnExpression:
        """Whether the value is one of a list."""
        listed = [as_operand(value).text for value in values]
        if not listed:
            raise InputError("is_in", "needs at least one value")
        return ColumnExpression(f"{_inside(self, _ALONE)} IN ({', '.join(listed)})", _COMPARED)

    def between(self, low: Operand, high: Operand) -> ColumnExpression:
        """Whether the value is at least ``low`` and at most ``high``."""
        ends = [_inside(as_operand(end), _ADDED) for end in (low, high)]
        return ColumnExpression(f"{_inside(self, _ALONE)} BETWEEN {ends[0]} AND {ends[1]}", _COMPARED)

    def like(self, pattern: str) -> ColumnExpression:
        """Whether a text fits a pattern with % and _."""
        return ColumnExpression(f"{_inside(self, _ALONE)} LIKE {constant_text(pattern)}", _COMPARED)

    # -- conditions

    __and__ = _operator("AND", _AND)
    __rand__ = _operator("AND", _AND, turned=True)
    __or__ = _operator("OR", _OR)
    __ror__ = _operator("OR", _OR, turned=True)

    def __invert__(self) -> ColumnExpression:
        return ColumnExpression(f"NOT {_inside(self, _COMPARED)}", _NOT)

    # -- arithmetic

    __add__ = _operator("+", _ADDED)
    __radd__ = _operator("+", _ADDED, turned=True)
    __sub__ = _operator("-", _ADDED)
    __rsub__ = _operator("-", _ADDED, turned=True)
    __mul__ = _operator("*", _MULTIPLIED)
    __rmul__ = _operator("*", _MULTIPLIED, turned=True)
    __truediv__ = _operator("/", _MULTIPLIED)
    __rtruediv__ = _operator("/", _MULTIPLIED, turned=True)
    __floordiv__ = _operator("//", _MULTIPLIED)
    __rfloordiv__ = _operator("//", _MULTIPLIED, turned=True)
    __mod__ = _operator("%", _MULTIPLIED)

    def __neg__(self) -> ColumnExpression:
        return ColumnExpression(f"-{_inside(self, _ALONE)}", _SIGNED)

    # -- forms

    def alias(self, name: str) -> ColumnExpression:
        """The same value under a name."""
        name_text(name)
        return replace(self, name=name)

    def cast(self, kind: str) -> ColumnExpression:
        """The value as another type; NULL where it has none there."""
        return ColumnExpression(f"CAST({self.text} AS {type_text(kind)})", name=self.name)

    def clip(self, low: Operand, high: Operand) -> ColumnExpression:
        """The value moved into [low, high], which bounds what an aggregate can add up."""
        return ColumnExpression(f"CLAMP({self.text}, {as_operand(low).text}, {as_operand(high).text})", name=self.name)

    def clip_auto(self) -> ColumnExpression:
        """The value within bounds that a share of the price finds privately; directly inside an aggregate."""
        return ColumnExpression(f"CLAMP({self.text}, AUTO)", name=self.name)

    def fill_null(self, value: Operand) -> ColumnExpression:
        """The value, or another one where there is none."""
        return ColumnExpression(f"COALESCE({self.text}, {as_operand(value).text})", name=self.name)

    def desc(self) -> ColumnExpression:
        """As a term of ``sort``: the largest first."""
        return replace(self, descending=True)

    def filter(self, condition: ColumnExpression) -> ColumnExpression:
        """An aggregate of the rows for which the condition is true."""
        return ColumnExpression(f"{self.text} FILTER (WHERE {condition.text})", name=self.name)

    def over(
        self,
        *partition: str | ColumnExpression,
        order_by: str | ColumnExpression | Sequence[str | ColumnExpression] = (),
    ) -> ColumnExpression:
        """An aggregate or a window function of the rows that share the values of some columns.

        Over protected rows the unit column must be among them.
        """
        terms = [order_by] if isinstance(order_by, (str, ColumnExpression)) else [*order_by]
        parts = [f"PARTITION BY {', '.join(as_column(key).text for key in partition)}"] if partition else []
        if terms:
            parts.append(f"ORDER BY {', '.join(order_text(term) for term in terms)}")
        return ColumnExpression(f"{self.text} OVER ({' '.join(parts)})", name=self.name)


#: A constant, or an expression.
Operand = ColumnExpression | Constant


def order_text(term: str | ColumnExpression) -> str:
    """A term of ORDER BY."""
    found = as_column(term)
    return f"{found.text} DESC" if found.descending else found.text


def as_operand(value: Operand) -> ColumnExpression:
    """An expression; a constant as one."""
    return value if isinstance(value, ColumnExpression) else lit(value)


def as_column(value: str | ColumnExpression) -> ColumnExpression:
    """An expression; a text as the column of that name."""
    if isinstance(value, ColumnExpression):
        return value
    if isinstance(value, str):
        return col(value)
    raise InputError("column", f"must be the name of a column or an expression, got {type(value).__name__}")


def _inside(part: ColumnExpression, binds: int) -> str:
    """The text as an operand of something that needs operands to bind at least so tightly."""
    return part.text if part.binds >= binds else f"({part.text})"


def _binary(sign: str, binds: int, left: Operand, right: Operand, *, chains: bool = True) -> ColumnExpression:
    first, second = as_operand(left), as_operand(right)
    # AND, OR and the like read from the left; what stands on the right keeps its parentheses.
    return ColumnExpression(f"{_inside(first, binds + (not chains))} {sign} {_inside(second, binds + 1)}", binds)


def col(name: str, *, of: str | None = None) -> ColumnExpression:
    """A column, of one of several joined tables where ``of`` says which.

    >>> col("cost") * 2 + 1
    "cost" * 2 + 1
    """
    text = name_text(name) if of is None else f"{name_text(of)}.{name_text(name)}"
    return ColumnExpression(text, name=name)


def lit(value: Constant) -> ColumnExpression:
    """A constant.

    >>> lit("O'Brien")
    'O''Brien'
    """
    negative = isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0
    text = constant_text(value)
    return ColumnExpression(text, _SIGNED if negative or text.startswith("-") else _ALONE)


class Functions:
    """SQL functions by name: ``tacit.fn.date_trunc("month", tacit.col("admitted"))``.

    >>> fn.upper(col("ward"))
    UPPER("ward")
    """

    def __getattr__(self, name: str) -> _Named:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Named(call_text(name))


@dataclass(frozen=True)
class _Named:
    name: str

    def __call__(self, *args: Operand) -> ColumnExpression:
        return ColumnExpression(f"{self.name}({', '.join(as_operand(arg).text for arg in args)})")


fn: Final = Functions()


class When:
    """``when(condition).then(value)…otherwise(value)``: a CASE."""

    def __init__(self, branches: tuple[tuple[ColumnExpression, ColumnExpression], ...], last: ColumnExpression) -> None:
        self._branches = branches
        self._last = last

    def then(self, value: Operand) -> Then:
        """The value where the condition is true."""
        return Then((*self._branches, (self._last, as_operand(value))))


class Then:
    """A CASE that may go on."""

    def __init__(self, branches: tuple[tuple[ColumnExpression, ColumnExpression], ...]) -> None:
        self._branches = branches

    def when(self, condition: ColumnExpression) -> When:
        """Another condition, tried where those before are not true."""
        return When(self._branches, condition)

    def otherwise(self, value: Operand = None) -> ColumnExpression:
        """The value where no condition is true."""
        arms = " ".join(f"WHEN {condition.text} THEN {value.text}" for condition, value in self._branches)
        return ColumnExpression(f"CASE {arms} ELSE {as_operand(value).text} END")


def when(condition: ColumnExpression) -> When:
    """A choice.

    >>> when(col("nights") < 3).then("short").otherwise("long")
    CASE WHEN "nights" < 3 THEN 'short' ELSE 'long' END
    """
    return When((), condition)


# -- aggregates


def _aggregate(name: str, value: str | ColumnExpression) -> ColumnExpression:
    column = as_column(value)
    return ColumnExpression(f"{name}({column.text})", name=column.name)


def count(value: str | ColumnExpression | None = None) -> ColumnExpression:
    """Number of rows; with a column, the number of its values that are not NULL."""
    return ColumnExpression("COUNT(*)", name="count") if value is None else _aggregate("COUNT", value)


def n_unique(value: str | ColumnExpression) -> ColumnExpression:
    """Number of different values; of the unit column, the number of persons."""
    column = as_column(value)
    return ColumnExpression(f"COUNT(DISTINCT {column.text})", name=column.name)


def sum(value: str | ColumnExpression) -> ColumnExpression:  # noqa: A001 - its public name
    """The sum."""
    return _aggregate("SUM", value)


def mean(value: str | ColumnExpression) -> ColumnExpression:
    """The average."""
    return _aggregate("AVG", value)


def median(value: str | ColumnExpression) -> ColumnExpression:
    """The median."""
    return _aggregate("MEDIAN", value)


def min(value: str | ColumnExpression) -> ColumnExpression:  # noqa: A001 - its public name
    """The least value."""
    return _aggregate("MIN", value)


def max(value: str | ColumnExpression) -> ColumnExpression:  # noqa: A001 - its public name
    """The largest value."""
    return _aggregate("MAX", value)


def std(value: str | ColumnExpression) -> ColumnExpression:
    """The standard deviation of a sample."""
    return _aggregate("STDDEV", value)


def var(value: str | ColumnExpression) -> ColumnExpression:
    """The variance of a sample."""
    return _aggregate("VARIANCE", value)


def mode(value: str | ColumnExpression) -> ColumnExpression:
    """The most common of the declared categories."""
    return _aggregate("MODE", value)


def quantile(value: str | ColumnExpression, fraction: float) -> ColumnExpression:
    """The value below which a fraction of the values lies."""
    column = as_column(value)
    return ColumnExpression(f"QUANTILE({column.text}, {constant_text(fraction)})", name=column.name)
