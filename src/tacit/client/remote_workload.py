"""Workloads that a server has answered: a checked receipt, the errors, and tables of answers that are fetched."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.receipts.receipt import Receipt
from tacit.wire.job_responses import WorkloadBody

__all__ = ["RemoteWorkload"]


class RemoteWorkload:
    """Answers to a workload; its receipt holds.

    Args:
        body: about the workload.
        receipt: of its charge.
        fetch: the Parquet file of a table, by its place.
    """

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
        pq = load_arrow("pyarrow.parquet")

        if not 0 <= place < len(self.body.tables):
            raise InputError("place", f"must be from 0 to {len(self.body.tables) - 1}, the places of the tables")
        return pq.read_table(io.BytesIO(self._fetch(place)))

    def marginal(self, *columns: str) -> Any:
        """The answers of the table with these columns, as :meth:`table`."""
        for place, each in enumerate(self.body.tables):
            if sorted(each.columns) == sorted(columns):
                return self.table(place)
        raise InputError("columns", f"{', '.join(columns)} is no table of the workload")

    def __repr__(self) -> str:
        return f"<RemoteWorkload {self.body.workload}: {self.body.queries:,} queries>"
