"""Cross-site request forgery protection of forms."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from tacit.core.errors import InputError
from tacit.noise import entropy

_MOST_FIELDS: Final = 60

#: On every page: nothing from elsewhere, nothing inline, no frames, no caches.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def from_here(request: Request) -> bool:
    """Whether a request comes from a page of this server, as far as the browser tells."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = request.headers.get("origin")
    # Without a referrer browsers call the origin of a form "null", and say where it is from in the other header.
    if origin is None or (origin == "null" and site == "same-origin"):
        return True
    return bool(urlsplit(origin).netloc) and urlsplit(origin).netloc == request.headers.get("host")


def read_form(request: Request, body: bytes) -> dict[str, str]:
    """The fields of a form, each once; as browsers send them without files.

    Raises:
        InputError: the body is no such form, or says something twice.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("form", "must be sent as application/x-www-form-urlencoded")
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise InputError("form", "cannot be read") from None
    found = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if len(found) != len(pairs):
        raise InputError("form", "has a field that occurs twice")
    return found


def same(token: str, expected: str) -> bool:
    """Whether a token is the one that was given out; nothing is never it."""
    return bool(expected) and hmac.compare_digest(token.encode(), expected.encode())


def new_door() -> str:
    """Create a token for the forms of pages without a session."""
    return f"{entropy.current().bits(128):032x}"
