"""One interface for asking: a curator, one over HTTP and the tools of an assistant have the same methods."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tacit.client.remote_curator import RemoteCurator
from tacit.curator.curator import Asking, Curator
from tacit.query.request import OPTIONS
from tacit.server.mcp.tools import CuratorDoor, ServerDoor

METHODS = [name for name, each in vars(Asking).items() if inspect.isfunction(each) and not name.startswith("_")]


def parameters(kind: type, name: str) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; the options of a query are one, however a signature shows them."""
    shown = inspect.signature(vars(kind)[name]).parameters.values()
    found = [each for each in shown if each.name not in OPTIONS and each.kind is not inspect.Parameter.VAR_KEYWORD]
    return [
        *((each.name, each.kind, each.default) for each in found),
        *([("options", None, None)] if len(found) < len(shown) else []),
    ]


@pytest.mark.parametrize("kind", [Curator, RemoteCurator, CuratorDoor, ServerDoor])
@pytest.mark.parametrize("name", METHODS)
def test_everyone_who_asks_asks_alike(kind: type, name: str) -> None:
    assert parameters(kind, name) == parameters(Asking, name)


def test_the_interface_is_what_asking_takes() -> None:
    assert METHODS == ["tables", "explain", "sql", "budget", "budgets", "history"]
