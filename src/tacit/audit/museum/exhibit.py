"""Definition of an exhibit: a real bug rebuilt small, the tool that must catch it, and its repaired twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.audit.exact import ExactLoss
from tacit.audit.lower_bound import LowerBound
from tacit.audit.replay import ReplayReport
from tacit.core.errors import InputError

Found = LowerBound | ExactLoss | Sequence[ReplayReport]


@dataclass(frozen=True)
class Verdict:
    """Verdict of a tool.

    Args:
        caught: whether it objected.
        words: what it said.
        found: the whole of it.
    """

    caught: bool
    words: str
    found: Any


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


def judged(found: Found) -> Verdict:
    """Whether a finding of any of the tools is an objection."""
    if isinstance(found, LowerBound):
        return Verdict(found.violated, str(found), found)
    if isinstance(found, ExactLoss):
        return Verdict(found.violated or found.waste is not None, str(found), found)
    reports = list(found)
    if not reports:
        raise InputError("found", "no pair of neighbours was tried")
    bad = [report for report in reports if not report]
    return Verdict(bool(bad), str((bad or reports)[0]), reports)


def judged_replays(reports: Sequence[ReplayReport]) -> Verdict:
    """The same for replays of which some are known to end well: where all end with an error, nothing was checked.

    Two runs that end with the same error are alike, and a check that only fails to run would pass for ever.
    """
    if not all(report.ended for report in reports):
        return judged(reports)
    return Verdict(True, f"nothing was checked: {reports[0]}" if reports else "no neighbours were tried", list(reports))
