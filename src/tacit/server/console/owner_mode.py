"""Owner mode of the console: pages that write a project file, for one browser on the owner's own machine.

The pages show rows of protected data, and every user and every page in a browser of this machine can reach a port on
it. A request is therefore accepted only if its Host header names this machine (not a foreign name that was made to
resolve to it), and has the cookie that the first visit got in exchange for a one-time secret; a form also needs a token
that only the pages contain. The cookie is limited to a path that is random in each run, because browsers send cookies
of 127.0.0.1 to every port.
"""

from __future__ import annotations

import math
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from tacit.core.errors import InputError, TacitError
from tacit.engines.protocol import DoctorCheck
from tacit.project.project_editing import EditedProject, Place, project_problems, revision_of, viewable_project
from tacit.project.project_file import Project, TableModel, validate
from tacit.project.source import Source
from tacit.query.catalog import Table
from tacit.server.api.request import check_scope
from tacit.server.console.page_request import PageContext, PageProblem, Visit, endpoint, new_door, problem_of, same
from tacit.server.errors import RequestError, Unknown
from tacit.server.identity import Access, Person, Role, TokenScope
from tacit.server.settings import Settings

Words = ParamSpec("Words")
Seen = TypeVar("Seen")
#: Returns the findings about a project file; ``tacit doctor`` prints the same.
Examine = Callable[[Path], Iterable[DoctorCheck]]
_HOST: Final = "127.0.0.1"
#: A form contains at most the categories of a column.
_SETTINGS: Final = Settings(max_form=1 << 23, body_seconds=30.0, max_path=16_384)
_MOST_SEEN: Final = 64
#: Maximum bytes of files whose rows are counted for a picture.
_LARGEST: Final = 1 << 32
_MOST_LETTERS: Final = 60
_MOST_WORDS: Final = 1000
_STRANGER: Final = PageProblem(
    "This link does not open the editor",
    "The link that the terminal shows works once, in one browser.",
    "Stop the command with Ctrl-C and call tacit init --edit again for a new one; every choice is in the file.",
    status=403,
)


class OwnerContext(PageContext):
    """State of one run: the project, the credentials of its one browser, and recent counts.

    Args:
        port: the port it listens on; part of its Host header and cookie name, since browsers share cookies among ports.
        finish: ends the server, after the response that reports it.
        examine: checks the project file.
    """

    def __init__(self, editing: EditedProject, port: int, finish: Callable[[], None], examine: Examine) -> None:
        super().__init__(_SETTINGS, editing.path.name)
        self.editing = editing
        self.finish = finish
        self.examine = examine
        self.secret = new_door()
        owner = Person("owner", Role.OWNER, active=True)
        self.owner = Access(owner, owner.scopes, "session", "", csrf=new_door())
        #: Secret path of the cookie: browsers send it to every port of this machine, but only below its path.
        self.room = f"/{new_door()}"
        self._session = new_door()
        self._cookie = f"tacit_owner_{port}"
        self._hosts = (f"{_HOST}:{port}", f"localhost:{port}")
        self._used = False
        self._lock = threading.Lock()
        self._seen: dict[str, Any] = {}
        self.pages.globals |= {"address": address, "readable": readable}
        self.pages.filters |= {"share": _share, "most_percent": most_percent}

    def check_host(self, request: Request) -> None:
        """Refuse a request whose Host is not this machine and port, or that has ambiguous duplicate headers."""
        check_scope(request.scope, self.settings)
        if request.headers.get("host", "").lower() not in self._hosts:
            raise RequestError("host", 421, f"this editor answers to {_HOST} alone")

    def open(self, secret: str) -> bool:
        """Use up the secret; return whether it is right and was unused."""
        with self._lock:
            if self._used or not same(secret, self.secret):
                return False
            self._used = True
            return True

    def let_in(self, response: Response) -> None:
        """Set the session cookie in the browser."""
        response.set_cookie(self._cookie, self._session, path=self.room, httponly=True, samesite="strict")

    def knows(self, request: Request) -> bool:
        """Whether a request has the session cookie."""
        return same(request.cookies.get(self._cookie, ""), self._session)

    def once(self, what: str, about: object, source: Source, work: Callable[[], Seen]) -> Seen:
        """Return the cached result of ``work``, computed once per state of the source's files and of ``about``.

        Raises:
            InputError: the files are larger than 4 GiB.
        """
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


