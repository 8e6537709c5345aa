"""A visitor of the console: by requests in this process, or by a browser through a socket."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any
from urllib.parse import urlencode

import httpx2

from support.served import Served

_HIDDEN = re.compile(r'name="csrf" value="([^"]*)"')


class Visitor:
    """A browser without a screen: keeps cookies, and sends forms with the token of the page it saw last."""

    def __init__(self, served: Served, base: str = "http://tacit") -> None:
        self.served = served
        self._runner = asyncio.Runner()
        transport = httpx2.ASGITransport(served.app, raise_app_exceptions=True)
        self.client = httpx2.AsyncClient(transport=transport, base_url=base)
        self.csrf = ""

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """A page."""
        found = self._runner.run(self.client.get(path, headers=_named(headers)))
        self._look(found)
        return found

    def post(self, path: str, *, headers: dict[str, str] | None = None, **fields: str) -> httpx2.Response:
        """Send a form and return the response; its token comes along unless another is given."""
        data = urlencode({"csrf": self.csrf, **{name.replace("__", "."): text for name, text in fields.items()}})
        sent = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        found = self._runner.run(self.client.post(path, content=data, headers=sent))
        self._look(found)
        return found

    def sign_in(self, name: str) -> httpx2.Response:
        """Go in by a one-time link."""
        way = f"/console/link/{self.served.people.link(name, operator='test')}"
        self.get(way)
        answer = self.post(way)
        if answer.status_code == 303:
            self.get(answer.headers["location"])
            self.get("/console/budget")
        return answer

    def close(self) -> None:
        """Go home."""
        self._runner.run(self.client.aclose())
        self._runner.close()

    def _look(self, page: httpx2.Response) -> None:
        if found := _HIDDEN.search(page.text):
            self.csrf = unescape(found.group(1))


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The address of a real server for an application, on this machine only."""
    import uvicorn

    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="error", server_header=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        try:
            while not server.started:
                threading.Event().wait(0.01)
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
