"""Profiles over HTTP and in the console: a job of the owner, one charge, numbers that are free to read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from support.remote_client import remote_of
from support.served import Served, serve
from support.visiting import Visitor

ASKED = {"kind": "profile", "source": "visits", "epsilon": 8, "delta": 1e-7}


@pytest.fixture(scope="module")
def hospital() -> Iterator[Served]:
    """One hospital with a profile in it."""
    served = serve()
    served.job("/v1/releases", ASKED)
    yield served
    served.close()


def test_an_owner_is_told_what_a_table_holds_and_an_analyst_reads_it(
    hospital: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.new_event_loop()
    before = hospital.spent()
    refused, _ = hospital.job("/v1/releases", ASKED, "alice")
    assert refused.status_code == 403
    with remote_of(hospital, "olga", monkeypatch, loop) as remote:
        found = remote.profile("visits", epsilon="8", delta="1e-7")
        assert [each.column for each in found.about.columns] == ["ward", "cost", "units", "street", "day", "nurse"]
        assert found.table().num_rows == 6
        assert "[tables.visits.columns]" in found.file("tacit.toml").decode()
    with remote_of(hospital, "alice", monkeypatch, loop) as remote:
        (listed,) = remote.releases("profile")
        assert remote.released(listed.position).about.rows == found.about.rows
    assert hospital.spent() == before
    loop.close()


def test_the_page_of_a_profile_has_a_picture_of_each_column(hospital: Served) -> None:
    owner = Visitor(hospital)
    try:
        owner.sign_in("olga")
        quoted = owner.post("/console/releases", kind="profile", source="visits", epsilon="1", suppose="90", do="quote")
        assert "not worth it at 90" in quoted.text
        wrong = owner.post("/console/releases", kind="profile", source="visits", epsilon="1", suppose="x", do="quote")
        assert wrong.status_code == 400
        (listed,) = hospital.get("/v1/releases?kind=profile").json()["releases"]
        page = owner.get(f"/console/releases/{listed['position']}")
        assert page.status_code == 200
        assert "Profile of visits" in page.text
        assert "Bounds, middle half and mean of cost" in page.text
        assert "<svg" in page.text
        assert "built-in" not in page.text
        assert 'cost    = { type = "decimal", step = "0.01", bounds = [0, 100] }' in page.text.replace("&#34;", '"')
        draft = owner.get(f"/console/releases/{listed['position']}/tacit.toml")
        assert draft.headers["content-type"].startswith("application/toml")
        home = owner.get(f"/console/releases/{listed['position']}/notebook.ipynb")
        assert "profile.csv" in home.text
        assert "notebook.ipynb" in page.text
    finally:
        owner.close()
