"""Page of a column: type, categories, bounds, and a picture of what they keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.project.draft import CSV, SUPPOSED, sum_and_average_errors
from tacit.project.owner_view import MOST_ROWS, ColumnHistogram, brought_near, column_values, histogram, place_of_value
from tacit.project.project_editing import Place, stated_value
from tacit.project.project_file import ColumnModel, TableModel
from tacit.project.project_template import MARK, Draft, DraftColumn, DraftTable
from tacit.query.catalog import Column, Table
from tacit.query.types import Kind
from tacit.server.console.charts import draw_histogram
from tacit.server.console.owner_mode import OwnerRequest, address

_TYPES: Final = ("text", "integer", "decimal", "double", "boolean", "date", "timestamp")
_EPSILON: Final = "0.5"
_MOST_CATEGORIES: Final = 10_000


async def show_column(visit: OwnerRequest, problem: str = "") -> Response:
    """Show a column with the picture of what its declaration keeps."""
    name, model, column, said = _asked(visit)
    context = await visit.run(_context, visit, name, model, column, said)
    return await visit.page("project_column.html", 400 if problem else 200, problem=problem, **context)


async def change_column(visit: OwnerRequest) -> Response:
    """Take over what was said about a column."""
    name, model, column, said = _asked(visit)
    at = ("tables", name, "columns", column)
    if visit.form.get("leave_out") == "yes":
        return await visit.edited(lambda: {at: None}, show_column, address("table", table=name))
    return await visit.edited(
        lambda: _changes(at, visit.form, said, is_stated=column in model.columns),
        show_column,
        address("column", table=name, column=column),
    )


def _changes(at: Place, form: Mapping[str, str], said: ColumnModel, *, is_stated: bool) -> dict[Place, Any]:
    wanted = _wanted(form, said)
    if not is_stated:
        stated = {word: value for word, value in wanted.items() if value is not None}
        return {at: stated} if stated else {}
    known = {
        word: list(was) if isinstance(was, tuple) else was for word, was in said.model_dump(exclude_unset=True).items()
    }
    return {(*at, word): value for word, value in wanted.items() if value != known.get(word)}


def _asked(visit: OwnerRequest) -> tuple[str, TableModel, str, ColumnModel]:
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


def _wanted(form: Mapping[str, str], said: ColumnModel) -> dict[str, Any]:
    """The settings of the form, as they stand in a file; None where a setting is not stated."""
    low, high = form.get("low", "").strip(), form.get("high", "").strip()
    lines = [line.strip("\r") for line in form.get("categories", "").split("\n")]
    listed = [line for line in lines if line.strip()]
    if len(listed) > _MOST_CATEGORIES:
        raise InputError("categories", f"are {len(listed):,}, and the editor takes {_MOST_CATEGORIES:,}")
    kind = form.get("type", "").strip() or None
    as_number = kind in ("integer", "decimal", "double", "date", "timestamp")
    categories = [stated_value(line) if as_number else line for line in listed] or None
    if kind == "boolean" and categories is not None:
        categories = [{"true": True, "false": False}.get(str(each).lower(), each) for each in categories]
    return {
        "type": kind or (MARK if said.type == MARK else None),
        "step": form.get("step", "").strip() or None,
        "date_format": form.get("date_format", "").strip() or None,
        "bounds": [stated_value(low) if low else MARK, stated_value(high) if high else MARK] if low or high else None,
        "categories": categories,
        "null_category": True if form.get("null_category") == "yes" else None,
        "nullable": False if form.get("not_null") == "yes" else None,
        "unique": True if form.get("unique") == "yes" else None,
        "references": form.get("references", "").strip() or None,
    }


def _context(visit: OwnerRequest, name: str, model: TableModel, column: str, said: ColumnModel) -> dict[str, Any]:
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
            # Bounds and categories change no value, so the rows are fetched once.
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
    """Columns of other tables of which each value is there once, so that a column here may point to them."""
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
    """Round bounds with the share that they keep and the error of an average under them."""
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
