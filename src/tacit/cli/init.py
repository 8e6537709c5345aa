"""``tacit init``: from data files, or tables of a PostgreSQL, to a commented project file; or in the browser.

Names come from headers and schemas. Rows are looked at only after saying so, to guess the types of CSV columns and to
offer categories; smallest and largest values are never looked at, because a bound taken from data reveals the
person with the most extreme value.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.common import JsonFlag, console, is_interactive, listening, print_json, reported
from tacit.core.errors import InputError, TacitError
from tacit.core.extras import MissingError, install_command
from tacit.core.names import is_name
from tacit.core.numbers import exact, exact_positive, exact_probability
from tacit.core.text_files import visible
from tacit.engines.registry import is_database_address
from tacit.project.draft import (
    AMBIGUOUS,
    CSV,
    SAMPLE_ROWS,
    SUPPOSED,
    address_without_secrets,
    draft_csv,
    draft_file,
    guess_categories,
    guess_unit,
    plain_numbers,
    postgres_tables,
    project_name,
    read_sample,
    sum_and_average_errors,
)
from tacit.project.project_template import DELTA, Draft, DraftColumn, DraftTable, open_places, project_text
from tacit.query.contribution import AUTO, ContributionNumber, contribution_number

_TYPES = ("text", "integer", "decimal", "double", "boolean", "date", "timestamp")
_PREVIEW_EPSILON = "0.5"


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
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; guess the types of CSV columns from rows.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit in the browser: a project file, a folder, or data files to begin with.")
    ] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser, with --edit.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented project file for your data.

    On a terminal it asks about types, the unit, categories and bounds. Elsewhere, or with --yes, it asks nothing: what
    is open stays in the file as a comment or as a value marked "?".

    tacit init visits.csv --public wards.csv --unit patient_id --epsilon 4

    tacit init postgresql://reader@host/hospital --table clinic.visits --public clinic.wards

    tacit init --edit visits.csv
    """
    with reported("sources", "source", "project", as_json=as_json):
        if edit:
            edit_in_browser(sources or [], output, open_browser=browser)
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
        asking = is_interactive() and not yes and not as_json
        stated = delta or (None if asking else DELTA)
        draft = Draft(project_name(output), (), population, epsilon, None if stated == "0" else stated)
        if any(map(is_database_address, sources)):
            if len(sources) > 1:
                raise InputError("sources", "a project has one database, or files; name its tables with --table")
            with listening():
                tables = postgres_tables(sources[0], table or [], public or [], unit)
            # There are no files, so no rows that may be looked at.
            draft = replace(draft, engine=address_without_secrets(sources[0]), tables=tables)
            files: dict[str, Path] = {}
        else:
            if table:
                raise InputError("table", "is for a database, such as postgresql://reader@host/hospital")
            draft, files = _of_files(draft, sources, public or [], unit, output.parent, look=yes)
        _check_tables(draft, unit)
        if asking:
            draft = interview(draft, files, pure=delta == "0")
        text = project_text(draft)
        try:
            # For its owner alone.
            with open(output, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(text)
        except OSError as problem:
            raise InputError("output", f"cannot write {output}: {problem.strerror}") from None
    places = open_places(tomllib.loads(text))
    if as_json:
        print_json(_as_json(draft, output, places))
    else:
        _show(draft, output, places)


def _of_files(
    draft: Draft, sources: list[str], public: list[str], unit: str | None, beside: Path, *, look: bool
) -> tuple[Draft, dict[str, Path]]:
    """Return the draft with its tables, and the files of the protected ones, whose rows may be read."""
    paths = [Path(source) for source in sources]
    protected = [draft_file(path, beside, public=False, unit=unit, look=look) for path in paths]
    others = [draft_file(Path(source), beside, public=True, unit=unit, look=True) for source in public]
    sampled = tuple(path.name for path in paths if look and path.suffix.lower() in CSV)
    files = {table.name: path for table, path in zip(protected, paths, strict=True)}
    return replace(draft, tables=(*protected, *others), sampled=sampled), files


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
        if not draft.sampled and any(place.endswith(".type") for place in places):
            say("With --yes the first rows are looked at, and types, encoding, decimal mark and dates proposed.")
        say("\nTo fill in:")
        for place in places:
            say(f"  {place}")
    say(f"\nThen: tacit doctor --project {output}")
    for sql, more in _examples(draft):
        say(f'      tacit explain "{sql}" --epsilon 0.5{more} --project {output}')
    say("      which is free: what a query costs, and how far off it is for the bounds you state.")
    unbounded = [column.name for table in draft.tables if not table.public for column in _quantities(table)]
    if unbounded:
        say(f"      Sums and averages can be asked once bounds are stated: {', '.join(unbounded)}.")


def _examples(draft: Draft) -> Iterator[tuple[str, str]]:
    """Generate example queries: a count, and an average of the first numeric column with bounds."""
    for table in draft.tables:
        if table.public:
            continue
        yield f"SELECT COUNT(*) FROM {table.name}", ""  # noqa: S608 - a name, for people to read
        bounded = [column.name for column in table.columns if column.is_number and column.bounds is not None]
        if bounded:
            yield f"SELECT AVG({bounded[0]}) FROM {table.name}", " --suppose 1000"  # noqa: S608
        return


def _quantities(table: DraftTable) -> list[DraftColumn]:
    """Return numeric columns without bounds that do not look like identifiers."""
    units = (table.unit, table.guess)
    numbers = [c for c in table.columns if c.is_number and c.bounds is None and c.why_not is None]
    return [c for c in numbers if c.name not in units and not c.name.lower().endswith("id")]


# -- the queries of an interview


def interview(draft: Draft, files: Mapping[str, Path], *, pure: bool = False) -> Draft:
    """The draft with the owner's answers in it. Enter leaves a place open.

    Args:
        draft: what is known so far.
        files: by table, where rows may be looked at if the owner says so; tables of a database are not among them.
        pure: no delta is asked for.
    """
    typer.echo("Enter keeps the value in brackets; open places are marked in the file.\n")
    if draft.epsilon is None:
        draft = replace(draft, epsilon=_ask_number("Epsilon of all queries together, such as 4", "epsilon"))
    _caution(draft)
    if draft.delta is None and not pure:
        if draft.epsilon is not None:
            typer.echo("  A delta allows more queries for the same epsilon, and groups whose names are not public.")
        delta = DELTA if draft.epsilon is None else _ask_number("Delta of all queries; 0 for none", "delta", DELTA)
        draft = replace(draft, delta=None if delta == "0" else delta)
        _caution(replace(draft, epsilon=None))
    tables, sampled = [], []
    for table in draft.tables:
        if not table.public:
            path = files.get(table.name)
            table, looked = _ask_table(table, path, draft)
            sampled += [path.name] if looked and path is not None else []
        tables.append(table)
    return replace(draft, tables=tuple(tables), sampled=tuple(sampled))


def _caution(draft: Draft) -> None:
    """Print warnings where the budget protects little; nothing is refused."""
    for sentence in draft.cautions:
        typer.echo(f"  Caution: {sentence}")


def _ask_table(table: DraftTable, path: Path | None, draft: Draft) -> tuple[DraftTable, bool]:
    where = table.source if path is None else path.name
    typer.echo(f"\n{table.name} ({where}): {', '.join(column.name for column in table.columns)}")
    look = path is not None and _may_look()
    rows: dict[str, list[str | None]] = {}
    if path is not None and look:
        table, rows = _look_at(table, path)
    for column in table.columns:
        if column.why_not is None and not column.states_type:
            table = table.with_column(_ask_type(column))
    table = _ask_unit(table, path if look else None)
    for column in table.columns:
        if column.why_not is None and column.name != table.unit:
            table = table.with_column(_ask_categories(column, rows.get(column.name)))
    return _ask_bounds(table, draft), look


def _look_at(table: DraftTable, path: Path) -> tuple[DraftTable, dict[str, list[str | None]]]:
    """Return the table as inferred from its first rows, and their values as text; print the findings."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        usable = [column.name for column in table.columns if column.why_not is None]
        return table, read_sample(path, usable)
    drafted = draft_csv(path, look=True, show=True)
    for sentence in drafted.remarks:
        typer.echo(f"  {visible(sentence)}")
    names = [column.name for column in drafted.columns]
    known = table.unit if table.unit in (*names, "row") else None
    guess = None if known else guess_unit(names)
    looked = replace(
        table, columns=drafted.columns, form=drafted.form, remarks=drafted.remarks, unit=known, guess=guess
    )
    return looked, {name: plain_numbers(texts, drafted.form) for name, texts in drafted.texts.items()}


def _may_look() -> bool:
    typer.echo(
        f"  Types and categories can be guessed from the first {SAMPLE_ROWS:,} rows. They are shown to you alone;"
    )
    typer.echo("  a guess that you keep is public, as everything in the file.")
    return typer.confirm("  Look at them?", default=True)


def _ask_type(column: DraftColumn) -> DraftColumn:
    while True:
        said = _ask(f"  Type of {column.name} ({', '.join(_TYPES)})", column.type)
        if said == column.type and said in ("date", "timestamp") and column.date_format == AMBIGUOUS:
            form = _ask("    Day and month could be exchanged. Format, such as %d/%m/%Y or %m/%d/%Y", None)
            return replace(column, date_format=form or AMBIGUOUS)
        if said == column.type:
            return column
        if said is None or said in _TYPES:
            return replace(column, type=said, step=None, date_format=None)
        typer.echo(f"    {said!r} is none of them.")


def _ask_unit(table: DraftTable, looked_at: Path | None) -> DraftTable:
    if table.unit is None:
        names = {column.name.lower(): column.name for column in table.columns if column.why_not is None}
        while True:
            said = _ask('  Which column identifies the person? ("row" if each person has one row)', table.guess)
            if said is None:
                return table
            if said.lower() in (*names, "row"):
                table = replace(table, unit=names.get(said.lower(), "row"), guess=None)
                break
            typer.echo(f"    {said!r} is not a column of {table.name}.")
    if table.unit == "row":
        return table
    typer.echo("  Each person's contribution must be limited; the limits are public and set the noise.")
    typer.echo('  Each is a number, or "auto": found privately, for a tenth to a quarter of the cost.')
    if looked_at is not None and table.unit is not None:
        _show_choices(looked_at, table)
    groups = _ask_count(
        "  In how many groups of one answer may one of them count, at most", table.max_groups, "max_groups"
    )
    rows = _ask_count("  And with how many rows in each, at most", table.max_rows, "max_rows")
    return replace(table, max_groups=groups, max_rows=rows)


def _show_choices(path: Path, table: DraftTable) -> None:
    """Show the owner at the terminal, in exact numbers, the share of rows that each max_rows would keep."""
    from tacit.project.owner_view import EPSILON, NOT_PRIVATE, draft_choices
    from tacit.project.source import Source

    try:
        unit = next(column for column in table.columns if column.name == table.unit)
        choices = draft_choices(replace(Source.of(str(path)), csv=table.form), unit.source or unit.name)
    except TacitError:
        return
    typer.echo(f"  {NOT_PRIVATE} (± of a count at epsilon {EPSILON})")
    for choice in choices:
        typer.echo(f"    max_rows = {choice}")


def _ask_categories(column: DraftColumn, values: list[str | None] | None) -> DraftColumn:
    found = guess_categories(values or []) if column.type in ("text", "integer") else None
    if found is None:
        return column
    typer.echo(f"  {column.name} has {len(found)} values in those rows: {', '.join(found)}")
    typer.echo("    As categories they are public, and every answer has all of them. Say yes only if there are no")
    typer.echo("    others, and if you would have listed them without looking.")
    if typer.confirm("    Use them?", default=False):
        return replace(column, categories=tuple(found), few_values=True)
    return replace(column, few_values=True)


def _ask_bounds(table: DraftTable, draft: Draft) -> DraftTable:
    numbers = [c for c in table.columns if c.is_number and c.why_not is None and c.name != table.unit]
    numbers = [column for column in numbers if column.categories is None]
    if numbers:
        typer.echo("  Bounds make sums and averages possible: values outside count as the nearest bound. Do not take")
        typer.echo(
            "  them from the data: that reveals the person with the most extreme value. Narrow ones mean less noise."
        )
    for column in numbers:
        stated = _bounds(column.name)
        if stated is None:
            continue
        table = table.with_column(replace(column, bounds=stated))
        errors = sum_and_average_errors(draft, table, column.name, _PREVIEW_EPSILON)
        if errors is not None:
            alone = ", one a person" if AUTO in (table.max_groups, table.max_rows) else ""
            typer.echo(f"    At epsilon {_PREVIEW_EPSILON} a sum and an average asked together are off by up to")
            typer.echo(
                f"    {errors[0]:,.0f} and {errors[1]:,.4g} ({SUPPOSED:,} rows supposed{alone}), 19 times in 20."
            )
            typer.echo("    Wider bounds would mean more.")
    return table


def _bounds(name: str) -> tuple[str, str] | None:
    while True:
        said = _ask(f"  Bounds of {name}, such as 0, 5000", None)
        if said is None:
            return None
        low, comma, high = (part.strip() for part in said.partition(","))
        try:
            if comma and exact(low, "bounds") <= exact(high, "bounds"):
                return low, high
        except InputError:
            pass
        typer.echo("    Two numbers with a comma between them, the lower one first.")


def _ask_number(query: str, name: str, default: str | None = None) -> str | None:
    check = exact_positive if name == "epsilon" else exact_probability
    while True:
        said = _ask(query, default)
        try:
            if said is not None and (name, said) != ("delta", "0"):
                check(said, name)
            return said
        except InputError as problem:
            typer.echo(f"    {problem}")


def _ask_count(query: str, default: ContributionNumber, name: str) -> ContributionNumber:
    while True:
        said = _ask(query, str(default)) or str(default)
        try:
            return contribution_number(int(said) if said.isdecimal() else said, name)
        except InputError:
            typer.echo("    A whole number, at least 1, or auto.")


def _ask(query: str, default: str | None) -> str | None:
    """Prompt for text; an empty input returns the default, or None where there is none."""
    said = str(typer.prompt(query, default=default or "", show_default=default is not None)).strip()
    return said or None


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
    """Open a browser by a file that redirects to the address, because other users can see command-line arguments."""
    import webbrowser

    page = folder / "open.html"
    words = f'<meta http-equiv="refresh" content="0;url={address}"><p><a href="{address}">Continue</a></p>'
    # The folder is its owner's alone.
    page.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>tacit</title>{words}</html>')
    webbrowser.open(page.as_uri())


def _chosen(sources: list[str], output: Path) -> tuple[Path, list[Path]]:
    """Return the project file, and the data files to start from."""
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
