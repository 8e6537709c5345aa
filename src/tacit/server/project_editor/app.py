"""Application of the editor and the loopback server that shows it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from tacit.core.errors import InputError, TacitError
from tacit.project.project_editing import MOST_TEXT, EditedProject
from tacit.server.api.request_limits import body_of
from tacit.server.console.csrf import HEADERS, read_form
from tacit.server.project_editor import budget_page, column_page, data_page, save_page, table_page
from tacit.server.project_editor.gate import EditorGate
from tacit.server.project_editor.owner_pages import EditorState, EditorVisit, OwnerHandler

#: A form holds the text of the file at most, and every letter of it may be nine.
_MOST_FORM: Final = 9 * MOST_TEXT + 65_536
_FORM_SECONDS: Final = 30.0
_MOST_WORDS: Final = 1000
_HOST: Final = "127.0.0.1"


def editor_app(editing: EditedProject, gate: EditorGate, finish: Callable[[], None]) -> ASGIApp:
    """The pages of the editor; ``finish`` ends the server, after the response that says so."""
    state = EditorState(editing, gate, finish)
    table: tuple[tuple[str, str, OwnerHandler], ...] = (
        ("GET", "/", data_page.show_data),
        ("POST", "/", data_page.add_file),
        ("POST", "/database", data_page.add_database),
        ("POST", "/limits", data_page.change_limits),
        ("GET", "/files", data_page.list_files_beside),
        ("GET", "/table", table_page.show_table),
        ("POST", "/table", table_page.change_table),
        ("POST", "/remove", table_page.remove_table),
        ("GET", "/column", column_page.show_column),
        ("POST", "/column", column_page.change_column),
        ("GET", "/budget", budget_page.show_budget),
        ("POST", "/budget", budget_page.change_budget),
        ("GET", "/save", save_page.show_save),
        ("POST", "/save", save_page.save),
        ("POST", "/text", save_page.change_text),
        ("POST", "/close", save_page.close),
    )
    routes = [Route(path, _endpoint(state, handler), methods=[method]) for method, path, handler in table]
    door = Route("/open/{secret}", _door(state), methods=["GET"])
    statics = Route("/console/static/{digest}/{name}", state.statics.serve)
    lost = Route("/{path:path}", _endpoint(state, _lost), methods=["GET", "POST"])
    return Starlette(routes=[door, statics, Mount(gate.room, routes=[*routes, lost]), lost])


def run_editor(editing: EditedProject, started: Callable[[str], None]) -> None:
    """Serve the editor to this machine alone until it is finished, or interrupted.

    ``started`` gets the address to open, once; it holds the secret.
    """
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((_HOST, 0))
        port = listener.getsockname()[1]
        gate = EditorGate(port)

        def finish() -> None:
            server.should_exit = True

        app = editor_app(editing, gate, finish)
        settings: dict[str, Any] = {"log_level": "critical", "access_log": False, "server_header": False}
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=2, **settings))
        listener.listen(64)
        # Ctrl-C is a way to end it, and arrives here again once the server has.
        with suppress(KeyboardInterrupt):
            started(f"http://{_HOST}:{port}/open/{gate.secret}")
            server.run(sockets=[listener])


def _door(state: EditorState) -> Callable[[Request], Any]:
    async def opened(request: Request) -> Response:
        gate = state.gate
        if not gate.is_host(request):
            return _wrong_host()
        # A program that looks at a link before it is followed asks for its head, and must not use it up.
        if request.method != "GET" or not gate.open(request.path_params["secret"]):
            return _stranger(state)
        # The page asks for the next one by itself: a browser that came from elsewhere keeps a strict cookie back.
        text = state.pages.get_template("editor_open.html").render({**_bare(), "room": f"{gate.room}/"})
        response = HTMLResponse(text, headers=dict(HEADERS))
        gate.let_in(response)
        return response

    return opened


def _endpoint(state: EditorState, handler: OwnerHandler) -> Callable[[Request], Any]:
    async def visited(request: Request) -> Response:
        if not state.gate.is_host(request):
            return _wrong_host()
        if not state.gate.knows(request):
            return _stranger(state)
        visit = EditorVisit(state, request)
        try:
            if request.method == "POST":
                visit.form = read_form(request, await body_of(request, _MOST_FORM, _FORM_SECONDS))
                if not state.gate.believes(request, visit.form.get("csrf", "")):
                    raise InputError("form", "did not come from a page of this editor; nothing was done")
            return await handler(visit)
        except ClientDisconnect:
            raise
        except TacitError as problem:
            return await visit.page("editor_problem.html", 400, problem=str(problem))
        except Exception as problem:
            # The words are for the owner, whose data it is; they are on no other screen.
            words = f"{type(problem).__name__}: {problem}"[:_MOST_WORDS]
            return await visit.page("editor_problem.html", 500, problem=words)

    return visited


async def _lost(visit: EditorVisit) -> Response:
    return await visit.page("editor_problem.html", 404, problem="There is no such page.")


def _stranger(state: EditorState) -> Response:
    text = state.pages.get_template("editor_stranger.html").render(_bare())
    return HTMLResponse(text, 403, headers=dict(HEADERS))


def _bare() -> dict[str, Any]:
    """The context of a page that shows nothing of the project."""
    return {"person": None, "home": "./", "csrf": "", "project": "project editor", "steps": []}


def _wrong_host() -> Response:
    return PlainTextResponse("this editor answers to 127.0.0.1 alone", 421, headers=dict(HEADERS))
