"""Reading of a project file as TOML, with no gap of the template left open."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.project.project_template import open_places

__all__ = ["read_project"]


def read_project(project: Path) -> dict[str, Any]:
    """The content of a project file in which no place is left open."""
    if project.suffix.lower() != ".toml":
        raise InputError("project", f"must be a project file (.toml), got {str(project)!r}; tacit init makes one")
    try:
        content = tomllib.loads(project.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("project", f"there is no {project}; tacit init makes one, --project names another") from None
    except OSError as problem:
        raise InputError("project", f"cannot read {project}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as problem:
        raise InputError("project", f"{project.name} is not TOML: {problem}") from None
    places = open_places(content)
    if places:
        more = f" (and {len(places) - 1} more: {', '.join(places[1:])})" if len(places) > 1 else ""
        raise InputError(places[0], f"is still to be filled in by you{more}")
    return content
