"""Casts, as :mod:`tacit.query.functions.casts` defines them; what does not fit or cannot be read is NULL."""

from __future__ import annotations

from tacit.engines.duckdb.spelling import finite, fit_decimal, let, storage
from tacit.query.types import BOOLEAN, Kind, SqlType

__all__ = ["EXACT_DOUBLES", "cast_sql", "huge", "mantissa", "rounded_quotient"]

#: Whole numbers up to here are doubles exactly.
EXACT_DOUBLES = 2**53
_NUMBER = r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMESTAMP = _DATE + r"([ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_TRUE, _FALSE = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"


def cast_sql(value: str, source: SqlType, target: SqlType) -> str:
    """``value``, which has type ``source``, as ``target``."""
    if source == target:
        return value
    if source.kind is Kind.NULL:
        return f"CAST(NULL AS {storage(target)})"
    match target.kind:
        case Kind.BOOLEAN:
            return _to_boolean(value, source)
        case Kind.INTEGER:
            return _to_integer(value, source)
        case Kind.DECIMAL:
            return _to_decimal(value, source, target.scale)
        case Kind.DOUBLE:
            return _to_double(value, source)
        case Kind.TEXT:
            return _to_text(value, source)
        case Kind.DATE:
            return _to_date(value, source)
        case _:
            return _to_timestamp(value, source)


def huge(value: str, factor: int = 1) -> str:
    """A BIGINT as HUGEINT, times a power of ten."""
    wide = f"CAST({value} AS HUGEINT)"
    return wide if factor == 1 else f"{wide} * {factor}"


def mantissa(value: str, scale: int) -> str:
    """A DuckDB DECIMAL of that scale, of at most 18 digits, without its point."""
    # A product of DECIMAL(18) stays one and would overflow.
    return (
        f"CAST({value} AS BIGINT)"
        if scale == 0
        else f"CAST(CAST({value} AS DECIMAL(38,{scale})) * {10**scale} AS BIGINT)"
    )


def rounded_quotient(value: str, divisor: int) -> str:
    """``value`` / ``divisor``, ties away from zero; both whole, and twice the value within range."""
    if divisor == 1:
        return value
    half = divisor // 2
    return let(
        value, lambda v: f"CASE WHEN {v} < 0 THEN -((-{v} + {half}) // {divisor}) ELSE ({v} + {half}) // {divisor} END"
    )


def _reading(value: str, pattern: str, read: str) -> str:
    """``read`` of the text without spaces around it, where it has the form."""
    return let(
        f"trim({value}, ' ')", lambda v: f"CASE WHEN regexp_full_match({v}, '{pattern}') THEN {read.format(v)} END"
    )


def _to_boolean(value: str, source: SqlType) -> str:
    if source.kind is not Kind.TEXT:
        return f"({value} <> 0)"
    word = f"lower(trim({value}, ' '))"
    return let(word, lambda v: f"CASE WHEN {v} IN {_TRUE} THEN TRUE WHEN {v} IN {_FALSE} THEN FALSE END")


def _to_integer(value: str, source: SqlType) -> str:
    if source.kind is Kind.TEXT:
        return _reading(value, _NUMBER, "TRY_CAST({} AS BIGINT)")
    if source.kind is Kind.DECIMAL:
        return rounded_quotient(value, 10**source.scale)
    return f"TRY_CAST({value} AS BIGINT)"


def _to_decimal(value: str, source: SqlType, scale: int) -> str:
    if source.kind is Kind.TEXT:
        return _reading(value, _NUMBER, mantissa(f"TRY_CAST({{}} AS DECIMAL(18,{scale}))", scale))
    if source.kind is Kind.DOUBLE:
        return fit_decimal(f"TRY_CAST(round({value} * CAST({10**scale} AS DOUBLE)) AS HUGEINT)")
    if source.kind is Kind.DECIMAL and scale < source.scale:
        return rounded_quotient(value, 10 ** (source.scale - scale))
    return fit_decimal(huge(value, 10 ** (scale - source.scale)))


def _to_double(value: str, source: SqlType) -> str:
    if source.kind is Kind.TEXT:
        return finite(_reading(value, _NUMBER, "TRY_CAST({} AS DOUBLE)"))
    if source.kind is not Kind.DECIMAL or source.scale == 0:
        return f"CAST({value} AS DOUBLE)"
    point = f"CAST({10**source.scale} AS DOUBLE)"
    # Beyond 2^53 the conversion of the integer would round once and the division again.
    return let(
        value,
        lambda v: (
            f"CASE WHEN {v} BETWEEN -{EXACT_DOUBLES} AND {EXACT_DOUBLES} THEN CAST({v} AS DOUBLE) / {point}"
            f" ELSE TRY_CAST({_decimal_text(v, source.scale)} AS DOUBLE) END"
        ),
    )


def _to_text(value: str, source: SqlType) -> str:
    if source == BOOLEAN:
        return let(value, lambda v: f"CASE WHEN {v} THEN 'true' WHEN NOT {v} THEN 'false' END")
    if source.kind is Kind.DECIMAL and source.scale:
        return let(value, lambda v: _decimal_text(v, source.scale))
    return f"CAST({value} AS VARCHAR)"


def _decimal_text(value: str, scale: int) -> str:
    digits = f"lpad(CAST(abs({value}) AS VARCHAR), greatest({scale + 1}, CAST(length(CAST(abs({value}) AS VARCHAR)) AS INTEGER)), '0')"  # noqa: E501
    sign = f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
    return f"({sign} || left({digits}, -{scale}) || '.' || right({digits}, {scale}))"


def _to_date(value: str, source: SqlType) -> str:
    if source.kind is Kind.TIMESTAMP:
        return f"CAST({value} AS DATE)"
    read = _reading(value, _DATE, "TRY_CAST({} AS DATE)")
    return let(read, lambda v: f"CASE WHEN {v} >= DATE '0001-01-01' THEN {v} END")


def _to_timestamp(value: str, source: SqlType) -> str:
    if source.kind is Kind.DATE:
        return f"CAST({value} AS TIMESTAMP)"
    read = _reading(value, _TIMESTAMP, "TRY_CAST({} AS TIMESTAMP)")
    return let(read, lambda v: f"CASE WHEN {v} >= TIMESTAMP '0001-01-01 00:00:00' THEN {v} END")
