"""Commands in a process of their own: with pipes, and with a terminal as a person at a keyboard would see it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.warm import WarmProcess

__all__ = ["at_a_terminal", "plain", "shell"]

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>()][A-Z0-9]?)")


def plain(text: str) -> str:
    """The text without colours and line endings of terminals."""
    return _ESCAPES.sub("", text).replace("\r", "")


def shell(*arguments: str, stdin: bytes = b"", folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run ``tacit`` with pipes; a warning of Python's would be an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tacit.cli", *arguments],
        input=stdin,
        capture_output=True,
        cwd=folder,
        check=False,
        timeout=120,
    )


def at_a_terminal(
    arguments: Sequence[str], typed: Sequence[tuple[str, str]], folder: Path, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run ``tacit`` with a terminal for its input and output.

    Args:
        arguments: of the command.
        typed: pairs of what to wait for and what to type then.
        folder: where it runs.
        env: more of the environment.

    Returns:
        The exit code and everything that was on the screen, without escapes.
    """
    outside, inside = pty.openpty()
    process = WarmProcess(
        [sys.executable, "-m", "tacit.cli", *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=folder,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "120", **(env or {})},
        close_fds=True,
    )
    os.close(inside)
    screen, waiting, begun = "", list(typed), 0
    try:
        while True:
            if not select.select([outside], [], [], 60)[0]:
                raise TimeoutError(f"nothing more on the screen:\n{screen}")
            try:
                more = os.read(outside, 65536)
            except OSError:  # The other end was closed.
                break
            if not more:
                break
            screen += more.decode("utf-8", "replace")
            while waiting and (found := plain(screen).find(waiting[0][0], begun)) >= 0:
                begun = found + len(waiting[0][0])
                os.write(outside, waiting.pop(0)[1].encode())
    finally:
        os.close(outside)
        code = process.wait(60)
    assert not waiting, f"never saw {waiting[0][0]!r}:\n{screen}"
    return code, plain(screen)
