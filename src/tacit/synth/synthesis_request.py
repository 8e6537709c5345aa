"""Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the ledger.

*Rules that an owner declares*, from public knowledge, change the model but no measurement.

* impossible: combinations of values that no row has.
* only if: a column has a value only where other columns have certain values; elsewhere it is NULL.
* determined: a column is a function of another column. It is not measured, and free.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.query.catalog import Column, Table
from tacit.query.types import Kind
from tacit.synth.column_bins import ColumnBins, decimal_of
from tacit.synth.graphical_model import GraphicalModel, JunctionTree, model_cells
from tacit.synth.marginal_counts import MarginalCounts
from tacit.synth.table_synthesis import LARGEST_MODEL, MINUTES, Method

#: Largest number of cells of a rule about impossible combinations.
_MOST_IMPOSSIBLE: Final = 100_000
#: Largest number of values of a determined column that has bounds.
_MOST_DETERMINED: Final = 10_000
#: Probability tables of satisfiable rules sum to 1, of contradictory rules to 0; this threshold separates them.
_LEAST_SHARE: Final = 0.5

Cells = dict[tuple[str, ...], NDArray[np.bool_]]


@dataclass(frozen=True)
class DeterminedColumn:
    """A column that is a function of another column.

    Args:
        name: name of the column.
        by: name of the column that determines it.
        values: values of the determined column.
        places: for each value of ``by``, the index of the determined value.
    """

    name: str
    by: str
    values: tuple[Any, ...]
    places: tuple[int, ...]

    def added_to(self, model: GraphicalModel) -> GraphicalModel:
        """Return the model with this column added, in which every row has the determined value."""
        never = np.full((len(self.places), len(self.values)), -np.inf)
        never[np.arange(len(self.places)), list(self.places)] = 0.0
        sizes = {**model.sizes, self.name: len(self.values)}
        return GraphicalModel(sizes, model.potentials, model.total, {**model.fixed, (self.by, self.name): never})


@dataclass(frozen=True)
class DeclaredRules:
    """Rules of a request, as stated.

    Args:
        impossible: combinations, each a mapping from column to a value or a list of values.
        determined: for each determined column, a mapping from the determining column to {its value: determined value}.
        only_if: for each conditional column, the condition: a mapping from column to values.
    """

    impossible: tuple[Mapping[str, Any], ...] = ()
    determined: Mapping[str, Mapping[str, Mapping[Any, Any]]] = field(default_factory=dict)
    only_if: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, impossible: Sequence[Mapping[str, Any]], determined: Mapping[str, Any], only_if: Mapping[str, Any]
    ) -> DeclaredRules:
        """Validate rules as stated in a request.

        Raises:
            InputError: an argument has another type.
        """
        if isinstance(impossible, str | Mapping) or not all(isinstance(each, Mapping) for each in impossible):
            raise InputError("impossible", "must be a list of values by columns")
        for name, told in determined.items():
            if not isinstance(told, Mapping) or len(told) != 1 or not isinstance(next(iter(told.values())), Mapping):
                raise InputError(
                    "determined", f'must say what {name!s:.63} follows from, such as {{"zip": {{"1000": "north"}}}}'
                )
        for name, told in only_if.items():
            if not isinstance(told, Mapping) or not told:
                raise InputError("only_if", f'must state the condition of {name!s:.63}, such as {{"sex": "f"}}')
        lower = {
            str(name).lower(): {
                str(by).lower(): {_key(key): _plain("determined", value) for key, value in values.items()}
                for by, values in told.items()
            }
            for name, told in determined.items()
        }
        for name, told in lower.items():
            if next(iter(told)) in lower:
                raise InputError(
                    "determined", f"{name} follows from a column that follows from another; name the first"
                )
        return cls(
            tuple({str(name).lower(): _plain("impossible", v) for name, v in each.items()} for each in impossible),
            lower,
            {
                str(n).lower(): {str(c).lower(): _plain("only_if", v) for c, v in told.items()}
                for n, told in only_if.items()
            },
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the rules as JSON; rules that are not stated are left out, except ``impossible``."""
        told: dict[str, Any] = {"impossible": [dict(each) for each in self.impossible]}
        if self.determined:
            told["determined"] = {
                name: {by: dict(values) for by, values in each.items()} for name, each in self.determined.items()
            }
        if self.only_if:
            told["only_if"] = {name: dict(each) for name, each in self.only_if.items()}
        return told

    def check(self, tables: Sequence[Collection[str]], determined: Collection[str]) -> None:
        """Refuse rules about unknown columns; users would assume that an ignored rule holds.

        Args:
            tables: counted columns of each table.
            determined: names of the determined columns found in the tables.

        Raises:
            InputError: a rule names a column that no table has, or columns of two tables.
        """
        for name in self.determined:
            if name not in determined:
                raise InputError("determined", f"{name:.63} is no column of the table")
        known = [("impossible", set(rule)) for rule in self.impossible]
        known += [("only_if", {name, *told}) for name, told in self.only_if.items()]
        for rule, names in known:
            if not any(names <= set(each) for each in tables):
                listed = "; ".join(", ".join(each) for each in tables)
                raise InputError(rule, f"{', '.join(sorted(names)):.200} must be columns of one table: {listed}")

    def cells(self, counts: MarginalCounts, bins: Mapping[str, ColumnBins], *, skip: bool = False) -> Cells:
        """Return the impossible cells of all rules, by columns.

        Args:
            counts: the counted columns with their values.
            bins: bins of the columns that have them.
            skip: whether to ignore rules about columns of the other of two tables.
        """
        found: Cells = {}
        for rule in self.impossible:
            names = tuple(name for name in counts.sizes if name in rule)
            if len(rule) != len(names) or not names:
                if skip and rule:
                    continue
                raise InputError("impossible", f"must be values by columns of the table: {', '.join(counts.sizes)}")
            chosen = [self._places("impossible", name, rule[name], counts, bins) for name in names]
            self._exclude(found, names, chosen, counts)
        for name, condition in self.only_if.items():
            names = tuple(each for each in counts.sizes if each == name or each in condition)
            if len(names) != len(condition) + (name not in condition) or name in condition:
                if skip:
                    continue
                raise InputError("only_if", f"{name:.63} and its condition must be columns of the table")
            missing = self._places("only_if", name, None, counts, bins)
            present = [place for place in range(counts.sizes[name]) if place not in missing]
            # Where one part of the condition does not hold, only NULL is possible.
            for other, wanted in condition.items():
                allowed = self._places("only_if", other, wanted, counts, bins)
                outside = [place for place in range(counts.sizes[other]) if place not in allowed]
                pair = tuple(each for each in counts.sizes if each in (name, other))
                if outside:
                    self._exclude(found, pair, [present if each == name else outside for each in pair], counts)
        if found:
            self._check_together(found, counts)
        return found

    @staticmethod
    def _check_together(found: Cells, counts: MarginalCounts) -> None:
        """Refuse rules that contradict one another, or that join too many columns into one clique for any model."""
        if (cells := model_cells(counts.sizes, list(found))) > LARGEST_MODEL:
            raise InputError(
                "impossible", f"all rules together tie columns with {cells:,} combinations, more than {LARGEST_MODEL:,}"
            )
        never = {names: np.where(table, -np.inf, 0.0) for names, table in found.items()}
        tables = JunctionTree(counts.sizes, list(found)).probabilities(never)
        if any(not table.sum() > _LEAST_SHARE for table in tables.values()):
            raise InputError("impossible", "all rules together leave no row; with only_if, look at both")

    @staticmethod
    def _exclude(found: Cells, names: tuple[str, ...], chosen: Sequence[Sequence[int]], counts: MarginalCounts) -> None:
        if (cells := math.prod(counts.sizes[name] for name in names)) > _MOST_IMPOSSIBLE:
            raise InputError("impossible", f"{', '.join(names)} have {cells:,} combinations, more than a rule may have")
        table = found.setdefault(names, np.zeros(tuple(counts.sizes[name] for name in names), dtype=np.bool_))
        table[np.ix_(*chosen)] = True
        if table.all():
            raise InputError("impossible", f"leaves no combination of {', '.join(names)}")

    @staticmethod
    def _places(rule: str, name: str, wanted: Any, counts: MarginalCounts, bins: Mapping[str, ColumnBins]) -> list[int]:
        """Return the indices of the values that a rule names."""
        found = []
        for each in wanted if isinstance(wanted, list) else [wanted]:
            if name in bins:
                place = bins[name].place(each)
                if place is not None and not (each is None or bins[name].single):
                    raise InputError(rule, f"{name} is in bins, so that no rule can be about one of its values")
            else:
                values = counts.columns[name].values
                # True equals 1, and is no value of a column of integers.
                same = [at for at, value in enumerate(values) if _plain(rule, value) == each and _alike(value, each)]
                place = same[0] if same else None
            if place is None:
                hint = f"; for NULL, list {name} in nulls, or declare null_category" if each is None else ""
                raise InputError(rule, f"names a value of {name} that is not declared{hint}")
            found.append(place)
        return found

    def columns(
        self, table: Table, counts: MarginalCounts, bins: Mapping[str, ColumnBins]
    ) -> tuple[DeterminedColumn, ...]:
        """Return the determined columns of a table."""
        found = []
        for name, told in self.determined.items():
            column = table.find(name)
            if column is None:
                continue
            ((by, given),) = told.items()
            if by not in counts.columns or (by in bins and not bins[by].single):
                raise InputError("determined", f"{name} must follow from a column of {table.name} that is not in bins")
            if counts.sizes[by] * 2 > _MOST_IMPOSSIBLE:
                raise InputError("determined", f"{by} has too many values")
            values = _values_of(column)
            places = []
            shown = [bins[by].label(at) for at in range(counts.sizes[by])] if by in bins else None
            for at, value in enumerate(counts.columns[by].values):
                key = _key(value) if shown is None else shown[at]
                if key not in given:
                    raise InputError("determined", f"{name} has no value for {by} = {key}")
                same = [place for place, each in enumerate(values) if _key(each) == _key(given[key])]
                if not same:
                    raise InputError("determined", f"{given[key]!s:.63} is not a declared value of {name}")
                places.append(same[0])
            found.append(DeterminedColumn(name, by, values, tuple(places)))
        return tuple(found)


