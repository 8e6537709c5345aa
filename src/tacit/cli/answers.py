"""Answers and budgets as text, CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.printing import console, print_json
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.accounting.filters import Line
    from tacit.curator.accounts import Budget, Entry
    from tacit.curator.curator import Curator
    from tacit.curator.result import Answer

__all__ = [
    "FORMATS",
    "answer_json",
    "budget_json",
    "charge_json",
    "check_output",
    "check_writable",
    "exact_text",
    "lines_json",
    "print_answer",
    "show_answer",
]

FORMATS = ("table", "csv", "json", "parquet")
_BY_ENDING = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet", ".txt": "table"}
_MOST_DECIMALS = 40


def check_output(form: str | None, output: Path | None, as_json: bool) -> str:
    """The form to write: as said, else by the ending of the file, else a table. Checked before anything is spent."""
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
    table = answer.__rich__()
    table.caption = None
    screen.print(table)
    for line in _lines(curator, answer):
        screen.print(line, style="dim", markup=False, soft_wrap=True)


def answer_json(curator: Curator, answer: Answer) -> dict[str, Any]:
    """The answer as one object; a number that carries noise has its interval with it."""
    columns, finished = answer.columns, answer.finished
    known = finished.has_interval
    rows = [
        {column.name: _cell(values[i], ends[i] if known[i] else None, column.type) for i, column in enumerate(columns)}
        for values, ends in zip(finished.values, finished.intervals(), strict=True)
    ]
    return {
        "columns": [{"name": c.name, "type": str(c.type), "interval": known[i]} for i, c in enumerate(columns)],
        "rows": rows,
        "confidence": exact_text(finished.confidence),
        "charge": charge_json(answer.charge),
        "budget": budget_json(curator.budget(answer)),
        "receipt": json.loads(answer.receipt.to_json()),
    }


def charge_json(charge: Entry) -> dict[str, Any]:
    """What was charged, exactly."""
    return {
        "population": charge.population,
        "amounts": {amount.currency: exact_text(amount.amount) for amount in charge.amounts},
        "repeat": charge.repeated,
        "position": charge.number,
        "text": charge.text,
    }


def budget_json(budget: Budget) -> dict[str, Any]:
    """An account, exactly."""
    return {
        "population": budget.population,
        "guarantee": str(budget.guarantee),
        "currencies": lines_json(budget.lines),
        "shares": [
            {"owner": share.owner, "limited": share.limited, "currencies": lines_json(share.lines)}
            for share in budget.balances[1:]
        ],
        "questions_left": budget.questions,
        "durable": budget.durable,
    }


def lines_json(lines: Iterable[Line]) -> list[dict[str, str]]:
    """Cap and consumption of each currency, exactly."""
    return [
        {
            "currency": line.currency,
            "cap": exact_text(line.cap),
            "spent": exact_text(Fraction(line.spent)),
            "left": exact_text(line.left),
        }
        for line in lines
    ]


def exact_text(value: Fraction) -> str:
    """A rational without loss: as a decimal where it is one of reasonable length, else as a fraction."""
    value = Fraction(value)
    for digits in range(_MOST_DECIMALS + 1):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            text = f"{abs(scaled.numerator):0{digits + 1}d}"
            sign = "-" if value < 0 else ""
            return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else f"{sign}{text}"
    return str(value)


def _cell(value: Any, ends: tuple[Any, Any] | None, kind: Any) -> Any:
    if ends is None:
        return _plain(value, kind)
    return {"value": _plain(value, kind), "low": _plain(ends[0], kind), "high": _plain(ends[1], kind)}


def _plain(value: Any, kind: Any) -> Any:
    from tacit.curator.tables import plain

    shown = plain(value, kind)
    return shown if shown is None or isinstance(shown, (bool, int, float, str)) else str(shown)


def _lines(curator: Curator, answer: Answer) -> list[str]:
    number = answer.charge.number
    return [answer.note, f"{curator.budget(answer)}.", f"Receipt {number}: tacit receipt show {number}"]


def _write(curator: Curator, answer: Answer, form: str, output: Path | None) -> None:
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(answer.intervals(), output)
        return
    text = {"csv": _csv, "json": _json, "table": _table}[form](curator, answer)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _csv(_: Curator, answer: Answer) -> str:
    table = answer.intervals()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    columns = [column.to_pylist() for column in table.columns]
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def _json(curator: Curator, answer: Answer) -> str:
    return json.dumps(answer_json(curator, answer), ensure_ascii=False, allow_nan=False) + "\n"


def _table(_: Curator, answer: Answer) -> str:
    return f"{answer}\n"
