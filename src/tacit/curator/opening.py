"""``tacit.open``: a curator from a project file, or from one file or frame; its ledger and keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting.currencies import implied_currency
from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.core.numbers import Number
from tacit.curator.curator import Curator
from tacit.engines.protocol import Engine
from tacit.engines.registry import csv_header, is_spark_frame, open_engine
from tacit.ledger import Ledger
from tacit.ledger.entries import plain_name
from tacit.ledger.journal import read_body
from tacit.ledger.memory import MEMORY, rehearsed_on
from tacit.ledger.protocol import Reader
from tacit.project.project_file import ColumnModel, Project, ProjectModel, build, load, validate, written_as
from tacit.project.source import BoundUnits, Digests, Source, SourceBinder, declared_terms, table_name, unit_terms
from tacit.query.catalog import UNIT_ROWS
from tacit.query.contribution import ContributionNumber
from tacit.releases.accounts import OWNER, account_kind, filter_of, version_caps
from tacit.releases.keys import Keyring, Keys, has_waiting, keys_in_force, make_keys, mismatch, missing_keys, open_keys
from tacit.releases.query import QueryContext

if TYPE_CHECKING:
    pass


def open_curator(
    source: Any,
    *,
    unit: str | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    mu: Number | None = None,
    accounting: str | None = None,
    relation: str | None = None,
    columns: Mapping[str, Any] | None = None,
    table: str | None = None,
    population: str | None = None,
    max_groups: ContributionNumber | None = None,
    max_rows: ContributionNumber | None = None,
    unit_rows: int | None = None,
    max_groups_limit: int | None = None,
    max_rows_limit: int | None = None,
    ledger: str | Path | None = None,
    analyst: str = OWNER,
    session: Any = None,
    csv: Mapping[str, Any] | None = None,
) -> Curator:
    """Open a curator for a project file, or for one Parquet file, CSV file, pattern of files, or frame.

    Of a file or frame only the names and types of columns are read. Bounds and categories are never taken from data:
    state them.

    A project file names a ledger (by default ``tacit.ledger`` next to it), where every charge is durable before data
    is read. Without a project file the account is kept in memory and **forgotten when the process ends**, unless
    ``ledger`` names a file for it.

    Args:
        source: the path of a project file (``.toml``), of data (``.parquet``, ``.csv``, with ``*`` for many), or a
            pandas, Polars, Arrow or Spark frame. With a project file no other argument but ``analyst`` and
            ``session`` is allowed.
        unit: the column that identifies the person a row belongs to, or ``"row"`` when every row is a person.
        epsilon: the budget of all queries together; or ``rho`` or ``mu``, by kind of accounting.
        delta: delta of the budget, for accounting other than ``"pure"``.
        rho: see ``epsilon``.
        mu: see ``epsilon``.
        accounting: ``"pure"``, ``"approx"``, ``"zcdp"`` or ``"gdp"``; ``"zcdp"`` where a delta is stated, else
            ``"pure"``.
        relation: neighbouring relation of databases; by default ``"add_remove"``.
        columns: public knowledge about each column: a pair ``(lowest, highest)``, a list of all its values, the name of
            its type, or a mapping with the keys of the project file.
        table: name of the table in queries; by default the name of the file, or ``data`` for frames.
        population: name of the population; by default ``people``.
        max_groups: contribution bound where a query states none: the most groups one person counts in; or ``"auto"``
            (the default): found privately, within the cost of each query.
        max_rows: contribution bound where a query states none: the most rows of one person that count per group; or
            ``"auto"`` (the default).
        unit_rows: the most rows that one person has, for the bound on the work of a query; at most this number of rows
            of a person enters a join that multiplies rows. Default 256.
        max_groups_limit: ceiling on the ``max_groups`` that a query may state; by default none.
        max_rows_limit: ceiling on the ``max_rows`` that a query may state; by default none.
        ledger: path of a ledger file, so that the account outlasts the process; by default in memory.
        analyst: name of the analyst, where a query states none; by default the owner of the data.
        session: a Spark session to use, for a project whose engine is Spark; a Spark frame brings its own.
        csv: format of a CSV file, with the keys of the project file: ``delimiter``, ``encoding``,
            ``decimal_mark``, ``thousands_mark``, ``date_format``, ``null_values``.
    """
    stated = {
        "unit": unit, "epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu, "accounting": accounting,
        "relation": relation, "columns": columns, "table": table, "population": population,
        "max_groups": max_groups, "max_rows": max_rows, "unit_rows": unit_rows, "ledger": ledger,
        "max_groups_limit": max_groups_limit, "max_rows_limit": max_rows_limit,
        "csv": csv,
    }  # fmt: skip
    if isinstance(source, (str, Path)) and Path(source).suffix.lower() == ".toml":
        extra = next((name for name, value in stated.items() if value is not None), None)
        if extra is not None:
            raise InputError(extra, "belongs in the project file when one is opened")
        return open_project(load(source), analyst=analyst, session=session)
    if unit is None:
        raise InputError("unit", "say which column names the person a row belongs to, or unit='row'")
    words = ("delimiter", "encoding", "decimal_mark", "thousands_mark", "date_format", "null_values")
    for word in csv or {}:
        if word not in words:
            raise InputError(f"csv.{word}", f"is none of {', '.join(words)}")
    place = Source.of(str(source)) if isinstance(source, (str, Path)) else Source.of_frame(source)
    name = table or table_name(place)
    people = population or "people"
    content = {
        "populations": {people: _budget(stated)},
        "tables": {
            name: {
                "source": place.path or "frame",
                "population": people,
                "unit": unit,
                "max_groups": max_groups,
                "max_rows": max_rows,
                "unit_rows": UNIT_ROWS if unit_rows is None else unit_rows,
                "max_groups_limit": max_groups_limit,
                "max_rows_limit": max_rows_limit,
                "columns": {column: _column(column, said) for column, said in (columns or {}).items()},
                **(csv or {}),
            }
        },
    }
    model = validate(ProjectModel, content)
    if place.kind == "csv":
        place = written_as(place, model.tables[name], name)
        model = _with_header(model, name, place)
    elif csv is not None:
        raise InputError("csv", "is for CSV files")
    project = build(model, {name: place})
    if session is None and is_spark_frame(place.frame):
        session = place.frame.sparkSession
    return open_project(project, ledger=None if ledger is None else str(ledger), analyst=analyst, session=session)


def open_project(project: Project, *, ledger: str | None = None, analyst: str = OWNER, session: Any = None) -> Curator:
    """Open a curator on ``ledger``, by default the project's ledger; in memory where there is neither.

    The opening is rehearsed on a ledger in memory first, so that a refused opening leaves nothing behind.
    """
    place = ledger or project.ledger or MEMORY
    engine = _engine(project, session)
    try:
        tried = None
        if place != MEMORY and ("://" in place or not Path(place).exists()):
            tried = rehearse_new(project, engine)
        opened = open_ledger(place, anchor=project.anchor, key=project.key)
        try:
            if place != MEMORY:
                opened.digests.hold(tried)
                rehearse(project, engine, opened)
            curator = Curator(_context(project, engine, opened), analyst)
            opened.digests.write()
            return curator
        except BaseException:
            opened.ledger.close()
            raise
    except BaseException:
        engine.close()
        raise


def rehearse_new(project: Project, engine: Engine) -> Digests:
    """Rehearse an opening on a new ledger in memory, and return the digests of files that it computed.

    Raises:
        InputError: as the opening would.
    """
    opened = open_ledger(MEMORY)
    with opened.ledger:
        _context(project, engine, opened)
    return opened.digests


def rehearse(project: Project, engine: Engine, opened: OpenedLedger) -> None:
    """Rehearse an opening on the content of a ledger, and write nothing.

    Raises:
        InputError: as the opening would.
    """
    with opened.ledger.rehearsal() as ledger:
        _context(project, engine, replace(opened, ledger=ledger))


def try_opening(project: Project, reader: Reader | None, key: str, digests: str) -> None:
    """Rehearse all steps of opening a project, and change nothing: neither ledger nor keys nor digests.

    Args:
        project: project as read from its file.
        reader: reader of its ledger; None where there is none yet.
        key: path of the key file.
        digests: path of the file with digests of files seen before.

    Raises:
        InputError: as the opening would.
    """
    engine = _engine(project, None)
    try:
        if reader is None:
            rehearse_new(project, engine)
            return
        keys = open_keys(key, make=False)
        known = Digests(digests, keys.row_secret)
        known.hold()
        with Ledger.on(*rehearsed_on(reader, str(read_body(reader, 1)["ledger"]))) as ledger:
            problem = mismatch(ledger, keys)
            if problem:
                raise InputError("key", f"{key} holds {problem}")
            _context(project, engine, OpenedLedger(ledger, Keyring(keys), known))
    finally:
        engine.close()


def _context(project: Project, engine: Engine, opened: OpenedLedger) -> QueryContext:
    accounts = {}
    for name, model in project.populations.items():
        limit = filter_of(name, model)
        accounts[name] = account_kind(name, model, limit)
        opened.ledger.ensure_account(name, limit)
        renewed = version_caps(name, model, limit)
        if renewed is not None:
            opened.ledger.renew(name, *renewed)
    sources = SourceBinder(project.catalog, project.sources, opened.ledger, opened.digests, opened.keys.veil, engine)
    sources.bind()
    for table in project.catalog.tables:
        if table.population is not None and not table.public:
            terms = declared_terms(project.catalog, table)
            opened.ledger.units.declare(project.name, table.name, table.population, terms)
    parts = (engine, opened.ledger, opened.keys, accounts, sources.version, sources.check_present)
    return QueryContext(project.name, project.catalog, *parts)


def _engine(project: Project, session: Any) -> Engine:
    address = project.engine if session is None else session
    return open_engine(address, project.catalog, project.sources, project.limits.model_dump())


def _with_header(model: ProjectModel, name: str, place: Source) -> ProjectModel:
    """Add the undeclared columns of a CSV file as text columns: its header is public, like a schema."""
    table = model.tables[name]
    if not place.files or not place.files[0].is_file():
        return model
    said = {(column.source or called).lower() for called, column in table.columns.items()}
    taken = {called.lower() for called in table.columns}
    header = csv_header(str(place.files[0]), place.csv)
    rest = [each for each in header if is_name(each) and each.lower() not in said | taken]
    columns = {**table.columns, **{each: ColumnModel(type="text") for each in rest}}
    return model.model_copy(update={"tables": {name: table.model_copy(update={"columns": columns})}})


def _budget(stated: Mapping[str, Any]) -> dict[str, Any]:
    accounting = stated["accounting"]
    if accounting is None:
        accounting = implied_currency({word for word, number in stated.items() if number is not None}).kind
    if all(stated[word] is None for word in ("epsilon", "rho", "mu")):
        raise InputError("epsilon", "state the budget of all queries together, such as epsilon='4'")
    budget = {word: _text(stated[word]) for word in ("epsilon", "delta", "rho", "mu") if stated[word] is not None}
    relation = {} if stated["relation"] is None else {"relation": str(stated["relation"])}
    return {"accounting": accounting, **budget, **relation}


def _text(number: Number) -> str | int | float:
    return number if isinstance(number, (str, int, float)) else str(number)


def _column(name: str, said: Any) -> dict[str, Any]:
    if isinstance(said, Mapping):
        return dict(said)
    if isinstance(said, str):
        return {"type": said}
    if isinstance(said, tuple) and len(said) == 2:
        return {"bounds": said}
    if isinstance(said, (list, set, frozenset, tuple)):
        values = sorted(said, key=repr) if isinstance(said, (set, frozenset)) else list(said)
        return {"categories": [v for v in values if v is not None], "null_category": None in values}
    raise InputError(f"columns.{name}", "must be (lowest, highest), a list of values, a type, or a mapping")


@dataclass(frozen=True)
class OpenedLedger:
    """An open ledger with its keys and the digests of files seen before."""

    ledger: Ledger
    keys: Keyring
    digests: Digests


def open_ledger(place: str, *, anchor: str | None = None, key: str | None = None) -> OpenedLedger:
    """Open a ledger, or make one.

    Args:
        place: path of a file, ``postgresql://…``, or ``":memory:"``.
        anchor: path of the file that records the newest entry; see :meth:`tacit.ledger.Ledger.open`.
        key: path of the key file; by default next to the ledger.

    Raises:
        InputError: the keys are missing, or are those of another ledger.
        LedgerError: the ledger's integrity cannot be verified.
    """
    if place == MEMORY:
        keys = make_keys()
        ledger = Ledger.open(MEMORY, public_key=keys.public_key, key_check=keys.groups_check)
        return OpenedLedger(ledger, Keyring(keys), Digests(key=keys.row_secret))
    remote = "://" in place
    if not remote:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    beside = key or ("tacit.key" if remote else f"{place}.key")
    fresh = not Path(beside).exists()
    made = _first_keys(beside, make=remote or not Path(place).exists())
    public_key, key_check = ("", "") if made is None else (made.public_key, made.groups_check)
    try:
        ledger = Ledger.open(place, anchor=anchor, create=made is not None, public_key=public_key, key_check=key_check)
    except BaseException:
        if fresh and made is not None and not remote and not Path(place).exists():
            # The keys were made for a ledger that could not be made.
            Path(beside).unlink(missing_ok=True)
        raise
    try:
        keys = keys_in_force(ledger, Path(beside))
    except InputError:
        ledger.close()
        if fresh and made is not None:
            # The ledger existed before, and these keys, made just now, are not its keys.
            Path(beside).unlink(missing_ok=True)
            raise missing_keys(beside) from None
        raise
    digests = Digests(f"{beside}.digests" if remote else f"{place}.digests", keys.row_secret)
    return OpenedLedger(ledger, Keyring(keys, Path(beside)), digests)


def _first_keys(place: str, *, make: bool) -> Keys | None:
    """Return the keys in the key file, or new keys for a new ledger.

    An existing ledger without its keys gets no new keys: receipts would be signed with another key from then on. None
    where only waiting keys are left, which are to replace lost keys; the ledger names the key in force.
    """
    try:
        return open_keys(place, make=make)
    except InputError:
        if Path(place).exists() or not has_waiting(Path(place)):
            raise
        return None


def fix_units(
    project: Project, population: str, *, reason: str, operator: str, session: Any = None
) -> tuple[dict[str, str] | None, dict[str, str]]:
    """Change an account's unit of protection to the one a project states; return the terms before and the new terms.

    The unit of protection is a term of the account. Where a column was renamed, or was wrong from the start, an
    operator may change it; the ledger entry records the operator, the reason and the terms before. The amount spent
    stays, and earlier releases protect the earlier units.

    Args:
        project: project with a ledger that outlasts the process.
        population: the population of the account.
        reason: reason of the change, stored permanently.
        operator: name of the operator, stored permanently.
        session: a Spark session, for a project whose engine is Spark.

    Raises:
        InputError: no table is about the population, or a source belongs to another population.
        AccessError: the population has no account.
    """
    units = unit_terms(project.catalog)
    if population not in units or project.ledger is None:
        raise InputError("population", f"must be one that tables are about: {', '.join(units)}")
    address = project.engine if session is None else session
    with closing(open_engine(address, project.catalog, project.sources, project.limits.model_dump())) as engine:
        opened = open_ledger(project.ledger, anchor=project.anchor, key=project.key)
        with opened.ledger as ledger:
            veil = opened.keys.veil
            sources = SourceBinder(project.catalog, project.sources, ledger, opened.digests, veil, engine)
            bound = BoundUnits(project.catalog, ledger, veil)
            found = [(table, sources.fingerprint(table)) for table in project.catalog.tables]
            for table, fingerprint in found:
                if table.population == population:
                    for owner in filter(None, map(ledger.source_of, map(veil, fingerprint.marks))):
                        if owner != plain_name(population, "population"):
                            words = f"this source belongs to the population {owner!r}"
                            raise InputError(f"tables.{table.name}.population", words)
            known = [binding for owner, binding in bound.bindings(found) if owner == population]
            before = ledger.units.unit_of(population)
            ledger.units.change_unit(population, units[population], known, reason=reason, operator=operator)
    return before, units[population]


#: The public name, ``tacit.open``.
open = open_curator  # noqa: A001
