"""Files of a source: their list, their state, the format of CSV files, and the content of Parquet files.

A path is a file, a pattern of files, a folder of Parquet files, or for DuckDB ``file#table``. Patterns and folders are
expanded every time, so that a new file is noticed. The state of a file changes when the file does: its path, size,
mtime, ctime, device and inode; the ctime cannot be set back by ordinary means.

The data owner states the format of CSV; nothing is inferred from the data. Every engine reads CSV by these rules, each
of which is a function of one field of one line.

Parquet files outside of queries (their columns, first rows and texts, and new files) are read and written by DuckDB.
"""

from __future__ import annotations

import codecs
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, MAX_SCALE, TEXT, TIMESTAMP, SqlType, decimal

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


#: Matches a path that is an address of another system.
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/")
_MAGIC = re.compile(r"[*?\[]")

UTF_8: Final = "utf-8"
#: Directives of a date format, and the pattern of the texts that each one matches.
DATE_DIRECTIVES: Final = {
    "Y": "[0-9]{4}", "y": "[0-9]{2}", "m": "[0-9]{1,2}", "d": "[0-9]{1,2}", "b": "[A-Za-z]{3}", "B": "[A-Za-z]{3,9}",
    "H": "[0-9]{1,2}", "I": "[0-9]{1,2}", "M": "[0-9]{1,2}", "S": "[0-9]{1,2}", "f": "[0-9]{1,6}", "p": "[AaPp][Mm]",
}  # fmt: skip
_FORBIDDEN: Final = frozenset("\"\r\n\0 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_")
_MOST_NULL_VALUES: Final = 50
_THOUSANDS: Final = ("", ",", ".", " ", "'")

FileState = tuple[str, int, int, int, int, int]


def list_files(path: str) -> tuple[str, ...]:
    """Return the current files of a path, pattern or folder as sorted absolute paths; empty if there are none."""
    place = Path(path)
    if place.is_dir():
        return tuple(
            str(file) for file in sorted(place.resolve().rglob("*")) if file.is_file() and _is_seen(file, place)
        )
    found = sorted(glob.glob(path, recursive=True)) if is_pattern(path) else [path]
    return tuple(str(Path(name).resolve()) for name in found if Path(name).is_file())


def is_pattern(path: str) -> bool:
    """Whether a path may name several files; an existing file with ``*``, ``?`` or ``[`` in its path is no pattern."""
    return bool(_MAGIC.search(path)) and not Path(path).is_file()


def _is_seen(file: Path, folder: Path) -> bool:
    """Whether Spark reads a file: it skips names, also of folders, that begin with "." or with "_" but have no "="."""
    parts = file.relative_to(folder.resolve()).parts
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def find_files(path: str) -> tuple[str, ...]:
    """Return the current files of a path, pattern or folder, at least one.

    Raises:
        InputError: there is no file.
    """
    files = list_files(path)
    if not files:
        raise InputError("source", f"there is no file {path}")
    return files


def file_state(file: str) -> FileState | None:
    """Return the state of a file; None if it is gone."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (file, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)


def source_state(kind: str, path: str | None) -> tuple[FileState | None, ...]:
    """Return the states of a source's files; empty for frames, server tables and addresses of other systems."""
    if path is None or kind not in ("parquet", "csv", "duckdb") or ADDRESS.match(path):
        return ()
    files = list_files(path.partition("#")[0] if kind == "duckdb" else path)
    # A part of a DuckDB file's content is in its write-ahead log.
    logs = tuple(f"{file}.wal" for file in files) if kind == "duckdb" else ()
    return tuple(map(file_state, (*files, *logs)))


def is_gone(kind: str, path: str | None) -> bool:
    """Whether a source consists of files and none of them exists now."""
    if path is None or kind not in ("parquet", "csv", "duckdb") or ADDRESS.match(path):
        return False
    return not list_files(path.partition("#")[0] if kind == "duckdb" else path)


