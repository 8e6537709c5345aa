"""Editing of a project file: its text, edited value by value, its problems, and writing it.

The file is the only state. An owner's choice is an edit of its text (:func:`edit_toml`), so that comments and settings
that the pages do not know stay as they are.
"""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import json
import re
import threading
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.project.draft import project_name
from tacit.project.project_file import Project, ProjectModel, project_of, validate
from tacit.project.project_template import (
    MARK,
    Draft,
    DraftTable,
    hints_of,
    open_places,
    project_text,
    table_text,
    toml_text,
    write_project,
)

#: A place in a file: the sequence of keys that leads to it.
Place = tuple[str, ...]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?\Z")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
#: Maximal number of columns; tables with more must be edited in the text.
MOST_COLUMNS: Final = 2000


def edit_toml(text: str, changes: Mapping[Place, Any]) -> str:
    """Return the text with new values at some places; None removes a value or a whole table.

    The result is parsed again and compared with the wanted content. Comments stay, those behind a value in their
    column where there is room.

    Raises:
        InputError: the text is not TOML, or is written in a way that cannot be edited in place.
    """
    # Imported only here: tomlkit is installed with the server.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        wanted = tomllib.loads(text)
        document: Any = tomlkit.parse(text)
        for place, value in changes.items():
            *above, last = place
            plain, shown = wanted, document
            for key in above:
                plain = plain.setdefault(key, {})
            if value is None:
                plain.pop(last, None)
            else:
                plain[last] = copy.deepcopy(value)
            plain = wanted
            for key in above:
                inner = shown.setdefault(key, tomlkit.table())
                if isinstance(inner, InlineTable):
                    # An inline table is replaced as a whole.
                    last, value = key, plain[key]
                    break
                plain, shown = plain[key], inner
            old = shown.item(last) if last in shown else None
            if value is None:
                shown.pop(last, None)
                continue
            shown[last] = new = tomlkit.value(toml_value(value))
            if old is not None and old.trivia.comment:
                room = len(old.trivia.comment_ws) + len(old.as_string()) - len(new.as_string())
                new.trivia.comment_ws = " " * max(room, 2)
        text = tomlkit.dumps(document)
        # An empty table in the text equals none.
        if _filled(tomllib.loads(text)) == _filled(wanted):
            return text
    except (TOMLKitError, ValueError, LookupError, TypeError, AttributeError):
        pass
    raise InputError("project", "is written in a way that cannot be edited here; change this place in the text itself")


def _filled(content: Mapping[str, Any]) -> dict[str, Any]:
    pairs = ((key, _filled(value) if isinstance(value, Mapping) else value) for key, value in content.items())
    return {key: value for key, value in pairs if value != {}}


