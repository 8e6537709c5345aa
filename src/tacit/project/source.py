"""Sources of tables: their rows, columns and fingerprints, and the population that each belongs to.

A budget belongs to people, not to a file name. So the ledger records *marks* of every protected source, and a recorded
mark belongs to one population for good:

* ``content``: the SHA-256 of its bytes. It recognises a copy, a renamed file, another table name or project file.
* ``path``: its real path, links resolved. It recognises a file that was rewritten in place, as a new version.
* ``file``: device, inode and first bytes. It recognises a file that was moved and then appended to, or opened by a path
  in another case. (Inodes of deleted files are used again, hence the first bytes.)
* ``alike``: a keyed digest of its rows that does not depend on their order or encoding, for CSV and Parquet files and
  frames of limited size (:class:`RowDigest`). It recognises other line ends, another order, a split into several files,
  and CSV turned into Parquet.

Content read here is kept only as a digest, which the ledger stores as a keyed hash. The digest of all files of a source
is also its *version*: repeats of a query are free within one version.

*Columns* are compared to detect a changed schema. The type of a column, and that it can identify a person, is checked
when the project is opened. Without the comparison, a CSV file whose columns were swapped, or a Parquet file whose ids
have become doubles, would be read by checks that were made for another file.

*Binding* happens when a project is opened and again whenever a source has changed: a known source under another
population is refused, and so is one that is now declared public. A changed file is a new version under the same
account.
"""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import os
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tacit.core.errors import EngineError, InputError, MissingSourceError
from tacit.core.extras import has_arrow
from tacit.engines.files import (
    CsvFormat,
    arrow_types,
    is_gone,
    is_pattern,
    list_files,
    read_types,
    schema_text,
    text_columns,
)
from tacit.engines.frames import PlainFrame, as_arrow
from tacit.engines.protocol import Engine
from tacit.engines.registry import frame_types, is_spark_frame, source_kind
from tacit.ledger import Ledger
from tacit.ledger.protection import Binding
from tacit.query.catalog import ROW, Catalog, Column, Table, unit_path, unit_type
from tacit.query.types import SqlType, Value

#: Larger files have no row digest: reading them would take more than some seconds.
LARGEST_BYTES: Final = 16 << 20
#: Files with more values have no row digest, either: a small Parquet file may have many values.
LARGEST_CELLS: Final = 1 << 21
_MODULUS: Final = 1 << 512
_SIZE: Final = 64
_SEPARATORS: Final = (b",", b";", b"\t", b"|")
_LONGEST_HEADER: Final = 1 << 16
_LARGEST_EXPONENT: Final = 400
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_TIME: Final = re.compile(rb"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?Z?\Z")
_WORDS: Final = {b"true": b"true", b"false": b"false"}


@dataclass(frozen=True, slots=True)
class RowDigest:
    """Digest of rows, independent of order and encoding: the sum of the rows' digests, and the number of rows.

    Each row is written in a normal form: columns by name, numbers without needless zeros, times in one form, NULL as an
    empty text. The digests of rows are added up modulo 2⁵¹², so their order does not matter. So a file with other line
    ends, another separator, other quotes, rows or columns in another order, split into several files, or turned from
    CSV into Parquet and back, has the same digest.

    *Keyed.* An unkeyed digest of a row that can be guessed would reveal it, and sums of a public hash can be made to
    collide; so each row is hashed with a secret of the ledger.

    *Not recognised*: other names of columns, columns or rows that were added, left out or changed, values that were
    rounded, files in other encodings than UTF-8, and files beyond the limits, for which it would take too long. None of
    these raises an error: a file that cannot be read has no digest.
    """

    total: int = 0
    rows: int = 0

    def __add__(self, other: RowDigest) -> RowDigest:
        return RowDigest((self.total + other.total) % _MODULUS, self.rows + other.rows)

    @property
    def text(self) -> str:
        return hashlib.sha256(f"{self.rows} {self.total:0128x}".encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:x}"

    @classmethod
    def parse(cls, text: str) -> RowDigest:
        rows, _, total = text.partition(":")
        return cls(int(total, 16) % _MODULUS, int(rows))


