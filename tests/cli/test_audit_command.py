"""``tacit audit``: targets, reports, exit codes, and the self-audit with a small number of samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from support.command_line import run_command
from tacit.audit import self_audit as standing
from tacit.audit.project_audit import sql_checks
from tacit.audit.report import AuditCheck, Verdict, run_checks
from tacit.audit.self_audit import standing_checks

pytestmark = pytest.mark.usefixtures("seeded")
LAPLACE = ("laplace", "--with", "epsilon=1", "--with", "l1_sensitivity=1", "--samples", "2000")


def run(*words: str) -> Result:
    return run_command("audit", *words)


def test_a_mechanism_of_tacit() -> None:
    result = run(*LAPLACE, "--first", "0", "--second", "1")
    assert result.exit_code == 0
    assert "not refuted" in result.stdout


def test_a_refuted_claim_ends_with_1_and_tells_programs() -> None:
    result = run(*LAPLACE, "--first", "0", "--second", "3", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["passed"] is False
    assert told["checks"][0]["audit"]["claimed_epsilon"] == 1.0


def test_a_callable_on_neighbours_that_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "under_audit.py").write_text(
        "import tacit\n\nNOISE = tacit.Laplace(epsilon=1, l1_sensitivity=10)\n\n\n"
        "def total(values):\n    return NOISE.release(sum(values))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    page = tmp_path / "audit.html"
    result = run("under_audit:total", "--first", "[3, 7]", "--claimed", "1", "--samples", "300", "--html", str(page))
    assert result.exit_code == 1
    assert "comes" in result.stdout
    text = page.read_text()
    assert "<svg" in text
    assert "<script" not in text
    assert "src=" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "target"),
        (("laplace", "--self"), "target"),
        (("nothing",), "no mechanism"),
        (("PureDP",), "no mechanism"),
        (("tacit:nothing",), "cannot be loaded"),
        (("tacit.learn:__all__", "--first", "0"), "cannot be called"),
        (("builtins:len", "--with", "a=1"), "--with"),
        (("laplace", "--with", "epsilon"), "name=value"),
        (LAPLACE, "--first"),
        ((*LAPLACE, "--first", "{"), "must be JSON"),
    ],
)
def test_wrong_commands_are_told_what_to_write(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.deep
def test_the_self_audit() -> None:
    """Every check passes, and there is one for each mechanism."""
    checks = [*standing_checks(800), *list(sql_checks())[4:5]]
    outcomes = list(run_checks(checks))
    assert [outcome.verdict.words for outcome in outcomes if not outcome.passed] == []
    assert {check.tool for check in checks} == {"exact", "lower_bound", "replay"}
    assert {o.check.name for o in outcomes} >= {"Laplace", "Gaussian", "SparseVector", "SQL: private keys"}
    assert all(sum(report.moved for report in o.verdict.found) for o in outcomes if o.check.tool == "replay")


def test_a_query_path_that_moves_too_far_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.query import release as noising

    inputs = noising.inputs
    monkeypatch.setattr(noising, "inputs", lambda *words: 2 * inputs(*words))
    (outcome,) = run_checks(list(sql_checks())[:1])
    assert not outcome.passed
    assert "declared" in outcome.verdict.words


def checks_that(caught: bool) -> Callable[..., Any]:
    return lambda samples: [AuditCheck("a claim", "exact", lambda: Verdict(caught, "words", None))]


@pytest.mark.deep
def test_one_objection_fails_the_self_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.audit.project_audit.sql_checks", list)
    monkeypatch.setattr(standing, "standing_checks", checks_that(caught=False))
    assert run("--self").exit_code == 0
    # They have passed; what is left to see is that one objection is enough.
    monkeypatch.setattr(standing, "fit_checks", list)
    monkeypatch.setattr(standing, "standing_checks", checks_that(caught=True))
    result = run("--self", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False
