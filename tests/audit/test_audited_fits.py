"""The self-audit of fits: every estimator passes, and a reader that one row can trip is caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacit.learn
from tacit.audit.report import AuditCheck, run_checks
from tacit.audit.self_audit import audited_estimators, fit_checks
from tacit.learn import estimator

CHECKS = list(fit_checks())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_no_row_decides_how_a_fit_ends(check: AuditCheck) -> None:
    (outcome,) = run_checks([check])
    assert outcome.passed, outcome.verdict.words
    # Bounds alone say nothing of rows; everything else sees that a row moves what is released.
    assert bool(sum(report.moved for report in outcome.verdict.found)) == ("bounds alone" not in check.name)


def test_every_estimator_is_audited() -> None:
    public = [getattr(tacit.learn, name) for name in tacit.learn.__all__]
    estimators = {each for each in public if isinstance(each, type) and issubclass(each, estimator.PrivateEstimator)}
    assert {type(make()) for make in audited_estimators().values()} == estimators
    assert len(estimators) >= 15


def test_a_reader_that_one_value_can_trip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_numpy(X: Any, columns: int | None = None) -> np.ndarray:
        return np.asarray(X, dtype=np.float64)

    monkeypatch.setattr(estimator, "read_table", as_numpy)
    (outcome,) = run_checks(CHECKS[:1])
    assert not outcome.passed


def test_a_solver_that_gives_up_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.learn.minimiser import Problem

    true = Problem.minimise

    def limited(self: Problem) -> Any:
        if len(self.table) > 30:
            raise ValueError("too many rows")
        return true(self)

    monkeypatch.setattr(Problem, "minimise", limited)
    some = [check for check in CHECKS if any(word in check.name for word in ("minimiser", "tilted", "Bayes"))]
    caught = [outcome.check.name for outcome in run_checks(some) if not outcome.passed]
    assert (len(some), len(caught)) == (3, 2)
