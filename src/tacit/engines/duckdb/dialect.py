"""DuckDB dialect, with text functions by code points and in the order of UTF-8 bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tacit.engines.sql.bounding import double_steps
from tacit.engines.sql.dialect import Dialect, Template
from tacit.engines.sql.scalars import COMMON, Lowering, joined, patterned, plain, within_years
from tacit.query.planning.measures import Measure
from tacit.query.types import Kind, SqlType, Value, ordinal

_SMALL_ONLY = "ßᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾳῃῳ"
_CAPITAL_ONLY = "İ"


def _letters(name: str, fixed: str) -> Lowering:
    """Return a case mapping that leaves the letters in ``fixed`` unchanged, which Unicode maps to several letters.

    DuckDB maps each of them to one letter, so they are replaced meanwhile by code points that Unicode reserves for
    internal use and no text contains.
    """
    stand_ins = "".join(chr(0xFDD0 + i) for i in range(len(fixed)))
    hidden = f"translate({{0}}, '{fixed}', '{stand_ins}')"
    kept = f"translate({name}({hidden}), '{stand_ins}', '{fixed}')"
    # Translation is slow, and few texts have such letters: a text with one byte per letter has none.
    template = f"CASE WHEN strlen({{0}}) = length({{0}}) THEN {name}({{0}}) ELSE {kept} END"
    return lambda d, node, args: d.let(args[0], template.format)  # noqa: ARG005 - one shape for all lowerings


TEXTS: dict[str, Lowering] = {
    "upper": _letters("upper", _SMALL_ONLY),
    "lower": _letters("lower", _CAPITAL_ONLY),
    "trim": plain("trim({0}, ' ')"),
    "ltrim": plain("ltrim({0}, ' ')"),
    "rtrim": plain("rtrim({0}, ' ')"),
    "length": plain("CAST(length({0}) AS BIGINT)"),
    "strpos": plain("CAST(strpos({0}, {1}) AS BIGINT)"),
    "contains": plain("contains({0}, {1})"),
    "starts_with": plain("starts_with({0}, {1})"),
    "ends_with": plain("ends_with({0}, {1})"),
    "substring": joined("substring({0})", ", "),
    "left": plain("left({0}, {1})"),
    "right": plain("right({0}, {1})"),
    "lpad": plain("lpad({0}, CAST({1} AS INTEGER), {2})"),
    "rpad": plain("rpad({0}, CAST({1} AS INTEGER), {2})"),
    **dict.fromkeys(("split_part", "list_part"), plain("split_part({0}, {1}, {2})")),
    "replace": plain("replace({0}, {1}, {2})"),
    "concat_ws": joined("concat_ws({0})", ", "),
    # RE2 takes linear time.
    "regexp": patterned("regexp_matches({0}, {1})"),
    "regexp_extract": patterned("regexp_extract({0}, {1})"),
    "regexp_replace": patterned("regexp_replace({0}, {1}, {2}, 'g')"),
    "join_text": joined("({0})", " || "),
    "concat": joined("concat({0})", ", "),
    # LIKE has no escape character.
    "like": plain("({0} LIKE {1})"),
    "ilike": plain("(lower({0}) LIKE lower({1}))"),
}


_INTEGER = 2**31 - 1
_BIGINT = 2**63 - 1
#: Up to this many values, list_position is used; more are looked up by offset, if their range has at most this many
#: positions per value.
_FEW_VALUES = 64
_PLACES_PER_VALUE = 8


def mantissa(value: str, scale: int) -> str:
    """Return SQL of a DuckDB DECIMAL of that scale and at most 18 digits without its point, as BIGINT."""
    # A product of DECIMAL(18) stays one and would overflow.
    return (
        f"CAST({value} AS BIGINT)"
        if scale == 0
        else f"CAST(CAST({value} AS DECIMAL(38,{scale})) * {10**scale} AS BIGINT)"
    )


class DuckDB(Dialect):
    """DuckDB dialect: ``TRY_CAST`` prevents errors, and doubles follow IEEE arithmetic without errors."""

    lowerings: ClassVar[Mapping[str, Lowering]] = {**COMMON, **TEXTS}
    fit_integer = Template("TRY_CAST({0} AS BIGINT)")
    is_finite = Template("isfinite({0})")
    double_to_integer = Template("TRY_CAST({0} AS BIGINT)")
    double_to_wide = Template("TRY_CAST({0} AS HUGEINT)")
    # RE2 takes linear time.
    matches = Template("regexp_full_match({0}, '{1}')")
    read_integer = Template("TRY_CAST({0} AS BIGINT)")
    read_double = Template("TRY_CAST({0} AS DOUBLE)")
    read_day = Template("TRY_CAST({0} AS DATE)")
    trimmed = Template("trim({0}, ' ')")
    days = Template("CAST({0} - DATE '1970-01-01' AS BIGINT)")
    microseconds = Template("epoch_us({0})")
    day_of = Template("DATE '1970-01-01' + CAST({0} AS INTEGER)")
    moment_of = Template("make_timestamp({0})")
    last_day = Template("CAST(last_day({0}) AS DATE)")
    collected = Template("list_sort(list({0}) FILTER (WHERE {1}))")
    list_size = Template("len({0})")
    # Adds from the first to the last.
    list_sum = Template("list_sum({0})")
    list_mean = Template("list_sum({0}) / len({0})")
    list_squares = Template("list_sum(list_transform({0}, lambda e: (e - {1}) * (e - {1}))) / (len({0}) - {2})")
    xor = Template("xor({0}, {1})")
    hexadecimal = Template("CAST('0x' || {0} AS BIGINT)")
    numbered_copies = Template("SELECT {0}, unnest(range(1, {1} + 1)) AS j FROM {2}")
    wide = "HUGEINT"
    ieee_doubles = True
    ranks_heavy_units = True

    def text(self, value: str) -> str:
        """Return a text constant; NUL, which would end the statement's text, is written as ``chr(0)``."""
        pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
        return pieces[0] if len(pieces) == 1 else "(" + " || chr(0) || ".join(pieces) + ")"

    def number(self, value: float) -> str:
        """Return a constant with an exponent, which is read as the nearest double and plans faster than a cast."""
        digits = repr(value)
        spelled = digits if "e" in digits else f"{digits}e0"
        return spelled if value >= 0 else f"({spelled})"

    def bound(self, value: str, body: Callable[[str], str]) -> str:
        """Bind the value by a lambda over a list that holds only this value."""
        return f"list_extract(list_transform([{value}], lambda v: {body('v')}), 1)"

    def whole_type(self, largest: int) -> str:
        """Return the narrowest type: narrow columns are summed faster."""
        return "INTEGER" if largest <= _INTEGER else "BIGINT" if largest <= _BIGINT else "HUGEINT"

    def divided(self, left: str, right: str, *, wide: bool) -> str:  # noqa: ARG002 - the same for both
        return f"{left} // {right}"

    def double_steps(self, value: str, measure: Measure) -> str:
        """Use IEEE arithmetic."""
        return double_steps(self, value, measure)

    def read_decimal(self, value: str, scale: int) -> str:
        """Cast with ``TRY_CAST``."""
        return mantissa(f"TRY_CAST({value} AS DECIMAL(18,{scale}))", scale)

    def read_date(self, value: str) -> str:
        """Cast with ``TRY_CAST``; DuckDB accepts the year 0, which is NULL here."""
        return self.let(f"TRY_CAST({value} AS DATE)", lambda v: f"CASE WHEN {v} >= DATE '0001-01-01' THEN {v} END")

    def read_timestamp(self, value: str) -> str:
        """Cast with ``TRY_CAST``; DuckDB accepts the year 0, which is NULL here."""
        return self.let(
            f"TRY_CAST({value} AS TIMESTAMP)",
            lambda v: f"CASE WHEN {v} >= TIMESTAMP '0001-01-01 00:00:00' THEN {v} END",
        )

    def part(self, name: str, value: str, kind: SqlType) -> str:  # noqa: ARG002 - the same for both
        """Use the function of the registry's name; microseconds are those of the second, not of the minute."""
        if name == "microsecond":
            return f"CAST(microsecond({value}) % 1000000 AS BIGINT)"
        return f"CAST({name}({value}) AS BIGINT)"

    def truncated(self, unit: str, value: str, kind: SqlType) -> str:
        """Use ``date_trunc``."""
        return f"CAST(date_trunc('{unit}', {value}) AS {self.storage(kind)})"

    def months_later(self, value: str, months: str, kind: SqlType) -> str:
        """Add an interval, then check the range."""
        moved = f"{value} + to_months(CAST({months} AS INTEGER))"
        return within_years(self, f"CAST({moved} AS {self.storage(kind)})", kind)

    def quantile(self, value: str, fraction: float, where: str, over: str) -> str:
        """Use ``quantile_cont``."""
        return f"quantile_cont({value}, {self.number(fraction)}){where}{over}"

    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:  # noqa: ARG002 - typed by themselves
        """Use ``list_position``: one look-up per distinct text of a column."""
        return f"(list_position([{', '.join(items)}], {value}) - 1)"

    def place_among(self, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
        """Look up many numbers, days or times that lie close together by offset, and others with :meth:`position`."""
        ordinals = _ordinals(values, kind)
        low, high = (min(ordinals), max(ordinals)) if ordinals else (0, 0)
        step = math.gcd(*(at - low for at in ordinals)) or 1
        places = (high - low) // step + 1
        if not ordinals or places > _PLACES_PER_VALUE * len(values):
            return super().place_among(value, values, kind)
        numbers = [-1] * places
        for place, at in enumerate(ordinals):
            numbers[(at - low) // step] = place

        def placed(v: str) -> str:
            number = self.days(v) if kind.kind is Kind.DATE else self.microseconds(v) if kind.is_temporal else v
            between = f"({number} - ({low}))"
            # Outside both ends there is no value, and a negative index would count from the end of the list.
            inside = f"{number} BETWEEN {low} AND {high}"
            if step > 1:
                inside, between = f"CASE WHEN {inside} THEN {between} % {step} = 0 END", f"({between} // {step})"
            # A list constant, parsed once from a text.
            found = f"list_extract(CAST('[{','.join(map(str, numbers))}]' AS BIGINT[]), {between} + 1)"
            return f"(CASE WHEN {inside} THEN nullif({found}, -1) END)"

        return self.let(value, placed)


def _ordinals(values: Sequence[Value | None], kind: SqlType) -> list[int]:
    """Return the integers that stand for many numbers, days or times.

    Empty for few values, other types or with NULL.
    """
    if len(values) <= _FEW_VALUES or kind.kind not in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP):
        return []
    ordinals = [int(ordinal(value, kind)) for value in values if value is not None]
    return ordinals if len(ordinals) == len(values) else []


DUCKDB = DuckDB()
