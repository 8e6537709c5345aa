"""Parquet files on this machine as Spark reads them.

The file that lies here settles whose budget pays, so it must be the one that is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.engines.source_files import ADDRESS, find_files

__all__ = ["check_same_files", "read_from"]


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
