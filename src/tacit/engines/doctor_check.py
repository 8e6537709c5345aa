"""One check of ``tacit doctor`` about an engine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DoctorCheck"]


@dataclass(frozen=True)
class DoctorCheck:
    """One thing that was looked at: what, whether it is in place, what was seen, and what to do."""

    name: str
    ok: bool
    words: str
    remedy: str = ""
