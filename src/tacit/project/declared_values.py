"""Declared bounds and categories, read exactly into the column's type."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

from tacit.core.errors import InputError
from tacit.core.numbers import exact
from tacit.query.relational.functions.casts import cast_value
from tacit.query.types import TEXT, Kind, SqlType, Value, as_value


def as_declared(value: Any, kind: SqlType, where: str) -> Value:
    """``value`` in the type of a column, or an InputError that names the place.

    Numbers are read from their decimal text, so 0.1 is one tenth. Dates may be written as dates or as ISO text.
    """
    read = _read(value, kind, where)
    if read is None:
        raise InputError(where, f"{value!r} is not a value of {kind}")
    return read


def _read(value: Any, kind: SqlType, where: str) -> Value | None:
    if kind.is_numeric:
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Fraction)):
            return None
        number = exact(value, where)
        whole = kind.kind is Kind.INTEGER and number.denominator == 1
        return as_value(int(number) if whole else number, kind)
    if kind.is_temporal:
        if isinstance(value, str):
            return cast_value(value, TEXT, kind)
        if kind.kind is Kind.TIMESTAMP and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return dt.datetime.combine(value, dt.time())
    return as_value(value, kind)
