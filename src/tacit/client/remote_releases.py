"""Synthetic tables and workloads of a server: a checked receipt, and tables that are fetched."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from tacit.client.release_responses import SyntheticTableBody, WorkloadBody
from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.engines.registry import query_public
from tacit.query.parsing.sql_text import Query, query_text
from tacit.releases.receipt import Receipt


class RemoteSyntheticTable:
    """A synthetic table that a server made; its receipt holds. ``fetch`` gets its file in a form."""

    def __init__(self, body: SyntheticTableBody, receipt: Receipt, fetch: Callable[[str], bytes]) -> None:
        self.name = body.name
        self.rows = body.rows
        self.body = body
        self.receipt = receipt
        self._fetch = fetch

    @cached_property
    def _table(self) -> Any:
        return _arrow(self._fetch("parquet"))

    def to_arrow(self) -> Any:
        """The table."""
        return self._table

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return self._table.to_pandas()

    def sql(self, question: Query) -> Any:
        """The answer to ordinary SQL about the table, computed here: free, and without intervals."""
        found = query_public(query_text(question, "question"), {self.name: self._table})
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


class RemoteWorkload:
    """Answers to a workload; its receipt holds. ``fetch`` gets the Parquet file of a table by its place."""

    def __init__(self, body: WorkloadBody, receipt: Receipt, fetch: Callable[[int], bytes]) -> None:
        self.body = body
        self.receipt = receipt
        self._fetch = fetch

    @property
    def root_mean_square_error(self) -> float:
        """Root of the mean variance of all answers."""
        return self.body.root_mean_square_error

    def table(self, place: int) -> Any:
        """The answers of one table as Arrow: labels, ``count``, ``stddev``, ``low`` and ``high``."""
        if not 0 <= place < len(self.body.tables):
            raise InputError("place", f"must be from 0 to {len(self.body.tables) - 1}, the places of the tables")
        return _arrow(self._fetch(place))

    def marginal(self, *columns: str) -> Any:
        """The answers of the table with these columns, as :meth:`table`."""
        for place, each in enumerate(self.body.tables):
            if sorted(each.columns) == sorted(columns):
                return self.table(place)
        raise InputError("columns", f"{', '.join(columns)} is no table of the workload")

    def __repr__(self) -> str:
        return f"<RemoteWorkload {self.body.workload}: {self.body.queries:,} queries>"


def _arrow(content: bytes) -> Any:
    """The table in a Parquet file."""
    return load_arrow("pyarrow.parquet").read_table(io.BytesIO(content))
