"""Gate of the editor: a secret that works once, a cookie, and forms from here alone.

The pages show rows of protected data, and every user and every page in a browser of this machine can reach a port on
it. So a request counts only if it names this machine as its host (a name elsewhere that was made to point here does
not), and brings the cookie that the first visit got in exchange for the secret; a form also brings a token that only
the pages hold. The cookie is for a path that is drawn anew with each run, because browsers send those of 127.0.0.1 to
every port. The secret is of no use after that.
"""

from __future__ import annotations

import threading
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tacit.server.console.csrf import from_here, new_door, same

_COOKIE: Final = "tacit_editor"


class EditorGate:
    """Secrets of one run of the editor.

    Args:
        port: that it listens on; part of the names of its host and of its cookie, which browsers share among ports.
    """

    def __init__(self, port: int) -> None:
        self.secret = new_door()
        self.csrf = new_door()
        self._session = new_door()
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie = f"{_COOKIE}_{port}"
        #: Browsers send a cookie to every port of this machine, but only below its path, which no other server knows.
        self.room = f"/{new_door()}"
        self._used = False
        self._lock = threading.Lock()

    def is_host(self, request: Request) -> bool:
        """Whether a request names this machine and port, once."""
        named = request.headers.getlist("host")
        return len(named) == 1 and named[0].lower() in self._hosts

    def open(self, secret: str) -> bool:
        """Whether the secret is right and was not used before; it is used now."""
        with self._lock:
            if self._used or not same(secret, self.secret):
                return False
            self._used = True
            return True

    def let_in(self, response: Response) -> None:
        """Give the browser its cookie."""
        response.set_cookie(self._cookie, self._session, path=self.room, httponly=True, samesite="strict")

    def knows(self, request: Request) -> bool:
        """Whether a request has the cookie."""
        return same(request.cookies.get(self._cookie, ""), self._session)

    def believes(self, request: Request, token: str) -> bool:
        """Whether a form comes from a page of this editor."""
        return from_here(request) and same(token, self.csrf)
