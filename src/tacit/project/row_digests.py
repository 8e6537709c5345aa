"""Digests of rows that know neither their order nor how they are written: CSV, Parquet and frames alike."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from tacit.core.extras import has_arrow
from tacit.engines.parquet_files import text_columns
from tacit.engines.plain_frames import PlainFrame

#: Larger files have no such digest: reading them would take more than some seconds.
LARGEST_BYTES: Final = 16 << 20
#: Nor do those with more values than this, which a small Parquet file may have.
LARGEST_CELLS: Final = 1 << 21
_MODULUS: Final = 1 << 512
_SIZE: Final = 64
_ROWS_AT_ONCE: Final = 1 << 22
_BATCH: Final = 1 << 16
_SEPARATORS: Final = (b",", b";", b"\t", b"|")
_LONGEST_HEADER: Final = 1 << 16
_LARGEST_EXPONENT: Final = 400
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_TIME: Final = re.compile(rb"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?Z?\Z")
_WORDS: Final = {b"true": b"true", b"false": b"false"}


@dataclass(frozen=True, slots=True)
class RowDigest:
    """Digest of rows, independent of order and encoding: the sum of their digests, and their number.

    Each row is written as text in one way: columns by name, numbers without needless zeros, times in one form, NULL as
    an empty text. The digests of rows are added up modulo 2⁵¹²: a sum does not know an order. So a file with other line
    ends, another separator, other quotes, rows or columns in another order, split into several files, or turned from
    CSV into Parquet and back, has the digest that it had.

    *Keyed.* A digest of a row that can be guessed would betray it, and sums of a public hash can be made to collide; so
    each row is hashed with a secret of the ledger.

    *Not recognised*: other names of columns, columns or rows that were added, left out or changed, values that were
    rounded, files in other encodings than UTF-8, and files beyond the limits, for which it would take too long. Nothing
    fails: a file that cannot be read has no digest.
    """

    total: int = 0
    rows: int = 0

    def __add__(self, other: RowDigest) -> RowDigest:
        return RowDigest((self.total + other.total) % _MODULUS, self.rows + other.rows)

    @property
    def text(self) -> str:
        """Text for a mark."""
        return hashlib.sha256(f"{self.rows} {self.total:0128x}".encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:x}"

    @classmethod
    def parse(cls, text: str) -> RowDigest:
        """Parse the text of :meth:`__str__`."""
        rows, _, total = text.partition(":")
        return cls(int(total, 16) % _MODULUS, int(rows))


def digest_of_file(place: str, kind: str, key: bytes) -> RowDigest | None:
    """The digest of a CSV or Parquet file; None where there is none."""
    if kind not in ("csv", "parquet"):
        return None
    try:
        if os.stat(place).st_size > LARGEST_BYTES:
            return None
        # Arrow complains on the terminal about lines of other encodings that it skips.
        if not has_arrow() or (kind == "csv" and not _is_utf8(place)):
            columns = _csv_cells(place) if kind == "csv" else _parquet_cells(place)
            return None if columns is None else _sum_of_cells(columns, key)
    except (OSError, ValueError, csv.Error):
        return None
    import pyarrow as pa

    try:
        batches = _csv(place) if kind == "csv" else _parquet(place)
        return None if batches is None else _sum(batches, key)
    except (OSError, ValueError, TypeError, pa.ArrowException, NotImplementedError):
        return None


def digest_of_frame(frame: Any, key: bytes) -> RowDigest | None:
    """The digest of an Arrow table; None where there is none."""
    if isinstance(frame, PlainFrame):
        return None
    import pyarrow as pa

    try:
        if frame.num_rows * frame.num_columns > LARGEST_CELLS or frame.nbytes > LARGEST_BYTES:
            return None
        return _sum(frame.to_batches(max_chunksize=_BATCH), key)
    except (ValueError, TypeError, AttributeError, pa.ArrowException, NotImplementedError):
        return None


def _csv(place: str) -> Iterable[Any] | None:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    with open(place, "rb") as stream:
        header = stream.readline(_LONGEST_HEADER).removeprefix(b"\xef\xbb\xbf").split(b"\r")[0]
    separator = max(_SEPARATORS, key=header.count).decode()
    parse = pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    read = pa_csv.ReadOptions(block_size=_ROWS_AT_ONCE, use_threads=False)
    # The names first, so that every column can be read as bytes: nothing is guessed.
    names = pa_csv.open_csv(place, read_options=read, parse_options=parse).schema.names
    if len(set(names)) != len(names):
        return None
    convert = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False, check_utf8=False
    )
    found: Iterable[Any] = pa_csv.open_csv(place, read_options=read, parse_options=parse, convert_options=convert)
    return found


def _parquet(place: str) -> Iterable[Any] | None:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(place)
    if file.metadata.num_rows * file.metadata.num_columns > LARGEST_CELLS:
        return None
    found: Iterable[Any] = file.iter_batches(batch_size=_BATCH, use_threads=False)
    return found


def _sum(batches: Iterable[Any], key: bytes) -> RowDigest | None:
    """The digest of all batches; None where there are no rows, because all files without any would be the same."""
    total = rows = cells = 0
    for batch in batches:
        cells += batch.num_rows * batch.num_columns
        if cells > LARGEST_CELLS:
            return None
        for row in _digests(batch, key):
            total += row
        total %= _MODULUS
        rows += batch.num_rows
    return RowDigest(total, rows) if rows else None


def _digests(batch: Any, key: bytes) -> Iterator[int]:
    import pyarrow.compute as pc

    order = sorted(range(batch.num_columns), key=lambda i: _name(batch.schema.names[i]))
    if not order:
        return
    names = [_name(batch.schema.names[i]) for i in order]
    texts = [_texts(batch.column(i)) for i in order]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, b"\x1f")
    yield from _row_numbers(names, joined.to_pylist(), key)


def _is_utf8(place: str) -> bool:
    with open(place, "rb") as stream:
        content = stream.read()
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _csv_cells(place: str) -> dict[str, list[bytes]] | None:
    """The values of a CSV file by column, read without Arrow; lines of another width are left out."""
    with open(place, "rb") as stream:
        content = stream.read().removeprefix(b"\xef\xbb\xbf")
    header = content[:_LONGEST_HEADER].split(b"\n")[0].split(b"\r")[0]
    separator = max(_SEPARATORS, key=header.count).decode()
    # Every byte is a letter of its own, and goes back to what it was.
    lines = csv.reader(io.StringIO(content.decode("latin-1"), newline=""), delimiter=separator)
    names = [name.encode("latin-1").decode() for name in next(lines, [])]
    if len(set(names)) != len(names) or not names:
        return None
    rows = []
    for row in lines:
        if len(row) == len(names):
            rows.append(row)
        if len(rows) * len(names) > LARGEST_CELLS:
            return None
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {name: [cell.encode("latin-1") for cell in cells] for name, cells in zip(names, columns, strict=True)}


def _parquet_cells(place: str) -> dict[str, list[bytes]] | None:
    """The same of a Parquet file, whose values have one text each."""
    found = text_columns(Path(place), LARGEST_CELLS)
    if found is None:
        return None
    return {name: [b"" if text is None else text.encode() for text in texts] for name, texts in found.items()}


def _sum_of_cells(columns: Mapping[str, Sequence[bytes]], key: bytes) -> RowDigest | None:
    """The digest of all rows; None where there are none."""
    ordered = sorted(columns, key=_name)
    forms = [{value: _form(value) for value in set(columns[name])} for name in ordered]
    texts = [[form[value] for value in columns[name]] for name, form in zip(ordered, forms, strict=True)]
    rows = [b"\x1f".join(row) for row in zip(*texts, strict=True)]
    total = sum(_row_numbers([_name(name) for name in ordered], rows, key)) % _MODULUS
    return RowDigest(total, len(rows)) if rows else None


def _row_numbers(names: Sequence[str], rows: Iterable[bytes], key: bytes) -> Iterator[int]:
    """The digest of each row."""
    head = hashlib.blake2b("\x1f".join(names).encode("utf-8", "surrogatepass"), key=key, digest_size=_SIZE)
    for row in rows:
        each = head.copy()
        each.update(b"\x1e" + row)
        yield int.from_bytes(each.digest(), "big")


def _name(text: str) -> str:
    return text.strip().removeprefix("\ufeff").lower()


def _texts(column: Any) -> Any:
    """The values of a column as bytes in one form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_nested(kind):
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    elif not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind):
        column = column.cast(pa.string())
    column = pc.fill_null(column.cast(pa.binary()), b"")
    if pa.types.is_integer(kind):
        return column  # They have one form already.
    values = column.dictionary_encode()
    return pa.array([_form(value) for value in values.dictionary.to_pylist()], pa.binary()).take(values.indices)


