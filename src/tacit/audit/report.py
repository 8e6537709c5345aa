"""Checks of an audit, and the report of their outcomes for programs and as one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, NamedTuple

from tacit.audit.charts import draw_lower_bound, svg
from tacit.audit.exact import ExactLoss
from tacit.audit.lower_bound import LowerBound
from tacit.audit.replay import ReplayReport
from tacit.core.errors import InputError

Found = LowerBound | ExactLoss | Sequence[ReplayReport]


@dataclass(frozen=True)
class Verdict:
    """Verdict of a tool.

    Args:
        caught: whether the tool objected.
        words: summary of its finding.
        found: the finding itself.
    """

    caught: bool
    words: str
    found: Any


def judged(found: Found) -> Verdict:
    """Return the verdict of a finding of any of the tools."""
    if isinstance(found, LowerBound | ExactLoss):
        return Verdict(found.violated, str(found), found)
    reports = list(found)
    if not reports:
        raise InputError("found", "no pair of neighbours was tried")
    bad = [report for report in reports if not report]
    return Verdict(bool(bad), str((bad or reports)[0]), reports)


def judged_replays(reports: Sequence[ReplayReport]) -> Verdict:
    """Return the verdict of replays that are not all expected to fail: if all end with an error, nothing was checked.

    Two runs that end with the same error are equal, so a check whose code always fails would otherwise pass.
    """
    if not all(report.ended for report in reports):
        return judged(reports)
    return Verdict(True, f"nothing was checked: {reports[0]}" if reports else "no neighbours were tried", list(reports))


@dataclass(frozen=True)
class AuditCheck:
    """One check, which passes where its tool does not object.

    Args:
        name: name of what is checked.
        tool: ``exact``, ``lower_bound``, ``replay`` or ``verify``.
        run: runs the check.
    """

    name: str
    tool: str
    run: Callable[[], Verdict]


class CheckOutcome(NamedTuple):
    """A check, and the verdict of its tool."""

    check: AuditCheck
    verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether the tool did not object."""
        return not self.verdict.caught


def run_checks(
    checks: Iterable[AuditCheck], progress: Callable[[int, int, str], None] | None = None
) -> Iterator[CheckOutcome]:
    """Run checks one after the other; ``progress`` gets the numbers done and in total, and the name of the next one."""
    listed = list(checks)
    for i, check in enumerate(listed):
        if progress is not None:
            progress(i, len(listed), check.name)
        yield CheckOutcome(check, check.run())
    if progress is not None:
        progress(len(listed), len(listed), "")


_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2e3440; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } h3 { font-size: 1rem; margin: 0; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .75rem; border-bottom: 1px solid #eee; }
td, th { text-align: right; } td:first-child, th:first-child { text-align: left; } figure { margin: 1rem 0; }
section.check { border-left: 4px solid #00805a; padding: 0 0 0 1rem; margin: 1.2rem 0; }
section.failed { border-color: #c0392b; } section.check p { margin: .3rem 0; }
pre { white-space: pre-wrap; font-size: .85rem; background: #f3f5f8; padding: .6rem; margin: .4rem 0; }
.quiet { color: #666; } .moral { border-left: 4px solid #0072b2; padding-left: .75rem; }
svg { max-width: 100%; height: auto; }
"""


def html_page(title: str, body: str) -> str:
    """Return a self-contained HTML page."""
    name = escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n{body}\n</body>\n</html>\n"
    )


def as_record(outcomes: Sequence[CheckOutcome]) -> dict[str, Any]:
    """Return the outcomes as a mapping for JSON; keys are stable."""
    checks = [
        {"name": o.check.name, "tool": o.check.tool, "passed": o.passed, "words": o.verdict.words}
        | ({"audit": json.loads(o.verdict.found.to_json())} if hasattr(o.verdict.found, "to_json") else {})
        for o in outcomes
    ]
    return {"passed": all(o.passed for o in outcomes), "checks": checks}


def as_page(outcomes: Sequence[CheckOutcome], title: str) -> str:
    """Return the outcomes as an HTML page."""
    failed = sum(not o.passed for o in outcomes)
    verdict = f"{len(outcomes)} checks, all as they must be." if not failed else f"{failed} of {len(outcomes)} failed."
    return html_page(title, f"<p>{verdict}</p>\n{''.join(map(_section, outcomes))}")


def _section(outcome: CheckOutcome) -> str:
    found = outcome.verdict.found
    chart = svg(draw_lower_bound(found)) if isinstance(found, LowerBound) else ""
    state = "as it must be" if outcome.passed else "FAILED"
    head = escape(f"{outcome.check.name} ({outcome.check.tool}): {state}")
    return (
        f'<section class="check{"" if outcome.passed else " failed"}"><h3>{head}</h3>'
        f"<pre>{escape(outcome.verdict.words)}</pre>{chart}</section>"
    )
