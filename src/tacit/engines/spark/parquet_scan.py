"""Parquet scan in which Spark can read every value.

Spark takes the types of columns in the names of folders from all the names there are, so one folder can change how the
others are read; here they are always texts. It fails where a moment in milliseconds lies beyond its
range; here moments are read as the whole numbers they are stored as, and brought to microseconds by an expression.
Stored types are read from the files themselves where they lie on this machine, and from Spark elsewhere.

A file that lies on this machine settles whose budget pays, so it must be the one that is read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.engines.arrow_frames import LAST_NANOSECOND
from tacit.engines.source_files import ADDRESS, find_files
from tacit.engines.spark.dialect import SPARK


def read_from(path: str) -> tuple[tuple[str, ...], int]:
    """The addresses that Spark is to read, and their size where they lie on this machine."""
    if ADDRESS.match(path):
        return (path,), 0
    files = _here(path)
    return tuple(map(_address, files)), sum(file.stat().st_size for file in files)


def check_same_files(spark: Any, path: str, where: str) -> None:
    """Refuse a path of this machine that a server elsewhere sees otherwise: other names, sizes or times of change.

    Raises:
        InputError: at ``where``.
    """
    if ADDRESS.match(path):
        return
    here = sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns // 10**9) for file in _here(path))
    try:
        # Of what stands in them nothing is read.
        found = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(read_from(path)[0]))
        rows = found.selectExpr("path", "length", "unix_seconds(modificationTime)").collect()
        there = sorted((re.sub("^file:/+", "/", name), size, second) for name, size, second in rows)
    except Exception:
        there = []
    if there != here:
        raise InputError(
            where,
            f"the Spark server does not see {path} as it is here; put it on a disk that both see under this name, or"
            " name a table of its catalog or an address such as s3://bucket/visits",
        )


def _here(path: str) -> list[Path]:
    """The files of this machine that a path, a pattern or a folder means."""
    files = [Path(file) for file in find_files(path)]
    if Path(path).is_dir() and any(file.suffix != ".parquet" for file in files):
        raise InputError("source", f"the folder {path} must hold .parquet files and no others")
    return files


def _address(file: Path) -> str:
    """A path of a disk, independent of Spark's default file system, and no pattern."""
    return "file:" + re.sub(r"([*?\[\]{}\\])", r"\\\1", str(file))


#: At the end of the name of a column that holds microseconds since 1970.
MICROSECONDS = "tacit microseconds"
_PAIR = re.compile(r"([^=/\\]+)=[^/\\]*\Z")
#: Seconds of the beginning of the year 1 and of the end of the year 9999, since 1970.
_FIRST, _END = -62_135_596_800, 253_402_300_800
_SIZES = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def read_parquet(
    spark: Any, path: str, names: Collection[str], table: str, *, numbered: bool = False
) -> tuple[Any, int]:
    """A Spark frame of files, and their size in bytes if it is known.

    Args:
        spark: the session.
        path: a file, pattern, folder or address.
        names: the declared columns, in small letters.
        table: for the words of errors.
        numbered: whether to add what Spark knows of a row's file.

    Raises:
        InputError: files store one column in several types.
    """
    told, size = read_from(path)
    base = _base(path)
    found = _reader(spark, base).option("mergeSchema", "true").parquet(*told).schema
    check_names(found.names, *(["_metadata"] if numbered else []))
    units = {} if ADDRESS.match(path) else _moments(find_files(path), names, table)
    folders = _folders(told if not ADDRESS.match(path) else _reader(spark, base).parquet(*told).inputFiles())
    fields = [_field(field, folders, units) for field in found.fields]
    from pyspark.sql.types import StructType

    frame = _reader(spark, base).schema(StructType(fields)).parquet(*told)
    listed = [_selected(field.name, units) for field in fields]
    return frame.selectExpr(*listed, *(["_metadata"] if numbered else [])), size


def check_names(columns: Iterable[str], *taken: str) -> None:
    """Refuse columns whose names stand for something else: they would decide who a row is, or be read for others."""
    names = [name.lower() for name in columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError("source", f"has two columns called {name!r}, in letters of either case; rename one")
        if name in taken or name.endswith(f" {MICROSECONDS}"):
            raise InputError("source", f"has a column called {name!r}, a name that is needed otherwise; rename it")


def _reader(spark: Any, base: str | None) -> Any:
    # Dates are as they are written; calendars of old Spark versions are told apart by the files themselves.
    reader = spark.read.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    return reader if base is None else reader.option("basePath", base)


def _base(path: str) -> str | None:
    """Where the names of folders begin to hold columns; None where Spark is told of a whole folder itself."""
    if ADDRESS.match(path):
        return None
    first = find_files(path)[0]
    parts = first.split("/")
    place = next((i for i, part in enumerate(parts[:-1]) if _PAIR.match(part)), None)
    return None if place is None else "file:" + "/".join(parts[:place])


def _folders(places: Sequence[str]) -> frozenset[str]:
    """The columns that stand in the names of folders, in small letters."""
    found = (_PAIR.match(part) for place in places for part in place.split("/")[:-1])
    return frozenset(match.group(1).lower() for match in found if match)


def _moments(files: Sequence[str], names: Collection[str], table: str) -> dict[str, str]:
    """The unit of each declared column that stores moments as whole numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    units: dict[str, set[str]] = {}
    try:
        for file in files:
            with pq.ParquetFile(file) as opened:
                stored, kinds = opened.schema, opened.schema_arrow
                for i, name in enumerate(kinds.names):
                    if name.lower() not in names or i >= len(stored.names) or stored.column(i).path != name:
                        continue
                    kind = kinds.field(i).type
                    whole = pa.types.is_timestamp(kind) and stored.column(i).physical_type == "INT64"
                    units.setdefault(name.lower(), set()).add(kind.unit if whole else str(kind))
    except (OSError, pa.ArrowException):
        raise InputError(table, "a file of the source is not a Parquet file") from None
    for name, found in units.items():
        if len(found) > 1 and found & _SIZES.keys():
            raise InputError(f"{table}.{name}", "is stored in several types in files of one source; write them in one")
    return {name: unit for name, found in units.items() for unit in found if unit in _SIZES}


def _field(field: Any, folders: Collection[str], units: dict[str, str]) -> Any:
    from pyspark.sql.types import LongType, StringType, StructField

    if field.name.lower() in folders:
        return StructField(field.name, StringType(), True)
    return StructField(field.name, LongType(), True) if field.name.lower() in units else field


def _selected(name: str, units: dict[str, str]) -> str:
    quoted = SPARK.quoted(name)
    if name.lower() not in units:
        return quoted
    size = _SIZES[units[name.lower()]]
    moved = f"CASE WHEN {quoted} BETWEEN {_FIRST * size} AND {_END * size - 1} THEN {quoted} * {10**6 // size} END"
    if size > 10**6:
        # All of them lie within the years; downwards, as everywhere.
        cut = f"{quoted} DIV 1000 - CASE WHEN {quoted} % 1000 < 0 THEN 1 ELSE 0 END"
        moved = f"CASE WHEN {quoted} BETWEEN -{LAST_NANOSECOND} AND {LAST_NANOSECOND} THEN {cut} END"
    return f"{moved} AS {SPARK.quoted(f'{name} {MICROSECONDS}')}"
