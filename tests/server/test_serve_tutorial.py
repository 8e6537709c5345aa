"""The page by which two colleagues share a project: its commands and programs do what it says, on a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.console_page import Command, File, read_page, shape
from support.command_line import run_command
from support.serving import Server

DOCS = Path(__file__).parents[2] / "docs"


def run(folder: Path, *words: str, **more: str) -> str:
    """Run a program in the folder of the page and return what it prints."""
    env = {**os.environ, **more}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tacit(*words: str) -> str:
    done = run_command(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def alike(text: str) -> str:
    """As :func:`shape`; tokens are forgotten whole."""
    return shape(re.sub(r"\btacit_\w+", "TOKEN", text))


@pytest.mark.deep
def test_two_colleagues_follow_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    share = read_page((DOCS / "tutorials" / "share-a-project.md").read_text())
    hospital = [step for step in share if isinstance(step, File)]
    assert [step.name for step in hospital[:2]] == ["make_visits.py", "tacit.toml"]
    steps = hospital[:2] + read_page((DOCS / "server.md").read_text())
    key, tokens = "", {}
    printed: dict[str, str] = {}
    server: Server | None = None
    try:
        for step in steps:
            if isinstance(step, Command):
                program, *words = step.words
                assert program == "tacit"
                said = tacit(*words)
                assert alike(said) == alike(step.output), step.line
                if words[1:2] == ["token"]:
                    tokens["bella"] = re.findall(r"tacit_\w+", said)[0]
                if words == ["receipt", "key"]:
                    key = said.strip()
            elif step.name in ("bella.py", "boris.py"):
                if server is None:
                    tokens["boris"] = re.findall(r"tacit_\w+", tacit("analysts", "token", "boris"))[0]
                    server = Server(tmp_path / "tacit.toml", "--workers", "2", "--response-step", "0.05")
                    assert "set_up" in server.told
                name = step.name.removesuffix(".py")
                text = step.content.replace("https://tacit.example.org", server.address)
                (tmp_path / step.name).write_text(text.replace("ed25519:…", key))
                printed[name] = run(tmp_path, step.name, TACIT_TOKEN=tokens[name])
            elif isinstance(step, File):
                (tmp_path / step.name).write_text(step.content)
                if step.name.endswith(".py"):
                    run(tmp_path, step.name)
    finally:
        if server is not None:
            server.kill()
    assert printed["bella"].startswith("epsilon 0.5\n")
    assert "emergency" in printed["bella"]
    assert "2 more such queries fit" in printed["bella"], "of her own share"
    assert printed["boris"] == "A repeated query: charged nothing\n"
    assert "The receipt holds." in tacit("receipt", "verify", "receipt.json", "--key", key)
