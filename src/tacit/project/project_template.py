"""Text of a new project file with comments and marked gaps, and reading and writing of such files.

A mark is the text ``"?"``. :func:`open_places` finds the marks of a file, so that an error can name them. This module
does not import the query planner, so that a command that only shows its help starts fast.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tacit.core.cautions import cautions_about_account
from tacit.core.errors import InputError
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.names import is_name
from tacit.engines.files import UTF_8, CsvFormat
from tacit.query.contribution import AUTO, ContributionNumber

#: The delta of a first account; it allows private group selection where no categories are declared.
DELTA: Final = "1e-6"
#: Marks a value that the owner has to fill in.
MARK: Final = "?"
_NUMBERS = ("integer", "decimal", "double")
_ASIDE = 34


@dataclass(frozen=True)
class DraftColumn:
    """Draft of a column's declarations.

    Args:
        name: its name.
        type: its type as a project file writes it; None if the owner has to state it.
        step: step of a decimal.
        bounds: clipping bounds as the owner stated them.
        categories: categories as the owner confirmed them.
        states_type: whether the source states the type, so that the file need not.
        few_values: whether it looked like a column of categories.
        why_not: the reason to leave the column out; None for a usable column.
        source: its name in the source, if that differs.
        date_format: format of dates in CSV that SQL does not read.
    """

    name: str
    type: str | None = None
    step: str | None = None
    bounds: tuple[str, str] | None = None
    categories: tuple[str, ...] | None = None
    states_type: bool = False
    few_values: bool = False
    why_not: str | None = None
    source: str | None = None
    date_format: str | None = None

    @property
    def is_number(self) -> bool:
        return self.type in _NUMBERS


@dataclass(frozen=True)
class DraftTable:
    """Draft of a table's declarations.

    ``guess`` is a unit that was offered and not confirmed, ``form`` the format of a CSV file, and ``remarks`` are
    sentences for the owner.
    """

    name: str
    source: str
    columns: tuple[DraftColumn, ...]
    public: bool = False
    unit: str | None = None
    guess: str | None = None
    max_groups: ContributionNumber = AUTO
    max_rows: ContributionNumber = AUTO
    form: CsvFormat = field(default_factory=CsvFormat)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """Draft of a project; ``engine`` is the address of the database without a password, None for files."""

    name: str
    tables: tuple[DraftTable, ...]
    population: str = "people"
    epsilon: str | None = None
    delta: str | None = None
    ledger: str = "tacit.ledger"
    engine: str | None = None
    sampled: tuple[str, ...] = field(default=())

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences for the owner if the budget stated so far protects little; usually none."""
        epsilon = PureDP(self.epsilon) if self.epsilon is not None else PureDP(0)
        stated = epsilon if self.delta is None else ApproxDP(epsilon.epsilon, self.delta)
        return cautions_about_account(stated)


def typed_column(name: str, kind: str | None) -> DraftColumn:
    """Return a column of a source that states its types; ``kind`` is the SQL type, None if Tacit does not read it."""
    if not is_name(name):
        return DraftColumn(name, why_not="cannot be used: a name has letters, digits and underscores; rename it")
    if kind is None:
        return DraftColumn(name, why_not="left out; its type is not one that Tacit reads")
    return DraftColumn(name, kind.partition("(")[0].lower(), states_type=True)


def toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def open_places(content: Mapping[str, Any], where: str = "") -> list[str]:
    """Return all places of a file that still hold a mark, in order."""
    places = []
    for key, value in content.items():
        place = f"{where}.{key}" if where else key
        if isinstance(value, Mapping):
            places += open_places(value, place)
        elif value == MARK or (isinstance(value, list) and MARK in value):
            places.append(place)
    return places


