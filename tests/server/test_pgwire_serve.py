"""``tacit serve --postgres``: several workers, places that are refused, and an end in order."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from support.serving import COUNT, Server, make_clinic, make_tokens, spent
from tacit.core.errors import InputError
from tacit.server.pgwire.server import CancelKeys
from tacit.server.rate_limit import Buckets
from tacit.server.serve.processes import check_place
from tacit.server.settings import Settings


def test_colleagues_connect_to_any_worker_and_a_stop_is_told(tmp_path: Path) -> None:
    project = make_clinic(tmp_path / "clinic", patients=30)
    token = make_tokens(project, ["alice"])["alice"]
    with Server(project, "--postgres", "0", "--workers", "2", "--response-step", "0") as server:
        server.wait_for_workers(2)
        host, _, port = str(server.told["postgres"]).partition(":")
        words = {"host": host, "port": port, "user": "alice", "password": token, "dbname": "clinic"}
        found = []
        for _ in range(4):
            with psycopg.connect(**words, options="-c tacit.epsilon=1.5") as connection:
                found.append(connection.execute(COUNT).fetchall())
        assert len(found[0]) == 3
        assert all(each == found[0] for each in found)
        with psycopg.connect(**words, autocommit=True) as idle:
            assert idle.execute("SELECT count(*) FROM tacit.history").fetchone() == (1,)
            assert server.stop() == 0
            with pytest.raises(psycopg.errors.AdminShutdown):
                idle.execute("SELECT 1")
    assert spent(project) == Fraction(3, 2)


def test_any_worker_can_check_a_key_and_no_worker_takes_a_wrong_one() -> None:
    buckets = Buckets(shared=True)
    one, other = CancelKeys(buckets), CancelKeys(buckets)
    key = one.new()
    assert len(key) == 8
    assert not other.cancel(key[:-1] + bytes([key[-1] ^ 1]))
    assert not one.is_cancelled(key)
    assert other.cancel(key)
    assert one.is_cancelled(key)
    one.clear(key)
    assert not other.is_cancelled(key)
    assert not CancelKeys(Buckets()).cancel(one.new())
    buckets.close()


def test_passwords_and_answers_never_cross_a_network_in_the_clear() -> None:
    check_place(Settings(postgres=5433))
    with pytest.raises(InputError, match="--tls-cert"):
        check_place(Settings(postgres=5433, host="0.0.0.0", behind_proxy=True))
