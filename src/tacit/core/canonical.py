"""Canonical JSON: exactly one text for each value, and its digest."""

from __future__ import annotations

import hashlib
import json

from tacit.core.errors import InternalError


def canonical(content: object) -> str:
    """Return the canonical text of a JSON value: sorted keys, no spaces; refuse floats, whose text is not exact."""
    _check_exact(content)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _check_exact(content: object) -> None:
    unseen = [content]
    while unseen:
        part = unseen.pop()
        if isinstance(part, dict):
            unseen += part.values()
        elif isinstance(part, (list, tuple)):
            unseen += part
        elif isinstance(part, float):
            raise InternalError("a float has no exact text")
