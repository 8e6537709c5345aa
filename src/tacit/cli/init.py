"""``tacit init``: from data files, or tables of a PostgreSQL, to a commented project file.

Names come from headers and schemas. Rows are looked at only after saying so, to guess the types of CSV columns and to
offer categories; smallest and largest values are never looked at, because a bound taken from data reveals the
person with the most extreme value.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import listening
from tacit.cli.terminal import JsonFlag, console, is_interactive, print_json
from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.core.text_files import visible
from tacit.engines.registry import is_database_address
from tacit.project.draft import CSV, SAMPLE_ROWS, address_without_secrets, draft_file, postgres_tables, project_name
from tacit.project.project_template import DELTA, Draft, DraftColumn, DraftTable, open_places, project_text


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
    epsilon: Annotated[str | None, typer.Option(help="Budget of all questions together, such as 4.")] = None,
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
            from tacit.cli.init_edit import edit_in_browser

            edit_in_browser(sources or [], output, open_browser=browser)
            return
        if not sources:
            raise InputError("sources", "name the data to protect, such as visits.csv; or: tacit init --edit")
        _check_words(population, epsilon, delta)
        if output.exists() and not force:
            raise InputError("output", f"{output} exists already; --force replaces it")
        asking = is_interactive() and not yes and not as_json
        stated = delta or (None if asking else DELTA)
        draft = Draft(project_name(output), (), population, epsilon, None if stated == "0" else stated)
        if any(map(is_database_address, sources)):
            draft, files = _of_database(draft, sources, table or [], public or [], unit)
        else:
            draft, files = _of_files(draft, sources, table, public or [], unit, output.parent, look=yes)
        _check_tables(draft, unit)
        if asking:
            from tacit.cli.init_prompts import interview

            draft = interview(draft, files, pure=delta == "0")
        text = project_text(draft)
        _write(output, text)
    places = open_places(tomllib.loads(text))
    if as_json:
        print_json(_as_json(draft, output, places))
    else:
        _show(draft, output, places)


def _of_database(
    draft: Draft, sources: list[str], names: list[str], public: list[str], unit: str | None
) -> tuple[Draft, dict[str, Path]]:
    """The draft with its tables; there are no files, so no rows that may be looked at."""
    if len(sources) > 1:
        raise InputError("sources", "a project has one database, or files; name its tables with --table")
    with listening():
        tables = postgres_tables(sources[0], names, public, unit)
    return replace(draft, engine=address_without_secrets(sources[0]), tables=tables), {}


def _of_files(
    draft: Draft,
    sources: list[str],
    names: list[str] | None,
    public: list[str],
    unit: str | None,
    beside: Path,
    *,
    look: bool,
) -> tuple[Draft, dict[str, Path]]:
    """The draft with its tables, and the files of those that are protected, whose rows may be looked at."""
    if names:
        raise InputError("table", "is for a database, such as postgresql://reader@host/hospital")
    paths = [Path(source) for source in sources]
    protected = [draft_file(path, beside, public=False, unit=unit, look=look) for path in paths]
    others = [draft_file(Path(source), beside, public=True, unit=unit, look=True) for source in public]
    sampled = tuple(path.name for path in paths if look and path.suffix.lower() in CSV)
    files = {table.name: path for table, path in zip(protected, paths, strict=True)}
    return replace(draft, tables=(*protected, *others), sampled=sampled), files


def _check_words(population: str, epsilon: str | None, delta: str | None) -> None:
    from tacit.core.numbers import exact_positive, exact_probability

    if not is_name(population):
        raise InputError("population", f"a name has letters, digits and underscores; got {population!r}")
    if epsilon is not None:
        exact_positive(epsilon, "epsilon")
    if delta not in (None, "0"):
        exact_probability(delta, "delta")


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


def _write(output: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    try:
        with open(output, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)
    except OSError as problem:
        raise InputError("output", f"cannot write {output}: {problem.strerror}") from None


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
    say("      which is free: what a question costs, and how far off it is for the bounds you state.")
    unbounded = [column.name for table in draft.tables if not table.public for column in _quantities(table)]
    if unbounded:
        say(f"      Sums and averages can be asked once bounds are stated: {', '.join(unbounded)}.")


def _examples(draft: Draft) -> Iterator[tuple[str, str]]:
    """Questions to try: a count, and an average of the first number with bounds."""
    for table in draft.tables:
        if table.public:
            continue
        yield f"SELECT COUNT(*) FROM {table.name}", ""  # noqa: S608 - a name, for people to read
        bounded = [column.name for column in table.columns if column.is_number and column.bounds is not None]
        if bounded:
            yield f"SELECT AVG({bounded[0]}) FROM {table.name}", " --suppose 1000"  # noqa: S608
        return


def _quantities(table: DraftTable) -> list[DraftColumn]:
    """Columns of numbers without bounds that do not look like names of persons or things."""
    units = (table.unit, table.guess)
    numbers = [c for c in table.columns if c.is_number and c.bounds is None and c.why_not is None]
    return [c for c in numbers if c.name not in units and not c.name.lower().endswith("id")]
