"""The page that argues for privacy names code and tests that exist, and leaves no constructor of relations out."""

from __future__ import annotations

import re
from pathlib import Path

import tacit
from tacit.query.relational import algebra

ROOT = Path(__file__).parents[2]
SOURCE = Path(tacit.__file__).parent
PAGE = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`([a-z_]+/[\w/.]*)`", PAGE)
    assert len(paths) > 60
    for path in paths:
        base = ROOT if path.startswith(("tests/", "src/")) else SOURCE
        assert (base / path).exists(), path


def test_every_test_named_on_the_page_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`\s*\(`(\w+)`\)", PAGE)
    assert len(named) >= 4
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}: {name}"


def test_every_section_says_where_it_is_implemented_and_tested() -> None:
    sections = re.split(r"^## \d+\. ", PAGE, flags=re.MULTILINE)[1:]
    assert len(sections) == 12
    for section in sections:
        title = section.splitlines()[0]
        if title == "What this does not cover":
            continue
        assert "*Code:*" in section, title
        assert "*Tests:*" in section, title


def test_the_induction_has_a_case_for_every_relation() -> None:
    table = PAGE[PAGE.index("| node |") : PAGE.index("Two remarks")]
    bases = (algebra.RelationNode, algebra.OverSource)
    kinds = {kind for kind in vars(algebra).values() if isinstance(kind, type) and kind not in bases}
    nodes = sorted(kind.__name__ for kind in kinds if set(kind.__bases__) & set(bases))
    assert len(nodes) >= 9
    assert [name for name in nodes if name not in table] == []