def digest_of_file(place: str, kind: str, key: bytes) -> RowDigest | None:
    """Return the row digest of a CSV or Parquet file, or None if it has none."""
    try:
        if kind not in ("csv", "parquet") or os.stat(place).st_size > LARGEST_BYTES:
            return None
        if kind == "parquet" and has_arrow():
            import pyarrow as pa
            import pyarrow.parquet as pq

            try:
                file = pq.ParquetFile(place)
                size = file.metadata.num_rows * file.metadata.num_columns
                return None if size > LARGEST_CELLS else digest_of_frame(file.read(use_threads=False), key)
            except (TypeError, pa.ArrowException, NotImplementedError):
                return None
        columns = _csv_cells(place) if kind == "csv" else text_columns(Path(place), LARGEST_CELLS)
    except (OSError, ValueError, csv.Error):
        return None
    encoding = "latin-1" if kind == "csv" else "utf-8"
    return None if columns is None else _sum_of_cells(list(columns.items()), encoding, key)


def digest_of_frame(frame: Any, key: bytes) -> RowDigest | None:
    """Return the row digest of an Arrow table, or None if it has none."""
    if isinstance(frame, PlainFrame):
        return None
    import pyarrow as pa

    try:
        if frame.num_rows * frame.num_columns > LARGEST_CELLS or frame.nbytes > LARGEST_BYTES:
            return None
        columns = [(name, _texts(column)) for name, column in zip(frame.column_names, frame.columns, strict=True)]
        return _sum_of_cells(columns, "utf-8", key)
    except (ValueError, TypeError, AttributeError, pa.ArrowException, NotImplementedError):
        return None


def _csv_cells(place: str) -> dict[str, list[str | None]] | None:
    """Return the values of a CSV file by column; lines of another width are left out.

    Bytes are decoded as Latin-1, one character per byte, so that encoding restores them.
    """
    with open(place, "rb") as stream:
        content = stream.read().removeprefix(b"\xef\xbb\xbf")
    header = content[:_LONGEST_HEADER].split(b"\n")[0].split(b"\r")[0]
    lines = csv.reader(
        io.StringIO(content.decode("latin-1"), newline=""), delimiter=max(_SEPARATORS, key=header.count).decode()
    )
    names = [name.encode("latin-1").decode() for name in next(lines, [])]
    if len(set(names)) != len(names) or not names:
        return None
    rows = []
    for row in lines:
        if len(row) == len(names):
            rows.append(row)
        if len(rows) * len(names) > LARGEST_CELLS:
            return None
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def _sum_of_cells(
    columns: Sequence[tuple[str, Sequence[str | bytes | None]]], encoding: str, key: bytes
) -> RowDigest | None:
    """Return the digest of all rows; None without rows, because all empty files would have the same digest."""
    names, texts = [], []
    for name, values in sorted(columns, key=lambda column: _name(column[0])):
        forms = {
            each: _form(each if isinstance(each, bytes) else (each or "").encode(encoding)) for each in set(values)
        }
        names.append(_name(name))
        texts.append([forms[each] for each in values])
    rows = [b"\x1f".join(row) for row in zip(*texts, strict=True)]
    return RowDigest(sum(_row_numbers(names, rows, key)) % _MODULUS, len(rows)) if rows else None


def _row_numbers(names: Sequence[str], rows: Iterable[bytes], key: bytes) -> Iterator[int]:
    head = hashlib.blake2b("\x1f".join(names).encode("utf-8", "surrogatepass"), key=key, digest_size=_SIZE)
    for row in rows:
        each = head.copy()
        each.update(b"\x1e" + row)
        yield int.from_bytes(each.digest(), "big")


