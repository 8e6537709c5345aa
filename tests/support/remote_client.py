"""A client whose requests reach a served application without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.served import Served
from tacit.client.http_client import Channel
from tacit.client.remote_curator import RemoteCurator, connect


def remote_of(
    served: Served, name: str, monkeypatch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop
) -> RemoteCurator:
    """A client whose requests reach the application without a socket."""

    def send(_: Channel, method: str, path: str, **more: Any) -> tuple[int, dict[str, str], bytes]:
        async def once() -> Any:
            async with served.client(name) as client:
                response = await client.request(method, path, **more)
                # Jobs run on the loop between requests.
                await asyncio.sleep(0.05)
                return response

        found = loop.run_until_complete(once())
        return found.status_code, {key.lower(): value for key, value in found.headers.items()}, found.content

    monkeypatch.setattr(Channel, "_send", send)
    monkeypatch.setattr("tacit.client.remote_curator._POLL_SECONDS", 0.0)
    return connect("http://localhost:1", token=served.tokens[name], public_key=served.curator.public_key)
