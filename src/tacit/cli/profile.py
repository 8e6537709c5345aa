"""``tacit profile``: what a table holds that nobody has described."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.query import request_of, with_query_options
from tacit.cli.terminal import JsonFlag, print_json, reported, say
from tacit.core.text_files import replace_file


@with_query_options
def profile(
    table: Annotated[str, typer.Argument(help="A protected table.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    quote: Annotated[
        bool, typer.Option("--quote", help="Only show from how many rows each part is of use. Free.")
    ] = False,
    draft: Annotated[
        Path | None, typer.Option("--draft", help="Write a project file with the bounds found.", show_default=False)
    ] = None,
    options: Any = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find out privately what a table holds: rows, people, types, NULLs, magnitudes, means and values, for one charge.

    tacit profile visits --epsilon 1 --draft drafted.toml
    """
    with reported("table", as_json=as_json), opened(project, analyst=analyst) as curator:
        stated: Any = request_of(options).stated
        if quote:
            found = curator.explain_profile(table, **stated)
            told: dict[str, Any] = {"charge": found.charge, "parts": [each._asdict() for each in found.parts]}
            text = str(found)
        else:
            made = curator.profile(table, **stated)
            told = {"rows": str(made.rows), "columns": made.to_arrow().to_pylist(), "charge": made.charge.text}
            text = str(made)
            if draft is not None:
                replace_file(draft, made.draft().encode())
                text += f'\nWrote {draft}: fill in the places marked "?".'
    if as_json:
        print_json(told)
    else:
        say(text, whole=True)
