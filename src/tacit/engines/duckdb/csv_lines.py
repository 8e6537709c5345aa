r"""CSV reader by lines: a line can harm itself only.

DuckDB splits a file at every ``\n`` and ``\r`` and knows of no quotes; each line is then split into fields by an
expression of its own. So an unclosed quote ends with its line, and a value cannot hold a new line. A field that begins
with a quote ends with one, and a doubled quote inside it is one; any other field is taken verbatim. Left out are empty
lines, lines whose quotes do not close, that are not UTF-8, or that are longer than :data:`LONGEST`. Fields beyond the
header are ignored, missing ones are NULL, and so are empty ones. See ``csv_lines.proof.md``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.engines.duckdb.dialect import DUCKDB

if TYPE_CHECKING:
    import duckdb

__all__ = ["LINE", "LONGEST", "count_left_out", "csv_scan", "first_left_out", "read_header", "separator_of"]

#: The column that holds a whole line; no header has this name.
LINE = "tacit line"
#: Bytes of the longest line that is read.
LONGEST = 2_000_000
_LONGEST_HEADER = 2**20
_BLOCK = 2**20
_RUN = re.compile(rb"[^\r\n]+")
#: DuckDB needs some separator; a line that holds this one is read up to it.
_NO_SEPARATOR = "\x01\x02\x03\x04"


def separator_of(file: str) -> str:
    """By the end of a file's name."""
    return "\t" if file.lower().endswith(".tsv") else ","


def read_header(file: str, table: str) -> tuple[str, ...]:
    """The names in the first line of a file.

    Raises:
        InputError: it is no header line; ``table`` is named.
    """
    try:
        with Path(file).open("rb") as stream:
            line = stream.readline(_LONGEST_HEADER).decode("utf-8-sig")
        names = tuple(next(csv.reader([line.rstrip("\r\n")], delimiter=separator_of(file), strict=True), ()))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InputError(table, "cannot read the header line of a source as UTF-8 text") from None
    if not names or "" in names or LINE in names or len({name.lower() for name in names}) != len(names):
        raise InputError(table, "the first line of a CSV source must name its columns, each once")
    return names


def csv_scan(files: Sequence[str], header: Sequence[str]) -> str:
    """A query after FROM: :data:`LINE` and one text per name of the header, for each line that can be read."""
    columns = ", ".join(f"nullif(f[{i}], '') AS {DUCKDB.quoted(name)}" for i, name in enumerate(header, 1))
    return f"(SELECT {DUCKDB.quoted(LINE)}, {columns} FROM ({_split(files)}) WHERE f IS NOT NULL)"


def count_left_out(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> int:
    """Count the lines of some files that are no rows, empty ones aside: for the owner's eyes alone."""
    ((read,),) = connection.execute(f"SELECT count(f) FROM ({_split(files)})").fetchall()
    return sum(map(_count_written, files)) - int(read)


def first_left_out(file: str) -> int | None:
    """The number of the first line of a file that is no row, for the owner's eyes alone; None where all are."""
    pattern = re.compile(_pattern(separator_of(file)))
    for number, line in enumerate(_written(file), 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            return number
        if any(part and not (pattern.fullmatch(part) and len(part.encode()) <= LONGEST) for part in text.split("\r")):
            return number
    return None


def _written(file: str) -> Iterator[bytes]:
    with Path(file).open("rb") as stream:
        for line in stream:
            yield line.rstrip(b"\r\n")


def _count_written(file: str) -> int:
    """Lines that are not empty, the header aside."""
    number, inside = -1, False
    with Path(file).open("rb") as stream:
        while block := stream.read(_BLOCK):
            runs = len(_RUN.findall(block))
            number += runs - (inside and block[:1] not in b"\r\n")
            inside = block[-1:] not in b"\r\n"
    return number


def _lines(files: Sequence[str]) -> str:
    listed = ", ".join(map(DUCKDB.text, files))
    # Nothing is guessed from the data.
    return (
        f"read_csv([{listed}], columns = {{'line': 'VARCHAR'}}, header = true, auto_detect = false, delim = '{_NO_SEPARATOR}', "  # noqa: E501
        "quote = '', escape = '', comment = '', nullstr = '', new_line = '\\n', ignore_errors = true, null_padding = true, strict_mode = false, "  # noqa: E501
        f"compression = 'none', encoding = 'utf-8', max_line_size = {LONGEST + 4096}, hive_partitioning = false)"
    )


def _split(files: Sequence[str]) -> str:
    """Lines, and the list ``f`` of their fields; NULL where a line cannot be split."""
    separator = separator_of(files[0])
    field = _field(separator)
    # With a separator in front, every field begins with one.
    fields = f"regexp_extract_all({DUCKDB.text(separator)} || line, {DUCKDB.text(f'{separator}({field})')}, 1)"
    plain = "CASE WHEN starts_with(x, '\"') THEN replace(substring(x, 2, length(x) - 2), '\"\"', '\"') ELSE x END"
    split = (
        f"CASE WHEN NOT contains(line, '\"') THEN string_split(line, {DUCKDB.text(separator)})"
        f" WHEN regexp_full_match(line, {DUCKDB.text(_pattern(separator))})"
        f" THEN list_transform({fields}, lambda x: {plain}) END"
    )
    lines = _lines(files)
    # Lines are bounded here: where DuckDB gives up on a long one may depend on where it stands.
    return f"SELECT line AS {DUCKDB.quoted(LINE)}, {split} AS f FROM {lines} WHERE strlen(line) BETWEEN 1 AND {LONGEST}"


def _field(separator: str) -> str:
    return f'"(?:[^"]|"")*"|(?:[^"{separator}][^{separator}]*)?'


def _pattern(separator: str) -> str:
    field = f"(?:{_field(separator)})"
    return f"{field}(?:{separator}{field})*"
