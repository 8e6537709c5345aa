"""Public tables are counted once for each state, and every way to ask plans with the numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tacit
from tacit.core.errors import QueryError
from tacit.curator.curator import Curator
from tacit.engines.protocol import Engine
from tacit.query.catalog import Catalog, PublicSize
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import Value

PROJECT = """
[populations.people]
epsilon = "100"
[tables.visits]
source = "visits.csv"
population = "people"
unit = "person"
max_rows = 20
unit_rows = 30
columns.person.type = "integer"
columns.ward = { type = "text", categories = ["a", "b", "c"] }
columns.cost = { type = "integer", bounds = [0, 100] }
[tables.wards]
source = "wards.csv"
public = true
columns.ward.type = "text"
columns.floor.type = "integer"
"""
JOINED = "SELECT COUNT(*) FROM visits JOIN wards USING (ward)"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = "".join(f"{i % 50},{'abc'[i % 3]},{i % 100}\n" for i in range(500))
    (tmp_path / "visits.csv").write_text("person,ward,cost\n" + rows)
    (tmp_path / "wards.csv").write_text("ward,floor\na,1\na,2\nb,2\n,4\n")
    (tmp_path / "project.toml").write_text(PROJECT)
    return tmp_path


def opened(place: Path) -> Curator:
    return tacit.open(place / "project.toml")


def replaced(place: Path, text: str) -> None:
    new = place / "new.csv"
    new.write_text(text)
    os.replace(new, place / "wards.csv")


def size_of(curator: Curator) -> PublicSize | None:
    table = curator.context.measured_catalog.table("wards")
    assert table is not None
    return table.size


def test_rows_and_repeats_are_counted_and_null_repeats_nothing(place: Path) -> None:
    with opened(place) as curator:
        size = size_of(curator)
        assert size is not None
        assert (size.rows, size.repeats) == (4, {"ward": 2, "floor": 2})
        assert curator.explain(JOINED, epsilon=1).plan.unit_work > 2 * 30


def test_a_table_is_counted_once_until_it_changes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(place) as curator:
        read: list[RelationNode] = []
        own = type(curator.context.engine).rows

        def rows(engine: Engine, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
            read.append(relation)
            return own(engine, relation, most=most)  # type: ignore[arg-type]

        monkeypatch.setattr(type(curator.context.engine), "rows", rows)
        before = [curator.explain(JOINED, epsilon=1).plan for _ in range(3)]
        # Numbers of all columns, then values of each type.
        assert len(read) == 3
        replaced(place, "ward,floor\na,1\nb,1\n,4\n")
        after = curator.explain(JOINED, epsilon=1).plan
        assert len(read) == 6
        size = size_of(curator)
        assert size is not None
        assert (size.rows, size.repeats) == (3, {"ward": 1, "floor": 2})
    assert after.unit_work < before[0].unit_work
    # Nothing is cut any more, so it is another query.
    assert after.query.digest != before[0].query.digest


def test_a_public_table_that_multiplies_too_much_is_refused_everywhere(place: Path) -> None:
    replaced(place, "ward,floor\n" + "a,1\n" * 40_000)
    with opened(place) as curator:
        for ask in (curator.explain, curator.sql):
            with pytest.raises(QueryError, match="visits with wards") as refused:
                ask(JOINED, epsilon=1)  # type: ignore[operator]
            assert refused.value.code == "query.work"
        assert curator.history() == ()
        assert curator.sql("SELECT COUNT(*) FROM visits", epsilon=1).charge is not None


def test_a_public_table_that_cannot_be_read_spoils_no_other_plan(place: Path) -> None:
    with opened(place) as curator:
        (place / "wards.csv").unlink()
        assert curator.explain("SELECT COUNT(*) FROM visits", epsilon=1).plan.unit_work > 0
        with pytest.raises(QueryError):
            curator.explain(JOINED, epsilon=1)


def test_a_part_of_a_catalog_keeps_the_digest_of_the_whole(place: Path) -> None:
    """A person's view of a catalog is a kind of its own, by whose digest repeats of others' queries are known."""

    class Part(Catalog):
        def __post_init__(self) -> None:
            super().__post_init__()
            object.__setattr__(self, "digest", "of the whole")

    with opened(place) as curator:
        part = Part(curator.context.catalog.tables, curator.context.catalog.populations)
        measured = part.measured({"wards": PublicSize(4, {})})
        assert measured.digest == "of the whole"
        assert measured.table("wards").size == PublicSize(4, {})  # type: ignore[union-attr]
