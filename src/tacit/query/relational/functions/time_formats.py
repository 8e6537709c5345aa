"""Formats of dates and timestamps: the signs of STRFTIME that mean the same on every engine, and their texts.

========= =============================================
sign      stands for
========= =============================================
``%Y``    year, four digits
``%y``    its last two digits
``%m``    month, 01 to 12
``%d``    day of the month, 01 to 31
``%H``    hour, 00 to 23
``%I``    hour, 01 to 12
``%M``    minute, 00 to 59
``%S``    second, 00 to 59
``%f``    microseconds, six digits
``%p``    AM or PM
``%j``    day of the year, 001 to 366
``%G %V`` year and week of ISO 8601
``%u %w`` day of the week, 1 to 7 and 0 to 6
``%q``    quarter, 1 to 4
``%B %b`` month in English, whole and three letters
``%A %a`` weekday in English, whole and three letters
``%%``    a per cent sign
========= =============================================

``%-d`` and its like leave out leading zeros; ``%F`` is ``%Y-%m-%d`` and ``%T`` is ``%H:%M:%S``.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Literal
from tacit.query.relational.functions.registry import Args, Function, register
from tacit.query.relational.functions.signatures import a_time, arity, coerce, constant_text
from tacit.query.types import DATE, TEXT, TIMESTAMP, SqlType

Time = dt.date | dt.datetime

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
#: From Monday on, as ``isodow`` counts.
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Signs that stand for a number: the part of a date by its name in the registry, and its digits.
NUMBERS: Final[dict[str, tuple[str, int]]] = {
    "Y": ("year", 4), "m": ("month", 2), "d": ("day", 2), "H": ("hour", 2), "M": ("minute", 2), "S": ("second", 2),
    "j": ("dayofyear", 3), "V": ("week", 2), "G": ("isoyear", 4), "u": ("isodow", 1), "w": ("dayofweek", 1),
    "q": ("quarter", 1), "y": ("year", 2), "I": ("hour", 2), "f": ("microsecond", 6),
}  # fmt: skip
_CLOCK: Final = frozenset("HMSIpf")
_OTHERS: Final = frozenset("pBbAa")
_LONGEST: Final = 64
_SHORT: Final = 3


class FormatPart(NamedTuple):
    """A piece of a format: a text as it stands (``sign`` is empty), or a sign."""

    sign: str
    text: str = ""
    padded: bool = True


def format_parts(pattern: str) -> tuple[FormatPart, ...]:
    """The pieces of a format.

    Raises:
        Refusal: a sign that is not in the table above.
    """
    pattern = pattern.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S")
    parts: list[FormatPart] = []
    for piece in re.findall(r"%-?.|[^%]+|%", pattern, flags=re.DOTALL):
        sign = piece[-1]
        if piece[0] != "%":
            parts.append(FormatPart("", piece))
        elif piece == "%%":
            parts.append(FormatPart("", "%"))
        elif len(piece) > 1 and (sign in NUMBERS or (sign in _OTHERS and piece[1] != "-")):
            parts.append(FormatPart(sign, padded=piece[1] != "-"))
        else:
            known = " ".join(f"%{sign}" for sign in (*NUMBERS, *sorted(_OTHERS)))
            raise Refusal("literal", f"{piece!r} is no sign of a date format here; there are {known}.")
    return tuple(parts)


def has_clock(parts: Sequence[FormatPart]) -> bool:
    """Whether a format shows a time of the day."""
    return any(part.sign in _CLOCK for part in parts)


def number_of(sign: str, value: Time) -> int:
    """The number for which a sign stands."""
    hour, day = getattr(value, "hour", 0), value.isocalendar()
    return {
        "Y": value.year, "m": value.month, "d": value.day, "H": hour, "M": getattr(value, "minute", 0),
        "S": getattr(value, "second", 0), "j": value.timetuple().tm_yday, "V": day.week, "G": day.year,
        "u": day.weekday, "w": day.weekday % 7, "q": (value.month + 2) // 3, "y": value.year % 100,
        "I": (hour + 11) % 12 + 1, "f": getattr(value, "microsecond", 0),
    }[sign]  # fmt: skip


_SPANS: Final = {
    "m": (1, 12), "d": (1, 31), "H": (0, 23), "M": (0, 59), "S": (0, 59), "j": (1, 366), "V": (1, 53), "u": (1, 7),
    "w": (0, 6), "q": (1, 4), "I": (1, 12),
}  # fmt: skip


def possible_texts(parts: Sequence[FormatPart], years: tuple[int, int] | None, most: int) -> list[str] | None:
    """Every text that a format can give, some for no day among them; None if there are more than ``most``.

    ``years`` are the first and the last; None where they are not known.
    """
    sets: list[list[str]] = []
    for part in parts:
        if part.sign in ("Y", "G") and years is not None:
            span: tuple[int, int] | None = (years[0] - (part.sign == "G"), years[1] + (part.sign == "G"))
        else:
            span = _SPANS.get(part.sign)
        if span is not None:
            width = NUMBERS[part.sign][1] if part.padded else 0
            sets.append([str(number).rjust(width, "0") for number in range(span[0], span[1] + 1)])
        elif part.sign in ("B", "b", "A", "a"):
            names = MONTHS if part.sign in "Bb" else DAYS
            sets.append([name if part.sign in "BA" else name[:_SHORT] for name in names])
        elif part.sign == "p":
            sets.append(["AM", "PM"])
        elif part.sign:
            return None
        else:
            sets.append([part.text])
    if math.prod(map(len, sets)) > most:
        return None
    return ["".join(pieces) for pieces in itertools.product(*sets)]


def formatted(value: Time, pattern: str) -> str:
    """The text of a time in a format."""
    return "".join(_text(part, value) for part in format_parts(pattern))


def _text(part: FormatPart, value: Time) -> str:
    if part.sign in NUMBERS:
        digits = str(number_of(part.sign, value))
        return digits.rjust(NUMBERS[part.sign][1], "0") if part.padded else digits
    match part.sign:
        case "p":
            return "PM" if getattr(value, "hour", 0) >= 12 else "AM"
        case "B" | "b":
            return MONTHS[value.month - 1][: None if part.sign == "B" else _SHORT]
        case "A" | "a":
            return DAYS[value.isoweekday() - 1][: None if part.sign == "A" else _SHORT]
        case _:
            return part.text


def _signature(args: Args) -> tuple[Args, SqlType]:
    arity("strftime", args, 2)
    parts = format_parts(constant_text("strftime", args[1], "the format", _LONGEST))
    value = a_time("strftime", args[0])
    return (coerce(value, TIMESTAMP) if value.type == DATE and has_clock(parts) else value, args[1]), TEXT


def _growth(args: Args) -> int:
    # A sign of two letters becomes nine at most.
    pattern = args[1].value if isinstance(args[1], Literal) else ""
    return 1 + len(str(pattern)) * 5 // 64


def register_all() -> None:
    """Enter the functions of this module."""
    register(Function("strftime", "x in a format", _signature, formatted, growth=_growth, cost=16))
