"""Error responses: one shape, without protected text."""

from __future__ import annotations

import html
import json
import math
from dataclasses import dataclass
from typing import Any, Final

from tacit.client.responses import ErrorDetailResponse, ErrorResponse
from tacit.core.errors import InputError, TacitError
from tacit.releases.payment import log_failure
from tacit.server.errors import Busy, RequestError, TooMany, Unauthenticated

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
        id: under which the operator's log has the reason, where that is not told.
        parameter: the input that cannot be used.
        headers: that the response must have.
    """

    status: int
    code: str
    message: str
    id: str = ""
    parameter: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()


def describe(problem: BaseException) -> Failure:
    """Public description of a failure; if its words might quote data, an id, and the operator's log gets the rest."""
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
    """The one shape of every error."""
    more = {name: text for name in ("id", "parameter") if (text := getattr(failure, name))}
    return ErrorResponse(error=ErrorDetailResponse(code=failure.code, message=failure.message, **more)).plain()


def failure_bytes(failure: Failure) -> bytes:
    """Bytes of an error response."""
    return json.dumps(failure_json(failure), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def page(failure: Failure) -> bytes:
    """Page about a failure, for browsers, where the console itself has failed."""
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
