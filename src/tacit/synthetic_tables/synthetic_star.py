"""Two synthetic tables that belong together: persons, and rows of theirs that point to them by a made-up key.

Persons are drawn from their model, each with the number of rows that it has; then so many rows for each of them, from
the model of the other table given the columns of the person. Everything here is post-processing, and free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit.charges.accounts import Entry
from tacit.core.errors import InputError
from tacit.engines.registry import query_public
from tacit.query.catalog import Table
from tacit.query.types import Kind
from tacit.receipts.receipt import Receipt
from tacit.synth.graphical_model import Shares, uniform
from tacit.synthetic_tables.synthesis_stages import StarNames
from tacit.synthetic_tables.synthetic_table import (
    BANNER,
    MOST_ROWS,
    ExpandedShares,
    SyntheticTable,
    checked_rows,
    table_bytes,
)

__all__ = ["SyntheticStar"]


class SyntheticStar:
    """A synthetic table of persons and one of their rows, with the charge and the receipt of both.

    Args:
        persons: model and measurements of the table with a row for each person; it counts the rows of each.
        others: model and measurements of the other table, beside the columns of persons.
        names: of the two tables and their keys.
    """

    charge: Entry
    receipt: Receipt

    def __init__(self, persons: SyntheticTable, others: SyntheticTable, names: StarNames) -> None:
        self.persons = persons
        self.others = others
        self.rows = persons.rows
        self._names = names
        outer = {names.number, *(names.outer(name) for name in persons.columns)}
        others.outer = frozenset(outer & set(others.columns))
        for table in (persons, others):
            table.draw_as(self._member(table.name), counted=table is others)

    def _member(self, name: str) -> Callable[[], Any]:
        return lambda: self.to_arrow()[name]

    def sign(self, charge: Entry, receipt: Receipt) -> None:
        """Put charge and receipt beside the tables."""
        for each in (self, self.persons, self.others):
            each.charge, each.receipt = charge, receipt

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two tables, for questions."""
        return self.persons.name, self.others.name

    # -- rows

    def to_arrow(self) -> dict[str, Any]:
        """Both tables by name, with bits that follow from the release: the same for every process."""
        return self._tables

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return self._drawn(self.rows, ExpandedShares(self.receipt.signature))

    def sample(self, rows: int) -> dict[str, Any]:
        """Two more Arrow tables of the models, with so many persons; free."""
        return self._drawn(rows, None)

    def repeatable_tables(self) -> dict[str, Any]:
        """The tables of :meth:`to_arrow`."""
        return self.to_arrow()

    def _drawn(self, rows: int, shares: Shares | None) -> dict[str, Any]:
        names, number = self._names, self._names.number
        if checked_rows(rows) * names.most > MOST_ROWS:
            raise InputError("rows", f"must be at most {MOST_ROWS // names.most:,}, of {names.most} rows each")
        drawn = self.persons.model.sample(rows, shares)
        times = drawn[number]
        owner = np.repeat(np.arange(rows), times)
        known = {number: times[owner]}
        model = self.others.model
        known |= {outer: drawn[name][owner] for name in drawn if (outer := names.outer(name)) in model.sizes}
        beside = {name: places for name, places in known.items() if name in model.sizes}
        if len(owner):
            found, able = model.sample_beside(beside, shares)
            # A rule may leave nothing for some person; then there is no such row.
            owner, found = owner[able], {name: places[able] for name, places in found.items()}
        else:
            found = {name: np.zeros(0, dtype=np.int64) for name in model.sizes}
        told = [name for name in self.persons.columns if name != number]
        own = [name for name in self.others.columns if name not in known]
        draw = shares or uniform
        made = {
            self.persons.name: self.persons.shown(drawn, told, shares),
            self.others.name: self.others.shown(found, own, shares),
        }
        # Keys are numbers in an order of their own, so that the place of a row says nothing about its values.
        mixed = np.argsort(draw(rows), kind="stable") + 1
        placed = (
            (self.persons.name, names.persons, names.person, mixed),
            (self.others.name, names.rows, names.owner, mixed[owner]),
        )
        for name, table, column, keys in placed:
            made[name] = made[name].add_column(0, column, [_keys(keys, table, column)])
        return made

    def save(self, folder: str | Path, form: str = "parquet") -> list[Path]:
        """Write both tables into a folder, as Parquet or CSV files of their names."""
        if form not in ("parquet", "csv"):
            raise InputError("form", "must be parquet or csv")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        written = []
        for name in self.names:
            written.append(target / f"{name}.{form}")
            written[-1].write_bytes(self.to_bytes(form, name))
        return written

    def to_bytes(self, form: str, table: str) -> bytes:
        """One of the tables as the content of a ``"parquet"`` or ``"csv"`` file."""
        if table not in self.names:
            raise InputError("table", f"must be one of {', '.join(self.names)}")
        return table_bytes(self.to_arrow()[table], form)

    def sql(self, question: str) -> Any:
        """The answer to ordinary SQL about both tables, as an Arrow table: free, and without intervals."""
        found = query_public(question, self.to_arrow())
        return found.replace_schema_metadata({**(found.schema.metadata or {}), b"note": BANNER.encode()})

    def report(self) -> str:
        """The quality of both in words: measured marginals, the distance of the models, and what was not measured."""
        return f"{self.persons.report()}\n{self.others.report()}"

    def __getitem__(self, table: str) -> SyntheticTable:
        """Model, measurements and quality of one of the tables."""
        found: Mapping[str, SyntheticTable] = {self.persons.name: self.persons, self.others.name: self.others}
        if table not in found:
            raise InputError("table", f"must be one of {', '.join(found)}")
        return found[table]

    def __repr__(self) -> str:
        return f"<SyntheticStar {' and '.join(self.names)}: {self.rows:,} persons>"


def _keys(numbers: Any, table: Table, column: str) -> Any:
    """Made-up keys of the kind that the column has: numbers, or texts."""
    import pyarrow as pa

    known = table.find(column)
    if known is not None and known.type.kind is Kind.INTEGER:
        return pa.array(numbers, pa.int64())
    return pa.array([f"made-up {number}" for number in np.asarray(numbers).tolist()], pa.string())