@dataclass(frozen=True)
class CsvFormat:
    """Format of a CSV source.

    Args:
        delimiter: separator between fields; None for a tab in ``.tsv`` files and a comma in all other files.
        encoding: ``"utf-8"``, or an encoding with one byte per letter that Python knows, such as ``"windows-1252"``.
        decimal_mark: ``"."`` or ``","``.
        thousands_mark: separator between groups of three digits; empty for none.
        date_format: format of all date columns, such as ``"%d.%m.%Y"``; None for ``2024-01-31``.
        date_formats: formats of individual date or timestamp columns, by lower-case column name.
        null_values: texts that mean NULL in every column, such as ``"n/a"``.

    Raises:
        InputError: naming the setting.
    """

    delimiter: str | None = None
    encoding: str = UTF_8
    decimal_mark: str = "."
    thousands_mark: str = ""
    date_format: str | None = None
    date_formats: Mapping[str, str] = field(default_factory=dict)
    null_values: tuple[str, ...] = ()

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
        object.__setattr__(self, "null_values", tuple(sorted({text.strip(" ") for text in self.null_values} - {""})))
        if len(self.null_values) > _MOST_NULL_VALUES or any("\0" in text for text in self.null_values):
            raise InputError("null_values", f"must be at most {_MOST_NULL_VALUES} texts, none with a zero byte")

    @property
    def has_own_numbers(self) -> bool:
        """Whether numbers are written differently than in SQL."""
        return bool(self.thousands_mark) or self.decimal_mark != "."

    @property
    def text(self) -> str:
        """Text that identifies the format; empty for the default format."""
        words = (self.delimiter or "", "" if self.encoding == UTF_8 else self.encoding)
        marks = f"{self.decimal_mark}{self.thousands_mark}" if self.has_own_numbers else ""
        dates = [f"{name} {said}" for name, said in sorted(self.date_formats.items())]
        nulls = [f"\0{text}" for text in self.null_values]
        whole = "\n".join((*words, marks, self.date_format or "", *dates, *nulls))
        return whole if whole.strip("\n") else ""

    def delimiter_of(self, file: str) -> str:
        """Return the separator between the fields of a file."""
        return self.delimiter or delimiter_by_name(file)


def delimiter_by_name(file: str) -> str:
    """Return a tab for a file name that ends in ``.tsv``, else a comma."""
    return "\t" if file.lower().endswith(".tsv") else ","


def date_pattern(form: str, where: str) -> str:
    """Return a regular expression for the texts that a date format matches.

    Raises:
        InputError: the format has an unknown directive, or lacks day, month or year.
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
    """Return the canonical name of an encoding.

    Raises:
        InputError: the encoding is unknown, or may have several bytes per letter.
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
        # Each byte must be one letter in every context, and ASCII must be unchanged.
        alone = "".join(bytes([byte]).decode(name, "replace") for byte in upper)
        single = lower.decode(name) == lower.decode("ascii") and alone == upper.decode(name, "replace")
        single = single and len(alone) == len(upper)
    except (LookupError, ValueError, TypeError):
        single = False
    if not single:
        raise InputError("encoding", f"{said} has several bytes per letter; convert the file: iconv -f {said} -t UTF-8")
    return name.replace("cp125", "windows-125") if name.startswith("cp125") else name


# Parquet files outside of queries -------------------------------------------------------------------------------------


_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)\Z")
_TYPES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), INTEGER),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), TIMESTAMP),
    "BOOLEAN": BOOLEAN,
    **dict.fromkeys(("VARCHAR", "JSON"), TEXT),
    "DATE": DATE,
}
#: The text of a timestamp with time zone depends on a library of time zones.
_WITHOUT_TEXT = "TIMESTAMP WITH TIME ZONE"
#: Message for a file that Arrow or DuckDB cannot read.
_BROKEN = "is not a Parquet file"


def read_types(file: Path) -> dict[str, SqlType | None]:
    """Return the columns of a Parquet file with their types, None for types Tacit does not read.

    Raises:
        InputError: it is no Parquet file; without the name of a parameter.
    """
    with _reading(file) as connection:
        return {name: _type_of(kind) for name, kind in _described(connection, file)}


