r"""CSV reader that parses each line separately, so that a malformed line affects no other line.

DuckDB splits a file at every ``\n`` and ``\r``, without regard to quotes; an SQL expression then splits each line into
fields. So an unclosed quote ends with its line, and a value cannot contain a line break. A field that begins with a
quote must end with one, and a doubled quote inside it stands for one; any other field is taken verbatim. Empty lines,
lines whose quotes do not close, that are not UTF-8, or that are longer than :data:`LONGEST` are left out. Fields beyond
the header are ignored; missing and empty fields are NULL. The data owner states the delimiter, the encoding and the
format of numbers and dates (:class:`~tacit.engines.files.CsvFormat`); the scan returns numbers and dates in SQL's
notation. See ``csv_lines.proof.md``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.files import UTF_8, CsvFormat, date_pattern
from tacit.query.types import Kind, SqlType

if TYPE_CHECKING:
    import duckdb

#: The column that holds a whole line; no header has this name.
LINE = "tacit line"
#: Bytes of the longest line that is read.
LONGEST = 2_000_000
_LONGEST_HEADER = 2**20
_MOST_UNREAD = 5
_BLOCK = 2**20
#: Number of decoded lines per INSERT.
_LINES = 2**16
_RUN = re.compile(rb"[^\r\n]+")
_ENDS = re.compile("[\r\n]")
#: Largest total size, in bytes, of files in encodings other than UTF-8, which are decoded in memory.
_LARGEST_DECODED = 2**28
#: DuckDB requires a separator; a line that contains this one is read up to it.
_NO_SEPARATOR = "\x01\x02\x03\x04"


USUAL = CsvFormat()
#: No column types: all fields stay texts.
_NO_KINDS: Mapping[str, SqlType] = {}
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)


@dataclass(frozen=True, slots=True)
class UnreadLine:
    """Number of a line that is not a row, or is one only in part, and the reason; for the data owner only."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class CsvLosses:
    """Counts of everything in some files that no row shows; for the data owner only.

    Args:
        rows: number of lines that are rows.
        left_out: number of lines that are not rows, without empty lines.
        other_width: number of rows with more or fewer fields than the header.
        texts: by column, number of fields that are not empty.
        read: by column, number of these fields that can be read as the column's type.
    """

    rows: int
    left_out: int
    other_width: int
    texts: Mapping[str, int]
    read: Mapping[str, int]

    def unreadable(self, column: str) -> int:
        """Return how many texts of a column are unreadable, and so NULL."""
        return self.texts[column] - self.read[column]


@dataclass(frozen=True, slots=True)
class CsvReport:
    """Losses of the CSV files of a table, with an example of each kind; for the data owner only.

    Args:
        left_out: a file and a line of it that is not a row; None if every line is a row.
        other_width: a file and a row of it with more or fewer fields than the header; None if there is none.
        nothing_read: columns of which no value can be read as the declared type.
        partly_read: columns of which some values cannot be read as the declared type.
        unread: by column of ``partly_read``, the most frequent values that cannot be read, with their counts.
    """

    left_out: tuple[str, UnreadLine] | None
    other_width: tuple[str, UnreadLine] | None
    nothing_read: tuple[str, ...]
    partly_read: tuple[str, ...]
    unread: Mapping[str, tuple[tuple[str, int], ...]]


def read_header(file: str, table: str, form: CsvFormat = USUAL) -> tuple[str, ...]:
    """Return the names in the first line of a file; an unnamed column is named by its position, ``column 1``.

    Raises:
        InputError: the line is not a header; the message names ``table``.
    """
    try:
        with Path(file).open("rb") as stream:
            line = stream.readline(_LONGEST_HEADER).decode("utf-8-sig" if form.encoding == UTF_8 else form.encoding)
        found = next(csv.reader([line.rstrip("\r\n")], delimiter=form.delimiter_of(file), strict=True), [])
    except UnicodeDecodeError:
        hint = 'state its encoding, such as encoding = "windows-1252"; tacit doctor makes a guess'
        raise InputError(table, f"the header line of a source is not {form.encoding.upper()} text; {hint}") from None
    except (OSError, csv.Error):
        raise InputError(table, f"cannot read the header line of a source as {form.encoding.upper()} text") from None
    names = tuple(name.strip() or f"column {place}" for place, name in enumerate(found, 1))
    if not any(found) or LINE in names or len({name.lower() for name in names}) != len(names):
        raise InputError(table, "the first line of a CSV source must name its columns, each once")
    return names


