"""Draft of a project's tables for their owner: what the sources state, and guesses from their first rows.

Names, Parquet schemas, schemas of databases and the first line of a CSV file are public. Facts from rows are
shown only to the owner, who may see the rows anyway and may write the facts into the project file; no guess decides
how a file is read. Of a database no row is read, and none of the statistics that it keeps of its columns.
"""

from __future__ import annotations

import csv
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tacit.core.errors import InputError, TacitError
from tacit.core.names import is_name
from tacit.core.numbers import float_up
from tacit.engines.files import UTF_8, CsvFormat, date_pattern, delimiter_by_name
from tacit.engines.protocol import DoctorCheck
from tacit.engines.registry import csv_header, csv_losses, stored_names, stored_types
from tacit.project.project_template import Draft, DraftColumn, DraftTable, toml_text, typed_column

if TYPE_CHECKING:
    from tacit.project.project_file import Project

#: Suffixes of the names of files that are read.
CSV: Final = (".csv", ".tsv")
PARQUET: Final = (".parquet", ".pq")
#: Maximal number of rows that are read.
SAMPLE_ROWS: Final = 1000
#: Number of rows that is assumed for the error of an average.
SUPPOSED: Final = 1000
#: Stands for a date format that only the owner knows: 03/04/2024 is in March or in April.
AMBIGUOUS: Final = "?"
_FIRST_BYTES: Final = 1 << 20
#: A column with more distinct values is not offered as categories.
_MOST_CATEGORIES: Final = 30
_MOST_DIGITS: Final = 6
_MOST_UNITS: Final = 5
#: Number of unreadable texts that a remark lists.
_MOST_UNREAD: Final = 5
_MOST_VALUES: Final = 1000

_PERSONS: Final = (
    "patient", "person", "people", "user", "customer", "client", "member", "employee", "student", "subject",
    "participant", "citizen", "resident", "household", "respondent", "account", "owner", "visitor", "pupil",
    "worker", "staff", "tenant", "donor", "voter", "driver", "rider", "passenger", "player",
)  # fmt: skip
_DELIMITERS: Final = (",", ";", "\t", "|")
_DAYS: Final = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d", "%d.%m.%y", "%d/%m/%y",
    "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y",
)  # fmt: skip
_CLOCKS: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_WHOLE: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})\Z")
_POINT: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,11})\.([0-9]+)\Z")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?\Z")
_TRUTH: Final = frozenset({"true", "false", "yes", "no"})
#: By decimal mark: a pattern of numbers with it, and the marks that may separate thousands.
_MARKED: Final = {
    ".": (re.compile(r"[+-]?([0-9]+|[0-9]{1,3}([, \u00a0\u202f'][0-9]{3})+)?(\.[0-9]+)?\Z"), ", \u00a0\u202f'"),
    ",": (re.compile(r"[+-]?([0-9]+|[0-9]{1,3}([. \u00a0\u202f'][0-9]{3})+)?(,[0-9]+)?\Z"), ". \u00a0\u202f'"),
}
_CODE: Final = re.compile(r"[A-Za-z]+[0-9]+\Z")
_WITH_UNIT: Final = re.compile(r"([^0-9+.,\s-]{0,4})\s?[+-]?[0-9][0-9.,]*\s?([^0-9.,\s]{0,12})\Z")
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}\Z")


# -- guesses from names and texts


@dataclass(frozen=True)
class TypeGuess:
    """A type as a project file writes it, with the ``step`` of a decimal."""

    type: str
    step: str | None = None


def guess_unit(names: Iterable[str]) -> str | None:
    """Return the column whose name suggests that it identifies a person, ``patient_id`` before ``id``, or None."""
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(name.lower().replace("-", "_"), name)
    persons = (f"{person}{end}" for person in _PERSONS for end in ("_id", "id", "_no", "_number", "_key", ""))
    found = next((by_name[name] for name in persons if name in by_name), None)
    return found or next((each for name, each in by_name.items() if name in ("id", "uid", "uuid", "pid", "ssn")), None)


