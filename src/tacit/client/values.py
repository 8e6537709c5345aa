"""Exact numbers, types and cells in JSON, written and read.

Numbers of privacy are exact text. Within a cell, integers beyond ±(2⁵³ − 1), decimals, dates and timestamps are text,
because readers of JSON round or lack them; the type of the column says how to read it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tacit.core.numbers import exact
from tacit.ledger import Amount
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMESTAMP,
    Kind,
    SqlType,
    Value,
    as_value,
    decimal,
)
from tacit.releases.answer import plain

#: Integers of at most this size are read exactly by every reader of JSON.
EXACT_IN_JSON: Final = 2**53 - 1
_TYPES: Final = {str(kind): kind for kind in (BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIMESTAMP)}
_DECIMAL: Final = re.compile(r"DECIMAL\(18,(\d)\)\Z")
_INTEGER: Final = re.compile(r"-?\d{1,19}\Z")
_PLAIN: Final = re.compile(r"-?\d{1,19}(\.\d{1,9})?(E-\d)?\Z")


def cell_to_json(
    value: Any,
    ends: tuple[Any, Any] | None,
    kind: SqlType,
    *,
    wide: bool = True,
    biased: tuple[Any, Any] | None = None,
    marked: bool = False,
) -> Any:
    """A cell: its value, or an object with the two ends of its interval; ``wide`` as for :func:`value_to_json`.

    ``biased`` are the ends of the interval that includes the bias, where that is known; ``marked`` says that
    it may exceed the interval.
    """
    if ends is None:
        return value_to_json(value, kind, wide=wide)
    value, low, high = (value_to_json(each, kind, wide=wide) for each in (value, *ends))
    cell = {"value": value, "low": low, "high": high}
    if biased is not None:
        cell["bias_low"], cell["bias_high"] = (value_to_json(each, kind, wide=wide) for each in biased)
    return cell | {"marked": True} if marked else cell


def value_to_json(value: Any, kind: SqlType, *, wide: bool = True) -> Any:
    """A value as JSON has it; ``wide`` writes as text the integers that readers of JSON would round."""
    shown = plain(value, kind)
    if shown is None or isinstance(shown, (bool, float, str)):
        return shown
    if isinstance(shown, int):
        return str(shown) if wide and abs(shown) > EXACT_IN_JSON else shown
    if wide:
        return f"{shown:f}" if isinstance(shown, Decimal) else shown.isoformat()
    return str(shown)


def read_type(text: str) -> SqlType:
    """The type that a column names."""
    found = _DECIMAL.match(text)
    return decimal(int(found[1])) if found else _TYPES[text]


def read_value(value: Any, kind: SqlType) -> Value | None:
    """A value of a type, from JSON; nothing is rounded."""
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


def read_amounts(said: Mapping[str, str]) -> tuple[Amount, ...]:
    """The amounts of a charge, delta last."""
    amounts = [Amount(str(name), exact(text, "charge")) for name, text in said.items()]
    return tuple(sorted((each for each in amounts if each.amount), key=lambda each: each.currency == "delta"))