def _name(text: str) -> str:
    return text.strip().removeprefix("\ufeff").lower()


def _texts(column: Any) -> list[str | bytes | None]:
    """Return the values of an Arrow column as text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_nested(kind):
        return [None if value is None else repr(value) for value in column.to_pylist()]
    plain = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    found: list[str | bytes | None] = (column if plain else column.cast(pa.string())).to_pylist()
    return found


def _form(value: bytes) -> bytes:
    """Return the normal form of a value: numbers without needless signs and zeros, times and booleans in one form."""
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
        # One huge exponent must neither take too long nor prevent the digest of the other values.
        if len(exponent) > 3 or int(exponent or b"0") > _LARGEST_EXPONENT:
            return sign + digits.lower()
        digits = f"{Decimal(digits.decode()):f}".encode()
    whole, _, part = digits.partition(b".")
    whole, part = whole.lstrip(b"0") or b"0", part.rstrip(b"0")
    plain = whole + b"." + part if part else whole
    return plain if plain == b"0" else sign + plain


def combined(parts: Sequence[RowDigest | None]) -> RowDigest | None:
    """Return the row digest of several files together; None if one of them has none."""
    whole = RowDigest()
    for part in parts:
        if part is None:
            return None
        whole = whole + part
    return whole if whole.rows else None


_FILES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".duckdb": "duckdb"}


@dataclass(frozen=True)
class Source:
    """A file, a pattern of files, a frame in memory, or a table of a database.

    Args:
        kind: ``"parquet"``, ``"csv"``, ``"duckdb"``, ``"frame"`` or ``"table"``.
        path: path or pattern of the files, ``file#table`` for a DuckDB file, the name of a table; None for frames.
        frame: an Arrow table; None for files.
        version: version of a table as its owner states it.
        csv: format of CSV files.
    """

    kind: str
    path: str | None = None
    frame: Any = field(default=None, repr=False, compare=False)
    version: str | None = None
    csv: CsvFormat = field(default_factory=CsvFormat)

    @classmethod
    def of(cls, text: str, beside: Path | None = None) -> Source:
        """Return the source of a path or pattern; a relative one is looked up in ``beside``."""
        kind = _FILES.get(Path(text.partition("#")[0]).suffix.lower())
        if kind is None:
            raise InputError("source", f"{text!r} must end in one of {', '.join(_FILES)} (.duckdb#table for a table)")
        return cls(kind, str((beside / text) if beside is not None else Path(text)))

    @classmethod
    def on(cls, engine: str, text: str, beside: Path, version: str | None, where: str) -> Source:
        """Return the source that a project file names for an engine: a file, a folder or a table."""
        suffix = Path(text.partition("#")[0]).suffix.lower()
        folder = (beside / text).is_dir()
        kind = source_kind(engine, text, is_file_name=suffix in _FILES, is_folder=folder)
        if kind == "file":
            if version is not None:
                raise InputError(f"{where}.version", "is for tables of a database: files tell when they change")
            return cls.of(text, beside)
        if kind == "folder":
            return cls("parquet", text if "://" in text else str(beside / text), version=version)
        return cls("table", text, version=version)

    @classmethod
    def of_frame(cls, frame: Any) -> Source:
        """Return the source of a frame of pandas, Polars, Arrow or Spark: a copy of its rows, or Spark's frame itself.

        A frame can be changed in place, and an Arrow table can use memory that other code writes to. So its rows are
        copied; later changes of the frame have no effect.

        Raises:
            InputError: it is not a frame, or one of its columns has no type.
        """
        if is_spark_frame(frame) or isinstance(frame, PlainFrame):
            return cls("frame", None, frame)
        rows = as_arrow(frame, "source", "a path or a pandas, Polars, Arrow or Spark frame")
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return cls("frame", None, pa.ipc.open_stream(sink.getvalue()).read_all())

    @property
    def is_elsewhere(self) -> bool:
        """Whether only an engine can read it: a table of a database, an address, or a frame that Spark holds."""
        held = self.kind == "frame" and is_spark_frame(self.frame)
        return held or self.kind == "table" or "://" in (self.path or "")

    @property
    def files(self) -> tuple[Path, ...]:
        """The existing files that an engine would read, in order; a single file is listed even if it is missing."""
        if self.path is None or self.kind == "table" or "://" in self.path:
            return ()
        place = self.path.partition("#")[0] if self.kind == "duckdb" else self.path
        return tuple(map(Path, list_files(place))) or (() if is_pattern(place) else (Path(place),))

    @property
    def inside(self) -> str:
        """The name of the table in a DuckDB file, in lower case as DuckDB reads it; empty for other sources."""
        return self.path.partition("#")[2].lower() if self.kind == "duckdb" and self.path is not None else ""


def column_types(source: Source, where: str) -> dict[str, SqlType | None] | None:
    """Return the columns and their types, None for a type Tacit does not read; None if only the engine knows them."""
    if is_spark_frame(source.frame):
        return frame_types(source.frame)
    if source.kind == "frame":
        held = source.frame
        return dict(held.types) if isinstance(held, PlainFrame) else arrow_types(held.schema)
    if source.kind == "table" or "://" in (source.path or ""):
        return None
    files = source.files
    if not files or not files[0].is_file():
        raise InputError(where, f"there is no file {source.path}")
    if source.kind != "parquet":
        return None
    try:
        return read_types(files[0])
    except InputError as problem:
        raise InputError(where, problem.problem) from None


def table_name(source: Source) -> str:
    """Return a name for the table of a single source: the file's name as an identifier, without accents."""
    if source.path is None:
        return "data"
    file, _, inside = source.path.partition("#")
    plain = unicodedata.normalize("NFKD", (inside or Path(file).stem).replace("ß", "ss"))
    plain = "".join(sign for sign in plain if not unicodedata.combining(sign))
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_") or "data"
    return (stem if stem[0].isalpha() or stem[0] == "_" else f"t_{stem}")[:63]


