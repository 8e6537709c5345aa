"""Answer received from a server, with numbers read exactly."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from tacit.client.client_errors import RemoteError
from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import Number, exact, exact_probability
from tacit.curator.accounts import Entry
from tacit.curator.views.answer_views import AnswerViews
from tacit.ledger import Amount
from tacit.query.postprocess.cells import Ends
from tacit.query.question import OutputColumn
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMESTAMP,
    Domain,
    Kind,
    SqlType,
    Value,
    as_value,
    decimal,
)
from tacit.receipts.receipt import Receipt

__all__ = ["RemoteAnswer", "RemoteRows", "read_amounts", "read_rows", "read_type", "read_value", "understood"]

_TYPES: Final = {str(kind): kind for kind in (BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIMESTAMP)}
_DECIMAL: Final = re.compile(r"DECIMAL\(18,(\d)\)\Z")
_INTEGER: Final = re.compile(r"-?\d{1,19}\Z")
_PLAIN: Final = re.compile(r"-?\d{1,19}(\.\d{1,9})?(E-\d)?\Z")


@dataclass(frozen=True)
class RemoteRows:
    """The rows of an answer, with intervals at one confidence; others are asked for when they are needed.

    Args:
        columns: name, type, and whether there is an interval.
        values: row by row.
        ends: the interval of each cell.
        confidence: of the intervals.
        again: the intervals at another confidence, from whoever has them.
    """

    columns: tuple[OutputColumn, ...]
    values: tuple[tuple[Value | None, ...], ...]
    ends: tuple[tuple[Ends, ...], ...] = field(repr=False)
    confidence: Fraction
    again: Callable[[Fraction], RemoteRows] = field(repr=False)
    _others: dict[Fraction, RemoteRows] = field(default_factory=dict, repr=False)

    @property
    def has_interval(self) -> tuple[bool, ...]:
        """Which columns have an interval."""
        return tuple(column.noisy for column in self.columns)

    def intervals(self, confidence: Number | None = None, *, rows: int | None = None) -> tuple[tuple[Ends, ...], ...]:
        """For each cell (of the first ``rows``) its interval."""
        wanted = self.confidence if confidence is None else exact_probability(confidence, "confidence")
        if wanted == self.confidence:
            return self.ends[:rows]
        if wanted not in self._others:
            self._others[wanted] = self._checked(self.again(wanted), wanted)
        return self._others[wanted].ends[:rows]

    def _checked(self, other: RemoteRows, wanted: Fraction) -> RemoteRows:
        if other.confidence != wanted:
            raise InputError("confidence", "is stated in the query itself; take it out there to ask for another")
        if (other.columns, other.values) != (self.columns, self.values):
            raise RemoteError("asked for other intervals of the same answer, the server gave another answer")
        return other


@dataclass(frozen=True, eq=False, repr=False)
class RemoteAnswer(AnswerViews):
    """What a question got from a server; its receipt was checked against the pinned key.

    Args:
        finished: the rows.
        charge: what the account was charged; nothing for a repeated question.
        receipt: the signed statement of what was released and charged; for a repeated question that of the first time.
        said: what the server says of the numbers beside them, such as the bounds that AUTO found.
    """

    finished: RemoteRows
    charge: Entry
    receipt: Receipt
    said: str = ""

    @property
    def note(self) -> str:
        """What the numbers cost and what their intervals say, in a sentence each."""
        return f"{self.charge.text}. {self.said}" if self.said else super().note


class understood:  # noqa: N801 - reads as a statement
    """Whatever cannot be read inside is a server that does not speak the language."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        odd = isinstance(problem, KeyError | TypeError | ValueError | AttributeError | ArithmeticError | IndexError)
        if odd and not (isinstance(problem, TacitError) and not isinstance(problem, InputError)):
            raise RemoteError(f"{self._what} that the server sent cannot be read: {problem}") from None


def read_rows(content: Mapping[str, Any], again: Callable[[Fraction], RemoteRows]) -> RemoteRows:
    """The rows in the body of an answer."""
    with understood("the answer"):
        columns = tuple(_column(said) for said in content["columns"])
        cells = [[_cell(cell, column) for cell, column in zip(row, columns, strict=True)] for row in content["rows"]]
        confidence = exact_probability(content["confidence"], "confidence")
        values = tuple(tuple(value for value, _ in row) for row in cells)
        return RemoteRows(columns, values, tuple(tuple(ends for _, ends in row) for row in cells), confidence, again)


def read_amounts(said: Mapping[str, str]) -> tuple[Amount, ...]:
    """What was charged, delta last."""
    amounts = [Amount(str(name), exact(text, "charge")) for name, text in said.items()]
    return tuple(sorted((each for each in amounts if each.amount), key=lambda each: each.currency == "delta"))


def read_type(text: str) -> SqlType:
    """The type that a column of an answer names."""
    found = _DECIMAL.match(text)
    return decimal(int(found[1])) if found else _TYPES[text]


def read_value(value: Any, kind: SqlType) -> Value | None:
    """A value of a type, as JSON writes it: decimals, dates and large integers are text, nothing is rounded."""
    if value is None:
        return None
    read = as_value(_converted(value, kind), kind)
    if read is None or (isinstance(read, float) and not math.isfinite(read)):
        raise ValueError(f"{value!r} is not a value of {kind}")
    return read


def _converted(value: Any, kind: SqlType) -> object:
    match kind.kind:
        case Kind.INTEGER:
            return int(value) if isinstance(value, str) and _INTEGER.match(value) else value
        case Kind.DECIMAL:
            return Fraction(value) if isinstance(value, str) and _PLAIN.match(value) else None
        case Kind.DATE:
            return dt.date.fromisoformat(value)
        case Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(value)
        case _:
            return value


def _column(said: Mapping[str, Any]) -> OutputColumn:
    name, known = said["name"], said["interval"]
    if not isinstance(name, str) or not isinstance(known, bool):
        raise TypeError("a column without a name")
    return OutputColumn(name, read_type(said["type"]), known, Domain())


def _cell(cell: Any, column: OutputColumn) -> tuple[Value | None, Ends]:
    if not column.noisy:
        value = read_value(cell, column.type)
        return value, (value, value) if column.type.is_ordered else (None, None)
    value, low, high = (read_value(cell[word], column.type) for word in ("value", "low", "high"))
    return value, (low, high)
