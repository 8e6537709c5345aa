"""A machine put back to an older state, with its ledger and its anchor: clients that saw a newer entry refuse it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tacit
from support.served import STAFF, Served
from support.tiny_http import TinyServer, response
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.client.account_responses import KeyResponse
from tacit.client.http_client import RemoteError, TrustError
from tacit.curator.curator import Curator
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER

CATALOG = Catalog(
    (Table("visits", (Column("patient", INTEGER),), population="patients", unit="patient"),), (Population("patients"),)
)
COUNT = "SELECT COUNT(*) AS n FROM visits"


class Machine:
    """A server's disk: its ledger and its anchor. It can be saved, and put back whole."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self._parts = [(folder, folder.with_name("saved-ledger")), (state / "anchors", folder.with_name("saved-state"))]

    @contextmanager
    def running(self) -> Iterator[Curator]:
        engine = ToyEngine({"visits": [{"patient": i} for i in range(50)]})
        with toy_curator(CATALOG, engine, {"epsilon": "100"}, ledger=self.folder / "tacit.ledger") as curator:
            yield curator

    def save(self) -> None:
        for part, saved in self._parts:
            shutil.copytree(part, saved)

    def put_back(self) -> None:
        for part, saved in self._parts:
            shutil.rmtree(part)
            shutil.copytree(saved, part)


@pytest.fixture
def machine(tmp_path: Path, state: Path) -> Machine:
    (tmp_path / "machine").mkdir()
    return Machine(tmp_path / "machine", state)


def test_a_machine_that_was_put_back_is_refused_at_the_next_connection(machine: Machine) -> None:
    with machine.running() as curator, TinyServer(curator) as server, tacit.connect(server.url, "t") as remote:
        key = remote.public_key
        remote.sql(COUNT, epsilon="0.5")
    machine.save()
    with (
        machine.running() as curator,
        TinyServer(curator) as server,
        tacit.connect(server.url, "t", public_key=key) as r,
    ):
        r.sql(COUNT, epsilon="0.25")
    machine.put_back()
    # The server itself cannot notice: its anchor is as old as its ledger.
    with machine.running() as curator, TinyServer(curator) as server:
        for stated in (None, key):
            with pytest.raises(TrustError, match=r"does not hold entry \d+ .* put back"):
                tacit.connect(server.url, "t", public_key=stated)
        # Nor does it help that the ledger has grown past that place meanwhile.
        for i in range(1, 6):
            curator.sql(COUNT, epsilon=f"0.{i}1")
        with pytest.raises(TrustError, match="does not hold entry"):
            tacit.connect(server.url, "t", public_key=key)


def test_a_machine_that_is_put_back_under_a_connection_charges_nothing(machine: Machine) -> None:
    with machine.running() as curator:
        curator.sql(COUNT, epsilon="0.5")
    machine.save()
    with machine.running() as curator, TinyServer(curator) as server:
        remote = tacit.connect(server.url, "t")
        remote.sql(COUNT, epsilon="0.25")
    machine.put_back()
    with machine.running() as curator, TinyServer(curator) as server:
        before = curator.ledger.head
        remote._channel.url = server.url
        with pytest.raises(TrustError, match="does not hold entry"):
            remote.sql(COUNT, epsilon="0.125")
        assert curator.ledger.head == before, "nothing was charged"
    remote.close()


def test_what_is_remembered_grows_with_answers_and_never_shrinks(machine: Machine, state: Path) -> None:
    with machine.running() as curator, TinyServer(curator) as server:
        with tacit.connect(server.url, "t") as remote:
            first = remote.sql(COUNT, epsilon="0.5").receipt
            assert remote.sql(COUNT, epsilon="0.25").receipt.position > first.position
            newest = remote._witness.known
            assert remote.sql(COUNT, epsilon="0.5").receipt.position == first.position, "a repeat is an older entry"
            assert remote._witness.known == newest
        (kept,) = (state / "witnesses").iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        with tacit.connect(server.url, "t") as again:
            assert again._witness.known == curator.ledger.head
        # One request more at a connection, none more at a query.
        assert len(server.asked("/v1/key")) == 3
        assert [len(r.headers.get("tacit-seen", "")) > 64 for r in server.asked("/v1/query")] == [True] * 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda told: {**told, "head": {"position": 0, "hash": "0" * 64}}, "head.position"),
        (lambda told: {**told, "head": {"position": True, "hash": 3}}, "head.position"),
        (lambda told: {**told, "head": {"position": 2**63, "hash": "a" * 64}}, "head.position"),
        (lambda told: {**told, "head": {"position": 5, "hash": "../" * 21 + "x"}}, "head.hash"),
    ],
)
def test_a_server_that_talks_nonsense_about_its_head(
    machine: Machine, change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    with machine.running() as curator:
        fake = response(200, change(KeyResponse.of(curator.ledger).plain()))
        with TinyServer(curator, {"/v1/key": [lambda _: fake]}) as server, pytest.raises(RemoteError, match=words):
            tacit.connect(server.url, "t")


def test_a_folder_that_cannot_be_written_needs_a_stated_key(
    machine: Machine, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    (state / "witnesses").write_text("not a folder")
    with machine.running() as curator, TinyServer(curator) as server:
        with pytest.raises(TrustError, match="cannot be remembered"):
            tacit.connect(server.url, "t")
        with tacit.connect(server.url, "t", public_key=curator.public_key) as remote:
            remote.sql(COUNT, epsilon="0.5")
            assert remote._witness.known.seq > 1


def test_the_real_server_confirms_or_refuses_before_it_charges(served: Served) -> None:
    ledger = served.service.curator.ledger
    head = ledger.head
    seen = f"{head.seq}:{head.hash}"
    got = served.get("/v1/key", headers={"Tacit-Seen": seen})
    assert got.headers["tacit-seen"] == seen
    assert got.json()["head"] == {"position": head.seq, "hash": head.hash}
    assert "tacit-seen" not in served.get("/v1/key").headers
    for wrong in (f"{head.seq}:{'0' * 64}", f"{head.seq + 1}:{head.hash}", f"{10**17}:{head.hash}"):
        for answer in (
            served.get("/v1/key", headers={"Tacit-Seen": wrong}),
            served.ask(STAFF, epsilon=0.5, headers={"Tacit-Seen": wrong}),
        ):
            assert (answer.status_code, answer.json()["error"]["parameter"]) == (409, "Tacit-Seen")
    for nonsense in ("", "x", "0:" + "0" * 64, f"{head.seq}:{head.hash.upper()}", f" {seen}x", f"-1:{head.hash}"):
        assert served.get("/v1/key", headers={"Tacit-Seen": nonsense}).status_code == 400
    assert ledger.head == head, "nothing was charged"
