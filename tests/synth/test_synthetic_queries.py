"""Queries about synthetic tables through the curator: free, the same in every process, with a banner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.bits import SeededBits
from synth.small_tables import open_people, people
from tacit.core.errors import QueryError
from tacit.curator.curator import Curator
from tacit.releases import synthetic_query as synthetic_queries

COUNT = "SELECT ward, COUNT(*) AS n FROM people_synthetic GROUP BY ward ORDER BY ward"


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    """A curator with one synthetic table."""
    bits = SeededBits(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.noise.entropy.current", lambda: bits)
        opened = open_people(people(600))
        opened.synthesize("people", ["sex", "ward"], rho="2", method="mst", rows=600)
        yield opened


def test_it_is_answered_for_nothing_with_a_banner(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(curator.context.engine), "measure", lambda *_: pytest.fail("data was read"))
    spent = curator.budget().spent
    answer = curator.sql(COUNT)
    assert [row[0] for row in answer.finished.values] == ["a", "b", "c"]
    assert sum(row[1] for row in answer.finished.values) == curator.released("people_synthetic").rows
    assert (answer.is_public, answer.receipt) == (True, None)
    assert "only where a marginal was measured" in answer.note
    assert "charged nothing" in str(answer)
    quote = curator.explain(COUNT)
    assert quote.charge == "nothing: synthetic tables alone, which were paid for before"
    assert "nothing is promised" in str(quote)
    assert curator.budget().spent == spent
    assert len(curator.history()) == 1


def test_another_process_answers_the_same(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    first = curator.sql(COUNT).finished.values
    monkeypatch.setattr(synthetic_queries, "_READERS", synthetic_queries._Readers())
    assert curator.sql(COUNT).finished.values == first


def test_it_is_asked_about_alone(curator: Curator) -> None:
    for sql in (
        "SELECT COUNT(*) AS n FROM people_synthetic s JOIN people p ON p.sex = s.sex",
        "SELECT COUNT(*) AS n FROM people, people_synthetic",
    ):
        with pytest.raises(QueryError, match="asked about alone"):
            curator.sql(sql, rho="1")
    # A constant is no table.
    told = curator.sql("SELECT COUNT(*) AS n FROM people WHERE ward <> 'people_synthetic'", rho="0.001")
    assert not told.is_public
    with pytest.raises(QueryError, match="There is no table"):
        curator.sql("SELECT COUNT(*) AS n FROM other_synthetic", rho="1")
    with pytest.raises(QueryError, match="street"):
        curator.sql("SELECT street FROM people_synthetic")