def read_toml(place: Path, parameter: str, missing: str = "") -> dict[str, Any]:
    """Return the content of a TOML file.

    Args:
        place: the file.
        parameter: name of the parameter that names the file, for messages.
        missing: message for a missing file.

    Raises:
        InputError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError as problem:
        words = missing if isinstance(problem, FileNotFoundError) else ""
        raise InputError(parameter, words or f"cannot read {place}: {problem.strerror}") from None
    except ValueError as problem:
        raise InputError(parameter, f"{place.name} is not TOML: {problem}") from None


def read_project(project: Path) -> dict[str, Any]:
    """Return the content of a project file without open places."""
    if project.suffix.lower() != ".toml":
        raise InputError("project", f"must be a project file (.toml), got {str(project)!r}; tacit init makes one")
    missing = f"there is no {project}; tacit init makes one, --project names another"
    content = read_toml(project, "project", missing)
    places = open_places(content)
    if places:
        more = f" (and {len(places) - 1} more: {', '.join(places[1:])})" if len(places) > 1 else ""
        raise InputError(places[0], f"is still to be filled in by you{more}")
    return content


def write_project(path: Path, text: str) -> None:
    """Write a project file, a new one for its owner alone; a reader sees the old text or the new one.

    A link stays, and so do the permissions of an old file.

    Raises:
        InputError: it cannot be written; it then stays as it is.
    """
    place = path.resolve()
    temporary = ""
    try:
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o600
        descriptor, temporary = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except OSError as problem:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise InputError("project", f"cannot write {path}: {problem.strerror}") from None


def project_text(draft: Draft) -> str:
    return "\n".join(_lines(draft)) + "\n"


def table_text(table: DraftTable, draft: Draft) -> str:
    return "\n".join(_table(table, draft)) + "\n"


def hints_of(key: str) -> re.Pattern[str]:
    """Return a pattern of the comments that offer a value for a key, to remove them once it has one."""
    offers = "= .*# (for sums and averages|for groups|a guess, by the name of the column)"
    return re.compile(rf"^# *{re.escape(key)} *({offers}|is .*, as the source says)$\n?", re.MULTILINE)


def _lines(draft: Draft) -> Iterator[str]:
    yield "# A Tacit project: what may be asked of these tables, and what all answers together may cost."
    yield f"# A place marked {toml_text(MARK)} is yours to fill in; `tacit doctor` names those that are left."
    yield "# Bounds and categories are taken as publicly known: state what you know without looking at the data."
    yield "# The file is for its owner's eyes; analysts see the names, types, bounds and categories that stand in it."
    if draft.sampled:
        rows = ", ".join(re.sub(r"[^ -~]", "?", name) for name in draft.sampled)
        yield f"# Types in it were guessed from the first rows of {rows}; check them."
    yield ""
    yield "[project]"
    yield f"name = {toml_text(draft.name)}"
    if draft.engine is not None:
        yield "# No password belongs here: PGPASSWORD, a password file or a service file holds it, or ${NAME} here."
        yield f"engine = {toml_text(draft.engine)}"
    yield _aside(f"ledger = {toml_text(draft.ledger)}", "every charge ever made; never delete it, keep it backed up")
    yield ""
    yield "# Whom to protect, and what all queries ever asked may cost each of them, together."
    yield f"[populations.{draft.population}]"
    example = "" if draft.epsilon else 'such as "4": '
    yield _aside(f"epsilon = {toml_text(draft.epsilon or MARK)}", f"{example}smaller = more privacy, less accuracy")
    if draft.delta is not None:
        yield _aside(
            f"delta = {toml_text(draft.delta)}", "groups whose names are not public are found privately with it"
        )
        yield _aside('accounting = "zcdp"', "many small queries cost less than their sum")
        yield _aside('# accounting = "pure"', "epsilon alone, without the two lines above")
    else:
        yield _aside(f"# delta = {toml_text(DELTA)}", "with both: more queries for the same epsilon, and groups")
        yield _aside('# accounting = "zcdp"', "whose names are not public can be found privately")
    for table in draft.tables:
        yield ""
        yield from _table(table, draft)


def _table(table: DraftTable, draft: Draft) -> Iterator[str]:
    form = table.form
    yield f"[tables.{table.name}]"
    yield f"source = {toml_text(table.source)}"
    if form.delimiter is not None:
        yield f"delimiter = {toml_text(form.delimiter)}"
    if form.encoding != UTF_8:
        yield _aside(f"encoding = {toml_text(form.encoding)}", "a guess: look at the letters beyond ASCII")
    if form.has_own_numbers:
        yield _aside(f"decimal_mark = {toml_text(form.decimal_mark)}", "stands before the fraction of a number")
    if form.thousands_mark:
        yield _aside(f"thousands_mark = {toml_text(form.thousands_mark)}", "stands between groups of three digits")
    if form.null_values:
        yield f"null_values = [{', '.join(map(toml_text, form.null_values))}]"
    if table.public:
        yield _aside("public = true", "anyone may know its contents; nothing in it is protected")
    else:
        yield f"population = {toml_text(draft.population)}"
        words = 'the column that identifies the person; "row" if each person has one row'
        if table.unit is not None:
            words = "whose row it is: all rows of one are protected together"
        yield _aside(f"unit = {toml_text(table.unit or MARK)}", words)
        if table.unit is None and table.guess is not None:
            yield _aside(f"# unit = {toml_text(table.guess)}", "a guess, by the name of the column")
    if not table.public and table.unit != "row":
        if AUTO in (table.max_groups, table.max_rows):
            yield "# One person counts in this many groups of an answer, with this many rows in each. A number is free;"
            yield '# "auto" has it found privately, for a tenth to a quarter of the cost. Fewer means less noise.'
        groups, rows = (json.dumps(number) for number in (table.max_groups, table.max_rows))
        yield _aside(f"max_groups = {groups}", "the most groups of one answer that one of them counts in")
        yield _aside(f"max_rows = {rows}", "and with how many rows in each; fewer means less noise")
    yield ""
    yield f"[tables.{table.name}.columns]"
    width = max((len(column.name) for column in table.columns), default=0)
    for column in table.columns:
        yield from _column(column, min(width, 24), table)


def _column(column: DraftColumn, width: int, table: DraftTable) -> Iterator[str]:
    if column.why_not is not None:
        yield f"# {toml_text(column.name)}: {column.why_not}"
        return
    words = _words(column)
    line = f"{column.name:<{width}} = {{ {', '.join(words)} }}" if words else ""
    # A source that states its types needs no line for a column without other declarations.
    yield line or f"# {column.name:<{width}} is {column.type}, as the source says"
    if table.public or column.name in (table.unit, table.guess):
        return
    if column.is_number and column.bounds is None:
        with_bounds = ", ".join([*words, "bounds = [lowest, highest]"])
        yield _aside(f"# {column.name:<{width}} = {{ {with_bounds} }}", "for sums and averages")
    if column.categories is None and (column.few_values or column.type == "text"):
        kinds = ", ".join([*words, "categories = [every, value, there, is]"])
        yield _aside(f"# {column.name:<{width}} = {{ {kinds} }}", "for groups")


def _words(column: DraftColumn) -> list[str]:
    words = [] if column.source is None else [f"source = {toml_text(column.source)}"]
    if not column.states_type:
        words.append(f"type = {toml_text(column.type or MARK)}")
        if column.step is not None:
            words.append(f"step = {toml_text(column.step)}")
    if column.date_format is not None:
        words.append(f"date_format = {toml_text(column.date_format)}")
    if column.bounds is not None:
        words.append(f"bounds = [{', '.join(map(_end, column.bounds))}]")
    if column.categories is not None:
        words.append(f"categories = [{', '.join(map(toml_text, column.categories))}]")
    return words


def _end(text: str) -> str:
    """Return a bound as TOML: a number as the owner wrote it, other values as text."""
    return text if re.fullmatch(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?", text) else toml_text(text)


def _aside(line: str, comment: str) -> str:
    return f"{line:<{_ASIDE}} # {comment}"
