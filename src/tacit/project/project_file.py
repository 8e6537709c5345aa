"""Project file: tables, protected units and budgets.

The file is TOML, read strictly: an unknown key, a missing number or a value of the wrong type is an error that names
the table and the column. Nothing in it is taken from data, and of data files only the names and types of columns are
read, if the file format states them (Parquet): a schema is public, contents are not. Bounds and categories are always
declared by the owner.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StringConstraints, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tacit.accounting.currencies import CurrencyKind
from tacit.core.errors import InputError
from tacit.core.names import is_column_name, is_name
from tacit.core.numbers import exact, exact_positive
from tacit.core.relations import as_relation
from tacit.engines.files import CsvFormat
from tacit.engines.registry import engine_kind, stored_types
from tacit.ledger.entries import plain_name
from tacit.ledger.memory import MEMORY
from tacit.project.project_template import read_toml
from tacit.project.source import Source, column_types
from tacit.query.catalog import ROW, TABLE_ROWS, TEXT_LENGTH, UNIT_ROWS, Catalog, Column, ForeignKey, Population, Table
from tacit.query.contribution import AUTO, ContributionNumber, contribution_number
from tacit.query.relational.functions.registry import cast_value
from tacit.query.types import TEXT, Kind, SqlType, Value, as_value, parse_type


def as_declared(value: Any, kind: SqlType, where: str) -> Value:
    """Return ``value`` as a value of a column's type, or raise an InputError that names the place.

    Numbers are read from their decimal text, so 0.1 is one tenth. Dates may be written as dates or as ISO text.
    """
    read = _read(value, kind, where)
    if read is None:
        raise InputError(where, f"{value!r} is not a value of {kind}")
    return read


def _read(value: Any, kind: SqlType, where: str) -> Value | None:
    if kind.is_numeric:
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Fraction)):
            return None
        number = exact(value, where)
        whole = kind.kind is Kind.INTEGER and number.denominator == 1
        return as_value(int(number) if whole else number, kind)
    if kind.is_temporal:
        if isinstance(value, str):
            return cast_value(value, TEXT, kind)
        if kind.kind is Kind.TIMESTAMP and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return dt.datetime.combine(value, dt.time())
    return as_value(value, kind)


#: A number in a project file; text is read exactly.
FileNumber = str | int | float
_Model = TypeVar("_Model", bound=BaseModel)
_Cell = bool | int | float | str | dt.datetime | dt.date


def _contribution(value: Any) -> ContributionNumber:
    try:
        return contribution_number(value, "number")
    except InputError as problem:
        raise PydanticCustomError("contribution_number", problem.problem) from None


#: ``max_groups`` or ``max_rows`` in a file: a whole number, or ``"auto"``.
ContributionField = Annotated[ContributionNumber, PlainValidator(_contribution)]


class StrictModel(BaseModel):
    """A part of a project file; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnModel(StrictModel):
    """Declarations of the owner about a column; see :class:`tacit.query.catalog.Column`.

    ``source`` is the column's name in the source, if queries use another name. ``date_format`` is for a date or
    timestamp in CSV, such as ``"%d.%m.%Y"``.
    """

    source: str | None = None
    date_format: str | None = None
    type: str | None = None
    bounds: tuple[_Cell, _Cell] | None = None
    step: FileNumber | None = None
    categories: tuple[_Cell, ...] | None = None
    null_category: bool = False
    nullable: bool = True
    unique: bool = False
    references: str | None = None


class TableModel(StrictModel):
    """A table: its source, its population and unit, and declarations about its columns.

    ``schema`` is the schema name that queries may write before the table's name, as in ``hospital.visits``; ``public``,
    ``main`` and ``dbo`` are always accepted.

    ``version`` is for tables of a database: a text that the owner changes when earlier answers are to be replaced by
    new ones, at a new cost. The version of a file is a digest of its content.

    ``delimiter``, ``encoding``, ``decimal_mark``, ``thousands_mark``, ``date_format`` and ``null_values`` state the
    format of a CSV source; see :class:`tacit.engines.files.CsvFormat`.

    ``max_groups`` and ``max_rows`` hold for queries that state no number: each is a number, or ``"auto"``, by which it
    is found privately within the cost of a query; this is also the default. ``max_groups_limit`` and ``max_rows_limit``
    are upper limits for queries, and without them any number may be stated.
    """

    source: str
    version: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal_mark: str | None = None
    thousands_mark: str | None = None
    date_format: str | None = None
    null_values: tuple[str, ...] | None = None
    # pydantic has a method called "schema".
    named_in: str | None = Field(default=None, alias="schema")
    public: bool = False
    population: str | None = None
    unit: str | None = None
    max_groups: ContributionField | None = None
    max_rows: ContributionField | None = None
    unit_rows: int = Field(default=UNIT_ROWS, ge=1, strict=True)
    table_rows: int = Field(default=TABLE_ROWS, ge=1, strict=True)
    text_length: int = Field(default=TEXT_LENGTH, ge=1, strict=True)
    max_groups_limit: int | None = Field(default=None, ge=1, strict=True)
    max_rows_limit: int | None = Field(default=None, ge=1, strict=True)
    columns: dict[str, ColumnModel] = Field(default_factory=dict)


