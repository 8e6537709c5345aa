"""Definition of an exhibit: a real bug rebuilt small, the tool that must catch it, and its repaired twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacit.audit.exact import ExactLoss
from tacit.audit.report import Found, Verdict, judged
from tacit.core.guarantees import ApproxDP


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
        wasteful: catch a claim of more than this many times the exact epsilon as well.
    """

    name: str
    title: str
    story: str
    seen_in: str
    tool: str
    flawed: Callable[[], Found]
    mended: Callable[[], Found]
    wasteful: float | None = None

    def catch(self) -> Verdict:
        """Verdict of the tool on the bug."""
        return self._judged(self.flawed())

    def spare(self) -> Verdict:
        """Verdict of the tool on the corrected twin."""
        return self._judged(self.mended())

    def _judged(self, found: Found) -> Verdict:
        if self.wasteful is not None and isinstance(found, ExactLoss) and isinstance(found.claimed, ApproxDP):
            factor = float(found.claimed.epsilon) / found.epsilon.up
            return Verdict(found.violated or factor > self.wasteful, f"{found}: {factor:.3g} times too much", found)
        return judged(found)
