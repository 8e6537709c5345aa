"""Pages of a project file as a whole: its sources, what one query may use of the machine, checking and saving."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from tacit.core.errors import InputError, TacitError
from tacit.core.extras import install_command
from tacit.curator.opening import SpendingEffects, effects_of, is_account_term, opening_problems
from tacit.engines.registry import is_database_address, stored_names
from tacit.project.draft import CSV, PARQUET, address_without_secrets, postgres_tables
from tacit.project.project_editing import Place, draft_source, stated_value
from tacit.project.project_file import LimitsModel, load
from tacit.project.project_template import DraftTable
from tacit.server.console.csrf import HEADERS
from tacit.server.console.owner_mode import OwnerRequest, address

_MOST_FILES: Final = 200


async def show_data(visit: OwnerRequest, problem: str = "", **typed: Any) -> Response:
    """Show the tables that there are, and forms that add one."""
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
    said = visit.form.get("source", "").strip()
    folder, public = visit.editing.folder, visit.form.get("public") == "yes"
    try:
        if not said:
            raise InputError("source", "write the name of a file, or choose one from the list")
        return _added(visit, await visit.run(draft_source, _path(folder, said), folder, public=public))
    except (TacitError, OSError) as problem:
        return await show_data(visit, str(problem), typed=said)


async def add_database(visit: OwnerRequest) -> Response:
    """Draft a table of a database from its schema, or list those that there are."""
    engine, table = visit.form.get("engine", "").strip(), visit.form.get("table", "").strip()
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
    """Take over what one query may use of the machine."""

    def changes() -> dict[Place, Any]:
        said = {word: visit.form.get(word, "").strip() for word in LimitsModel.model_fields}
        return {
            ("limits", word): stated_value(said[word])
            if said[word] and word in ("seconds", "threads")
            else said[word] or None
            for word, was in _limits(visit).items()
            if said[word] != was
        }

    return await visit.edited(changes, show_data, "./")


async def list_files_beside(visit: OwnerRequest) -> Response:
    """Names that complete the one that is typed, for the script."""
    near = visit.asked("near")
    found = await visit.run(lambda: list(_files(visit.editing.folder, near)))
    return JSONResponse(found, headers=dict(HEADERS))


async def show_save(visit: OwnerRequest, problem: str = "", typed: str | None = None) -> Response:
    """Show what would change, and what that means for what was spent."""
    context = await visit.run(_effects_shown, visit)
    return await visit.page("project_save.html", 400 if problem else 200, problem=problem, typed=typed, **context)


async def save(visit: OwnerRequest) -> Response:
    """Write the file, and end the server if that was asked for."""
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
    """Take over the whole text as it was typed."""
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
    """Limits as they are stated; empty where they are not."""
    known = visit.content("limits")
    return {word: str(known.get(word, "")) for word in LimitsModel.model_fields}


def _path(folder: Path, said: str) -> Path:
    try:
        path = Path(said).expanduser()
    except RuntimeError:
        path = Path(said)
    return path if path.is_absolute() else folder / path


def _files(folder: Path, near: str) -> Iterator[str]:
    """Data files and folders whose names begin as typed; relative to the project where they were typed so."""
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
    """Effects on the ledger; None where the project is not complete yet."""
    editing = visit.editing
    if opening_problems(editing):
        return None
    try:
        on_disk = load(editing.path)
    except TacitError:
        on_disk = None
    return effects_of(on_disk, editing.project())


def _shown(path: Path) -> str:
    """A path as it is typed: relative to where the command was called, if it is below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path.resolve())
