"""Names of tables, columns and populations."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
#: Signs that quote names in some dialect of SQL, and would end one there.
_QUOTES: Final = frozenset('"`[]\\')
_LONGEST: Final = 63
#: The rule of :func:`is_column_name` in words.
COLUMN_NAME: Final = (
    "a name of a column has at most 63 printed characters, spaces and dots among them, but no quotation mark, "
    "backtick, bracket or backslash, and no space at its ends"
)


def is_name(text: str) -> bool:
    """Whether a table or a population can be called so, and a column without quotes in SQL."""
    return _NAME.match(text) is not None


def is_column_name(text: str) -> bool:
    """Whether a column can be called so; other names than those of :func:`is_name` are written in quotes.

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
