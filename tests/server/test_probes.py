"""What an analyst could send to a server: malformed, hostile or unknown requests look alike and cost nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import httpx2
import pytest

from support.serving import Server, make_clinic, make_tokens
from tacit.client.remote_curator import RemoteCurator, connect
from tacit.client.responses import query_body
from tacit.query.request import Request
from tacit.releases.receipt import verify_receipt

COUNT: Final = "SELECT COUNT(*) AS n FROM visits"
#: Epsilons that are invalid or ambiguous.
NUMBERS: Final = (
    "NaN", "Infinity", "-Infinity", "-1", "0", "-0.0", "1e400", "1e-400", '"one"', '""', "true", "[1]", "{}", "null",
    "0.1, \"epsilon\": 9", "1" + "0" * 400, "0." + "1" * 400, "01", "+1", ".5", "0x1",
)  # fmt: skip
BODIES: Final = (
    b"", b"{", b"[]", b"null", b'"sql"', b"\xff\xfe", b'\xef\xbb\xbf{"sql": "SELECT 1"}', b'{"sql": "\\ud800"}',
    b"[" * 20_000, b'{"sql": 1}', b'{"sql": "SELECT COUNT(*) FROM t", "seed": 1}',
    b'{"sql": "' + b"a" * 200_000 + b'"}',
)  # fmt: skip
HOSTILE: Final = (
    "SELECT * FROM visits",
    "SELECT ANY_VALUE(ward) FROM visits",
    "SELECT COUNT(*), (SELECT ANY_VALUE(ward) FROM visits) FROM visits",
    "SELECT COUNT(*) FROM visits; DROP TABLE visits",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT ward, random() FROM visits",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "COPY visits TO 'out.csv'",
    "SET threads = 1",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
)
TELLING_HEADERS: Final = ("server", "x-powered-by", "x-runtime", "x-process-time", "server-timing", "via")
TELLING_WORDS: Final = ("traceback", "duckdb", "psycopg", "pyspark", "site-packages", "/home/", "sqlite", ".parquet")


class Probe:
    """Sender of requests that no regular client sends."""

    def __init__(self, client: httpx2.Client, token: str) -> None:
        self._client = client
        self.token = token

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> httpx2.Response:
        words = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"} | headers
        return self._client.request(method, path, content=body, headers=words)

    def spent(self) -> Any:
        """The newest charge of the analyst."""
        return self.send("GET", "/v1/history?limit=1").json()["entries"]

    def refused(self, bodies: dict[str, bytes]) -> list[str]:
        """Send bodies as queries; return how they are not refused in the one form, or charged."""
        before = self.spent()
        found = [
            f"{name[:40]}: {problem}"
            for name, body in bodies.items()
            for path in ("/v1/query", "/v1/explain")
            for problem in problems(self.send("POST", path, body))
        ]
        return found + ([] if self.spent() == before else ["something was charged"])


def tells(reply: httpx2.Response) -> Iterator[str]:
    """Generate the implementation details that a response reveals."""
    yield from (f"there is a header {name}" for name in TELLING_HEADERS if name in reply.headers)
    yield from (f"the body speaks of {word}" for word in TELLING_WORDS if word in reply.text.lower())


def problems(reply: httpx2.Response) -> Iterator[str]:
    """Generate the faults of a response as a refusal: in its status, its form, or by details that it reveals."""
    if not 400 <= reply.status_code < 500:
        yield f"the status is {reply.status_code}"
    try:
        error = reply.json()["error"]
        assert isinstance(error["code"], str)
        assert isinstance(error["message"], str)
    except (ValueError, KeyError, TypeError, AssertionError):
        yield "the body is not an error of the one form"
    yield from tells(reply)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Probe, RemoteCurator]]:
    project = make_clinic(tmp_path_factory.mktemp("clinic"))
    patch = pytest.MonkeyPatch()
    patch.setenv("TACIT_STATE", str(project.parent / "state"))
    token = make_tokens(project, ["alice"])["alice"]
    patch.undo()
    # More requests than a person makes in a minute.
    settings = ("--workers", "1", "--response-step", "0", "--set", "asks_per_minute=100000")
    with (
        Server(project, *settings) as server,
        connect(server.address, token) as remote,
        httpx2.Client(base_url=server.address, timeout=120.0, trust_env=False) as client,
    ):
        yield Probe(client, token), remote


def test_malformed_and_hostile_queries_are_refused_and_cost_nothing(served: tuple[Probe, RemoteCurator]) -> None:
    sent = {f"epsilon {number}": f'{{"sql": "{COUNT}", "epsilon": {number}}}'.encode() for number in NUMBERS}
    sent |= {repr(body): body for body in BODIES}
    sent |= {sql: query_body(Request(sql=sql, epsilon="0.001")).encode() for sql in HOSTILE}
    assert served[0].refused(sent) == []


def test_what_is_unknown_and_what_is_of_others_looks_alike(served: tuple[Probe, RemoteCurator]) -> None:
    probe, remote = served
    known = probe.token
    made_up = [
        "", "Bearer", "Bearer x", f"Bearer {known[:-1]}", f"Bearer {known}x", f"Bearer {known.swapcase()}",
        f"Basic {known}", f"Bearer {known} {known}",
    ]  # fmt: skip
    paths = ("/v1/tables", "/v1/budget", "/v1/receipts/1")
    seen = [probe.send("GET", path, Authorization=token) for path in paths for token in made_up]
    assert {(reply.status_code, reply.content) for reply in seen} == {(401, seen[0].content)}
    own = {entry.number for entry in remote.history()}
    positions = [n for n in (*range(1, 40), 10**6, 10**15) if n not in own]
    receipts = [probe.send("GET", f"/v1/receipts/{n}") for n in positions]
    assert len({(reply.status_code, reply.content) for reply in receipts}) == 1
    jobs = [probe.send("GET", f"/v1/jobs/{n:032x}") for n in (1, 2**127)]
    assert [problem for reply in (*seen, *receipts, *jobs) for problem in problems(reply)] == []


def test_a_query_is_charged_once_and_its_receipt_holds(served: tuple[Probe, RemoteCurator]) -> None:
    probe, remote = served
    request, key = Request(sql=COUNT, epsilon="0.25"), {"Idempotency-Key": "probe"}
    body, other = query_body(request).encode(), query_body(replace(request, confidence="0.9")).encode()
    first, again = probe.send("POST", "/v1/query", body, **key), probe.send("POST", "/v1/query", body, **key)
    assert first.status_code == 200
    spent = probe.spent()
    assert again.content == first.content
    assert probe.send("POST", "/v1/query", other, **key).status_code == 409
    repeat = probe.send("POST", "/v1/query", body)
    assert repeat.json()["rows"] == first.json()["rows"]
    assert probe.spent() == spent
    assert [problem for reply in (first, again, repeat) for problem in tells(reply)] == []
    assert verify_receipt(json.dumps(first.json()["receipt"]), remote.public_key).ok


def test_the_probe_sees_what_a_server_lets_on() -> None:
    good = b'{"error": {"code": "input", "message": "no"}}'
    assert list(problems(httpx2.Response(400, content=good))) == []
    assert list(problems(httpx2.Response(200, content=good))) == ["the status is 200"]
    assert list(problems(httpx2.Response(400, content=good, headers={"server": "hare/1.0"}))) == [
        "there is a header server"
    ]
    assert list(problems(httpx2.Response(500, content=b"Traceback"))) == [
        "the status is 500", "the body is not an error of the one form", "the body speaks of traceback",
    ]  # fmt: skip