def _values_of(column: Column) -> tuple[Any, ...]:
    if column.categories is not None:
        return column.categories
    if column.type.kind is Kind.BOOLEAN:
        return (False, True)
    if column.type.kind is Kind.INTEGER and column.bounds is not None:
        low, high = int(column.bounds[0]), int(column.bounds[1])  # type: ignore[arg-type]
        if high - low < _MOST_DETERMINED:
            return tuple(range(low, high + 1))
    raise InputError("determined", f"{column.name} needs declared categories, or bounds of integers")


def _alike(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool)


def _key(value: Any) -> str:
    """Return the text of a value as a key of a JSON object."""
    return "NULL" if value is None else str(_plain("determined", value))


def _plain(rule: str, value: Any) -> Any:
    """Return a value or a list of values as JSON: dates and non-integer numbers as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case list() | tuple():
            return [_plain(rule, each) for each in value]
        case datetime.date():
            return value.isoformat()
        case float() | Decimal() | Fraction() if math.isfinite(value):
            exact = Fraction(value)
            return int(exact) if exact.denominator == 1 else decimal_of(exact)
        case _:
            raise InputError(rule, f"names {value!s:.63}, which is no text, number, date or truth value")


class SynthesisOptions(TypedDict, total=False):
    """Options of a synthetic table.

    * ``epsilon``, ``delta``, ``rho``, ``mu``: the cost; ``max_rows``: the most rows of one person that count.
    * ``marginals``: for ``"marginals"`` the sets of columns to measure; for ``"aim"`` the sets whose error is to be
      small, by default all pairs. In the second of two tables, the column ``sex`` of ``patients`` is ``patients_sex``.
    * ``minutes``: for ``"aim"``, approximate time that fits may take. It is converted to a bound on the size of the
      model, independent of the machine and the data.
    * ``impossible``: combinations of values that no row of the synthetic table may have, such as ``[{"sex": "m",
      "pregnant": True}]``; a list of values stands for each of them. All rules must be public knowledge.
    * ``determined``: columns that follow from another, such as ``{"region": {"zip": {"1000": "north"}}}``. They are not
      measured.
    * ``only_if``: columns that are NULL except under a condition, such as ``{"pregnant": {"sex": "f"}}``.
    * ``quantiles``: columns whose bins begin at private quantiles, for a tenth of the cost, instead of equal bins.
    * ``nulls``: columns with bounds, or booleans, in which NULL counts as a value; rows with NULL in other such columns
      are left out.
    """

    epsilon: Any
    delta: Any
    rho: Any
    mu: Any
    max_rows: Any
    marginals: Sequence[Sequence[str]] | None
    minutes: int
    impossible: Sequence[Mapping[str, Any]]
    determined: Mapping[str, Any] | None
    only_if: Mapping[str, Any] | None
    quantiles: Sequence[str]
    nulls: Sequence[str]


#: Options of :class:`SynthesisOptions` other than cost and ``max_rows``.
_SHAPES: Final = ("marginals", "minutes", "impossible", "determined", "only_if", "quantiles", "nulls")


def request_of(
    source: str | Mapping[str, Sequence[str] | None],
    columns: Sequence[str] | None,
    method: Method,
    options: Mapping[str, Any],
) -> SynthesisRequest:
    """Return the request for :class:`SynthesisOptions`; other options of queries are kept here and refused later.

    Raises:
        InputError: an argument has another type.
    """
    shapes = {name: options[name] for name in _SHAPES if name in options}
    priced = {name: value for name, value in options.items() if name not in _SHAPES}
    return SynthesisRequest.of(source, columns, priced, method, **shapes)


@dataclass(frozen=True)
class SynthesisRequest:
    """Request for a synthetic table, without the number of rows to draw.

    Args:
        tables: sources with their columns (None for all): a table or SELECT; or a table of persons and one of rows.
        options: cost and ``max_rows``.
        method: method that chooses the marginals.
        marginals: sets of columns; see :class:`.SynthesisOptions`.
        minutes: see :class:`.SynthesisPlan`.
        rules: rules that the owner declares.
        quantiles: columns with quantile bins.
        nulls: columns in which NULL counts as a value.
    """

    tables: tuple[tuple[str, tuple[str, ...] | None], ...]
    options: Mapping[str, Any]
    method: Method
    marginals: tuple[tuple[str, ...], ...] | None = None
    minutes: int = MINUTES
    rules: DeclaredRules = field(default_factory=DeclaredRules)
    quantiles: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, source: str | Mapping[str, Sequence[str] | None], columns: Sequence[str] | None,
        options: Mapping[str, Any], method: Method, *, marginals: Sequence[Sequence[str]] | None = None,
        minutes: int = MINUTES, impossible: Sequence[Mapping[str, Any]] = (),
        determined: Mapping[str, Any] | None = None, only_if: Mapping[str, Any] | None = None,
        quantiles: Sequence[str] = (), nulls: Sequence[str] = (),
    ) -> SynthesisRequest:  # fmt: skip
        """Validate a request as stated.

        Raises:
            InputError: an argument has another type.
        """
        for name, value in (("quantiles", quantiles), ("nulls", nulls), ("columns", columns)):
            if isinstance(value, str):
                raise InputError(name, "must be a list of names of columns")
        if isinstance(source, Mapping):
            if columns is not None:
                raise InputError("columns", "stand with each of the two tables")
            if len(source) != 2 or not all(is_name(str(name)) for name in source):
                raise InputError(
                    "source", "must name two tables: the one with a row for each person, then the one with several"
                )
            if any(isinstance(listed, str) for listed in source.values()):
                raise InputError("source", "must have a list of names of columns, or None, for each table")
            tables = tuple((name, None if listed is None else tuple(listed)) for name, listed in source.items())
        elif isinstance(source, str):
            tables = ((source, None if columns is None else tuple(columns)),)
        else:
            raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
        sets = None if marginals is None else tuple(tuple(names) for names in marginals)
        rules = DeclaredRules.of(impossible, determined or {}, only_if or {})
        return cls(
            tables, options, method, sets, minutes, rules,
            tuple(name.lower() for name in quantiles), tuple(name.lower() for name in nulls),
        )  # fmt: skip

    @property
    def is_star(self) -> bool:
        return len(self.tables) == 2

    @property
    def label(self) -> str:
        """Names of the sources, joined by ``and``."""
        return " and ".join(name for name, _ in self.tables)

    def to_plain(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as JSON, from which the table can be drawn again with the ledger alone."""
        (source, columns), *more = self.tables
        told: dict[str, Any] = {
            "source": source, "columns": None if columns is None else list(columns), "method": self.method,
            "marginals": None if self.marginals is None else [list(names) for names in self.marginals],
            "minutes": self.minutes, "options": options, **self.rules.to_plain(),
        }  # fmt: skip
        if more:
            # Pairs, because the ledger sorts names, and the first table is that of persons.
            told["tables"] = [[name, None if listed is None else list(listed)] for name, listed in self.tables]
            told["columns"] = None
        return told | {name: list(each) for name in ("quantiles", "nulls") if (each := getattr(self, name))}

    @classmethod
    def from_plain(cls, told: Mapping[str, Any]) -> SynthesisRequest:
        """Read the request that :meth:`to_plain` wrote."""
        stated = {name: told[name] for name in _SHAPES if name in told}
        source = dict(told["tables"]) if "tables" in told else told["source"]
        return cls.of(
            source, told["columns"], told["options"], told["method"],
            **stated,
        )  # fmt: skip
