"""Stages of a synthetic table: which rows are counted in which bins, what is measured of them, and in which order.

A single table is one stage. Two tables, one with a row for each person (patients) and one with several rows per person
(visits), are two stages: the table of persons with each person's number of rows in the second table, then the second
table joined with the columns of the row's person. The second stage depends on the first through its release alone.

Rows of two tables are read by SQL that our own parser resolves and that never reaches an engine.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from tacit.core.canonical import canonical
from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.core.relations import Relation
from tacit.query.catalog import Column, Table
from tacit.query.planning.plan import Plan, plan_query
from tacit.query.refusal import Refusal
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.query.types import Kind
from tacit.synth.column_bins import ColumnBins, EqualBins, FoundValues, decimal_of
from tacit.synth.count_measurement import count_price, settled, value_delta
from tacit.synth.graphical_model import ExpandedShares, GraphicalModel, NoisyMarginal, model_cells
from tacit.synth.marginal_counts import CountingContext, MarginalCounts, PublicColumn, countable_rows
from tacit.synth.synthesis_request import SynthesisRequest
from tacit.synth.table_synthesis import Method, SynthesisPlan, Transcript, fitted

#: Columns to count, each as a pair of its name and the SQL expression that maps its values to bin numbers.
Listed = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StarNames:
    """Two tables of one population, the columns that join them, and the bound on rows per person.

    Args:
        persons: the table with one row for each person.
        rows: the table with several rows per person.
        person: join column of ``persons``.
        owner: join column of ``rows``.
        most: the most rows of one person that count.
    """

    persons: Table
    rows: Table
    person: str
    owner: str
    most: int

    @property
    def number(self) -> str:
        """Name of the added column of ``persons`` that holds their number of rows in the second table."""
        taken = {column.name.lower() for column in (*self.persons.columns, *self.rows.columns)}
        name = f"number_of_{self.rows.name.lower()}"
        while name in taken:
            name += "_"
        return name

    def outer(self, column: str) -> str:
        """Return the name that a column of ``persons`` has when joined to ``rows``."""
        name = f"{self.persons.name.lower()}_{column}"
        taken = {each.name.lower() for each in self.rows.columns}
        while name in taken:
            name += "_"
        return name


def numbers_sql(star: StarNames, rows: Listed, columns: Mapping[str, PublicColumn]) -> str:
    """Return SQL for the number of listed rows of each person (``u``, ``n``), at most ``star.most``."""
    return (
        f'SELECT "{star.owner}" AS u, LEAST(COUNT(*), {star.most}) AS n FROM "{star.rows.name}" '  # noqa: S608
        f'WHERE {_kept(rows, columns)} GROUP BY "{star.owner}"'
    )


def persons_sql(star: StarNames, persons: Listed, numbers: str) -> str:
    """Return SQL for one row per person with its number of rows in the second table; ``persons`` has alias ``p``."""
    listed = [f'{read} AS "{name}"' for name, read in persons]
    listed.append(f'COALESCE(k.n, 0) AS "{star.number}"')
    return (
        f'SELECT {", ".join(listed)} FROM "{star.persons.name}" AS p LEFT JOIN ({numbers}) AS k '  # noqa: S608
        f'ON p."{star.person}" = k.u'
    )


def rows_sql(star: StarNames, persons: Listed, rows: Listed, numbers: str) -> str:
    """Return SQL for the rows of the second table, joined with their person and the person's number of rows."""
    # Bins are computed before the join, once for each row of a table.
    listed = [f'p."{name}" AS "{star.outer(name)}"' for name, _ in persons]
    listed.append(f'k.n AS "{star.number}"')
    of_rows = ", ".join([f'"{star.owner}"', *(f'{read} AS "{name}"' for name, read in rows)])
    source = f'SELECT {of_rows} FROM "{star.rows.name}"'  # noqa: S608
    listed += [f'c."{name}" AS "{name}"' for name, _ in rows]
    of_persons = ", ".join([f'"{star.person}"', *(f'{read} AS "{name}"' for name, read in persons)])
    return (
        f"SELECT {', '.join(listed)} FROM ({source}) AS c "  # noqa: S608
        f'JOIN (SELECT {of_persons} FROM "{star.persons.name}") AS p ON c."{star.owner}" = p."{star.person}" '
        f'JOIN ({numbers}) AS k ON k.u = p."{star.person}"'
    )


