"""Hash chain: every entry's hash covers its text and all earlier entries."""

from __future__ import annotations

import hashlib

__all__ = ["digest", "link"]


def link(previous: str, body: str) -> str:
    """The hash of an entry after the one with hash ``previous``: sha256(previous || sha256(body)), in hexadecimal."""
    inner = hashlib.sha256(body.encode("ascii")).digest()
    return hashlib.sha256(bytes.fromhex(previous) + inner).hexdigest()


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
