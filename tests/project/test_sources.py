"""One file, one account: names, copies, links and aliases of a source change nothing, other populations are refused."""

from __future__ import annotations

import hashlib
import os
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.core.errors import EngineError, InputError
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator

TABLE = pa.table({"id": list(range(600)), "ward": ["a", "b", "c"] * 200})
OTHER = pa.table({"id": list(range(600)), "ward": ["b", "c", "a"] * 200})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "visits.parquet")
    pq.write_table(OTHER, tmp_path / "staff.parquet")
    return tmp_path


def opened(folder: Path, source: Any = "visits.parquet", population: str = "patients", **more: Any) -> Curator:
    place = folder / source if isinstance(source, str) else source
    known = {"id": "integer", "ward": {"type": "text", "categories": ["a", "b", "c"]}}
    return open_curator(
        str(place) if isinstance(source, str) else place,
        unit="id", epsilon="4", max_groups=1, max_rows=1, population=population, ledger=folder / "a.ledger",
        **{"table": "t", "columns": known, **more},
    )  # fmt: skip


def count(curator: Curator, epsilon: str = "0.5") -> Any:
    (table,) = curator.tables()
    return curator.sql(f"SELECT ward, COUNT(*) AS n FROM {table.name} GROUP BY ward", epsilon=epsilon)


def spent(curator: Curator) -> Fraction:
    return curator.budget().spent[0].amount


def under_other_names(folder: Path) -> list[str]:
    shutil.copy(folder / "visits.parquet", folder / "copy.parquet")
    (folder / "link.parquet").symlink_to(folder / "visits.parquet")
    os.link(folder / "visits.parquet", folder / "hard.parquet")
    (folder / "deep").mkdir()
    (folder / "alias").symlink_to(folder)
    return [
        "copy.parquet",
        "link.parquet",
        "hard.parquet",
        "deep/../visits.parquet",
        "alias/visits.parquet",
        "vis*.parquet",
    ]


def test_the_same_file_under_another_name_is_the_same_account(folder: Path) -> None:
    with opened(folder) as curator:
        first = count(curator)
    for name in under_other_names(folder):
        with opened(folder, name) as curator:
            assert spent(curator) == Fraction(1, 2)
            # Not only the account: the same content is the same version, so the query is a repeat.
            again = count(curator)
            assert (again.finished.values, again.charge.amounts) == (first.finished.values, ())
    (folder / "visits.parquet").rename(folder / "renamed.parquet")
    with opened(folder, "renamed.parquet") as curator:
        assert count(curator).charge.amounts == ()
        assert spent(curator) == Fraction(1, 2)


def test_the_same_file_is_refused_under_another_population(folder: Path) -> None:
    opened(folder).close()
    for name in (*under_other_names(folder), "visits.parquet"):
        with pytest.raises(InputError, match=r"tables\.t\.population: .*'patients'"):
            opened(folder, name, "everyone")
    opened(folder, "staff.parquet", "everyone").close()
    with pytest.raises(InputError, match="'everyone'"):
        opened(folder, "staff.parquet", "patients")
    # Names that differ in case alone are one population.
    with opened(folder, population="PATIENTS") as curator:
        assert curator.ledger.accounts() == ("everyone", "patients")


def test_a_changed_file_is_a_new_version_on_the_same_account(folder: Path) -> None:
    with opened(folder) as curator:
        first = count(curator)
        pq.write_table(OTHER.slice(0, 300), folder / "visits.parquet")
        second = count(curator)
        assert second.charge.amounts
        assert spent(curator) == 1
        pq.write_table(TABLE, folder / "visits.parquet")
        assert count(curator).finished.values == first.finished.values
    pq.write_table(OTHER.slice(0, 300), folder / "visits.parquet")
    with opened(folder) as curator:
        assert count(curator).finished.values == second.finished.values
        assert spent(curator) == 1
    with pytest.raises(InputError, match="'patients'"):
        opened(folder, population="everyone")


def test_a_file_that_becomes_another_populations_is_not_read(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(folder, "staff.parquet", "everyone").close()
    with opened(folder) as curator:
        count(curator)
        shutil.copy(folder / "staff.parquet", folder / "visits.parquet")
        with pytest.raises(EngineError) as caught:
            count(curator, "0.25")
        assert "everyone" not in str(caught.value)
        assert "everyone" in caplog.text
        (folder / "visits.parquet").unlink()
        with pytest.raises(EngineError):
            count(curator, "0.25")
        assert spent(curator) == Fraction(1, 2)


def test_other_table_names_and_frames_of_equal_content(folder: Path) -> None:
    with opened(folder, TABLE) as curator:
        first = count(curator)
    with opened(folder, pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7)])) as curator:
        assert count(curator).finished.values == first.finished.values
        assert spent(curator) == Fraction(1, 2)
    with pytest.raises(InputError, match="'patients'"):
        opened(folder, TABLE, "everyone", table="u")
    with opened(folder, TABLE, table="u") as curator:
        assert spent(curator) == Fraction(1, 2)


def project(folder: Path, name: str, tables: str) -> Path:
    place = folder / name
    place.write_text(f'[project]\nledger = "a.ledger"\n[populations.patients]\nepsilon = "4"\n{tables}')
    return place


