"""Files of a source and their version.

A path is a file, a pattern of files, a folder of Parquet files, or for DuckDB ``file#table``. Patterns and folders are
looked at anew each time, so that a file that joins them is seen. A state is what changes when a file does: its place,
size, number, and times of change of content and of the file itself; the last cannot be set back by ordinary means.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from tacit.core.errors import InputError

__all__ = ["ADDRESS", "FileState", "file_state", "find_files", "is_pattern", "list_files", "source_state"]

#: Where a path is an address of another system.
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/")
_MAGIC = re.compile(r"[*?\[]")

FileState = tuple[str, int, int, int, int, int]


def list_files(path: str) -> tuple[str, ...]:
    """The files that a path, pattern or folder names now, in order, absolute; none where there are none."""
    place = Path(path)
    if place.is_dir():
        return tuple(
            str(file) for file in sorted(place.resolve().rglob("*")) if file.is_file() and _is_seen(file, place)
        )
    found = sorted(glob.glob(path, recursive=True)) if is_pattern(path) else [path]
    return tuple(str(Path(name).resolve()) for name in found if Path(name).is_file())


def is_pattern(path: str) -> bool:
    """Whether it may name several files; a file whose own name, or folder, has such signs in it is that file."""
    return bool(_MAGIC.search(path)) and not Path(path).is_file()


def _is_seen(file: Path, folder: Path) -> bool:
    """Spark passes over names that begin with a dot or an underscore, folders included, unless they hold a value."""
    parts = file.relative_to(folder.resolve()).parts
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def find_files(path: str) -> tuple[str, ...]:
    """List the files that a path, pattern or folder names now, of which there must be one.

    Raises:
        InputError: there are none.
    """
    files = list_files(path)
    if not files:
        raise InputError("source", f"there is no file {path}")
    return files


def file_state(file: str) -> FileState | None:
    """State of a file; None where it is gone."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (file, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)


def source_state(kind: str, path: str | None) -> tuple[FileState | None, ...]:
    """The states of all files of a source; none for frames, tables of a server and addresses of other systems."""
    if path is None or kind not in ("parquet", "csv", "duckdb") or ADDRESS.match(path):
        return ()
    files = list_files(path.partition("#")[0] if kind == "duckdb" else path)
    # A part of a DuckDB file's content is in its log.
    logs = tuple(f"{file}.wal" for file in files) if kind == "duckdb" else ()
    return tuple(map(file_state, (*files, *logs)))
