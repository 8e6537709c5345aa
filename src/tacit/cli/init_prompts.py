"""Prompts of ``tacit init``: types, unit, categories, bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import typer

from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import exact, exact_positive, exact_probability
from tacit.core.text_files import visible
from tacit.project.draft import (
    AMBIGUOUS,
    SAMPLE_ROWS,
    SUPPOSED,
    draft_csv,
    guess_categories,
    guess_unit,
    plain_numbers,
    read_sample,
    sum_and_average_errors,
)
from tacit.project.project_template import DELTA, Draft, DraftColumn, DraftTable
from tacit.query.contribution import AUTO, ContributionNumber, contribution_number

_TYPES = ("text", "integer", "decimal", "double", "boolean", "date", "timestamp")
_PREVIEW_EPSILON = "0.5"


def interview(draft: Draft, files: Mapping[str, Path], *, pure: bool = False) -> Draft:
    """The draft with the owner's answers in it. Enter leaves a place open.

    Args:
        draft: what is known so far.
        files: by table, where rows may be looked at if the owner says so; tables of a database are not among them.
        pure: no delta is asked for.
    """
    typer.echo("Enter keeps the value in brackets; open places are marked in the file.\n")
    if draft.epsilon is None:
        draft = replace(draft, epsilon=_number("Epsilon of all questions together, such as 4", "epsilon"))
    _caution(draft)
    if draft.delta is None and not pure:
        if draft.epsilon is not None:
            typer.echo("  A delta allows more questions for the same epsilon, and groups whose names are not public.")
        delta = DELTA if draft.epsilon is None else _number("Delta of all questions; 0 for none", "delta", DELTA)
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
    """Say where the budget protects little; nothing is refused for it."""
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
    """The table as its first rows suggest, and their values as text; what was found is said."""
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
    typer.echo('  Each is a number, or "auto": found privately, for a tenth of the price of a question.')
    if looked_at is not None and table.unit is not None:
        _show_choices(looked_at, table)
    groups = _count("  In how many groups of one answer may one of them count, at most", table.max_groups, "max_groups")
    rows = _count("  And with how many rows in each, at most", table.max_rows, "max_rows")
    return replace(table, max_groups=groups, max_rows=rows)


def _show_choices(path: Path, table: DraftTable) -> None:
    """Show the share that each max_rows would keep, in exact numbers, to the owner at the terminal."""
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


def _number(question: str, name: str, default: str | None = None) -> str | None:
    check = exact_positive if name == "epsilon" else exact_probability
    while True:
        said = _ask(question, default)
        try:
            if said is not None and (name, said) != ("delta", "0"):
                check(said, name)
            return said
        except InputError as problem:
            typer.echo(f"    {problem}")


def _count(question: str, default: ContributionNumber, name: str) -> ContributionNumber:
    while True:
        said = _ask(question, str(default)) or str(default)
        try:
            return contribution_number(int(said) if said.isdecimal() else said, name)
        except InputError:
            typer.echo("    A whole number, at least 1, or auto.")


def _ask(question: str, default: str | None) -> str | None:
    """Text typed at the prompt; None for nothing, which stands for the default where there is one."""
    said = str(typer.prompt(question, default=default or "", show_default=default is not None)).strip()
    return said or None
