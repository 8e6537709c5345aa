"""Catalog: public metadata about tables, units and columns; one type of unit for each population.

A catalog holds no data and no paths. Everything the planner decides follows from the SQL text and from this.

* A table is **public**, or it belongs to a **population** of units (persons). Its ``unit`` is a column, or ``"row"``
  (every row is its own unit), or left out where a foreign key leads to the table that knows the unit.
* A :class:`ForeignKey` says that a column holds values of a *unique* column of another table. That uniqueness is part
  of the owner's declaration, as the unit column itself is.
* ``bounds``, ``step`` and ``categories`` are promises about values that Tacit enforces rather than believes: values are
  clamped to bounds inside aggregates, rounded to steps there, and rows outside declared categories are left out of a
  grouping by them.

*Units.* Rows of several tables meet in one query (UNION ALL, joins, key selection), and what makes two of them one
person's is that their units are *equal*. That is a statement about persons only if every table writes a person in one
way. So:

* all tables of a population have units of one type, and every column on the way to the unit has the type of the
  column that it points to;
* the type is one whose values have one written form on every engine: INTEGER, DECIMAL, TEXT, DATE or BOOLEAN.
  DOUBLE is none (2^53 and 2^53 + 1 are one number), and TIMESTAMP is none (zones and fractions of a second differ from
  store to store);
* ``unit = "row"`` does not mix with other units: a row has no identifier, so nothing tells whether a row of one table
  and a row, or an id, of another are one person.

``docs/semantics.md`` section 1 has the argument.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Final

from tacit.core.errors import InputError
from tacit.core.names import COLUMN_NAME, is_column_name, is_name
from tacit.core.numbers import check_count
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.query.contribution import AUTO, ContributionNumber, contribution_number
from tacit.query.types import BOOLEAN, MAX_VALUES, Domain, Kind, Range, SqlType, Value, as_value, finite, ordinal, truth

# -- canonical unit of a population

#: The unit of a table in which every row is its own unit.
ROW: Final = "row"
_CANONICAL: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.DATE, Kind.BOOLEAN)


def unit_type(catalog: Catalog, population: str) -> SqlType | None:
    """Return the type of a population's units; None where the units are rows, or no table has the population."""
    table = next((table for table in catalog.tables if _about(table, population)), None)
    return None if table is None or table.unit == ROW else _named(catalog, table)[1].type


def unit_path(catalog: Catalog, table: Table) -> str:
    """Return the path to a protected table's unit, by columns: ``"row"``, ``"patient"``, ``"visit > id > patient"``.

    Columns have their names in the source, so that renaming one in the catalog does not change who is a person.
    Where a foreign key points to the unit column itself, the path ends with the foreign key's own column.
    """
    if table.unit is not None:
        return ROW if table.unit == ROW else table.stored_name(table.unit)
    path, (_, unit) = catalog.path_to_unit(table), _named(catalog, table)
    steps, here = [], table
    for key in path:
        there = _of(catalog, key.table, key.references)[0]
        steps += [here.stored_name(key.column), there.stored_name(key.references)]
        here = there
    last = unit.stored_name.lower()
    return " > ".join(steps[:-1] if steps[-1] == last else [*steps, last])


def identifying(catalog: Catalog, table: Table) -> frozenset[str]:
    """Return the columns of a table, in lower case, that decide which rows of protected tables belong to one person."""
    if table.public:
        return frozenset()
    found = {table.unit.lower()} if table.unit not in (None, ROW) else set()
    for other in catalog.tables:
        if other.public:
            continue
        for key in catalog.path_to_unit(other):
            if other is table and key is catalog.path_to_unit(other)[0]:
                found.add(key.column.lower())
            if key.table.lower() == table.name.lower():
                found.add(key.references.lower())
    return frozenset(found)


def check_units(catalog: Catalog) -> None:
    """Refuse a population whose tables would write one person in two ways.

    Raises:
        InputError: naming both tables, both types, and what to declare instead.
    """
    first: dict[str, Table] = {}
    for table in catalog.tables:
        if table.population is None or table.public:
            continue
        _check_form(catalog, table)
        other = first.setdefault(table.population, table)
        if other is not table:
            _check_pair(catalog, other, table)


