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
    page = " ".join(PAGE.split())
    for words in (
        f"{settings.asks_per_minute} queries and {settings.quotes_per_minute} quotes a minute",
        f"half of the {settings.threads} queries that run and of the {settings.queue} that wait",
        f"{settings.failures_per_minute} failed tokens or links a minute",
        f"steps of {settings.response_step} s after",
    ):
        assert words in page, words


def test_the_bodies_on_the_page_are_understood(served: Served) -> None:
    shown = re.findall(r"\$TACIT(/v1/\w+) \\\n  -d '(.*)'", PAGE)
    assert [path for path, _ in shown] == ["/v1/query"]
    for path in ("/v1/explain", "/v1/query"):
        response = served.call("POST", path, "olga", json=json.loads(shown[0][1]))
        assert response.status_code == 200, response.text
