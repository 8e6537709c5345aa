"""Page of a table: how it is written, whose rows, its columns, its limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.project.draft import AMBIGUOUS, CSV, csv_checks, draft_csv, guess_unit, read_rows, read_sample
from tacit.project.owner_view import RowsKept, UnitFacts, rows_kept, unit_facts
from tacit.project.project_editing import Place
from tacit.project.project_file import ColumnModel, TableModel, validate
from tacit.project.project_template import MARK, DraftColumn
from tacit.project.source import Source, column_types
from tacit.query.canonical_unit import ROW
from tacit.query.catalog import UNIT_ROWS
from tacit.server.console.owner_mode import OwnerRequest, address, readable

_FORM: Final = ("delimiter", "encoding", "decimal_mark", "thousands_mark", "date_format")
_NUMBERS: Final = ("max_groups", "max_rows", "max_groups_limit", "max_rows_limit")
_EXAMPLES: Final = 3
#: Columns whose values are all read, to find those that are not of their type.
_MOST_CHECKED: Final = 200


async def show_table(visit: OwnerRequest, problem: str = "") -> Response:
    """Show a table with all that is known and declared about it."""
    name, model = visit.table()
    context = await visit.run(_context, visit, name, model)
    return await visit.page("project_table.html", 400 if problem else 200, problem=problem, **context)


async def change_table(visit: OwnerRequest) -> Response:
    """Take over one of the forms of the page."""
    name, model = visit.table()
    return await visit.edited(lambda: _changes(visit, name, model), show_table, address("table", table=name))


def _changes(visit: OwnerRequest, name: str, model: TableModel) -> dict[Place, Any]:
    at = ("tables", name)
    match visit.form.get("part", ""):
        case "form":
            return _form_changes(at, visit.form, model)
        case "unit":
            changes = _unit_changes(at, visit.form, model)
            people = changes.get((*at, "population"))
            if people is not None and people not in visit.content("populations"):
                changes[("populations", people, "epsilon")] = MARK
            return changes
        case "limits":
            changes = _limit_changes(at, visit.form, model)
            stated = {str(place[-1]): value for place, value in changes.items() if value is not None}
            # With a number that no table may have, this page could not be shown again.
            validate(TableModel, {**visit.content("tables")[name], **stated}, f"tables.{name}")
            return changes
        case "add":
            return _new_column(visit, name)
        case _:
            raise InputError("form", "is not one of this page")


async def remove_table(visit: OwnerRequest) -> Response:
    """Take a table out of the project; its file stays where it is."""
    name, _ = visit.table()
    return await visit.edited(lambda: {("tables", name): None}, show_table, "./")


def _context(visit: OwnerRequest, name: str, model: TableModel) -> dict[str, Any]:
    """What is known about a table; as much of it as the text lets be read."""
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
        # By its name: settings that cannot be read must be there to be corrected.
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
    """Guesses by the name in the source, remarks, and the first values by that name."""
    if source.is_elsewhere or not source.files or source.kind not in ("csv", "parquet"):
        return {}, [], {}
    file = source.files[0]
    try:
        if source.kind == "parquet":
            names = list(column_types(source, "source") or {})
            return {}, [], read_sample(file, names)
        drafted = draft_csv(file, look=True, show=True)
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
    """Columns of the table, then those of the source that it leaves out."""
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


def _form_changes(at: Place, form: Mapping[str, str], model: TableModel) -> dict[Place, Any]:
    changes: dict[Place, Any] = {}
    for word in _FORM:
        said = form.get(word, "")
        said = "\t" if word == "delimiter" and said in ("\\t", "tab") else said if said == " " else said.strip()
        if said != (getattr(model, word) or ""):
            changes[(*at, word)] = said or None
    nulls = [text for part in form.get("null_values", "").split(",") if (text := part.strip())]
    if nulls != list(model.null_values or ()):
        changes[(*at, "null_values")] = nulls or None
    return changes


def _unit_changes(at: Place, form: Mapping[str, str], model: TableModel) -> dict[Place, Any]:
    if form.get("public") == "yes":
        gone: dict[Place, Any] = {
            (*at, word): None for word in ("population", "unit", *_NUMBERS) if getattr(model, word) is not None
        }
        return {**gone, (*at, "public"): True}
    changes: dict[Place, Any] = {(*at, "public"): None} if model.public else {}
    # Without a unit of its own a table reaches one by a foreign key.
    unit = form.get("unit", "").strip() or (None if _points(model) else MARK)
    said = {"unit": unit, "population": form.get("population", "").strip() or "people"}
    for word, value in said.items():
        if value != getattr(model, word):
            changes[(*at, word)] = value
    if said["unit"] == ROW:
        changes |= {(*at, word): None for word in ("max_groups", "max_rows") if getattr(model, word) is not None}
    return changes


def _limit_changes(at: Place, form: Mapping[str, str], model: TableModel) -> dict[Place, Any]:
    said = {word: _number(form.get(word, "")) for word in (*_NUMBERS, "unit_rows")}
    known = {word: getattr(model, word) for word in _NUMBERS}
    known["unit_rows"] = None if model.unit_rows == UNIT_ROWS else model.unit_rows
    if said["unit_rows"] == UNIT_ROWS:
        said["unit_rows"] = None
    return {(*at, word): value for word, value in said.items() if value != known[word]}


def _number(typed: str) -> int | str | None:
    text = typed.strip()
    return int(text) if text.isdecimal() and len(text) < 19 else text or None


def _points(model: TableModel) -> bool:
    """Whether a column points to another table."""
    return any(said.references is not None for said in model.columns.values())


def _new_column(visit: OwnerRequest, name: str) -> dict[Place, Any]:
    """A column of the source that the table leaves out, as it is guessed."""
    place = visit.form.get("place", "")
    guess = _looked(visit.viewed(name)[2])[0].get(place)
    if guess is None:
        raise InputError("column", f"{place!r} is not a column of the source")
    value = {"source": guess.source, "type": guess.type or MARK, "step": guess.step, "date_format": guess.date_format}
    return {("tables", name, "columns", guess.name): {key: said for key, said in value.items() if said is not None}}
