"""What ``tacit doctor`` is told about an engine: one line per thing that was looked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what, whether it is in place, what was seen, and what to do."""

    name: str
    ok: bool
    words: str
    remedy: str = ""
