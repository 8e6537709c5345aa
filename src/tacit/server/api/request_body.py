"""Strict JSON bodies of requests.

Refused are: anything but UTF-8, a byte order mark, a key that occurs twice, NaN and infinities, halves of characters,
numbers of absurd length or size, and bytes after the end. Numbers come out as ``int`` or ``Decimal``, so that one
tenth stays one tenth.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, TypeVar

from tacit.client.requests import read_query
from tacit.core.errors import InputError
from tacit.core.numbers import MAX_DIGITS
from tacit.query.request import Request
from tacit.releases.api_types import RequestModel
from tacit.releases.kinds import KINDS
from tacit.server.errors import RequestError

#: Work that a job may do: a query, or a release of a kind.
JobRequest = Request | RequestModel

#: Largest absolute value of a decimal exponent.
MAX_EXPONENT: Final = 40
_HALF: Final = re.compile("[\ud800-\udfff]")
_Body = TypeVar("_Body", bound=RequestModel)


def read_body(kind: type[_Body], body: bytes) -> _Body:
    """A body of a kind.

    Raises:
        RequestError, InputError: it is another.
    """
    return kind.of(read_json(body))


def ask_of(body: bytes) -> Request:
    """The question in a body.

    Raises:
        RequestError, InputError: the body is not a question.
    """
    return read_query(read_json(body))


def release_of(body: bytes) -> RequestModel:
    """The request for a release of a kind in a body.

    Raises:
        RequestError, InputError: the body is none.
    """
    content = read_json(body)
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str) or content["kind"] not in KINDS:
        raise InputError("kind", f"must be one of {', '.join(KINDS)}")
    return KINDS[content["kind"]].request.of(content)


def job_text(asked: JobRequest, key: str) -> str:
    """Work to do as a job and its key as one text, equal for equal work; :func:`job_back` reads it."""
    is_query = isinstance(asked, Request)
    stated = asked.stated
    if isinstance(asked, Request):
        stated = {"sql": asked.sql, **{name: value for name, value in asked.options.items() if value is not None}}
    # Of two synthetic tables the first is that of persons.
    return json.dumps([stated, key], sort_keys=is_query, separators=(",", ":"), default=str)


def job_back(text: str) -> tuple[JobRequest, str]:
    """The work and the key that :func:`job_text` wrote."""
    stated, key = json.loads(text)
    if "kind" in stated:
        return KINDS[stated["kind"]].request.model_construct(**stated), key
    return Request(**stated), key


def read_json(body: bytes) -> Any:
    """The value of a JSON text; numbers as ``int`` or ``Decimal``.

    Raises:
        RequestError: it is not JSON, or could be read in two ways.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused("is not UTF-8") from None
    try:
        value = _DECODER.decode(text)
        half = "\\u" in text and _has_half(value)
    except RecursionError:
        raise _refused("is nested too deeply") from None
    except ValueError as problem:
        raise _refused(f"is not JSON: {_words(problem)}") from None
    if half:
        raise _refused("holds half of a character (a lone surrogate)")
    return value


def _number(text: str) -> int | Decimal:
    # Everything before an exponent counts, so that the work stays small whatever was written.
    mantissa, _, exponent = text.lower().partition("e")
    digits = mantissa.lstrip("-").replace(".", "").lstrip("0")
    if len(digits) > MAX_DIGITS or len(mantissa) > 2 * MAX_DIGITS:
        raise _refused(f"holds a number of more than {MAX_DIGITS} digits")
    if exponent and (len(exponent) > 6 or abs(int(exponent)) > MAX_EXPONENT):
        raise _refused(f"holds a number with an exponent beyond ±{MAX_EXPONENT}")
    return int(text) if mantissa.lstrip("-") == text.lstrip("-") and "." not in text else Decimal(text)


def _no_constant(text: str) -> Any:
    raise _refused(f"holds {text}, which is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _refused("has a key that occurs twice")
    return found


def _has_half(value: Any) -> bool:
    if isinstance(value, str):
        return _HALF.search(value) is not None
    if isinstance(value, dict):
        return any(_has_half(key) or _has_half(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_half, value))


def _refused(what: str) -> RequestError:
    return RequestError("body", 400, f"the body {what}")


def _words(problem: ValueError) -> str:
    """Where it went wrong, without quoting what was sent."""
    return f"{problem.msg} at character {problem.pos}" if isinstance(problem, json.JSONDecodeError) else "unreadable"


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_float=_number, parse_int=_number, parse_constant=_no_constant
)
