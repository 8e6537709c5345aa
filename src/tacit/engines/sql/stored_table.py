"""Stored table: scan and column expressions of one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["StoredTable"]


@dataclass(frozen=True)
class StoredTable:
    """A source in the engine's words.

    Args:
        index: its place in the catalog, a part of the numbers of its rows.
        scan: what stands after FROM.
        columns: the total expression of each declared column by lower-case name.
        row: an expression for the number of a row, the same in every scan of one statement; None where there is none.
        size: bytes of the source when it was opened; decides between plans, never results.
        doubles: columns stored as doubles, as they are: possibly not finite. Only for readers that see to that.
        rows: how many there are, where that is known for certain.
    """

    index: int
    scan: str
    columns: Mapping[str, str]
    row: str | None
    size: int = 0
    doubles: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
