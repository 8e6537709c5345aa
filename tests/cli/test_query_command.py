"""``tacit query``, ``explain`` and ``budget``: forms of an answer, where a query may come from, and what is said."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import tacit
from cli.terminal import shell
from tacit.accounting.filters import Line
from tacit.cli.common import operator_log
from tacit.cli.query import budget_table
from tacit.core.numbers import exact_text

Run = Callable[..., Result]
Json = Callable[..., Any]
BY_WARD = "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY ward"
ALL = "SELECT COUNT(*) AS visits FROM visits"


@pytest.mark.deep
def test_a_table_with_errors_the_charge_and_what_is_left(clinic: Path, run: Run) -> None:
    result = run("query", BY_WARD, "--epsilon", "0.5")
    assert result.exit_code == 0
    for words in ("cardiology", "oncology", "surgery", " ± ", "Charged epsilon 0.5 to patients.", "95% intervals"):
        assert words in result.stdout
    assert "epsilon: 0.5 of 4 spent, 3.5 left; 7 more such queries fit." in result.stdout
    assert "\x1b" not in result.stdout


def test_a_query_loads_nothing_that_it_does_not_use(clinic: Path) -> None:
    """What takes long to import, and other commands: together they would take longer than the query."""
    code = "import sys; from tacit.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "query", ALL, "--epsilon", "0.1"], capture_output=True, text=True
    )
    loaded = set(done.stderr.split())
    assert done.returncode == 0, done.stderr
    assert {"tacit.cli.query", "tacit.curator.opening", "sqlglot", "duckdb"} <= loaded
    rooms = {"audit", "client", "course", "lab", "learn", "local", "server", "synth"}
    unused = {
        *(f"tacit.{room}" for room in rooms),
        *(f"tacit.project.{name}" for name in ("draft", "owner_view", "project_editing", "example_hospital")),
        *("pandas", "pyarrow.compute", "scipy", "sklearn", "altair", "polars", "torch", "httpx2", "starlette"),
        *("uvicorn", "psycopg", "pyspark", "mcp", "tomlkit", "rich.progress"),
    }
    assert not unused & loaded
    assert {name for name in loaded if name.startswith("tacit.cli.")} <= {
        f"tacit.cli.{name}" for name in ("query", "common")
    }


def test_a_query_neither_searches_for_garbage_nor_takes_itself_apart(clinic: Path) -> None:
    """While it loads its modules, and when its process ends: that was a fifth of its processor time."""
    code = (
        "import atexit, gc, os, sys; from tacit.cli import script\n"
        "atexit.register(print, 'taken apart'); before = sum(each['collections'] for each in gc.get_stats())\n"
        "def searches(): return sum(each['collections'] for each in gc.get_stats()) - before\n"
        "leave = os._exit; os._exit = lambda code: (print(searches(), file=sys.stderr, flush=True), leave(code))\n"
        "script()"
    )

    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)

    done = asked("query", ALL, "--epsilon", "0.1")
    assert "visits" in done.stdout
    assert "taken apart" not in done.stdout
    assert int(done.stderr) < 50
    assert done.returncode == 0
    refused = asked("query", ALL, "--epsilon", "-1")
    assert (refused.returncode, "taken apart" in refused.stdout) == (2, False)
    assert "must be greater than 0" in refused.stderr
    assert "taken apart" in asked("--version").stdout


def test_json(clinic: Path, run_json: Json) -> None:
    told = run_json("query", BY_WARD, "--epsilon", "0.5", "--confidence", "0.9")
    assert set(told) >= {"columns", "rows", "confidence", "charge", "budget"}
    assert told["columns"][1] == {"name": "visits", "type": "INTEGER", "interval": True, "not_negative": True}
    assert [row["ward"] for row in told["rows"]] == ["cardiology", "oncology", "surgery"]
    cell = told["rows"][0]["visits"]
    assert set(cell) - {"marked"} == {"value", "low", "high", "bias_low", "bias_high"}
    assert [cause["cause"] for cause in told["bias"]["causes"]]
    assert cell["low"] <= cell["value"] <= cell["high"]
    assert told["confidence"] == "0.9"
    assert told["charge"]["amounts"] == {"epsilon": "0.5"}
    assert told["budget"]["currencies"] == [{"currency": "epsilon", "cap": "4", "spent": "0.5", "left": "3.5"}]
    assert told["budget"]["queries_left"] == 7


def test_negative_counts_are_shown_as_0_and_written_as_released(clinic: Path, run: Run) -> None:
    nothing = "SELECT ward, COUNT(*) AS visits FROM visits WHERE cost < 0 GROUP BY ward"
    # One of three noises of scale 200 is negative with probability 7/8; a repeat shows the same numbers.
    shown = [run("query", nothing, "--epsilon", "0.1", *more).stdout for more in ((), ("--format", "csv"))]
    assert ("shown as 0" in shown[0]) == any(line.split(",")[1].startswith("-") for line in shown[1].splitlines())


def test_format_json_is_the_same(clinic: Path, run: Run) -> None:
    result = run("query", ALL, "--epsilon", "0.5", "--format", "json")
    assert json.loads(result.stdout)["columns"][0]["name"] == "visits"


def test_csv_is_only_data_and_what_it_cost_is_said_elsewhere(clinic: Path, run: Run) -> None:
    result = run("query", BY_WARD, "--epsilon", "0.5", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [*rows[0]] == ["ward", "visits", "visits_low", "visits_high", "cost", "cost_low", "cost_high"]
    assert len(rows) == 3
    assert "Charged epsilon 0.5" in result.stderr


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "txt"])
def test_the_ending_of_a_file_decides_its_form(clinic: Path, run: Run, ending: str) -> None:
    result = run("query", BY_WARD, "--epsilon", "0.5", "-o", f"answer.{ending}")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "Charged epsilon 0.5" in result.stderr
    file = clinic / f"answer.{ending}"
    match ending:
        case "parquet":
            assert pq.read_table(file)["ward"].to_pylist() == ["cardiology", "oncology", "surgery"]
        case "json":
            assert len(json.loads(file.read_text())["rows"]) == 3
        case "csv":
            assert file.read_text().startswith("ward,visits,visits_low")
        case _:
            assert "±" in file.read_text()


@pytest.mark.deep
def test_a_plot(clinic: Path, run: Run) -> None:
    assert run("query", BY_WARD, "--epsilon", "0.5", "--plot", "a.svg").exit_code == 0
    assert (clinic / "a.svg").read_text().startswith("<svg")
    result = run("query", "SELECT ward FROM visits GROUP BY ward", "--epsilon", "0.5", "--plot", "b.svg")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --plot: the answer has no column with an interval")


def test_a_query_from_a_file_a_pipe_and_a_dash(clinic: Path, run: Run) -> None:
    (clinic / "q.sql").write_text(f"-- how many?\n{ALL};\n")
    assert run("explain", "--file", "q.sql", "--epsilon", "1").exit_code == 0
    assert run("explain", "--epsilon", "1", stdin=ALL).exit_code == 0
    assert run("explain", "-", "--epsilon", "1", stdin=f"\ufeff{ALL}").exit_code == 0
    assert run("query", "--epsilon", "1", stdin=ALL).exit_code == 0


def test_within_instead_of_a_price(clinic: Path, run: Run, run_json: Json) -> None:
    told = run_json("explain", BY_WARD, "--within", "visits=100", "--within", "cost=200", "--suppose", "500")
    assert Fraction(told["errors"][0]["bound"]) <= 100
    assert run("query", ALL, "--within", "50").exit_code == 0


def test_explain_says_all_and_costs_nothing(clinic: Path, run: Run, run_json: Json) -> None:
    result = run("explain", BY_WARD, "--epsilon", "0.5")
    for words in ("Charge      epsilon 0.5", "Protects    patients", "Releases", "Budget      patients"):
        assert words in result.stdout
    assert "FROM" not in result.stdout
    assert "FROM" in run("explain", BY_WARD, "--epsilon", "0.5", "--engine").stdout
    told = run_json("explain", BY_WARD, "--epsilon", "0.5")
    assert told["charge"] == "epsilon 0.5"
    assert told["engine_sql"] is None
    assert told["budget"]["currencies"][0]["spent"] == "0"


def test_budget(clinic: Path, run: Run, run_json: Json) -> None:
    assert "0 of 4 spent" in run("budget").stdout
    assert "40 more such queries fit" in run("budget", ALL, "--epsilon", "0.1").stdout
    told = run_json("budget")
    assert set(told) == {"budgets", "overrides", "undelivered"}
    assert set(told["budgets"][0]) == {
        "population", "guarantee", "promise", "currencies", "shares", "queries_left", "durable",
    }  # fmt: skip
    assert run("budget", "--population", "unknown").exit_code == 2


def test_what_is_spent_is_rounded_up_and_what_is_left_down() -> None:
    """As the line below an answer does: the two differed in the last digit."""
    line = Line("rho", Fraction("0.296131"), Fraction("0.03180565"))
    cells = [str(cell) for column in budget_table([("total", [line], None)]).columns for cell in column.cells]
    assert cells[-2:] == ["0.0318057 of 0.296131 spent", "0.264325 left"]


@pytest.mark.parametrize(
    ("arguments", "left_alone"),
    [
        (["--help"], "numpy duckdb sqlglot pydantic cryptography mpmath"),
        (["budget"], "numpy duckdb sqlglot mpmath tacit.curator.curator"),
        (["query", ALL, "--epsilon", "0.1"], "pyarrow scipy tacit.synth tacit.learn tacit.releases.workload"),
    ],
)
def test_commands_load_what_they_need(clinic: Path, run: Run, arguments: list[str], left_alone: str) -> None:
    """Half of a command's time were imports of what it did not use."""
    run("query", ALL, "--epsilon", "0.1")
    program = (
        f"import sys; sys.argv[1:] = {arguments!r}\nfrom tacit.cli import main\ntry:\n    main()\n"
        f"finally:\n    print('loaded', *({set(left_alone.split())!r} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=clinic)
    assert done.stdout.splitlines()[-1] == "loaded", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((ALL,), 2, "--epsilon: state what the query may cost"),
        ((ALL, "--epsilon", "-1"), 2, "--epsilon: must be greater than 0"),
        ((ALL, "--epsilon", "nan"), 2, "--epsilon: must be"),
        ((ALL, "--epsilon", "1e999999999"), 2, "--epsilon: "),
        ((ALL, "--epsilon", "1", "--rho", "1"), 2, "--rho: "),
        ((ALL, "--rho", "1"), 2, "--rho: is not what a pure account is charged in"),
        ((ALL, "--epsilon", "1", "--confidence", "1.5"), 2, "--confidence: must lie in (0, 1)"),
        ((ALL, "--within", "x=y=z"), 2, "--within: "),
        ((ALL, "--within", "=5"), 2, "--within: must be one number"),
        ((ALL, "--within", "1", "--within", "2"), 2, "--within: must be one number"),
        ((ALL, "--within", "visits=1", "--within", "visits=2"), 2, "--within: names visits twice"),
        ((ALL, "--epsilon", "1", "--max-groups", "0"), 2, "--max-groups: "),
        ((ALL, "--epsilon", "1", "--format", "xml"), 2, "--format: must be one of table"),
        ((ALL, "--epsilon", "1", "--format", "parquet"), 2, "--output: Parquet is not text"),
        ((ALL, "--epsilon", "1", "-o", "no/where.csv"), 2, "--output: there is no folder"),
        ((ALL, "--epsilon", "1", "-o", "."), 2, "--output: . is a folder"),
        ((ALL, "--epsilon", "1", "--plot", "a.gif"), 2, "--plot: must end in one of"),
        ((ALL, "--epsilon", "1", "--file", "q.sql"), 2, "--file: a query was given as well"),
        (("--file", "none.sql", "--epsilon", "1"), 2, "--file: cannot read none.sql"),
        ((ALL, "--epsilon", "1", "-p", "other.toml"), 2, "--project: there is no other.toml"),
        ((ALL, "--epsilon", "1", "-p", "visits.csv"), 2, "--project: must be a project file"),
        (("SELECT * FROM visits", "--epsilon", "1"), 3, "Rows of protected tables are never returned"),
        (("SELECT COUNT(*) FROM nothing", "--epsilon", "1"), 3, ""),
        (("DROP TABLE visits", "--epsilon", "1"), 3, ""),
        (("", "--epsilon", "1"), 3, ""),
        (("\x00", "--epsilon", "1"), 3, ""),
        (("(" * 40_000, "--epsilon", "1"), 3, ""),
        ((ALL, "--epsilon", "4.5"), 4, "patients: "),
    ],
)
def test_refusals_by_class(clinic: Path, run: Run, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run("query", *arguments)
    assert result.exit_code == code, result.stderr
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stdout == ""


def test_refusals_cost_nothing_and_have_a_form_for_programs(clinic: Path, run: Run, run_json: Json) -> None:
    for arguments, code in (
        ((ALL,), "input"),
        (("SELECT * FROM visits", "--epsilon", "1"), "query.not_aggregated"),
        ((ALL, "--epsilon", "4.5"), "budget"),
    ):
        result = run("query", *arguments, "--json")
        error = json.loads(result.stderr)["error"]
        assert set(error) == {"code", "message", "exit_code"}
        assert (error["code"], error["exit_code"]) == (code, result.exit_code)
    assert run_json("budget")["budgets"][0]["currencies"][0]["spent"] == "0"


def test_what_the_database_says_goes_to_the_operator_alone(clinic: Path, run: Run) -> None:
    """A file that breaks in the middle: the analyst gets an id, the log has the rest, and the charge stands."""
    people = range(50_000)
    rows = {"patient_id": people, "ward": ["oncology"] * len(people), "cost": [i % 977 / 1 for i in people]}
    pq.write_table(pa.table(rows), clinic / "visits.parquet", row_group_size=1000)
    content = bytearray((clinic / "visits.parquet").read_bytes())
    # Numbers alone: texts are read through when the file is opened, and would be refused then.
    costs = pq.read_metadata(clinic / "visits.parquet").row_group(20).column(2)
    for place in range(costs.data_page_offset, costs.data_page_offset + costs.total_compressed_size // 2, 7):
        content[place] ^= 0xFF
    (clinic / "visits.parquet").write_bytes(content)
    text = (clinic / "tacit.toml").read_text().replace("visits.csv", "visits.parquet")
    (clinic / "tacit.toml").write_text(text.replace("decimal", "double").replace('step = "0.01", ', ""))
    result = run("query", "SELECT SUM(cost) AS s FROM visits", "--epsilon", "1")
    assert result.exit_code == 7, result.stderr
    assert "the operator's log has the reason under" in result.stderr
    assert str(operator_log()) in result.stderr
    assert "parquet" not in result.stderr
    assert "visits.parquet" in operator_log().read_text()
    assert "1 of 4 spent" in run("budget").stdout


def test_bytes_that_are_no_text(clinic: Path) -> None:
    (clinic / "q.sql").write_bytes(b"SELECT \xff")
    done = shell("query", "--file", "q.sql", "--epsilon", "1", folder=clinic)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"Error: --file: the query is not UTF-8 text\n"
    done = shell("query", "--epsilon", "1", stdin=b"\xc3\x28", folder=clinic)
    assert done.returncode == 2


def test_a_pipe_gets_plain_text(clinic: Path) -> None:
    done = shell("query", BY_WARD, "--epsilon", "0.5", folder=clinic)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("value", "text"),
    [("1/2", "0.5"), ("3", "3"), ("1/3", "1/3"), ("-5/4", "-1.25"), ("1/1000000", "0.000001"), ("0", "0")],
)
def test_exact_text(value: str, text: str) -> None:
    assert exact_text(Fraction(value)) == text
    assert Fraction(exact_text(Fraction(value))) == Fraction(value)


def test_an_epsilon_that_was_typed_is_shown_everywhere(clinic: Path, run: Run) -> None:
    project = clinic / "tacit.toml"
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace('epsilon = "4"', 'epsilon = "4"\ndelta = "1e-6"\naccounting = "zcdp"'))
    assert "Charge      epsilon 0.5 (rho 0.0" in run("explain", ALL, "--epsilon", "0.5").stdout
    answer = run("query", ALL, "--epsilon", "0.5").stdout
    assert "Charged epsilon 0.5 (rho 0.0" in answer
    assert "patients: epsilon: 0.5" in answer, "one query comes to about what was typed"
    budget = run("budget").stdout
    assert "at most epsilon 4 at delta 1e-06 for all answers together" in budget
    assert "of 4 spent at delta 1e-06" in budget
    assert "epsilon 0.5 (rho 0.0" in run("ledger", "show").stdout
    with tacit.open(project) as curator:
        assert curator.history()[0].text.startswith("Charged epsilon 0.5 (rho 0.0")
        assert "epsilon 0.5 (rho 0.0" in curator.history()._repr_html_()
        by_rho = curator.sql("SELECT COUNT(*) AS n FROM visits WHERE cost > 10", rho="0.01")
        assert by_rho.charge.text == "Charged rho 0.01 to patients"


