"""Errors of the server.

::

    TacitError
    ├── AccessError
    │   └── Unknown          access.unknown  there is no such thing, for whoever asks
    ├── Unauthenticated      auth            nobody is known by what was shown
    ├── TooMany              rate            too often within a minute
    ├── Busy                 busy            nothing was done; try again
    └── RequestError         request.…       the bytes sent are not a request
"""

from __future__ import annotations

from tacit.core.errors import AccessError, TacitError

__all__ = ["Busy", "RequestError", "TooMany", "Unauthenticated", "Unknown"]


class Unknown(AccessError):  # noqa: N818  (the words are those of whoever asks)
    """There is no such thing, or whoever asks may not see it: the two are not told apart."""

    code = "access.unknown"

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no such {what}")


class Unauthenticated(TacitError):  # noqa: N818
    """Nothing was shown that stands for anybody; missing, malformed, unknown, expired and revoked are the same."""

    code = "auth"

    def __init__(self) -> None:
        super().__init__("show a token that is valid: Authorization: Bearer tacit_…")


class TooMany(TacitError):  # noqa: N818
    """Too often; ``seconds`` says when to come back."""

    code = "rate"

    def __init__(self, seconds: float) -> None:
        super().__init__("too many requests; wait as long as Retry-After says")
        self.seconds = seconds


class Busy(TacitError):  # noqa: N818
    """Everything is in use, or the server is about to stop. Nothing was done or charged."""

    code = "busy"

    def __init__(self) -> None:
        super().__init__("the server is busy; nothing was done, try again")


class RequestError(TacitError):
    """What was sent is not a request.

    Args:
        reason: the full code is ``request.<reason>``.
        status: of the response.
        sentence: what is wrong and what to send instead.
        headers: that the response must have.
    """

    code = "request"

    def __init__(self, reason: str, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers
        vars(self)["code"] = f"request.{reason}"
