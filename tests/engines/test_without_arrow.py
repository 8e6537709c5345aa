"""The core without Arrow: the same integers from every kind of file, the first steps of the README, and its words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from query.corpus.accepted import ACCEPTED
from query.corpus.by_value import BY_VALUE
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE
from support.engine_comparison import corpus_frames
from support.file_measurements import measure_files
from tacit.core.errors import InputError
from tacit.engines import files as stored_files
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.project import source as fingerprints
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import TEXT

TESTS = Path(__file__).parents[1]
INSTALL = "pip install 'tacit-dp[arrow]'"

PROJECT = """
[populations.patients]
epsilon = "4"
[tables.visits]
source = "visits.csv"
population = "patients"
unit = "patient_id"
[tables.visits.columns]
patient_id = { type = "integer" }
cost = { type = "integer", bounds = [0, 5000] }
"""


def write_corpus(folder: Path) -> None:
    """The tables of the corpus as Parquet, as CSV and in one DuckDB file."""
    folder.mkdir()
    with duckdb.connect(str(folder / "all.duckdb")) as connection:
        for name, frame in corpus_frames(DATABASE).items():
            pq.write_table(frame, folder / f"{name}.parquet")
            pa_csv.write_csv(frame, folder / f"{name}.csv")
            connection.register("frame", frame)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM frame')


def test_a_core_without_arrow(tmp_path: Path) -> None:
    write_corpus(tmp_path / "files")
    rows = [(i, ("cardiology", "oncology", "surgery")[i % 3], 10 * i) for i in range(60)]
    lines = ["patient_id,ward,cost", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "tacit.toml").write_text(PROJECT)
    sample = [*ACCEPTED[::97], *BY_VALUE[::29]]
    run = subprocess.run(
        [sys.executable, "-m", "support.without_arrow", str(tmp_path)],
        cwd=TESTS,
        input=json.dumps(sample),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert not found["arrow"]
    for kind, texts in measure_files(CATALOG, tmp_path / "files", sample).items():
        for sql, here, there in zip(sample, texts, found["measured"][kind], strict=True):
            assert here == there, (kind, sql)
    steps = found["steps"]
    assert steps["rows"][1] == ["cardiology", "oncology", "surgery"]
    assert steps["names"] == ["ward", "visits", "visits_low", "visits_high", "cost", "cost_low", "cost_high"]
    for name in ("to_arrow", "intervals", "frame"):
        assert INSTALL in steps[name], name
    for name in ("init", "doctor", "explain", "csv", "verify"):
        assert steps[name][0] == 0, steps[name]
    assert steps["csv"][1].splitlines()[0] == "n,n_low,n_high"
    assert steps["parquet"][0] != 0
    assert INSTALL in steps["parquet"][1]
    # It was said before anything was charged.
    assert "1 charge," in steps["verify"][1]


def test_files_have_one_digest_with_and_without_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path / "files")
    (tmp_path / "odd.csv").write_bytes(b'\xef\xbb\xbfa;b\r\n"x;""y""";007\r\n\r\n\xff;-1.50\r\nonly one\r\n')
    files = [*sorted((tmp_path / "files").glob("*.csv")), tmp_path / "odd.csv"]
    files += sorted((tmp_path / "files").glob("*.parquet"))

    def digests() -> list[str]:
        return [str(fingerprints.digest_of_file(str(file), file.suffix[1:], b"key")) for file in files]

    by_arrow = digests()
    monkeypatch.setattr(fingerprints, "has_arrow", lambda: False)
    assert digests() == by_arrow
    assert len(set(by_arrow)) > 3


def test_columns_are_those_that_arrow_reads(tmp_path: Path) -> None:
    write_corpus(tmp_path / "files")
    files = sorted((tmp_path / "files").glob("*.parquet"))
    assert [stored_files.read_types(file) for file in files] == [
        stored_files.arrow_types(pq.read_schema(file)) for file in files
    ]
    assert stored_files.first_rows(files[-1], ["ward"], 5) == pq.read_table(files[-1], columns=["ward"])[:5].to_pydict()
    assert len({stored_files.schema_text(file) for file in files}) == len(files)
    (tmp_path / "no.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match=r"no\.parquet is not a Parquet file"):
        stored_files.read_types(tmp_path / "no.parquet")


def test_values_that_duckdb_cannot_read_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = pa.array([b"ok", b"\xff\xfe"])
    texts = pa.Array.from_buffers(pa.string(), 2, stored.buffers())
    pq.write_table(pa.table({"id": ["a", "b"], "x": texts}), tmp_path / "t.parquet")
    table = Table("t", (Column("id", TEXT), Column("x", TEXT)), population="p", unit="id")
    catalog, source = Catalog((table,), (Population("p"),)), DataSource("parquet", str(tmp_path / "t.parquet"))
    DuckDBEngine(catalog, {"t": source}).close()
    monkeypatch.setattr("tacit.engines.duckdb.sources.has_arrow", lambda: False)
    with pytest.raises(InputError, match="tacit-dp\\[arrow\\]"):
        DuckDBEngine(catalog, {"t": source})