def _check_form(catalog: Catalog, table: Table) -> None:
    if table.unit == ROW:
        if table.find(ROW) is not None:
            raise InputError(
                f"{table.name}.unit",
                'is "row", and the table has a column of that name: is a person a row, or what stands in the column? '
                "Leave the column out, or read it under another name from a view or a file that calls it otherwise",
            )
        return
    # Foreign key columns have the types of the columns that they point to: the catalog checks that.
    columns = [_of(catalog, key.table, key.references) for key in catalog.path_to_unit(table)]
    for owner, column in (*columns, _named(catalog, table)):
        if column.type.kind not in _CANONICAL:
            raise InputError(
                f"{owner.name}.{column.name}",
                f"tells persons apart and is of type {column.type}, in which one person can have several forms, or "
                'several persons one; declare it as type = "integer" or "text", and store it so',
            )


def _check_pair(catalog: Catalog, first: Table, second: Table) -> None:
    where = f"{second.name}.unit"
    if ROW in (first.unit, second.unit):
        raise InputError(
            where,
            f"the population {second.population!r} has {_words(catalog, first)} and {_words(catalog, second)}, and "
            "nothing says which of them are the same person; name a unit column in both, or give each table a "
            "population of its own",
        )
    one, other = _named(catalog, first)[1].type, _named(catalog, second)[1].type
    if one != other:
        raise InputError(
            where,
            f"the population {second.population!r} has {_words(catalog, first)} and {_words(catalog, second)}: one "
            f"person would be two in a query that reads both; {_remedy(one, other)}, or give each table a "
            "population of its own",
        )


def _remedy(one: SqlType, other: SqlType) -> str:
    """Return advice on a type to declare for both columns; TEXT can be read as any type."""
    kinds = {one.kind, other.kind}
    if kinds <= {Kind.INTEGER, Kind.DECIMAL}:
        return 'declare type = "integer" for both columns, and store whole numbers in both'
    if Kind.TEXT in kinds:
        (word,) = {kind.value for kind in kinds - {Kind.TEXT}}
        return f'declare type = "{word}" for both columns'
    return "store and declare both columns with one type"


def _words(catalog: Catalog, table: Table) -> str:
    if table.unit == ROW:
        return f"every row of {table.name}"
    owner, column = _named(catalog, table)
    reached = "" if owner is table else f", for {table.name},"
    return f"{column.type} in {owner.name}.{column.name}{reached}"


def _named(catalog: Catalog, table: Table) -> tuple[Table, Column]:
    """Return the table that holds the unit column of ``table``, and that column."""
    path = catalog.path_to_unit(table)
    owner = table if not path else catalog.table(path[-1].table)
    column = None if owner is None else owner.find(owner.unit or "")
    if owner is None or column is None:
        raise AssertionError("the catalog checks paths")
    return owner, column


def _of(catalog: Catalog, table: str, column: str) -> tuple[Table, Column]:
    owner = catalog.table(table)
    found = None if owner is None else owner.find(column)
    if owner is None or found is None:
        raise AssertionError("the catalog checks foreign keys")
    return owner, found


def _about(table: Table, population: str) -> bool:
    return table.population == population and not table.public


# -- catalog

#: Schemas of tables for which a database states none: those of PostgreSQL and DuckDB.
DEFAULT_SCHEMAS = ("public", "main", "dbo")
#: Default number of rows of one unit in a table.
UNIT_ROWS = 256
#: Default number of rows of a protected table, and of characters of its texts, for the time that a query may take.
TABLE_ROWS, TEXT_LENGTH = 2**20, 64