_BLOCK: Final = 1 << 20
_FIRST: Final = 4096
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """State of a source at one moment.

    Args:
        version: a digest of all of its content.
        marks: all its marks; any one of them recognises it.
        own: the marks that no other table shares; in a DuckDB file several tables share the marks of the file.
        rows: the marks of every source with exactly these rows, under the same column names; None for ``own``.
    """

    version: str
    marks: tuple[str, ...]
    own: tuple[str, ...]
    rows: tuple[str, ...] | None = None


class Digests:
    """Digests of files, each computed once per state of the file; safe to use from several threads.

    A state is path, size, inode and the times of last change of content and of inode. The latter cannot be set back
    by ordinary means, so a change is detected even if the file's time is set back.

    Args:
        path: file that keeps digests for the next process; None to keep none. It only saves time: if it cannot be read
            or written, digests are computed again.
        key: key of the digests of rows; without it there are none.
    """

    def __init__(self, path: str | Path | None = None, key: bytes = b"") -> None:
        self._path = None if path is None else Path(path)
        self._key = key
        self._tag = hashlib.blake2b(b"tacit row digests", key=key, digest_size=8).hexdigest() if key else ""
        self._held = False
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, str]] = {}
        self._frames: dict[int, tuple[Any, tuple[str, tuple[str, ...]]]] = {}
        self._load()

    def of(self, source: Source, where: str) -> Fingerprint:
        """Return the fingerprint of a source as it is now.

        Raises:
            InputError: a file is missing, cannot be read, or changes while it is read.
        """
        if source.kind == "frame":
            content, alike = self._frame(source.frame)
            all_marks = (f"content {content}", *alike)
            return Fingerprint(content, all_marks, all_marks)
        inside = source.inside
        parts: list[str] = []
        marks: list[str] = []
        own: list[str] = []
        rows: list[str] = []
        for file in source.files:
            place = os.path.realpath(file)
            content, first, state = self._file(place, where)
            parts.append(content)
            found = [f"content {content}", f"path {place}", f"file {state.st_dev}:{state.st_ino}:{first}"]
            rows.append(self._rows(place, source.kind, state))
            found += _alike((rows[-1],))
            own += [f"table {inside} of {mark}" for mark in found] if inside else found
            marks += found
            # A part of a DuckDB file's content is in its log.
            if source.kind == "duckdb" and os.path.exists(log := f"{file}.wal"):
                parts.append(self._file(os.path.realpath(log), where)[0])
        if not parts:
            raise InputError(where, f"there is no file {source.path}")
        if len(rows) > 1:
            own += _alike(tuple(rows))
        if source.csv.text:
            # The same bytes read in another CSV format are other rows.
            parts.append(source.csv.text)
        version = parts[0] if len(parts) == 1 else hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return Fingerprint(version, tuple(dict.fromkeys([*marks, *own])), tuple(dict.fromkeys(own)))

    def _file(self, place: str, where: str) -> tuple[str, str, os.stat_result]:
        """Return the digest of a file, that of its first bytes, and the file's state at that moment."""
        name = os.path.basename(place)
        try:
            for _ in range(_TRIES):
                before = os.stat(place)
                state = _state(before)
                with self._lock:
                    known = self._known.get(place)
                if known is not None and known[0] == state:
                    content, _, first = known[1].partition(" ")
                    return content, first, before
                content, first = _digest(place)
                if _state(os.stat(place)) == state:
                    self._keep(place, state, f"{content} {first}")
                    return content, first, before
        except OSError as problem:
            raise InputError(where, f"cannot read {name}: {problem.strerror}") from None
        raise InputError(where, f"{name} changes while it is read; ask again when it is complete")

    def hold(self, other: Digests | None = None) -> None:
        """Write nothing to disk until :meth:`write` is called; take over the digests of whole files from ``other``."""
        self._held = True
        if other is not None:
            self._known |= {name: found for name, found in other._known.items() if not name.startswith(other._tag)}

    def write(self) -> None:
        """Write all digests to disk, and from here on each new one."""
        with self._lock:
            self._held = False
            if self._path is not None:
                _replace(self._path, self._known)

    def _rows(self, place: str, kind: str, state: os.stat_result) -> str:
        """Return the digest of a file's rows as text, computed once per state; empty if it has none."""
        if not self._key:
            return ""
        name, now = f"{self._tag} {place}", _state(state)
        with self._lock:
            known = self._known.get(name)
        if known is None or known[0] != now:
            found = digest_of_file(place, kind, self._key)
            known = (now, "" if found is None else str(found))
            # Not kept if the file changed meanwhile: its bytes decide, and they are compared again.
            if _state(os.stat(place)) == now:
                self._keep(name, *known)
        return known[1]

    def _frame(self, frame: Any) -> tuple[str, tuple[str, ...]]:
        with self._lock:
            known = self._frames.get(id(frame))
        if known is None:
            # The frame is kept alive, so that no other object gets its id.
            found = digest_of_frame(frame, self._key) if self._key else None
            known = (frame, (_digest_of_frame(frame), _alike(("" if found is None else str(found),))))
            with self._lock:
                self._frames[id(frame)] = known
        return known[1]

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            self._known = {str(place): (str(state), str(digests)) for place, (state, digests) in kept.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._known = {}

    def _keep(self, place: str, state: str, digests: str) -> None:
        with self._lock:
            self._known[place] = (state, digests)
            if self._path is not None and not self._held:
                _replace(self._path, self._known)


@lru_cache(1024)
def _alike(rows: tuple[str, ...]) -> tuple[str, ...]:
    """Return the mark of files with these row digests together; no mark if one of them has no digest."""
    whole = combined([RowDigest.parse(text) if text else None for text in rows])
    return () if whole is None else (f"alike {whole.text}",)


def _state(state: os.stat_result) -> str:
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}:{state.st_dev}:{state.st_ino}"