def csv_scan(
    lines: str, header: Sequence[str], separator: str, form: CsvFormat = USUAL, kinds: Mapping[str, SqlType] = _NO_KINDS
) -> str:
    """Return SQL after FROM: :data:`LINE` and one text per name of the header, for each line that can be read.

    Args:
        lines: result of :func:`open_lines`.
        header: names of the columns.
        separator: separator between fields.
        form: format of numbers and dates.
        kinds: types of columns by lower-case name; fields of number and date columns become texts in SQL's notation.
    """
    columns = _named_fields(header, form, kinds)
    return f"(SELECT {DUCKDB.quoted(LINE)}, {columns} FROM ({_split(lines, separator)}) WHERE f IS NOT NULL)"


def count_losses(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[str],
    split: str,
    header: Sequence[str],
    read: Mapping[str, tuple[str, str]],
    form: CsvFormat = USUAL,
) -> CsvLosses:
    """Count everything that no row shows, in one pass; for the data owner only.

    Args:
        connection: any DuckDB connection.
        files: files that are read together.
        split: result of :func:`split_lines`.
        header: names of the columns.
        read: by column, its name in the header and the SQL over the scan that reads it as its type.
        form: format of the files.
    """
    names = list(read)
    full = {name: f"trim({DUCKDB.quoted(f'text {name}')}, ' ') <> ''" for name in names}
    texts = [f"count(*) FILTER (WHERE {full[name]})" for name in names]
    values = [f"count(*) FILTER (WHERE {full[name]} AND ({read[name][1]}) IS NOT NULL)" for name in names]
    counted = ", ".join(["count(f)", f"count(*) FILTER (WHERE len(f) <> {len(header)})", *texts, *values])
    found = connection.execute(f"SELECT {counted} FROM {_with_texts(split, header, read, form)}").fetchall()[0]
    rows, width, *each = map(int, found or ())
    half = len(names)
    return CsvLosses(
        rows,
        sum(map(_count_written, files)) - rows,
        width,
        dict(zip(names, each[:half], strict=True)),
        dict(zip(names, each[half:], strict=True)),
    )


def unread_values(
    connection: duckdb.DuckDBPyConnection,
    split: str,
    header: Sequence[str],
    read: Mapping[str, tuple[str, str]],
    form: CsvFormat,
    column: str,
) -> tuple[tuple[str, int], ...]:
    """Return the most frequent texts of a column that are not of its type, with their counts; for the data owner only.

    The arguments are those of :func:`count_losses`.
    """
    text = f"trim({DUCKDB.quoted(f'text {column}')}, ' ')"
    asked = (
        f"SELECT {text} AS t, count(*) AS n FROM {_with_texts(split, header, read, form)}"
        f" WHERE {text} <> '' AND ({read[column][1]}) IS NULL GROUP BY t ORDER BY n DESC, t LIMIT {_MOST_UNREAD}"
    )
    return tuple((str(value), int(number)) for value, number in connection.execute(asked).fetchall())


def _with_texts(split: str, header: Sequence[str], read: Mapping[str, tuple[str, str]], form: CsvFormat) -> str:
    places = {name.lower(): place for place, name in enumerate(header, 1)}
    raw = ", ".join(
        f"{_field_text(places[stored.lower()], form)} AS {DUCKDB.quoted(f'text {name}')}"
        for name, (stored, _) in read.items()
    )
    return f"(SELECT *, {raw} FROM ({split}))"


def split_lines(
    lines: str, header: Sequence[str], separator: str, form: CsvFormat, kinds: Mapping[str, SqlType]
) -> str:
    """Return a statement like :func:`csv_scan` with the list ``f`` of fields, NULL for lines that cannot be read."""
    return f"SELECT f, {_named_fields(header, form, kinds)} FROM ({_split(lines, separator)})"


