"""API request and response objects, and the table entry of an endpoint."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.background import BackgroundTask
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from tacit.releases.api_types import RequestModel, ResponseModel
from tacit.server.api.content_negotiation import JSON, json_bytes
from tacit.server.api.errors import describe, failure_bytes
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Unauthenticated, Unknown

if TYPE_CHECKING:
    from tacit.server.departure import QuestionDeparture
    from tacit.server.identity import Access, Job

Lines = tuple[tuple[bytes, bytes], ...]

#: Headers of every response.
ALWAYS: Final[Lines] = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]{1,512})\Z", re.IGNORECASE)
_POSITION: Final = re.compile("[1-9][0-9]{0,17}")


class _Slashes(PathConvertor):
    """A part of a path that may contain slashes, and is not empty."""

    regex = ".+"


register_url_convertor("slashes", _Slashes())


class ApiResponse(Response):
    """A response with the headers that every response has, and further ones.

    Args:
        form: media type of the body.
        after: run on the event loop once the response was sent.
        policy: content security policy; allows nothing by default.
    """

    def __init__(
        self,
        status: int,
        body: bytes,
        form: str = JSON,
        headers: Lines = (),
        after: Callable[[], Awaitable[None]] | None = None,
        policy: bytes = b"default-src 'none'; frame-ancestors 'none'",
    ) -> None:
        super().__init__(body, status, media_type=form, background=None if after is None else BackgroundTask(after))
        self.raw_headers += ((b"content-security-policy", policy), *ALWAYS, *headers)


@dataclass(slots=True)
class ApiRequest:
    """One request, as handlers see it; they run in a thread.

    Args:
        headers: by name, in small letters.
        part: the text in the path where the route has a name in braces.
        query: parameters of the path.
        access: the caller, once authenticated.
        held: whether the response leaves in a slot.
        about: public facts that may be logged and counted.
        put_off: begins a job; to be called on the event loop.
        departure: decides when the outcome may become known.
    """

    runtime: WorkerRuntime
    headers: dict[bytes, bytes]
    address: str = ""
    part: str = ""
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    access: Access | None = None
    held: bool = False
    about: dict[str, Any] = field(default_factory=dict)
    put_off: Callable[[Job], None] | None = None
    departure: QuestionDeparture | None = None

    def caller(self, rate: str) -> Access:
        """Authenticate the caller by the bearer token, and count the request to a rate."""
        shown = _BEARER.match(self.headers.get(b"authorization", b"").strip())
        self.access = self.runtime.authenticated(shown.group(1).decode("ascii") if shown else "", self.address)
        self.about |= {"analyst": self.access.person.name, "token": self.access.id}
        self.runtime.rates[rate].take(self.access.person.name)
        return self.access

    def position(self, what: str) -> int:
        """The place of a charge that the path names.

        Raises:
            Unknown: the text is no such number; there is no ``what`` there.
        """
        if _POSITION.fullmatch(self.part) is None:
            raise Unknown(what)
        return int(self.part)

    @property
    def user(self) -> Access:
        """The caller that :meth:`caller` authenticated."""
        if self.access is None:
            raise Unauthenticated
        return self.access


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint.

    Args:
        method: in capitals.
        path: with a name in braces for a part that varies, at its end.
        handle: serves a request, in a thread; the first line of its docstring is the summary.
        gives: the bodies of its responses, by status.
        body: the bodies that it takes, told apart by their ``kind``; none for no body.
        fails: statuses of failures, beside those that any request may get.
        rate: the rate limit that counts it; empty where no token is needed.
        query: parameters that it knows.
        asks: whether it reads data: it then uses the threads for questions, and may leave in a slot.
        slashes: whether the part that varies may contain slashes, as names of people may.
    """

    method: str
    path: str
    handle: Callable[[ApiRequest], ApiResponse]
    gives: Mapping[int, type[ResponseModel]] = field(default_factory=dict)
    body: tuple[type[RequestModel], ...] = ()
    fails: tuple[int, ...] = ()
    rate: str = "reads"
    query: tuple[str, ...] = ()
    asks: bool = False
    slashes: bool = False

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.handle.__doc__ or "").partition("\n")[0].removesuffix(".")

    @property
    def pattern(self) -> str:
        """The path as Starlette writes it."""
        return self.path.replace("}", ":slashes}") if self.slashes else self.path

    def serve(self, call: ApiRequest) -> ApiResponse:
        """Authenticate the caller where that is needed, and answer."""
        if self.rate:
            call.caller(self.rate)
        return self.handle(call)


def json_response(content: Any, status: int = 200, headers: Lines = ()) -> ApiResponse:
    """A response in JSON."""
    return ApiResponse(status, json_bytes(content), headers=headers)


def error_response(problem: BaseException, about: dict[str, Any]) -> ApiResponse:
    """The response to a failure."""
    failure = describe(problem)
    about["code"] = failure.code
    if failure.id:
        about["id"] = failure.id
    return ApiResponse(failure.status, failure_bytes(failure), headers=failure.headers)
