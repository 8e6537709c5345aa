"""Answers and budgets as text, CSV, JSON and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli.terminal import console, print_json
from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.core.text_files import csv_text, json_line

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.curator.curator import Curator
    from tacit.releases.answer import Answer

#: As after a Python answer, with what the command line has for it.
_MARKED = "* The bias may exceed the interval; --json has bias_low and bias_high, which include it."
FORMATS = ("table", "csv", "json", "parquet")
_BY_ENDING = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet", ".txt": "table"}


def check_output(form: str | None, output: Path | None, as_json: bool) -> str:
    """Form to write: as stated, else by the ending of the file, else a table. Checked before anything is spent."""
    if as_json:
        if form not in (None, "json"):
            raise InputError("format", f"contradicts --json; got {form!r}")
        form = "json"
    if form is None:
        form = "table" if output is None else _BY_ENDING.get(output.suffix.lower(), "table")
    if form not in FORMATS:
        raise InputError("format", f"must be one of {', '.join(FORMATS)}, got {form!r}")
    if form == "parquet" and output is None:
        raise InputError("output", "Parquet is not text; say which file to write: --output answer.parquet")
    if form == "parquet":
        load_arrow("pyarrow.parquet")
    if output is not None:
        check_writable(output, "output")
    return form


def check_writable(path: Path, option: str) -> None:
    """Find out before spending whether a file can be written."""
    if path.is_dir():
        raise InputError(option, f"{path} is a folder")
    if not path.absolute().parent.is_dir():
        raise InputError(option, f"there is no folder {path.absolute().parent}")


def print_answer(curator: Curator, answer: Answer, form: str, output: Path | None) -> None:
    """Write an answer; beside CSV and Parquet, what it cost goes to stderr, where no program reads it as data."""
    if form == "table" and output is None:
        show_answer(console(), curator, answer)
        return
    if form == "json" and output is None:
        from tacit.client.responses import answer_json

        print_json(answer_json(curator, answer))
        return
    try:
        _write(curator, answer, form, output)
    except OSError as problem:
        raise InputError("output", f"cannot write {output}: {problem.strerror or problem}; ask again, free") from None
    for line in _lines(curator, answer):
        typer.echo(line, err=True)


def show_answer(screen: Console, curator: Curator, answer: Answer) -> None:
    """The table with its errors, what was charged, and what is left."""
    from tacit.releases.answer import cut_note, has_marks, rich_table

    screen.print(rich_table(answer))
    cut = cut_note(answer)
    words = [f"{cut} All are in --format csv, and in a file: --output answer.csv."] if cut else []
    words += [_MARKED] if has_marks(answer) else []
    for line in (*words, *_lines(curator, answer)):
        screen.print(line, style="dim", markup=False, soft_wrap=True)


def _lines(curator: Curator, answer: Answer) -> list[str]:
    number = answer.charge.number
    if answer.is_public:
        return [answer.note]
    return [
        f"{answer.note} {answer.zeros_note}".rstrip(),
        f"{curator.budget(answer)}.",
        f"Receipt {number}: tacit receipt show {number}",
    ]


def _write(curator: Curator, answer: Answer, form: str, output: Path | None) -> None:
    if form == "parquet":
        pq = load_arrow("pyarrow.parquet")

        pq.write_table(answer.intervals(), output)
        return
    text = {"csv": _csv, "json": _json, "table": _table}[form](curator, answer)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", newline="")


def _csv(_: Curator, answer: Answer) -> str:
    from tacit.releases.answer import plain

    names, kinds, rows = answer.interval_rows()
    shown = ([plain(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows)
    return csv_text(names, shown)


def _json(curator: Curator, answer: Answer) -> str:
    from tacit.client.responses import answer_json

    return json_line(answer_json(curator, answer)) + "\n"


def _table(_: Curator, answer: Answer) -> str:
    return f"{answer}\n"
