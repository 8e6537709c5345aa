"""``tacit init --edit``: the project file in the browser, on this machine alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from tacit.core.errors import InputError
from tacit.core.extras import MissingError, install_command


def edit_in_browser(sources: list[str], output: Path, *, open_browser: bool) -> None:
    """Serve the console in owner mode until the owner has finished.

    Args:
        sources: a project file, a folder with or for one, or data files to begin with.
        output: the project file, where none of the sources says it.
        open_browser: whether to open one, if there is any.

    Raises:
        InputError: a source is none, or the server is not installed.
    """
    from tacit.project.project_editing import EditedProject, draft_source

    try:
        from tacit.server.console.owner_mode import run_owner_mode
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "tacit":
            raise
        raise MissingError(
            problem.name or "server", f"is not installed; --edit needs it: {install_command('server')}"
        ) from None
    project, files = _chosen(sources, output)
    editing = EditedProject(project)
    known = {said.get("source") for said in editing.content.get("tables", {}).values() if isinstance(said, dict)}
    for file in files:
        drafted = draft_source(file, editing.folder, public=False)
        if drafted.source not in known:
            editing.add(editing.revision, drafted)

    def started(address: str) -> None:
        typer.echo(f"Edit {project} in your browser; the link works once, on this machine:\n\n    {address}\n")
        typer.echo("It shows rows of your data to you alone. Ctrl-C ends it without saving.")
        if open_browser:
            _open(address, Path(folder))

    with tempfile.TemporaryDirectory(prefix="tacit-edit-") as folder:
        run_owner_mode(editing, started)
    if editing.is_changed:
        typer.echo(f"{project}: nothing more was saved.")
    else:
        typer.echo(f"{project} is saved. Then: tacit doctor --project {project}")


def _open(address: str, folder: Path) -> None:
    """Open a browser by a file that leads to the address: other users see the words a program was started with."""
    import webbrowser

    page = folder / "open.html"
    words = f'<meta http-equiv="refresh" content="0;url={address}"><p><a href="{address}">Continue</a></p>'
    # The folder is its owner's alone.
    page.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>tacit</title>{words}</html>')
    webbrowser.open(page.as_uri())


def _chosen(sources: list[str], output: Path) -> tuple[Path, list[Path]]:
    """The project file, and data files to begin with."""
    paths = [Path(source) for source in sources]
    projects = [path for path in paths if path.suffix.lower() == ".toml"]
    folders = [path for path in paths if path.is_dir()]
    if len(projects) + len(folders) > 1:
        raise InputError("sources", "name one project file or one folder")
    if projects:
        output = projects[0]
    elif folders:
        output = folders[0] / output.name
    if not output.parent.is_dir():
        raise InputError("output", f"there is no folder {output.parent}")
    return output, [path for path in paths if path not in (*projects, *folders)]