def _digest(place: str) -> tuple[str, str]:
    content = hashlib.sha256()
    with open(place, "rb") as stream:
        first = stream.read(_FIRST)
        content.update(first)
        while block := stream.read(_BLOCK):
            content.update(block)
    return content.hexdigest(), hashlib.sha256(first).hexdigest()


class _Hashing(io.RawIOBase):
    """A file object that keeps only the digest of its content."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        view = memoryview(content)
        self.digest.update(view)
        return view.nbytes


def _digest_of_frame(frame: Any) -> str:
    if isinstance(frame, PlainFrame):
        return frame.digest
    import pyarrow as pa

    table = frame.replace_schema_metadata(None).combine_chunks()
    sink = _Hashing()
    with pa.PythonFile(sink, mode="w") as stream, pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return sink.digest.hexdigest()


def _replace(path: Path, known: Mapping[str, tuple[str, str]]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        # Readable by its owner alone: a digest of few or guessable rows would reveal them.
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
            json.dump(known, stream)
        draft.replace(path)
    except OSError:
        return


#: The distinct headers or schemas of a source's files.
Shape = frozenset[str]
_LONGEST_LINE: Final = 2**20


class SourceBinder:
    """Sources of a project and their state; safe to use from several threads.

    Args:
        catalog: gives the population of each table.
        sources: by table.
        ledger: records marks.
        digests: computes fingerprints.
        veil: keyed hash of marks for the ledger: a digest of few or guessable rows would reveal them.
        engine: reads the tables of a database, which has no files to read here.
    """

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, Source],
        ledger: Ledger,
        digests: Digests,
        veil: Callable[[str], str],
        engine: Engine | None = None,
    ) -> None:
        self._catalog = catalog
        self._sources = dict(sources)
        self._ledger = ledger
        self._digests = digests
        self._veil = veil
        self._engine = engine
        self._units = BoundUnits(catalog, ledger, veil)
        self._seen: dict[str, Fingerprint] = {}
        self._shapes: dict[str, Shape] = {}
        self._lock = threading.Lock()

    def bind(self) -> None:
        """Compute the fingerprint of every source, and bind it.

        Raises:
            InputError: a source belongs to another population, which the message names, or another column identified
                its people before. Units and columns are compared before anything is written.
        """
        found = {table.name: self.fingerprint(table) for table in self._catalog.tables}
        self._units.check((table, found[table.name]) for table in self._catalog.tables)
        self._units.fix()
        # Protected tables first, so that a source cannot be both protected and public.
        for table in sorted(self._catalog.tables, key=lambda table: table.public):
            self._look(table, found[table.name])

    def version(self, tables: Iterable[str]) -> str:
        """Return a version of the present content of some tables."""
        try:
            read = [table for name in tables if (table := self._catalog.table(name)) is not None]
            self._units.still(dict.fromkeys(table.population for table in read if table.population is not None))
            found = [self._look(table) for table in read]
        except InputError as problem:
            # Names and places of files are for operators only.
            raise EngineError(str(problem)) from None
        return self._veil("\n".join(found))

    def check_present(self) -> None:
        """Refuse missing files of a source; nothing is read.

        Raises:
            MissingSourceError: naming the place, for the operator.
        """
        for name, source in self._sources.items():
            if is_gone(source.kind, source.path):
                raise MissingSourceError(f"tables.{name}.source: there is no file {source.path}")

    def _look(self, table: Table, found: Fingerprint | None = None) -> str:
        now = found or self.fingerprint(table)
        with self._lock:
            known = self._seen.get(table.name)
        if known != now:
            self._check_shape(table)
            self._bind(table, now)
            with self._lock:
                self._seen[table.name] = now
        return f"{table.name.lower()} {now.version}"

    def fingerprint(self, table: Table) -> Fingerprint:
        source = self._sources[table.name]
        # A table changes all the time, and the times of changes must not show: its owner states its version, and until
        # another one is stated, a paid answer stays the answer.
        known = self._engine.marks(table.name) if source.is_elsewhere and self._engine is not None else None
        if known is None:
            found = self._digests.of(source, f"tables.{table.name}.source")
            # A view has rows of other tables of its file, so the marks of the file count.
            is_view = self._engine is not None and source.inside != "" and self._engine.is_view(table.name)
            return replace(found, own=found.marks, rows=found.own) if is_view else found
        return Fingerprint(f"{known.version} {source.version or ''}", known.marks, known.own, known.rows)

    def _check_shape(self, table: Table) -> None:
        """Refuse a source that was rewritten with other columns since the project was opened."""
        where = f"tables.{table.name}.source"
        now = shape_of(self._sources[table.name], where)
        if not now <= self._shapes.setdefault(table.name, now):
            raise InputError(where, "has other columns than when the project was opened; open it again")

    def _bind(self, table: Table, now: Fingerprint) -> None:
        if table.population is not None and not table.public:
            try:
                self._ledger.bind_source(table.population, [*map(self._veil, now.marks)], name=table.name)
            except InputError as problem:
                raise InputError(f"tables.{table.name}.population", problem.problem) from None
            self._units.bind(table, now)
            return
        # A DuckDB file may hold public and protected tables, so the marks of the table count, not those of the file.
        for mark in now.own:
            owner = self._ledger.source_of(self._veil(mark))
            if owner is not None:
                raise InputError(
                    f"tables.{table.name}.public",
                    f"this source holds persons of the population {owner!r}, and cannot be public",
                )


#: A longer list of categories is kept as its length and digest.
_LONGEST: Final = 400


def unit_terms(catalog: Catalog) -> dict[str, dict[str, str]]:
    """Return the protected unit of each population with a protected table, as the ledger states it."""
    found = {}
    for table in catalog.tables:
        if table.population is not None and not table.public:
            kind = unit_type(catalog, table.population)
            found[table.population] = {"unit": ROW} if kind is None else {"unit": "id", "type": str(kind)}
    return found


class BoundUnits:
    """The protected units of a project's populations and the columns that identify them, compared with the ledger.

    Units and columns are terms of the account: fixed by the first opening, refused if they differ later, and
    fixed anew only by an operator's entry. Bounds, categories and limits may change; each change becomes an entry.
    """

    def __init__(self, catalog: Catalog, ledger: Ledger, veil: Callable[[str], str]) -> None:
        self._catalog = catalog
        self._ledger = ledger
        self._veil = veil
        self._entries: dict[str, int] = {}

    def check(self, found: Iterable[tuple[Table, Fingerprint]]) -> None:
        """Compare units and columns with the ledger, and the tables of this project with each other; write nothing.

        Raises:
            InputError: naming the table, or the two tables.
        """
        for population, unit in unit_terms(self._catalog).items():
            self._ledger.units.check_unit(population, unit)
        for population, binding in self.bindings(found):
            self._ledger.units.check_column(population, binding)

    def bindings(self, found: Iterable[tuple[Table, Fingerprint]]) -> list[tuple[str, Binding]]:
        """Return the population and the ledger's binding of every protected source.

        Raises:
            InputError: two tables read the same rows and identify people by two columns.
        """
        first: dict[str, tuple[str, str]] = {}
        listed = []
        for table, fingerprint in found:
            binding = self.binding(table, fingerprint)
            if binding is None or table.population is None:
                continue
            listed.append((table.population, binding))
            for mark in binding.rows:
                other, column = first.setdefault(mark, (table.name, binding.column))
                if column != binding.column:
                    raise InputError(
                        f"tables.{table.name}.unit",
                        f"reads the same rows as {other}, where persons are named by {column!r} and here by "
                        f"{binding.column!r}: a source has one unit; declare the same one, or leave one table out",
                    )
        return listed

    def fix(self) -> None:
        """Fix the units of all populations that have none yet."""
        for population, unit in unit_terms(self._catalog).items():
            self._ledger.units.ensure_unit(population, unit)
            self._entries[population] = self._ledger.unit_entry(population)

    def bind(self, table: Table, fingerprint: Fingerprint) -> None:
        """Fix the identifying column of a source, if it is not fixed yet.

        Raises:
            InputError: the ledger has another column for it.
        """
        binding = self.binding(table, fingerprint)
        if binding is not None and table.population is not None:
            self._ledger.units.bind_column(table.population, binding)

    def binding(self, table: Table, fingerprint: Fingerprint) -> Binding | None:
        """Return the ledger's binding of a protected source; None for a public one."""
        if table.public or table.population is None:
            return None
        rows = fingerprint.own if fingerprint.rows is None else fingerprint.rows
        marks = tuple(dict.fromkeys(self._veil(f"rows {mark}") for mark in rows))
        return Binding(table.name, marks, unit_path(self._catalog, table))

    def still(self, populations: Iterable[str]) -> None:
        """Refuse to go on if an operator has fixed a unit anew since this project was opened.

        Raises:
            EngineError: the project must be opened again.
        """
        for population in populations:
            if self._ledger.unit_entry(population) != self._entries.get(population, 0):
                raise EngineError(f"the unit of {population} was fixed anew; open the project again")


