"""``tacit mcp``: let an AI assistant ask, within a share of the budget."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, opened
from tacit.core.errors import InputError
from tacit.core.extras import load

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def mcp(
    place: Annotated[
        str, typer.Argument(help="The project file, or the address of a server, whose token is read from TACIT_TOKEN.")
    ] = str(DEFAULT_PROJECT),
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Most epsilon of each budget that the conversation may spend; left out for a token with a share."
        ),
    ] = None,
    conversation: Annotated[
        str, typer.Option(help="Name of the conversation; the same name continues with the same share.")
    ] = "assistant",
    analyst: AnalystOption = None,
) -> None:
    """Serve tools to an AI assistant on standard input and output (Model Context Protocol).

    The assistant can list tables, get quotes, ask, and read budget and history. It can spend at most --epsilon. The
    ledger keeps that share under the name of the conversation: starting the command again does not renew it, and
    nothing that the assistant writes changes it. For another share, name another conversation.

    tacit mcp tacit.toml --epsilon 1 --conversation lungs
    """
    with reported("place"):
        load("mcp", "mcp", "assistants")
        if place.startswith(("http://", "https://")):
            _bridge(place, epsilon, conversation, analyst)
            return
        if epsilon is None:
            raise InputError("epsilon", "say how much the conversation may spend in all: --epsilon 1")
        from pathlib import Path

        from tacit.curator.conversation import Conversation
        from tacit.server.mcp.doors import CuratorDoor
        from tacit.server.mcp.protocol import serve_curator

        with opened(Path(place), analyst=analyst) as curator:
            serve_curator(CuratorDoor(curator, Conversation.stated(conversation, epsilon)))


def _bridge(place: str, epsilon: str | None, conversation: str, analyst: str | None) -> None:
    from tacit.server.mcp.protocol import serve_bridge

    if analyst is not None:
        raise InputError("analyst", "is the person whose token is shown; leave it out")
    token = os.environ.get("TACIT_TOKEN", "")
    if not token:
        raise InputError("place", "a server wants a token: put one of yours into the environment as TACIT_TOKEN")
    url = urlsplit(place)
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        raise InputError("place", "must be https://… for another machine: the token would travel in the clear")
    headers = {"Authorization": f"Bearer {token}"}
    if epsilon is not None:
        headers |= {"Tacit-Conversation": conversation, "Tacit-Share": epsilon}
    for name, value in (("place", token), ("conversation", conversation), ("epsilon", epsilon or "")):
        if not value.isascii() or not value.isprintable():
            raise InputError(name, "must be printable ASCII text")
    serve_bridge(f"{place.rstrip('/')}/mcp" if url.path in ("", "/") else place, headers)