class PolicyModel(StrictModel):
    """Limits on spending within a budget; amounts are epsilons.

    Args:
        per_query: the largest cost of one query.
        per_analyst: the cap of one analyst, fixed with their first charge unless an operator decides otherwise.
        per_version: the cap on all charges in one ``version``; the budget is the cap on the charges of all versions.
        version: a name for the present data, or for a period; another name begins another version.
        warn_at: percentages of a budget or a share from which on a warning is shown.
    """

    per_query: FileNumber | None = None
    per_analyst: FileNumber | None = None
    per_version: FileNumber | None = None
    version: str | None = None
    warn_at: tuple[Annotated[int, Field(ge=1, le=100, strict=True)], ...] = (50, 80)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.per_version is None) != (self.version is None):
            raise PydanticCustomError("policy", "per_version and version belong together: state both or neither")
        return self


class PopulationModel(StrictModel):
    """The budget of a population, and its currency.

    ``query_delta`` is the delta of a query that needs one and states none; by default a hundredth of the budget's.
    """

    epsilon: FileNumber | None = None
    delta: FileNumber | None = None
    rho: FileNumber | None = None
    mu: FileNumber | None = None
    accounting: CurrencyKind = "pure"
    relation: str = "add_remove"
    query_delta: FileNumber | None = None
    policy: PolicyModel | None = None

    @property
    def policy_version(self) -> str:
        """The policy's version in the ledger's spelling; empty if it states none."""
        stated = None if self.policy is None else self.policy.version
        return plain_name(stated, "version") if stated else ""


class _About(StrictModel):
    name: str = "project"
    # Not in repr: an address may hold a password.
    engine: str = Field(default="duckdb", repr=False)
    ledger: str = "tacit.ledger"
    anchor: str | None = None
    key: str | None = None


class LimitsModel(StrictModel):
    """Limits of one query on the machine's resources, so that a hostile query cannot stop the curator.

    ``memory`` is a size such as ``"4GB"``; by default most of the machine's, which on a server its workers share.
    ``spill`` is a folder for data that exceeds it.
    """

    seconds: float | None = Field(default=300, gt=0)
    memory: str | None = Field(default=None, pattern=r"^[1-9][0-9]*(\.[0-9]+)? ?[KMGT]i?B$")
    threads: int | None = Field(default=None, ge=1, strict=True)
    spill: str | None = None


class GroupModel(StrictModel):
    """Role of a group of an identity provider; without ``populations`` its members see all populations."""

    role: Literal["owner", "analyst", "auditor"]
    populations: tuple[str, ...] | None = None


class OpenIDModel(StrictModel):
    """An identity provider of a server.

    ``client_secret`` is a place, ``env:NAME`` or ``file:/run/secrets/name``, never the secret itself. ``name_claim``
    holds a person's name, ``groups_claim`` lists their groups; either may be a path such as ``realm_access.roles``. A
    person's role is that of the first group in the file that they belong to.
    """

    issuer: str = Field(pattern=r"^https?://[^?#\s]+$")
    client_id: str = Field(min_length=1, max_length=200)
    client_secret: str | None = Field(default=None, pattern=r"^(env|file):.+$")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile", "email", "groups")
    groups: dict[str, GroupModel] = Field(min_length=1)


class ServerModel(StrictModel):
    """Settings of a server of the project that are not command-line options."""

    oidc: dict[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")], OpenIDModel] = Field(
        default_factory=dict
    )


class ProjectModel(StrictModel):
    """The whole project file."""

    project: _About = Field(default_factory=_About)
    limits: LimitsModel = Field(default_factory=LimitsModel)
    server: ServerModel = Field(default_factory=ServerModel)
    populations: dict[str, PopulationModel] = Field(default_factory=dict)
    tables: dict[str, TableModel]


@dataclass(frozen=True)
class Project:
    """A project ready to be opened: public metadata, the source of each table, budgets, and places of ledger and keys.

    ``ledger``, ``anchor`` and ``key`` are places; None without a project file that states them. A file or frame that
    its owner opens without a project file has only the machine's limits.
    """

    name: str
    catalog: Catalog
    sources: Mapping[str, Source]
    populations: Mapping[str, PopulationModel]
    ledger: str | None = None
    anchor: str | None = None
    key: str | None = None
    limits: LimitsModel = field(default_factory=lambda: LimitsModel(seconds=None))
    engine: str = field(default="duckdb", repr=False)
    providers: Mapping[str, OpenIDModel] = field(default_factory=dict)