def toml_value(value: Any) -> str:
    """Return a value as TOML, on one line.

    Raises:
        TypeError: TOML has no such type of value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, (int, float)):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    raise TypeError(f"{type(value).__name__} is not a value of TOML")


def _key(key: str) -> str:
    return key if _BARE.match(key) else toml_text(key)


class EditedProject:
    """A project file, perhaps a new one, that pages edit; every edit is written at once.

    An edit names the revision that its page showed, so that an outdated page changes nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path.parent
        self._lock = threading.Lock()

    def read(self) -> tuple[str, dict[str, Any]]:
        """Return the text of the file, or of a new one, and its content.

        Raises:
            InputError: the file cannot be read, or is not TOML.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            text = project_text(Draft(project_name(self.path), ()))
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError("project", f"cannot read {self.path}: {problem}") from None
        try:
            return text, tomllib.loads(text)
        except ValueError as problem:
            raise InputError("project", f"{self.path.name} is not TOML: {problem}") from None

    def edit(self, revision: str, changes: Mapping[Place, Any]) -> None:
        """Change values; None removes one. An edit without changes is never outdated.

        Raises:
            InputError: the file was edited since, cannot be edited in place, or cannot be written.
        """
        if not changes:
            return
        with self._lock:
            text, _ = self._unchanged(revision)
            text = edit_toml(text, changes)
            for place, value in changes.items():
                if value is not None:
                    text = _without_hints(text, place)
                if place[-1] == "unit" and len(place) == 3:
                    # The unit column has no bounds and no categories.
                    text = _without_hints(text, (*place[:2], "columns", str(value)))
            write_project(self.path, text)

    def add(self, revision: str, table: DraftTable) -> str:
        """Add a drafted table, and return its name, which gets a number if it is taken.

        Raises:
            InputError: it has too many columns for these pages; otherwise as :meth:`edit`.
        """
        if len(table.columns) > MOST_COLUMNS:
            raise InputError("source", f"has {len(table.columns):,} columns; at most {MOST_COLUMNS:,} have pages")
        with self._lock:
            text, content = self._unchanged(revision)
            taken = {name.lower() for name in content.get("tables", {})}
            name, number = table.name, 2
            while name.lower() in taken:
                name, number = f"{table.name}_{number}", number + 1
            people = next(iter(content.get("populations", {})), "people")
            if not table.public and people not in content.get("populations", {}):
                text = edit_toml(text, {("populations", people, "epsilon"): MARK})
            part = table_text(replace(table, name=name), Draft("", (), people))
            write_project(self.path, f"{text.rstrip()}\n\n{part}")
            return name

    def _unchanged(self, revision: str) -> tuple[str, dict[str, Any]]:
        found = self.read()
        if revision_of(found[0]) != revision:
            raise InputError(
                "page", f"was out of date: {self.path.name} was edited elsewhere; this is what it says now"
            )
        return found


def revision_of(text: str) -> str:
    """Return a digest of a file's text, by which an edit names what it is based on."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def project_problems(content: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the reasons why a project cannot be loaded: its open places, else the first error."""
    places = open_places(content)
    if places:
        return [f"{place} is still to be filled in by you" for place in places]
    try:
        project_of(validate(ProjectModel, content), folder)
    except InputError as problem:
        return [str(problem)]
    return []


def viewable_project(content: Mapping[str, Any], folder: Path, name: str) -> Project:
    """Return a project without its open places, to view a table; without the other tables if one has an error.

    Raises:
        InputError: as the loader.
    """
    closed = _closed(copy.deepcopy(dict(content)))
    try:
        return project_of(validate(ProjectModel, closed), folder)
    except InputError:
        closed["tables"] = {known: table for known, table in closed.get("tables", {}).items() if known == name}
        return project_of(validate(ProjectModel, closed), folder)


def stated_value(text: str) -> Any:
    """Return a bound or a category as the owner typed it: a number, a date, or text.

    A number with more digits than a float has is kept as text, which is read exactly.
    """
    said = text.strip()
    if _NUMBER.match(said):
        if "." not in said:
            return int(said)
        return float(said) if len(said) <= 15 else said
    if _DAY.match(said):
        try:
            return dt.date.fromisoformat(said)
        except ValueError:
            return said
    return said


def _closed(content: dict[str, Any]) -> dict[str, Any]:
    """Return a content without its open places: budgets are emptied, a column without a type is removed."""
    people = content.get("populations")
    if isinstance(people, dict):
        content["populations"] = {name: {} if isinstance(said, dict) else said for name, said in people.items()}
    tables = content.get("tables")
    for table in tables.values() if isinstance(tables, dict) else ():
        columns = table.get("columns") if isinstance(table, dict) else None
        if isinstance(columns, dict):
            for said in columns.values():
                if isinstance(said, dict) and MARK in (said.get("bounds") or ()):
                    del said["bounds"]
            table["columns"] = {name: said for name, said in columns.items() if not open_places({"": said})}
        if isinstance(table, dict) and table.get("unit") == MARK:
            table["unit"] = "row"
    return content


def _without_hints(text: str, place: Place) -> str:
    """Return the text without the template's comments that offered a value for a place that now has one."""
    # A setting of a column is in the line of the column.
    above = place[:3] if place[:1] == ("tables",) and len(place) > 3 else place[:-1]
    key, header = place[len(above)], f"[{'.'.join(above)}]"
    start = text.find(f"{header}\n")
    if start < 0:
        return text
    end = text.find("\n[", start + 1)
    end = len(text) if end < 0 else end
    return text[:start] + hints_of(key).sub("", text[start:end]) + text[end:]