def _named_fields(header: Sequence[str], form: CsvFormat, kinds: Mapping[str, SqlType]) -> str:
    return ", ".join(
        f"{_canonical(_field_text(place, form), form, name, kinds)} AS {DUCKDB.quoted(name)}"
        for place, name in enumerate(header, 1)
    )


def first_unread(file: str, width: int, form: CsvFormat = USUAL) -> tuple[UnreadLine | None, UnreadLine | None]:
    """Return the first line that is not a row, and the first row with more or fewer fields than the header's ``width``.

    For the data owner only; None if there is none.
    """
    separator, is_utf8 = form.delimiter_of(file), form.encoding == UTF_8
    row, fields = re.compile(_pattern(separator)), re.compile(f"{_escaped(separator)}(?:{_field(separator)})")
    left_out = other_width = None
    for number, line in enumerate(_written(file), 1):
        try:
            encoding = "utf-8-sig" if is_utf8 and number == 1 else form.encoding
            text = line.decode(encoding, "strict" if is_utf8 else "replace")
        except UnicodeDecodeError:
            left_out = left_out or UnreadLine(number, "it is not UTF-8 text")
            continue
        for part in filter(None, text.split("\r")):
            count = len(fields.findall(separator + part))
            if len(part.encode()) > LONGEST:
                left_out = left_out or UnreadLine(number, f"it is longer than {LONGEST:,} bytes")
            elif not row.fullmatch(part):
                reason = "its quotes do not close, or a quoted value goes on in the next line"
                left_out = left_out or UnreadLine(number, reason)
            elif number > 1 and count != width:
                reason = f"it has {count} field{'s' if count > 1 else ''}, and the header has {width}"
                other_width = other_width or UnreadLine(number, reason)
        if left_out and other_width:
            break
    return left_out, other_width


def _field_text(place: int, form: CsvFormat) -> str:
    text = f"nullif(f[{place}], '')"
    if not form.null_values:
        return text
    return f"CASE WHEN trim(f[{place}], ' ') NOT IN ({', '.join(map(DUCKDB.text, form.null_values))}) THEN {text} END"


def _canonical(text: str, form: CsvFormat, name: str, kinds: Mapping[str, SqlType]) -> str:
    """Return SQL of a field in SQL's notation of its type; NULL if it does not have the stated format."""
    kind = kinds.get(name.lower())
    if kind is None:
        return text
    if kind.kind in _NUMBERS and form.has_own_numbers:
        return DUCKDB.let(f"trim({text}, ' ')", lambda v: _number(v, form))
    stated = form.date_formats.get(name.lower()) or (form.date_format if kind.kind is Kind.DATE else None)
    if not kind.is_temporal or stated is None:
        return text
    shown = "%Y-%m-%d" if kind.kind is Kind.DATE else "%Y-%m-%d %H:%M:%S.%f"
    # The pattern is tested first: DuckDB reads "infinity" as the year 1900.
    pattern = DUCKDB.text(date_pattern(stated, "date_format"))
    return DUCKDB.let(
        f"trim({text}, ' ')",
        lambda v: (
            f"CASE WHEN regexp_full_match({v}, {pattern})"
            f" THEN strftime(try_strptime({v}, {DUCKDB.text(stated)}), '{shown}') END"
        ),
    )


def _number(text: str, form: CsvFormat) -> str:
    marks = (" ", "\u00a0", "\u202f") if form.thousands_mark == " " else tuple(form.thousands_mark)
    between = "".join(f"\\x{{{ord(mark):x}}}" for mark in marks)
    grouped = f"|[0-9]{{1,3}}([{between}][0-9]{{3}})+" if marks else ""
    point = _escaped(form.decimal_mark)
    pattern = DUCKDB.text(f"[+-]?([0-9]+{grouped})?({point}[0-9]*)?([eE][+-]?[0-9]{{1,3}})?")
    plain = text
    for mark in marks:
        plain = f"replace({plain}, {DUCKDB.text(mark)}, '')"
    plain = f"replace({plain}, {DUCKDB.text(form.decimal_mark)}, '.')"
    return f"CASE WHEN regexp_full_match({text}, {pattern}) THEN {plain} END"


def _written(file: str) -> Iterator[bytes]:
    with Path(file).open("rb") as stream:
        for line in stream:
            yield line.rstrip(b"\r\n")