def test_a_protected_source_cannot_be_called_public(folder: Path) -> None:
    opened(folder).close()
    shutil.copy(folder / "visits.parquet", folder / "copy.parquet")
    for name in ("copy.parquet", "visits.parquet"):
        with pytest.raises(InputError, match=r"tables\.v\.public: .*'patients'"):
            open_curator(project(folder, "p.toml", f'[tables.v]\nsource = "{name}"\npublic = true\n'))
    both = '[tables.a]\nsource = "visits.parquet"\npublic = true\n[tables.b]\nsource = "copy.parquet"\n'
    with pytest.raises(InputError, match=r"tables\.a\.public"):
        open_curator(project(folder, "q.toml", both + 'population = "patients"\nunit = "id"\n'))


def test_tables_of_a_duckdb_file(folder: Path) -> None:
    with duckdb.connect(folder / "clinic.duckdb") as connection:
        connection.execute("CREATE TABLE visits AS SELECT range AS id FROM range(100)")
        connection.execute("CREATE TABLE wards AS SELECT range AS id FROM range(3)")
    protected = '[tables.visits]\nsource = "clinic.duckdb#visits"\npopulation = "patients"\nunit = "id"\n'
    protected += '[tables.visits.columns]\nid = { type = "integer" }\n'
    public = '[tables.wards]\nsource = "clinic.duckdb#{}"\npublic = true\n'
    public += '[tables.wards.columns]\nid = {{ type = "integer" }}\n'
    with open_curator(project(folder, "p.toml", protected + public.format("wards"))) as curator:
        assert abs(curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="3").finished.values[0][0] - 100) < 20
    with pytest.raises(InputError, match=r"tables\.wards\.public"):
        open_curator(project(folder, "p.toml", protected + public.format("VISITS")))
    # A view of a protected table would have another name, so a file belongs to one population as a whole.
    with pytest.raises(InputError, match="'patients'"):
        opened(folder, "clinic.duckdb#wards", "everyone", columns={"id": "integer"})


def test_a_project_keeps_its_ledger_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = '[tables.t]\nsource = "visits.parquet"\npopulation = "patients"\nunit = "id"\n'
    table += '[tables.t.columns]\nward = { categories = ["a", "b", "c"] }\n'
    place = folder / "tacit.toml"
    place.write_text(f'[populations.patients]\nepsilon = "4"\n{table}')
    with open_curator(place, analyst="alice") as curator:
        first = count(curator)
        assert curator.analyst == "alice"
        assert first.charge.analyst == "alice"
    assert {path.name for path in folder.glob("tacit.ledger*")} >= {"tacit.ledger", "tacit.ledger.key"}
    monkeypatch.chdir("/")
    with open_curator(place) as curator:
        assert count(curator).finished.values == first.finished.values
        assert "kept in memory" not in str(curator.budget())
    place.write_text(f'[project]\nledger = ":memory:"\n[populations.patients]\nepsilon = "4"\n{table}')
    with open_curator(place) as curator:
        assert "kept in memory" in str(curator.budget())
    place.write_text(f'[populations.patients]\nepsilon = "5"\n{table}')
    with pytest.raises(InputError, match="stated is"):
        open_curator(place)
    with pytest.raises(InputError, match="ledger: belongs in the project file"):
        open_curator(place, ledger="b.ledger")


def test_the_ledger_tells_nothing_about_content(folder: Path) -> None:
    """A digest of few or guessable rows would betray them to readers of the ledger."""
    content = hashlib.sha256((folder / "visits.parquet").read_bytes()).hexdigest()
    with opened(folder) as curator:
        count(curator)
        everything = "".join(entry.body for entry in curator.ledger.journal.store.entries())
    assert '"source"' in everything
    assert content not in everything
    assert str(folder) not in everything
    assert (folder / "a.ledger.digests").stat().st_mode & 0o077 == 0


def test_bounds_that_a_query_finds_are_kept_with_its_answer(folder: Path) -> None:
    sql = "SELECT SUM(CLAMP(id, AUTO)) AS s FROM t"
    with opened(folder) as curator:
        first = curator.sql(sql, epsilon="2")
        assert first.plan.found
        assert curator.check_receipt(first.receipt).ok
        names = [mechanism["name"] for mechanism in first.receipt["answers"][0]["mechanisms"]]
        assert names[1:] == ["sum for sum(id)", "rows for people by cause of bias"]
    with opened(folder) as curator:
        again = curator.sql(sql + " LIMIT 1", epsilon="2")
        assert (again.finished.values, again.plan.found) == (first.finished.values, first.plan.found)
        assert again.finished.intervals() == first.finished.intervals()
        assert spent(curator) == 2


def test_public_rows_beside_released_ones_are_not_part_of_the_release(folder: Path) -> None:
    (folder / "wards.csv").write_text("ward,beds\na,10\nb,20\n")
    tables = '[tables.t]\nsource = "visits.parquet"\npopulation = "patients"\nunit = "id"\n'
    tables += '[tables.t.columns]\nward = { categories = ["a", "b", "c"] }\n'
    tables += '[tables.wards]\nsource = "wards.csv"\npublic = true\n'
    tables += '[tables.wards.columns]\nward = { type = "text" }\nbeds = { type = "integer" }\n'
    counts = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"
    joined = f"SELECT x.ward, n, beds FROM ({counts}) x JOIN wards w ON x.ward = w.ward ORDER BY 1"
    with open_curator(project(folder, "p.toml", tables)) as curator:
        first = dict(curator.sql(counts, epsilon="1").finished.values)
        assert curator.sql(joined, epsilon="1").finished.values == (("a", first["a"], 10), ("b", first["b"], 20))
        (folder / "wards.csv").write_text("ward,beds\na,11\n")
        assert curator.sql(joined, epsilon="1").finished.values == (("a", first["a"], 11),)
        assert spent(curator) == 1