def declared_terms(catalog: Catalog, table: Table) -> dict[str, str]:
    """Return the declarations of a project about a protected table and its columns, by name, as text."""
    terms = {
        "unit": unit_path(catalog, table),
        "max_groups": str(table.max_groups),
        "max_rows": str(table.max_rows),
    }
    ceilings = {"max_groups_limit": table.max_groups_limit, "max_rows_limit": table.max_rows_limit}
    terms |= {name: str(most) for name, most in ceilings.items() if most is not None}
    for column in table.columns:
        for word, said in _said(column).items():
            terms[f"{column.name.lower()}.{word}"] = said
    return terms


def _said(column: Column) -> Mapping[str, str]:
    said = {"type": str(column.type)}
    if column.bounds is not None:
        said["bounds"] = " to ".join(_text(end) for end in column.bounds)
    if column.step is not None:
        said["step"] = str(column.step)
    if column.categories is not None:
        listed = ", ".join("NULL" if value is None else repr(_text(value)) for value in column.categories)
        digest = hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()
        many = f"{len(column.categories)} values with digest {digest}"
        said["categories"] = listed if len(listed) <= _LONGEST else many
    if not column.nullable:
        said["nullable"] = "no"
    if column.unique:
        said["unique"] = "yes"
    return said


def _text(value: Value) -> str:
    return value.isoformat() if isinstance(value, dt.date) else str(value)


@lru_cache(256)
def _schema(file: Path, state: str) -> str:  # noqa: ARG001 - read once for each state of a file
    return schema_text(file)


def shape_of(source: Source, where: str) -> Shape:
    """Return the headers or schemas of a source's files as they are now; nothing for frames and databases.

    The type of a column, and that it can identify a person, is checked when the project is opened. A CSV file whose
    columns were swapped, or a Parquet file whose ids have become doubles, would be read by checks made for another
    file. Engines compare the columns of frames and databases.

    Raises:
        InputError: a file cannot be read.
    """
    if source.is_elsewhere or source.kind not in ("parquet", "csv"):
        return frozenset()
    found = set()
    for file in source.files:
        try:
            if source.kind == "parquet":
                found.add(_schema(file, _state(file.stat())))
            else:
                with file.open("rb") as stream:
                    found.add(repr(stream.readline(_LONGEST_LINE)))
        except (OSError, InputError):
            raise InputError(where, f"cannot read the columns of {file.name}") from None
    return frozenset(found)