class OwnerRequest(Visit[OwnerContext]):
    """A request of the owner; ``text`` is the project file when it arrived, to which the forms of its page apply."""

    def __init__(self, shared: OwnerContext, request: Request) -> None:
        super().__init__(shared, request)
        self.editing = shared.editing
        self.text = ""
        self.project: dict[str, Any] = {}

    async def identify(self) -> None:
        """Identify the owner by the cookie of the one browser.

        Raises:
            RequestError: the request is for another host.
            Unknown: the request is from another browser.
        """
        self.shared.check_host(self.request)
        if self.shared.knows(self.request):
            self.access = self.shared.owner
            self.text, self.project = self.editing.read()
        elif "secret" not in self.request.path_params:
            raise Unknown("page")

    def changes_at(
        self, place: Place, stated: Mapping[str, Any], usual: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[Place, Any]:
        """Return the settings of a form that differ from the text; None removes a setting that has its default."""
        known: Any = self.project
        for key in place:
            known = known.get(key)
            if not isinstance(known, dict):
                # A new table is written as a whole.
                new = {word: value for word, value in stated.items() if value not in (None, usual.get(word))}
                return {place: new} if new else {}
        return {
            (*place, word): None if value == usual.get(word) else value
            for word, value in stated.items()
            if value != (was := known.get(word, usual.get(word))) and not (isinstance(value, str) and str(was) == value)
        }

    def asked(self, name: str) -> str:
        """Return a parameter of the query string."""
        return self.request.query_params.get(name, "")

    def content(self, part: str) -> dict[str, Any]:
        """Return a part of the project, such as its tables; empty if it is missing or malformed."""
        found = self.project.get(part, {})
        return found if isinstance(found, dict) else {}

    def table(self) -> tuple[str, TableModel]:
        """Return the name and the declaration of the table in the URL.

        Raises:
            InputError: it does not exist, or its declaration cannot be loaded.
        """
        name, tables = self.asked("table"), self.content("tables")
        if name not in tables:
            raise InputError("table", f"there is no table {name!r} in the project")
        return name, validate(TableModel, tables[name], f"tables.{name}")

    def viewed(self, name: str) -> tuple[Project, Table, Source]:
        """Return the project, a table as declared so far, and its source.

        Raises:
            InputError: the project cannot be loaded.
        """
        project = viewable_project(self.project, self.editing.folder, name)
        table = project.catalog.table(name)
        if table is None:
            raise InputError("table", f"there is no table {name!r} in the project")
        return project, table, project.sources[name]

    async def run(self, work: Callable[Words, Seen], *args: Words.args, **words: Words.kwargs) -> Seen:
        """Run blocking work in a thread."""
        return await run_in_threadpool(work, *args, **words)

    async def edited(self, changes: Callable[[], Mapping[Place, Any]], again: Again, where: str) -> Response:
        """Apply the changes of a form and redirect to ``where``; if they are refused, show the form by ``again``."""
        try:
            self.editing.edit(self.form.get("revision", ""), await self.run(changes))
        except TacitError as problem:
            return await again(self, str(problem))
        return self.redirect(where)

    async def head(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Return the steps, the text of the file and the open problems; nothing about the project without sign-in."""
        if self.access is None:
            return {"person": None, "project": "project editor", "home": "./", "csrf": "", "nav": []}
        return await self.run(self._head)

    def problem(self, raised: Exception) -> PageProblem:
        """Return a failure with its full message: only the owner, whose data it is, sees it."""
        if isinstance(raised, RequestError):
            return problem_of(raised)
        if self.access is None:
            return _STRANGER
        if isinstance(raised, Unknown):
            return PageProblem("There is no such page", "", status=404)
        if isinstance(raised, TacitError):
            return PageProblem("Something to correct", str(raised), "Nothing was done.")
        words = f"{type(raised).__name__}: {raised}"[:_MOST_WORDS]
        return PageProblem("Something failed here", words, "Nothing was done.", status=500)

    async def failed(self, problem: PageProblem, *, kept: str = "") -> Response:
        """Return a page about the problem to correct."""
        way = {"way_out": "" if self.access is None else "./", "way_words": "Back to the data"}
        return await self.page("error.html", problem.status, problem=problem, kept=kept, **way)

    def _head(self) -> dict[str, Any]:
        return {
            "person": None,
            "home": "./",
            "csrf": self.csrf,
            "revision": revision_of(self.text),
            "parts": self._parts(),
            "problems": project_problems(self.project, self.editing.folder),
            "nav": self._steps(),
        }

    def _parts(self) -> tuple[str, str, str]:
        """Return the text before the lines that the page is about, those lines, and the text after them."""
        text = self.text
        table, column, people = map(self.asked, ("table", "column", "population"))
        header = f"[tables.{table}]" if table else f"[populations.{people}]" if people else ""
        start = text.find(f"{header}\n") if header else -1
        end = start + len(header)
        if start >= 0 and column:
            found = re.compile(rf"^{re.escape(column)} *= .*$", re.MULTILINE).search(text, start)
            start, end = (-1, -1) if found is None else found.span()
        return (text[:start], text[start:end], text[end:]) if start >= 0 else (text, "", "")

    def _steps(self) -> list[dict[str, Any]]:
        page = self.request.url.path.rpartition("/")[2]
        table, people = self.asked("table"), self.asked("population")
        steps = [
            ("Data", "./", not page),
            *((name, address("table", table=name), table == name) for name in self.content("tables")),
            *(
                (f"Budget of {name}", address("budget", population=name), people == name)
                for name in self.content("populations")
            ),
            ("Check", "check", page == "check"),
        ]
        return [{"name": name, "address": where, "here": is_here, "count": 0} for name, where, is_here in steps]


Again = Callable[[OwnerRequest, str], Awaitable[Response]]


def owner_app(shared: OwnerContext) -> Starlette:
    from tacit.server.console import project_pages

    table: tuple[tuple[str, str, Callable[[OwnerRequest], Awaitable[Response]]], ...] = (
        ("GET", "/", project_pages.show_data),
        ("POST", "/", project_pages.add_file),
        ("GET", "/table", project_pages.show_table),
        ("POST", "/table", project_pages.change_table),
        ("POST", "/remove", project_pages.remove_table),
        ("GET", "/column", project_pages.show_column),
        ("POST", "/column", project_pages.change_column),
        ("GET", "/budget", project_pages.show_budget),
        ("POST", "/budget", project_pages.change_budget),
        ("GET", "/check", project_pages.show_check),
        ("POST", "/finish", project_pages.finish),
    )
    visit_of = partial(OwnerRequest, shared)
    routes = [
        Route(path, endpoint(visit_of, handler, needs=(TokenScope.ADMIN,)), methods=[method])
        for method, path, handler in table
    ]
    door = Route("/open/{secret}", endpoint(visit_of, _enter, needs=None))
    statics = Route("/console/static/{digest}/{name}", shared.statics.serve)
    lost = Route("/{path:path}", endpoint(visit_of, _lost, needs=()), methods=["GET", "POST"])
    return Starlette(routes=[statics, Mount(shared.room, routes=[*routes, lost]), door, lost])


def run_owner_mode(editing: EditedProject, started: Callable[[str], None], examine: Examine) -> None:
    """Serve owner mode on this machine until it is finished or interrupted.

    ``started`` is called once with the URL to open; it contains the secret.
    """
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((_HOST, 0))
        port = listener.getsockname()[1]

        def finish() -> None:
            server.should_exit = True

        shared = OwnerContext(editing, port, finish, examine)
        quiet: dict[str, Any] = {"log_level": "critical", "access_log": False, "server_header": False}
        config = uvicorn.Config(owner_app(shared), lifespan="off", timeout_graceful_shutdown=2, **quiet)
        server = uvicorn.Server(config)
        listener.listen(64)
        # Ctrl-C ends the server, which raises it again here.
        with suppress(KeyboardInterrupt):
            started(f"http://{_HOST}:{port}/open/{shared.secret}")
            server.run(sockets=[listener])


def address(path: str, **words: str) -> str:
    """Return the URL of a page with parameters, relative to all pages."""
    return f"{path}?{urlencode(words)}" if words else path


def readable(text: Any, most: int = _MOST_LETTERS) -> str:
    """Return a value of a row for display: shortened, with unprintable characters replaced."""
    said = "".join(sign if sign.isprintable() else "·" for sign in str(text)[: most + 1])
    return said if len(said) <= most else f"{said[: most - 1]}…"


async def _enter(visit: OwnerRequest) -> Response:
    """Sign in the browser that presents the secret."""
    shared = visit.shared
    # Link previews send HEAD requests, which must not use up the secret.
    if visit.request.method != "GET" or not shared.open(visit.request.path_params["secret"]):
        raise Unknown("page")
    # The page loads the next one itself: after a link from another site, browsers omit a strict cookie.
    response = await visit.page("onward.html", here=f"{shared.room}/", words="The editor opens by itself.")
    shared.let_in(response)
    return response


async def _lost(_: OwnerRequest) -> Response:
    raise Unknown("page")


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def most_percent(share: Fraction) -> str:
    """Format a share as a percentage, rounded up."""
    tenths = math.ceil(1000 * share)
    return f"{tenths / 10:.1f} %" if tenths < 1000 else "over 99.9 %"


def _share(share: float) -> str:
    """Format a share as a percentage; only exactly 1 becomes 100 %, and only exactly 0 becomes 0 %."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"