def load(path: str | Path) -> Project:
    """Return the project that a file describes; relative sources are looked up in the file's folder."""
    return project_of(read_model(path), Path(path).parent)


def read_model(path: str | Path) -> ProjectModel:
    """Return the content of a project file; no data is read."""
    return validate(ProjectModel, read_toml(Path(path), "project"))


def project_of(model: ProjectModel, folder: Path) -> Project:
    """Return the project of a parsed file; relative sources are looked up in ``folder``."""
    about = model.project
    kind = engine_kind(about.engine)
    sources = {
        name: written_as(Source.on(kind, table.source, folder, table.version, f"tables.{name}"), table, name)
        for name, table in model.tables.items()
    }
    named = {name: source.path or "" for name, source in sources.items() if source.kind == "table"}
    project = build(model, sources, stored_types(about.engine, named) if named else {})
    kept = _places(about, folder)
    _check_providers(model)
    return replace(
        project, ledger=kept.ledger, anchor=kept.anchor, key=kept.key, limits=model.limits, engine=about.engine,
        providers=model.server.oidc,
    )  # fmt: skip


def _check_providers(model: ProjectModel) -> None:
    for name, provider in model.server.oidc.items():
        for group, rule in provider.groups.items():
            where = f"server.oidc.{name}.groups.{group}.populations"
            if rule.role == "owner" and rule.populations is not None:
                raise InputError(where, "an owner sees everything: leave it out, or choose another role")
            for population in rule.populations or ():
                if population not in model.populations:
                    raise InputError(where, f"there is no [populations.{population}] in the file")


@dataclass(frozen=True)
class Places:
    """Places of the files that outlive the process."""

    ledger: str | None
    anchor: str | None
    key: str | None


def load_places(path: str | Path) -> Places:
    """Return the places of a project's ledger and keys; no data is read."""
    return _places(read_model(path).project, Path(path).parent)


def _places(about: _About, folder: Path) -> Places:
    key = "tacit.key" if about.key is None and "://" in about.ledger else about.key
    return Places(_beside(about.ledger, folder), _beside(about.anchor, folder), _beside(key, folder))


def _beside(text: str | None, folder: Path) -> str | None:
    """Return a place of the project file; a relative path is in the file's folder."""
    return text if text is None or text == MEMORY or "://" in text else str(folder / text)


def validate(kind: type[_Model], content: object, where: str = "") -> _Model:
    """Return the content as a model, or raise an InputError that names the place of the first problem."""
    try:
        return kind.model_validate(content)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in (where, *first["loc"]) if part != "")
        message = first["msg"][0].lower() + first["msg"][1:]
        known = {"extra_forbidden": "is an unknown setting; check the spelling", "missing": "is missing"}
        raise InputError(place or "project", known.get(first["type"], message)) from None


_FORM = ("delimiter", "encoding", "decimal_mark", "thousands_mark", "date_format", "null_values")


def written_as(source: Source, model: TableModel, name: str) -> Source:
    """Return a source with the format of its CSV files.

    Raises:
        InputError: the format is invalid, or is stated of a source that is not CSV.
    """
    stated = {word: said for word in _FORM if (said := getattr(model, word)) is not None}
    dates = {
        (said.source or column).lower(): said.date_format
        for column, said in model.columns.items()
        if said.date_format is not None
    }
    if source.kind != "csv":
        places = [*stated, *(f"columns.{column}.date_format" for column in dates)]
        if places:
            raise InputError(
                f"tables.{name}.{places[0]}", "is for CSV sources; this one says by itself how it is written"
            )
        return source
    try:
        return replace(source, csv=CsvFormat(**stated, date_formats=dates))
    except InputError as problem:
        raise InputError(f"tables.{name}.{problem.parameter}", problem.problem) from None


def build(
    model: ProjectModel, sources: Mapping[str, Source], known: Mapping[str, Mapping[str, SqlType | None]] | None = None
) -> Project:
    """Return the project of a checked file; ``known`` are columns reported by a database."""
    populations = [Population(name, as_relation(population.relation)) for name, population in model.populations.items()]
    for name, table in model.tables.items():
        if table.population is not None and table.population not in model.populations:
            raise InputError(f"tables.{name}.population", f"there is no [populations.{table.population}] in the file")
    tables = [_table(name, table, sources[name], (known or {}).get(name)) for name, table in model.tables.items()]
    return Project(
        model.project.name, Catalog(tuple(tables), tuple(populations)), dict(sources), dict(model.populations)
    )


