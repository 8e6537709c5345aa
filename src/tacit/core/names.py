"""Names of tables, columns and populations."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
#: Characters that quote names in some dialect of SQL, and so would end a quoted name there.
_QUOTES: Final = frozenset('"`[]\\')
_LONGEST: Final = 63
#: Text of the rule of :func:`is_column_name`, for messages.
COLUMN_NAME: Final = (
    "a name of a column has at most 63 printed characters, spaces and dots among them, but no quotation mark, "
    "backtick, bracket or backslash, and no space at its ends"
)


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a table or population, or of a column without quotes in SQL."""
    return _NAME.match(text) is not None


def is_column_name(text: str) -> bool:
    """Return whether a text is a valid name of a column; one that is not :func:`is_name` is quoted in SQL.

    A name has one form (Unicode's NFC), so that two columns never look the same.
    """
    if is_name(text):
        return True
    return (
        0 < len(text) <= _LONGEST
        and text.isprintable()
        and text == text.strip()
        and not _QUOTES.intersection(text)
        and unicodedata.is_normalized("NFC", text)
    )
