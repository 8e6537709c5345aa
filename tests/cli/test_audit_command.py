"""``tacit audit``: targets, reports, exit codes, and the self-audit with a small number of samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

import tacit
from support.command_line import run_command
from tacit.audit import self_audit as standing
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.project_audit import hospital_checks
from tacit.audit.report import AuditCheck, Verdict, as_page, as_record, judged, run_checks
from tacit.audit.self_audit import standing_checks

pytestmark = pytest.mark.usefixtures("seeded")


def run(*words: str) -> Result:
    return run_command("audit", *words)


def test_a_refuted_claim_on_a_page_and_for_programs() -> None:
    check = AuditCheck("noise for another sensitivity", "lower_bound", lambda: judged(refuted()))
    outcomes = list(run_checks([check]))
    told = as_record(outcomes)
    assert told["passed"] is False
    assert told["checks"][0]["audit"]["claimed_epsilon"] == 1.0
    page = as_page(outcomes, "Audit")
    assert "<svg" in page
    assert "1 of 1 failed" in page
    assert "<script" not in page
    assert "src=" not in page


def refuted() -> LowerBound:
    return lower_bound(tacit.Laplace(epsilon=1, l1_sensitivity=1), 0, 5, samples=1_000)


@pytest.mark.parametrize("words", [(), ("tacit.toml", "--self")])
def test_one_thing_is_audited(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "name a project file to audit, or say --self" in result.stderr


@pytest.mark.deep
def test_the_self_audit() -> None:
    """Every check passes, and there is one for each mechanism."""
    checks = standing_checks(800)
    outcomes = list(run_checks(checks))
    with hospital_checks(200) as queries:
        assert any("GROUP BY admitted" in check.name for check in queries)
        outcomes += run_checks(queries)
    assert [outcome.verdict.words for outcome in outcomes if not outcome.passed] == []
    assert {check.tool for check in checks} == {"exact", "lower_bound", "replay"}
    assert {o.check.name for o in outcomes} >= {"Laplace", "Gaussian", "SparseVector"}
    assert all(sum(report.moved for report in o.verdict.found) for o in outcomes if o.check.tool == "replay")


def test_a_query_path_that_moves_too_far_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.query import release as noising

    inputs = noising.inputs
    monkeypatch.setattr(noising, "inputs", lambda *words: 2 * inputs(*words))
    with hospital_checks() as checks:
        (outcome,) = run_checks([check for check in checks if check.name == 'SELECT COUNT(*) FROM "visits"'])
    assert not outcome.passed
    assert "declared" in outcome.verdict.words


def checks_that(caught: bool) -> Callable[..., Any]:
    return lambda samples: [AuditCheck("a claim", "exact", lambda: Verdict(caught, "words", None))]


@pytest.mark.deep
def test_one_objection_fails_the_self_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.audit.project_audit.project_checks", lambda *_, **__: ([], 0))
    monkeypatch.setattr(standing, "standing_checks", checks_that(caught=False))
    assert run("--self").exit_code == 0
    # They have passed; what is left to see is that one objection is enough.
    monkeypatch.setattr(standing, "fit_checks", list)
    monkeypatch.setattr(standing, "standing_checks", checks_that(caught=True))
    result = run("--self", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False
