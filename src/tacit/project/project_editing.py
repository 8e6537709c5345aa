"""Editing of a project file: its text, edited value by value, its problems, its changes, and saving it.

The text is the only state. An owner's choice is an edit of the text (:func:`edit_toml`), so that the shown file is
the saved file, and comments and settings that the editor does not know stay as they are.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import os
import re
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
)

#: A place in a file: the sequence of keys that leads to it.
Place = tuple[str, ...]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?\Z")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
#: Maximal number of characters: a project file has some kilobytes.
MOST_TEXT: Final = 1 << 20
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


@dataclass(frozen=True)
class Change:
    """One setting that differs from the file on disk; empty text where it is not set."""

    place: str
    before: str
    after: str


class EditedProject:
    """A project file, perhaps a new one, while it is edited; safe to use from several threads.

    ``revision`` grows with every edit. An edit names the revision that it is based on, so that an outdated page
    changes nothing.

    Raises:
        InputError: the file exists and cannot be read, or is not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path.parent
        self._lock = threading.RLock()
        self.on_disk = _read_text(path)
        self.text = self.on_disk if self.on_disk is not None else project_text(Draft(project_name(path), ()))
        self.revision = 1
        if self.on_disk is not None:
            _parsed(self.on_disk)

    @property
    def content(self) -> dict[str, Any]:
        return _parsed(self.text)

    @property
    def is_changed(self) -> bool:
        return self.text != self.on_disk

    def edit(self, revision: int, changes: Mapping[Place, Any]) -> None:
        """Change values; None removes one. An edit without changes is never outdated.

        Raises:
            InputError: the text was edited since, or cannot be edited in place.
        """
        if not changes:
            return
        with self._lock:
            self._check(revision)
            text = edit_toml(self.text, changes)
            for place, value in changes.items():
                if value is not None:
                    text = _without_hints(text, place)
                if place[-1] == "unit" and len(place) == 3:
                    # The unit column has no bounds and no categories.
                    text = _without_hints(text, (*place[:2], "columns", str(value)))
            self._keep(text)

    def rewrite(self, revision: int, text: str) -> None:
        """Replace the whole text.

        Raises:
            InputError: it is too long or not TOML, or the text was edited since.
        """
        with self._lock:
            self._check(revision)
            _parsed(text)
            self._keep(text if text.endswith("\n") else f"{text}\n")

    def add(self, revision: int, table: DraftTable, engine: str | None = None) -> str:
        """Add a drafted table, and return its name, which gets a number if it is taken.

        Raises:
            InputError: it has too many columns for this editor, or the text was edited since.
        """
        if len(table.columns) > MOST_COLUMNS:
            raise InputError(
                "source", f"has {len(table.columns):,} columns; this editor takes {MOST_COLUMNS:,} at most"
            )
        with self._lock:
            self._check(revision)
            content = self.content
            taken = {name.lower() for name in content.get("tables", {})}
            name, number = table.name, 2
            while name.lower() in taken:
                name, number = f"{table.name}_{number}", number + 1
            people = next(iter(content.get("populations", {})), "people")
            text = self.text
            if not table.public and people not in content.get("populations", {}):
                text = edit_toml(text, {("populations", people, "epsilon"): MARK})
            if engine is not None and content.get("project", {}).get("engine") != engine:
                text = edit_toml(text, {("project", "engine"): engine})
            part = table_text(replace(table, name=name), Draft("", (), people))
            self._keep(f"{text.rstrip()}\n\n{part}")
            return name

    def problems(self) -> list[str]:
        """Return the reasons why the file cannot be opened: its open places, else the first error."""
        content = self.content
        places = open_places(content)
        if places:
            return [f"{place} is still to be filled in by you" for place in places]
        try:
            self.project()
        except InputError as problem:
            return [str(problem)]
        return []

    def project(self) -> Project:
        """Return the project that the text describes.

        Raises:
            InputError: as the loader.
        """
        return project_of(validate(ProjectModel, self.content), self.folder)

    def viewable(self, name: str) -> Project:
        """Return the project without its open places, to view a table; without the other tables if one has an error.

        Raises:
            InputError: as the loader.
        """
        try:
            return project_of(validate(ProjectModel, _closed(self.content)), self.folder)
        except InputError:
            content = _closed(self.content)
            content["tables"] = {known: table for known, table in content.get("tables", {}).items() if known == name}
            return project_of(validate(ProjectModel, content), self.folder)

    def changes(self) -> list[Change]:
        """Return the settings that differ from the file on disk, in the order of the new text."""
        before = {} if self.on_disk is None else _parsed(self.on_disk)
        return changes_between(before, self.content)

    def save(self, revision: int) -> None:
        """Write the text atomically, so that a reader sees the old file or the new one.

        Raises:
            InputError: the file on disk was changed since it was read, or cannot be written; it then stays as it is.
        """
        with self._lock:
            self._check(revision)
            if _read_text(self.path) != self.on_disk:
                raise InputError(
                    "project",
                    f"{self.path.name} was changed on disk since it was opened here, and is left unchanged; "
                    "copy your text, and open the editor again",
                )
            _replace(self.path, self.text)
            self.on_disk = self.text
            self.revision += 1

    def _check(self, revision: int) -> None:
        if revision != self.revision:
            raise InputError(
                "page", "was out of date: the project was edited in another tab or window; this is its present state"
            )

    def _keep(self, text: str) -> None:
        if len(text) > MOST_TEXT:
            raise InputError("text", f"has more than {MOST_TEXT:,} characters, which is too long for this editor")
        _parsed(text)
        self.text = text
        self.revision += 1


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the settings that differ between two contents of a file."""
    old, new = dict(_settings(before)), dict(_settings(after))
    return [
        Change(".".join(place), old.get(place, ""), new.get(place, ""))
        for place in [*new, *(place for place in old if place not in new)]
        if old.get(place) != new.get(place)
    ]


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


def _settings(content: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, str]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _settings(value, (*above, key))
        else:
            yield (*above, key), toml_value(value)


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


def _parsed(text: str) -> dict[str, Any]:
    if len(text) > MOST_TEXT:
        raise InputError("text", f"has more than {MOST_TEXT:,} characters, which is too long for this editor")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as problem:
        raise InputError("text", f"is not TOML: {problem}") from None


def _read_text(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(4 * MOST_TEXT + 1).decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise InputError("project", f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError("project", f"{path.name} is not UTF-8 text") from None


def _replace(path: Path, text: str) -> None:
    """Write a new file and rename it over the old one; a link stays, and so do the permissions of the old file."""
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