def schema_text(file: Path) -> str:
    """Return the names and types of a file's columns as one text, to compare with another one of the same process.

    Raises:
        InputError: it is no Parquet file.
    """
    with _reading(file) as connection:
        wanted = "name, type, repetition_type, num_children, converted_type, scale, precision, logical_type::VARCHAR"
        return repr(connection.execute(f"SELECT {wanted} FROM parquet_schema(?)", [str(file)]).fetchall())


def first_rows(file: Path, names: Sequence[str], count: int) -> dict[str, list[Any]]:
    """Return the values of the first rows of a Parquet file by column; this reads data.

    Raises:
        InputError: they cannot be read.
    """
    with _reading(file) as connection:
        listed = ", ".join(map(_quoted, names))
        rows = connection.execute(f"SELECT {listed} FROM read_parquet(?) LIMIT {count}", [str(file)]).fetchall()
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def text_columns(file: Path, most: int) -> dict[str, list[str | None]] | None:
    """Return all values of a Parquet file as DuckDB's texts, by column.

    None for more than ``most`` values, or for types without a unique text.

    Raises:
        InputError: the file cannot be read.
    """
    with _reading(file) as connection:
        kinds = dict(_described(connection, file))
        if any(_type_of(kind) is None or kind == _WITHOUT_TEXT for kind in kinds.values()):
            return None
        ((count,),) = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(file)]).fetchall()
        if count * len(kinds) > most:
            return None
        listed = ", ".join(f"CAST({_quoted(name)} AS VARCHAR)" for name in kinds)
        rows = connection.execute(f"SELECT {listed} FROM read_parquet(?)", [str(file)]).fetchall()
    return dict(zip(kinds, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def write_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, at least one, with the types of their Python values: integers, texts and dates."""
    names = list(rows[0])
    columns = [[row[name] for row in rows] for name in names]
    listed = ", ".join(f"unnest(${i + 1}::{_kind(columns[i])}[]) AS {_quoted(name)}" for i, name in enumerate(names))
    place = "'" + str(file).replace("'", "''") + "'"
    with _reading(file) as connection:
        connection.execute(f"CREATE TABLE made AS SELECT {listed}", columns)
        connection.execute(f"COPY made TO {place} (FORMAT parquet)")


def arrow_types(schema: pa.Schema) -> dict[str, SqlType | None]:
    """Return the columns of an Arrow schema with their types, None for types Tacit does not read."""
    return {column.name: _arrow_type_of(column.type) for column in schema}


def _arrow_type_of(kind: pa.DataType) -> SqlType | None:
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_dictionary(kind):
        return _arrow_type_of(kind.value_type)
    if is_a.is_boolean(kind):
        return BOOLEAN
    if is_a.is_integer(kind):
        return INTEGER
    if is_a.is_decimal(kind):
        return decimal(kind.scale) if 0 <= kind.scale <= MAX_SCALE else DOUBLE
    if is_a.is_floating(kind):
        return DOUBLE
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return TEXT
    if is_a.is_date(kind):
        return DATE
    return TIMESTAMP if is_a.is_timestamp(kind) else None


def _type_of(kind: str) -> SqlType | None:
    """Return the type of a column from DuckDB's name of it."""
    exact = _DECIMAL.match(kind)
    if exact:
        scale = int(exact.group(1))
        return decimal(scale) if scale <= MAX_SCALE else DOUBLE
    return _TYPES.get(kind)


@contextmanager
def _reading(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a separate database; its error messages about a file are not shown, because they may quote a value."""
    import duckdb

    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        try:
            yield connection
        except duckdb.Error:
            raise InputError("source", f"{file.name} {_BROKEN}") from None


def _described(connection: duckdb.DuckDBPyConnection, file: Path) -> list[tuple[str, str]]:
    scan = "read_parquet(?, hive_partitioning = false)"
    rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}", [str(file)]).fetchall()
    return [(str(name), str(kind)) for name, kind, *_ in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kind(values: Sequence[Any]) -> str:
    kinds = {int: "BIGINT", str: "VARCHAR"}
    return kinds.get(type(next((value for value in values if value is not None), None)), "DATE")