def _kept(rows: Listed, columns: Mapping[str, PublicColumn]) -> str:
    """Return an SQL condition: all values of a row are on the public lists of their columns."""
    read = dict(rows)
    return " AND ".join(_is_listed(read[name], column) for name, column in columns.items())


def _is_listed(read: str, column: PublicColumn) -> str:
    """Return an SQL condition: a value is on the public list of a column."""
    listed = [value for value in column.values if value is not None]
    parts = [f"({read}) IN ({', '.join(map(_constant, listed))})"] if listed else []
    if column.type.kind is Kind.BOOLEAN and len(listed) == 2:
        parts = [f"({read}) IS NOT NULL"]
    if None in column.values:
        parts.append(f"({read}) IS NULL")
    return f"({' OR '.join(parts)})"


def _constant(value: Any) -> str:
    """Return a value as an SQL literal."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Fraction():
            return decimal_of(Fraction(value))
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


_HEEDED: Final = ("epsilon", "delta", "rho", "mu", "max_rows")
#: Share of the cost that finds the values of text columns without declared categories.
VALUE_SHARE: Final = Fraction(1, 10)
#: Largest number of values found for one text column (the most frequent), and for all text columns together; longer
#: values are left out. They are bounded because the counting SQL statement lists every value.
_MOST_VALUES: Final = 63
_ALL_VALUES: Final = 480
_LONGEST_VALUE: Final = 60
#: Share of the cost for the table of persons; in the second table, several rows of a person count.
_PERSONS_SHARE: Final = Fraction(1, 3)
#: Largest bound on the rows of one person in the second of two tables; their number is a column.
_MOST_CHILDREN: Final = 200
#: Largest number of cells of the persons' columns in the model of the second table.
_OUTER_CELLS: Final = 100_000


@dataclass(frozen=True)
class SynthesisStage:
    """One table that is counted and measured.

    Args:
        name: name of the source.
        counts: exact counts of the table's rows.
        plan: method, columns and cost of the measurements.
        bins: bins of the columns that have them, by column.
    """

    name: str
    counts: MarginalCounts
    plan: SynthesisPlan
    bins: Mapping[str, ColumnBins]


@dataclass(frozen=True)
class FittedStage:
    """A stage and its releases."""

    stage: SynthesisStage
    transcript: Transcript

    @cached_property
    def model(self) -> GraphicalModel:
        """Graphical model of the measured columns."""
        return fitted(self.stage.plan, self.transcript)

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """Values of each column of the model."""
        return {name: tuple(column.values) for name, column in self.stage.counts.columns.items()}


class SynthesisStages:
    """The stages of a request; the second is made from the release of the first.

    Args:
        context: metadata and engine.
        request: tables, columns, method and options.
        found: values of text columns that were found privately, by column; None before the charge.
    """

    def __init__(
        self, context: CountingContext, request: SynthesisRequest, found: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.request = request
        self._context = context
        self._found = found
        #: Queries that find the values of text columns without declared categories, by column.
        self.selections: dict[str, Plan] = {}
        self._tables = [_known_table(context, name) for name, _ in request.tables if is_name(name)]
        if request.nulls and not self._tables:
            raise InputError("source", "must be the name of a table where columns with NULLs are stated")
        self.star = _star(context, request) if request.is_star else None
        self._open = self._open_texts()
        probe = self._counts(0) if self.star is None else self._rows_alone()
        self.population = probe.population
        self.relation: Relation = context.catalog.population(self.population).relation
        self.terms = settled(context, self.population, request.options, _HEEDED)
        own = value_delta(self.terms) if self._open else Fraction(0)
        whole_price, self.noise, self.guarantee = count_price(self.terms, self.relation, own)
        part = VALUE_SHARE * whole_price if self._open else Fraction(0)
        self.price = whole_price - part
        #: Cost (ρ and δ) of finding values of text columns.
        self.selection_cost = part, own
        for name in self._open:
            self.selections[name] = self._selection(name, part / len(self._open), own / len(self._open), probe.rows)
        able = {c.name.lower() for number in range(len(self._tables)) for c in self._wanted(number)}
        able &= {name for number in range(len(self._tables)) for name in self._bins(number)}
        for name in request.nulls:
            if name not in able:
                words = "is no column with bounds that is synthesised; for a text, declare null_category"
                raise InputError("nulls", f"{name[:63]!r} {words}")
        # Refusals occur here, before the charge.
        self._first = [self._stage(number, None) for number in range(len(request.tables))]
        for stage in self._first:
            stage.plan.check_price()
            stage.counts.check(context, stage.plan.candidates)

    def __len__(self) -> int:
        return len(self._first)

    def stage(self, number: int, before: Sequence[FittedStage]) -> SynthesisStage:
        """Return the stage with this number, given the fitted stages before it."""
        return self._first[number] if not before else self._stage(number, before)

    @property
    def columns(self) -> list[str]:
        """Counted columns of all tables."""
        return [name for stage in self._first for name in stage.plan.own]

    @property
    def bounding(self) -> str:
        """Description of the contribution bounds of one unit."""
        if self.star is None:
            return self._first[-1].counts.bounding
        persons, rows = (stage.counts.bounding for stage in self._first)
        return f"{self.star.persons.name}: {persons}; {self.star.rows.name}: {rows}"

    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for stage in self._first for name in stage.counts.tables()))

    @property
    def text(self) -> str:
        """Canonical text of the counted rows and of the measurements, which identifies a repeat."""
        told = [self._told(stage) for stage in self._first]
        return canonical(told[0] if len(told) == 1 else told)

    @staticmethod
    def _told(stage: SynthesisStage) -> list[Any]:
        plan = stage.plan
        stated = [plan.minutes] if plan.method == "aim" else []
        return [stage.counts.text, plan.method, [list(names) for names in plan.sets], *stated]

    # -- one stage

    def _stage(self, number: int, before: Sequence[FittedStage] | None) -> SynthesisStage:
        counts = self._counts(number)
        bins = {name: each for name, each in self._bins(number).items() if name in counts.columns}
        outer, given = self._outer(counts, before) if number else ((), ())
        sets = self._sets(counts, others=bool(self.star))
        # Where no set is listed for one of two tables, its columns are measured individually.
        method: Method = self.request.method
        if self.star and method == "marginals" and not sets:
            method = "independent"
        share = Fraction(1)
        if self.star is not None:
            share = 1 - _PERSONS_SHARE if number else _PERSONS_SHARE
        plan = SynthesisPlan(
            method, counts.sizes, share * self.price, counts.rows, self.relation, sets, self.request.minutes,
            outer, given, self.noise,
        )  # fmt: skip
        return SynthesisStage(self.request.tables[number][0], counts, plan, bins)

    def _sets(self, counts: MarginalCounts, *, others: bool) -> tuple[tuple[str, ...], ...]:
        sets = tuple(tuple(dict.fromkeys(name.lower() for name in names)) for names in self.request.marginals or ())
        if not others:
            return sets
        for names in sets:
            if not any(set(names) <= each for each in self._all_names):
                raise InputError("marginals", f"{', '.join(names)} are not columns of one of the two tables")
        own = set(counts.sizes)
        if self.star is not None and any(name not in self._all_names[0] for name in own):
            return tuple(n for n in sets if set(n) <= own and not set(n) <= self._outer_names)
        return tuple(names for names in sets if set(names) <= own)

    @cached_property
    def _all_names(self) -> tuple[set[str], set[str]]:
        """Columns counted of the persons' table, and columns counted of the second table joined with it."""
        persons, rows = self._counts(0), self._counts(1)
        return set(persons.sizes), set(rows.sizes)

    @cached_property
    def _outer_names(self) -> set[str]:
        star = self.star
        if star is None:
            return set()
        return {star.number, *(star.outer(name) for name in self._counts(0).sizes if name != star.number)}

    # -- text columns without declared categories

    def _open_texts(self) -> tuple[str, ...]:
        """Return the text columns of a single table whose values can be found privately; needs an account with a δ."""
        if self.star is not None or not self._tables:
            return ()
        table, columns = self._tables[0], self.request.tables[0][1]
        if table.population is None or table.public:
            return ()
        terms = settled(self._context, table.population, self.request.options, _HEEDED)
        wanted = None if columns is None else {name.lower() for name in columns}
        names = [
            each.name.lower()
            for each in table.columns
            if each.type.kind is Kind.TEXT and each.categories is None and each.name != table.unit
            and not any(key.column.lower() == each.name.lower() for key in table.foreign_keys)
        ]  # fmt: skip
        others = wanted if wanted is not None else {each.name.lower() for each in _countable(table, ())}
        if not value_delta(terms) or not others - set(names):
            # If all columns are texts, possibly no value is found, and the charge would buy an empty table.
            return ()
        return tuple(name for name in names if wanted is None or name in wanted)

    def _selection(self, name: str, rho: Fraction, delta: Fraction, rows: int) -> Plan:
        """Return the query for the most frequent values of a text column; up to ``rows`` rows of a unit count."""
        table = self._tables[0]
        column = _quoted(next(each.name for each in table.columns if each.name.lower() == name))
        sql = (
            f'SELECT {column}, COUNT(*) AS n FROM "{table.name}" '  # noqa: S608 - names of the catalogue
            f"GROUP BY {column} ORDER BY n DESC LIMIT {self._most_values + 1}"
        )
        most, account = None if table.unit == "row" else rows, Account("zcdp", delta)
        request = Request(rho=rho, delta=delta, bias_share=0, account=account, max_rows_total=most)
        query = resolve(sql, self._context.measured_catalog, max_rows=request.stated_rows)
        plan = plan_query(query, self.relation, request, catalog=self._context.catalog.digest)
        for final, _ in plan.measured:
            self._context.engine.check(final)
        return plan

    @property
    def _most_values(self) -> int:
        return max(1, min(_MOST_VALUES, _ALL_VALUES // len(self._open)))

    @property
    def found(self) -> dict[str, tuple[str, ...]]:
        """Values found privately, by column; empty for a column without a value that is frequent enough."""
        if self._found is None:
            return {}
        most = self._most_values
        return {
            name: tuple(each for each in self._found[name] if len(each) <= _LONGEST_VALUE and each.isprintable())[:most]
            for name in self._open
        }

    def _values(self, name: str) -> tuple[str, ...]:
        """Return the values of an undeclared text column; before the charge the largest possible number of values."""
        if self._found is None:
            return tuple(f"{number:0{_LONGEST_VALUE}}" for number in range(self._most_values))
        return self.found[name]

    # -- rows

    def _counts(self, number: int) -> MarginalCounts:
        """Return the counts of a table's rows, with its columns in bins."""
        source, columns = self.request.tables[number]
        stated = Request.of("", self.request.options).stated_rows
        star = self.star
        if star is not None:
            return self._persons(star) if number == 0 else self._rows_of_persons(star)
        if not is_name(source):
            return countable_rows(self._context, source, columns, max_rows=stated)
        listed = [f'{read} AS "{name}"' for name, read in self._listed(0)]
        # The text is resolved by our own parser and never reaches an engine.
        text = f'SELECT {", ".join(listed)} FROM "{source}"'  # noqa: S608
        return countable_rows(self._context, text, max_rows=stated, numbers=self._numbers_of(0))

    def _persons(self, star: StarNames) -> MarginalCounts:
        text = persons_sql(star, self._listed(0, "p."), self._numbers(star))
        return countable_rows(self._context, text, max_rows=1, numbers=self._numbers_of(0))

    def _rows_of_persons(self, star: StarNames) -> MarginalCounts:
        persons, rows = self._listed(0), self._listed(1)
        text = rows_sql(star, persons, rows, self._numbers(star))
        numbers = {star.outer(name): each for name, each in self._numbers_of(0).items()}
        numbers |= self._numbers_of(1)
        return countable_rows(self._context, text, max_rows=star.most, numbers=numbers)

    def _numbers(self, star: StarNames) -> str:
        return numbers_sql(star, self._listed(1), self._rows_alone().columns)

    def _rows_alone(self) -> MarginalCounts:
        """Return the counts of the second of two tables, without the columns of the persons' table."""
        source = self.request.tables[1][0]
        listed = [f'{read} AS "{name}"' for name, read in self._listed(1)]
        most = None if self.star is None else self.star.most
        text = f'SELECT {", ".join(listed)} FROM "{source}"'  # noqa: S608
        return countable_rows(self._context, text, max_rows=most, numbers=self._numbers_of(1))

    def _listed(self, number: int, prefix: str = "") -> list[tuple[str, str]]:
        """Return the counted columns of a table, each with the SQL expression for its bin numbers."""
        made, bins = [], self._bins(number)
        for column in self._wanted(number):
            own, read = bins.get(column.name.lower()), f"{prefix}{_quoted(column.name)}"
            made.append((column.name.lower(), read if own is None else own.expression(read)))
        return made

    def _numbers_of(self, number: int) -> dict[str, range]:
        """Return the bin numbers of each column in bins."""
        return {name: bins.numbers for name, bins in self._bins(number).items()}

    def _wanted(self, number: int) -> list[Column]:
        """Return the counted columns of a table, or refuse unknown names."""
        (source, columns), table = self.request.tables[number], self._tables[number]
        known = {column.name.lower(): column for column in table.columns}
        keys = set() if self.star is None else {self.star.person, self.star.owner}
        able = [c.name for c in _countable(table, self._open) if c.name not in keys]
        wanted = able if columns is None else list(columns)
        unknown = [name for name in wanted if name.lower() not in known]
        if unknown:
            raise Refusal("unknown_column", f"There is no column {unknown[0][:63]!r} in {source}.")
        empty = {name for name in self._open if not self._values(name)}
        left = [known[name.lower()] for name in wanted if name.lower() not in empty]
        if not left:
            raise InputError("columns", f"{source} has no column with declared categories or bounds; declare some")
        return left

    def left_out(self, number: int) -> tuple[str, ...]:
        """Return the columns of a table that are not synthesised: not requested, and without categories or bounds."""
        if number >= len(self._tables) or self.request.tables[number][1] is not None:
            return ()
        table = self._tables[number]
        made = {each.name for each in self._wanted(number)} | {table.unit}
        keys = set() if self.star is None else {self.star.person, self.star.owner}
        sought = {*made, *self._open}
        return tuple(c.name for c in table.columns if c.name not in made | keys and c.name.lower() not in sought)

    def _bins(self, number: int) -> dict[str, ColumnBins]:
        """Return the bins of a table's columns."""
        if number >= len(self._tables):
            return {}
        made: dict[str, ColumnBins] = {}
        for column in self._tables[number].columns:
            key = column.name.lower()
            if key in self._open:
                made[key] = FoundValues.of(self._values(key))
                continue
            own = EqualBins.of(column, nulls=key in self.request.nulls)
            if own is not None:
                made[key] = own
        return made

    # -- rows joined with their persons

    def _outer(
        self, counts: MarginalCounts, before: Sequence[FittedStage] | None
    ) -> tuple[tuple[str, ...], tuple[NoisyMarginal, ...]]:
        """Return the persons' columns in the second table and their noisy marginals, weighted by number of rows."""
        star = self.star
        if star is None:
            return (), ()
        outer = tuple(name for name in counts.sizes if name in self._outer_names)
        return outer, () if before is None else tuple(_seen_by_rows(before[-1], star, counts.sizes))


def _seen_by_rows(persons: FittedStage, star: StarNames, sizes: Mapping[str, int]) -> list[NoisyMarginal]:
    """Return marginals of persons weighted by their number of rows, from the model of persons and so at no cost."""
    model = persons.model
    times, number = np.arange(star.most + 1.0), star.number
    names = [name for name in persons.stage.plan.sizes if name != number]
    measured = [each for each in persons.transcript.measured if len(each.measurement.columns) == 2]
    pairs = list(dict.fromkeys(each.measurement.columns for each in measured))
    sets: list[tuple[str, ...]] = [(name,) for name in (*names, number)]
    inside: list[tuple[str, ...]] = []
    for pair in pairs:
        shown = tuple(number if name == number else star.outer(name) for name in pair)
        if model_cells(sizes, [*inside, shown]) <= _OUTER_CELLS + sum(sizes.values()):
            inside.append(shown)
            sets.append(pair)
    stddev = star.most * max(each.marginal.stddev for each in persons.transcript.measured)
    joint = {each: each if number in each else (*each, number) for each in sets}
    expected = model.marginals(list(joint.values()), ExpandedShares("rows of persons"))
    found = []
    for each, whole in joint.items():
        table = expected[whole]
        axis = whole.index(number)
        table = table * times.reshape([-1 if at == axis else 1 for at in range(table.ndim)])
        if number not in each:
            table = table.sum(axis=axis)
        shown = tuple(number if name == number else star.outer(name) for name in each)
        order = sorted(range(len(shown)), key=lambda at: list(sizes).index(shown[at]))
        found.append(NoisyMarginal(tuple(shown[at] for at in order), table.transpose(order), stddev))
    return found


def _star(context: CountingContext, request: SynthesisRequest) -> StarNames:
    persons, rows = (_known_table(context, name) for name, _ in request.tables)
    for table in (persons, rows):
        if table.public:
            raise InputError("source", f"{table.name} is public, and needs no synthetic table")
        if table.unit == "row":
            raise InputError("source", f"every row of {table.name} is a person of its own; declare the unit's column")
    if persons.name == rows.name or persons.population != rows.population:
        raise InputError("source", "must name two tables of one population")
    person = persons.unit
    if person is None:
        raise InputError("source", f"{persons.name} has no column that names the person; it must be the first table")
    column = persons.find(person)
    if persons.max_rows != 1 and (column is None or not column.unique):
        raise InputError(
            "source", f"{persons.name} must have one row for each person: declare max_rows = 1, or {person} as unique"
        )
    owner = rows.unit
    if owner is None:
        for key in rows.foreign_keys:
            if key.table.lower() == persons.name.lower():
                owner, person = key.column, key.references
    if owner is None:
        raise InputError(
            "source", f"{rows.name} needs a column that names the person, or a foreign key to {persons.name}"
        )
    if rows.unit is None and person.lower() == (persons.unit or "").lower():
        raise InputError("source", f"{owner} of {rows.name} names the person itself: declare it as the unit there")
    stated = Request.of("", request.options).stated_rows
    known = context.measured_catalog.table(rows.name)
    most = countable_rows(context, f'SELECT 1 AS one FROM "{rows.name}"', max_rows=stated).rows if known else 1  # noqa: S608
    if most > _MOST_CHILDREN:
        raise InputError(
            "max_rows", f"must be at most {_MOST_CHILDREN} for two tables, because their number is a column"
        )
    return StarNames(persons, rows, person, owner, most)


def _known_table(context: CountingContext, name: str) -> Table:
    table = context.measured_catalog.table(name)
    if table is None:
        raise Refusal("unknown_table", f"There is no table {name!r} that you can ask about.")
    return table


def _countable(table: Table, found: Sequence[str]) -> list[Column]:
    return [
        c
        for c in table.columns
        if c.name != table.unit
        and (c.categories is not None or c.bounds is not None or c.type.kind is Kind.BOOLEAN or c.name.lower() in found)
    ]


def _quoted(name: str) -> str:
    return f'"{name}"'
