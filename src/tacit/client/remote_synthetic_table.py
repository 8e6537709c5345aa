"""Synthetic tables of a server: a checked receipt, the quality, and the rows, which are fetched once."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.engines.registry import query_public
from tacit.receipts.receipt import Receipt
from tacit.wire.job_responses import SyntheticTableBody

__all__ = ["RemoteSyntheticTable"]


class RemoteSyntheticTable:
    """A synthetic table that a server made; its receipt holds.

    Args:
        body: about the table.
        receipt: of its charge.
        fetch: the file of the table, by its form.
    """

    def __init__(self, body: SyntheticTableBody, receipt: Receipt, fetch: Callable[[str], bytes]) -> None:
        self.name = body.name
        self.rows = body.rows
        self.body = body
        self.receipt = receipt
        self._fetch = fetch

    @cached_property
    def _table(self) -> Any:
        pq = load_arrow("pyarrow.parquet")

        return pq.read_table(io.BytesIO(self._fetch("parquet")))

    def to_arrow(self) -> Any:
        """The table."""
        return self._table

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return self._table.to_pandas()

    def sql(self, question: str) -> Any:
        """The answer to ordinary SQL about the table, computed here: free, and without intervals."""
        found = query_public(question, {self.name: self._table})
        return found.replace_schema_metadata({**(found.schema.metadata or {}), b"note": self.body.note.encode()})

    def save(self, path: str | Path) -> None:
        """Write the table to a Parquet or CSV file, by the ending of its name."""
        target = Path(path)
        if target.suffix not in (".parquet", ".csv"):
            raise InputError("path", "must end in .parquet or .csv")
        target.write_bytes(self._fetch(target.suffix[1:]))

    def report(self) -> str:
        """The quality in words, made of what was paid for alone."""
        return self.body.report

    def __repr__(self) -> str:
        return f"<RemoteSyntheticTable {self.name}: {self.rows:,} rows, {len(self.body.columns)} columns>"
