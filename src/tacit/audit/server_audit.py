"""Audit of a running server with an analyst's access only: an address and a token.

It checks whether malformed bytes, malformed numbers and hostile queries are refused, in one form of response and at no
cost; whether unknown and forbidden objects look alike; whether a response reveals details of the implementation. With a
query and its cost, also whether an answer is charged once, repeats are free and equal, and receipts hold. And with a
second server that has one person less, :func:`tacit.audit.lower_bound` of the answers of both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.audit.lower_bound import lower_bound
from tacit.audit.report import AuditCheck, Verdict, judged
from tacit.client.remote_curator import RemoteCurator, connect
from tacit.client.responses import query_body
from tacit.core.errors import InputError
from tacit.core.guarantees import PureDP
from tacit.core.numbers import Number, exact_positive
from tacit.noise import entropy
from tacit.query.request import Request
from tacit.releases.receipt import verify_receipt

if TYPE_CHECKING:
    import httpx2

_CONFIDENCE: Final = 0.9999
_DELTA: Final = Fraction(1, 10**6)
#: The most attempts at a request while the server reports too many requests, and the longest wait between attempts.
_PATIENCE: Final = 8
_LONGEST: Final = 61.0
#: Epsilons that are invalid or ambiguous.
_NUMBERS: Final = (
    "NaN", "Infinity", "-Infinity", "-1", "0", "-0.0", "1e400", "1e-400", '"one"', '""', "true", "[1]", "{}", "null",
    "0.1, \"epsilon\": 9", "1" + "0" * 400, "0." + "1" * 400, "01", "+1", ".5", "0x1",
)  # fmt: skip
_BODIES: Final = (
    b"", b"{", b"[]", b"null", b'"sql"', b"\xff\xfe", b'\xef\xbb\xbf{"sql": "SELECT 1"}', b'{"sql": "\\ud800"}',
    b"[" * 20_000, b'{"sql": 1}', b'{"sql": "SELECT COUNT(*) FROM t", "seed": 1}',
    b'{"sql": "' + b"a" * 200_000 + b'"}',
)  # fmt: skip
_HOSTILE: Final = (
    "SELECT * FROM {table}",
    "SELECT ANY_VALUE({column}) FROM {table}",
    "SELECT COUNT(*), (SELECT ANY_VALUE({column}) FROM {table}) FROM {table}",
    "SELECT COUNT(*) FROM {table}; DROP TABLE {table}",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT {column}, random() FROM {table}",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM {table}",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "COPY {table} TO 'out.csv'",
    "SET threads = 1",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
)
_TELLING_HEADERS: Final = ("server", "x-powered-by", "x-runtime", "x-process-time", "server-timing", "via")
_TELLING_WORDS: Final = ("traceback", "duckdb", "psycopg", "pyspark", "site-packages", "/home/", "sqlite", ".parquet")


@dataclass(frozen=True)
class AuditQuery:
    """A query that the audit may be charged for."""

    sql: str
    epsilon: Number


@contextmanager
def server_checks(
    url: str,
    token: str,
    query: AuditQuery | None = None,
    *,
    second: tuple[str, str] | None = None,
    public_key: str | None = None,
    ca_file: str | Path | None = None,
    samples: int = 400,
) -> Iterator[list[AuditCheck]]:
    """Check a server while connected to it.

    Args:
        url: address of the server.
        token: token of an analyst.
        query: the query to be charged for; without it nothing is charged.
        second: address and token of a server whose data lacks one person; then the query is charged ``samples`` times
            on each.
        public_key: the key that signs receipts, if it is known.
        ca_file: certificates to trust instead of the system's.
        samples: see ``second``.
    """
    with ExitStack() as stack:
        remote = stack.enter_context(connect(url, token, public_key=public_key, ca_file=ca_file))
        probe = _Probe(remote, token, stack.enter_context(_client(ca_file, remote.url)))
        checks = [
            AuditCheck("strange numbers are refused and cost nothing", "probe", probe.numbers),
            AuditCheck("strange bodies are refused and cost nothing", "probe", probe.bodies),
            AuditCheck("hostile queries are refused and cost nothing", "probe", probe.hostile),
            AuditCheck("tokens that are not known all look alike", "probe", probe.tokens),
            AuditCheck("unknown names and names of other users look alike", "probe", probe.unknown),
        ]
        if query is not None:
            name = "charged once, repeats free and equal, receipts hold"
            checks.append(AuditCheck(name, "probe", partial(probe.paid, query)))
        if query is not None and second is not None:
            other = stack.enter_context(connect(*second, ca_file=ca_file))
            run = partial(_apart, remote, other, query, samples)
            checks.append(AuditCheck("two servers, one person apart", "lower_bound", run))
        yield checks


def _apart(one: RemoteCurator, other: RemoteCurator, query: AuditQuery, samples: int) -> Verdict:
    """Audit both servers with many charged queries, each at a slightly lower cost, so that none is a free repeat."""
    cost, hairs = exact_positive(query.epsilon, "epsilon"), count()
    claim = one.explain(query.sql, epsilon=cost).guarantee
    delta = getattr(claim, "delta", 0) or (0 if isinstance(claim, PureDP) else _DELTA)

    def ask(remote: RemoteCurator) -> Any:
        answer = remote.sql(query.sql, epsilon=cost * (1 - Fraction(next(hairs), 10**9)))
        return answer.to_arrow().to_pylist()

    return judged(lower_bound(ask, one, other, claimed=claim, delta=delta, samples=samples, confidence=_CONFIDENCE))


@dataclass(frozen=True)
class _Reply:
    """Response of the server, byte for byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        """JSON object in the body; empty where there is none."""
        try:
            told = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return told if isinstance(told, dict) else {}

    @property
    def looks(self) -> tuple[int, bytes]:
        """Status and body, by which two refusals could be distinguished."""
        return self.status, self.body

    def problems(self) -> Iterator[str]:
        """Generate the faults of the response as a refusal: in its status, its form, or by details that it reveals."""
        if not 400 <= self.status < 500:
            yield f"the status is {self.status}"
        error = self.content.get("error")
        if not isinstance(error, dict) or not all(isinstance(error.get(word), str) for word in ("code", "message")):
            yield "the body is not an error of the one shape"
        yield from self.tells()

    def tells(self) -> Iterator[str]:
        """Generate the implementation details that the response reveals."""
        yield from (f"there is a header {name}" for name in _TELLING_HEADERS if name in self.headers)
        text = self.body.decode("utf-8", "replace").lower()
        yield from (f"the body speaks of {word}" for word in _TELLING_WORDS if word in text)