def _count_written(file: str) -> int:
    """Count the lines that are not empty, without the header."""
    number, inside = -1, False
    with Path(file).open("rb") as stream:
        while block := stream.read(_BLOCK):
            runs = len(_RUN.findall(block))
            number += runs - (inside and block[:1] not in b"\r\n")
            inside = block[-1:] not in b"\r\n"
    return number


def open_lines(connection: duckdb.DuckDBPyConnection, files: Sequence[str], form: CsvFormat, name: str) -> str:
    """Return SQL after FROM whose only column ``line`` holds the lines of some files, without the headers.

    DuckDB reads UTF-8 files directly. For other encodings, one bad byte makes its decoder refuse the whole file, so
    those are decoded here, byte by byte, into a table ``name`` in the memory of the connection.

    Raises:
        InputError: files in another encoding are too large for memory.
    """
    if form.encoding == UTF_8:
        return utf8_lines(files)
    if sum(Path(file).stat().st_size for file in files) > _LARGEST_DECODED:
        hint = f"convert it: iconv -f {form.encoding} -t UTF-8"
        raise InputError("encoding", f"files of more than {_LARGEST_DECODED >> 20} MiB are read in UTF-8 alone; {hint}")
    # This table is never written to disk: the database is in memory.
    connection.execute(f"CREATE OR REPLACE TABLE {DUCKDB.quoted(name)} (line VARCHAR)")
    for file in files:
        text = Path(file).read_bytes().decode(form.encoding, "replace")
        lines = _ENDS.split(text)[1:]
        for first in range(0, len(lines), _LINES):
            part = lines[first : first + _LINES]
            connection.execute(f"INSERT INTO {DUCKDB.quoted(name)} SELECT unnest($1::VARCHAR[])", [part])
    return DUCKDB.quoted(name)


def utf8_lines(files: Sequence[str]) -> str:
    """Return SQL after FROM for the lines of UTF-8 files, which DuckDB reads when a query runs."""
    listed = ", ".join(map(DUCKDB.text, files))
    # All options are stated, so that DuckDB infers none from the data.
    return (
        f"read_csv([{listed}], columns = {{'line': 'VARCHAR'}}, header = true, auto_detect = false, delim = '{_NO_SEPARATOR}', "  # noqa: E501
        "quote = '', escape = '', comment = '', nullstr = '', new_line = '\\n', ignore_errors = true, null_padding = true, strict_mode = false, "  # noqa: E501
        f"compression = 'none', encoding = 'utf-8', max_line_size = {LONGEST + 4096}, hive_partitioning = false)"
    )


def _split(lines: str, separator: str) -> str:
    """Select each line and the list ``f`` of its fields, NULL if the line cannot be split."""
    field = _field(separator)
    # With a separator prepended to the line, every field follows a separator.
    wanted = DUCKDB.text(f"{_escaped(separator)}({field})")
    fields = f"regexp_extract_all({DUCKDB.text(separator)} || line, {wanted}, 1)"
    plain = "CASE WHEN starts_with(x, '\"') THEN replace(substring(x, 2, length(x) - 2), '\"\"', '\"') ELSE x END"
    split = (
        f"CASE WHEN NOT contains(line, '\"') THEN string_split(line, {DUCKDB.text(separator)})"
        f" WHEN regexp_full_match(line, {DUCKDB.text(_pattern(separator))})"
        f" THEN list_transform({fields}, lambda x: {plain}) END"
    )
    # Lines are bounded here: the length at which DuckDB refuses a line may depend on its position in the file.
    return f"SELECT line AS {DUCKDB.quoted(LINE)}, {split} AS f FROM {lines} WHERE strlen(line) BETWEEN 1 AND {LONGEST}"


def _escaped(separator: str) -> str:
    return f"\\x{ord(separator):02x}"


def _field(separator: str) -> str:
    sign = _escaped(separator)
    return f'"(?:[^"]|"")*"|(?:[^"{sign}][^{sign}]*)?'


def _pattern(separator: str) -> str:
    field = f"(?:{_field(separator)})"
    return f"{field}(?:{_escaped(separator)}{field})*"
