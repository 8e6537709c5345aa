"""Errors of the server.

::

    TacitError
    ├── AccessError
    │   ├── NotSignedIn      access.sign_in  a provider or this server refuses a person's sign-in
    │   └── Unknown          access.unknown  does not exist, or the caller may not see it
    ├── Unauthenticated      auth            missing or invalid token
    ├── TooMany              rate            too many requests within a minute
    ├── ProviderDown         provider        an identity provider is unavailable
    ├── Busy                 busy            nothing was done; try again
    └── RequestError         request.…       the bytes sent are not a request
"""

from __future__ import annotations

import html
import json
import math
from dataclasses import dataclass
from typing import Any, Final

from tacit.client.responses import ErrorDetailResponse, ErrorResponse
from tacit.core.errors import AccessError, InputError, TacitError
from tacit.releases.payment import log_failure


class Unknown(AccessError):  # noqa: N818  (an answer to the caller)
    """The object does not exist, or the caller may not see it; the error does not tell which."""

    code = "access.unknown"

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no such {what}")


class NotSignedIn(AccessError):  # noqa: N818
    """A sign-in at a provider that opens no session."""

    code = "access.sign_in"


class Unauthenticated(TacitError):  # noqa: N818
    """Missing or invalid token; the error does not tell missing, malformed, unknown, expired and revoked apart."""

    code = "auth"

    def __init__(self) -> None:
        super().__init__("show a token that is valid: Authorization: Bearer tacit_…")


class TooMany(TacitError):  # noqa: N818
    """Too many requests; ``seconds`` is the time until the next one is allowed."""

    code = "rate"

    def __init__(self, seconds: float) -> None:
        super().__init__("too many requests; wait for the seconds of Retry-After")
        self.seconds = seconds


class Busy(TacitError):  # noqa: N818
    """All capacity is in use, or the server is about to stop. Nothing was done or charged."""

    code = "busy"

    def __init__(self) -> None:
        super().__init__("the server is busy; nothing was done, try again")


class ProviderDown(TacitError):  # noqa: N818
    """An identity provider cannot be reached or violates the protocol; the operator's log has the reason."""

    code = "provider"

    def __init__(self, name: str) -> None:
        super().__init__(f"the identity provider {name} cannot be used now; sessions and tokens go on working")


class RequestError(TacitError):
    """The bytes sent are no valid request; the code is ``request.<reason>``, the message has what to send instead."""

    code = "request"

    def __init__(self, reason: str, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers
        vars(self)["code"] = f"request.{reason}"


#: Status by code; a code such as ``query.sample`` counts as ``query`` unless it is listed itself.
STATUS: Final = {
    "input": 400,
    "input.conflict": 409,
    "query": 422,
    "budget": 402,
    "access": 403,
    "access.unknown": 404,
    "accounting": 422,
    "engine": 500,
    "engine.source": 503,
    "engine.delayed": 503,
    "internal": 500,
    "internal.ledger": 503,
    "internal.rollback": 503,
    "internal.busy": 503,
    "auth": 401,
    "rate": 429,
    "busy": 503,
    "provider": 503,
}
_LONGEST: Final = 2_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Public description of a failure; callers may match on its code.

    Args:
        id: identifies the reason in the operator's log, where it is not public.
        parameter: name of the invalid input.
        headers: headers that the response must have.
    """

    status: int
    code: str
    message: str
    id: str = ""
    parameter: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()


def describe(problem: BaseException) -> Failure:
    """Return the public description of a failure.

    If its message might quote data, the description has an id, under which the operator's log has the message.
    """
    if not isinstance(problem, TacitError) or problem.opaque:
        return _opaque(problem)
    code, message = problem.code, str(problem)[:_LONGEST]
    if isinstance(problem, RequestError):
        return Failure(problem.status, code, message, headers=problem.headers)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(problem, Unauthenticated):
        headers = ((b"www-authenticate", b"Bearer"),)
    elif isinstance(problem, TooMany):
        headers = ((b"retry-after", str(math.ceil(problem.seconds)).encode()),)
    elif isinstance(problem, Busy):
        headers = ((b"retry-after", b"1"),)
    parameter = problem.parameter[:_LONGEST] if isinstance(problem, InputError) else ""
    return Failure(_status(code), code, message, id=problem.id, parameter=parameter, headers=headers)


def failure_json(failure: Failure) -> dict[str, Any]:
    """Return the JSON object of an error response; all errors have this shape."""
    more = {name: text for name in ("id", "parameter") if (text := getattr(failure, name))}
    return ErrorResponse(error=ErrorDetailResponse(code=failure.code, message=failure.message, **more)).plain()


def failure_bytes(failure: Failure) -> bytes:
    """Return the body of an error response, as JSON."""
    return json.dumps(failure_json(failure), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def page(failure: Failure) -> bytes:
    """Return an HTML page about a failure, for browsers, if the console itself has failed."""
    title = "Something failed" if failure.status >= 500 else "That did not work"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
        f"<p>{html.escape(failure.message)}</p></html>"
    ).encode("utf-8", "replace")


def _status(code: str) -> int:
    return STATUS.get(code) or STATUS.get(code.partition(".")[0], 500)


def _opaque(problem: BaseException) -> Failure:
    code = problem.code if isinstance(problem, TacitError) else "internal"
    name = (problem.id if isinstance(problem, TacitError) else "") or log_failure(problem)
    headers = ((b"retry-after", b"1"),) if code == "internal.busy" else ()
    message = f"it could not be done; the operator's log has the reason under {name}"
    return Failure(_status(code), code, message, id=name, headers=headers)
