"""Copies of a protected source that are written otherwise: recognised by their rows, or said not to be."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.core.errors import InputError
from tacit.project import source as fingerprints
from tacit.project.source import RowDigest, digest_of_file, digest_of_frame

KEY = b"k" * 32
LINES = [
    "id,ward,cost,share,day,at,ok,note",
    *(
        f"{i},{'abc'[i % 3]},{i % 90}.{i % 10}0,{i / 8},2024-01-{i % 28 + 1:02d},2024-02-01 {i % 24:02d}:30:00,"
        f'{"true" if i % 2 else "false"},"note, {i % 5}"'
        for i in range(200)
    ),
]
SQL = "SELECT COUNT(*) AS n FROM data"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def shuffled(lines: list[str]) -> list[str]:
    rows = lines[1:]
    random.Random(7).shuffle(rows)
    return [lines[0], *rows]


def polars_parquet(source: Path, place: Path) -> None:
    pl.read_csv(source, try_parse_dates=True).sample(fraction=1.0, shuffle=True, seed=3).write_parquet(place)


def arrow_parquet(source: Path, place: Path) -> None:
    table = pa_csv.read_csv(source)
    pq.write_table(table.select(list(reversed(table.column_names))), place, row_group_size=17, compression="gzip")


def text_parquet(source: Path, place: Path) -> None:
    names = LINES[0].split(",")
    options = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
    pq.write_table(pa_csv.read_csv(source, convert_options=options), place)


COPIES: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "other line ends": ("c.csv", lambda s, p: p.write_bytes(s.read_bytes().replace(b"\n", b"\r\n"))),
    "no last line end": ("c.csv", lambda s, p: p.write_bytes(s.read_bytes().rstrip(b"\n"))),
    "another order": ("c.csv", lambda s, p: p.write_text("\n".join(shuffled(LINES)) + "\n")),
    "a byte order mark": ("c.csv", lambda s, p: p.write_bytes(b"\xef\xbb\xbf" + s.read_bytes())),
    "tabs": ("c.tsv", lambda s, p: pl.read_csv(s, infer_schema=False).write_csv(p, separator="\t")),
    "all quoted": ("c.csv", lambda s, p: pl.read_csv(s, infer_schema=False).write_csv(p, quote_style="always")),
    "columns in another order": (
        "c.csv",
        lambda s, p: pl.read_csv(s).select(sorted(pl.read_csv(s).columns, reverse=True)).write_csv(p),
    ),
    "upper-case names": ("c.csv", lambda s, p: p.write_text(s.read_text().replace("id,ward", "ID,Ward"))),
    "needless zeros": ("c.csv", lambda s, p: p.write_text(s.read_text().replace("\n1,", "\n001,"))),
    "Parquet by Polars": ("c.parquet", polars_parquet),
    "Parquet by Arrow": ("c.parquet", arrow_parquet),
    "Parquet of texts": ("c.parquet", text_parquet),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_is_written_otherwise_is_the_same_account(source: Path, name: str) -> None:
    ending, write = COPIES[name]
    ledger = source.parent / "tacit.ledger"
    words = {"unit": "id", "ledger": ledger, "table": "data"}
    columns = dict.fromkeys(LINES[0].split(","), "text") | {"id": "integer"}
    with tacit.open(source, epsilon="1", population="patients", columns=columns, **words) as curator:
        curator.sql(SQL, epsilon="1")
    copy = source.parent / ending
    write(source, copy)
    assert copy.read_bytes() != source.read_bytes()
    before = sorted((path.name, path.read_bytes()) for path in source.parent.glob("tacit.ledger*"))
    declared = columns if copy.suffix != ".parquet" else {}
    with pytest.raises(InputError, match="belongs to the population 'patients'"):
        tacit.open(copy, epsilon="1", population="others", columns=declared, **words)
    # Refused, it leaves nothing: no account, no mark, no digest.
    after = sorted((path.name, path.read_bytes()) for path in source.parent.glob("tacit.ledger*"))
    assert [name for name, _ in before] == [name for name, _ in after]
    assert dict(after)["tacit.ledger.digests"] == dict(before)["tacit.ledger.digests"]
    with tacit.open(source, epsilon="1", population="patients", columns=columns, **words) as curator:
        assert curator.ledger.accounts() == ("patients",)


def test_several_files_are_the_one_that_they_were(source: Path) -> None:
    whole = digest_of_file(str(source), "csv", KEY)
    parts = []
    for i in range(3):
        path = source.parent / f"part{i}.csv"
        path.write_text("\n".join([LINES[0], *LINES[1 + i :: 3]]) + "\n")
        parts.append(digest_of_file(str(path), "csv", KEY))
    assert fingerprints.combined(parts) == whole
    assert fingerprints.combined([*parts, None]) is None


def test_what_is_another_file_has_another_digest(source: Path) -> None:
    seen = {str(digest_of_file(str(source), "csv", KEY))}
    seen.add(str(digest_of_file(str(source), "csv", b"j" * 32)))
    place = source.parent / "o.csv"
    for lines in (
        LINES[:-1],
        [*LINES, LINES[-1]],
        [*LINES[:-2], LINES[-1], LINES[-1]],
        [LINES[0].replace("ward", "wing"), *LINES[1:]],
        [*LINES[:-1], LINES[-1].replace("2024-01", "2024-03")],
    ):
        place.write_text("\n".join(lines) + "\n")
        seen.add(str(digest_of_file(str(place), "csv", KEY)))
    assert len(seen) == 7


def test_of_what_cannot_be_read_or_is_too_large_there_is_none(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = source.parent
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    (folder / "zip.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (folder / "bad.parquet").write_bytes(b"PAR1")
    for name in ("empty.csv", "header.csv", "twice.csv", "bad.parquet", "none.csv"):
        assert digest_of_file(str(folder / name), name.rpartition(".")[2], KEY) is None, name
    digest_of_file(str(folder / "zip.csv"), "csv", KEY)
    assert digest_of_file(str(source), "duckdb", KEY) is None
    (folder / "bytes.csv").write_bytes(b"a,b\n\xff\xfe,2\n")
    assert digest_of_file(str(folder / "bytes.csv"), "csv", KEY) is not None
    monkeypatch.setattr(fingerprints, "LARGEST_CELLS", 1000)
    assert digest_of_file(str(source), "csv", KEY) is None
    monkeypatch.setattr(fingerprints, "LARGEST_BYTES", 10)
    assert digest_of_file(str(source), "csv", KEY) is None


def test_one_value_neither_takes_for_ever_nor_the_digest_of_all_others(source: Path) -> None:
    place = source.parent / "odd.csv"
    for value in ("1e999999999", "1e-999999999", "1e" + "9" * 5000, "9" * 40_000, "-" * 99, "1e+0000001"):
        place.write_text(f"a,b\n1,2\n3,{value}\n")
        assert digest_of_file(str(place), "csv", KEY) is not None, value[:20]


def test_frames_and_files_are_alike(source: Path) -> None:
    assert digest_of_frame(pa_csv.read_csv(source), KEY) == digest_of_file(str(source), "csv", KEY)


@given(
    st.lists(
        st.tuples(st.integers(-(10**6), 10**6), st.decimals(-1000, 1000, places=3), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_numbers_have_one_form(rows: list[tuple[int, object, bool]], chance: random.Random) -> None:
    table = pa.table(
        {
            "a": pa.array([a for a, _, _ in rows]),
            "b": pa.array([b for _, b, _ in rows], pa.decimal128(18, 3)),
            "c": pa.array([c for _, _, c in rows]),
        }
    )
    again = [*rows]
    chance.shuffle(again)
    texts = pa.table(
        {
            "C": pa.array([str(c).upper() for _, _, c in again]),
            "b": pa.array([f"{float(str(b)):+.6f}" for _, b, _ in again]),
            "a": pa.array([f"{a:e}" if chance.random() < 0.5 else f"{a:09d}" for a, _, _ in again]),
        }
    )
    found = digest_of_frame(table, KEY)
    if all(float(f"{a:e}") == a for a, _, _ in rows):
        assert digest_of_frame(texts, KEY) == found
    assert found is not None
    assert RowDigest.parse(str(found)) == found
