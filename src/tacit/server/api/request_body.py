"""Body of a question: fields and their types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.server.api.strict_json import NumberText, read_json
from tacit.server.service import Ask

__all__ = ["FIELDS", "ask_back", "ask_of", "ask_text", "count", "number", "numbers", "object_of", "text"]

#: Names in ``within`` and ``weights``.
_MOST_NAMES: Final = 256


def object_of(body: bytes, known: Mapping[str, object], *, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The object that a body is, if it has only known fields and all that are needed."""
    content = read_json(body)
    if not isinstance(content, dict):
        raise InputError("body", "must be a JSON object")
    for name in content:
        if name not in known:
            raise InputError(name[:80], f"is not a field; there are {', '.join(known)}")
    for name in needed:
        if name not in content:
            raise InputError(name, "is missing")
    return content


def ask_of(body: bytes) -> Ask:
    """The question in a body.

    Raises:
        RequestError, InputError: the body is not a question.
    """
    content = object_of(body, FIELDS, needed=("sql",))
    return Ask(**{name: FIELDS[name](name, value) for name, value in content.items()})


def ask_text(ask: Ask, key: str) -> str:
    """A question and its key as one text, equal for equal questions; :func:`ask_back` reads it."""
    told = {"sql": ask.sql, **{name: value for name, value in ask.words.items() if value is not None}}
    return json.dumps([told, key], sort_keys=True, separators=(",", ":"))


def ask_back(told: str) -> tuple[Ask, str]:
    """What :func:`ask_text` wrote down."""
    words, key = json.loads(told)
    return Ask(**words), key


def text(name: str, value: Any) -> str:
    """A field that is text."""
    if isinstance(value, NumberText) or not isinstance(value, str):
        raise InputError(name, f"must be text, not {_kind(value)}")
    return value


def number(name: str, value: Any) -> str:
    """A field that is a number, in the digits that were sent."""
    if not isinstance(value, NumberText):
        raise InputError(name, f"must be a JSON number such as 0.5, not {_kind(value)}")
    return str(value)


def count(name: str, value: Any) -> int:
    """A field that is a whole number of things."""
    if not isinstance(value, NumberText) or not value.whole:
        raise InputError(name, f"must be a whole number, not {_kind(value)}")
    return int(value)


def numbers(name: str, value: Any) -> dict[str, str]:
    """A field that is an object of numbers."""
    if not isinstance(value, dict) or len(value) > _MOST_NAMES:
        raise InputError(name, f"must be an object of at most {_MOST_NAMES} numbers, not {_kind(value)}")
    return {key: number(f"{name}.{key[:80]}", item) for key, item in value.items()}


def _within(name: str, value: Any) -> str | dict[str, str]:
    return numbers(name, value) if isinstance(value, dict) else number(name, value)


def _kind(value: Any) -> str:
    if isinstance(value, NumberText):
        return "the number " + value
    names = {str: "text", bool: "a truth value", dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value), "that")


FIELDS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "sql": text,
    "epsilon": number,
    "delta": number,
    "rho": number,
    "mu": number,
    "within": _within,
    "confidence": number,
    "max_groups": count,
    "weights": numbers,
    "suppose": count,
}
