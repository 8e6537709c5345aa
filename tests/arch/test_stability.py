"""The promise of docs/install.md: what is recorded here stays within 1.x, and is added to on purpose.

``TACIT_RECORD=1`` writes the record anew, which a release does, so that what was added is promised from then on; a line
that goes away or changes breaks the promise.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import click
import typer

import tacit
from tacit.cli import command_line
from tacit.client.remote_curator import RemoteCurator
from tacit.project.project_file import ProjectModel

HERE = Path(__file__).parent
RECORD = HERE / "stable_surface.json"
ROOT = HERE.parents[1]
#: Texts that others keep, each with the version that readers check.
FORMATS = re.compile(r"_?FORMAT: Final = \"(tacit-[a-z-]+)\"")


def members(kind: type) -> dict[str, list[str]]:
    """Public methods with their parameters, and public attributes without."""
    found = {}
    for name in sorted(dir(kind)):
        if name.startswith("_") or not any(
            name in vars(base) for base in kind.__mro__ if base.__module__[:5] == "tacit"
        ):
            continue
        member = inspect.getattr_static(kind, name)
        found[name] = (
            parameters(getattr(kind, name)) if callable(getattr(kind, name, None)) else [type(member).__name__]
        )
    return found


def parameters(thing: Any) -> list[str]:
    try:
        shown = inspect.signature(thing)
    except (TypeError, ValueError):
        return []
    return [each.name for each in shown.parameters.values() if each.name != "self" and not each.name.startswith("_")]


def commands(command: click.Command, name: str = "tacit") -> dict[str, list[str]]:
    found = {name: sorted(option for each in command.params for option in (*each.opts, *each.secondary_opts))}
    for child, below in getattr(command, "commands", {}).items():
        found |= commands(below, f"{name} {child}")
    return found


def fields(schema: dict[str, Any]) -> dict[str, list[str]]:
    return {
        name: sorted(each.get("properties", {}))
        for name, each in sorted({"project": schema, **schema.get("$defs", {})}.items())
        if each.get("properties")
    }


def surface() -> dict[str, Any]:
    """Everything that the promise is about, but for the HTTP API, which ``tests/wire/golden`` holds."""
    names = {name: getattr(tacit, name) for name in sorted(tacit.__all__)}
    sources = "".join(path.read_text() for path in sorted((ROOT / "src/tacit").rglob("*.py")))
    return {
        "names": {
            name: {"call": parameters(thing), "members": members(thing)}
            if inspect.isclass(thing)
            else parameters(thing)
            for name, thing in names.items()
        },
        "remote curator": members(RemoteCurator),
        "commands": commands(typer.main.get_command(command_line())),
        "project file": fields(ProjectModel.model_json_schema()),
        "formats": sorted(set(FORMATS.findall(sources))),
    }


def lost(before: Any, now: Any, place: str = "") -> list[str]:
    """Lines of the record that are there no more."""
    if isinstance(before, dict):
        return [
            line
            for name, each in before.items()
            for line in ([f"{place}/{name}"] if name not in now else lost(each, now[name], f"{place}/{name}"))
        ]
    gone = [f"{place}: {each}" for each in before if each not in now]
    # Arguments by position stay where they are.
    return gone or ([f"{place}: another order"] if [each for each in now if each in before] != before else [])


def test_nothing_that_was_promised_is_gone() -> None:
    now = surface()
    if os.environ.get("TACIT_RECORD"):
        RECORD.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    before = json.loads(RECORD.read_text())
    assert lost(before, now) == []


def test_what_is_lost_is_seen() -> None:
    assert lost({"a": {"b": ["x", "y"]}}, {"a": {"b": ["y", "x"]}}) == ["/a/b: another order"]
    assert lost({"a": {"b": ["x"]}, "c": []}, {"a": {"b": []}}) == ["/a/b: x", "/c"]
    assert lost({"a": ["x"]}, {"a": ["x", "z"], "d": {}}) == []


def test_the_page_names_every_format() -> None:
    page = (ROOT / "docs/install.md").read_text()
    assert [each for each in surface()["formats"] if f"`{each}`" not in page] == []
    assert tacit.__version__.startswith("0.") == ("From 1.0 on" in page)
