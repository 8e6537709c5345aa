"""``tacit init``: from data files, or tables of a PostgreSQL, to a commented project file; or in the browser.

Names come from headers and schemas. The first rows of a CSV file are read to guess the types of its columns and how it
is written; smallest and largest values are never looked at, because a bound taken from data reveals the person with the
most extreme value.
"""

from __future__ import annotations

import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.common import JsonFlag, console, listening, print_json, reported
from tacit.core.errors import InputError
from tacit.core.extras import MissingError, install_command
from tacit.core.names import is_name
from tacit.core.numbers import exact_positive, exact_probability
from tacit.core.text_files import visible
from tacit.engines.registry import is_database_address
from tacit.project.draft import (
    CSV,
    SAMPLE_ROWS,
    check_without_password,
    draft_file,
    postgres_tables,
    project_name,
)
from tacit.project.project_template import (
    DELTA,
    Draft,
    DraftColumn,
    DraftTable,
    open_places,
    project_text,
    write_project,
)


def init(
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Data to protect: Parquet or CSV files, or postgresql://….", show_default=False),
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="A table or view of the database: schema.table.")] = None,
    public: Annotated[
        list[str] | None, typer.Option(help="A file, or a table of the database, with public contents.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help='The column that identifies the person, or "row".')] = None,
    population: Annotated[str, typer.Option(help="Name of the protected population.")] = "people",
    epsilon: Annotated[str | None, typer.Option(help="Budget of all queries together, such as 4.")] = None,
    delta: Annotated[
        str | None, typer.Option(help=f"Delta of the budget, by default {DELTA}; 0 for a pure account.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("tacit.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    edit: Annotated[
        bool,
        typer.Option("--edit", help="Edit in the browser: a project file, a folder, or a new file."),
    ] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser, with --edit.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented project file for your data.

    The types of CSV columns are guessed from the first rows. What only you can say stays in the file as a comment or
    as a value marked "?"; --edit shows it in the browser.

    tacit init visits.csv --public wards.csv --unit patient_id --epsilon 4

    tacit init postgresql://reader@host/hospital --table clinic.visits --public clinic.wards

    tacit init --edit visits.csv
    """
    with reported("sources", "source", "project", as_json=as_json):
        known = _known_project(sources or [], output) if edit else None
        if known is not None:
            edit_in_browser(known, open_browser=browser)
            return
        if not sources:
            raise InputError("sources", "name the data to protect, such as visits.csv; or: tacit init --edit")
        if not is_name(population):
            raise InputError("population", f"a name has letters, digits and underscores; got {population!r}")
        if epsilon is not None:
            exact_positive(epsilon, "epsilon")
        if delta not in (None, "0"):
            exact_probability(delta, "delta")
        if output.exists() and not force:
            raise InputError("output", f"{output} exists already; --force replaces it")
        draft = Draft(project_name(output), (), population, epsilon, None if delta == "0" else delta or DELTA)
        if any(map(is_database_address, sources)):
            if len(sources) > 1:
                raise InputError("sources", "a project has one database, or files; name its tables with --table")
            check_without_password(sources[0])
            with listening():
                tables = postgres_tables(sources[0], table or [], public or [], unit)
            draft = replace(draft, engine=sources[0], tables=tables)
        else:
            if table:
                raise InputError("table", "is for a database, such as postgresql://reader@host/hospital")
            tables = tuple(
                draft_file(Path(source), output.parent, public=is_public, unit=unit)
                for named, is_public in ((sources, False), (public or [], True))
                for source in named
            )
            sampled = tuple(Path(source).name for source in sources if Path(source).suffix.lower() in CSV)
            draft = replace(draft, tables=tables, sampled=sampled)
        _check_tables(draft, unit)
        text = project_text(draft)
        write_project(output, text)
        if edit:
            edit_in_browser(output, open_browser=browser)
            return
    places = open_places(tomllib.loads(text))
    if as_json:
        print_json(_as_json(draft, output, places))
    else:
        _show(draft, output, places)


def _check_tables(draft: Draft, unit: str | None) -> None:
    names = [table.name.lower() for table in draft.tables]
    for table in draft.tables:
        if names.count(table.name.lower()) > 1:
            if draft.engine is not None:
                raise InputError("table", f"two would be called {table.name}; make a view with another name for one")
            raise InputError("sources", f"two files would be the table {table.name}; rename one")
    protected = [table for table in draft.tables if not table.public]
    if unit is not None and unit != "row" and all(table.unit is None for table in protected):
        columns = ", ".join(column.name for table in protected for column in table.columns)
        raise InputError("unit", f"{unit!r} is not a column; there are {columns}")


def _as_json(draft: Draft, output: Path, places: list[str]) -> dict[str, Any]:
    return {
        "project": str(output),
        "open": places,
        "read_rows_of": list(draft.sampled),
        "tables": [
            {
                "name": table.name,
                "source": table.source,
                "public": table.public,
                "unit": table.unit,
                "unit_guess": table.guess,
                "columns": [
                    {"name": column.name, "type": column.type, "left_out": column.why_not is not None}
                    for column in table.columns
                ],
            }
            for table in draft.tables
        ],
    }


def _show(draft: Draft, output: Path, places: list[str]) -> None:
    screen = console()

    def say(text: str) -> None:
        screen.print(text, markup=False, soft_wrap=True)

    columns = sum(len(table.columns) for table in draft.tables)
    say(f"Wrote {output}: {', '.join(table.name for table in draft.tables)}; {columns} columns.")
    if draft.sampled:
        say(
            f"Types were guessed from the first {SAMPLE_ROWS:,} rows of {', '.join(draft.sampled)}. "
            "The file is for your eyes until you have checked them."
        )
    for sentence in draft.cautions:
        say(f"Caution: {sentence}")
    for sentence in (remark for table in draft.tables for remark in table.remarks):
        say(f"Note: {visible(sentence)}")
    say("Bounds are left for you to state: taken from the data they would reveal the most extreme person.")
    if places:
        say("\nTo fill in:")
        for place in places:
            say(f"  {place}")
    say(f"\nThen: tacit doctor --project {output}")
    protected = [table for table in draft.tables if not table.public]
    example = f"SELECT COUNT(*) FROM {protected[0].name}"  # noqa: S608 - a name, for people to read
    say(f'      tacit explain "{example}" --epsilon 0.5 --project {output}')
    say("      which is free: what a query costs, and how far off it is for the bounds you state.")
    unbounded = [column.name for table in protected for column in _quantities(table)]
    if unbounded:
        say(f"      Sums and averages can be asked once bounds are stated: {', '.join(unbounded)}.")


def _quantities(table: DraftTable) -> list[DraftColumn]:
    """Return numeric columns without bounds that do not look like identifiers."""
    units = (table.unit, table.guess)
    numbers = [c for c in table.columns if c.is_number and c.bounds is None and c.why_not is None]
    return [c for c in numbers if c.name not in units and not c.name.lower().endswith("id")]


def _known_project(sources: list[str], output: Path) -> Path | None:
    """Return the project file to edit, which may be new; None if data files are named, for a new one."""
    if not sources:
        return output
    first = Path(sources[0])
    if len(sources) == 1 and first.is_dir():
        return first / output.name
    return first if len(sources) == 1 and first.suffix.lower() == ".toml" else None


def edit_in_browser(project: Path, *, open_browser: bool) -> None:
    """Serve the console in owner mode until the owner has finished.

    Raises:
        InputError: there is no folder for the project file, or the server is not installed.
    """
    from tacit.cli.doctor import examine
    from tacit.project.project_editing import EditedProject

    try:
        from tacit.server.console.owner_mode import run_owner_mode
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "tacit":
            raise
        raise MissingError(
            problem.name or "server", f"is not installed; --edit needs it: {install_command('server')}"
        ) from None
    if not project.parent.is_dir():
        raise InputError("output", f"there is no folder {project.parent}")
    editing = EditedProject(project)
    editing.read()

    def started(address: str) -> None:
        typer.echo(f"Edit {project} in your browser; the link works once, on this machine:\n\n    {address}\n")
        typer.echo("It shows rows of your data to you alone. Each choice is written to the file. Ctrl-C ends it.")
        if open_browser:
            _open(address, Path(folder))

    with tempfile.TemporaryDirectory(prefix="tacit-edit-") as folder:
        run_owner_mode(editing, started, examine)
    typer.echo(f"Then: tacit doctor --project {project}")


def _open(address: str, folder: Path) -> None:
    """Open a browser by a file that redirects to the address, because other users can see command-line arguments."""
    import webbrowser

    page = folder / "open.html"
    words = f'<meta http-equiv="refresh" content="0;url={address}"><p><a href="{address}">Continue</a></p>'
    # The folder is its owner's alone.
    page.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>tacit</title>{words}</html>')
    webbrowser.open(page.as_uri())
