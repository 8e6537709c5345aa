"""``tacit audit https://…``: a sound server passes; one that lets something on or charges for nothing does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from support.command_line import run_command
from support.serving import Server, make_clinic, make_tokens
from tacit.audit import server_audit as audited_server
from tacit.audit.report import run_checks
from tacit.audit.server_audit import AuditQuery, server_checks

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    project = make_clinic(tmp_path_factory.mktemp("clinic"))
    patch = pytest.MonkeyPatch()
    patch.setenv("TACIT_STATE", str(project.parent / "state"))
    token = make_tokens(project, ["alice"])["alice"]
    patch.undo()
    with Server(project, "--workers", "1", "--response-step", "0") as server:
        yield server.address, token


def run(*words: str) -> Result:
    return run_command("audit", *words)


def test_a_sound_server_passes(served: tuple[str, str]) -> None:
    url, token = served
    result = run(url, "--token", token, "--sql", COUNT, "--epsilon", "0.25", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 0, json.dumps([check for check in told["checks"] if not check["passed"]])
    assert len(told["checks"]) == 6


def test_without_a_price_nothing_is_paid(served: tuple[str, str]) -> None:
    url, token = served
    with server_checks(url, token) as checks:
        assert len(checks) == 5
    for words in (("--sql", COUNT), ("--epsilon", "1"), ("--second", url)):
        assert run(url, "--token", token, *words).exit_code == 2


@pytest.mark.deep
def test_two_servers_with_equal_noise_are_told_apart_no_better_than_promised(served: tuple[str, str]) -> None:
    url, token = served
    with server_checks(url, token, AuditQuery(COUNT, "1"), second=(url, token), samples=200) as checks:
        assert next(run_checks(checks[-1:])).passed


def _lets_on(reply: Any) -> Any:
    return audited_server._Reply(reply.status, {**reply.headers, "server": "hare/1.0"}, reply.body)


def _accepts(reply: Any) -> Any:
    return audited_server._Reply(200, reply.headers, reply.body)


def _shapeless(reply: Any) -> Any:
    return audited_server._Reply(reply.status, reply.headers, b"Internal Server Error")


def _different(reply: Any) -> Any:
    _different.count += 1  # type: ignore[attr-defined]
    told = json.loads(reply.body)
    told["counter"] = _different.count  # type: ignore[attr-defined]
    if "rows" in told:
        told["rows"] = [_different.count]  # type: ignore[attr-defined]
    return audited_server._Reply(reply.status, reply.headers, json.dumps(told).encode())


_different.count = 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("broken", [_lets_on, _accepts, _shapeless, _different], ids=lambda each: each.__name__)
def test_a_server_that_is_not_sound_is_caught(
    served: tuple[str, str], monkeypatch: pytest.MonkeyPatch, broken: Callable[[Any], Any], tmp_path: Path
) -> None:
    url, token = served
    send = audited_server._Probe._send

    def changed(probe: Any, method: str, path: str, *rest: Any, **more: Any) -> Any:
        reply = send(probe, method, path, *rest, **more)
        return reply if path.startswith("/v1/history") else broken(reply)

    monkeypatch.setattr(audited_server._Probe, "_send", changed)
    with server_checks(url, token, AuditQuery(COUNT, "0.5")) as checks:
        outcomes = {outcome.check.name: outcome.passed for outcome in run_checks(checks)}
    refusals = [passed for name, passed in outcomes.items() if "refused" in name]
    alike = [passed for name, passed in outcomes.items() if "alike" in name]
    paid = [passed for name, passed in outcomes.items() if "charged once" in name]
    if broken is _different:
        assert not any(alike)
        assert not any(paid)
    else:
        assert not any(refusals)


def test_a_charge_that_should_not_be_is_seen(served: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    url, token = served
    spent = iter(range(1000))
    monkeypatch.setattr(audited_server._Probe, "_spent", lambda _: str(next(spent)))
    with server_checks(url, token, AuditQuery(COUNT, "0.5")) as checks:
        outcomes = list(run_checks(checks))
    costly = [o for o in outcomes if "cost nothing" in o.check.name or "charged" in o.check.name]
    assert len(costly) == 4
    assert not any(o.passed for o in costly)
