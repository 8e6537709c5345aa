"""Edits of a TOML text that keep its comments and everything that is not edited.

A statement (a header, or a key with its value) is found by its place in the text. :func:`edit_toml` changes single
values and reads the result again: what it returns holds exactly what was asked for, or nothing is returned.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.project.project_template import toml_text

#: A place in a file: the keys that lead to it.
Place = tuple[str, ...]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_KEY_PART: Final = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"((?:[^"\\]|\\.)*)"|'([^']*)')\s*""")
_OPENING: Final = ('"""', "'''", '"', "'")


@dataclass(frozen=True)
class _Statement:
    """A header or a key; ``start`` and ``end`` are of its whole lines, ``value`` of the text of its value."""

    path: Place
    start: int
    end: int
    value: tuple[int, int] | None


def edit_toml(text: str, changes: Mapping[Place, Any]) -> str:
    """The text with other values at some places; None takes a value, or a whole table, away.

    Raises:
        InputError: the text is not TOML, or is written in a way that cannot be edited in place.
    """
    try:
        wanted = tomllib.loads(text)
        for place, value in changes.items():
            _put(wanted, place, value)
            text = _without(text, place) if value is None else _with(text, place, value)
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, LookupError, TypeError):
        raise _not_editable() from None
    # A table without a key may stand in the text or not.
    if _filled(found) != _filled(wanted):
        raise _not_editable()
    return text


def toml_value(value: Any) -> str:
    """A value as TOML, on one line.

    Raises:
        TypeError: TOML has no such value.
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


def _not_editable() -> InputError:
    return InputError("project", "is written in a way that cannot be edited here; change this place in the text itself")


def _put(content: dict[str, Any], place: Place, value: Any) -> None:
    *above, last = place
    for key in above:
        content = content.setdefault(key, {})
    if value is None:
        content.pop(last, None)
    else:
        content[last] = copy.deepcopy(value)


def _filled(content: Mapping[str, Any]) -> dict[str, Any]:
    pairs = ((key, _filled(value) if isinstance(value, Mapping) else value) for key, value in content.items())
    return {key: value for key, value in pairs if value != {}}


def _with(text: str, place: Place, value: Any) -> str:
    statements = list(_statements(text))
    for found in statements:
        if found.value is not None and found.path == place:
            return _spliced(text, found.value, toml_value(value))
    for found in statements:
        # A part of an inline table: the table is written anew.
        if found.value is not None and found.path == place[: len(found.path)]:
            inside = _value_of(text, found)
            _put(inside, place[len(found.path) :], value)
            return _spliced(text, found.value, toml_value(inside))
    if any(found.path[: len(place)] == place for found in statements):
        # A table that is written in statements of its own goes, and comes again as one value.
        text = _without(text, place)
        statements = list(_statements(text))
    *above, last = place
    line = f"{_key(last)} = {toml_value(value)}\n"
    end = _end_of_section(statements, tuple(above))
    if end is not None:
        before = "" if end == 0 or text[end - 1] == "\n" else "\n"
        return f"{text[:end]}{before}{line}{text[end:]}"
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{'.'.join(map(_key, above))}]\n{line}" if above else f"{line}{text}"


def _without(text: str, place: Place) -> str:
    """The text without a place, whatever of it is written where."""
    for found in reversed(list(_statements(text))):
        if found.path[: len(place)] == place:
            text = f"{text[: found.start]}{text[found.end :]}"
        elif found.value is not None and found.path == place[: len(found.path)]:
            inside = _value_of(text, found)
            _put(inside, place[len(found.path) :], None)
            text = _spliced(text, found.value, toml_value(inside))
    return text


def _value_of(text: str, found: _Statement) -> dict[str, Any]:
    start, end = found.value or (0, 0)
    inside = tomllib.loads(f"x = {text[start:end]}")["x"]
    if not isinstance(inside, dict):
        raise ValueError("not a table")
    return inside


def _spliced(text: str, where: tuple[int, int], value: str) -> str:
    """The text with a value in the place of another; a comment behind it stays in its column, where there is room."""
    start, end = where
    rest = text[end:]
    gap = re.match(r" +(?=#)", rest)
    if gap is not None:
        longer = len(value) - (end - start)
        rest = " " * max(len(gap.group()) - longer, 2) + rest[gap.end() :]
    return f"{text[:start]}{value}{rest}"


def _end_of_section(statements: Sequence[_Statement], above: Place) -> int | None:
    """The end of the last statement of a table that has a header; None where none has."""
    place: int | None = None
    inside = above == ()
    for found in statements:
        if found.value is None:
            inside = found.path == above
        if inside and (found.value is not None or found.path == above):
            place = found.end
    return 0 if place is None and above == () and not statements else place


def _key(key: str) -> str:
    return key if _BARE.match(key) else toml_text(key)


def _statements(text: str) -> Iterator[_Statement]:
    """All headers and keys with their values, in order; the text is TOML."""
    section: Place = ()
    place = 0
    while place < len(text):
        line_end = _line_end(text, place)
        stripped = text[place:line_end].strip()
        if not stripped or stripped.startswith("#"):
            place = line_end
            continue
        start = place
        if stripped.startswith("["):
            if stripped.startswith("[["):
                raise ValueError("lists of tables are not edited")
            section, _ = _keys(text, text.index("[", place) + 1, "]")
            yield _Statement(section, start, line_end, None)
            place = line_end
            continue
        path, equals = _keys(text, place, "=")
        first = equals + 1 + len(text[equals + 1 :]) - len(text[equals + 1 :].lstrip(" \t"))
        last = _value_end(text, first)
        place = _line_end(text, last)
        yield _Statement((*section, *path), start, place, (first, last))


def _keys(text: str, place: int, until: str) -> tuple[Place, int]:
    """A key of several parts, and the place of the sign behind it."""
    found: list[str] = []
    while True:
        part = _KEY_PART.match(text, place)
        if part is None:
            raise ValueError("not a key")
        bare, quoted, literal = part.groups()
        if bare is None and literal is None:
            bare = str(tomllib.loads(f'x = "{quoted}"')["x"])
        found.append(literal if bare is None else bare)
        place = part.end()
        if text[place] == until:
            return tuple(found), place
        if text[place] != ".":
            raise ValueError("not a key")
        place += 1


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end + 1


def _value_end(text: str, place: int) -> int:
    """The end of a value that begins at a place: strings, and brackets over several lines, are passed as a whole."""
    depth, end = 0, place
    while place < len(text):
        sign = text[place]
        quote = next((mark for mark in _OPENING if text.startswith(mark, place)), None)
        if quote is not None:
            place = end = _string_end(text, place, quote)
            continue
        if sign == "#":
            if depth == 0:
                return end
            place = _line_end(text, place)
            continue
        if sign == "\n" and depth == 0:
            return end
        depth += (sign in "[{") - (sign in "]}")
        place += 1
        if not sign.isspace():
            end = place
    return end


def _string_end(text: str, place: int, quote: str) -> int:
    place += len(quote)
    while not text.startswith(quote, place):
        if place >= len(text):
            raise ValueError("a text without an end")
        place += 2 if text[place] == "\\" and quote[0] == '"' else 1
    place += len(quote)
    # Up to two quotes may stand before the three that end a long text.
    while len(quote) == 3 and text.startswith(quote[0], place):
        place += 1
    return place
