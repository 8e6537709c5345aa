"""Names, constants and types as SQL text that cannot mean anything else.

A name stands between double quotes and a text between single ones, with the quote itself doubled; the parser knows no
other escapes. Everything that could not be read back as the same name or the same value is refused here.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Final

from tacit.core.errors import InputError
from tacit.core.names import is_name

#: Values that a question can hold.
Constant = str | int | float | bool | Decimal | dt.date | dt.datetime | None

_LONGEST: Final = 63
_TYPE: Final = re.compile(r"decimal\(\d{1,2}, ?\d{1,2}\)\Z")
_TYPES: Final = ("integer", "double", "text", "boolean", "date", "timestamp", "decimal")


def name_text(name: object) -> str:
    """The name of a table or a column, quoted.

    >>> name_text("Ward name")
    '"Ward name"'
    """
    if not isinstance(name, str) or not name:
        raise InputError("name", f"must be text that is not empty, got {name!r}")
    if len(name) > _LONGEST:
        raise InputError("name", f"has more than {_LONGEST} characters: {name[:20]!r}…")
    return '"' + _printable(name, "name").replace('"', '""') + '"'


def constant_text(value: Constant) -> str:
    """A constant of the question.

    >>> constant_text("it's"), constant_text(-3), constant_text(None)
    ("'it''s'", '-3', 'NULL')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float() | Decimal():
            return _number(value)
        case str():
            return "'" + _printable(value, "constant").replace("'", "''") + "'"
        case dt.datetime():
            if value.tzinfo is not None:
                raise InputError("constant", "must be a moment without a time zone")
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            raise InputError("constant", f"cannot be written in a question: {type(value).__name__}")


def _number(value: float | Decimal) -> str:
    if not math.isfinite(value):
        raise InputError("constant", f"must be a finite number, got {value}")
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def _printable(text: str, what: str) -> str:
    """Text without characters that no statement may hold; the parser refuses them too."""
    bad = next((c for c in text if ord(c) < 32 and c not in "\t\n\r"), None)
    bad = bad or next((c for c in text if 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000), None)
    if bad is not None:
        raise InputError(what, f"holds the character U+{ord(bad):04X}, which no question may hold")
    return text


def call_text(name: object) -> str:
    """The name of a function, which stands without quotes."""
    if not isinstance(name, str) or not is_name(name):
        raise InputError("function", f"must be the name of a function, got {name!r}")
    return name.upper()


def type_text(name: object) -> str:
    """A type to cast to: integer, double, text, boolean, date, timestamp or decimal(p, s)."""
    word = name.lower() if isinstance(name, str) else ""
    if word not in _TYPES and not _TYPE.match(word):
        raise InputError("type", f"must be one of {', '.join(_TYPES)} or decimal(p, s), got {name!r}")
    return word.upper()
