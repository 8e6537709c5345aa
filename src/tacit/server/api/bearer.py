"""Bearer-token authentication."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["bearer"]

_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]{1,512})\Z", re.IGNORECASE)


def bearer(headers: dict[bytes, bytes]) -> str:
    """The token of a request; empty where there is none that could be one."""
    found = _BEARER.match(headers.get(b"authorization", b"").strip())
    return found.group(1).decode("ascii") if found else ""