def guess_type(values: Sequence[str | None]) -> TypeGuess | None:
    """Return the narrowest type that all texts can be read as; None without any text."""
    texts = [text.strip(" ") for text in values if text is not None and text.strip(" ")]
    if not texts:
        return None
    if all(text.lower() in _TRUTH for text in texts):
        return TypeGuess("boolean")
    if all(map(_WHOLE.match, texts)):
        return TypeGuess("integer")
    points = [_POINT.match(text) for text in texts]
    if all(point or _WHOLE.match(text) for point, text in zip(points, texts, strict=True)):
        digits = max(len(point.group(2)) for point in points if point)
        return TypeGuess("decimal", f"{10**-digits:.{digits}f}") if digits <= _MOST_DIGITS else TypeGuess("double")
    # Leading zeros are part of a code, not of a number.
    if all(map(_NUMBER.match, texts)) and not any(re.match(r"[+-]?0[0-9]", text) for text in texts):
        return TypeGuess("double")
    if all(map(_DATE.match, texts)):
        return TypeGuess("date")
    return TypeGuess("timestamp" if all(map(_TIME.match, texts)) else "text")


def guess_categories(values: Sequence[str | None]) -> list[str] | None:
    """Return the distinct texts of a column, sorted, if they are few and each occurs often; else None."""
    texts = [text for text in values if text]
    different = sorted(set(texts))
    few = 2 <= len(different) <= _MOST_CATEGORIES and 5 * len(different) <= len(texts)
    return different if few else None


def near_pairs(values: Iterable[str], listed: Collection[str] | None = None) -> list[tuple[str, str]]:
    """Return pairs of a value and a listed one that differ only in case, accents or spaces.

    Where no list is given, each value is compared with the earlier values.
    """
    known = {_spelled(text): text for text in sorted(listed or ())}
    found = []
    for text in values:
        other = known.setdefault(_spelled(text), text) if listed is None else known.get(_spelled(text))
        if other not in (None, text) and text not in (listed or ()):
            found.append((text, str(other)))
    return found


def _spelled(value: str) -> str:
    plain = unicodedata.normalize("NFKD", value)
    return "".join(sign for sign in plain if not unicodedata.combining(sign) and not sign.isspace()).casefold()


def _has_digit(text: str) -> bool:
    """Return whether a text may be a number or a date, as ``n/a`` may not."""
    return any(sign.isdigit() for sign in text)


def _is_number(pattern: re.Pattern[str], text: str) -> bool:
    return _has_digit(text) and pattern.match(text) is not None


def _most_of(texts: Sequence[str | None], fits: Callable[[str], object]) -> tuple[list[str], Counter[str]]:
    """Return the texts of a column that fit, and counts of those that do not; both empty if over a fifth do not."""
    given = [text.strip() for text in texts if text is not None and text.strip()]
    others = Counter(text for text in given if not fits(text))
    if 5 * others.total() > len(given):
        return [], Counter()
    return [text for text in given if fits(text)], others


# -- CSV files


@dataclass(frozen=True)
class CsvDraft:
    """Draft of a CSV file.

    Args:
        form: format of the file.
        columns: its columns.
        remarks: sentences for the owner.
    """

    form: CsvFormat
    columns: tuple[DraftColumn, ...]
    remarks: tuple[str, ...] = ()


def draft_csv(path: Path, *, show: bool = False, null_values: Collection[str] = ()) -> CsvDraft:
    """Draft a CSV file from its header and its first rows; remarks quote values only if ``show`` is set.

    ``null_values`` are texts that the owner has stated to mean NULL; no remark is about them.

    Raises:
        InputError: it has no header, or is in an encoding that cannot be read.
    """
    # Imported late: the parser is slow to import, and a command that only shows its help does not need it.
    from tacit.query.parsing.parse import is_writable

    form = guess_form(path)
    try:
        header = csv_header(str(path), form)
    except InputError:
        raise InputError("source", f"the first line of {path.name} must name its columns, each once") from None
    names: list[str] = []
    for place, name in enumerate(header, 1):
        if is_name(name) and is_writable(name):
            names.append(name)
        else:
            names.append(_name_of(f"c {name}" if is_name(name) else name, place, (*header, *names)))
    _, rows = read_rows(path, form)
    columns, remarks = [], []
    for place, (name, stored) in enumerate(zip(names, header, strict=True)):
        texts = [(row[place].strip("\r\n") or None) if place < len(row) else None for row in rows]
        column, unread = _csv_column(name, stored, texts, form)
        columns.append(column)
        remarks += _value_remarks(name, texts, show=show)
        unread = {text: number for text, number in unread.items() if text not in null_values}
        if unread:
            remarks.append(_unread_remark(name, column.type or "", unread, show=show))
        elif column.type == "text":
            remarks += _mixed_remark(name, texts, form)
    said = [f"{path.name}: {sentence}" for sentence in _form_remarks(form, columns)]
    return CsvDraft(form, tuple(columns), (*said, *remarks))


