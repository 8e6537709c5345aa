"""Page that checks and saves: changes, effects on an account that was charged, the text itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.curator.project_changes import SpendingEffects, effects_of, is_account_term, opening_problems
from tacit.project.project_file import Project, load
from tacit.server.project_editor.owner_pages import EditorVisit


async def show_save(visit: EditorVisit, problem: str = "", typed: str | None = None) -> Response:
    """Show what would change, and what that means for what was spent."""
    context = await run_in_threadpool(_context, visit)
    status = 400 if problem else 200
    return await visit.page("editor_save.html", status, problem=problem, typed=typed, **context)


async def save(visit: EditorVisit) -> Response:
    """Write the file, and end the editor if that was asked for."""
    try:
        effects = await run_in_threadpool(_effects, visit)
        if effects is not None and effects.refusal and visit.form.get("all_the_same") != "yes":
            raise InputError("ledger", "would refuse this project; tick the box to save it anyway, or change it back")
        visit.editing.save(visit.revision)
    except TacitError as problem:
        return await show_save(visit, str(problem))
    ends = visit.form.get("then") == "finish"
    file, left = _shown(visit.editing.path), opening_problems(visit.editing)
    response = await visit.page("editor_saved.html", ends=ends, file=file, open=left, sql=_example(visit))
    if ends:
        response.background = BackgroundTask(visit.state.finish)
    return response


async def change_text(visit: EditorVisit) -> Response:
    """Take over the whole text as it was typed."""
    text = visit.form.get("text", "")
    try:
        visit.editing.rewrite(visit.revision, text)
    except TacitError as problem:
        return await show_save(visit, str(problem), text)
    return visit.redirect("save")


async def close(visit: EditorVisit) -> Response:
    """End the editor without saving."""
    response = await visit.page("editor_saved.html", ends=True, file="", open=[], sql="")
    response.background = BackgroundTask(visit.state.finish)
    return response


def _context(visit: EditorVisit) -> dict[str, Any]:
    editing = visit.editing
    context: dict[str, Any] = {"changes": [], "is_new": editing.on_disk is None, "effects": None, "trouble": ""}
    try:
        effects = _effects(visit)
    except TacitError as problem:
        context["trouble"] = str(problem)
        effects = None
    spent = effects is not None and effects.charges > 0
    if editing.on_disk is not None:
        context["changes"] = [
            {
                "place": each.place,
                "before": each.before,
                "after": each.after,
                "term": is_account_term(each.place) if spent else "",
            }
            for each in editing.changes()
        ]
    return {**context, "effects": effects}


def _effects(visit: EditorVisit) -> SpendingEffects | None:
    """Effects on the ledger; None where the project is not complete yet."""
    editing = visit.editing
    if opening_problems(editing):
        return None
    return effects_of(_on_disk(editing.path), editing.project())


def _on_disk(path: Path) -> Project | None:
    try:
        return load(path)
    except TacitError:
        return None


def _shown(path: Path) -> str:
    """A path as it is typed: relative to where the command was called, if it is below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path.resolve())


def _example(visit: EditorVisit) -> str:
    tables = visit.editing.content.get("tables", {})
    protected = [name for name, said in tables.items() if isinstance(said, dict) and not said.get("public")]
    return f"SELECT COUNT(*) FROM {protected[0]}" if protected else ""  # noqa: S608 - a name, for people to read
