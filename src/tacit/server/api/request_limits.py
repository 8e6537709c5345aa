"""Limits on paths, headers and bodies of requests.

An HTTP server in front of this has limits of its own, and so may a proxy; these hold without either.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import Request
from starlette.types import Scope

from tacit.core.errors import InputError
from tacit.server.errors import RequestError
from tacit.server.settings import Settings

#: Headers that decide something: said twice, they could be read in two ways.
_ONCE: Final = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"idempotency-key",
        b"origin",
        b"sec-fetch-site",
        b"tacit-conversation",
        b"tacit-repeat",
        b"tacit-seen",
        b"tacit-share",
        b"x-csrf-token",
    )
)
#: Percent signs that encode nothing, a character that needs no encoding (RFC 3986, 2.3) or a control character; signs
#: that have to be encoded; steps up. A proxy in front may read such a path in another way.
_ODD_PATH: Final = re.compile(
    rb"%(?![0-9A-Fa-f]{2})|%([01][0-9A-Fa-f]|7[EeFf]|2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])"
    rb"|[^\x21-\x7e]|/\.\.?(/|\Z)"
)
_JSON: Final = re.compile(rb'application/json(\s*;\s*charset\s*=\s*("utf-8"|utf-8))?\s*\Z', re.IGNORECASE)
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}\Z")
_CLOSE: Final = ((b"connection", b"close"),)
_MOST_PARAMETERS: Final = 16


def check_scope(scope: Scope, settings: Settings) -> dict[bytes, bytes]:
    """The headers of a request, by name in small letters; refused where head or path is too long or ambiguous."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    if len(raw) + len(scope.get("query_string", b"")) > settings.max_path:
        raise RequestError("path", 414, "the path is too long", _CLOSE)
    if _ODD_PATH.search(raw) or not _is_text(raw):
        raise RequestError("path", 400, "the path is encoded in an unusual way")
    lines = scope["headers"]
    if len(lines) > settings.max_headers or sum(len(k) + len(v) for k, v in lines) > settings.max_header_bytes:
        raise RequestError("headers", 431, "the headers are too many or too long", _CLOSE)
    found: dict[bytes, bytes] = {}
    for name, value in lines:
        name = name.lower()
        if name in found and name in _ONCE:
            raise RequestError("headers", 400, f"the header {name.decode()} occurs twice")
        found[name] = found[name] + b", " + value if name in found else value
    return found


def check_type(headers: dict[bytes, bytes]) -> None:
    """Refuse a body that is not declared as JSON, or is compressed."""
    if _JSON.match(headers.get(b"content-type", b"")) is None:
        raise RequestError("type", 415, "send JSON: Content-Type: application/json")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise RequestError("type", 415, "send the body without Content-Encoding")


async def body_of(request: Request, most: int, seconds: float) -> bytes:
    """Read the body of a request, counting bytes while they arrive.

    Raises:
        ClientDisconnect: the client disconnected before the body was complete.
        RequestError: too large, or too slow.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > most):
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RequestError("time", 408, "the body took too long to arrive", _CLOSE) from None
    return bytes(body)


def query_of(scope: Scope, known: Iterable[str]) -> dict[str, str]:
    """The parameters of a path, each known and stated once."""
    raw = scope.get("query_string", b"")
    if not raw:
        return {}
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise RequestError("path", 400, "the parameters of the path cannot be read") from None
    names = tuple(known)
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in names:
            raise InputError(name[:80], f"is not a parameter; there are {', '.join(names) or 'none'}")
        if name in found:
            raise InputError(name, "is stated twice")
        found[name] = value
    return found


def idempotency_key(headers: dict[bytes, bytes]) -> str:
    """The idempotency key of a request; empty for none."""
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return ""
    text = raw.decode("latin-1")
    if _KEY.match(text) is None:
        raise InputError("Idempotency-Key", "must be 1 to 200 visible ASCII characters, without spaces")
    return text


def _is_text(raw: bytes) -> bool:
    """Whether the bytes that a path encodes are UTF-8."""
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_large(most: int) -> RequestError:
    return RequestError("size", 413, f"the body has more than {most} bytes", _CLOSE)
