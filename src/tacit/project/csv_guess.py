"""Guess of the form of a CSV file, for its owner: delimiter, encoding, decimal mark, dates, names.

The first line is public. Whatever comes from rows is offered to the owner alone, who may write it into the project
file; nothing here decides how a file is read.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.engines.source_files import UTF_8, CsvFormat, date_pattern, delimiter_by_name
from tacit.project.project_template import toml_text
from tacit.project.schema_inference import NUMBER, SAMPLE_ROWS

#: A date format that only the owner can tell: 03/04/2024 is in March or in April.
AMBIGUOUS: Final = "?"
_FIRST_BYTES: Final = 1 << 20
_DELIMITERS: Final = (",", ";", "\t", "|")
_DAYS: Final = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d", "%d.%m.%y", "%d/%m/%y",
    "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y",
)  # fmt: skip
_CLOCKS: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_COMMA: Final = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}([.  \u202f'][0-9]{3})+)?(,[0-9]+)?\Z")
_POINT: Final = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}([,  \u202f'][0-9]{3})+)?(\.[0-9]+)?\Z")
_MOST_UNITS: Final = 5
#: Different texts of a column that may be of another type than the others, which are then a fifth of it at most.
_MOST_UNREAD: Final = 5
_MOST_VALUES: Final = 1000
_CODE: Final = re.compile(r"[A-Za-z]+[0-9]+\Z")
_WITH_UNIT: Final = re.compile(r"([^0-9+.,\s-]{0,4})\s?[+-]?[0-9][0-9.,]*\s?([^0-9.,\s]{0,12})\Z")


@dataclass(frozen=True)
class _Sample:
    text: str
    encoding: str


def guess_form(path: Path, *, look: bool) -> CsvFormat:
    """The delimiter and the encoding of a file, and with ``look`` its decimal mark; only the first line without.

    Raises:
        InputError: the file is in an encoding that cannot be read, with the command that converts it.
    """
    sample = _sample(path, look=look)
    delimiter = _delimiter(sample.text, path)
    form = CsvFormat(None if delimiter == delimiter_by_name(path.name) else delimiter, sample.encoding)
    if not look:
        return form
    header, rows = _rows(sample.text, delimiter)
    columns = [[row[place].strip() for row in rows if place < len(row)] for place in range(len(header))]
    decimal, thousands = guess_number_marks(columns)
    return replace(form, decimal_mark=decimal, thousands_mark=thousands)


def read_rows(path: Path, form: CsvFormat) -> tuple[list[str], list[list[str]]]:
    """The header and the first rows of a file. This reads data.

    Raises:
        InputError: the file cannot be read.
    """
    sample = _sample(path, look=True, encoding=form.encoding)
    return _rows(sample.text, form.delimiter_of(path.name))


def name_of(header: str, place: int, taken: Sequence[str]) -> str:
    """A name for questions of a column whose header is none: ``Ward name`` is ``ward_name``."""
    plain = unicodedata.normalize("NFKD", header.strip()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_").lower()[:50]
    words = words if words and is_name(words) else f"c_{words}" if words else f"column_{place}"
    used = {name.lower() for name in taken}
    number, name = 2, words
    while name in used:
        number, name = number + 1, f"{words}_{number}"
    return name


def guess_number_marks(columns: Sequence[Sequence[str]]) -> tuple[str, str]:
    """The decimal mark and the thousands mark of a file's numbers; a point and none where nothing says otherwise."""
    for mark, pattern, others in ((".", _POINT, ",  \u202f'"), (",", _COMMA, ".  \u202f'")):
        found = set()
        fractions = False
        for texts in columns:
            numbers, _ = most_of(texts, has_digit)
            if not numbers or not all(map(pattern.match, numbers)):
                continue
            seen = {sign for text in numbers for sign in text if sign in others}
            has_mark = any(mark in text for text in numbers)
            # 1,234 alone may be either; a fraction of another length than three digits is none.
            sure = any(mark in text and len(text.rpartition(mark)[2]) != 3 for text in numbers)
            if has_mark and (sure or mark == "." or seen):
                fractions = True
                found |= seen
        if fractions:
            sign = next(iter(sorted(found)), "")
            return mark, " " if sign in ("\u00a0", "\u202f") else sign
    return ".", ""


def most_of(texts: Sequence[str | None], fits: Callable[[str], object]) -> tuple[list[str], Counter[str]]:
    """The texts of a column that fit, and the others with their numbers; nothing where the others are many."""
    given = [text.strip() for text in texts if text is not None and text.strip()]
    fitting = [text for text in given if fits(text)]
    others = Counter(text for text in given if not fits(text))
    if len(others) > _MOST_UNREAD or 5 * others.total() > len(given):
        return [], Counter()
    return fitting, others


def is_number_of(form: CsvFormat) -> Callable[[str], bool]:
    """Whether a text is a number as a file writes them."""
    pattern = NUMBER if not form.has_own_numbers else _COMMA if form.decimal_mark == "," else _POINT
    return lambda text: has_digit(text) and pattern.match(text) is not None


def unread_remark(name: str, kind: str, others: Mapping[str, int], *, show: bool) -> str:
    """The sentence for the owner about texts of a column that are not of its type; quoted if ``show``."""
    if not show:
        words = "tacit doctor --look lists them, and null_values in the table says which stand for no value"
        return f"{name}: is read as {kind}; some of its first values are none and become NULL; {words}"
    ordered = sorted(others.items(), key=lambda each: (-each[1], each[0]))
    listed = ", ".join(f"{text!r} ({number:,})" for text, number in ordered)
    stated = ", ".join(toml_text(text) for text, _ in ordered)
    return f"{name}: is read as {kind}; not readable and NULL are {listed}; null_values = [{stated}] would state that"


