"""``tacit analysts``: roles, tokens and links, and that nothing prints a secret twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tacit.cli.analysts import moment_of
from tacit.core.errors import InputError
from tacit.ledger import Ledger
from tacit.server.identity import People, Role, TokenScope

Run = Callable[..., Result]
Json = Callable[..., Any]
GOOD = "green lamp beside the river"


@contextmanager
def people(clinic: Path) -> Iterator[People]:
    place = clinic / "tacit.ledger"
    with Ledger.open(place) as ledger, People.open(ledger, place) as found:
        yield found


def two_populations(clinic: Path) -> None:
    text = (clinic / "tacit.toml").read_text()
    (clinic / "tacit.toml").write_text(text + '\n[populations.staff]\nepsilon = "2"\n')


# Roles and populations ------------------------------------------------------------------------------------------------


def test_roles(clinic: Path, run: Run, run_json: Json) -> None:
    assert run_json("analysts", "add", "olga", "--role", "owner")["role"] == "owner"
    assert run_json("analysts", "add", "arno", "--role", "auditor")["role"] == "auditor"
    assert "role" not in run_json("analysts", "add", "alice")
    listed = run_json("analysts", "list")["analysts"]
    assert all(set(one) == {"name", "active", "shares", "role", "populations"} for one in listed)
    assert {one["name"]: one["role"] for one in listed} == {"alice": "analyst", "arno": "auditor", "olga": "owner"}
    shown = run("analysts", "list").stdout
    for words in ("alice: may ask\n", "arno: auditor, may look and not ask", "olga: owner, may ask and decide about"):
        assert words in shown
    with people(clinic) as found:
        assert [person.role for person in found.everyone()] == [Role.ANALYST, Role.AUDITOR, Role.OWNER]
    assert run("analysts", "add", "eve", "--role", "king").exit_code == 2


def test_populations_are_kept_until_others_are_named(clinic: Path, run: Run, run_json: Json) -> None:
    two_populations(clinic)
    told = run_json("analysts", "add", "alice", "--population", "PATIENTS", "--epsilon", "1")
    assert told["populations"] == ["patients"]
    assert [one["limited"] for one in told["shares"]] == [True, False]
    run_json("analysts", "add", "alice", "--role", "auditor")
    run_json("analysts", "revoke", "alice")
    told = run_json("analysts", "add", "alice")
    assert (told["role"], told["populations"], told["active"]) == ("auditor", ["patients"], True)
    assert "auditor, may look and not ask about patients" in run("analysts", "list").stdout
    both = run_json("analysts", "add", "alice", "--population", "staff", "--population", "patients")
    assert both["populations"] == ["patients", "staff"]
    told = run_json("analysts", "add", "alice", "--all-populations", "--role", "analyst")
    assert set(told) == {"name", "active", "shares"}
    for wrong, message in (
        (("--population", "cats"), "--population: must be one of patients, staff"),
        (("--population", "staff", "--all-populations"), "--population: name some, or"),
        (
            ("--population", "staff", "--population", "patients", "--epsilon", "1"),
            "--population: state the share of each",
        ),
        (("--epsilon", "1"), "--population: must be one of"),
    ):
        result = run("analysts", "add", "bob", *wrong)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {message}")
    assert [one["name"] for one in run_json("analysts", "list")["analysts"]] == ["alice"]


# Tokens ---------------------------------------------------------------------------------------------------------------


def test_a_token_from_making_to_withdrawing_it(clinic: Path, run: Run, run_json: Json) -> None:
    run("analysts", "add", "alice")
    told = run_json("analysts", "token", "Alice", "--expires", "30d", "--label", "notebook")
    assert set(told) == {"token", "id", "name", "label", "scopes", "expires", "share"}
    assert (told["name"], told["label"], told["scopes"]) == ("alice", "notebook", ["ask"])
    days = (datetime.fromisoformat(told["expires"]) - datetime.now(UTC)).total_seconds() / 86400
    assert 29.9 < days <= 30
    with people(clinic) as found:
        access = found.authenticate(told["token"])
        assert access is not None
        assert access.scopes == {TokenScope.ASK}
    (listed,) = run_json("analysts", "tokens")["tokens"]
    assert set(listed) == {"id", "name", "label", "scopes", "issued", "expires", "used", "withdrawn", "alive", "share"}
    assert (listed["id"], listed["alive"], listed["used"]) == (told["id"], True, datetime.now(UTC).date().isoformat())
    assert run_json("analysts", "withdraw", told["id"]) == {"id": told["id"], "withdrawn": True}
    with people(clinic) as found:
        assert found.authenticate(told["token"]) is None
    assert not run_json("analysts", "tokens", "alice")["tokens"][0]["alive"]
    assert run_json("analysts", "tokens", "bob")["tokens"] == []
    assert run("ledger", "verify").exit_code == 0
    everything = run("ledger", "show", "--all", "--last", "50").stdout + run("analysts", "tokens").stdout
    assert told["id"] in everything
    assert told["token"].rsplit("_", 1)[1] not in everything


def test_a_token_with_a_share(clinic: Path, run: Run, run_json: Json) -> None:
    run("analysts", "add", "alice")
    told = run_json("analysts", "token", "alice", "--share", "0.50")
    assert (told["share"], told["scopes"]) == ("0.5", ["ask"])
    shown = run("analysts", "token", "alice", "--share", "1/3").stdout
    assert "All its charges together are at most epsilon 1/3" in shown
    assert "epsilon 1/3" in run("analysts", "tokens").stdout
    assert run("analysts", "token", "alice", "--share", "0").exit_code != 0
    assert run("analysts", "token", "alice", "--share", "1", "--scope", "admin").exit_code != 0


def test_what_people_read(clinic: Path, run: Run) -> None:
    run("analysts", "add", "alice")
    assert "There are no tokens" in run("analysts", "tokens").stdout
    shown = run("analysts", "token", "alice", "--label", "my notebook", "--expires", "never").stdout
    (token,) = [line.strip() for line in shown.splitlines() if line.strip().startswith("tacit_")]
    assert shown.count(token) == 1
    for words in ("shown now and never again", "It may ask and does not end by itself.", "tacit.connect(", "withdraw"):
        assert words in shown
    shown = run("analysts", "tokens").stdout
    for words in ("my notebook", "alice", "does not end", "never"):
        assert words in shown
    id_ = token.split("_")[1]
    assert "works no longer" in run("analysts", "withdraw", id_).stdout
    assert "withdrawn" in run("analysts", "tokens").stdout


def test_a_token_ends_with_its_person(clinic: Path, run: Run, run_json: Json) -> None:
    assert set(run_json("analysts", "add", "alice", "--epsilon", "1")) == {"name", "active", "shares"}
    told = run_json("analysts", "token", "alice", "--expires", "12h")
    with people(clinic) as found:
        assert found.authenticate(told["token"]) is not None
    run("analysts", "revoke", "alice")
    run("analysts", "add", "alice")
    with people(clinic) as found:
        assert found.authenticate(told["token"]) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("token", "bob"), "name: no person is registered as 'bob'"),
        (("token", "alice", "--expires", "soon"), "--expires: must be like 12h, 30d"),
        (("token", "alice", "--expires", "0d"), "--expires: must be in the future"),
        (("token", "alice", "--expires", "2020-01-01"), "--expires: must be in the future"),
        (("token", "alice", "--scope", "admin"), "--scopes: must be some of what the person may do: ask"),
        (("token", "alice", "--scope", "king"), "--scope: must be one of ask, audit, admin"),
        (("token", "alice", "--label", "a\nb"), "--label: must be at most"),
        (("withdraw", "0" * 16), "token: there is no token"),
        (("link", "bob"), "name: no person is registered"),
        (("tokens", "a\nb"), "name: must be 1 to 200"),
    ],
)
def test_what_cannot_be_done(clinic: Path, run: Run, arguments: tuple[str, ...], message: str) -> None:
    run("analysts", "add", "alice")
    result = run("analysts", *arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stderr.startswith(f"Error: {message}")
    assert json.loads(run("analysts", *arguments, "--json").stderr)["error"]["code"] == "input"


def test_before_there_is_a_ledger(clinic: Path, run: Run) -> None:
    for command in (("token", "alice"), ("tokens",), ("withdraw", "x"), ("link", "alice")):
        result = run("analysts", *command)
        assert result.exit_code == 2
        assert "there is no" in result.stderr


@pytest.mark.parametrize(
    ("said", "hours"), [("12h", 12), ("30d", 720), (" 1D ", 24), ("never", None), ("99999d", 99999 * 24)]
)
def test_when_something_ends(said: str, hours: int | None) -> None:
    moment = moment_of(said)
    if hours is None:
        assert moment is None
    else:
        assert moment is not None
        assert abs((moment - datetime.now(UTC)).total_seconds() - hours * 3600) < 60


def test_when_something_ends_by_date() -> None:
    assert moment_of("2030-01-31T12:00:00+00:00") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    day = moment_of("2030-01-31")
    assert day is not None
    assert day.tzinfo is not None
    for wrong in ("", "30", "d", "-1d", "1w", "2030-13-01", "٣d", "1" * 6 + "d", "nan"):
        with pytest.raises(InputError):
            moment_of(wrong)


def test_a_link_works_once_and_ends_the_one_before(clinic: Path, run: Run, run_json: Json) -> None:
    run("analysts", "add", "alice")
    told = run_json("analysts", "link", "alice")
    assert set(told) == {"name", "path", "days"}
    before, _, secret = told["path"].rpartition("/")
    assert before == "/console/link"
    shown = run("analysts", "link", "alice").stdout
    (path,) = [line.strip() for line in shown.splitlines() if "/console/" in line]
    with people(clinic) as found:
        assert found.follow(secret) is None
        assert found.follow(path.rpartition("/")[2]) is not None
        assert found.follow(path.rpartition("/")[2]) is None
