"""Ids of failures: one attribute, from the operator's log to HTTP responses and the command line."""

from __future__ import annotations

import json
import threading

import pytest
import typer

from support.clinic import COUNT, open_clinic
from tacit.cli.common import operator_log, reported
from tacit.core.errors import BudgetError, EngineError, FailedRunError, InternalError, TacitError
from tacit.ledger import BusyError, LedgerError
from tacit.releases.payment import KeyLocks, hide_internal_errors
from tacit.server.errors import describe, failure_json


def hidden(problem: Exception) -> TacitError:
    with pytest.raises(TacitError) as caught, hide_internal_errors():
        raise problem
    return caught.value


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (KeyError("Ann"), InternalError),
        (InternalError("Ann"), InternalError),
        (EngineError("Ann"), EngineError),
        (LedgerError("Ann"), LedgerError),
        (BusyError("Ann"), BusyError),
    ],
)
def test_a_hidden_failure_has_an_id_and_the_log_has_the_rest(
    problem: Exception, kind: type[TacitError], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    error = hidden(problem)
    assert type(error) is kind
    assert len(error.id) == 12
    assert str(error).endswith(f"under {error.id}")
    assert "Ann" not in str(error)
    (record,) = caplog.records
    assert f"failure {error.id}" in record.getMessage()
    assert "Ann" in caplog.text
    told = describe(error)
    assert (told.id, len(caplog.records)) == (error.id, 1), "what is in the log is not logged again"
    assert failure_json(told)["error"]["id"] == error.id
    with pytest.raises(typer.Exit), reported(as_json=True):
        raise error
    assert json.loads(capsys.readouterr().err)["error"]["message"].endswith(f"under {error.id} in {operator_log()}")


def test_words_for_analysts_pass_without_an_id(capsys: pytest.CaptureFixture[str]) -> None:
    error = hidden(BudgetError("ask the owner, who has the operator's log"))
    assert error.id == ""
    assert describe(error).id == ""
    with pytest.raises(typer.Exit), reported():
        raise error
    assert str(operator_log()) not in capsys.readouterr().err, "where a log lies is not guessed from words"


def test_a_failed_run_has_the_id_of_its_charge() -> None:
    curator, engine = open_clinic()
    engine.fail = ValueError("Ann")
    with pytest.raises(FailedRunError) as caught:
        curator.sql(COUNT, epsilon="0.5")
    (record,) = curator.ledger.history(population="patients")
    assert caught.value.id == record.hash[:12]
    assert describe(caught.value).id == caught.value.id


def test_locks_are_by_key_and_forgotten() -> None:
    locks, inside = KeyLocks(), threading.Event()

    def enter() -> None:
        with locks.take("a"):
            inside.set()

    with locks.take("a"), locks.take("b"), locks.take(""), locks.take(""):
        assert sorted(locks._held) == ["a", "b"]
        other = threading.Thread(target=enter)
        other.start()
        assert not inside.wait(0.1)
    other.join()
    assert inside.is_set()
    assert not list(locks._held)