def has_digit(text: str) -> bool:
    """Whether a text may be a number or a date, as ``n/a`` may not."""
    return any(sign.isdigit() for sign in text)


def guess_date_format(texts: Sequence[str | None]) -> tuple[str, str] | None:
    """The type and the format of a column of dates that SQL does not read; None where it has none.

    The format is :data:`AMBIGUOUS` where day and month can be exchanged in every row.
    """
    from datetime import datetime

    given = [text.strip() for text in texts if text is not None and text.strip()]
    if not given or not any(sign.isdigit() for sign in given[0]):
        return None
    found = []
    for day in _DAYS:
        for clock in _CLOCKS:
            form = day + clock
            if not re.fullmatch(date_pattern(form, "date_format"), given[0]):
                continue
            try:
                for text in given:
                    datetime.strptime(text, form)
            except ValueError:
                continue
            if all(re.fullmatch(date_pattern(form, "date_format"), text) for text in given):
                found.append((("timestamp" if clock else "date"), form))
    if len(found) > 1:
        return found[0][0], AMBIGUOUS
    return found[0] if found else None


def value_remarks(name: str, texts: Sequence[str | None], *, show: bool) -> list[str]:
    """Sentences for the owner about the texts of a column: units, spellings that nearly match; quoted if ``show``."""
    given = [text for text in texts if text is not None and text.strip()]
    if texts and not given:
        return [f"{name}: is empty in the first rows; state its type, or delete its line"]
    said = []
    units = [_WITH_UNIT.match(text.strip()) for text in given]
    # Letters right before digits alone, as in P0017, are the name of a thing: no amount and its unit of measurement.
    named = all(_CODE.match(text.strip()) for text in given)
    if given and not named and all(unit and (unit.group(1) or unit.group(2)) for unit in units):
        signs = sorted({repr(unit.group(1) or unit.group(2)) for unit in units if unit})
        if len(signs) <= _MOST_UNITS:
            shown = f" ({', '.join(signs)})" if show else ""
            said.append(f"{name}: its numbers have signs beside them{shown}, so it is text; write the numbers alone")
    alike = near_values(sorted(set(given))[:_MOST_VALUES])
    if alike and not show:
        said.append(
            f"{name}: some of its values differ in case, accents or spaces alone; tacit doctor --look names them"
        )
    elif alike:
        words = "differ in case, accents or spaces alone, and are different values"
        said += [f"{name}: {' and '.join(map(repr, group))} {words}" for group in alike]
    return said


def near_values(values: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of texts that are the same but for case, accents and spaces."""
    alike: dict[str, list[str]] = {}
    for value in values:
        alike.setdefault(spelled(value), []).append(value)
    return [tuple(sorted(group)) for _, group in sorted(alike.items()) if len(group) > 1]


def spelled(value: str) -> str:
    """A text without case, accents and spaces."""
    plain = unicodedata.normalize("NFKD", value)
    return "".join(sign for sign in plain if not unicodedata.combining(sign) and not sign.isspace()).casefold()


def _sample(path: Path, *, look: bool, encoding: str | None = None) -> _Sample:
    try:
        with path.open("rb") as stream:
            content = stream.read(_FIRST_BYTES) if look else stream.readline(_FIRST_BYTES)
    except OSError as problem:
        raise InputError("source", f"cannot read {path}: {problem.strerror}") from None
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content[:200]:
        new = f"{path.stem}-utf8{path.suffix}"
        raise InputError(
            "source",
            f"{path.name} is in UTF-16, which is not read; convert it: iconv -f UTF-16 -t UTF-8 {path.name} > {new}",
        )
    if len(content) == _FIRST_BYTES:
        content = content[: content.rfind(b"\n") + 1] or content
    if encoding is None:
        try:
            return _Sample(content.decode("utf-8-sig"), UTF_8)
        except UnicodeDecodeError as problem:
            # A letter that was cut off at the end is no sign of another encoding.
            if problem.start < len(content) - 4:
                encoding = "windows-1252"
    used = "utf-8-sig" if encoding in (None, UTF_8) else encoding
    return _Sample(content.decode(used, "replace"), encoding or UTF_8)


def _delimiter(text: str, path: Path) -> str:
    """The sign that splits the first line into most names, where the next lines have as many fields."""
    usual = delimiter_by_name(path.name)
    widths: Mapping[str, tuple[int, int]] = {sign: _widths(text, sign) for sign in _DELIMITERS}
    return max(
        _DELIMITERS, key=lambda sign: (*reversed(widths[sign]), sign == usual) if widths[sign][0] > 1 else (-1, 0, 0)
    )


def _widths(text: str, sign: str) -> tuple[int, int]:
    """The fields of the first line, and how many of the next lines have as many."""
    try:
        rows = list(islice(csv.reader(text.splitlines(), delimiter=sign), 51))
    except csv.Error:
        # A field that is too long is no field.
        return 0, 0
    width = len(rows[0]) if rows else 0
    return width, sum(len(row) == width for row in rows[1:])


def _rows(text: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader, [])]
        return header, [row for row in islice(reader, SAMPLE_ROWS) if row]
    except csv.Error as problem:
        raise InputError("source", f"the first rows cannot be read: {problem}") from None
