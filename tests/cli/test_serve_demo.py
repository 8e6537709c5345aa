"""Lines that ``tacit serve --demo`` prints: each is pasted into a tool as it stands."""

from __future__ import annotations

import json
import re

import pytest
import sqlalchemy as sa

from support.served import serve
from tacit.cli.serve import _demo_people, _tell, _tell_demo
from tacit.server.serve.processes import Started


def test_the_demo_prints_lines_for_every_tool(capsys: pytest.CaptureFixture[str]) -> None:
    served = serve()
    welcome = _demo_people(served.service)
    _tell_demo(Started("http://127.0.0.1:8470", welcome, ("127.0.0.1", 5433)))
    told = capsys.readouterr().out
    url = sa.make_url(next(line.strip() for line in told.splitlines() if line.strip().startswith("postgresql://")))
    assert (url.username, url.port, url.database) == ("alice", 5433, "hospital")
    assert url.query["options"] == "-ctacit.epsilon=0.1"
    assert url.password == welcome["token"]
    (block,) = re.findall(r"^ *(\{.*\})$", told, re.MULTILINE)
    server = json.loads(block)["mcpServers"]["hospital"]
    assert server["url"] == "http://127.0.0.1:8470/mcp"
    access = served.people.authenticate(server["headers"]["Authorization"].removeprefix("Bearer "))
    assert access is not None
    assert access.share == "1"
    assert f"PGPASSWORD={welcome['token']}" in told
    connects = re.findall(r"tacit\.connect\((.*)\)", told)
    assert [line.endswith(f'public_key="{served.service.curator.public_key}"') for line in connects] == [True, True]
    served.close()


def test_the_set_up_link_has_the_public_address(capsys: pytest.CaptureFixture[str]) -> None:
    _tell(Started("http://127.0.0.1:8470", {"set_up": "s3cret"}, None, "https://tacit.example.org/"))
    told = capsys.readouterr().out
    assert "    https://tacit.example.org/console/link/s3cret\n" in told
    assert "Tacit serves at http://127.0.0.1:8470/console/" in told
