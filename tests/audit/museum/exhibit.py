"""Definition of an exhibit: a real bug rebuilt small, the tool that must catch it, and its repaired twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacit.audit.report import Found, Verdict, judged


@dataclass(frozen=True)
class Piece:
    """Bug of the museum, with a corrected twin.

    Args:
        name: by which it is asked for.
        title: in a few words.
        story: what went wrong and why it went unnoticed.
        seen_in: where it really happened.
        tool: ``replay``, ``lower_bound`` or ``exact``: the cheapest one that must catch it.
        flawed: audits the bug with that tool.
        mended: audits the twin that has the bug mended, with the same tool and on the same neighbours.
    """

    name: str
    title: str
    story: str
    seen_in: str
    tool: str
    flawed: Callable[[], Found]
    mended: Callable[[], Found]

    def catch(self) -> Verdict:
        """Verdict of the tool on the bug."""
        return judged(self.flawed())

    def spare(self) -> Verdict:
        """Verdict of the tool on the corrected twin."""
        return judged(self.mended())
