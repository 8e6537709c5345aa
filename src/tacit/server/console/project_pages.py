"""Pages of a project file: sources, tables, columns and a picture of what bounds keep, budgets, findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from starlette.background import BackgroundTask
from starlette.responses import Response

from tacit.core.cautions import cautions, guess_probability
from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import exact_positive
from tacit.project.draft import (
    AMBIGUOUS,
    CSV,
    PARQUET,
    SUPPOSED,
    csv_checks,
    draft_csv,
    draft_file,
    guess_unit,
    read_rows,
    read_sample,
    sum_and_average_errors,
)
from tacit.project.owner_view import (
    ColumnHistogram,
    column_values,
    histogram,
    place_of_value,
    rows_kept,
)
from tacit.project.project_editing import Place, stated_value
from tacit.project.project_file import ColumnModel, PopulationModel, TableModel, validate
from tacit.project.project_template import MARK, Draft, DraftColumn, DraftTable
from tacit.project.source import Source, column_types
from tacit.query.catalog import ROW, Column
from tacit.query.types import Kind
from tacit.releases.accounts import filter_of
from tacit.server.console.amounts import as_pair, up
from tacit.server.console.charts import draw_histogram
from tacit.server.console.owner_mode import OwnerRequest, address, readable

_STEPS: Final = ("0.1", "0.5", "1", "2", "4", "8")
_WORDS: Final = ("epsilon", "delta", "rho", "mu", "query_delta")
_ACCOUNTING: Final = (
    ("pure", "pure: costs add up; no delta"),
    ("approx", "approx: costs and deltas add up"),
    ("zcdp", "zcdp: many small queries cost less than their sum"),
    ("gdp", "gdp: the same for Gaussian noise"),
)
_TYPES: Final = ("text", "integer", "decimal", "double", "boolean", "date", "timestamp")
_EPSILON: Final = "0.5"
_MOST_CATEGORIES: Final = 10_000
_FORM: Final = ("delimiter", "encoding", "decimal_mark", "thousands_mark", "date_format")
_NUMBERS: Final = ("max_groups", "max_rows")
_EXAMPLES: Final = 3
#: Maximum number of columns of a table whose values are all checked against their types.
_MOST_CHECKED: Final = 200
_MOST_FILES: Final = 200


# Budgets --------------------------------------------------------------------------------------------------------------


async def show_budget(visit: OwnerRequest, problem: str = "") -> Response:
    """Show the budget of a population and the risk under it."""
    name, model = _budget_asked(visit)
    context = await visit.run(_budget_context, name, model)
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


def _budget_context(name: str, model: PopulationModel) -> dict[str, Any]:
    said = {word: "" if getattr(model, word) in (None, MARK) else str(getattr(model, word)) for word in _WORDS}
    context: dict[str, Any] = {
        "population": name,
        "said": said,
        "accounting": model.accounting,
        "relation": model.relation,
        "kinds": _ACCOUNTING,
        "risks": guess_risks(None),
        "cautions": (),
        "trouble": "",
    }
    if said["epsilon"] or said["rho"] or said["mu"]:
        try:
            epsilon, delta = as_pair(filter_of(name, model).guarantee)
        except TacitError as problem:
            return {**context, "trouble": str(problem)}
        context |= {
            "risks": guess_risks(epsilon, up(epsilon)),
            "cautions": cautions(epsilon=epsilon, delta=delta or None),
        }
    return context


def guess_risks(chosen: Fraction | None, text: str = "") -> list[tuple[str, Fraction, bool]]:
    """Return, for several epsilons, the highest probability of guessing a person's secret bit with even prior odds.

    Each item is the epsilon as text, the probability, and whether this epsilon is the chosen one.
    """
    steps = {step: exact_positive(step, "epsilon") for step in _STEPS} | ({text: chosen} if chosen is not None else {})
    ordered = sorted(steps.items(), key=lambda step: step[1])
    return [(said, guess_probability(number), number == chosen) for said, number in ordered]


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
        "picture": None,
        "shape": None,
        "choices": [],
        "values": None,
        "epsilon": _EPSILON,
        "supposed": SUPPOSED,
    }
    try:
        _, table, source = visit.viewed(name)
        known = table.find(column)
        if known is None:
            context["trouble"] = "" if said.type in (None, MARK) else "this column cannot be read as declared"
            return context
        context["stored"] = str(known.type).partition("(")[0].lower()
        if source.is_elsewhere or context["is_unit"]:
            return context
        if known.type.is_ordered and known.type.kind is not Kind.BOOLEAN:
            shape = visit.shared.once("shape", known, source, lambda: histogram(source, known))
            context["shape"] = shape
            context["picture"] = None if shape is None else _picture(shape, known)
            context["choices"] = [] if shape is None else _choices(shape, name, model, known)
        context["values"] = visit.shared.once("values", known, source, lambda: column_values(source, known))
    except TacitError as problem:
        context["trouble"] = str(problem)
    return context


def _typed(value: Any) -> str:
    if value == MARK:
        return ""
    return "true" if value is True else "false" if value is False else str(value)


def _picture(shape: ColumnHistogram, column: Column) -> Markup:
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
            changes = visit.changes_at(at, {word: _number(visit.typed(word)) for word in _NUMBERS})
            new = {place[-1]: value for place, value in changes.items() if value is not None}
            # With an invalid number, this page could not be shown again.
            validate(TableModel, {**visit.content("tables")[name], **new}, f"tables.{name}")
            return changes
        case _:
            raise InputError("form", "is not one of this page")


def _unit_stated(visit: OwnerRequest, model: TableModel) -> dict[str, Any]:
    if visit.form.get("public") == "yes":
        unused = ("population", "unit", *_NUMBERS, "max_groups_limit", "max_rows_limit")
        return {"public": True, **dict.fromkeys(unused)}
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
        "kept": None,
        # By the file name: even settings that cannot be read must be shown, to be corrected.
        "is_csv": Path(model.source).suffix.lower() in CSV,
        "is_row": model.unit == ROW,
        "may_point": points,
        "has_limits": has_limits,
        "populations": list(visit.content("populations")),
    }
    drafted: Mapping[str, DraftColumn] = {}
    stored: Mapping[str, str | None] = {}
    samples: Mapping[str, list[str | None]] = {}
    try:
        project, table, source = visit.viewed(name)
        drafted, context["remarks"], samples = _looked(source)
        stored = _stored(source)
        if has_limits:
            context["kept"] = visit.shared.once(
                "kept", project.catalog.digest, source, lambda: rows_kept(project, name)
            )
        if context["is_csv"] and len(table.columns) <= _MOST_CHECKED:
            once = visit.shared.once
            context["checks"] = once("checks", table, source, lambda: list(csv_checks(project, name, look=True)))
    except TacitError as problem:
        context["trouble"] = str(problem)
    columns = _columns(model, drafted, stored, samples)
    names = [column["name"] for column in columns]
    unit = next((each for each in names if each.lower() == (model.unit or "").lower()), model.unit)
    return {
        **context,
        "columns": columns,
        "names": names,
        "unit": "" if unit in (None, MARK) else unit,
        "guess": guess_unit(names),
    }


def _looked(source: Source) -> tuple[dict[str, DraftColumn], list[str], Mapping[str, list[str | None]]]:
    """Return guesses by source column, remarks, and sample values by source column."""
    if source.is_elsewhere or not source.files or source.kind not in ("csv", "parquet"):
        return {}, [], {}
    file = source.files[0]
    try:
        if source.kind == "parquet":
            names = list(column_types(source, "source") or {})
            return {}, [], read_sample(file, names)
        drafted = draft_csv(file, show=True, null_values=source.csv.null_values)
        header, rows = read_rows(file, source.csv)
    except TacitError as problem:
        return {}, [str(problem)], {}
    texts = {
        stored: [(row[place].strip("\r\n") or None) if place < len(row) else None for row in rows]
        for place, stored in enumerate(header)
    }
    return {column.source or column.name: column for column in drafted.columns}, list(drafted.remarks), texts


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
    """Return the columns that queries may read, with what is declared and guessed about each."""
    declared = {said.source or name: name for name, said in model.columns.items()}
    found = []
    for place in dict.fromkeys([*declared, *(name for name in stored if stored[name] is not None)]):
        guess, name = drafted.get(place), declared.get(place, place)
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
                "is_unit": name.lower() == (model.unit or "").lower(),
                "bounds": said.bounds,
                "categories": said.categories,
            }
        )
    return found


def _points(model: TableModel) -> bool:
    """Whether a column references another table."""
    return any(said.references is not None for said in model.columns.values())


# Data -----------------------------------------------------------------------------------------------------------------


async def show_data(visit: OwnerRequest, problem: str = "", typed: str = "") -> Response:
    """Show the tables of the project, and forms that add one."""
    listed = [
        {"name": name, "source": str(said.get("source", "")), "public": said.get("public") is True}
        for name, said in visit.content("tables").items()
        if isinstance(said, dict)
    ]
    context = {"tables": listed, "folder": str(visit.editing.folder.resolve()), "files": _files(visit.editing.folder)}
    return await visit.page("project_data.html", 400 if problem else 200, problem=problem, typed=typed, **context)


async def add_file(visit: OwnerRequest) -> Response:
    """Draft a table from a file, and show it."""
    said = visit.typed("source")
    folder, public = visit.editing.folder, visit.form.get("public") == "yes"
    try:
        if not said:
            raise InputError("source", "write the name of a file, or choose one from the list")
        drafted = await visit.run(draft_file, _path(folder, said), folder, public=public, unit=None, show=True)
        name = visit.editing.add(visit.form.get("revision", ""), drafted)
    except (TacitError, OSError) as problem:
        return await show_data(visit, str(problem), said)
    return visit.redirect(address("table", table=name))


# Findings -------------------------------------------------------------------------------------------------------------


async def show_check(visit: OwnerRequest) -> Response:
    """Show the findings of ``tacit doctor`` about the file, and the commands that come next."""
    found = await visit.run(lambda: list(visit.shared.examine(visit.editing.path)))
    tables = visit.content("tables").items()
    protected = [name for name, said in tables if isinstance(said, dict) and not said.get("public")]
    sql = f"SELECT COUNT(*) FROM {protected[0]}" if protected else ""  # noqa: S608 - a name, for people to read
    return await visit.page("project_check.html", problem="", found=found, file=str(visit.editing.path), sql=sql)


async def finish(visit: OwnerRequest) -> Response:
    """End the server."""
    response = await visit.page("project_finished.html", file=str(visit.editing.path))
    response.background = BackgroundTask(visit.shared.finish)
    return response


def _path(folder: Path, said: str) -> Path:
    try:
        path = Path(said).expanduser()
    except RuntimeError:
        path = Path(said)
    return path if path.is_absolute() else folder / path


def _files(folder: Path) -> list[str]:
    """Return the names of the data files in the project's folder."""
    named = (path.name for path in folder.iterdir() if path.suffix.lower() in (*CSV, *PARQUET))
    return sorted(name for name in named if name.isprintable() and name[0] != ".")[:_MOST_FILES]
