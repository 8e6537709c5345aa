"""Two protected tables and a public one in one query, described by a project file."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tacit

PROJECT = """
[populations.patients]
epsilon = "3"

[tables.patients]
source = "patients.parquet"
population = "patients"
unit = "id"

[tables.patients.columns]
id  = { unique = true }
age = { bounds = [0, 110] }

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient"
max_groups = 2
max_rows = 3

[tables.visits.columns]
ward = { categories = ["A", "B", "C"] }

[tables.wards]
source = "wards.parquet"
public = true
"""


def main() -> None:
    """Average age of the visits of each building."""
    folder = Path(tempfile.mkdtemp())
    visits = {"patient": [i % 1000 for i in range(3000)], "ward": ["ABC"[i % 3] for i in range(3000)]}
    patients = {"id": list(range(1000)), "age": [i % 90 for i in range(1000)]}
    wards = {"ward": ["A", "B", "C"], "building": ["north", "north", "south"]}
    for name, rows in (("patients", patients), ("visits", visits), ("wards", wards)):
        pq.write_table(pa.table(rows), folder / f"{name}.parquet")
    (folder / "tacit.toml").write_text(PROJECT)
    query = """
        SELECT w.building, COUNT(*) AS visits, AVG(p.age) AS age
        FROM visits v
        JOIN patients p ON p.id = v.patient      -- rows of one person: joined on the unit
        JOIN wards w ON w.ward = v.ward          -- public: joined on anything
        GROUP BY w.building
    """
    with tacit.open(folder / "tacit.toml") as curator:
        print(curator.sql(query, epsilon="1"))
        try:
            curator.sql("SELECT COUNT(*) FROM visits v JOIN visits u ON u.ward = v.ward", epsilon="1")
        except tacit.QueryError as refused:
            print("refused, and nothing charged:", refused)


if __name__ == "__main__":
    main()