class _Probe:
    """Sender of requests that no regular client sends."""

    def __init__(self, remote: RemoteCurator, token: str, client: httpx2.Client) -> None:
        self._remote = remote
        self._token = token
        self._client = client

    def numbers(self) -> Verdict:
        """Send invalid epsilons."""
        sql = json.dumps("SELECT COUNT(*) FROM {table}".replace("{table}", self._table()[0]))
        bodies = [f'{{"sql": {sql}, "epsilon": {number}}}'.encode() for number in _NUMBERS]
        return self._refused([(number[:20], body) for number, body in zip(_NUMBERS, bodies, strict=True)])

    def bodies(self) -> Verdict:
        """Send bodies that are not queries."""
        return self._refused([(repr(body[:20]), body) for body in _BODIES])

    def hostile(self) -> Verdict:
        """Send queries that would reveal a person's data, or the machine's."""
        table, column = self._table()
        queries = [sql.format(table=table, column=column) for sql in _HOSTILE]
        return self._refused([(sql, query_body(Request(sql=sql, epsilon="0.001")).encode()) for sql in queries])

    def tokens(self) -> Verdict:
        """Send tokens that belong to no user."""
        known = self._token
        made_up = [
            "", "Bearer", "Bearer x", f"Bearer {known[:-1]}", f"Bearer {known}x", f"Bearer {known.swapcase()}",
            f"Basic {known}", f"Bearer {known} {known}",
        ]  # fmt: skip
        paths = ("/v1/tables", "/v1/budget", "/v1/receipts/1")
        seen = [self._send("GET", path, token=token) for path in paths for token in made_up]
        found = [f"{reply.status} instead of 401" for reply in seen if reply.status != 401]
        found += ["two of them were told apart"] if len({reply.looks for reply in seen}) > 1 else []
        found += [problem for reply in seen for problem in reply.problems()]
        return _verdict(found, f"{len(seen)} requests")

    def unknown(self) -> Verdict:
        """Request objects that do not exist, or that this analyst may not see."""
        own = {entry.number for entry in self._remote.history()}
        positions = [n for n in (*range(1, 40), 10**6, 10**15) if n not in own]
        seen = [self._send("GET", f"/v1/receipts/{n}") for n in positions]
        seen += [self._send("GET", f"/v1/jobs/{entropy.current().bits(128):032x}") for _ in range(3)]
        found = [problem for reply in seen for problem in reply.problems()]
        kinds = {reply.looks for reply in seen[: len(positions)]}
        found += ["receipts that do not exist can be told from those of others"] if len(kinds) > 1 else []
        return _verdict(found, f"{len(seen)} requests")

    def paid(self, query: AuditQuery) -> Verdict:
        """Check that a query is charged once, however often it is sent."""
        request = Request(sql=query.sql, epsilon=query.epsilon)
        body = query_body(request).encode()
        other = query_body(replace(request, confidence="0.9")).encode()
        key = {"Idempotency-Key": f"audit-{entropy.current().bits(64):016x}"}
        first, again = self._send("POST", "/v1/query", body, key), self._send("POST", "/v1/query", body, key)
        if first.status != 200:
            return _verdict([f"the query was not answered: {first.body.decode(errors='replace')[:300]}"], "")
        spent = self._spent()
        conflict, repeat = self._send("POST", "/v1/query", other, key), self._send("POST", "/v1/query", body)
        found = [problem for reply in (first, again, repeat) for problem in reply.tells()]
        found += ["the same request under the same key got other bytes"] if again.looks != first.looks else []
        found += [f"another request under the same key got {conflict.status}"] if conflict.status != 409 else []
        told = first.content
        found += ["a repeat got other values"] if told.get("rows") != repeat.content.get("rows") else []
        found += ["a repeat was charged"] if self._spent() != spent else []
        try:
            report = verify_receipt(json.dumps(told.get("receipt")), self._remote.public_key)
        except InputError as problem:
            return _verdict([*found, f"there is no receipt: {problem}"], "")
        found += [f"the receipt does not hold: {check.words}" for check in report.checks if not check.passed]
        return _verdict(found, "one charge, one receipt, and it holds")

    def _refused(self, bodies: list[tuple[str, bytes]]) -> Verdict:
        """Send bodies as queries; each must be refused in the one form of response, and nothing be charged."""
        before = self._spent()
        found = []
        for name, body in bodies:
            for path in ("/v1/query", "/v1/explain"):
                found += [f"{name}: {problem}" for problem in self._send("POST", path, body).problems()]
        found += ["something was charged"] if self._spent() != before else []
        return _verdict(found, f"{2 * len(bodies)} requests")

    def _spent(self) -> str:
        """Return the newest charge of this analyst; charges of other analysts do not affect it."""
        return json.dumps(self._send("GET", "/v1/history?limit=1").content.get("entries"))

    def _table(self) -> tuple[str, str]:
        """Return the names of a protected table and of one of its columns."""
        tables = [info.table for info in self._remote.tables() if not info.table.public]
        if not tables:
            raise InputError("url", "this analyst sees no protected table there")
        return f'"{tables[0].name}"', f'"{tables[0].columns[0].name}"'

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = None,
    ) -> _Reply:
        """Send a request, again where the server reports too many requests."""
        words = {"Authorization": f"Bearer {self._token}" if token is None else token, **(headers or {})}
        words |= {} if body is None else {"Content-Type": "application/json"}
        for _ in range(_PATIENCE):
            response = self._client.request(method, f"{self._remote.url}{path}", content=body, headers=words)
            if response.status_code not in (429, 503):
                break
            wait = response.headers.get("retry-after", "1")
            time.sleep(min(float(wait) if wait.isdigit() else 1.0, _LONGEST))
        told = {name.lower(): value for name, value in response.headers.items()}
        return _Reply(response.status_code, told, response.content)


def _client(ca_file: str | Path | None, url: str) -> httpx2.Client:
    import ssl

    import httpx2

    trusted = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    return httpx2.Client(verify=trusted, timeout=120.0, trust_env=url.startswith("https:"))


def _verdict(found: list[str], done: str) -> Verdict:
    unique = list(dict.fromkeys(found))
    words = f"{len(unique)} found: {'; '.join(unique[:10])}" if unique else f"nothing found: {done}"
    return Verdict(bool(unique), words, unique)
