"""Plain English wherever a person reads: code, messages, help, console, documentation and tests.

Two rules. The pronouns and phrases of `VAGUE` stand nowhere, identifiers included: a sentence names the analyst,
the person, the caller, the operator or the file instead. And a docstring begins with a verb or a noun of the field,
never with a question word or with a word that stands for another docstring (`RIDDLE`).

`python tests/arch/test_english.py [path …]` prints every place that breaks a rule, in all rooms or in those named.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROOMS = ("src", "docs", "benchmarks", "tests", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""Folders and files that are held to the rules."""

READ = frozenset({".py", ".md", ".html", ".jinja", ".js", ".css", ".toml", ".yml", ".sql", ".txt", ".sh"})

# Words in a comment may be broken over two lines, with the sign of the comment between them.
_GAP = r"(?:[\s_]+(?:#:?\s+|//\s+|\*\s+)?)"


def _words(text: str) -> str:
    return rf"(?<![^\W_]){text.replace(' ', _GAP)}s?(?![^\W_])"


VAGUE = {
    "whoever": "name the person: the analyst, the caller, the operator, a reader",
    "somebody": "name the person, or write 'a person'",
    "nobody": "write 'no person', 'no user', or turn the sentence round",
    "anybody": "write 'any person', 'any user', 'any client'",
    "everybody": "write 'every person', 'all users', 'all clients'",
    "unless said": "write 'by default'",
    "unless it is said": "write 'by default'",
    "unless told": "write 'by default'",
    'as it is(?= *[.,;:)!?"`]| *$)': "write 'unchanged' or 'verbatim'",
}
"""Words that leave open who acts or what applies, and the words to write instead."""

RIDDLE = re.compile(
    r"(?:What|Whoever|Who|Whose|How|Why)\b"
    r"|The (?:same|other|rest|others)[.,:;]"
    r"|(?:Its|Their) (?:own )?\w+\.$"
    r"|(?:All|Both|One|Some|None|Those|Each) (?:of (?:them|it))?\.$"
    r"|(?:Likewise|Tried|Itself|Never|Nothing|Guarded|In order)\.$"
    r"|(?:A (?:fresh|new) one|The next one|It (?:is|does|was) \w+)\.$"
)
"""The beginning of a docstring that does not say what the thing is."""

_VAGUE = [(re.compile(_words(words), re.IGNORECASE | re.MULTILINE), instead) for words, instead in VAGUE.items()]


def vague_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the advice for each vague word in `text`."""
    for pattern, instead in _VAGUE:
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, f"{' '.join(found[0].split())!r}: {instead}"


def riddles(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first words of each docstring and note on a constant that begins with a riddle."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value.strip()
            if RIDDLE.match(text.partition("\n")[0]):
                yield node.lineno, f"a docstring begins {text[:40]!r}: begin with a verb or a noun of the field"
    for number, line in enumerate(source.splitlines(), start=1):
        mark, _, text = line.strip().partition("#: ")
        if not mark and RIDDLE.match(text):
            yield number, f"a note begins {text[:40]!r}: begin with a verb or a noun of the field"


def breaches(path: Path) -> list[str]:
    """Return `file:line: advice` for each place in `path` that breaks a rule."""
    text = path.read_text(encoding="utf-8")
    found = [*vague_words(text), *(riddles(text) if path.suffix == ".py" else ())]
    return [f"{path.relative_to(ROOT)}:{line}: {advice}" for line, advice in sorted(found)]


def files(rooms: tuple[str, ...]) -> list[Path]:
    """Return the files that people read under `rooms`, without recorded databases and the two that name the words."""
    under = {
        path
        for room in rooms
        for path in ([ROOT / room] if (ROOT / room).is_file() else (ROOT / room).rglob("*"))
        if path.suffix in READ and path.is_file() and not {"__pycache__", "old_databases"} & {*path.parts}
    }
    return sorted(under - {Path(__file__), Path(__file__).with_name("test_maps.py")})


def remaining(rooms: tuple[str, ...]) -> list[str]:
    """Return the breaches of both rules in all files under `rooms`."""
    return [line for path in files(rooms) for line in breaches(path)]


def test_english_is_plain_wherever_a_person_reads() -> None:
    found = remaining(ROOMS)
    assert not found, f"{len(found)} places:\n" + "\n".join(found)


def test_every_room_has_files() -> None:
    assert all(files((room,)) for room in ROOMS)


@pytest.mark.parametrize(
    "text",
    [
        "Who" + "ever asks is answered.",
        "x = 1  # protects no" + "body",
        "def test_some" + "body_else_is_refused(): ...",
        "# in memory unless\n    # said",
        "The text as it" + " is.",
    ],
)
def test_vague_words_are_found(text: str) -> None:
    assert list(vague_words(text))


def test_a_passive_is_not_vague() -> None:
    assert not list(vague_words("The text as it is written in the file; nobodyish."))


@pytest.mark.parametrize(
    "text", ["What it costs.", "How often.", "Its name.", "The same.", "All of them.", "Likewise.", "It is gone."]
)
def test_riddles_are_found(text: str) -> None:
    assert list(riddles(f'def f():\n    """{text}"""\n'))
    assert list(riddles(f"#: {text}\nX = 1\n"))


@pytest.mark.parametrize("text", ["Whether it fits.", "Its name and its price, in rows.", "Howard's bound."])
def test_plain_docstrings_are_not_riddles(text: str) -> None:
    assert not list(riddles(f'def f():\n    """{text}"""\n'))


if __name__ == "__main__":
    left = remaining(tuple(sys.argv[1:]) or ROOMS)
    sys.stdout.write("\n".join([*left, f"{len(left)} places"]) + "\n")
