"""Checks of CSV sources: lines that are no rows, values that are not of their type.

The findings name lines and columns and hold no value and no count, so that they may be logged; ``--look`` shows more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.engines.protocol import DoctorCheck

if TYPE_CHECKING:
    from tacit.engines.source_files import CsvFormat
    from tacit.project.project_file import Project
    from tacit.project.project_template import DraftColumn


def csv_checks(loaded: Project, name: str, *, look: bool = False) -> Iterator[DoctorCheck]:
    """Findings about lines and values that no row shows, each with a remedy; none where files are read whole.

    With ``look`` they quote values and count them.
    """
    from tacit.engines.registry import csv_losses
    from tacit.project.project_template import toml_text

    source, table = loaded.sources[name], loaded.catalog.table(name)
    if table is None:
        return
    where = f"source {name}"
    try:
        report = csv_losses(source, table)
    except InputError as problem:
        yield DoctorCheck(where, False, str(problem), _form_remedy(loaded, name) or "correct that in the project file")
        return
    if report.left_out is not None:
        file, line = report.left_out
        words = (
            f"line {line.number} of {Path(file).name} is no row and is left out, maybe others as well: {line.reason}"
        )
        remedy = _form_remedy(loaded, name) or "close its quotes, write values without new lines, or write Parquet"
        yield DoctorCheck(where, False, words, remedy)
    if report.other_width is not None:
        file, line = report.other_width
        words = f"line {line.number} of {Path(file).name}, maybe others as well: {line.reason}"
        remedy = "quote values that hold the delimiter; fields beyond the header are not read, missing ones are NULL"
        yield DoctorCheck(where, False, words, _form_remedy(loaded, name) or remedy)
    guessed = _guessed_columns(loaded, name) if report.nothing_read or report.partly_read else {}
    for column in report.nothing_read:
        declared = table.find(column)
        words = f"no value of {column} can be read as {declared.type if declared else 'its type'}: all of it is NULL"
        remedy = _column_remedy(column, guessed, source.csv) or f"correct its type in tables.{name}.columns"
        yield DoctorCheck(f"column {name}.{column}", False, words, remedy)
    for column in report.partly_read:
        declared = table.find(column)
        hint = _column_remedy(column, guessed, source.csv)
        hint = "" if guessed.get(column, (None,))[0] is None or guessed[column][0].type == "text" else hint
        words = f"some values cannot be read as {declared.type if declared else 'its type'} and are NULL"
        values = report.unread[column]
        if look:
            stated = ", ".join(toml_text(text) for text, _ in values)
            words += f": {', '.join(f'{text!r} ({number:,})' for text, number in values)}"
            remedy = hint or f"null_values = [{stated}] in [tables.{name}] would state that they stand for no value"
        else:
            remedy = hint or "--look lists them; null_values in the table says which texts stand for no value"
        # A setting that would read them is a problem; a few texts for no value are a remark.
        yield DoctorCheck(f"column {name}.{column}", not hint, words if hint else f"{words}; {remedy}", hint)


def _form_remedy(loaded: Project, name: str) -> str:
    """Settings that the first rows of a file ask for and the project file does not have."""
    from tacit.project.csv_guess import guess_form
    from tacit.project.project_template import toml_text

    source = loaded.sources[name]
    if not source.files or not source.files[0].is_file():
        return ""
    try:
        guess = guess_form(source.files[0], look=True)
    except InputError as problem:
        return problem.problem
    file = str(source.files[0])
    said = []
    if guess.delimiter_of(file) != source.csv.delimiter_of(file):
        said.append(f"delimiter = {toml_text(guess.delimiter_of(file))}")
    if guess.encoding != source.csv.encoding and source.csv.encoding == "utf-8":
        said.append(f"encoding = {toml_text(guess.encoding)}")
    return f"{' and '.join(said)} in [tables.{name}] may be right" if said else ""


def _guessed_columns(loaded: Project, name: str) -> Mapping[str, tuple[DraftColumn, CsvFormat]]:
    """The columns as ``tacit init`` would draft them now, by their name in the project file."""
    from tacit.project.csv_draft import draft_csv

    source, table = loaded.sources[name], loaded.catalog.table(name)
    try:
        drafted = draft_csv(source.files[0], look=True)
    except (InputError, IndexError):
        return {}
    stored = {(column.source or column.name).lower(): column for column in drafted.columns}
    return {
        column.name: (stored[column.stored_name.lower()], drafted.form)
        for column in (table.columns if table is not None else ())
        if column.stored_name.lower() in stored
    }


def _column_remedy(column: str, guessed: Mapping[str, tuple[DraftColumn, CsvFormat]], now: CsvFormat) -> str:
    """A setting under which the first values of a column could be read."""
    from tacit.project.csv_guess import AMBIGUOUS
    from tacit.project.project_template import toml_text

    found = guessed.get(column)
    if found is None:
        return ""
    draft, form = found
    stated = now.date_formats.get((draft.source or draft.name).lower()) or now.date_format
    if draft.date_format == AMBIGUOUS and stated is None:
        return 'state its date_format, such as "%d/%m/%Y" or "%m/%d/%Y"'
    if draft.date_format not in (None, AMBIGUOUS, stated):
        return f"date_format = {toml_text(draft.date_format or '')} in its line may be right"
    written = (now.decimal_mark, now.thousands_mark)
    if draft.is_number and form.has_own_numbers and (form.decimal_mark, form.thousands_mark) != written:
        marks = [f"decimal_mark = {toml_text(form.decimal_mark)}"]
        marks += [f"thousands_mark = {toml_text(form.thousands_mark)}"] if form.thousands_mark else []
        return f"{' and '.join(marks)} in the table may be right"
    return f'its first values look like type = "{draft.type}"' if draft.type == "text" else ""
