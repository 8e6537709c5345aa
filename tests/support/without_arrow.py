"""Queries and first steps in a process that cannot import Arrow; run by ``tests/engines/test_without_arrow.py``.

Its argument is a folder with the tables of the corpus in ``files/`` and ``visits.csv``; it prints JSON.
"""

from __future__ import annotations

import importlib.abc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class NoArrow(importlib.abc.MetaPathFinder):
    """Importing Arrow fails, as where it is not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def first_steps(folder: Path) -> dict[str, Any]:
    """Steps of the README, in the library and on the command line, and the words of all that needs Arrow."""
    from typer.testing import CliRunner

    import tacit
    from tacit.cli import command_line

    found: dict[str, Any] = {}
    columns = {"ward": ["cardiology", "oncology", "surgery"], "cost": (0, 5000)}
    with tacit.open(folder / "visits.csv", unit="patient_id", epsilon="4", columns=columns) as curator:
        answer = curator.sql(
            "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY ward", epsilon="0.5"
        )
        found["rows"] = len(str(answer).splitlines()), [row[0] for row in answer.finished.values]
        found["names"] = answer.interval_rows()[0]
        for name in ("to_arrow", "intervals"):
            try:
                getattr(answer, name)()
            except ImportError as missing:
                found[name] = str(missing)
    try:
        tacit.open({"a": [1]}, unit="a", epsilon=1)
    except ImportError as missing:
        found["frame"] = str(missing)
    os.chdir(folder)
    run = CliRunner()
    sql = "SELECT COUNT(*) AS n FROM visits"
    for name, command in {
        "init": ["init", "visits.csv", "--unit", "patient_id", "--output", "drafted.toml"],
        "doctor": ["doctor", "--no-look"],
        "explain": ["explain", sql, "--epsilon", "0.5"],
        "csv": ["query", sql, "--epsilon", "0.5", "--format", "csv"],
        "parquet": ["query", "SELECT COUNT(*) AS m FROM visits", "--epsilon", "0.5", "--output", "a.parquet"],
        "verify": ["ledger", "verify"],
    }.items():
        done = run.invoke(command_line(), command)
        found[name] = (done.exit_code, done.output)
    return found


def main(folder: Path, sample: Sequence[str]) -> None:
    """Measure a sample of the corpus from files of each kind, and take the first steps."""
    sys.meta_path.insert(0, NoArrow())
    from query.corpus.clinic import CATALOG
    from support.file_measurements import measure_files

    measured = measure_files(CATALOG, folder / "files", sample)
    print(json.dumps({"measured": measured, "steps": first_steps(folder), "arrow": "pyarrow" in sys.modules}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.stdin.read()))
