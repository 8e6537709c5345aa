"""A documentation page whose files and commands are carried out in order.

A ``toml`` or ``python`` block that begins with a comment of one word, a file's name, *is* that file (Python is run at
once). In a ``console`` block a line after ``$`` is a command, and what follows is what it printed.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

__all__ = ["Command", "File", "read_page", "shape"]

_BLOCK = re.compile(r"^```(console|toml|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r" > ([\w.-]+)$")


@dataclass(frozen=True)
class File:
    """A file to write."""

    name: str
    content: str


@dataclass(frozen=True)
class Command:
    """A command and what the page says it prints."""

    line: str
    output: str

    @property
    def words(self) -> list[str]:
        """As a shell would split it, without where its output goes."""
        return shlex.split(_TARGET.sub("", self.line))

    @property
    def target(self) -> str:
        """The file its output goes to; empty for the screen."""
        found = _TARGET.search(self.line)
        return found.group(1) if found else ""


def read_page(text: str) -> list[File | Command]:
    """Steps of a page, in order."""
    found: list[File | Command] = []
    for kind, body in _BLOCK.findall(text):
        if kind == "console":
            parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
            found += [Command(*_halves(part)) for part in parts]
        elif named := re.match(r"# (\S+\.(?:toml|py))\n", body):
            found.append(File(named.group(1), body))
    return found


def shape(text: str) -> str:
    """Text without the parts that change from run to run: digits, lengths of lines and columns, bars.

    Which causes of loss stand out from the noise changes too, and so do the sentences about them.
    """
    text = re.sub(r"(intervals over the noise\.)[^\n]*", r"\1", text).replace(" *", "")
    text = re.sub(r"\b[0-9a-f]{8,}\b…?", "H", text)
    text = re.sub(r"[-−]?[0-9][0-9,.:T+-]*", "N", text)
    # An interval that is lopsided is shown by its ends.
    text = re.sub(r"± N|\(N to N\)", "± N", text)
    text = re.sub(r"[█░━─┳┯╇┿┴┷┻]+", "-", text)
    return "\n".join(re.sub(r" +", " ", line).strip() for line in text.strip().splitlines())


def shows(page: str, printed: str) -> bool:
    """Whether a page shows what was printed, apart from :func:`shape`; a line with … stands for any lines."""
    parts = re.split(r"^…\n", shape(page) + "\n", flags=re.MULTILINE)
    lines = r"(?:.*\n)*".join(re.escape(part) for part in parts)
    return re.fullmatch(lines, shape(printed) + "\n") is not None


def _halves(part: str) -> tuple[str, str]:
    line, _, output = part.partition("\n")
    return line, output.strip("\n")
