"""Draft of a CSV table for ``tacit init``: its form, its columns, and remarks for the owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.engines.source_files import CsvFormat
from tacit.project.csv_guess import (
    AMBIGUOUS,
    guess_date_format,
    guess_form,
    has_digit,
    is_number_of,
    most_of,
    name_of,
    read_rows,
    unread_remark,
    value_remarks,
)
from tacit.project.project_template import DraftColumn
from tacit.project.schema_inference import TypeGuess, guess_categories, guess_type


@dataclass(frozen=True)
class CsvDraft:
    """A CSV file as ``tacit init`` understands it.

    Args:
        form: how it is written.
        columns: its columns.
        texts: the first values of each column, by its name; empty where rows were not looked at.
        remarks: sentences for the owner.
    """

    form: CsvFormat
    columns: tuple[DraftColumn, ...]
    texts: Mapping[str, list[str | None]]
    remarks: tuple[str, ...] = ()


def draft_csv(path: Path, *, look: bool, show: bool = False) -> CsvDraft:
    """Draft a CSV file; rows are looked at only if ``look`` says so, and values are in remarks only with ``show``.

    Raises:
        InputError: it has no header, or is in an encoding that cannot be read.
    """
    # The registry loads the planner, which a command that only shows its help does not need.
    from tacit.engines.registry import csv_header
    from tacit.query.parsing.parse import is_writable

    form = guess_form(path, look=look)
    try:
        header = csv_header(str(path), form)
    except InputError:
        raise InputError("source", f"the first line of {path.name} must name its columns, each once") from None
    names: list[str] = []
    for place, name in enumerate(header, 1):
        if is_name(name) and is_writable(name):
            names.append(name)
        else:
            names.append(name_of(f"c {name}" if is_name(name) else name, place, (*header, *names)))
    texts = _texts(path, form, names) if look else {}
    columns, remarks = [], []
    for name, stored in zip(names, header, strict=True):
        column, others = _column(name, stored, texts.get(name), form)
        columns.append(column)
        remarks += value_remarks(name, texts.get(name, ()), show=show)
        remarks += [unread_remark(name, column.type or "", others, show=show)] if others else []
    return CsvDraft(form, tuple(columns), texts, (*form_lines(path, form, columns), *remarks))


def form_lines(path: Path, form: CsvFormat, columns: Sequence[DraftColumn]) -> list[str]:
    """Sentences about the form of a file; none where it is the usual one."""
    said = []
    if form.delimiter is not None:
        said.append(f"fields are separated by {form.delimiter!r}")
    if form.encoding != "utf-8":
        said.append(f"it is not UTF-8 and is read as {form.encoding}; check the letters beyond ASCII")
    if form.has_own_numbers:
        between = f" and {form.thousands_mark!r} between thousands" if form.thousands_mark else ""
        said.append(f"numbers have {form.decimal_mark!r} before their fractions{between}")
    for column in columns:
        if column.source is not None:
            why = ", for it is a word of SQL" if is_name(column.source) else ""
            said.append(f"{column.source!r} is called {column.name} in questions{why}")
        if column.date_format == AMBIGUOUS:
            said.append(f"{column.name} has days and months that could be exchanged: state its date_format")
        elif column.date_format is not None:
            said.append(f"{column.name} has dates as {column.date_format}")
    return [f"{path.name}: {sentence}" for sentence in said]


def plain_numbers(texts: Sequence[str | None], form: CsvFormat) -> list[str | None]:
    """Texts with their numbers as SQL writes them, for guesses."""
    if not form.has_own_numbers:
        return list(texts)
    marks = "".join((form.thousands_mark, "\u00a0\u202f" if form.thousands_mark == " " else ""))
    removed = {ord(mark): None for mark in marks} | {ord(form.decimal_mark): "."}
    return [None if text is None else text.translate(removed) for text in texts]


def _texts(path: Path, form: CsvFormat, names: Sequence[str]) -> dict[str, list[str | None]]:
    _, rows = read_rows(path, form)
    return {
        name: [(row[place].strip("\r\n") or None) if place < len(row) else None for row in rows]
        for place, name in enumerate(names)
    }


def _column(
    name: str, stored: str, values: list[str | None] | None, form: CsvFormat
) -> tuple[DraftColumn, Mapping[str, int]]:
    """A column by the values that can be read, and the few others with their numbers."""
    source = None if stored == name else stored
    guess = guess_type(values) if values is not None else None
    if guess is None or values is None:
        return DraftColumn(name, source=source), {}
    others: Mapping[str, int] = {}
    if guess.type == "text":
        dates, no_dates = most_of(values, has_digit)
        date = guess_date_format(dates)
        if date is not None:
            return DraftColumn(name, date[0], source=source, date_format=date[1]), no_dates
        found, others = _guess_of_most(values, dates, no_dates, form)
        guess = found or guess
    few = guess.type in ("text", "integer") and guess_categories(values) is not None
    return DraftColumn(name, guess.type, guess.step, few_values=few, source=source), others


def _guess_of_most(
    values: Sequence[str | None], dates: Sequence[str], no_dates: Mapping[str, int], form: CsvFormat
) -> tuple[TypeGuess | None, Mapping[str, int]]:
    """A type other than text that all but a few values have."""
    found = guess_type(dates)
    if found is not None and found.type in ("date", "timestamp"):
        return found, no_dates
    numbers, others = most_of(values, is_number_of(form))
    found = guess_type(plain_numbers(numbers, form))
    return (found, others) if found is not None and found.type in ("integer", "decimal", "double") else (None, {})
