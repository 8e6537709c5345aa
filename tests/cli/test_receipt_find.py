"""``tacit receipt``: numbers looked up in signed releases, and receipts that a thief signed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

from tacit.ledger.signing_keys import key_id
from tacit.releases.keys import open_keys
from tacit.releases.receipt import Receipt, signed_text

Run = Callable[..., Result]
Json = Callable[..., Any]
WARD = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost, COUNT(*) > 500 AS many FROM visits GROUP BY ward"
PLAN = """
[release]
name = "yearly"
epsilon = "1"
output = "yearly"
formats = ["csv", "parquet"]

[statistics.visits]
sql = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"

[statistics.cost]
sql = "SELECT AVG(cost) AS cost FROM visits"
"""


def ask(run: Run, output: str) -> None:
    done = run("query", WARD, "--epsilon", "1", "-o", output, "--receipt", "r.json")
    assert done.exit_code == 0, done.output


def test_a_key_that_was_stolen_and_replaced_signs_nothing_that_holds_here(clinic: Path, run: Run) -> None:
    ask(run, "t.csv")
    shutil.copy(clinic / "tacit.ledger.key", clinic / "stolen.key")
    (clinic / "stolen.key").chmod(0o600)
    assert run("ledger", "rotate-key", "--reason", "it was stolen").exit_code == 0
    assert run("receipt", "verify", "r.json").exit_code == 0
    thief = open_keys(clinic / "stolen.key")
    true = Receipt.from_json((clinic / "r.json").read_text())
    assert true["key"] == key_id(thief.public_key)
    for part, value in (("released", "0" * 64), ("query", "SELECT COUNT(*) AS deaths FROM visits"), ("plan", "0" * 64)):
        said = {**true.statement, "answers": [{**true["answers"][0], part: value}]}
        Receipt(said, thief.sign(signed_text(said))).save(clinic / "forged.json")
        result = run("receipt", "verify", "forged.json")
        assert result.exit_code == 1, part
        assert "does NOT hold" in result.stdout
        # The signature by itself is a true one: offline it cannot be told.
        assert run("receipt", "verify", "forged.json", "--key", thief.public_key).exit_code == 0


def test_a_quoted_number_is_found_in_its_release_or_in_none(clinic: Path, run: Run, run_json: Json) -> None:
    told = run_json("query", WARD, "--epsilon", "1")
    value = round(float(told["rows"][0]["cost"]["value"]), 1)
    assert run("profile", "visits", "--epsilon", "0.5").exit_code == 0
    found = run_json("receipt", "find", f"{value:,.1f}")
    hit = found["found"][0]
    assert hit["about"].startswith("cost where ward = ")
    assert hit["signed"]
    assert float(hit["low"]) <= float(hit["value"]) <= float(hit["high"])
    assert (hit["position"], hit["query"]) == (told["receipt"]["receipt"]["ledger"]["position"], WARD)
    none = run("receipt", "find", "987,654,321")
    assert (none.exit_code, "is in no release of 2 looked into" in none.stdout) == (1, True)
    assert "1.5 of 4 spent" in run("budget").stdout
    for wrong in ("", "six", "1,2345", "1e9"):
        assert run("receipt", "find", wrong).exit_code not in (0, 1)


def test_a_number_of_a_planned_release_is_found_with_its_plan(clinic: Path, run: Run, run_json: Json) -> None:
    (clinic / "plan.toml").write_text(PLAN)
    assert run("release", "plan.toml").exit_code == 0
    rows = (clinic / "yearly" / "visits.csv").read_text().splitlines()
    value = rows[1].split(",")[1]
    blind = run("receipt", "find", value)
    assert (blind.exit_code, "name their plan files" in blind.stdout) == (1, True)
    hit = run_json("receipt", "find", f"{int(value):,}", "--plan", "plan.toml")["found"][0]
    assert hit["about"].startswith("visits: visits where ward = ")


def test_a_number_of_other_declarations_is_in_no_release(clinic: Path, run: Run, run_json: Json) -> None:
    told = run_json("query", WARD, "--epsilon", "1")
    value = f"{told['rows'][0]['n']['value']:,}"
    assert run("receipt", "find", value).exit_code == 0
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace("bounds = [0, 2500]", "bounds = [0, 2400]"))
    assert run("receipt", "find", value).exit_code == 1


def test_another_plan_of_the_same_names_is_not_the_one_that_was_released(clinic: Path, run: Run) -> None:
    (clinic / "plan.toml").write_text(PLAN)
    assert run("release", "plan.toml").exit_code == 0
    value = (clinic / "yearly" / "visits.csv").read_text().splitlines()[1].split(",")[1]
    for number, (old, new) in enumerate((("COUNT(*)", "COUNT(*) + 1"), ('epsilon = "1"', 'epsilon = "2"'))):
        (clinic / f"{number}.toml").write_text(PLAN.replace(old, new))
        blind = run("receipt", "find", value, "--plan", f"{number}.toml")
        assert (blind.exit_code, "name their plan files" in blind.stdout) == (1, True)
