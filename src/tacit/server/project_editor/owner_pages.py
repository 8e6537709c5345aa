"""Common parts of the editor's pages: state, steps, the text of the file and its problems."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tacit.core.errors import InputError, TacitError
from tacit.curator.project_changes import opening_problems
from tacit.project.project_editing import EditedProject
from tacit.project.project_file import Project, TableModel, validate
from tacit.project.source import Source
from tacit.query.catalog import Table
from tacit.server.console.csrf import HEADERS
from tacit.server.console.page_request import templates_of
from tacit.server.console.static_files import Statics
from tacit.server.project_editor.gate import EditorGate

Seen = TypeVar("Seen")
_MOST_SEEN: Final = 64
#: Bytes of files whose rows are counted for a picture.
_LARGEST: Final = 1 << 32
_MOST_LETTERS: Final = 60


class EditorState:
    """State of one run of the editor: project, gate, pages, and recent counts; ``finish`` ends the server."""

    def __init__(self, editing: EditedProject, gate: EditorGate, finish: Callable[[], None]) -> None:
        self.editing = editing
        self.gate = gate
        self.finish = finish
        self.statics = Statics()
        self._seen: dict[str, Any] = {}
        self.pages = templates_of("tacit.server.project_editor", "tacit.server.console")
        self.pages.globals |= {"static": self.statics.address, "address": address, "readable": readable}
        self.pages.filters["share"] = _share

    def once(self, what: str, about: object, source: Source, work: Callable[[], Seen]) -> Seen:
        """Count something, once per state of the files of a source and of what is declared."""
        stamps = [(str(file), *_stamp(file)) for file in source.files]
        if sum(stamp[2] for stamp in stamps) > _LARGEST:
            raise InputError(
                "source", "is larger than 4 GiB; its rows are not counted here, tacit doctor --look does it"
            )
        key = repr((what, about, source.path, source.csv, stamps))
        if key not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[key] = work()
        found: Seen = self._seen[key]
        return found


@dataclass
class EditorVisit:
    """A request on its way to a page of the editor.

    ``seen`` is the revision when it came: a form of the page that follows is about that one, whatever is edited while
    the page is made.
    """

    state: EditorState
    request: Request
    form: Mapping[str, str] = field(default_factory=dict)
    seen: int = 0

    def __post_init__(self) -> None:
        self.seen = self.state.editing.revision

    @property
    def editing(self) -> EditedProject:
        """The project."""
        return self.state.editing

    @property
    def revision(self) -> int:
        """Revision that a form is about; 0 where it says none."""
        said = self.form.get("revision", "")
        return int(said) if said.isdecimal() and len(said) < 10 else 0

    def asked(self, name: str) -> str:
        """A word of the address."""
        return self.request.query_params.get(name, "")

    def table(self) -> tuple[str, TableModel]:
        """The table that the address names, and what the text says of it.

        Raises:
            InputError: there is none, or the text says what the loader does not read.
        """
        name = self.asked("table")
        tables = self.editing.content.get("tables", {})
        if not isinstance(tables, dict) or name not in tables:
            raise InputError("table", f"there is no table {name!r} in the project")
        return name, validate(TableModel, tables[name], f"tables.{name}")

    def viewed(self, name: str) -> tuple[Project, Table, Source]:
        """A table as the text declares it so far, and its source.

        Raises:
            InputError: as the loader.
        """
        project = self.editing.viewable(name)
        table = project.catalog.table(name)
        if table is None:
            raise InputError("table", f"there is no table {name!r} in the project")
        return project, table, project.sources[name]

    async def page(self, template: str, status: int = 200, problem: str = "", **context: Any) -> Response:
        """A whole page with the text of the file beside it."""
        common = await run_in_threadpool(self._common)
        text = self.state.pages.get_template(template).render({**common, **context, "problem": problem})
        return HTMLResponse(text, status, headers=dict(HEADERS))

    def redirect(self, where: str) -> Response:
        """Redirect after a form."""
        return RedirectResponse(where, 303, headers=dict(HEADERS))

    def _common(self) -> dict[str, Any]:
        editing = self.editing
        try:
            problems = opening_problems(editing)
        except TacitError as problem:
            problems = [str(problem)]
        return {
            "person": None,
            "home": "./",
            "csrf": self.state.gate.csrf,
            "project": editing.path.name,
            "revision": self.seen,
            "text": editing.text,
            "parts": self._parts(),
            "problems": problems,
            "is_changed": editing.is_changed,
            "steps": self._steps(),
        }

    def _parts(self) -> tuple[str, str, str]:
        """The text before the lines that the page is about, those lines, and the text after them."""
        text = self.editing.text
        table, column, people = map(self.asked, ("table", "column", "population"))
        header = f"[tables.{table}]" if table else f"[populations.{people}]" if people else ""
        start = text.find(f"{header}\n") if header else -1
        if start >= 0 and column:
            found = re.compile(rf"^{re.escape(column)} *= .*$", re.MULTILINE).search(text, start)
            start, end = (-1, -1) if found is None else found.span()
        else:
            end = start + len(header)
        return (text[:start], text[start:end], text[end:]) if start >= 0 else (text, "", "")

    def _steps(self) -> list[dict[str, Any]]:
        content = self.editing.content
        page = self.request.url.path.rpartition("/")[2]
        tables = content.get("tables", {})
        people = content.get("populations", {})
        steps = [("Data", "./", page in ("", "database"))]
        steps += [
            (name, address("table", table=name), self.asked("table") == name)
            for name in (tables if isinstance(tables, dict) else ())
        ]
        steps += [
            (f"Budget of {name}", address("budget", population=name), self.asked("population") == name)
            for name in (people if isinstance(people, dict) else ())
        ]
        steps.append(("Check and save", "save", page in ("save", "text")))
        return [{"name": name, "address": where, "here": is_here} for name, where, is_here in steps]


OwnerHandler = Callable[[EditorVisit], Awaitable[Response]]


def address(path: str, **words: str) -> str:
    """An address of a page about something by name, relative to all pages."""
    return f"{path}?{urlencode(words)}" if words else path


def readable(text: Any, most: int = _MOST_LETTERS) -> str:
    """A value of a row for a screen: short, and without signs that no reader sees."""
    said = "".join(sign if sign.isprintable() else "·" for sign in str(text)[: most + 1])
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _share(share: float) -> str:
    """A share as a percentage; only the whole is 100 %, and only nothing 0 %."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"