def _form(value: bytes) -> bytes:
    """The one text of a value: numbers without needless signs and zeros, times and truth values in one way."""
    if value.isdigit():
        return value.lstrip(b"0") or b"0"
    value = value.strip()
    first = value[:1]
    if first.isalpha():
        return _WORDS.get(value.lower(), value)
    if not first or first not in b"+-.0123456789":
        return value
    if _NUMBER.match(value):
        return _number(value)
    time = _TIME.match(value)
    if time is None:
        return value
    day, minutes, seconds, rest = time.groups()
    clock = minutes + (seconds or b":00") + (rest or b"").rstrip(b"0").rstrip(b".")
    return day if clock == b"00:00:00" else day + b"T" + clock


def _number(value: bytes) -> bytes:
    sign, digits = (b"-", value[1:]) if value[:1] == b"-" else (b"", value.lstrip(b"+"))
    if b"e" in digits or b"E" in digits:
        exponent = digits[max(digits.find(b"e"), digits.find(b"E")) + 1 :].lstrip(b"+-0")
        # One value must not take for ever, nor take the digest from all others.
        if len(exponent) > 3 or int(exponent or b"0") > _LARGEST_EXPONENT:
            return sign + digits.lower()
        digits = f"{Decimal(digits.decode()):f}".encode()
    whole, _, part = digits.partition(b".")
    whole, part = whole.lstrip(b"0") or b"0", part.rstrip(b"0")
    plain = whole + b"." + part if part else whole
    return plain if plain == b"0" else sign + plain


def combined(parts: Sequence[RowDigest | None]) -> RowDigest | None:
    """The digest of several files together; None where one of them has none."""
    whole = RowDigest()
    for part in parts:
        if part is None:
            return None
        whole = whole + part
    return whole if whole.rows else None