def _table(name: str, model: TableModel, source: Source, known: Mapping[str, SqlType | None] | None) -> Table:
    stored = known if known is not None else column_types(source, f"tables.{name}.source")
    keys = []
    for column, said in model.columns.items():
        where = f"tables.{name}.columns.{column}"
        if stored is not None and (said.source or column) not in stored:
            words = "is not a column of the source" if said.source is None else f"{said.source!r} is not in the source"
            raise InputError(where, words)
        if stored is None and said.type is None and declared_type(said) is None:
            raise InputError(
                where, "needs a type: this kind of source does not state one, and neither bounds nor categories say it"
            )
        if said.references is not None:
            other, _, references = said.references.partition(".")
            if not other or not references:
                raise InputError(f"{where}.references", f"must be 'table.column', got {said.references!r}")
            keys.append(ForeignKey(column, other, references))
    called = {said.source: column for column, said in model.columns.items() if said.source is not None}
    names = [*model.columns] if stored is None else []
    for each, kind in (stored or {}).items():
        stated = model.columns.get(each)
        if each in called:
            names.append(called[each])
        elif (stated is None and kind is not None and is_name(each)) or (stated is not None and stated.source is None):
            names.append(each)
    if not names:
        raise InputError(f"tables.{name}.columns", "must list the columns: this kind of source does not state them")
    columns = []
    for column in names:
        said = model.columns.get(column, ColumnModel())
        known_type = (stored or {}).get(said.source or column)
        columns.append(_column(f"tables.{name}.columns.{column}", column, said, known_type))
    return Table(
        name,
        tuple(columns),
        public=model.public,
        population=model.population,
        unit=model.unit,
        foreign_keys=tuple(keys),
        max_groups=_number(model, model.max_groups),
        max_rows=_number(model, model.max_rows),
        unit_rows=model.unit_rows,
        table_rows=model.table_rows,
        text_length=model.text_length,
        max_groups_limit=model.max_groups_limit,
        max_rows_limit=model.max_rows_limit,
        schema=model.named_in,
        unread=tuple(column for column, kind in (stored or {}).items() if kind is None and column not in model.columns),
    )


def declared_type(said: ColumnModel) -> str | None:
    """Return the type that categories or bounds imply, for sources that state no types; None if they imply none.

    Between numeric bounds there may be fractions, so they imply DOUBLE; state ``integer``, or ``decimal`` and a step,
    for whole numbers and amounts.
    """
    if said.categories is not None:
        listed = said.categories
        if all(isinstance(value, str) for value in listed):
            return "text"
        if all(isinstance(value, bool) for value in listed):
            return "boolean"
        if all(isinstance(value, int) and not isinstance(value, bool) for value in listed):
            return "integer"
        return _temporal(listed)
    if said.bounds is None:
        return None
    if all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in said.bounds):
        return "decimal" if said.step is not None else "double"
    return _temporal(said.bounds)


def _temporal(values: tuple[_Cell, ...]) -> str | None:
    if all(isinstance(value, dt.datetime) for value in values):
        return "timestamp"
    dates = all(isinstance(value, dt.date) and not isinstance(value, dt.datetime) for value in values)
    return "date" if dates else None


def _number(model: TableModel, stated: ContributionNumber | None) -> ContributionNumber:
    """Return a contribution bound: as stated; else 1 if a person has one row at most, and AUTO otherwise."""
    if stated is not None:
        return stated
    unit = next((said for name, said in model.columns.items() if name.lower() == (model.unit or "").lower()), None)
    one_row = model.public or model.unit == ROW or (unit is not None and unit.unique)
    return 1 if one_row else AUTO


def _column(where: str, name: str, model: ColumnModel, stored: SqlType | None) -> Column:
    step = None if model.step is None else exact_positive(model.step, f"{where}.step")
    said = model.type or (declared_type(model) if stored is None else None)
    if said is not None:
        kind = parse_type(said, step, f"{where}.type")
    elif stored is not None:
        kind = stored
    else:
        raise InputError(where, 'has a type that Tacit does not read by itself; state one, such as type = "text"')

    def read(value: Any, what: str) -> Value:
        return as_declared(value, kind, f"{where}.{what}")

    bounds = None if model.bounds is None else (read(model.bounds[0], "bounds"), read(model.bounds[1], "bounds"))
    categories: tuple[Value | None, ...] | None = None
    if model.categories is not None:
        categories = tuple(read(value, "categories") for value in model.categories)
        categories += (None,) if model.null_category else ()
    try:
        return Column(name, kind, bounds, step, categories, model.nullable, model.unique, model.source)
    except InputError as problem:
        other = "" if is_column_name(name) else f"; give it such a name and write source = {name!r} beside its type"
        raise InputError(where, problem.problem + other) from None
