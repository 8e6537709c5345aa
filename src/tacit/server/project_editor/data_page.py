"""Page of sources: files and tables of a database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from tacit.core.errors import InputError, TacitError
from tacit.core.extras import install_command
from tacit.engines.registry import is_database_address, stored_names
from tacit.project.database_draft import address_without_secrets, postgres_tables
from tacit.project.file_draft import CSV, PARQUET
from tacit.project.project_editing import draft_source, stated_value
from tacit.project.project_file import LimitsModel
from tacit.project.toml_edit import Place
from tacit.server.console.csrf import HEADERS
from tacit.server.project_editor.owner_pages import EditorVisit, address

_MOST_FILES: Final = 200


async def show_data(visit: EditorVisit, problem: str = "", **typed: Any) -> Response:
    """Show the tables that there are, and forms that add one."""
    tables = visit.editing.content.get("tables", {})
    listed = [
        {"name": name, "source": str(said.get("source", "")), "public": said.get("public") is True}
        for name, said in (tables.items() if isinstance(tables, dict) else ())
        if isinstance(said, dict)
    ]
    about = visit.editing.content.get("project", {})
    context = {
        "tables": listed,
        "files": list(_files(visit.editing.folder, "")),
        "folder": str(visit.editing.folder.resolve()),
        "engine": about.get("engine", "") if isinstance(about, dict) else "",
        "names": [],
        "typed": "",
        "limits": _limits(visit),
        **typed,
    }
    return await visit.page("editor_data.html", 400 if problem else 200, problem=problem, **context)


async def add_file(visit: EditorVisit) -> Response:
    """Draft a table from a file, and show it."""
    said = visit.form.get("source", "").strip()
    try:
        if not said:
            raise InputError("source", "write the name of a file, or choose one from the list")
        public = visit.form.get("public") == "yes"
        path = _path(visit.editing.folder, said)
        drafted = await run_in_threadpool(draft_source, path, visit.editing.folder, public=public)
        name = visit.editing.add(visit.revision, drafted)
    except TacitError as problem:
        return await show_data(visit, str(problem), typed=said)
    return visit.redirect(address("table", table=name))


async def add_database(visit: EditorVisit) -> Response:
    """Draft a table of a database from its schema, or list those that there are."""
    engine, table = visit.form.get("engine", "").strip(), visit.form.get("table", "").strip()
    public = visit.form.get("public") == "yes"
    try:
        if not is_database_address(engine):
            raise InputError("engine", "must be an address such as postgresql://reader@host/hospital")
        if not table:
            names = await run_in_threadpool(stored_names, engine)
            return await show_data(visit, names=names, engine=address_without_secrets(engine))
        drafted, *_ = await run_in_threadpool(postgres_tables, engine, [table], [], None)
        if public:
            drafted = replace(drafted, public=True, unit=None, guess=None)
        name = visit.editing.add(visit.revision, drafted, address_without_secrets(engine))
    except TacitError as problem:
        return await show_data(visit, str(problem))
    except ModuleNotFoundError:
        return await show_data(visit, f"Tables of a database need a driver: {install_command('postgres')}")
    return visit.redirect(address("table", table=name))


async def change_limits(visit: EditorVisit) -> Response:
    """Take over what one question may use of the machine."""
    known, changes = _limits(visit), dict[Place, Any]()
    for word, was in known.items():
        said = visit.form.get(word, "").strip()
        if said != was:
            changes[("limits", word)] = stated_value(said) if said and word in ("seconds", "threads") else said or None
    try:
        visit.editing.edit(visit.revision, changes)
    except TacitError as problem:
        return await show_data(visit, str(problem))
    return visit.redirect("./")


def _limits(visit: EditorVisit) -> dict[str, str]:
    """Limits as they are stated; empty where they are not."""
    said = visit.editing.content.get("limits", {})
    known = said if isinstance(said, dict) else {}
    return {word: str(known.get(word, "")) for word in LimitsModel.model_fields}


async def list_files_beside(visit: EditorVisit) -> Response:
    """Names that complete the one that is typed, for the script."""
    near = visit.asked("near")
    found = await run_in_threadpool(lambda: list(_files(visit.editing.folder, near)))
    return JSONResponse(found, headers=dict(HEADERS))


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
