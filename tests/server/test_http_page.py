"""The page about the server says what the server does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.served import Served
from tacit.server.api.errors import STATUS
from tacit.server.api.routes import ROUTES
from tacit.server.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_endpoint_is_on_the_page(route: object) -> None:
    path, method = route.path, route.method  # type: ignore[attr-defined]
    assert path in PAGE if path in ("/v1/query", "/v1/explain") else f"`{method} {path}" in PAGE


@pytest.mark.parametrize("code", STATUS)
def test_every_code_is_on_the_page_with_its_status(code: str) -> None:
    lines = [
        line for line in PAGE.splitlines() if re.search(rf"`{re.escape(code)}(`|\.…`)", line) and line.startswith("| ")
    ]
    assert any(line.startswith(f"| {STATUS[code]}") for line in lines), code


def test_the_limits_are_those_of_the_settings() -> None:
    settings = Settings()
    for number in (
        f"{settings.max_body:,} bytes, within {settings.body_seconds:.0f} seconds",
        f"{settings.max_headers} lines, {settings.max_header_bytes:,} bytes",
        f"{settings.max_path:,} bytes",
        f"| questions of one person | {settings.asks_per_minute} a minute",
        f"| quotes of one person | {settings.quotes_per_minute} a minute",
        f"| everything else | {settings.reads_per_minute} a minute",
        f"{settings.failures_per_minute} a minute; a client",
        f"{settings.threads} and {settings.queue} in each",
        f"A slot is {settings.slot} seconds",
        f"looks at {settings.history_look:,} entries",
    ):
        assert number in PAGE, number


def test_the_bodies_on_the_page_are_understood(served: Served) -> None:
    shown = re.findall(r"\$TACIT(/v1/\w+) \\\n  -d '(.*)'", PAGE)
    assert len(shown) == 3
    for path, body in shown:
        response = served.call("POST", path, "olga", json=json.loads(body))
        assert response.status_code in (200, 201), response.text
