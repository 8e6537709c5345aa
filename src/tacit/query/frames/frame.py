"""Frame: a question as a chain of method calls, written as SQL.

A frame is immutable and lazy. Each method returns a new one, and nothing is planned, priced or read before
``explain`` or ``answer`` hand the text to the curator that the frame came from. One SELECT is filled clause by clause
as long as SQL evaluates the clauses in the order of the calls; then the next one is put around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Protocol, TypeVar, Unpack

from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.query.frames.column_expressions import ColumnExpression, Operand, as_column, as_operand, order_text
from tacit.query.frames.sql_text import name_text
from tacit.query.request import QuestionOptions

AnswerT = TypeVar("AnswerT", covariant=True)
QuoteT = TypeVar("QuoteT", covariant=True)
JoinHow = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
_HOW = ("inner", "left", "right", "full", "semi", "anti", "cross")


class FrameAsker(Protocol[AnswerT, QuoteT]):
    """A curator, here or behind a server."""

    def sql(
        self, sql: str, *, analyst: str | None = None, idempotency_key: str = "", **options: Unpack[QuestionOptions]
    ) -> AnswerT:
        """The answer to a text."""

    def explain(self, sql: str, **options: Unpack[QuestionOptions]) -> QuoteT:
        """Its price and errors."""


@dataclass(frozen=True, eq=False)
class _Select:
    """One SELECT while it is filled: texts of its clauses."""

    source: str
    items: tuple[str, ...] = ("*",)
    where: tuple[ColumnExpression, ...] = ()
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    limit: tuple[int, int] | None = None
    distinct: bool = False
    grouped: bool = False

    @property
    def is_open(self) -> bool:
        """Whether WHERE, or another list of columns, can still be added: nothing was computed yet."""
        return self.items == ("*",) and not self.grouped and not self.is_ordered and not self.distinct

    @property
    def is_ordered(self) -> bool:
        return bool(self.order) or self.limit is not None

    @property
    def is_plain(self) -> bool:
        return self.is_open and not self.where

    def text(self) -> str:
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(self.items)}", f"FROM {self.source}"]
        if self.where:
            condition = self.where[0]
            for more in self.where[1:]:
                condition = condition & more
            parts.append(f"WHERE {condition.text}")
        if self.keys:
            parts.append(f"GROUP BY {', '.join(self.keys)}")
        if self.order:
            parts.append(f"ORDER BY {', '.join(self.order)}")
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit[0]}" + (f" OFFSET {self.limit[1]}" if self.limit[1] else ""))
        return " ".join(parts)


@dataclass(frozen=True, eq=False, repr=False)
class Frame(Generic[AnswerT, QuoteT]):
    """Rows of a table, filtered, joined, grouped and aggregated; see ``docs/frames.md``.

    Made by ``curator.table(name)``. Rows of protected tables never come out: a frame can be answered once it
    aggregates.
    """

    _asker: FrameAsker[AnswerT, QuoteT] = field(repr=False)
    _name: str
    _select: _Select

    # -- the question

    def sql(self) -> str:
        """The question as SQL text."""
        return self._select.text()

    def explain(self, **options: Unpack[QuestionOptions]) -> QuoteT:
        """Releases, noise, price and errors of :meth:`answer` with the same arguments. Free; reads no data."""
        return self._asker.explain(self.sql(), **options)

    def answer(
        self, *, analyst: str | None = None, idempotency_key: str = "", **options: Unpack[QuestionOptions]
    ) -> AnswerT:
        """The answer; see :meth:`tacit.Curator.sql` for the arguments."""
        return self._asker.sql(self.sql(), analyst=analyst, idempotency_key=idempotency_key, **options)

    def collect(
        self, *, analyst: str | None = None, idempotency_key: str = "", **options: Unpack[QuestionOptions]
    ) -> AnswerT:
        """The same as :meth:`answer`, by the name that Polars has for it."""
        return self.answer(analyst=analyst, idempotency_key=idempotency_key, **options)

    # -- rows

    def filter(self, *conditions: ColumnExpression) -> Frame[AnswerT, QuoteT]:
        """Rows for which all conditions are true; after an aggregation, of its released rows."""
        if not conditions or not all(isinstance(condition, ColumnExpression) for condition in conditions):
            raise InputError("filter", "takes conditions such as tacit.col('age') >= 40")
        base = self if self._select.is_open else self._around()
        return base._with(where=(*base._select.where, *conditions))

    def with_columns(self, **columns: Operand) -> Frame[AnswerT, QuoteT]:
        """The columns there are, and computed ones, under names that are not taken yet."""
        if not columns:
            raise InputError("with_columns", "takes name=expression")
        base = self if self._select.is_open else self._around()
        return base._with(items=("*", *(f"{as_operand(e).text} AS {name_text(n)}" for n, e in columns.items())))

    def select(self, *columns: str | ColumnExpression, **named: Operand) -> Frame[AnswerT, QuoteT]:
        """Some columns, in this order."""
        items = (*map(_item, columns), *(f"{as_operand(e).text} AS {name_text(n)}" for n, e in named.items()))
        if not items:
            raise InputError("select", "needs at least one column")
        base = self if self._select.is_open else self._around()
        return base._with(items=items)

    def distinct(self) -> Frame[AnswerT, QuoteT]:
        """Each different row once."""
        base = self._around() if self._select.is_ordered or self._select.distinct or self._select.grouped else self
        return base._with(distinct=True)

    def join(
        self,
        other: Frame[AnswerT, QuoteT],
        on: str | Sequence[str] | ColumnExpression | None = None,
        *,
        left_on: str | None = None,
        right_on: str | None = None,
        how: JoinHow = "inner",
    ) -> Frame[AnswerT, QuoteT]:
        """Rows beside those of another frame of the same curator.

        Args:
            other: the other frame. Protected tables are joined on their units, or on a declared foreign key.
            on: columns of one name on both sides, or a condition.
            left_on: the column of this frame, where names differ.
            right_on: the column of the other one.
            how: ``semi`` keeps rows that have a match, ``anti`` those that have none.
        """
        if how not in _HOW:
            raise InputError("how", f"must be one of {', '.join(_HOW)}, got {how!r}")
        left, right = self._name, other._name if other._name.lower() != self._name.lower() else f"{other._name}_right"
        condition = _join_condition(on, left_on, right_on, left, right, how)
        source = f"{self._beside(left)} {how.upper()} JOIN {other._beside(right)}{condition}"
        return replace(self, _select=_Select(source))

    # -- groups

    def group_by(self, *keys: str | ColumnExpression, **named: Operand) -> GroupedFrame[AnswerT, QuoteT]:
        """Groups of rows with equal keys; computed ones are named: ``group_by(month=fn.month(col("admitted")))``."""
        listed = [(as_column(key), None) for key in keys] + [(as_operand(e), n) for n, e in named.items()]
        if not listed:
            raise InputError("group_by", "needs at least one key; for one group of all rows use agg")
        base = self if self._select.is_open else self._around()
        return GroupedFrame(base, tuple((e, n or e.name) for e, n in listed))

    def agg(self, *aggregates: ColumnExpression, **named: ColumnExpression) -> Frame[AnswerT, QuoteT]:
        """Aggregates over all rows: ``agg(n=tacit.count(), cost=tacit.mean("cost"))``."""
        base = self if self._select.is_open else self._around()
        return GroupedFrame(base, ()).agg(*aggregates, **named)

    # -- order

    def sort(self, *columns: str | ColumnExpression, descending: bool = False) -> Frame[AnswerT, QuoteT]:
        """Rows of an aggregation in order; ``tacit.col("n").desc()`` or ``descending`` for the largest first."""
        if not columns:
            raise InputError("sort", "needs at least one column")
        terms = [as_column(column) for column in columns]
        base = self._around() if self._select.is_ordered else self
        return base._with(order=tuple(order_text(term.desc() if descending else term) for term in terms))

    def head(self, count: int = 5, *, offset: int = 0) -> Frame[AnswerT, QuoteT]:
        """The first rows of an aggregation."""
        limit = check_count(count, "count", minimum=0), check_count(offset, "offset", minimum=0)
        base = self._around() if self._select.limit is not None else self
        return base._with(limit=limit)

    def __repr__(self) -> str:
        return f"<Frame {self.sql()}>"

    # -- layers

    def _with(self, **changes: object) -> Frame[AnswerT, QuoteT]:
        return replace(self, _select=replace(self._select, **changes))  # type: ignore[arg-type]

    def _around(self) -> Frame[AnswerT, QuoteT]:
        """A new SELECT around the one there is."""
        return replace(self, _select=_Select(self._beside(self._name)))

    def _beside(self, alias: str) -> str:
        """The frame as a source of FROM."""
        plain = self._select.is_plain and self._select.source == name_text(self._name)
        if plain:
            return name_text(self._name) if alias == self._name else f"{name_text(self._name)} AS {name_text(alias)}"
        return f"({self.sql()}) AS {name_text(alias)}"


def _item(column: str | ColumnExpression) -> str:
    found = as_column(column)
    return found.text if found.name is None or found.text.endswith(name_text(found.name)) else _named(found)


def _named(found: ColumnExpression) -> str:
    return f"{found.text} AS {name_text(found.name)}"


def _join_condition(
    on: str | Sequence[str] | ColumnExpression | None,
    left_on: str | None,
    right_on: str | None,
    left: str,
    right: str,
    how: str,
) -> str:
    given = [on is not None, left_on is not None or right_on is not None]
    if how == "cross":
        if any(given):
            raise InputError("on", "a cross join has no condition")
        return ""
    if sum(given) != 1 or (left_on is None) != (right_on is None):
        raise InputError("on", "give either on, or left_on and right_on")
    if left_on is not None and right_on is not None:
        return f" ON {name_text(left)}.{name_text(left_on)} = {name_text(right)}.{name_text(right_on)}"
    if isinstance(on, ColumnExpression):
        return f" ON {on.text}"
    names = [on] if isinstance(on, str) else [*(on or ())]
    if not names:
        raise InputError("on", "needs at least one column")
    return f" USING ({', '.join(map(name_text, names))})"


@dataclass(frozen=True, eq=False)
class GroupedFrame(Generic[AnswerT, QuoteT]):
    """Groups that wait for their aggregates."""

    _frame: Frame[AnswerT, QuoteT] = field(repr=False)
    _keys: tuple[tuple[ColumnExpression, str | None], ...]

    def agg(self, *aggregates: ColumnExpression, **named: ColumnExpression) -> Frame[AnswerT, QuoteT]:
        """One row per group: the keys, then the aggregates under their names."""
        listed = [(e, e.name) for e in aggregates] + [(e, n) for n, e in named.items()]
        if not all(isinstance(e, ColumnExpression) for e, _ in listed):
            raise InputError("agg", 'takes aggregates such as tacit.mean("cost")')
        if not listed and not self._keys:
            raise InputError("agg", "needs at least one aggregate")
        items = [e.text if n is None else f"{e.text} AS {name_text(n)}" for e, n in (*self._keys, *listed)]
        frame, keys = self._frame, tuple(e.text for e, _ in self._keys)
        return frame._with(items=tuple(items), keys=keys, grouped=True)


def table_frame(asker: FrameAsker[AnswerT, QuoteT], name: str) -> Frame[AnswerT, QuoteT]:
    """The rows of a table; whether there is such a table is said when the question is asked."""
    return Frame(asker, name, _Select(name_text(name)))
