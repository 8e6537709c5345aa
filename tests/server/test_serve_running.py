"""A real server: TLS, proxies, places that are refused, links, workers that die, and a stop that loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tacit
from support.command_line import run_command
from support.serving import COUNT, PATIENCE, Server, certificate, fetch, make_clinic, make_tokens, spent, until
from support.warm import run_warm
from tacit.client.http_client import RemoteError, SignInError
from tacit.core.errors import InputError
from tacit.server.serve.processes import bind, check_place, tls_context
from tacit.server.settings import Settings, is_loopback


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    project = make_clinic(tmp_path_factory.mktemp("clinic"))
    return project, make_tokens(project, ["alice", "bob"])


@pytest.fixture(scope="module")
def server(clinic: tuple[Path, dict[str, str]]) -> Iterator[Server]:
    with Server(clinic[0], "--workers", "2", "--response-step", "0", "--log", "-") as running:
        running.wait_for_workers(2)
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="module")
def token(clinic: tuple[Path, dict[str, str]]) -> str:
    return clinic[1]["alice"]


def test_a_colleague_asks_and_headers_say_nothing_about_the_server(server: Server, token: str) -> None:
    with tacit.connect(server.address, token) as remote:
        answer = remote.sql(COUNT, epsilon="1.5")
        assert len(answer) == 3
        assert [entry.number for entry in remote.history()] == [answer.charge.number]
    status, headers, body = fetch(f"{server.address}/v1/health")
    assert (status, json.loads(body)) == (200, {"status": "ok"})
    assert not {"server", "date", "x-powered-by", "access-control-allow-origin"} & set(headers)


def test_a_wrong_token_is_told_nothing(server: Server) -> None:
    with pytest.raises(SignInError):
        tacit.connect(server.address, "tacit_0000000000000000_" + "0" * 64).tables()


def test_a_worker_that_is_killed_is_replaced(server: Server, token: str) -> None:
    with tacit.connect(server.address, token) as remote:
        for _ in range(2):
            before = server.wait_for_workers(2)
            os.kill(before[0], signal.SIGKILL)
            gone = before[0]
            until(lambda pid=gone: pid not in server.workers() and len(server.workers()) == 2, "a new worker")
            assert len(remote.sql(COUNT, epsilon="1.5")) == 3
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line["status"] for line in lines if line["event"] == "worker ended"][:2] == [-9, -9]


def test_logs_name_people_and_charges_but_no_query_and_no_number(server: Server, token: str) -> None:
    sql = "SELECT SUM(cost) AS total_of_costs FROM visits WHERE ward = 'surgery'"
    for strange in (
        b"words of a stranger\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as caller:
            caller.sendall(strange)
            assert caller.recv(100).startswith(b"HTTP/1.1 400")
    with tacit.connect(server.address, token) as remote:
        answer = remote.sql(sql, epsilon="1.25")
        value = str(answer.finished.values[0][0])
    text = until(lambda: "1.25" in server.log.read_text() and server.log.read_text(), "a line about it")
    line = next(json.loads(line) for line in text.splitlines() if '"1.25"' in line)
    assert line["route"] == "/v1/query"
    assert line["analyst"] == "alice"
    assert (line["population"], line["charge"]) == ("patients", {"epsilon": "1.25"})
    assert line["position"] == answer.charge.number
    said = {"time", "event", "route", "status", "analyst", "token", "sql", "population", "charge", "position"}
    assert set(line) == said
    assert "total_of_costs" not in text
    assert value not in text.replace(line["time"], "")
    assert token not in text
    assert all(json.loads(each)["event"] for each in text.splitlines()), "strangers do not write into it"


def test_thousands_of_idle_connections_and_endless_bodies_stop_no_client(server: Server, token: str) -> None:
    idle = []
    for number in range(3000):
        caller = socket.socket()
        caller.bind((f"127.0.0.{2 + number % 3}", 0))
        caller.setblocking(False)
        caller.connect_ex(("127.0.0.1", server.port))
        idle.append(caller)
    try:
        for caller in idle[::7]:
            try:
                caller.send(b"GET /v1/tables HTTP/1.1\r\nhost: a\r\n")
            except OSError:
                continue
        with tacit.connect(server.address, token) as remote:
            for _ in range(5):
                assert len(remote.tables()) == 1
        assert _swallowed(server.port) < 50_000_000
        with tacit.connect(server.address, token) as remote:
            assert len(remote.tables()) == 1
    finally:
        for caller in idle:
            caller.close()
    assert len(server.workers()) == 2


def _swallowed(port: int) -> int:
    """Bytes of a body of a gigabyte that are taken before the server hangs up."""
    part, sent = b"x" * 65536, 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as caller:
        caller.sendall(b"POST /v1/query HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n")
        try:
            while sent < 10**9:
                sent += caller.send(part)
        except OSError:
            return sent
    return sent


def test_workers_do_not_outlive_their_supervisor(clinic: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    with Server(make_clinic(tmp_path / "own", patients=3), "--workers", "2") as running:
        workers = running.wait_for_workers(2)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
        until(lambda: not [pid for pid in workers if _is_alive(pid)], "the end of orphans")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


# Stopping and starting again.


def test_a_query_in_flight_is_answered_before_the_server_stops(tmp_path: Path) -> None:
    project = make_clinic(tmp_path / "own", patients=30)
    token = make_tokens(project, ["alice"])["alice"]
    with Server(project, "--workers", "1", "--response-step", "1.5") as running:
        body = json.dumps({"sql": COUNT, "epsilon": 1}).encode()
        found: list[Any] = []
        asking = threading.Thread(
            target=lambda: found.append(fetch(f"{running.address}/v1/query", token, body, Idempotency_Key="k1"))
        )
        asking.start()
        until(lambda: spent(project) == 1, "the charge")
        assert not found, "the answer waits for its step"
        assert running.stop() == 0
        asking.join()
        assert found[0][0] == 200
        assert json.loads(found[0][2])["charge"]["amounts"] == {"epsilon": "1"}
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", running.port))
    with Server(project, "--workers", "1", "--response-step", "0") as again:
        status, headers, body2 = fetch(f"{again.address}/v1/query", token, body, Idempotency_Key="k1")
        assert (status, headers["tacit-repeat"], body2) == (200, "true", found[0][2])
    assert spent(project) == 1


def test_a_job_outlives_the_server_that_took_it(tmp_path: Path) -> None:
    project = make_clinic(tmp_path / "own", patients=30)
    token = make_tokens(project, ["alice"])["alice"]
    body = json.dumps({"sql": COUNT, "epsilon": 1}).encode()
    with Server(project, "--workers", "1", "--response-step", "3", limits={"job_seconds": 1}) as running:
        status, headers, _ = fetch(f"{running.address}/v1/query", token, body, Prefer="respond-async")
        assert status == 202
        place = headers["location"]
        running.kill()
    with Server(project, "--workers", "2", "--response-step", "0", limits={"job_seconds": 1}) as again:

        def polled() -> dict[str, Any] | None:
            status, _, told = fetch(f"{again.address}{place}", token)
            assert status == 200
            content: dict[str, Any] = json.loads(told)
            return content if content["state"] in ("done", "failed") else None

        done = until(polled, "the job")
        assert done["state"] == "done"
        assert len(done["answer"]["rows"]) == 3
    assert spent(project) == 1


# Places and certificates.


def test_tls_is_checked_by_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_clinic(tmp_path / "own", patients=3)
    token = make_tokens(project, ["alice"])["alice"]
    with (
        certificate(tmp_path) as (cert, key),
        Server(project, "--workers", "1", "--tls-cert", str(cert), "--tls-key", str(key)) as running,
    ):
        assert running.address.startswith("https://127.0.0.1:")
        url = f"https://localhost:{running.port}"
        with tacit.connect(url, token, ca_file=cert) as remote:
            assert len(remote.tables()) == 1
        with pytest.raises(RemoteError, match=r"CERTIFICATE_VERIFY_FAILED.* as SSL_CERT_FILE"):
            tacit.connect(url, token)
        with pytest.raises(RemoteError, match="CERTIFICATE_VERIFY_FAILED") as elsewhere:
            tacit.connect(f"https://127.0.0.1:{running.port}", token, ca_file=cert)
        assert "SSL_CERT_FILE" not in str(elsewhere.value), "its authority is trusted; the name is another"
        with monkeypatch.context() as environment:
            environment.setenv("SSL_CERT_FILE", str(cert))
            with tacit.connect(url, token) as remote:
                assert len(remote.tables()) == 1
        with pytest.raises((RemoteError, OSError)):
            fetch(f"http://localhost:{running.port}/v1/health")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", running.port)) as plain, old.wrap_socket(plain) as wrapped:
            assert wrapped.version() == "TLSv1.2"
        assert running.stop() == 0


def test_behind_a_proxy_only_the_proxy_is_believed_about_addresses(tmp_path: Path) -> None:
    project = make_clinic(tmp_path / "own", patients=3)

    def failures(running: Server, address: str) -> list[int]:
        url = f"{running.address}/v1/tables"
        return [fetch(url, "tacit_wrong", X_Forwarded_For=address)[0] for _ in range(4)]

    few = {"failures_per_minute": 2.0}
    with Server(project, "--workers", "1", "--behind-proxy", limits=few) as running:
        assert failures(running, "192.0.2.1") == [401, 401, 429, 429]
        assert failures(running, "192.0.2.2") == [401, 401, 429, 429], "another address, another count"
    with Server(project, "--workers", "1", limits=few) as running:
        assert failures(running, "192.0.2.1") == [401, 401, 429, 429]
        assert failures(running, "192.0.2.2") == [429] * 4, "without a proxy no client is believed"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", ""])
def test_other_machines_are_served_only_encrypted(host: str) -> None:
    with pytest.raises(InputError, match="--behind-proxy"):
        check_place(Settings(host=host))
    check_place(Settings(host=host, behind_proxy=True))
    check_place(Settings(host=host, tls_cert="c", tls_key="k"))
    assert not is_loopback(host)


def test_this_machine_needs_no_tls() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_place(Settings(host=host))


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with certificate(tmp_path) as (cert, key):
        context = tls_context(Settings(tls_cert=str(cert), tls_key=str(key)))
        assert context is not None
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        for pair in ((str(cert), str(tmp_path / "none")), (str(key), str(key)), (str(cert), str(cert))):
            with pytest.raises(InputError, match="tls_cert"):
                tls_context(Settings(tls_cert=pair[0], tls_key=pair[1]))
    assert tls_context(Settings()) is None


def test_a_port_that_is_taken_is_not_shared() -> None:
    listeners = bind(Settings(port=0, workers=3))
    port = listeners[0].getsockname()[1]
    try:
        assert {each.getsockname()[1] for each in listeners} == {port}
        assert len({each.fileno() for each in listeners}) == 3
        with pytest.raises(InputError, match="is taken"):
            bind(Settings(port=port, workers=2))
    finally:
        for each in listeners:
            each.close()
    with pytest.raises(InputError, match="host"):
        bind(Settings(host="192.0.2.1", port=0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "--behind-proxy"),
        (["--tls-cert", "nowhere.pem"], "go together"),
        (["--set", "asks_per_minute=x"], "name=number"),
        (["--set", "wishes=3"], "there is no limit"),
        (["--set", "workers=3"], "there is no limit"),
        (["--workers", "0"], "workers"),
        (["--project", "nowhere.toml"], "there is no nowhere.toml"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: list[str], words: str, clinic: tuple[Path, dict[str, str]]
) -> None:
    done = run_command("serve", "--project", str(clinic[0]), "--port", "0", *options)
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("text", "instead", "words"),
    [
        ("visits.parquet", "missing.parquet", "visits.source"),
        ('"tacit.ledger"', '":memory:"', "needs one that lasts"),
    ],
)
def test_what_stops_the_first_worker_is_said_by_the_command(
    text: str, instead: str, words: str, tmp_path: Path
) -> None:
    project = make_clinic(tmp_path, patients=3)
    project.write_text(project.read_text().replace(text, instead))
    command = [sys.executable, "-m", "tacit.cli", "serve", "--port", "0", "--workers", "2"]
    done = run_warm(command, text=True, cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


# Links.


def test_the_first_start_prints_a_link_that_works_once(tmp_path: Path) -> None:
    project = make_clinic(tmp_path / "own", patients=3)
    house = 'issuer = "https://id.example.org"\nclient_id = "tacit"\n[server.oidc.house.groups.a]\nrole = "owner"\n'
    project.write_text(f"{project.read_text()}\n[server.oidc.house]\n{house}")
    with Server(project, "--workers", "1") as running:
        assert b"Sign in with house" in fetch(f"{running.address}/console/sign-in")[2]
        link = running.told["set_up"]
        assert link.startswith(f"{running.address}/console/")
        assert fetch(link)[0] == 200
        assert fetch(link[:-1] + ("0" if link[-1] != "0" else "1"))[0] in (400, 403, 404, 410)
    with Server(project, "--workers", "1") as again:
        newer = again.told["set_up"]
        assert newer.rpartition("/")[2] != link.rpartition("/")[2]
        assert fetch(newer)[0] == 200
        assert fetch(f"{again.address}/console/link/{link.rpartition('/')[2]}")[0] != 200
        _set_up(again, newer.rpartition("/")[2])
    with Server(project, "--workers", "1") as last:
        assert "set_up" not in last.told, "there is an owner"


def _set_up(running: Server, secret: str) -> None:
    from tacit.curator.opening import open_curator
    from tacit.server.identity import People

    place = str(running.project.parent / "tacit.ledger")
    with open_curator(running.project) as curator, People.open(curator.ledger, place) as people:
        assert people.set_up(secret, "olga") is not None


@pytest.mark.deep
def test_the_demo_is_one_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tacit.cli", "serve", "--demo", "--port", "0", "--workers", "1"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with out.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=env)
    try:
        text = until(lambda: "Ctrl-C" in out.read_text() and out.read_text(), "the greeting")
        links = [word for word in text.split() if "/console/link/" in word]
        assert len(links) == 2
        assert all(fetch(link)[0] == 200 for link in links)
        address, token = text.partition('connect("')[2].split('"')[0], text.partition('token="')[2].split('"')[0]
        with tacit.connect(address, token) as remote:
            sql = text.partition('remote.sql("')[2].split('"')[0]
            assert len(remote.sql(sql, epsilon="0.5")) == 6
            assert remote.budget().lines[0].cap == 3
            months = "SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS visits FROM visits GROUP BY 1"
            assert "private" in str(remote.explain(months, epsilon="0.2")), "the demo has a delta for such keys"
        assert list(tmp_path.glob("tacit-demo-*"))
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not list(tmp_path.glob("tacit-demo-*")), "nothing is left behind"
