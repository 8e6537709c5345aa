"""``tacit receipt table``: a published table against the receipt of its release; and receipts that a thief signed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
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


@pytest.mark.parametrize("output", ["t.csv", "t.parquet", "t.json"])
def test_a_table_as_it_was_written_is_what_was_released(clinic: Path, run: Run, run_json: Json, output: str) -> None:
    ask(run, output)
    shown = run("receipt", "table", output, "r.json")
    assert shown.exit_code == 0, shown.output
    assert "The table is what was released." in shown.stdout
    before = run_json("budget")
    told = run_json("receipt", "table", output, "r.json")
    assert told["ok"]
    assert told["checks"][-1]["name"] == "table"
    number = str(json.loads((clinic / "r.json").read_text())["receipt"]["ledger"]["position"])
    assert run("receipt", "table", output, number).exit_code == 0
    assert run_json("budget") == before, "it is free"


def test_order_and_intervals_are_free_and_values_are_not(clinic: Path, run: Run) -> None:
    ask(run, "t.csv")
    header, *rows = (clinic / "t.csv").read_text().splitlines()
    names = header.split(",")
    keep = [names.index(name) for name in ("many", "n", "ward", "cost")]
    short = ["many,n,ward,cost", *(",".join(row.split(",")[i] for i in keep) for row in reversed(rows))]
    (clinic / "s.csv").write_text("\r\n".join(short) + "\r\n")
    assert run("receipt", "table", "s.csv", "r.json").exit_code == 0
    cells = rows[0].split(",")
    n = names.index("n")
    for words, lines in {
        "n is another there": [header, ",".join([*cells[:n], str(int(cells[n]) + 1), *cells[n + 1 :]]), *rows[1:]],
        "it has 2 rows, and the answer 3": [header, *rows[1:]],
        "is not in the answer": [header, rows[0], rows[0], rows[1]],
        "it has 4 rows": [header, *rows, rows[0]],
        "'x' is not in the answer": [header.replace("many", "x"), *rows],
        "occurs twice": [f"{header},n", *(f"{row},1" for row in rows)],
        "'cost' is missing": ["ward,n,many", *(",".join((r.split(",")[0], r.split(",")[n], "True")) for r in rows)],
    }.items():
        (clinic / "s.csv").write_text("\n".join(lines) + "\n")
        result = run("receipt", "table", "s.csv", "r.json")
        assert result.exit_code == 1, words
        assert words in " ".join(result.stdout.split())


def test_tables_that_cannot_be_read_are_refused(clinic: Path, run: Run) -> None:
    ask(run, "t.csv")
    for name, content in {
        "a.csv": b"",
        "b.csv": b"a,b\n1\n",
        "c.json": b"{}",
        "d.json": b"[" * 100_000,
        "e.parquet": b"PAR1",
        "f.csv": b"\xff\xfe",
        "g.csv": b'ward,"n\n',
    }.items():
        (clinic / name).write_bytes(content)
        assert run("receipt", "table", name, "r.json").exit_code == 2, name
    assert run("receipt", "table", "none.csv", "r.json").exit_code == 2


def test_cells_that_are_no_values_differ(clinic: Path, run: Run) -> None:
    ask(run, "t.json")
    told = json.loads((clinic / "t.json").read_text())
    for value in ("inf", "nan", "1e999", "0x10", True, None, [1], {"a": 1}, 10**400):
        cell = {**told["rows"][0]["n"], "value": value}
        changed = {**told, "rows": [{**told["rows"][0], "n": cell}, *told["rows"][1:]]}
        (clinic / "u.json").write_text(json.dumps(changed))
        result = run("receipt", "table", "u.json", "r.json")
        assert result.exit_code == 1, value
        assert "NOT what was released" in result.stdout


def test_a_table_of_a_planned_release(clinic: Path, run: Run) -> None:
    (clinic / "plan.toml").write_text(PLAN)
    assert run("release", "plan.toml").exit_code == 0
    for name, form in (("visits", "csv"), ("visits", "parquet"), ("cost", "csv")):
        words = ("receipt", "table", f"yearly/{name}.{form}", "yearly/receipt.json", "--name", name)
        result = run(*words, "--plan", "plan.toml")
        assert result.exit_code == 0, result.output
        assert run(*words).exit_code == 2, "the plan is needed"
    wrong = run("receipt", "table", "yearly/cost.csv", "yearly/receipt.json", "--name", "visits", "--plan", "plan.toml")
    assert wrong.exit_code == 1
    result = run("receipt", "table", "yearly/cost.csv", "yearly/receipt.json", "--plan", "plan.toml")
    assert "visits, cost" in result.stderr


def test_another_receipt_or_other_declarations_do_not_fit(clinic: Path, run: Run) -> None:
    ask(run, "t.parquet")
    run("query", "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "--epsilon", "0.5", "--receipt", "o.json")
    assert run("receipt", "table", "t.parquet", "o.json").exit_code == 1
    assert pq.read_table(clinic / "t.parquet").num_rows == 3
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace("bounds = [0, 2500]", "bounds = [0, 2400]"))
    result = run("receipt", "table", "t.parquet", "r.json")
    assert result.exit_code == 2
    assert "other declarations" in result.stderr


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


def test_limits_beside_a_query_are_known_from_its_charge(clinic: Path, run: Run) -> None:
    done = run(
        "query", WARD, "--epsilon", "1", "--max-rows", "9", "--max-groups", "2", "-o", "t.csv", "--receipt", "r.json"
    )
    assert done.exit_code == 0, done.output
    checked = run("receipt", "table", "t.csv", "r.json")
    assert checked.exit_code == 0, checked.output


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
