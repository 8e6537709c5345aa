"""Audit report as one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from tacit.audit.checks import CheckOutcome
from tacit.audit.lower_bound import LowerBound
from tacit.audit.plots import chart_svg

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2e3440; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
section { border-left: 4px solid #00805a; padding: 0 0 0 1rem; margin: 1.2rem 0; }
section.failed { border-color: #c0392b; }
h3 { font-size: 1rem; margin: 0; } p { margin: .3rem 0; }
pre { white-space: pre-wrap; font-size: .85rem; background: #f3f5f8; padding: .6rem; margin: .4rem 0; }
svg { max-width: 100%; height: auto; }
"""
_HEADS = {
    "exact": "Exact tables",
    "lower_bound": "Lower bounds from outputs alone",
    "replay": "Record and replay",
}


def as_record(outcomes: Sequence[CheckOutcome]) -> dict[str, Any]:
    """Record of the outcomes for programs; stable keys."""
    checks = [
        {"name": o.check.name, "tool": o.check.tool, "passed": o.passed}
        | {"caught": o.verdict.caught, "words": o.verdict.words}
        | ({"audit": json.loads(o.verdict.found.to_json())} if hasattr(o.verdict.found, "to_json") else {})
        for o in outcomes
    ]
    return {"passed": all(o.passed for o in outcomes), "checks": checks}


def as_page(outcomes: Sequence[CheckOutcome], title: str) -> str:
    """HTML page of the outcomes for people."""
    failed = sum(not o.passed for o in outcomes)
    verdict = f"{len(outcomes)} checks, all as they must be." if not failed else f"{failed} of {len(outcomes)} failed."
    parts = [f"<h1>{escape(title)}</h1><p>{verdict}</p>"]
    for tool, head in _HEADS.items():
        chosen = [o for o in outcomes if o.check.tool == tool]
        if chosen:
            parts.append(f"<h2>{escape(head)}</h2>" + "".join(map(_section, chosen)))
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><body>\n{body}\n</body></html>\n"
    )


def _section(outcome: CheckOutcome) -> str:
    found = outcome.verdict.found
    chart = chart_svg(found) if isinstance(found, LowerBound) else ""
    state = "as it must be" if outcome.passed else "FAILED"
    return (
        f'<section class="{"passed" if outcome.passed else "failed"}"><h3>{escape(outcome.check.name)}: {state}</h3>'
        f"<pre>{escape(outcome.verdict.words)}</pre>{chart}</section>"
    )
