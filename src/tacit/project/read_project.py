"""Reading of a project file as TOML, with no gap of the template left open."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.project.project_template import open_places


def read_toml(place: Path, parameter: str, missing: str = "") -> dict[str, Any]:
    """The content of a TOML file.

    Args:
        place: the file.
        parameter: that names it.
        missing: the problem in words, where there is no such file.

    Raises:
        InputError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError as problem:
        words = missing if isinstance(problem, FileNotFoundError) else ""
        raise InputError(parameter, words or f"cannot read {place}: {problem.strerror}") from None
    except ValueError as problem:
        raise InputError(parameter, f"{place.name} is not TOML: {problem}") from None


def read_project(project: Path) -> dict[str, Any]:
    """The content of a project file in which no place is left open."""
    if project.suffix.lower() != ".toml":
        raise InputError("project", f"must be a project file (.toml), got {str(project)!r}; tacit init makes one")
    missing = f"there is no {project}; tacit init makes one, --project names another"
    content = read_toml(project, "project", missing)
    places = open_places(content)
    if places:
        more = f" (and {len(places) - 1} more: {', '.join(places[1:])})" if len(places) > 1 else ""
        raise InputError(places[0], f"is still to be filled in by you{more}")
    return content