def guess_form(path: Path) -> CsvFormat:
    """Return the delimiter, the encoding and the marks of numbers of a file, by its beginning.

    Raises:
        InputError: the file is in an encoding that cannot be read; the message has a command that converts it.
    """
    text, encoding = _sample(path)
    usual = delimiter_by_name(path.name)
    delimiter = max(_DELIMITERS, key=lambda sign: (*_fit_of(text, sign), sign == usual))
    header, rows = _rows(text, delimiter)
    columns = [[row[place].strip() for row in rows if place < len(row)] for place in range(len(header))]
    decimal, thousands = _number_marks(columns)
    return CsvFormat(
        None if delimiter == usual else delimiter, encoding, decimal_mark=decimal, thousands_mark=thousands
    )


def read_rows(path: Path, form: CsvFormat) -> tuple[list[str], list[list[str]]]:
    """Return the header and the first rows of a file. This reads data.

    Raises:
        InputError: the file cannot be read.
    """
    return _rows(_sample(path, form.encoding)[0], form.delimiter_of(path.name))


def plain_numbers(texts: Sequence[str | None], form: CsvFormat) -> list[str | None]:
    """Return texts with their numbers in SQL's notation, for guesses."""
    if not form.has_own_numbers:
        return list(texts)
    marks = form.thousands_mark + ("\u00a0\u202f" if form.thousands_mark == " " else "")
    removed = {ord(mark): None for mark in marks} | {ord(form.decimal_mark): "."}
    return [None if text is None else text.translate(removed) for text in texts]


def _sample(path: Path, encoding: str | None = None) -> tuple[str, str]:
    """Return the beginning of a file and its encoding."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_FIRST_BYTES)
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
            return content.decode("utf-8-sig"), UTF_8
        except UnicodeDecodeError as problem:
            # A character that was cut off at the end does not indicate another encoding.
            encoding = UTF_8 if problem.start >= len(content) - 4 else "windows-1252"
    return content.decode("utf-8-sig" if encoding == UTF_8 else encoding, "replace"), encoding


def _fit_of(text: str, sign: str) -> tuple[int, int]:
    """Return the number of next lines that a delimiter splits into as many fields as the first, and of those fields."""
    try:
        rows = list(islice(csv.reader(text.splitlines(), delimiter=sign), 51))
    except csv.Error:
        return -1, 0  # A field is too long: not the delimiter.
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows[1:]), width) if width > 1 else (-1, 0)


def _rows(text: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader, [])]
        return header, [row for row in islice(reader, SAMPLE_ROWS) if row]
    except csv.Error as problem:
        raise InputError("source", f"the first rows cannot be read: {problem}") from None


def _name_of(header: str, place: int, taken: Sequence[str]) -> str:
    """Return a name in queries for a column whose header is not a valid name: ``ward_name`` for ``Ward name``."""
    plain = unicodedata.normalize("NFKD", header.strip().casefold()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:50]
    words = words if words and is_name(words) else f"c_{words}" if words else f"column_{place}"
    used = {name.lower() for name in taken}
    number, name = 2, words
    while name in used:
        number, name = number + 1, f"{words}_{number}"
    return name


def _number_marks(columns: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return the decimal and thousands marks with which most numbers of a file can be read; else ``.`` and none."""
    found: list[tuple[int, str, str]] = []
    for mark, (pattern, others) in _MARKED.items():
        signs = set()
        fractions, unread = False, 0
        for texts in columns:
            numbers, _ = _most_of(texts, partial(_is_number, pattern))
            unread += sum(_has_digit(text) for text in texts) - len(numbers)
            seen = {sign for text in numbers for sign in text if sign in others}
            marked = [text.rpartition(mark)[2] for text in numbers if mark in text]
            # 1,234 alone is ambiguous; digits after the mark that are not three are a fraction.
            if marked and (mark == "." or seen or any(len(fraction) != 3 for fraction in marked)):
                fractions = True
                signs |= seen
        if fractions:
            sign = next(iter(sorted(signs)), "")
            found.append((unread, mark, " " if sign in ("\u00a0", "\u202f") else sign))
    _, decimal, thousands = min(found, key=lambda each: each[0], default=(0, ".", ""))
    return decimal, thousands