@dataclass(frozen=True)
class Column:
    """One column and what is publicly known about it.

    Args:
        name: its name in queries, in quotes where it holds characters other than letters, digits and underscores; names
            are compared without regard to case.
        type: its SQL type.
        bounds: clipping bounds (lowest, highest) of aggregates, in the column's own type.
        step: the grid to which aggregates round, in units of the value; None for the type's own grid (1 for integers,
            the last digit for decimals, and for DOUBLE a power of two chosen from the bounds).
        categories: every value it can have, if that is public; include None to make NULL a category.
        nullable: whether NULL occurs.
        unique: whether no value occurs twice; only then may foreign keys point here.
        stored: its name in the source, where that differs.
    """

    name: str
    type: SqlType
    bounds: tuple[Value, Value] | None = None
    step: Fraction | None = None
    categories: tuple[Value | None, ...] | None = None
    nullable: bool = True
    unique: bool = False
    # Not in the repr, so that catalogs without it keep their digest; see :attr:`Catalog.digest`.
    stored: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not is_column_name(self.name):
            raise InputError("column", f"{COLUMN_NAME}; got {self.name!r}")
        if self.type.kind is Kind.NULL:
            raise InputError(self.name, "a column needs a type")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._checked_bounds(self.bounds))
        if self.step is not None and (self.step <= 0 or not self.type.is_numeric):
            raise InputError(self.name, "step must be a positive Fraction, on a numeric column")
        if self.categories is not None:
            object.__setattr__(self, "categories", self._checked_categories(tuple(self.categories)))

    def _checked_bounds(self, bounds: tuple[Value, Value]) -> tuple[Value, Value]:
        if not self.type.is_numeric and not self.type.is_temporal:
            raise InputError(self.name, f"bounds make no sense for {self.type}; declare categories instead")
        low, high = (self._checked(end, "bounds") for end in bounds)
        if ordinal(low, self.type) > ordinal(high, self.type):
            raise InputError(self.name, f"the lower bound {low} exceeds the upper bound {high}")
        return low, high

    def _checked_categories(self, categories: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        if not categories or len(categories) > MAX_VALUES:
            raise InputError(self.name, f"categories must list between 1 and {MAX_VALUES} values")
        if self.type.kind is Kind.DOUBLE:
            raise InputError(
                self.name, "categories of DOUBLE cannot be compared exactly; declare the column as decimal"
            )
        checked = tuple(None if item is None else self._checked(item, "categories") for item in categories)
        if len(set(checked)) != len(checked):
            raise InputError(self.name, "categories must not list a value twice")
        return checked

    def _checked(self, value: object, what: str) -> Value:
        fits = as_value(value, self.type)
        if fits is None:
            raise InputError(self.name, f"{what}: {value!r} is not a value of {self.type}")
        return fits

    def __repr__(self) -> str:
        # Plans are recognised by their text; ``stored`` is shown only if set, so that older plans keep their text.
        shown = [part.name for part in fields(self) if part.name != "stored" or self.stored is not None]
        return f"Column({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def stored_name(self) -> str:
        """Name of the column in the source."""
        return self.name if self.stored is None else self.stored

    @cached_property
    def domain(self) -> Domain:
        """Public knowledge about the column's values, presumed from its declaration."""
        if self.categories is not None:
            nullable = self.nullable or None in self.categories
            return finite(self.categories, self.type, nullable=nullable)
        if self.type == BOOLEAN:
            return truth(nullable=self.nullable)
        step = self.step if self.step is not None else self.type.step
        if self.bounds is None:
            return Domain(nullable=self.nullable, step=step)
        low, high = self.bounds
        return Domain(Range(ordinal(low, self.type), ordinal(high, self.type)), self.nullable, None, step)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``column`` of this table holds values of the unique column ``references`` of ``table``."""

    column: str
    table: str
    references: str


@dataclass(frozen=True, slots=True)
class Population:
    """The persons in some tables, and the neighbouring relation: how two databases differ in one person."""

    name: str
    relation: Relation = ADD_REMOVE

    def __post_init__(self) -> None:
        _check_name(self.name, "population")
        object.__setattr__(self, "relation", as_relation(self.relation))


@dataclass(frozen=True, slots=True)
class PublicSize:
    """Size of a public table and its values, as its engine counted and read them: public, like the table itself.

    Args:
        rows: the number of rows.
        repeats: for each column, by lower-case name, the most rows that share a value other than NULL.
        domains: for columns without declared categories or bounds, by lower-case name, the values in the table (where
            they are not too many) and their range.
    """

    rows: int
    repeats: Mapping[str, int]
    domains: Mapping[str, Domain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns, and the population that it belongs to, if any.

    Args:
        name: its name in queries.
        columns: at least one.
        public: whether anyone may know its contents; then it has no population and no unit.
        population: the name of the protected population.
        unit: the column that names the person, or ``"row"``; None to find the unit through a foreign key.
        foreign_keys: columns that point to unique columns of other tables.
        max_groups: the most groups that one unit counts in, or AUTO, for queries that state no number.
        max_rows: the most rows of one unit that count per group, or AUTO, for queries that state no number.
        unit_rows: the most rows that one unit has, for the bound on its work (:mod:`tacit.query.planning.work`):
            assumed where work grows with the rows, and enforced, by a keyed choice, before a join that multiplies them.
        table_rows: the most rows of a protected table, as declared by its owner, for the response time of a query
            (:func:`tacit.query.planning.work.whole_work`). The number of rows is itself not public, so it is declared
            and never read: a power of two above it is precise enough.
        text_length: the most characters of most of its texts, declared for the same purpose.
        max_groups_limit: the largest ``max_groups`` that a query may state, as policy of the owner; None for any.
        max_rows_limit: the largest ``max_rows`` that a query may state, likewise.
        schema: the schema under which queries may also name it; ``public``, ``main`` and ``dbo`` are accepted for every
            table.
        size: the size of a public table, once an engine has counted it. Neither this nor ``unit_rows``, ``table_rows``,
            ``text_length`` or a ceiling is part of the digest: a query in which they decide anything says so in its
            own text, or is refused.
        unread: names of further columns of the source, of a type that no query reads.
    """

    name: str
    columns: tuple[Column, ...]
    public: bool = False
    population: str | None = None
    unit: str | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    max_groups: ContributionNumber = 1
    max_rows: ContributionNumber = 1
    unit_rows: int = field(default=UNIT_ROWS, repr=False)
    table_rows: int = field(default=TABLE_ROWS, repr=False)
    text_length: int = field(default=TEXT_LENGTH, repr=False)
    max_groups_limit: int | None = field(default=None, repr=False)
    max_rows_limit: int | None = field(default=None, repr=False)
    size: PublicSize | None = field(default=None, repr=False, compare=False)
    schema: str | None = field(default=None, repr=False)
    unread: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_name(self.name, "table")
        if self.schema is not None:
            _check_name(self.schema, "schema")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "foreign_keys", tuple(self.foreign_keys))
        names = [column.name.lower() for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise InputError(self.name, "a table needs columns, each name once")
        self._check_stored()
        for limit in ("max_groups", "max_rows"):
            number = contribution_number(getattr(self, limit), f"{self.name}.{limit}", most=10**9)
            object.__setattr__(self, limit, number)
        for size, most in (("unit_rows", 10**9), ("table_rows", 2**40), ("text_length", 10**9)):
            object.__setattr__(self, size, check_count(getattr(self, size), f"{self.name}.{size}", maximum=most))
        self._check_ceilings()
        if self.public and (self.population is not None or self.unit is not None):
            raise InputError(self.name, "a public table has no population and no unit")
        if not self.public and self.population is None:
            raise InputError(self.name, "a table is public, or names its population")
        if self.unit is not None and self.unit != ROW and self.find(self.unit) is None:
            listed = ", ".join(column.name for column in self.columns[:20])
            raise InputError(self.name, f"the unit {self.unit!r} is not one of its columns, which are {listed}")
        for key in self.foreign_keys:
            if self.find(key.column) is None:
                raise InputError(self.name, f"the foreign key column {key.column!r} is not one of its columns")

    def _check_stored(self) -> None:
        names = [column.stored_name.lower() for column in self.columns]
        for column in self.columns:
            if column.stored is not None and names.count(column.stored.lower()) > 1:
                raise InputError(
                    f"{self.name}.{column.name}", f"the source column {column.stored!r} has another name already"
                )

    def _check_ceilings(self) -> None:
        for name in ("max_groups", "max_rows"):
            most, declared = getattr(self, f"{name}_limit"), getattr(self, name)
            if most is None:
                continue
            if self.public:
                raise InputError(
                    f"{self.name}.{name}_limit", "bounds what a person adds; a public table has no persons"
                )
            known = check_count(most, f"{self.name}.{name}_limit", maximum=10**9)
            if declared != AUTO and known < declared:
                raise InputError(
                    f"{self.name}.{name}_limit",
                    f"is a ceiling of queries and must be at least {name}, which is {declared}; got {most}",
                )
            object.__setattr__(self, f"{name}_limit", known)

    def is_in(self, schema: str) -> bool:
        """Whether queries may write this schema before the table's name; "" stands for no schema."""
        return schema.lower() in ("", *DEFAULT_SCHEMAS, (self.schema or "").lower())

    def find(self, name: str) -> Column | None:
        """Return the column of this name, in any case; None if there is none."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    def stored_name(self, name: str) -> str:
        """Return the lower-case name of a column in the source."""
        column = self.find(name)
        return (name if column is None else column.stored_name).lower()


@dataclass(frozen=True)
class Catalog:
    """All tables and populations a query may refer to.

    Raises:
        InputError: declarations contradict one another; names the table and column.
    """

    tables: tuple[Table, ...]
    populations: tuple[Population, ...] = ()
    #: SHA-256 of all declarations in hexadecimal, by which a plan names the metadata it was made from.
    digest: str = field(init=False, repr=False, compare=False)
    _by_name: Mapping[str, Table] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        object.__setattr__(self, "populations", tuple(self.populations))
        by_name = {table.name.lower(): table for table in self.tables}
        if len(by_name) != len(self.tables):
            raise InputError("tables", "two tables have one name")
        if len({p.name for p in self.populations}) != len(self.populations):
            raise InputError("populations", "two populations have one name")
        object.__setattr__(self, "_by_name", MappingProxyType(by_name))
        for table in self.tables:
            self._check(table)
        check_units(self)
        # The stored name of a column is no part of its text.
        stored = [(t.name, c.name, c.stored) for t in self.tables for c in t.columns if c.stored is not None]
        declared = repr((self.tables, self.populations)) + (repr(stored) if stored else "")
        object.__setattr__(self, "digest", hashlib.sha256(declared.encode()).hexdigest())

    def table(self, name: str) -> Table | None:
        """Return the table of this name, in any case; None if there is none."""
        return self._by_name.get(name.lower())

    def population(self, name: str) -> Population:
        for population in self.populations:
            if population.name == name:
                return population
        raise InputError("population", f"there is no population {name!r}")

    def path_to_unit(self, table: Table) -> tuple[ForeignKey, ...]:
        """Return the foreign keys from a protected table to the one with its unit column; empty if it has one."""
        path: list[ForeignKey] = []
        here = table
        while here.unit is None:
            keys = [key for key in here.foreign_keys if self._leads_to_unit(key, table.population)]
            if len(keys) != 1 or len(path) >= len(self.tables):
                raise InputError(table.name, "needs a unit column, or exactly one foreign key that leads to one")
            path.append(keys[0])
            here = self._by_name[keys[0].table.lower()]
        return tuple(path)

    def measured(self, sizes: Mapping[str, PublicSize]) -> Catalog:
        """Return the catalog with the sizes of its public tables, by lower-case table name."""
        tables = tuple(replace(t, size=sizes.get(t.name.lower())) if t.public else t for t in self.tables)
        return replace(self, tables=tables)

    def _leads_to_unit(self, key: ForeignKey, population: str | None) -> bool:
        target = self._by_name.get(key.table.lower())
        # A row-level unit has no name, so nothing can point to it.
        return target is not None and target.population == population and not target.public and target.unit != ROW

    def _check(self, table: Table) -> None:
        for key in table.foreign_keys:
            target = self.table(key.table)
            column = target.find(key.references) if target is not None else None
            if column is None:
                raise InputError(
                    f"{table.name}.{key.column}", f"points to {key.table}.{key.references}, which does not exist"
                )
            if not column.unique:
                raise InputError(f"{key.table}.{key.references}", "must be declared unique: a foreign key points to it")
            own = table.find(key.column)
            if own is not None and own.type != column.type:
                raise InputError(f"{table.name}.{key.column}", f"has another type than {key.table}.{key.references}")
        if table.population is not None:
            self.population(table.population)
            self.path_to_unit(table)


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not is_name(name):
        other = "; give it such a name, its source may have any" if what == "table" else ""
        raise InputError(what, f"a name has letters, digits and underscores, at most 63 in all{other}; got {name!r}")
