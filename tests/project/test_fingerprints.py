"""Recognition of sources: copies, links, moves, rewritten files, frames; and when its digest is computed anew."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from tacit.core.errors import InputError
from tacit.project import source as fingerprints
from tacit.project.source import Digests, Fingerprint, Source


def look(path: Path | str) -> Fingerprint:
    return Digests().of(Source.of(str(path)), "tables.t.source")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("id,ward\n" + "".join(f"{i},a\n" for i in range(2000)))
    return tmp_path / "visits.csv"


def test_a_copy_a_link_and_a_new_name_are_recognised(file: Path) -> None:
    known = set(look(file).marks)
    shutil.copy(file, file.with_name("Copy.CSV"))
    file.with_name("link.csv").symlink_to(file)
    os.link(file, file.with_name("hard.csv"))
    for name in ("Copy.CSV", "link.csv", "hard.csv", "../" + file.parent.name + "/visits.csv"):
        again = look(file.parent / name)
        assert known & set(again.marks), name
        assert again.version == look(file).version
    assert set(look(file.with_name("link.csv")).marks) == known
    file.rename(file.with_name("renamed.csv"))
    assert len(known & set(look(file.with_name("renamed.csv")).marks)) == 2


def test_a_changed_file_is_recognised_as_another_version_of_itself(file: Path) -> None:
    before = look(file)
    with file.open("a") as stream:
        stream.write("7,b\n")
    after = look(file)
    assert after.version != before.version
    assert len(set(before.marks) & set(after.marks)) == 2
    file.rename(file.with_name("moved.csv"))
    # Moved and appended to: neither content nor path is known, but the file itself is.
    with file.with_name("moved.csv").open("a") as stream:
        stream.write("8,b\n")
    moved = look(file.with_name("moved.csv"))
    assert len(set(after.marks) & set(moved.marks)) == 1
    file.write_text("id,ward\n")
    rewritten = look(file)
    assert set(before.marks) & set(rewritten.marks) == {f"path {file}"}
    assert not set(moved.marks) & set(rewritten.marks)


def test_patterns_have_the_marks_of_all_their_files(file: Path) -> None:
    shutil.copy(file, file.with_name("visits2.csv"))
    with file.with_name("visits2.csv").open("a") as stream:
        stream.write("9,c\n")
    both = look(file.parent / "visits*.csv")
    assert set(look(file).marks) | set(look(file.with_name("visits2.csv")).marks) == set(both.marks)
    assert both.version not in (look(file).version, look(file.with_name("visits2.csv")).version)
    with pytest.raises(InputError, match=r"tables\.t\.source"):
        look(file.parent / "gone*.csv")
    with pytest.raises(InputError, match=r"cannot read gone\.csv"):
        look(file.parent / "gone.csv")


def test_tables_of_one_duckdb_file_share_it_and_have_marks_of_their_own(tmp_path: Path) -> None:
    place = tmp_path / "clinic.duckdb"
    place.write_bytes(b"0" * 5000)
    visits, wards, again = (look(f"{place}#{name}") for name in ("visits", "wards", "VISITS"))
    assert visits == again
    assert len(set(visits.marks) & set(wards.marks)) == 3
    assert not set(visits.own) & set(wards.marks)
    before = visits.version
    (tmp_path / "clinic.duckdb.wal").write_bytes(b"1")
    assert look(f"{place}#visits").version != before


def test_frames_are_recognised_by_content() -> None:
    table = pa.table({"id": [1, 2, 3], "ward": ["a", "b", None]})
    digests = Digests()

    def of(frame: object) -> str:
        return digests.of(Source.of_frame(frame), "tables.t.source").version

    first = of(table)
    assert of(pa.table({"id": [1, 2, 3], "ward": ["a", "b", None]})) == first
    assert of(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == first
    assert of(pa.concat_tables([table, table]).slice(3)) == first
    assert of(pd.DataFrame({"id": [1, 2, 3], "ward": ["a", "b", None]})) == of(
        pd.DataFrame({"id": [1, 2, 3], "ward": ["a", "b", None]}, index=[7, 8, 9])
    )
    assert of(table.slice(1)) != first
    assert of(table.rename_columns(["id", "street"])) != first
    assert of(pa.table({"id": [1, 2, 4], "ward": ["a", "b", None]})) != first


def test_a_digest_is_computed_once_per_state(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = [0]
    digest = fingerprints._digest

    def counted(place: str) -> tuple[str, str]:
        count[0] += 1
        return digest(place)

    monkeypatch.setattr(fingerprints, "_digest", counted)
    kept, source = tmp_path / "kept.digests", Source.of(str(file))
    digests = Digests(kept)
    first = digests.of(source, "t")
    assert (digests.of(source, "t"), count[0]) == (first, 1)
    assert (Digests(kept).of(source, "t"), count[0]) == (first, 1)
    # The same size and the same time, but another state of the inode: the change is found.
    state = file.stat()
    file.write_text(file.read_text().replace("7,a", "7,b"))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert digests.of(source, "t").version != first.version
    assert count[0] == 2
    for bad in ("", "[]", '{"a": 1}', "{"):
        kept.write_text(bad)
        assert Digests(kept).of(source, "t").version != first.version
    json.loads(kept.read_text())


def test_a_file_that_changes_under_the_eyes_is_not_believed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = fingerprints._digest

    def meanwhile(place: str) -> tuple[str, str]:
        found = digest(place)
        with file.open("a") as stream:
            stream.write("1,x\n")
        return found

    monkeypatch.setattr(fingerprints, "_digest", meanwhile)
    with pytest.raises(InputError, match="changes while it is read"):
        look(file)