def test_rows_that_are_not_shown_are_counted(clinic: Path, run: Run) -> None:
    (clinic / "beds.csv").write_text("beds\n" + "".join(f"{i}\n" for i in range(1160)))
    with (clinic / "tacit.toml").open("a") as file:
        file.write('\n[tables.beds]\nsource = "beds.csv"\npublic = true\ncolumns.beds.type = "integer"\n')
    assert "more row" not in run("query", "SELECT beds FROM beds WHERE beds < 9").stdout
    shown = run("query", "SELECT beds FROM beds").stdout
    assert "\n1,100 more rows. All are in --format csv, and in a file: --output answer.csv.\n" in shown


def test_the_mark_of_a_number_is_explained_where_it_stands(clinic: Path, run: Run) -> None:
    explained = "* The bias may exceed the interval; --json has bias_low and bias_high"
    cut = run(
        "query", f"{ALL.replace('SELECT', 'SELECT ward,')} GROUP BY ward", "--epsilon", "2", "--max-rows", "1"
    ).stdout
    assert " *" in cut.partition("Charged")[0], "of five rows one counts, and each ward may lack all of them"
    alone = run("query", ALL, "--epsilon", "2", "--max-rows", "1").stdout
    assert explained not in alone, "without groups the interval includes what is lost"
    assert f"\n{explained}" in cut
    assert explained not in run("query", ALL, "--epsilon", "2").stdout


def test_settings_of_a_server_come_from_the_environment(
    clinic: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_SERVE_SET", "threads=many")
    assert "must be name=number, got 'threads=many'" in run("serve").stderr
    monkeypatch.setenv("TACIT_SERVE_SET", "threads=2")
    monkeypatch.setenv("TACIT_SERVE_WORKERS", "0")
    assert "--workers: must be a number above 0, got 0" in run("serve").stderr
