"""Synthetic tables as people use them: rows to draw, a model to ask, a report of what was measured.

For two tables that belong together (:class:`SyntheticStar`), persons are drawn from their model, each with a number of
rows; then that number of rows for each person, from the model of the second table given the columns of the person.
All of it is post-processing of released counts, and free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.core.numbers import with_noun
from tacit.core.text_files import table_bytes
from tacit.query.types import Kind
from tacit.releases.accounts import Entry
from tacit.releases.receipt import Receipt
from tacit.synth.column_bins import ColumnBins, decimal_of
from tacit.synth.graphical_model import (
    ExpandedShares,
    GraphicalModel,
    NoisyMarginal,
    Shares,
    fit_model,
    uniform,
)
from tacit.synth.synthesis_stages import StarNames

MOST_ROWS: Final = 10_000_000
#: Share of rows moved by noise from which on counts carry almost no information.
_HIDDEN: Final = 0.5
#: Ratio of the distance from independent columns to that expected by chance, from which on pairs carry information.
_TELLING: Final = 1.2
#: Note shown with counts that have no interval.
BANNER: Final = (
    "Counts of a synthetic table: noise has an interval only where a marginal was measured. table.marginal(columns) "
    "shows it; for other columns nothing is promised."
)


@dataclass(frozen=True)
class MarginalQuality:
    """Distance of the model from a measured marginal.

    Args:
        columns: columns of the marginal.
        distance: half the l1 distance between the model's counts and the noisy counts, over the number of rows.
        noise: expected value of this distance if the model were exact and only noise differed.
        stddev: standard deviation of the noise on each count.
        wide: half-width of the 95% interval of each count.
        times: number of measurements of this marginal that this object stands for.
    """

    columns: tuple[str, ...]
    distance: float
    noise: float
    stddev: float
    wide: float
    times: int = 1


_COUNTED: Final = ("count", "stddev", "low", "high")
#: Beginning of the note that lists the columns a synthetic table lacks.
NOT_MADE: Final = "not made, as neither categories nor bounds are declared (a profile finds them): "


class SyntheticTable:
    """A synthetic table with its model, the noisy marginals it was fitted to, the charge and the receipt.

    Args:
        name: name of the table in queries.
        measured: all noisy marginals that were released.
        model: graphical model fitted to the noisy marginals.
        columns: values of each column, by name.
        bins: bins of the columns that have them, by name.
        rows: number of rows to draw.
    """

    def __init__(
        self,
        name: str,
        measured: Sequence[NoisyMarginal],
        model: GraphicalModel,
        columns: Mapping[str, Sequence[Any]],
        bins: Mapping[str, ColumnBins],
        rows: int,
    ) -> None:
        self.name = name
        self.measured = tuple(measured)
        self.model = model
        self._rows = rows
        self.columns = {name: tuple(values) for name, values in columns.items()}
        self.bins = dict(bins)
        #: Columns of the person joined to each row; their counts come from the persons' table.
        self.outer: frozenset[str] = frozenset()
        #: Columns of the source that are not synthesised, because they have no declared categories or bounds.
        self.left_out: tuple[str, ...] = ()
        #: Values of text columns found privately, by column; empty where no value is frequent enough.
        self.found: Mapping[str, tuple[str, ...]] = {}
        #: Draws the rows together with another table.
        self.draw: Callable[[], Any] | None = None
        self.charge: Entry
        self.receipt: Receipt

    @classmethod
    def from_counts(cls, tables: Iterable[Any], *, rows: int | None = None, name: str = "released") -> SyntheticTable:
        """Make a synthetic table from noisy counts released before, here or elsewhere: post-processing, free.

        Args:
            tables: Arrow tables with columns of labels, then ``count`` and ``stddev`` of its noise; one row for each
                combination of labels, like the tables of a workload.
            rows: number of rows to draw; by default about the number that was counted.
            name: name of the synthetic table.

        Raises:
            InputError: a table lacks labels, ``count``, ``stddev`` or a combination of labels.
        """
        counted = [(found, [c for c in found.column_names if c not in _COUNTED]) for found in tables]
        values: dict[str, dict[Any, None]] = {}
        for found, labels in counted:
            if not {"count", "stddev"} <= set(found.column_names) or not labels:
                raise InputError("from_release", "needs tables with labels, count and stddev, as of a workload")
            for label in labels:
                values.setdefault(label, {}).update(dict.fromkeys(found[label].to_pylist()))
        columns = {label: tuple(known) for label, known in values.items()}
        measured = []
        for found, labels in counted:
            shape = tuple(len(columns[label]) for label in labels)
            counts = np.full(shape, np.nan)
            places = [[columns[label].index(each) for each in found[label].to_pylist()] for label in labels]
            counts[tuple(places)] = found["count"].to_numpy()
            if np.isnan(counts).any():
                raise InputError("from_release", f"{' × '.join(labels)} lacks a combination of values")
            measured.append(NoisyMarginal(tuple(labels), counts, max(float(found["stddev"].to_numpy().max()), 1e-9)))
        if not measured:
            raise InputError("from_release", "needs at least one table of counts")
        model = fit_model({label: len(known) for label, known in columns.items()}, measured)
        drawn = rows if rows is not None else min(max(1, round(model.total)), MOST_ROWS)
        return cls(name, measured, model, columns, {}, checked_rows(drawn))

    @property
    def tables(self) -> tuple[SyntheticTable, ...]:
        """This table alone; a :class:`.SyntheticStar` has two tables."""
        return (self,)

    @property
    def rows(self) -> int:
        """Number of rows of :meth:`to_arrow`."""
        return self._rows if self.draw is None else int(self.to_arrow().num_rows)

    # -- rows

    def to_arrow(self) -> Any:
        """Return the synthetic table, drawn once with a seed from the receipt: the same rows in every process."""
        return self._table

    @cached_property
    def _table(self) -> Any:
        return self._drawn(self._rows, seed_of(self)) if self.draw is None else self.draw()

    def sample(self, rows: int) -> Any:
        """Draw another Arrow table from the model; free."""
        return self._drawn(rows, None)

    def _drawn(self, rows: int, shares: Shares | None) -> Any:
        return self.shown(self.model.sample(checked_rows(rows), shares), list(self.columns), shares)

    def shown(self, drawn: Mapping[str, NDArray[np.int64]], names: Sequence[str], shares: Shares | None) -> Any:
        """Convert value indices of drawn rows to an Arrow table of some columns, with values of the columns' types."""
        pa = load_arrow()

        made = {}
        for name in names:
            values = self.columns[name]
            places = drawn[name]
            if name in self.bins:
                made[name] = self.bins[name].drawn(places, (shares or uniform)(len(places)))
            else:
                plain = [Decimal(decimal_of(value)) if isinstance(value, Fraction) else value for value in values]
                made[name] = pa.array(plain).take(pa.array(places))
        return pa.table(made)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def save(self, path: str | Path) -> None:
        """Write the table to a Parquet or CSV file, by the ending of its name."""
        target = Path(path)
        if target.suffix not in (".parquet", ".csv"):
            raise InputError("path", "must end in .parquet or .csv")
        target.write_bytes(self.to_bytes("parquet" if target.suffix == ".parquet" else "csv"))

    def to_bytes(self, form: str) -> bytes:
        """Return the table as the content of a ``"parquet"`` or ``"csv"`` file."""
        return table_bytes(self.to_arrow(), form)

    # -- counts

    def marginal(self, columns: Sequence[str], *, confidence: str | float = "0.95") -> Any:
        """Return counts of all combinations of values of some columns, as an Arrow table.

        ``model`` is the model's count. Where one measured marginal has all these columns, ``measured`` is the noisy
        count, and each true count individually lies between ``low`` and ``high`` with probability ``confidence``;
        elsewhere the three are NULL, because there is no guarantee.
        """
        pa = load_arrow()

        names = tuple(name.lower() for name in columns)
        for name in names:
            if name not in self.columns:
                raise InputError("columns", f"{name[:63]!r} is not a column of {self.name}")
        if not names or len(set(names)) != len(names):
            raise InputError("columns", "must name some columns, each once")
        expected = self.model.marginal(names)
        places = np.indices(expected.shape).reshape(len(names), -1)
        made: dict[str, Any] = {
            name: pa.array([self._shown(name, place) for place in column.tolist()])
            for name, column in zip(names, places, strict=True)
        }
        made["model"] = pa.array(expected.ravel())
        known = self._noisy(names)
        if known is None:
            made |= {each: pa.nulls(expected.size, pa.float64()) for each in ("measured", "low", "high")}
        else:
            wide = known.wide(confidence)
            noisy = known.counts.ravel()
            shown = {"measured": noisy, "low": noisy - wide, "high": noisy + wide}
            made |= {each: pa.array(values, from_pandas=True) for each, values in shown.items()}
        return pa.table(made)

    def _noisy(self, names: tuple[str, ...]) -> NoisyMarginal | None:
        """Return noisy counts by some columns, from the measured marginal that gives the least noise; else None."""
        able = []
        for each in self.measured:
            if set(names) <= set(each.columns):
                axes = [axis for axis, name in enumerate(each.columns) if name not in names]
                cells = math.prod(each.counts.shape[axis] for axis in axes)
                able.append((each.stddev * math.sqrt(cells), each))
        if not able:
            return None
        stddev, best = min(able, key=lambda pair: pair[0])
        others = tuple(axis for axis, name in enumerate(best.columns) if name not in names)
        left = [name for name in best.columns if name in names]
        counts = np.asarray(best.counts.sum(axis=others)).transpose([left.index(name) for name in names])
        return NoisyMarginal(names, counts, stddev, best.noise)

    def _shown(self, name: str, place: int) -> Any:
        if name in self.bins:
            return self.bins[name].label(place)
        value = self.columns[name][place]
        return float(value) if isinstance(value, Fraction) else value

    # -- quality

    def quality(self) -> tuple[MarginalQuality, ...]:
        """Return the distance of the model from each measured set of columns, as measured with the least noise."""
        total, expected = max(self.model.total, 1.0), self.model.marginals([noisy.columns for noisy in self.measured])
        times = Counter(noisy.columns for noisy in self.measured)
        found = {}
        for noisy in sorted(self.measured, key=lambda each: -each.stddev):
            apart = float(np.abs(expected[noisy.columns] - noisy.counts).sum())
            alone = noisy.noise.mean_size * noisy.stddev * noisy.counts.size
            found[noisy.columns] = MarginalQuality(
                noisy.columns,
                apart / 2 / total,
                alone / 2 / total,
                noisy.stddev,
                noisy.wide("0.95"),
                times[noisy.columns],
            )
        return tuple(found[columns] for columns in times)

    def beyond_independence(self) -> tuple[float, float] | None:
        """Return the mean distance of measured marginals from independent columns, and that expected by chance.

        Chance means the noise and the sampling of the rows. Both are shares of rows, means over the marginals of two or
        more columns; None where all columns were measured individually.
        """
        several = [each for each in self.measured if len(each.columns) > 1]
        if not several:
            return None
        total, found = max(self.model.total, 1.0), []
        single = self.model.marginals([(name,) for each in several for name in each.columns])
        for each in several:
            apart = np.ones(())
            for name in each.columns:
                apart = np.multiply.outer(apart, single[(name,)] / total)
            expected = apart * total
            distance = float(np.abs(expected - each.counts).sum())
            # Counts of independent columns vary too: about like a Poisson variable in each cell.
            alone = np.sqrt((each.noise.mean_size * each.stddev) ** 2 + 2 / math.pi * np.maximum(expected, 0))
            found.append((distance / 2 / total, float(alone.sum()) / 2 / total))
        seen, chance = np.mean(found, axis=0)
        return float(seen), float(chance)

    @property
    def not_measured(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of columns that no measured marginal contains, so that their counts have no guarantee."""
        known = [frozenset(each.columns) for each in self.measured]
        names = list(self.columns)
        pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :] if not {a, b} <= self.outer]
        return tuple(pair for pair in pairs if not any({*pair} <= each for each in known))

    def report(self) -> str:
        """Return a text about quality: measured marginals, the model's distance from them, and pairs not measured."""
        lines = [f"{self.name}: {self.rows:,} rows drawn from a model of about {self.model.total:,.0f}"]
        for each in (quality := self.quality()):
            often = "" if each.times == 1 else f" {each.times} times"
            lines.append(
                f"  {' × '.join(each.columns)}: measured{often}, each count within ± {each.wide:.1f} (95%); model and "
                f"noisy counts are {_percent(each.distance)} apart, by noise alone {_percent(each.noise)}"
            )
        if quality and min(each.noise for each in quality) >= _HIDDEN:
            lines.append(
                "  noise hides what was measured: at this cost the table tells next to nothing about the real one"
            )
        lines.append(f"  {self._beside_independence()}")
        missing, pairs = self.not_measured, math.comb(len(self.columns), 2) - math.comb(len(self.outer), 2)
        if missing:
            shown = ", ".join(" × ".join(pair) for pair in missing[:5]) + (", …" if len(missing) > 5 else "")
            lines.append(f"  not measured, so nothing is promised: {len(missing)} of {pairs} pairs ({shown})")
        if self.left_out:
            lines.append(f"  {NOT_MADE}{', '.join(self.left_out)}")
        for name, values in self.found.items():
            told = f"{with_noun(len(values), 'value')} found privately; NULL stands for rarer ones too"
            lines.append(f"  {name}: {told if values else 'not made, as no value is frequent enough'}")
        if self.outer:
            lines.append(
                "  assumed, not measured: given the person, and how many rows they have, these rows are independent of "
                "one another; nothing that several rows of a person tell together (order, changes, repeats) is promised"
            )
        return "\n".join(lines)

    def _beside_independence(self) -> str:
        found = self.beyond_independence()
        if found is None:
            return "columns were measured individually: the table is one of independent columns"
        seen, chance = found
        words = (
            f"the measured marginals are {_percent(seen)} from independent columns, by chance alone {_percent(chance)}"
        )
        if seen < _TELLING * chance:
            return f"{words}: the table is worth no more than independent columns"
        return words

    def __repr__(self) -> str:
        return f"<SyntheticTable {self.name}: {self.rows:,} rows, {len(self.columns)} columns>"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share <= 1 else "more than 100%"


def checked_rows(rows: object) -> int:
    """Return ``rows`` if that number of rows may be drawn.

    Raises:
        InputError: it is no whole number from 1 to the maximum.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise InputError("rows", f"must be a whole number from 1 to {MOST_ROWS:,}, or left out")
    return rows


def seed_of(made: SyntheticTable | SyntheticStar) -> Shares | None:
    """Return the shares with which rows are drawn, from the receipt; None, for random ones, where there is none."""
    receipt = getattr(made, "receipt", None)
    return None if receipt is None else ExpandedShares(receipt.signature)


class SyntheticStar:
    """A synthetic table of persons and a synthetic table of their rows, with the charge and the receipt of both.

    Args:
        persons: model and measurements of the table with one row per person, with each person's number of rows.
        others: model and measurements of the second table, joined with the columns of persons.
        star: the two tables and the columns that join them.
    """

    charge: Entry
    receipt: Receipt

    def __init__(self, persons: SyntheticTable, others: SyntheticTable, star: StarNames) -> None:
        self.persons = persons
        self.others = others
        self.rows = persons.rows
        self._star = star
        #: Names in the second table's model of the columns of persons, by column.
        self._outer = {name: star.outer(name) for name in persons.columns if name != star.number}
        others.outer = frozenset({star.number, *self._outer.values()} & set(others.columns))
        persons.draw, others.draw = (lambda: self.to_arrow()[persons.name]), (lambda: self.to_arrow()[others.name])

    def sign(self, charge: Entry, receipt: Receipt) -> None:
        for each in (self, self.persons, self.others):
            each.charge, each.receipt = charge, receipt

    @property
    def tables(self) -> tuple[SyntheticTable, SyntheticTable]:
        """The two tables: persons, then rows of persons."""
        return self.persons, self.others

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two tables in queries."""
        return self.persons.name, self.others.name

    # -- rows

    def to_arrow(self) -> dict[str, Any]:
        """Return both tables by name, drawn with a seed from the receipt: the same rows in every process."""
        return self._tables

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return self._drawn(self.rows, seed_of(self))

    def sample(self, rows: int) -> dict[str, Any]:
        """Draw two more Arrow tables from the models, with ``rows`` persons; free."""
        return self._drawn(rows, None)

    def _drawn(self, rows: int, shares: Shares | None) -> dict[str, Any]:
        star, number = self._star, self._star.number
        if checked_rows(rows) * star.most > MOST_ROWS:
            raise InputError("rows", f"must be at most {MOST_ROWS // star.most:,}, of {star.most} rows each")
        drawn = self.persons.model.sample(rows, shares)
        times = drawn[number]
        owner = np.repeat(np.arange(rows), times)
        known = {number: times} | {outer: drawn[name] for name, outer in self._outer.items()}
        model = self.others.model
        beside = {name: places for name, places in known.items() if name in model.sizes}
        found, able = model.sample_beside({name: places[owner] for name, places in beside.items()}, shares)
        # A person with values of probability 0 in the second model has no rows.
        owner, found = owner[able], {name: places[able] for name, places in found.items()}
        told = [name for name in self.persons.columns if name != number]
        own = [name for name in self.others.columns if name not in known]
        draw = shares or uniform
        made = {
            self.persons.name: self.persons.shown(drawn, told, shares),
            self.others.name: self.others.shown(found, own, shares),
        }
        # Keys are numbers in random order, so that the position of a row is independent of its values.
        mixed = np.argsort(draw(rows), kind="stable") + 1
        joined = ((self.persons, star.persons, star.person, mixed), (self.others, star.rows, star.owner, mixed[owner]))
        for synthetic, table, key, keys in joined:
            column = table.find(key)
            whole = column is not None and column.type.kind is Kind.INTEGER
            made[synthetic.name] = made[synthetic.name].add_column(0, key, [_keys(keys, whole=whole)])
        return made

    def report(self) -> str:
        """Return a text about the quality of both tables; see :meth:`SyntheticTable.report`."""
        return f"{self.persons.report()}\n{self.others.report()}"

    def __repr__(self) -> str:
        return f"<SyntheticStar {' and '.join(self.names)}: {self.rows:,} persons>"


def _keys(numbers: Any, *, whole: bool) -> Any:
    """Return artificial keys of the column's type: integers, or texts."""
    pa = load_arrow()

    if whole:
        return pa.array(numbers, pa.int64())
    return pa.array([f"made-up {number}" for number in np.asarray(numbers).tolist()], pa.string())
