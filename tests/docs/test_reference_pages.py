"""Generated reference pages: every public name, command, key, endpoint, error and proof is there, with words."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

import tacit
from tacit.cli import command_line
from tacit.server.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "docs" / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(reference: ModuleType) -> dict[str, str]:
    made: dict[str, str] = reference.pages()
    return made


def test_every_public_name_is_documented(pages: dict[str, str], reference: ModuleType) -> None:
    text = "".join(page for path, page in pages.items() if path.startswith("reference/api/"))
    modules = {*reference.ROOMS, "events", "__version__"}
    for name in set(tacit.__all__) - modules:
        assert f"### `tacit.{name}`" in text, name
    for room in reference.ROOMS:
        for name in getattr(tacit, room).__all__:
            assert f"### `tacit.{room}.{name}`" in text, name


def test_every_command_is_documented(pages: dict[str, str]) -> None:
    def leaves(command: object, path: str) -> list[str]:
        below = getattr(command, "commands", None)
        return [path] if below is None else [leaf for name in below for leaf in leaves(below[name], f"{path} {name}")]

    text = pages["reference/command-line.md"]
    found = leaves(get_command(command_line()), "tacit")
    assert len(found) > 20
    for command in found:
        section = text.partition(f"## `{command}`\n")[2].partition("\n## ")[0]
        assert section.strip(), command
        for row in re.findall(r"^ +\| (`.*)$", section, flags=re.MULTILINE):
            assert not row.endswith("|  |"), f"{command}: {row} has no help"


def test_every_key_of_a_project_file_has_a_meaning(reference: ModuleType) -> None:
    found = {table: set(fields) for table, fields in reference.project_models().items()}
    assert found == {table: set(words) for table, words in reference.PROJECT_KEYS.items()}


def test_every_endpoint_is_documented(pages: dict[str, str], reference: ModuleType) -> None:
    document = reference.openapi()
    assert len(document["paths"]) > 12
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"## `{method.upper()} {path}`" in pages["reference/http.md"]


def test_every_setting_of_a_server_has_a_meaning(pages: dict[str, str]) -> None:
    for field in fields(Settings):
        row = re.search(rf"^\| `{field.name}` \| (.+?) \| (.+) \|$", pages["reference/http.md"], flags=re.MULTILINE)
        assert row is not None, field.name
        assert row[1] == str(field.default)


def test_every_error_has_its_codes(pages: dict[str, str]) -> None:
    def below(kind: type) -> list[type]:
        return [each for child in kind.__subclasses__() for each in (child, *below(child))]

    text = pages["reference/errors.md"]
    for kind in below(tacit.TacitError):
        if kind.__module__ == "tacit.core.errors":
            assert kind.__name__ in text
            assert f"| `{kind.code.partition('.')[0]}` |" in text


def test_every_proof_is_a_page(pages: dict[str, str]) -> None:
    proofs = list((ROOT / "src").rglob("*.proof.md"))
    assert len(proofs) == sum(page.startswith("proofs/") for page in pages) - 1 > 30


def test_every_page_is_in_the_navigation(pages: dict[str, str]) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r"[\w/.-]+\.md", navigation))
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    generated = {page for page in pages if not page.startswith("proofs/")}
    assert written | generated | {"proofs/index.md"} == named


def test_links_of_the_site_stay_within_it(pages: dict[str, str]) -> None:
    """As ``mkdocs build --strict`` demands: files of the project that are no pages cannot be linked to."""
    folder = (ROOT / "docs").resolve()
    texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.md")} | pages
    for page, text in texts.items():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            if not re.match(r"[a-z]+:", target):
                found = (folder / page).parent.joinpath(target).resolve()
                known = found.is_relative_to(folder) and (found.exists() or str(found.relative_to(folder)) in pages)
                assert known, f"{page} links to {target}"
