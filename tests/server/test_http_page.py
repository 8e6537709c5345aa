"""The page about the server says what the server does; tests/docs/test_reference_pages.py has endpoints and codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.served import Served
from tacit.server.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


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
        f"slots of {settings.slot} s after",
        f"looks at {settings.history_look:,} entries",
    ):
        assert number in PAGE, number


def test_the_bodies_on_the_page_are_understood(served: Served) -> None:
    shown = re.findall(r"\$TACIT(/v1/\w+) \\\n  -d '(.*)'", PAGE)
    assert len(shown) == 3
    for path, body in shown:
        response = served.call("POST", path, "olga", json=json.loads(body))
        assert response.status_code in (200, 201), response.text
