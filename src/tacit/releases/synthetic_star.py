"""Two synthetic tables that belong together: persons, and rows of theirs that point to them by a made-up key.

Persons are drawn from their model, each with the number of rows that it has; then so many rows for each of them, from
the model of the other table given the columns of the person. Everything here is post-processing, and free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.core.text_files import table_bytes
from tacit.engines.registry import query_public
from tacit.query.parsing.sql_text import Query, query_text
from tacit.query.types import Kind
from tacit.releases.accounts import Entry
from tacit.releases.receipt import Receipt
from tacit.releases.synthetic_table import (
    BANNER,
    MOST_ROWS,
    SyntheticTable,
    arrays_of,
    checked_rows,
    reading_model,
)
from tacit.synth.expanded_shares import ExpandedShares
from tacit.synth.graphical_model import Shares, uniform
from tacit.synth.star_rows import StarNames

_FORMAT: Final = "tacit-synthetic-star"
Places = NDArray[np.int64]


@dataclass(frozen=True)
class StarLayout:
    """Keys and columns by which two synthetic tables belong together.

    Args:
        number: the column of persons that says how many rows they have in the other table.
        outer: names of the columns of persons beside rows of the other table.
        most: rows of one person.
        keys: the column of each table by which they are joined.
        whole: of each, whether its values are whole numbers, or texts.
    """

    number: str
    outer: Mapping[str, str]
    most: int
    keys: tuple[str, str]
    whole: tuple[bool, bool]

    @classmethod
    def of(cls, names: StarNames, columns: Iterable[str]) -> StarLayout:
        """The layout of two tables of a project."""
        found = [table.find(key) for table, key in ((names.persons, names.person), (names.rows, names.owner))]
        first, second = (key is not None and key.type.kind is Kind.INTEGER for key in found)
        outer = {name: names.outer(name) for name in columns if name != names.number}
        return cls(names.number, outer, names.most, (names.person, names.owner), (first, second))


class SyntheticStar:
    """A synthetic table of persons and one of their rows, with the charge and the receipt of both.

    Args:
        persons: model and measurements of the table with a row for each person; it counts the rows of each.
        others: model and measurements of the other table, beside the columns of persons.
        layout: how they belong together.
    """

    charge: Entry
    receipt: Receipt

    def __init__(self, persons: SyntheticTable, others: SyntheticTable, layout: StarLayout) -> None:
        self.persons = persons
        self.others = others
        self.rows = persons.rows
        self._layout = layout
        outer = {layout.number, *layout.outer.values()}
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
    def tables(self) -> tuple[SyntheticTable, SyntheticTable]:
        """The two tables: persons, then their rows."""
        return self.persons, self.others

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
        # From a file there is no receipt; then bits are fresh.
        receipt = getattr(self, "receipt", None)
        return self._drawn(self.rows, None if receipt is None else ExpandedShares(receipt.signature))

    def sample(self, rows: int) -> dict[str, Any]:
        """Two more Arrow tables of the models, with so many persons; free."""
        return self._drawn(rows, None)

    def repeatable_tables(self) -> dict[str, Any]:
        """The tables of :meth:`to_arrow`."""
        return self.to_arrow()

    def _drawn(self, rows: int, shares: Shares | None) -> dict[str, Any]:
        layout, number = self._layout, self._layout.number
        if checked_rows(rows) * layout.most > MOST_ROWS:
            raise InputError("rows", f"must be at most {MOST_ROWS // layout.most:,}, of {layout.most} rows each")
        drawn = self.persons.model.sample(rows, shares)
        times = drawn[number]
        owner = np.repeat(np.arange(rows), times)
        known = {number: times}
        model = self.others.model
        known |= {outer: drawn[name] for name, outer in layout.outer.items()}
        beside = {name: places for name, places in known.items() if name in model.sizes}
        found, able = model.sample_beside({name: places[owner] for name, places in beside.items()}, shares)
        # A rule may leave nothing for some person; then there is no such row.
        owner, found = owner[able], {name: places[able] for name, places in found.items()}
        told = [name for name in self.persons.columns if name != number]
        own = [name for name in self.others.columns if name not in known]
        draw = shares or uniform
        made = {
            self.persons.name: self.persons.shown(drawn, told, shares),
            self.others.name: self.others.shown(found, own, shares),
        }
        # Keys are numbers in an order of their own, so that the place of a row says nothing about its values.
        mixed = np.argsort(draw(rows), kind="stable") + 1
        for name, column, whole, keys in zip(self.names, layout.keys, layout.whole, (mixed, mixed[owner]), strict=True):
            made[name] = made[name].add_column(0, column, [_keys(keys, whole=whole)])
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

    def save_model(self, path: str | Path) -> None:
        """Write both models and what was measured to a file, for :meth:`load_model`: numbers and texts, no code."""
        layout = self._layout
        head = {
            "format": _FORMAT, "version": 1, "number": layout.number, "outer": dict(layout.outer), "most": layout.most,
            "keys": list(layout.keys), "whole": list(layout.whole),
        }  # fmt: skip
        parts = [json.dumps(head).encode(), self.persons.model_bytes(), self.others.model_bytes()]
        with Path(path).open("wb") as file:
            np.savez(file, *(np.frombuffer(part, dtype=np.uint8) for part in parts))

    @classmethod
    def load_model(cls, path: str | Path) -> SyntheticStar:
        """The tables that :meth:`save_model` wrote; without a charge and a receipt.

        Raises:
            InputError: the file is another.
        """
        with reading_model():
            head, persons, others = (part.tobytes() for part in arrays_of(Path(path).read_bytes()))
            told = json.loads(head)
            if told["format"] != _FORMAT or told["version"] != 1:
                raise ValueError
            (first, second), (one, other) = told["keys"], told["whole"]
            outer = {str(name): str(each) for name, each in told["outer"].items()}
            layout = StarLayout(str(told["number"]), outer, int(told["most"]), (first, second), (one, other))
            tables = SyntheticTable.from_model_bytes(persons), SyntheticTable.from_model_bytes(others)
            if len(tables[0].columns.get(layout.number, ())) != layout.most + 1 or not 1 <= layout.most <= MOST_ROWS:
                raise ValueError
            # A person's values are those beside the person's rows; keys are columns that are in neither model.
            beside = {layout.number: layout.number, **outer}
            widths = [{name: len(values) for name, values in table.columns.items()} for table in tables]
            if any(widths[1].get(other, widths[0][name]) != widths[0][name] for name, other in beside.items()):
                raise ValueError
            if {type(each) for each in layout.whole} != {bool} or any(
                type(key) is not str or key in table.columns for key, table in zip(layout.keys, tables, strict=True)
            ):
                raise ValueError
            return cls(*tables, layout)

    def to_bytes(self, form: str, table: str) -> bytes:
        """One of the tables as the content of a ``"parquet"`` or ``"csv"`` file."""
        if table not in self.names:
            raise InputError("table", f"must be one of {', '.join(self.names)}")
        return table_bytes(self.to_arrow()[table], form)

    def sql(self, question: Query) -> Any:
        """The answer to ordinary SQL about both tables, as an Arrow table: free, and without intervals."""
        found = query_public(query_text(question, "question"), self.to_arrow())
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


def _keys(numbers: Any, *, whole: bool) -> Any:
    """Made-up keys of the kind that the column has: numbers, or texts."""
    pa = load_arrow()

    if whole:
        return pa.array(numbers, pa.int64())
    return pa.array([f"made-up {number}" for number in np.asarray(numbers).tolist()], pa.string())
