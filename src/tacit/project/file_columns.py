"""Columns of source files, to detect a changed schema.

The reading of a column, and that it can name a person, was settled when the project was opened. A CSV file whose
columns were exchanged, or a Parquet file whose ids have become doubles, would be read by what was settled for another
one.
"""

from __future__ import annotations

from typing import Final

from tacit.core.errors import InputError
from tacit.engines.parquet_files import schema_text
from tacit.project.source import Source

__all__ = ["Shape", "shape_of"]

#: The different lists of columns that the files of a source have.
Shape = frozenset[str]
_LONGEST_HEADER: Final = 2**20


def shape_of(source: Source, where: str) -> Shape:
    """The columns of a source's files as they are now; of frames and databases nothing, for engines look at those.

    Raises:
        InputError: a file cannot be read.
    """
    if source.is_elsewhere or source.kind not in ("parquet", "csv"):
        return frozenset()
    found = set()
    for file in source.files:
        try:
            if source.kind == "parquet":
                found.add(schema_text(file))
            else:
                with file.open("rb") as stream:
                    found.add(repr(stream.readline(_LONGEST_HEADER)))
        except (OSError, InputError):
            raise InputError(where, f"cannot read the columns of {file.name}") from None
    return frozenset(found)
