"""Checks of an audit: what a tool found, whether that is an objection, and a list of checks run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


@dataclass(frozen=True)
class AuditCheck:
    """One check, which passes where its tool does not object.

    Args:
        name: of what is checked.
        tool: ``exact``, ``lower_bound``, ``replay`` or ``verify``.
        run: does it.
    """

    name: str
    tool: str
    run: Callable[[], Verdict]


@dataclass(frozen=True)
class CheckOutcome:
    """Outcome of a check.

    Args:
        check: what was checked.
        passed: whether the tool did not object.
        verdict: what the tool said.
    """

    check: AuditCheck
    passed: bool
    verdict: Verdict


def run_checks(
    checks: Iterable[AuditCheck], progress: Callable[[int, int, str], None] | None = None
) -> Iterator[CheckOutcome]:
    """Run checks one after the other; ``progress`` is told how many are done, how many there are, and which is next."""
    listed = list(checks)
    for i, check in enumerate(listed):
        if progress is not None:
            progress(i, len(listed), check.name)
        verdict = check.run()
        yield CheckOutcome(check, not verdict.caught, verdict)
    if progress is not None:
        progress(len(listed), len(listed), "")
