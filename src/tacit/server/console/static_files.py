"""Static files at content-addressed URLs."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tacit.server.console.csrf import HEADERS

_KINDS: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "editor.js": "text/javascript; charset=utf-8",
    "project.js": "text/javascript; charset=utf-8",
    "mark.svg": "image/svg+xml",
}


class Statics:
    """The files of the folder ``static``, read once."""

    def __init__(self) -> None:
        folder = files(__package__) / "static"
        self._contents = {name: (folder / name).read_bytes() for name in _KINDS}
        self._addresses = {
            name: f"/console/static/{hashlib.sha256(content).hexdigest()[:16]}/{name}"
            for name, content in self._contents.items()
        }

    def address(self, name: str) -> str:
        """Address of a file."""
        return self._addresses[name]

    async def serve(self, request: Request) -> Response:
        """The file at an address; an old address is none."""
        name = request.path_params["name"]
        if self._addresses.get(name) != f"/console/static/{request.path_params['digest']}/{name}":
            return PlainTextResponse("not found", 404, headers=dict(HEADERS))
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        return Response(self._contents[name], media_type=_KINDS[name], headers=headers)
