"""Form in which a CSV source is written: delimiter, encoding, decimal mark, dates.

The owner states it; nothing is taken from the data. Every engine reads CSV by these rules, and each of them is a
function of one field of one line.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tacit.core.errors import InputError

__all__ = ["DATE_DIRECTIVES", "UTF_8", "CsvFormat", "date_pattern", "delimiter_by_name"]

UTF_8: Final = "utf-8"
#: Parts of a date format and the texts that each of them stands for.
DATE_DIRECTIVES: Final = {
    "Y": "[0-9]{4}", "y": "[0-9]{2}", "m": "[0-9]{1,2}", "d": "[0-9]{1,2}", "b": "[A-Za-z]{3}", "B": "[A-Za-z]{3,9}",
    "H": "[0-9]{1,2}", "I": "[0-9]{1,2}", "M": "[0-9]{1,2}", "S": "[0-9]{1,2}", "f": "[0-9]{1,6}", "p": "[AaPp][Mm]",
}  # fmt: skip
_FORBIDDEN: Final = frozenset("\"\r\n\0 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_")
_THOUSANDS: Final = ("", ",", ".", " ", "'")


@dataclass(frozen=True)
class CsvFormat:
    """Form of a CSV source.

    Args:
        delimiter: between fields; None for a tab in ``.tsv`` files and a comma in others.
        encoding: ``"utf-8"``, or an encoding with one byte per letter that Python knows, such as ``"windows-1252"``.
        decimal_mark: ``"."`` or ``","``.
        thousands_mark: between groups of three digits; empty for none.
        date_format: of the date columns, such as ``"%d.%m.%Y"``; None for ``2024-01-31``.
        date_formats: of single columns of dates or timestamps, by their names in small letters.

    Raises:
        InputError: naming the setting.
    """

    delimiter: str | None = None
    encoding: str = UTF_8
    decimal_mark: str = "."
    thousands_mark: str = ""
    date_format: str | None = None
    date_formats: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in _FORBIDDEN):
            raise InputError("delimiter", f'must be one sign such as ";", "|" or "\\t"; got {mark!r}')
        object.__setattr__(self, "encoding", _encoding_name(self.encoding))
        if self.decimal_mark not in (".", ","):
            raise InputError("decimal_mark", f'must be "." or ","; got {self.decimal_mark!r}')
        if self.thousands_mark not in _THOUSANDS or self.thousands_mark == self.decimal_mark:
            listed = ", ".join(repr(sign) for sign in _THOUSANDS if sign not in ("", self.decimal_mark))
            raise InputError("thousands_mark", f"must be one of {listed}; got {self.thousands_mark!r}")
        if self.date_format is not None:
            date_pattern(self.date_format, "date_format")
        for column, said in self.date_formats.items():
            date_pattern(said, f"columns.{column}.date_format")

    @property
    def has_own_numbers(self) -> bool:
        """Whether numbers are written otherwise than in SQL."""
        return bool(self.thousands_mark) or self.decimal_mark != "."

    @property
    def text(self) -> str:
        """One text for one form; empty for the usual one."""
        words = (self.delimiter or "", "" if self.encoding == UTF_8 else self.encoding)
        marks = f"{self.decimal_mark}{self.thousands_mark}" if self.has_own_numbers else ""
        dates = [f"{name} {said}" for name, said in sorted(self.date_formats.items())]
        whole = "\n".join((*words, marks, self.date_format or "", *dates))
        return whole if whole.strip("\n") else ""

    def delimiter_of(self, file: str) -> str:
        """The sign between the fields of a file."""
        return self.delimiter or delimiter_by_name(file)


def delimiter_by_name(file: str) -> str:
    """By the end of a file's name."""
    return "\t" if file.lower().endswith(".tsv") else ","


def date_pattern(form: str, where: str) -> str:
    """A regular expression for the texts that a date format stands for.

    Raises:
        InputError: the format has a part that is not known, or lacks day, month or year.
    """
    found, parts, place = [], [], 0
    while place < len(form):
        sign = form[place]
        if sign == "%":
            letter = form[place + 1 : place + 2]
            if letter not in DATE_DIRECTIVES or not letter:
                known = " ".join(f"%{each}" for each in DATE_DIRECTIVES)
                raise InputError(where, f"%{letter} is not a part of a date format; there are {known}")
            found.append(letter)
            parts.append(DATE_DIRECTIVES[letter])
            place += 2
            continue
        if not sign.isascii() or not sign.isprintable() or sign in "'\\":
            raise InputError(where, f"{sign!r} cannot stand in a date format")
        parts.append(f"\\x{ord(sign):02x}")
        place += 1
    lacking = [one for one in ("yY", "mbB", "d") if not any(letter in found for letter in one)]
    if lacking or len(set(found)) != len(found):
        raise InputError(where, f"must have a year, a month and a day, each once, as in %d.%m.%Y; got {form!r}")
    return "".join(parts)


def _encoding_name(said: str) -> str:
    """The canonical name of an encoding.

    Raises:
        InputError: it is unknown, or may have several bytes per letter.
    """
    try:
        found = codecs.lookup(said)
        name = found.name
    except (LookupError, ValueError):
        raise InputError("encoding", f'{said!r} is not known; such as "utf-8" or "windows-1252"') from None
    if name in (UTF_8, "utf-8-sig"):
        return UTF_8
    lower, upper = bytes(range(128)), bytes(range(128, 256))
    try:
        # One byte is one letter wherever it stands, and ASCII is itself.
        alone = "".join(bytes([byte]).decode(name, "replace") for byte in upper)
        single = lower.decode(name) == lower.decode("ascii") and alone == upper.decode(name, "replace")
        single = single and len(alone) == len(upper)
    except (LookupError, ValueError, TypeError):
        single = False
    if not single:
        raise InputError("encoding", f"{said} has several bytes per letter; convert the file: iconv -f {said} -t UTF-8")
    return name.replace("cp125", "windows-125") if name.startswith("cp125") else name
