"""Pages of a project file: sources, tables, columns and a picture of what bounds keep, budgets, checking and saving.

``docs/choosing-epsilon.md`` has the published numbers of the budget's page with their sources; a test compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from tacit.core.cautions import cautions, guess_probability
from tacit.core.errors import InputError, TacitError
from tacit.core.extras import install_command
from tacit.core.numbers import exact_positive
from tacit.curator.opening import SpendingEffects, effects_of, is_account_term, opening_problems
from tacit.engines.registry import is_database_address, stored_names
from tacit.project.draft import (
    AMBIGUOUS,
    CSV,
    PARQUET,
    SUPPOSED,
    address_without_secrets,
    csv_checks,
    draft_csv,
    draft_file,
    guess_unit,
    postgres_tables,
    read_rows,
    read_sample,
    sum_and_average_errors,
)
from tacit.project.owner_view import (
    MOST_ROWS,
    ColumnHistogram,
    RowsKept,
    UnitFacts,
    brought_near,
    column_values,
    histogram,
    place_of_value,
    rows_kept,
    unit_facts,
)
from tacit.project.project_editing import Place, stated_value
from tacit.project.project_file import ColumnModel, LimitsModel, PopulationModel, TableModel, load, validate
from tacit.project.project_template import MARK, Draft, DraftColumn, DraftTable
from tacit.project.source import Source, column_types
from tacit.query.catalog import ROW, UNIT_ROWS, Column, Table
from tacit.query.types import Kind
from tacit.releases.accounts import filter_of
from tacit.server.console.amounts import as_pair, promise, up
from tacit.server.console.charts import draw_histogram
from tacit.server.console.owner_mode import OwnerRequest, address, readable
from tacit.server.console.page_request import HEADERS

#: Published releases, their epsilon, and the privacy unit it applies to.
PUBLISHED: Final = (
    ("US Census 2020, redistricting data", "19.61 at δ = 10⁻¹⁰", "a person, once"),
    ("Apple, emoji suggestions", "4, local model", "a device, per day"),
    ("Apple, health types", "2, local model", "a device, per day"),
    ("Apple, new words", "16, local model", "a device, per day"),
    ("Google, community mobility reports", "2.64", "a person, per day"),
    ("Israel's Ministry of Health, live births", "9.98", "a birth, once"),
)
_STEPS: Final = ("0.1", "0.5", "1", "2", "4", "8")
_WORDS: Final = ("epsilon", "delta", "rho", "mu", "query_delta")
_ACCOUNTING: Final = (
    ("pure", "pure: costs add up; no delta"),
    ("approx", "approx: costs and deltas add up"),
    ("zcdp", "zcdp: many small queries cost less than their sum"),
    ("gdp", "gdp: the same for Gaussian noise"),
)
#: Costs of a query for which pages show how many fit in a budget.
_PRICES: Final = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
_TYPES: Final = ("text", "integer", "decimal", "double", "boolean", "date", "timestamp")
_EPSILON: Final = "0.5"
_MOST_CATEGORIES: Final = 10_000
_FORM: Final = ("delimiter", "encoding", "decimal_mark", "thousands_mark", "date_format")
_NUMBERS: Final = ("max_groups", "max_rows", "max_groups_limit", "max_rows_limit")
_EXAMPLES: Final = 3
#: Maximum number of columns of a table whose values are all checked against their types.
_MOST_CHECKED: Final = 200
_MOST_FILES: Final = 200


# Budgets --------------------------------------------------------------------------------------------------------------


async def show_budget(visit: OwnerRequest, problem: str = "") -> Response:
    """Show the budget of a population and the risk under it."""
    name, model = _budget_asked(visit)
    context = await visit.run(_budget_context, visit, name, model)
    return await visit.page("project_budget.html", 400 if problem else 200, problem=problem, **context)


async def change_budget(visit: OwnerRequest) -> Response:
    name, _ = _budget_asked(visit)
    return await visit.edited(lambda: _budget_changes(visit, name), show_budget, address("budget", population=name))


def _budget_asked(visit: OwnerRequest) -> tuple[str, PopulationModel]:
    name = visit.asked("population")
    people = visit.content("populations")
    if name not in people:
        raise InputError("population", f"there is no population {name!r} in the project")
    return name, validate(PopulationModel, people[name], f"populations.{name}")


def _budget_changes(visit: OwnerRequest, name: str) -> dict[Place, Any]:
    said: dict[str, Any] = {word: visit.typed(word) or None for word in _WORDS}
    if not (said["epsilon"] or said["rho"] or said["mu"]):
        said["epsilon"] = MARK
    usual = {"accounting": "pure", "relation": "add_remove"}
    return visit.changes_at(("populations", name), said | {word: visit.form.get(word) for word in usual}, usual)


def _budget_context(visit: OwnerRequest, name: str, model: PopulationModel) -> dict[str, Any]:
    people = _people(visit, name)
    said = {word: "" if getattr(model, word) in (None, MARK) else str(getattr(model, word)) for word in _WORDS}
    context: dict[str, Any] = {
        "population": name,
        "said": said,
        "accounting": model.accounting,
        "relation": model.relation,
        "kinds": _ACCOUNTING,
        "published": PUBLISHED,
        "people": people,
        "delta_hint": "" if not people else f"1e-{len(str(10 * people))}",
        "risks": guess_risks(None),
        "promise": None,
        "queries": [],
        "cautions": (),
        "trouble": "",
    }
    if said["epsilon"] or said["rho"] or said["mu"]:
        try:
            epsilon, delta = as_pair(filter_of(name, model).guarantee)
        except TacitError as problem:
            return {**context, "trouble": str(problem)}
        context |= {
            "promise": promise(epsilon, delta),
            "risks": guess_risks(epsilon, up(epsilon)),
            "queries": [(up(price), int(epsilon / price)) for price in _PRICES if price <= epsilon],
            "cautions": cautions(epsilon=epsilon, delta=delta or None, people=people or None),
        }
    return context


def _people(visit: OwnerRequest, name: str) -> int:
    """Return the largest number of people in any table of a population that has a unit column; 0 if unknown."""
    most = 0
    for table, said in visit.content("tables").items():
        if not isinstance(said, dict) or said.get("population") != name:
            continue
        try:
            _, known, source = visit.viewed(table)
            column = known.find(str(said.get("unit", "")))
            if column is not None and not source.is_elsewhere:
                facts = visit.shared.once("unit", column, source, partial(unit_facts, source, column))
                most = max(most, facts.people)
        except TacitError:
            continue
    return most


def guess_risks(chosen: Fraction | None, text: str = "") -> list[tuple[str, Fraction, bool]]:
    """Return, for several epsilons, the highest probability of guessing a person's secret bit with even prior odds.

    Each item is the epsilon as text, the probability, and whether this epsilon is the chosen one.
    """
    steps = {exact_positive(step, "epsilon"): step for step in _STEPS}
    if chosen is not None:
        steps.setdefault(chosen, text)
    return [(said, guess_probability(number), number == chosen) for number, said in sorted(steps.items())]


# Columns --------------------------------------------------------------------------------------------------------------


async def show_column(visit: OwnerRequest, problem: str = "") -> Response:
    """Show a column with a histogram of the values that its declaration keeps."""
    name, model, column, said = _column_asked(visit)
    context = await visit.run(_column_view, visit, name, model, column, said)
    return await visit.page("project_column.html", 400 if problem else 200, problem=problem, **context)


async def change_column(visit: OwnerRequest) -> Response:
    name, _, column, said = _column_asked(visit)
    at = ("tables", name, "columns", column)
    if visit.form.get("leave_out") == "yes":
        return await visit.edited(lambda: {at: None}, show_column, address("table", table=name))
    return await visit.edited(
        lambda: visit.changes_at(at, _stated(visit, said)), show_column, address("column", table=name, column=column)
    )


def _column_asked(visit: OwnerRequest) -> tuple[str, TableModel, str, ColumnModel]:
    name, model = visit.table()
    column = visit.asked("column")
    said = model.columns.get(column)
    if said is None:
        try:
            known = visit.viewed(name)[1].find(column)
        except TacitError:
            known = None
        if known is None:
            raise InputError("column", f"there is no column {column!r} in {name}")
        said = ColumnModel()
    return name, model, column, said


def _stated(visit: OwnerRequest, said: ColumnModel) -> dict[str, Any]:
    """Return the settings in the form as in a project file; None for a setting that is not stated."""
    low, high, kind = map(visit.typed, ("low", "high", "type"))
    lines = (line.strip("\r") for line in visit.form.get("categories", "").split("\n"))
    listed = [line for line in lines if line.strip()]
    if len(listed) > _MOST_CATEGORIES:
        raise InputError("categories", f"are {len(listed):,}, and the editor takes {_MOST_CATEGORIES:,}")
    categories: list[Any] = listed
    if kind in ("integer", "decimal", "double", "date", "timestamp"):
        categories = [stated_value(line) for line in listed]
    elif kind == "boolean":
        categories = [{"true": True, "false": False}.get(line.lower(), line) for line in listed]
    ticked = {name: visit.form.get(name) == "yes" or None for name in ("null_category", "unique")}
    return {
        "type": kind or (MARK if said.type == MARK else None),
        **{word: visit.typed(word) or None for word in ("step", "date_format", "references")},
        "bounds": [stated_value(end) if end else MARK for end in (low, high)] if low or high else None,
        "categories": categories or None,
        "nullable": False if visit.form.get("not_null") == "yes" else None,
        **ticked,
    }


def _column_view(visit: OwnerRequest, name: str, model: TableModel, column: str, said: ColumnModel) -> dict[str, Any]:
    context: dict[str, Any] = {
        "name": name,
        "column": column,
        "said": said,
        "types": _TYPES,
        "stored": "",
        "is_csv": Path(model.source).suffix.lower() in CSV,
        "is_unit": column.lower() == (model.unit or "").lower(),
        "low": "" if said.bounds is None else _typed(said.bounds[0]),
        "high": "" if said.bounds is None else _typed(said.bounds[1]),
        "categories": "\n".join(map(_typed, said.categories or ())),
        "trouble": "",
        "sampled": 0,
        "picture": None,
        "shape": None,
        "choices": [],
        "values": None,
        "epsilon": _EPSILON,
        "supposed": SUPPOSED,
        "targets": list(_targets(visit, name)),
    }
    try:
        project, table, source = visit.viewed(name)
        known = table.find(column)
        context["others"] = _others(table, column)
        if known is None:
            context["trouble"] = "" if said.type in (None, MARK) else "this column cannot be read as declared"
            return context
        context["stored"] = str(known.type).partition("(")[0].lower()
        near = source
        if source.is_elsewhere:
            # Bounds and categories change no value, so the rows are fetched only once.
            about = (known.stored_name, known.type)
            near = visit.shared.once("near", about, source, lambda: brought_near(project.engine, source, known))
            context["sampled"] = MOST_ROWS
        if known.type.is_ordered and known.type.kind is not Kind.BOOLEAN and not context["is_unit"]:
            shape = visit.shared.once("shape", known, source, lambda: histogram(near, known))
            context["shape"] = shape
            context["picture"] = None if shape is None else _picture(shape, known)
            context["choices"] = [] if shape is None else _choices(shape, name, model, known)
        if not context["is_unit"]:
            context["values"] = visit.shared.once("values", known, source, lambda: column_values(near, known))
    except TacitError as problem:
        context["trouble"] = str(problem)
    return {"others": (None, None), **context}


def _targets(visit: OwnerRequest, name: str) -> Iterator[str]:
    """Yield the columns of other tables that are declared unique, which a column here may reference."""
    for table, said in visit.content("tables").items():
        if table == name or not isinstance(said, dict) or not isinstance(said.get("columns"), dict):
            continue
        for column, about in said["columns"].items():
            if isinstance(about, dict) and about.get("unique") is True:
                yield f"{table}.{column}"


def _others(table: Table, column: str) -> tuple[str | None, str | None]:
    names = [each.name for each in table.columns]
    place = next((n for n, each in enumerate(names) if each.lower() == column.lower()), None)
    if place is None:
        return None, names[0] if names else None
    return names[place - 1] if place else None, names[place + 1] if place + 1 < len(names) else None


def _typed(value: Any) -> str:
    if value == MARK:
        return ""
    return "true" if value is True else "false" if value is False else str(value)


def _picture(shape: ColumnHistogram, column: Column) -> dict[str, Any]:
    bounds = None if column.bounds is None else (place_of_value(column.bounds[0]), place_of_value(column.bounds[1]))
    kept = "" if shape.clipped is None else f" Bounds keep {1 - sum(shape.clipped):.1%} of the values."
    words = f"Histogram of {column.name}: {shape.values:,} values.{kept}"
    return draw_histogram(shape.edges, shape.counts, bounds, f"values of {column.name}", words, is_time=shape.is_time)


def _choices(shape: ColumnHistogram, name: str, model: TableModel, column: Column) -> list[dict[str, Any]]:
    """Return round bounds, with the share of values that they keep and the error of an average under them."""
    limits = {word: getattr(model, word) for word in ("max_groups", "max_rows") if getattr(model, word) is not None}
    drafted = DraftColumn(column.name, str(column.type).partition("(")[0].lower())
    found = []
    for choice in shape.choices:
        stated = replace(drafted, bounds=(choice.low, choice.high))
        table = DraftTable(name, "", (stated,), **limits)
        errors = sum_and_average_errors(Draft("", ()), table, column.name, _EPSILON)
        found.append(
            {"low": choice.low, "high": choice.high, "kept": choice.kept, "error": errors and f"{errors[1]:,.3g}"}
        )
    return found


# Tables ---------------------------------------------------------------------------------------------------------------


async def show_table(visit: OwnerRequest, problem: str = "") -> Response:
    """Show a table with its declaration and facts about its data."""
    name, model = visit.table()
    context = await visit.run(_table_context, visit, name, model)
    return await visit.page("project_table.html", 400 if problem else 200, problem=problem, **context)


async def change_table(visit: OwnerRequest) -> Response:
    """Apply one of the forms of the page."""
    name, model = visit.table()
    return await visit.edited(lambda: _table_changes(visit, name, model), show_table, address("table", table=name))


def _table_changes(visit: OwnerRequest, name: str, model: TableModel) -> dict[Place, Any]:
    at = ("tables", name)
    match visit.form.get("part", ""):
        case "form":
            said: dict[str, Any] = {word: visit.typed(word) or None for word in _FORM}
            delimiter = visit.form.get("delimiter", "")
            if delimiter in ("\\t", "tab", " "):
                said["delimiter"] = " " if delimiter == " " else "\t"
            nulls = (part.strip() for part in visit.form.get("null_values", "").split(","))
            return visit.changes_at(at, said | {"null_values": [text for text in nulls if text] or None})
        case "unit":
            changes = visit.changes_at(at, _unit_stated(visit, model))
            people = changes.get((*at, "population"))
            if people is not None and people not in visit.content("populations"):
                changes[("populations", people, "epsilon")] = MARK
            return changes
        case "limits":
            stated = {word: _number(visit.typed(word)) for word in (*_NUMBERS, "unit_rows")}
            changes = visit.changes_at(at, stated, {"unit_rows": UNIT_ROWS})
            new = {place[-1]: value for place, value in changes.items() if value is not None}
            # With an invalid number, this page could not be shown again.
            validate(TableModel, {**visit.content("tables")[name], **new}, f"tables.{name}")
            return changes
        case "add":
            return _new_column(visit, name)
        case _:
            raise InputError("form", "is not one of this page")


def _unit_stated(visit: OwnerRequest, model: TableModel) -> dict[str, Any]:
    if visit.form.get("public") == "yes":
        return {"public": True, **dict.fromkeys(("population", "unit", *_NUMBERS))}
    # A table without a unit reaches one by a foreign key.
    unit = visit.typed("unit") or (None if _points(model) else MARK)
    limits = dict.fromkeys(("max_groups", "max_rows")) if unit == ROW else {}
    return {"public": None, "unit": unit, "population": visit.typed("population") or "people", **limits}


def _number(text: str) -> int | str | None:
    return int(text) if text.isdecimal() and len(text) < 19 else text or None


async def remove_table(visit: OwnerRequest) -> Response:
    """Remove a table from the project; its file is not deleted."""
    name, _ = visit.table()
    return await visit.edited(lambda: {("tables", name): None}, show_table, "./")


def _table_context(visit: OwnerRequest, name: str, model: TableModel) -> dict[str, Any]:
    """Return the template context of a table, as far as its declaration can be read."""
    points = _points(model)
    has_limits = not model.public and (points if model.unit is None else model.unit not in (MARK, ROW))
    context: dict[str, Any] = {
        "name": name,
        "model": model,
        "trouble": "",
        "remarks": [],
        "checks": [],
        "facts": None,
        "kept": None,
        # By the file name: even settings that cannot be read must be shown, to be corrected.
        "is_csv": Path(model.source).suffix.lower() in CSV,
        "is_row": model.unit == ROW,
        "may_point": points,
        "has_limits": has_limits,
        "populations": list(visit.content("populations")),
        "usual_rows": UNIT_ROWS,
    }
    drafted: Mapping[str, DraftColumn] = {}
    stored: Mapping[str, str | None] = {}
    samples: Mapping[str, list[str | None]] = {}
    try:
        project, table, source = visit.viewed(name)
        drafted, context["remarks"], samples = _looked(source)
        stored = _stored(source)
        if has_limits and not source.is_elsewhere:
            context["facts"], context["kept"] = _counted(visit, name)
        if context["is_csv"] and len(table.columns) <= _MOST_CHECKED:
            once = visit.shared.once
            context["checks"] = once("checks", table, source, lambda: list(csv_checks(project, name, look=True)))
    except TacitError as problem:
        context["trouble"] = str(problem)
    columns = _columns(model, drafted, stored, samples)
    names = [column["name"] for column in columns if column["is_declared"]]
    unit = next((each for each in names if each.lower() == (model.unit or "").lower()), model.unit)
    return {
        **context,
        "columns": columns,
        "names": names,
        "unit": "" if unit in (None, MARK) else unit,
        "guess": guess_unit(names),
    }


def _counted(visit: OwnerRequest, name: str) -> tuple[UnitFacts | None, RowsKept | None]:
    project, table, source = visit.viewed(name)
    column, once = table.find(table.unit or ""), visit.shared.once
    facts = None if column is None else once("unit", column, source, lambda: unit_facts(source, column))
    return facts, once("kept", project.catalog.digest, source, lambda: rows_kept(project, name))


def _looked(source: Source) -> tuple[dict[str, DraftColumn], list[str], Mapping[str, list[str | None]]]:
    """Return guesses by source column, remarks, and sample values by source column."""
    if source.is_elsewhere or not source.files or source.kind not in ("csv", "parquet"):
        return {}, [], {}
    file = source.files[0]
    try:
        if source.kind == "parquet":
            names = list(column_types(source, "source") or {})
            return {}, [], read_sample(file, names)
        drafted = draft_csv(file, show=True)
        header, rows = read_rows(file, source.csv)
    except TacitError as problem:
        return {}, [str(problem)], {}
    texts = {
        stored: [(row[place].strip("\r\n") or None) if place < len(row) else None for row in rows]
        for place, stored in enumerate(header)
    }
    prefix = f"{file.name}: "
    remarks = [sentence.removeprefix(prefix) for sentence in drafted.remarks]
    stated, guessed = source.csv.delimiter_of(file.name), drafted.form.delimiter_of(file.name)
    if stated != guessed:
        remarks.append(
            f"the project says that fields are separated by {stated!r}, and the first lines look like {guessed!r}"
        )
    return {column.source or column.name: column for column in drafted.columns}, remarks, texts


def _stored(source: Source) -> dict[str, str | None]:
    try:
        found = column_types(source, "source") or {}
    except TacitError:
        return {}
    return {name: None if kind is None else str(kind).partition("(")[0].lower() for name, kind in found.items()}


def _columns(
    model: TableModel,
    drafted: Mapping[str, DraftColumn],
    stored: Mapping[str, str | None],
    samples: Mapping[str, list[str | None]],
) -> list[dict[str, Any]]:
    """Return the declared columns, then the source columns that the table leaves out."""
    declared = {said.source or name: name for name, said in model.columns.items()}
    places = [*dict.fromkeys([*declared, *(name for name in stored if stored[name] is not None), *drafted])]
    found = []
    for place in places:
        guess = drafted.get(place)
        name = declared.get(place) or (guess.name if guess is not None else place)
        said = model.columns.get(name, ColumnModel())
        kind = said.type or stored.get(place) or ""
        examples = [readable(text, 24) for text in dict.fromkeys(t for t in samples.get(place, ()) if t)]
        found.append(
            {
                "name": name,
                "place": place,
                "type": "" if kind == MARK else kind,
                "guess": "" if guess is None else guess.type or "",
                "is_ambiguous": said.date_format == AMBIGUOUS,
                "examples": examples[:_EXAMPLES],
                "is_declared": place in declared or place in stored,
                "is_unit": name.lower() == (model.unit or "").lower(),
                "bounds": said.bounds,
                "categories": said.categories,
            }
        )
    return found


def _points(model: TableModel) -> bool:
    """Whether a column references another table."""
    return any(said.references is not None for said in model.columns.values())


def _new_column(visit: OwnerRequest, name: str) -> dict[Place, Any]:
    """Return the guessed declaration of a source column that the table leaves out."""
    place = visit.form.get("place", "")
    guess = _looked(visit.viewed(name)[2])[0].get(place)
    if guess is None:
        raise InputError("column", f"{place!r} is not a column of the source")
    value = {"source": guess.source, "type": guess.type or MARK, "step": guess.step, "date_format": guess.date_format}
    return {("tables", name, "columns", guess.name): {key: said for key, said in value.items() if said is not None}}


# Data -----------------------------------------------------------------------------------------------------------------


async def show_data(visit: OwnerRequest, problem: str = "", **typed: Any) -> Response:
    """Show the tables of the project, and forms that add one."""
    listed = [
        {"name": name, "source": str(said.get("source", "")), "public": said.get("public") is True}
        for name, said in visit.content("tables").items()
        if isinstance(said, dict)
    ]
    context = {
        "tables": listed,
        "files": list(_files(visit.editing.folder, "")),
        "folder": str(visit.editing.folder.resolve()),
        "engine": visit.content("project").get("engine", ""),
        "names": [],
        "typed": "",
        "limits": _limits(visit),
        **typed,
    }
    return await visit.page("project_data.html", 400 if problem else 200, problem=problem, **context)


async def add_file(visit: OwnerRequest) -> Response:
    """Draft a table from a file, and show it."""
    said = visit.typed("source")
    folder, public = visit.editing.folder, visit.form.get("public") == "yes"
    try:
        if not said:
            raise InputError("source", "write the name of a file, or choose one from the list")
        return _added(
            visit, await visit.run(draft_file, _path(folder, said), folder, public=public, unit=None, show=True)
        )
    except (TacitError, OSError) as problem:
        return await show_data(visit, str(problem), typed=said)


async def add_database(visit: OwnerRequest) -> Response:
    """Draft a table of a database from its schema, or list the tables of the database."""
    engine, table = visit.typed("engine"), visit.typed("table")
    try:
        if not is_database_address(engine):
            raise InputError("engine", "must be an address such as postgresql://reader@host/hospital")
        shown = address_without_secrets(engine)
        if not table:
            return await show_data(visit, names=await visit.run(stored_names, engine), engine=shown)
        drafted, *_ = await visit.run(postgres_tables, engine, [table], [], None)
        if visit.form.get("public") == "yes":
            drafted = replace(drafted, public=True, unit=None, guess=None)
        return _added(visit, drafted, shown)
    except TacitError as problem:
        return await show_data(visit, str(problem))
    except ModuleNotFoundError:
        return await show_data(visit, f"Tables of a database need a driver: {install_command('postgres')}")


async def change_limits(visit: OwnerRequest) -> Response:

    def changes() -> dict[Place, Any]:
        said: dict[str, Any] = {word: visit.typed(word) or None for word in LimitsModel.model_fields}
        for word in ("seconds", "threads"):
            said[word] = stated_value(said[word]) if said[word] else None
        return visit.changes_at(("limits",), said)

    return await visit.edited(changes, show_data, "./")


async def list_files_beside(visit: OwnerRequest) -> Response:
    """Return the file names that complete the typed one, for the script."""
    near = visit.asked("near")
    found = await visit.run(lambda: list(_files(visit.editing.folder, near)))
    return JSONResponse(found, headers=dict(HEADERS))


# Saving ---------------------------------------------------------------------------------------------------------------


async def show_save(visit: OwnerRequest, problem: str = "", typed: str | None = None) -> Response:
    """Show the unsaved changes, and their effects on the spent budget."""
    context = await visit.run(_effects_shown, visit)
    return await visit.page("project_save.html", 400 if problem else 200, problem=problem, typed=typed, **context)


async def save(visit: OwnerRequest) -> Response:
    """Write the project file, and end the server if requested."""
    try:
        effects = await visit.run(_effects, visit)
        if effects is not None and effects.refusal and visit.form.get("all_the_same") != "yes":
            raise InputError("ledger", "would refuse this project; tick the box to save it anyway, or change it back")
        visit.editing.save(visit.revision)
    except TacitError as problem:
        return await show_save(visit, str(problem))
    protected = [
        name for name, said in visit.content("tables").items() if isinstance(said, dict) and not said.get("public")
    ]
    sql = f"SELECT COUNT(*) FROM {protected[0]}" if protected else ""  # noqa: S608 - a name, for people to read
    return await _ended(visit, ends=visit.form.get("then") == "finish", file=_shown(visit.editing.path), sql=sql)


async def change_text(visit: OwnerRequest) -> Response:
    """Replace the whole text of the file by the typed text."""
    text = visit.form.get("text", "")
    try:
        visit.editing.rewrite(visit.revision, text)
    except TacitError as problem:
        return await show_save(visit, str(problem), text)
    return visit.redirect("save")


async def close(visit: OwnerRequest) -> Response:
    """End the server without saving."""
    return await _ended(visit, ends=True, file="", sql="")


async def _ended(visit: OwnerRequest, *, ends: bool, file: str, sql: str) -> Response:
    left = opening_problems(visit.editing) if file else []
    response = await visit.page("project_saved.html", ends=ends, file=file, open=left, sql=sql)
    if ends:
        response.background = BackgroundTask(visit.shared.finish)
    return response


def _added(visit: OwnerRequest, drafted: DraftTable, engine: str | None = None) -> Response:
    return visit.redirect(address("table", table=visit.editing.add(visit.revision, drafted, engine)))


def _limits(visit: OwnerRequest) -> dict[str, str]:
    """Return the stated limits as text; empty for a limit that is not stated."""
    known = visit.content("limits")
    return {word: str(known.get(word, "")) for word in LimitsModel.model_fields}


def _path(folder: Path, said: str) -> Path:
    try:
        path = Path(said).expanduser()
    except RuntimeError:
        path = Path(said)
    return path if path.is_absolute() else folder / path


def _files(folder: Path, near: str) -> Iterator[str]:
    """Yield data files and folders whose names start with the typed text, in the form in which it was typed."""
    typed = near.rpartition("/")[0]
    place = _path(folder, f"{typed}/" if typed or near.startswith("/") else ".")
    found: list[str] = []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith(".") or len(found) >= 10 * _MOST_FILES:
                    continue
                shown = f"{typed}/{entry.name}" if "/" in near else entry.name
                if not shown.lower().startswith(near.lower()) or not shown.isprintable():
                    continue
                if entry.is_dir():
                    found.append(f"{shown}/")
                elif Path(entry.name).suffix.lower() in (*CSV, *PARQUET):
                    found.append(shown)
    except (OSError, ValueError):
        return
    yield from sorted(found, key=lambda name: (name.endswith("/"), name.lower()))[:_MOST_FILES]


def _effects_shown(visit: OwnerRequest) -> dict[str, Any]:
    editing, effects, trouble = visit.editing, None, ""
    try:
        effects = _effects(visit)
    except TacitError as problem:
        trouble = str(problem)
    spent = effects is not None and effects.charges > 0
    is_new = editing.on_disk is None
    changes = [
        {"change": each, "term": is_account_term(each.place) if spent else ""}
        for each in (() if is_new else editing.changes())
    ]
    return {"changes": changes, "is_new": is_new, "effects": effects, "trouble": trouble}


def _effects(visit: OwnerRequest) -> SpendingEffects | None:
    """Return the effects of the changes on the ledger; None while the project is incomplete."""
    editing = visit.editing
    if opening_problems(editing):
        return None
    try:
        on_disk = load(editing.path)
    except TacitError:
        on_disk = None
    return effects_of(on_disk, editing.project())


def _shown(path: Path) -> str:
    """Return a path for display: relative to the working directory if it is below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path.resolve())
