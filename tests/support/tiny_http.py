"""An HTTP server of a few lines that misbehaves on demand, in front of a local curator."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tacit.client.account_responses import BudgetResponse, EntryResponse, KeyResponse, TableResponse, seen_text
from tacit.client.responses import AnswerResponse, QuoteResponse
from tacit.core.errors import TacitError
from tacit.curator.curator import Curator
from tacit.releases.payment import entry_of

#: Gets a request, and says what to send; None to hang up.
Behaviour = Callable[["Request"], "bytes | None"]


@dataclass
class Request:
    """Request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        """The JSON in the body."""
        return json.loads(self.body, parse_float=str)  # type: ignore[no-any-return]


def response(status: int, content: object, **headers: str) -> bytes:
    """A response with a JSON body, or with bytes."""
    body = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class TinyServer:
    """Answers from a curator, unless the next behaviour in line does something else.

    Args:
        curator: who answers.
        next: what to do with the next requests to a path; used up one by one, None to do as usual.
        change: changes an answer before it is sent.
    """

    curator: Curator
    next: dict[str, list[Behaviour | None]] = field(default_factory=dict)
    change: Callable[[dict[str, Any]], None] | None = None
    seen: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def asked(self, path: str) -> list[Request]:
        """The requests to a path."""
        return [request for request in self.seen if request.path.partition("?")[0] == path]

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = _read(connection)
                if request is None:
                    continue
                self.seen.append(request)
                line = self.next.get(request.path.partition("?")[0], [])
                behaviour = line.pop(0) if line else None
                sent = self.usual(request) if behaviour is None else behaviour(request)
                if sent is not None:
                    try:
                        connection.sendall(sent)
                    except OSError:
                        continue

    def usual(self, request: Request) -> bytes:
        """Response of a server of Tacit."""
        try:
            return self._usual(request)
        except TacitError as problem:
            parameter = getattr(problem, "parameter", "")
            told = {"code": problem.code, "message": str(problem)} | ({"parameter": parameter} if parameter else {})
            return response(400, {"error": told})

    def _usual(self, request: Request) -> bytes:
        path, _, query = request.path.partition("?")
        said = request.headers.get("tacit-seen")
        seen = {} if said is None else {"Tacit_Seen": seen_text(self.curator.ledger, said)}
        if path == "/v1/key":
            return response(200, KeyResponse.of(self.curator.ledger).plain(), **seen)
        if path == "/v1/query":
            answer = self.curator.sql(**request.content, idempotency_key=request.headers["idempotency-key"])
            content = json.loads(json.dumps(AnswerResponse.of(answer).plain()))
            if self.change is not None:
                self.change(content)
            repeated = "true" if answer.charge.repeated else "false"
            return response(200, content, Tacit_Repeat=repeated, **seen)
        if path == "/v1/explain":
            return response(200, QuoteResponse.of(self.curator.explain(**request.content)).plain())
        if path == "/v1/budget":
            return response(200, {"budgets": [BudgetResponse.of(self.curator.budget()).plain()]})
        if path == "/v1/tables":
            return response(200, {"tables": [TableResponse.of(table).plain() for table in self.curator.tables()]})
        if path == "/v1/history":
            return response(200, self._page(query))
        return response(404, {"error": {"code": "request.path", "message": "nothing here"}})

    def _page(self, query: str) -> dict[str, Any]:
        """Two charges to a page, newest first."""
        before = int(query.partition("before=")[2] or 10**9)
        records = [r for r in reversed(list(self.curator.ledger.history(population="patients"))) if r.seq < before]
        return {
            "entries": [EntryResponse.of(entry_of(record)).plain() for record in records[:2]],
            "next": records[1].seq if len(records) > 2 else None,
        }


def _read(connection: socket.socket) -> Request | None:
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            return None
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)