def _csv_column(
    name: str, stored: str, values: list[str | None], form: CsvFormat
) -> tuple[DraftColumn, Mapping[str, int]]:
    """Return a column as its readable values suggest it, and counts of the few other values."""
    column = DraftColumn(name, source=None if stored == name else stored)
    guess = guess_type(values)
    if guess is None:
        return column, {}
    unread: Mapping[str, int] = {}
    if guess.type == "text":
        dates, no_dates = _most_of(values, _has_digit)
        date = _date_format(dates)
        if date is not None:
            return replace(column, type=date[0], date_format=date[1]), no_dates
        pattern = _MARKED[form.decimal_mark][0] if form.has_own_numbers else _NUMBER
        numbers, no_numbers = _most_of(values, partial(_is_number, pattern))
        # Many texts such as 12a beside whole numbers are codes, such as house numbers, and none stands for NULL.
        codes = sum(map(_has_digit, no_numbers)) > _MOST_UNREAD
        numeric = ("decimal", "double") if codes else ("integer", "decimal", "double")
        # A type other than text of all but a few values.
        for found, kinds, rest in (
            (guess_type(dates), ("date", "timestamp"), no_dates),
            (guess_type(plain_numbers(numbers, form)), numeric, no_numbers),
        ):
            if found is not None and found.type in kinds:
                guess, unread = found, rest
                break
    few = guess.type in ("text", "integer") and guess_categories(values) is not None
    return replace(column, type=guess.type, step=guess.step, few_values=few), unread


