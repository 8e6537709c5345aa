"""Project files for Spark and DuckDB."""

from __future__ import annotations

from pathlib import Path

PROJECT = """
[project]
engine = "{engine}"
ledger = "{ledger}"

[populations.{people}]
epsilon = "4"

[tables.visits]
source = "{source}"
population = "{people}"
unit = "patient"
max_groups = 2
max_rows = 3

[tables.visits.columns]
patient = {{ type = "integer" }}
ward = {{ type = "text", categories = ["a", "b"] }}
"""


def project(folder: Path, name: str, **words: str) -> Path:
    usual = {
        "engine": "sc://localhost:15002",
        "ledger": "tacit.ledger",
        "people": "patients",
        "source": "visits.parquet",
    }
    place = folder / name
    place.write_text(PROJECT.format(**usual | words))
    return place
