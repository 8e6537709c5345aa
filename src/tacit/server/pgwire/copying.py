"""Rows as ``COPY … TO STDOUT`` sends them: text, CSV or binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.server.pgwire.messages import BINARY, TEXT, WireColumn
from tacit.server.pgwire.sqlstates import StatementFault
from tacit.server.pgwire.statements import Word
from tacit.server.pgwire.types import encode

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_ESCAPES: Final = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """Form of the rows: text, CSV or binary, the text for NULL, and whether the names of columns come first."""

    name: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False

    @property
    def code(self) -> int:
        """Format code on the wire."""
        return BINARY if self.name == "binary" else TEXT

    def lines(self, columns: Sequence[WireColumn], rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
        """The pieces to send."""
        # As PostgreSQL does, the head goes with the first row.
        head = _SIGNATURE + struct.pack("!ii", 0, 0)
        if self.name != "binary" and self.header:
            yield self._line([column.name for column in columns])
        for row in rows:
            cells = [encode(value, column.oid, self.code) for value, column in zip(row, columns, strict=True)]
            if self.name == "binary":
                parts = [b"\xff" * 4 if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells]
                yield head + struct.pack("!h", len(cells)) + b"".join(parts)
                head = b""
            else:
                yield self._line([None if cell is None else cell.decode() for cell in cells])
        if self.name == "binary":
            yield head + struct.pack("!h", -1)

    def _line(self, cells: Sequence[str | None]) -> bytes:
        shown = [self.null if cell is None else self._cell(cell) for cell in cells]
        return (self.delimiter.join(shown) + "\n").encode()

    def _cell(self, text: str) -> str:
        if self.name == "csv":
            if text == self.null or any(sign in text for sign in (self.delimiter, '"', "\n", "\r")):
                doubled = text.replace('"', '""')
                return f'"{doubled}"'
            return text
        shown = "".join(_ESCAPES.get(sign, sign) for sign in text)
        return shown if self.delimiter == "\t" else shown.replace(self.delimiter, "\\" + self.delimiter)


def read_copy(words: Sequence[Word]) -> tuple[int, int, CopyFormat]:
    """First and last place of the query in ``COPY (query) TO STDOUT …``, and the form.

    Raises:
        StatementFault: it is another COPY.
    """
    depth = end = 0
    if len(words) < 2 or words[1].text != "(":
        raise StatementFault(
            "0A000", "rows cannot be copied", "Write COPY (SELECT …) TO STDOUT, with a question in it."
        )
    for i, word in enumerate(words[1:], 1):
        depth += (word.text == "(") - (word.text == ")")
        if not depth:
            end = i
            break
    rest = [word for word in words[end + 1 :] if word.text not in ("(", ")", ",")]
    if not end or [word.upper for word in rest[:2]] != ["TO", "STDOUT"]:
        raise StatementFault("0A000", "an answer is copied to the client alone", "Write COPY (SELECT …) TO STDOUT.")
    return 2, end - 1, _form(rest[2:])


def _form(words: list[Word]) -> CopyFormat:
    name, delimiter, null, header = "text", None, None, False
    words = list(words)
    while words:
        word = words.pop(0)
        if word.upper == "WITH":
            continue
        if word.upper in ("CSV", "BINARY"):
            name = word.upper.lower()
        elif word.upper == "FORMAT" and words:
            name = words.pop(0).text.lower()
        elif word.upper == "HEADER":
            said = words.pop(0).text.lower() if words and words[0].text.lower() in _SWITCHES else "true"
            header = said in ("true", "on", "1")
        elif word.upper == "DELIMITER" and words:
            delimiter = words.pop(0).text
        elif word.upper == "NULL" and words:
            null = words.pop(0).text
        else:
            raise StatementFault("0A000", "COPY knows FORMAT, HEADER, DELIMITER and NULL")
    if name not in ("text", "csv", "binary"):
        raise StatementFault("0A000", "COPY knows the formats text, csv and binary")
    delimiter = delimiter or ("," if name == "csv" else "\t")
    if len(delimiter) != 1 or delimiter in '\n\r\\"':
        raise StatementFault("22023", "the delimiter must be one character")
    return CopyFormat(name, delimiter, ("" if name == "csv" else "\\N") if null is None else null, header)


_SWITCHES: Final = ("true", "false", "on", "off", "1", "0")
