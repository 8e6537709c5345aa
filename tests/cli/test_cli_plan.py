"""``tacit plan``, its JSON, errors with exit code 2, and the version; ``tests/cli`` has the other commands."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import Result

import tacit
from support.command_line import run_command


def run(*arguments: str) -> Result:
    return run_command(*arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_people_needed() -> None:
    result = run("plan", "laplace", "--within", "0.01", "--confidence", "0.95", "--epsilon", "0.1")
    assert result.exit_code == 0
    assert "3,000" in result.stdout
    assert "<- computed" in result.stdout
    assert "With 3,000 people and epsilon 0.1, a count is off by at most 1% of the people (30)" in result.stdout


def test_json() -> None:
    arguments = ("plan", "histogram", "--bins", "20", "--people", "5000", "--confidence", "0.99", "--epsilon", "1")
    result = run(*arguments, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "mechanism": "histogram",
        "solved": "within",
        "people": 5000,
        "epsilon": 1.0,
        "within": 0.0014,
        "confidence": 0.99,
        "delta": None,
        "outputs": 20,
        "relation": "add_remove",
        "cautions": [],
    }


def test_learning_shows_the_theorem_beside_the_measured_planner() -> None:
    arguments = ("plan", "learning", "--within", "0.05", "--epsilon", "1", "--delta", "1e-6", "--dimensions", "20")
    result = run(*arguments)
    assert result.exit_code == 0
    assert "theorem" in result.stdout
    assert "with constant 1" in result.stdout
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["theorem"]["rows"] == 6650
    assert found["measured"]["rows"] < found["theorem"]["rows"]
    missing = run("plan", "learning", "--within", "0.05", "--epsilon", "1")
    assert missing.exit_code == 2
    assert "--delta: is needed by learning" in missing.stderr
    assert "--people: has no meaning" in run(*arguments, "--people", "5").stderr
    assert "--dimensions: has a meaning" in run("plan", "count", "--dimensions", "3").stderr


def test_other_words_for_counts_and_surveys() -> None:
    asked = ("--within", "0.05", "--confidence", "0.9", "--epsilon", "1", "--json")
    for word, name in (("count", "laplace"), ("survey", "randomized_response"), ("poll", "randomized_response")):
        assert json.loads(run("plan", word, *asked).stdout) == json.loads(run("plan", name, *asked).stdout)


def test_a_number_that_protects_little_is_noted_and_not_refused() -> None:
    asked = ("--within", "0.2", "--confidence", "0.95", "--people", "50", "--delta", "0.1")
    result = run("plan", "gaussian", *asked)
    assert result.exit_code == 0
    assert "Note: delta 0.1 for 50 people protects little: publishing 5 whole records" in result.stdout
    large = run("plan", "count", "--confidence", "0.95", "--people", "50", "--epsilon", "300", "--json")
    assert "epsilon 300 protects little" in json.loads(large.stdout)["cautions"][0]


def test_every_mechanism_by_its_name_with_either_dash() -> None:
    asked = ("--within", "0.05", "--confidence", "0.9", "--epsilon", "1", "--json")
    for words in (
        ("laplace",),
        ("gaussian", "--delta", "1e-5"),
        ("histogram", "--bins", "4"),
        ("mean",),
        ("selection", "--candidates", "4", "--relation", "replace_one"),
        ("randomized_response",),
        ("randomized-response",),
    ):
        result = run("plan", *words, *asked)
        assert result.exit_code == 0, words
        assert json.loads(result.stdout)["people"] > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplace", "--within", "0.01", "--confidence", "0.95", "--epsilon", "-1"), "--epsilon: must be greater"),
        (("laplace", "--within", "x", "--confidence", "0.95", "--epsilon", "1"), "--within: must be a number"),
        (("laplace", "--within", "0.01"), "--confidence: state exactly three"),
        (("gaussian", "--within", "0.01", "--confidence", "0.95", "--epsilon", "1"), "--delta: is needed"),
        (("laplase", "--within", "0.01"), "mechanism: must be one of laplace"),
        (("laplace", "--people", "many"), "--people"),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_names_the_option(arguments: tuple[str, ...], message: str) -> None:
    result = run("plan", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_version_and_help() -> None:
    assert run("--version").stdout == f"tacit {tacit.__version__}\n"
    help_text = run("--help").stdout
    assert "demo" in help_text
    assert "plan" in help_text
    assert "--within" in run("plan", "--help").stdout


def test_help_loads_no_numbers() -> None:
    """The commands import what they need when they are called, so that asking for help is quick."""
    check = (
        "import sys, tacit; before = set(sys.modules); from tacit.cli import command_line; command_line(); "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert "tacit.cli.query" in loaded
    assert not [name for name in loaded if name.startswith(("tacit.mechanisms", "tacit.noise", "scipy", "mpmath"))]
