"""Identity of sources that only Spark can read.

A table is its full name in its catalog. A table with files is also where they lie: those of this machine by the same
mark that a file opened without Spark has, others by the address of their folder. A frame without files is its content.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tacit.engines.protocol import Marks, SourceLike
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.sources import catalog_name

__all__ = ["marks_of"]

_PARTITION = re.compile(r"[^/=]+=[^/]*\Z")


def marks_of(spark: Any, source: SourceLike, view: str) -> Marks:
    """The marks of a source; ``view`` is what it is called in the session. Reads no row but of frames without files."""
    frame = spark.table(view)
    places = tuple(dict.fromkeys(map(_place, sorted(frame.inputFiles()))))
    if source.kind == "table":
        name = _full_name(spark, source.path or "")
        marks = (f"spark table {name}", *places)
        return Marks(f"spark {name}", marks, marks)
    if source.kind == "frame" and not places:
        content = f"content {_content(spark, view, frame.columns)}"
        return Marks(content, (content,), (content,))
    version = hashlib.sha256("\n".join(places).encode()).hexdigest()
    return Marks(f"spark {version}", places, places)


def _place(address: str) -> str:
    """A file of this machine as itself; of others the folder, without those of its partitions."""
    parts = urlparse(address)
    if parts.scheme in ("", "file"):
        return f"path {Path(unquote(parts.path)).resolve()}"
    folder = address.rpartition("/")[0]
    while _PARTITION.search(folder):
        folder = folder.rpartition("/")[0]
    return f"address {folder}"


def _full_name(spark: Any, name: str) -> str:
    """With the catalog and schema that a short name means, in small letters as Spark reads it."""
    parts = [part.strip("`") for part in re.findall(r"`(?:[^`]|``)+`|[^.`]+", catalog_name(name))]
    if len(parts) < 2:
        parts = [spark.catalog.currentDatabase(), *parts]
    if len(parts) < 3:
        parts = [spark.catalog.currentCatalog(), *parts]
    return ".".join(part.lower() for part in parts)


def _content(spark: Any, view: str, columns: list[str]) -> str:
    """A digest that does not depend on the order of rows."""
    listed = ", ".join(SPARK.quoted(name) for name in columns)
    hashed = f"SELECT xxhash64({listed}) AS h FROM {view}"
    (found,) = spark.sql(f"SELECT count(*), bit_xor(h), sum(CAST(h AS DECIMAL(38,0))) FROM ({hashed})").collect()
    return hashlib.sha256(f"{columns} {tuple(found)}".encode()).hexdigest()