def _date_format(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the type and the format of a column of dates that SQL does not read; None if none fits.

    The format is :data:`AMBIGUOUS` if day and month can be swapped in every row.
    """
    found = []
    for form in (day + clock for day in _DAYS for clock in _CLOCKS):
        pattern = date_pattern(form, "date_format")
        if not texts or not all(re.fullmatch(pattern, text) for text in texts):
            continue
        try:
            for text in texts:
                datetime.strptime(text, form)
        except ValueError:
            continue
        found.append(("date" if form in _DAYS else "timestamp", form))
    return found[0] if len(found) == 1 else (found[0][0], AMBIGUOUS) if found else None


def _form_remarks(form: CsvFormat, columns: Sequence[DraftColumn]) -> Iterator[str]:
    """Yield sentences about the format of a file where it differs from the default."""
    if form.delimiter is not None:
        yield f"fields are separated by {form.delimiter!r}"
    if form.encoding != UTF_8:
        yield f"it is not UTF-8 and is read as {form.encoding}; check the letters beyond ASCII"
    if form.has_own_numbers:
        between = f" and {form.thousands_mark!r} between thousands" if form.thousands_mark else ""
        yield f"numbers have {form.decimal_mark!r} before their fractions{between}"
    for column in columns:
        if column.source is not None:
            why = ", for it is a word of SQL" if is_name(column.source) else ""
            yield f"{column.source!r} is called {column.name} in queries{why}"
        if column.date_format == AMBIGUOUS:
            yield f"{column.name} has days and months that could be exchanged: state its date_format"
        elif column.date_format is not None:
            yield f"{column.name} has dates as {column.date_format}"


def _mixed_remark(name: str, texts: Sequence[str | None], form: CsvFormat) -> list[str]:
    """Return a sentence for the owner about a text column in which at least half of the values are numbers."""
    pattern = _MARKED[form.decimal_mark][0] if form.has_own_numbers else _NUMBER
    given = [text.strip() for text in texts if text is not None and text.strip()]
    numbers = sum(_is_number(pattern, text) for text in given)
    if not given or 2 * numbers < len(given) or numbers == len(given):
        return []
    words = "a type and the marks of the table would make the others NULL"
    return [f"{name}: is read as text, though {100 * numbers // len(given)}% of its first values are numbers: {words}"]


def _unread_remark(name: str, kind: str, others: Mapping[str, int], *, show: bool) -> str:
    """Return a sentence for the owner about texts of a column that are not of its type; quoted if ``show``."""
    if not show:
        words = "tacit doctor --look lists them, and null_values in the table says which stand for no value"
        return f"{name}: is read as {kind}; some of its first values cannot be read so and become NULL; {words}"
    ordered = sorted(others.items(), key=lambda each: (-each[1], each[0]))
    listed = ", ".join(f"{text!r} ({number:,})" for text, number in ordered[:_MOST_UNREAD])
    if len(ordered) > _MOST_UNREAD:
        rest = f"{sum(others.values()):,} in all, {len(ordered) - _MOST_UNREAD} other texts among them"
        return f"{name}: is read as {kind}; not readable and NULL are {listed}, {rest}"
    stated = ", ".join(toml_text(text) for text, _ in ordered)
    return f"{name}: is read as {kind}; not readable and NULL are {listed}; null_values = [{stated}] would state that"


def _value_remarks(name: str, texts: Sequence[str | None], *, show: bool) -> list[str]:
    """Return sentences for the owner about the texts of a column: units, nearly equal spellings; quoted if ``show``."""
    given = [text for text in texts if text is not None and text.strip()]
    if texts and not given:
        return [f"{name}: is empty in the first rows; state its type, or delete its line"]
    said = []
    units = [_WITH_UNIT.match(text.strip()) for text in given]
    # Letters directly before digits, as in P0017, are an identifier, not an amount with its unit of measurement.
    named = all(_CODE.match(text.strip()) for text in given)
    if given and not named and all(unit and (unit.group(1) or unit.group(2)) for unit in units):
        signs = sorted({repr(unit.group(1) or unit.group(2)) for unit in units if unit})
        if len(signs) <= _MOST_UNITS:
            shown = f" ({', '.join(signs)})" if show else ""
            said.append(f"{name}: its numbers have signs beside them{shown}, so it is text; write the numbers alone")
    alike = near_pairs(sorted(set(given))[:_MOST_VALUES])
    if alike and not show:
        words = "some of its values differ in case, accents or spaces alone; tacit doctor --look names them"
        said.append(f"{name}: {words}")
    elif alike:
        words = "differ in case, accents or spaces alone, and are different values"
        said += [f"{name}: {first!r} and {other!r} {words}" for other, first in alike]
    return said


# -- tables


def draft_file(path: Path, beside: Path, *, public: bool, unit: str | None, show: bool = False) -> DraftTable:
    """Draft one table from its file; remarks quote values only if ``show`` is set.

    Raises:
        InputError: it cannot be read, or none of its columns can be used.
    """
    from tacit.project.source import Source, column_types, table_name

    if path.suffix.lower() not in (*CSV, *PARQUET):
        raise InputError("source", f"{path.name!r} must end in one of {', '.join((*CSV, *PARQUET))}")
    if not path.is_file():
        raise InputError("source", f"there is no file {path}")
    if any(sign in str(path) for sign in "*?["):
        raise InputError("source", f"{path} has one of *?[ in its name, which stand for many files; rename it")
    if path.suffix.lower() in CSV:
        drafted = draft_csv(path, show=show)
    else:
        stored = column_types(Source.of(str(path)), "source") or {}
        columns = (typed_column(name, None if kind is None else str(kind)) for name, kind in stored.items())
        drafted = CsvDraft(CsvFormat(), tuple(columns))
    if all(column.why_not is not None for column in drafted.columns):
        why = drafted.columns[0].why_not
        raise InputError("source", f"none of the columns of {path.name} can be used; {why}")
    table = DraftTable(
        name=table_name(Source.of(str(path))),
        source=_relative(path, beside),
        columns=drafted.columns,
        public=public,
        form=drafted.form,
        remarks=drafted.remarks,
    )
    return _with_unit(table, unit)


def postgres_tables(
    address: str, names: Sequence[str], public: Sequence[str], unit: str | None
) -> tuple[DraftTable, ...]:
    """Draft tables and views of a database from its schema.

    Raises:
        InputError: the database cannot be reached, or a table does not exist; or no table is named, and the message
            lists the existing ones.
    """
    wanted = [*((name, False) for name in names), *((name, True) for name in public)]
    try:
        if not names:
            listed = ", ".join(stored_names(address)) or "none"
            raise InputError("table", f"name the tables to protect, each with --table; this role can read: {listed}")
        stored = stored_types(address, {name: name for name, _ in wanted})
    except InputError as problem:
        # A problem of the project's engine is one of the address here, and one of a table's source is one of --table.
        raise InputError("sources" if problem.parameter == "project.engine" else "table", problem.problem) from None
    found = []
    for source, is_public in wanted:
        name = source.rpartition(".")[2]
        if not is_name(name):
            raise InputError("table", f"{name!r} cannot be used in queries: make a view whose name is of plain letters")
        types = stored[source].items()
        columns = tuple(typed_column(column, None if kind is None else str(kind)) for column, kind in types)
        if all(column.why_not is not None for column in columns):
            raise InputError("table", f"none of the columns of {source} can be used")
        found.append(_with_unit(DraftTable(name=name, source=source, columns=columns, public=is_public), unit))
    return tuple(found)


def _with_unit(table: DraftTable, unit: str | None) -> DraftTable:
    """Return a table with the stated column as its unit, or with a guess; a public table stays without one."""
    if table.public:
        return table
    names = [column.name for column in table.columns if column.why_not is None]
    mine = next((name for name in (*names, "row") if unit is not None and name.lower() == unit.lower()), None)
    return replace(table, unit=mine, guess=None if mine else guess_unit(names))


def check_without_password(address: str) -> None:
    """Refuse the address of a database that holds a password; ``${NAME}`` of a variable is none.

    Raises:
        InputError: it does; the message has no part of the address.
    """
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        found = conninfo_to_dict(address)
    except Error:
        found = {"password": address}
    if any(found.get(name) and not _VARIABLE.match(str(found[name])) for name in ("password", "sslpassword")):
        raise InputError("sources", "write the address without its password; PGPASSWORD or a password file can hold it")


def project_name(output: Path) -> str:
    """Return a name for the project of a file: the name of its folder."""
    name = output.resolve().parent.name
    return name if name.isprintable() and name.isascii() and name else "project"


def read_sample(path: Path, names: Sequence[str]) -> dict[str, list[str | None]]:
    """Return the first rows of a Parquet file, as text by column name. This reads data."""
    from tacit.engines.files import first_rows

    rows = first_rows(path, names, SAMPLE_ROWS)
    return {name: [None if value is None else str(value) for value in rows.get(name, [])] for name in names}


def _relative(path: Path, beside: Path) -> str:
    try:
        text = os.path.relpath(path, beside)
    except ValueError:
        text = str(path.resolve())
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("source", f"the name of {path!r} is not UTF-8 text; rename the file") from None
    return Path(text).as_posix()


def sum_and_average_errors(draft: Draft, table: DraftTable, column: str, epsilon: str) -> tuple[float, float] | None:
    """Return the errors of the sum and the average of a column in one query; None where no plan can be made."""
    from tacit.project.project_file import as_declared
    from tacit.query.catalog import Catalog, Column, Population, Table
    from tacit.query.parsing.sql_text import name_text
    from tacit.query.planning.plan import make_plan
    from tacit.query.request import Request
    from tacit.query.types import INTEGER, parse_type

    drafted = next(c for c in table.columns if c.name == column)
    try:
        kind = parse_type(drafted.type or "double")
        low, high = (as_declared(end, kind, "bounds") for end in drafted.bounds or ())
        unit = Column("tacit_unit", INTEGER)
        shape = Table(
            table.name,
            (unit, Column(column, kind, (low, high))),
            population=draft.population,
            unit=unit.name,
            max_groups=table.max_groups,
            max_rows=table.max_rows,
        )
        catalog = Catalog((shape,), (Population(draft.population),))
        quoted = name_text(column)
        sql = f"SELECT SUM({quoted}) AS s, AVG({quoted}) AS a FROM {table.name}"  # noqa: S608 - names, checked above
        plan = make_plan(sql, catalog, Request(epsilon=epsilon, suppose=SUPPOSED))
    except (TacitError, ValueError):
        return None
    total, mean = (None if error.bound is None else float_up(error.bound) for error in plan.errors)
    return None if total is None or mean is None else (total, mean)


# -- checks of CSV sources, by the same guesses


def csv_checks(loaded: Project, name: str, *, look: bool = False) -> Iterator[DoctorCheck]:
    """Yield findings about lines and values that no row shows, each with a remedy; none for an intact file.

    They name lines and columns and quote no values and no counts, so that they may be logged; with ``look`` they quote.
    """
    source, table = loaded.sources[name], loaded.catalog.table(name)
    if table is None:
        return
    where = f"source {name}"
    try:
        report = csv_losses(source, table)
    except InputError as problem:
        yield DoctorCheck(where, False, str(problem), _form_remedy(loaded, name) or "correct that in the project file")
        return
    if report.left_out is not None:
        file, line = report.left_out
        words = (
            f"line {line.number} of {Path(file).name} is no row and is left out, maybe others as well: {line.reason}"
        )
        remedy = _form_remedy(loaded, name) or "close its quotes, write values without new lines, or write Parquet"
        yield DoctorCheck(where, False, words, remedy)
    if report.other_width is not None:
        file, line = report.other_width
        words = f"line {line.number} of {Path(file).name}, maybe others as well: {line.reason}"
        remedy = "quote values that hold the delimiter; fields beyond the header are not read, missing ones are NULL"
        yield DoctorCheck(where, False, words, _form_remedy(loaded, name) or remedy)
    if not (report.nothing_read or report.partly_read):
        return
    # The columns as a new draft would have them, by their name in the source.
    drafted: dict[str, DraftColumn] = {}
    form = source.csv
    try:
        found = draft_csv(source.files[0])
        form, drafted = found.form, {(each.source or each.name).lower(): each for each in found.columns}
    except (InputError, IndexError):
        pass
    for column in (*report.nothing_read, *report.partly_read):
        declared = table.find(column)
        kind = declared.type if declared else "its type"
        guess = None if declared is None else drafted.get(declared.stored_name.lower())
        hint = "" if guess is None else _column_remedy(guess, form, source.csv)
        if column in report.nothing_read:
            words = f"no value of {column} can be read as {kind}: all of it is NULL"
            remedy = hint or f"correct its type in tables.{name}.columns"
            yield DoctorCheck(f"column {name}.{column}", False, words, remedy)
            continue
        hint = "" if guess is None or guess.type == "text" else hint
        words = f"some values cannot be read as {kind} and are NULL"
        remedy = hint or "--look lists them; null_values in the table says which texts stand for no value"
        values = report.unread[column]
        # Texts such as 12a, in a column that a draft would leave as text, are codes, and none stands for NULL.
        codes = guess is not None and guess.type == "text" and all(_has_digit(text) for text, _ in values)
        if look:
            words += f": {', '.join(f'{text!r} ({number:,})' for text, number in values)}"
            stated = ", ".join(toml_text(text) for text, _ in values)
            remedy = hint or f"null_values = [{stated}] in [tables.{name}] would state that they stand for no value"
        if codes:
            remedy = 'type = "text" in its line would keep them'
        # If a setting would read them it is a problem; otherwise a few texts that stand for NULL are a remark.
        yield DoctorCheck(f"column {name}.{column}", not hint, words if hint else f"{words}; {remedy}", hint)


def _form_remedy(loaded: Project, name: str) -> str:
    """Return settings that the first rows of a file suggest and the project file does not have."""
    source = loaded.sources[name]
    if not source.files or not source.files[0].is_file():
        return ""
    try:
        guess = guess_form(source.files[0])
    except InputError as problem:
        return problem.problem
    file = str(source.files[0])
    said = []
    if guess.delimiter_of(file) != source.csv.delimiter_of(file):
        said.append(f"delimiter = {toml_text(guess.delimiter_of(file))}")
    if guess.encoding != source.csv.encoding and source.csv.encoding == UTF_8:
        said.append(f"encoding = {toml_text(guess.encoding)}")
    return f"{' and '.join(said)} in [tables.{name}] may be right" if said else ""


def _column_remedy(draft: DraftColumn, form: CsvFormat, now: CsvFormat) -> str:
    """Return a setting under which the first values of a column could be read; empty if none is known."""
    stated = now.date_formats.get((draft.source or draft.name).lower()) or now.date_format
    if draft.date_format == AMBIGUOUS and stated is None:
        return 'state its date_format, such as "%d/%m/%Y" or "%m/%d/%Y"'
    if draft.date_format not in (None, AMBIGUOUS, stated):
        return f"date_format = {toml_text(draft.date_format or '')} in its line may be right"
    written = (now.decimal_mark, now.thousands_mark)
    if draft.is_number and form.has_own_numbers and (form.decimal_mark, form.thousands_mark) != written:
        marks = [f"decimal_mark = {toml_text(form.decimal_mark)}"]
        marks += [f"thousands_mark = {toml_text(form.thousands_mark)}"] if form.thousands_mark else []
        return f"{' and '.join(marks)} in the table may be right"
    return f'its first values look like type = "{draft.type}"' if draft.type == "text" else ""
