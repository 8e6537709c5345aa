"""Files named in proofs, pages and docstrings exist: a rename changes the prose as well."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "tests", "benchmarks", "docs", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md")
]

NAMED = re.compile(r"`((?:\.\./)*(?:[\w-]+/)*[\w-]+\.(?:py|proof\.md))")


def missing(text: str) -> list[str]:
    """Return the names in backquotes, as code and proofs are named, that no file ends with."""
    names = [name.replace("../", "") for name in NAMED.findall(text)]
    return [name for name in names if not any(f"/{file}".endswith(f"/{name}") for file in FILES)]


def test_named_files_exist() -> None:
    pages = [ROOT / file for file in FILES if not file.startswith("tests/arch/")] + list(ROOT.glob("*.md"))
    found = [
        f"{page.relative_to(ROOT)}: {name}" for page in pages for name in missing(page.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_missing_file_is_found() -> None:
    assert missing("see `no_such_room/no_such_file.py` and ``no_such.proof.md``") == [
        "no_such_room/no_such_file.py",
        "no_such.proof.md",
    ]
    assert not missing("see `mechanisms/laplace.proof.md`, ``core/numbers.py`` and `mymodule`")
