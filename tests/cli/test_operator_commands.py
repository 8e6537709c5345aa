"""``tacit analysts``, ``ledger``, ``receipt``, ``doctor``: shares, verification, rollback, caps, receipts, remedies."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from cli.terminal import shell
from tacit.cli.doctor import examine

Run = Callable[..., Result]
Json = Callable[..., Any]
ALL = "SELECT COUNT(*) AS visits FROM visits"
WARD = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"


def share(told: Any) -> dict[str, str]:
    (line,) = told["shares"][0]["currencies"]
    return dict(line)


# Analysts -------------------------------------------------------------------------------------------------------------


def test_an_analyst_with_a_share(clinic: Path, run: Run, run_json: Json) -> None:
    told = run_json("analysts", "add", "alice", "--epsilon", "1")
    assert set(told) == {"name", "active", "shares"}
    assert share(told) == {"currency": "epsilon", "cap": "1", "spent": "0", "left": "1"}
    assert run("query", ALL, "--epsilon", "0.75", "--analyst", "alice").exit_code == 0
    result = run("query", WARD, "--epsilon", "0.5", "--analyst", "alice")
    assert result.exit_code == 4
    assert "has 0.25 of 1 left for analyst alice" in result.stderr
    assert share(run_json("analysts", "list")["analysts"][0])["left"] == "0.25"
    assert share(run_json("analysts", "grant", "alice", "--epsilon", "1.5"))["left"] == "0.75"
    assert run("query", WARD, "--epsilon", "0.5", "--analyst", "alice").exit_code == 0
    told = run_json("budget", "--analyst", "alice")["budgets"][0]
    assert [one["owner"] for one in told["shares"] if one["limited"]] == ["analyst alice"]
    assert not run_json("analysts", "grant", "alice", "--unlimited")["shares"][0]["limited"]


def test_a_repeat_costs_another_analyst_nothing(clinic: Path, run: Run, run_json: Json) -> None:
    for name in ("alice", "bob"):
        run("analysts", "add", name, "--epsilon", "1")
    first = run_json("query", ALL, "--epsilon", "0.5", "--analyst", "alice")
    second = run_json("query", ALL, "--epsilon", "0.5", "--analyst", "bob")
    assert second["rows"] == first["rows"]
    assert second["charge"]["repeat"]
    assert second["charge"]["amounts"] == {}
    assert second["receipt"] == first["receipt"]


def test_revoked_and_admitted_again_with_what_was_spent(clinic: Path, run: Run, run_json: Json) -> None:
    run("analysts", "add", "alice", "--epsilon", "1")
    run("query", ALL, "--epsilon", "0.75", "--analyst", "alice")
    assert not run_json("analysts", "revoke", "alice", "--reason", "left the institute")["active"]
    result = run("query", WARD, "--epsilon", "0.1", "--analyst", "alice")
    assert (result.exit_code, result.stderr) == (5, "Error: alice may not ask any more\n")
    told = run_json("analysts", "add", "alice")
    assert told["active"]
    assert share(told)["spent"] == "0.75"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("grant", "unknown", "--epsilon", "1"), 2, "name: no person is registered as 'unknown'"),
        (("revoke", "unknown"), 2, "name: no person is registered"),
        (("grant", "alice"), 2, "--epsilon: say how much they may spend"),
        (("grant", "alice", "--epsilon", "1", "--unlimited"), 2, "--epsilon: say how much"),
        (("grant", "alice", "--epsilon", "-1"), 2, "--epsilon: "),
        (("grant", "alice", "--rho", "1"), 2, "--rho: is not what this account counts: epsilon"),
        (("add", "alice", "--epsilon", "1", "--population", "cats"), 2, "--population: must be one of patients"),
        (("add", ""), 2, ""),
        (("add", "x" * 10_000), 2, ""),
        (("add", "a\nb"), 2, ""),
    ],
)
def test_what_cannot_be_granted(clinic: Path, run: Run, arguments: tuple[str, ...], code: int, message: str) -> None:
    run("analysts", "add", "alice")
    result = run("analysts", *arguments)
    assert result.exit_code == code, result.stdout
    assert result.stderr.startswith(f"Error: {message}")


def test_a_mistyped_name_does_not_ask_without_a_share(clinic: Path, run: Run) -> None:
    result = run("query", ALL, "--epsilon", "0.1", "--analyst", "alise")
    assert result.exit_code == 5
    assert "no person is registered as 'alise'" in result.stderr


def test_a_name_has_one_spelling(clinic: Path, run: Run, run_json: Json) -> None:
    assert run_json("analysts", "add", "Alice", "--epsilon", "1", "--population", "PATIENTS")["name"] == "alice"
    assert run_json("analysts", "grant", "ALICE", "--epsilon", "2")["name"] == "alice"
    assert run("query", ALL, "--epsilon", "0.5", "--analyst", "aLICE").exit_code == 0
    assert len(run_json("analysts", "list")["analysts"]) == 1


def test_lists_for_people(clinic: Path, run: Run) -> None:
    assert "No person is registered" in run("analysts", "list").stdout
    run("analysts", "add", "alice", "--epsilon", "1")
    shown = run("analysts", "list").stdout
    assert "alice: may ask" in shown
    assert "0 of 1 spent  1 left" in shown


# The ledger -----------------------------------------------------------------------------------------------------------


def test_verify_and_show(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    told = run_json("ledger", "verify")
    parts = {"ok", "ledger", "entries", "charges", "outcomes", "failures", "head", "problems", "changes", "overrides"}
    assert set(told) == parts
    assert (told["ok"], told["charges"], told["outcomes"], told["problems"]) == (True, 1, 1, [])
    assert "all hold" in run("ledger", "verify").stdout
    (entry,) = run_json("ledger", "show")["entries"]
    assert entry["sql"] == ALL
    assert entry["amounts"] == {"epsilon": "0.5"}
    assert entry["released"]
    assert ALL in run("ledger", "show").stdout
    kinds = [one["kind"] for one in run_json("ledger", "show", "--all")["entries"]]
    assert kinds == ["opened", "account", "unit", "source", "column", "declared", "reserve", "commit"]
    assert run_json("ledger", "show", "--analyst", "bob")["entries"] == []
    assert len(run_json("ledger", "show", "--all", "--last", "2")["entries"]) == 2
    assert run("ledger", "show", "--all", "--analyst", "x").exit_code == 2


def test_every_kind_of_entry_can_be_shown(clinic: Path, run: Run) -> None:
    run("analysts", "add", "alice", "--epsilon", "1")
    run("query", ALL, "--epsilon", "0.5", "--analyst", "alice")
    run("analysts", "revoke", "alice", "--reason", "left")
    shown = " ".join(run("ledger", "show", "--all").stdout.split())
    for words in ('"name": "alice"', '"owner": "analyst:alice"', '"caps": {"epsilon": "1"}', ALL, '"reason": "left"'):
        assert words in shown


def test_a_ledger_that_is_not_there(clinic: Path, run: Run) -> None:
    for command in (("ledger", "verify"), ("ledger", "show"), ("receipt", "key"), ("ledger", "show", "--all")):
        result = run(*command)
        assert result.exit_code == 2
        assert "tacit.ledger yet; opening the project makes it" in result.stderr
    assert not (clinic / "tacit.ledger").exists()


def test_an_old_copy_is_refused_until_an_operator_says_so_for_good(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    kept = {file.name: file.read_bytes() for file in clinic.glob("tacit.ledger*")}
    run("query", WARD, "--epsilon", "0.5")
    for name in [file.name for file in clinic.glob("tacit.ledger*")]:
        (clinic / name).unlink()
    for name, content in kept.items():
        (clinic / name).write_bytes(content)
        (clinic / name).chmod(0o600)
    result = run("query", WARD, "--epsilon", "0.5")
    assert result.exit_code == 10
    assert "is an old or another copy" in result.stderr
    assert "tacit ledger adopt" in result.stderr
    result = run("ledger", "verify")
    assert result.exit_code == 9
    assert "is an old or another copy" in result.stdout
    assert run("ledger", "adopt").exit_code == 2
    told = run_json("ledger", "adopt", "--reason", "the disk died", "--operator", "olga")
    assert set(told) == {"ledger", "position", "hash", "lost"}
    assert "what was left of patients" in told["lost"][0]
    verified = run("ledger", "verify")
    assert verified.exit_code == 0
    for command in (("ledger", "verify"), ("budget",), ("doctor",)):
        shown = " ".join(run(*command).stdout.split())
        for words in ("by olga: the ledger was taken at entry", "was counted as spent", "the disk died"):
            assert words in shown, command
    last = run_json("ledger", "show", "--all", "--last", "1")["entries"][0]
    assert (last["kind"], last["body"]["reason"], last["body"]["operator"]) == ("adopted", "the disk died", "olga")
    # What was charged since the backup may have been everything.
    assert run("query", WARD, "--epsilon", "0.5").exit_code == 4
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('epsilon = "4"', 'epsilon = "5"'))
    run_json("ledger", "caps", "patients", "--reason", "go on", "--operator", "otto")
    assert run("query", WARD, "--epsilon", "0.5").exit_code == 0
    for command in (("ledger", "verify"), ("budget",), ("doctor",)):
        told = run_json(*command)
        assert "from pure, epsilon 4 (add_remove) to pure, epsilon 5 (add_remove)" in json.dumps(told), command


def test_a_deleted_ledger_is_missed(clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "3")
    (clinic / "tacit.ledger").unlink()
    result = run("query", WARD, "--epsilon", "3")
    assert result.exit_code == 10
    assert "it was deleted or emptied" in result.stderr
    assert run("ledger", "adopt", "--reason", "begun anew after the flood").exit_code == 0
    assert run("query", WARD, "--epsilon", "1").exit_code == 4
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('epsilon = "4"', 'epsilon = "8"'))
    assert run("ledger", "caps", "patients", "--reason", "go on").exit_code == 0
    assert run("query", WARD, "--epsilon", "3", "--receipt", "r.json").exit_code == 0
    assert run("receipt", "verify", "r.json").exit_code == 0
    assert "begun anew after the flood" in " ".join(run("ledger", "show", "--all").stdout.split())


def test_an_edited_ledger_is_found_out(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    with sqlite3.connect(clinic / "tacit.ledger") as database:
        # A process that can write the file can also drop the triggers that guard its tables.
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        lower = "UPDATE entries SET body = replace(body, '1/2', '1/4') WHERE body LIKE '%\"kind\":\"reserve\"%'"
        assert database.execute(lower).rowcount == 1
    database.close()
    result = run("ledger", "verify", "--json")
    assert result.exit_code == 9
    assert json.loads(result.stdout)["problems"]


def test_a_budget_does_not_grow_by_an_edit(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('epsilon = "4"', 'epsilon = "6"'))
    result = run("query", WARD, "--epsilon", "0.5")
    assert result.exit_code == 2
    assert "tacit ledger caps" in result.stderr
    told = run_json("ledger", "caps", "patients", "--reason", "decided on 3 May")
    assert told == {"population": "patients", "before": "PureDP(4)", "now": "PureDP(6)", "reason": "decided on 3 May"}
    assert run_json("budget")["budgets"][0]["currencies"][0] == {
        "currency": "epsilon", "cap": "6", "spent": "0.5", "left": "5.5",
    }  # fmt: skip
    assert run("ledger", "caps", "cats", "--reason", "x").exit_code == 2


def test_a_renamed_copy_of_the_data_is_the_same_account(clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "3")
    shutil.copy(clinic / "visits.csv", clinic / "other.csv")
    text = (clinic / "tacit.toml").read_text()
    text = text.replace("visits.csv", "other.csv").replace("populations.patients", "populations.strangers")
    (clinic / "other.toml").write_text(text.replace('population = "patients"', 'population = "strangers"'))
    result = run("query", ALL, "--epsilon", "3", "-p", "other.toml")
    assert result.exit_code == 2
    assert "patients" in result.stderr


# Receipts -------------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_receipt_from_asking_to_checking_it_elsewhere(clinic: Path, run: Run, run_json: Json, tmp_path: Path) -> None:
    told = run_json("query", ALL, "--epsilon", "0.5", "--receipt", "r.json")
    assert json.loads((clinic / "r.json").read_text()) == told["receipt"]
    number = str(told["charge"]["position"])
    assert run("receipt", "show", number, "--json").stdout == (clinic / "r.json").read_text()
    key = run("receipt", "key").stdout.strip()
    assert run_json("receipt", "key")["public_key"] == key

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(clinic / "r.json", elsewhere)
    done = shell("receipt", "verify", "r.json", "--key", key, folder=elsewhere)
    assert done.returncode == 0
    assert b"The receipt holds." in done.stdout
    done = shell(
        "receipt", "verify", "-", "--key", key, "--json", folder=elsewhere, stdin=(clinic / "r.json").read_bytes()
    )
    checks = json.loads(done.stdout)
    assert set(checks) == {"ok", "checks"}
    assert checks["ok"]


def test_a_key_is_replaced_and_older_receipts_hold(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5", "--receipt", "old.json")
    old = run("receipt", "key").stdout.strip()
    told = run_json("ledger", "rotate-key", "--reason", "once a year", "--operator", "olga")
    assert (told["previous"], told["signed"], told["new_group_secret"]) == (old, True, False)
    run("query", WARD, "--epsilon", "0.5", "--receipt", "new.json")
    keys = run_json("receipt", "key")
    assert (keys["public_key"], keys["former"]) == (
        told["public_key"], [{"public_key": old, "replaced_at": told["position"]}]
    )  # fmt: skip
    for name, key, code in (("old", old, 0), ("new", told["public_key"], 0), ("old", told["public_key"], 1)):
        assert run("receipt", "verify", f"{name}.json", "--key", key).exit_code == code
    for name in ("old", "new"):
        assert run("receipt", "verify", f"{name}.json").exit_code == 0
    assert run_json("ledger", "verify")["ok"]
    entry = run_json("ledger", "show", "--all")["entries"][told["position"] - 1]
    assert (entry["kind"], entry["body"]["operator"], entry["body"]["reason"]) == ("key", "olga", "once a year")
    assert run("doctor").exit_code == 0


def test_a_lost_key_is_replaced_on_an_operators_word(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5", "--receipt", "old.json")
    assert "leave --lost out" in run("ledger", "rotate-key", "--lost", "--reason", "x").stderr
    (clinic / "tacit.ledger.key").unlink()
    result = run("ledger", "rotate-key", "--reason", "x")
    assert result.exit_code == 2
    assert "no key file" in result.stderr
    shown = run("ledger", "rotate-key", "--lost", "--reason", "the disk is gone").stdout
    for words in ("Receipts are signed with ed25519:", "No program can follow", "group secret was lost", "Back up"):
        assert words in shown
    assert '"reason": "the disk is gone", "signature": ""' in " ".join(run("ledger", "show", "--all").stdout.split())
    assert run("receipt", "verify", "old.json").exit_code == 0
    assert run("query", WARD, "--epsilon", "0.5").exit_code == 0
    assert run_json("ledger", "verify")["ok"]


def test_here_it_is_compared_with_the_ledger_too(clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "0.5", "--receipt", "r.json")
    shown = run("receipt", "verify", "r.json").stdout
    assert "the ledger of this project has it" in shown
    shown = run("receipt", "show", "r.json").stdout
    for words in ("Charged     epsilon 0.5", f"Query       {ALL}", "laplace", "scale", "Released"):
        assert words in shown


def test_a_receipt_with_a_changed_word_does_not_hold(clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "0.5", "--receipt", "r.json")
    text = (clinic / "r.json").read_text()
    for old, new in (
        ('"epsilon":"1/2"', '"epsilon":"1/4"'),
        ("COUNT(*)", "COUNT(1)"),
        ("patients", "pigeons"),
        ('"scale"', '"scall"'),
    ):
        assert old in text
        (clinic / "r.json").write_text(text.replace(old, new))
        result = run("receipt", "verify", "r.json")
        assert result.exit_code == 1
        assert "does NOT hold" in result.stdout


def test_hostile_receipts(clinic: Path, run: Run) -> None:
    run("budget")
    for content in (b"", b"{}", b"[1]", b"\xff", b'{"receipt":{},"signature":"x"}', b"[" * 100_000):
        (clinic / "r.json").write_bytes(content)
        assert run("receipt", "verify", "r.json").exit_code == 1
        result = run("receipt", "show", "r.json")
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: receipt: ")


def test_receipts_that_do_not_exist(clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "0.5")
    for number in ("1", "0", "999999", "9" * 30):
        result = run("receipt", "show", number)
        assert result.exit_code == 2
        assert "released nothing" in result.stderr
    assert run("receipt", "verify", "none.json").exit_code == 2
    result = run("receipt", "verify", "visits.csv", "--key", "ed25519:12")
    assert (result.exit_code, result.stderr[:13]) == (2, "Error: --key:")
    result = run("receipt", "verify", "visits.csv", "-p", "none.toml")
    assert result.stderr.startswith("Error: --key: is needed")


# Doctor ---------------------------------------------------------------------------------------------------------------


def test_all_in_place(clinic: Path, run: Run, run_json: Json) -> None:
    told = run_json("doctor")
    assert set(told) == {"ok", "checks"}
    assert told["ok"]
    assert all(set(check) == {"name", "ok", "words", "remedy"} for check in told["checks"])
    assert not (clinic / "tacit.ledger").exists()
    run("query", ALL, "--epsilon", "0.5")
    shown = run("doctor")
    assert shown.exit_code == 0
    assert not [line for line in shown.stdout.splitlines() if line != line.rstrip()]
    for words in ("source visits", "the anchor agrees", "receipts are signed with", "pure, epsilon 4", "tacit "):
        assert words in shown.stdout


def test_without_a_project_the_installation_is_looked_at(clinic: Path, run: Run) -> None:
    (clinic / "tacit.toml").unlink()
    shown = run("doctor", "--look")
    assert shown.exit_code == 0
    assert "there is no tacit.toml; tacit init makes one" in shown.stdout
    assert run("doctor", "--project", "other.toml").exit_code == 1


def test_the_owner_is_shown_what_is_left_out(clinic: Path, run: Run, run_json: Json) -> None:
    plain = run("doctor")
    assert "Not private" not in plain.stdout, "the output of a pipe may be kept"
    assert "limits visits" not in plain.stdout
    project = clinic / "tacit.toml"
    text = project.read_text()
    project.write_text(text.replace("max_rows = 5\n", "").replace('epsilon = "4"', 'epsilon = "40"'))
    shown = run("doctor", "--look")
    assert shown.exit_code == 0
    assert "max_rows: AUTO, found privately within the cost of each query" in shown.stdout
    assert "epsilon 40 protects little" in shown.stdout
    assert "Not private: exact numbers of protected rows, for the owner's eyes." in shown.stdout
    assert "max_rows = 1: " in shown.stdout
    assert "Not private" not in run("doctor", "--no-look").stdout
    names = {check["name"] for check in run_json("doctor")["checks"]}
    assert {"limits visits", "caution patients"} <= names
    assert "Caution: epsilon 40 protects little" in run("budget").stdout


def problems(project: Path) -> dict[str, str]:
    return {finding.name: finding.remedy for finding in examine(project) if not finding.ok}


def test_each_problem_has_a_remedy(clinic: Path, run: Run) -> None:
    project = clinic / "tacit.toml"
    run("query", ALL, "--epsilon", "0.5")
    assert problems(project) == {}
    project.chmod(0o666)
    (clinic / "tacit.ledger.key").chmod(0o644)
    found = problems(project)
    assert set(found) == {"project file", "keys"}
    assert "chmod 600" in found["keys"]
    project.chmod(0o600)
    (clinic / "tacit.ledger.key").chmod(0o600)
    project.write_text(project.read_text().replace('epsilon = "4"', 'epsilon = "40"'))
    assert "tacit ledger caps patients" in problems(project)["budget patients"]
    project.write_text(project.read_text().replace('epsilon = "40"', 'epsilon = "?"'))
    assert set(problems(project)) == {"project"}
    assert run("doctor").exit_code == 1
    assert "→ edit" in run("doctor").stdout


def test_missing_things(clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "0.5")
    (clinic / "tacit.ledger.key").unlink()
    assert "keys" in problems(clinic / "tacit.toml")
    (clinic / "tacit.ledger").write_bytes(b"not a database")
    assert "ledger" in problems(clinic / "tacit.toml")
    (clinic / "visits.csv").unlink()
    assert {"project"} <= set(problems(clinic / "tacit.toml")) or "source visits" in problems(clinic / "tacit.toml")
    assert set(problems(clinic / "none.toml")) == {"project"}
