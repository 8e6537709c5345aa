"""API request and response objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.server.api.bearer import bearer
from tacit.server.api.content_negotiation import JSON, json_bytes
from tacit.server.api.errors import describe, failure_bytes
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Unauthenticated

if TYPE_CHECKING:
    from tacit.server.departure import QuestionDeparture
    from tacit.server.identity import Access, Job

__all__ = ["ApiRequest", "ApiResponse", "Route", "failed", "told"]


@dataclass(slots=True)
class ApiResponse:
    """A response.

    Args:
        status: its status.
        body: its bytes.
        form: their media type.
        headers: more than those that every response has.
        after: to be called once the response is on its way.
        policy: what a browser may do with it; nothing, unless said.
    """

    status: int
    body: bytes
    form: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    after: Callable[[], None] | None = None
    policy: bytes = b"default-src 'none'; frame-ancestors 'none'"


@dataclass(slots=True)
class ApiRequest:
    """One request, as handlers see it; they run in a thread.

    Args:
        floor: what they work with.
        headers: by name, in small letters.
        address: of the caller.
        part: what stands in the path where the route has a name in braces.
        query: parameters of the path.
        body: as it arrived.
        access: who it is, once that is known.
        held: whether the response leaves in a slot.
        about: what may be logged and counted: public things only.
        put_off: begins jobs, once the response is on its way.
        departure: decides when what was found may become known.
    """

    floor: WorkerRuntime
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
        """Who asks, if they have not come too often."""
        token = bearer(self.headers)
        self.access = self.floor.authenticated(token, self.address)
        self.about |= {"analyst": self.access.person.name, "token": self.access.id}
        self.floor.rates[rate].take(self.access.person.name)
        return self.access

    @property
    def someone(self) -> Access:
        """Whoever was found by :meth:`caller`."""
        if self.access is None:
            raise Unauthenticated
        return self.access


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint.

    Args:
        method: in capitals.
        path: with a name in braces for a part that varies, at its end.
        handle: serves a call, in a thread.
        rate: what it counts as; empty where anybody may come.
        query: parameters that it knows.
        takes: whether it has a body.
        asks: whether it reads data: it then has the threads for questions, and may leave in a slot.
        slashes: whether the part that varies may have some, as names of people may.
    """

    method: str
    path: str
    handle: Callable[[ApiRequest], ApiResponse]
    rate: str = "reads"
    query: tuple[str, ...] = ()
    takes: bool = False
    asks: bool = False
    slashes: bool = False

    def serve(self, call: ApiRequest) -> ApiResponse:
        """The response to a call, whatever happens."""
        return self.admit(call) or self.reply(call)

    def admit(self, call: ApiRequest) -> ApiResponse | None:
        """Find out who calls; a response for those who may not."""
        try:
            if self.rate:
                call.caller(self.rate)
        except Exception as problem:
            return failed(problem, call.about)
        return None

    def reply(self, call: ApiRequest) -> ApiResponse:
        """The response to a call whose caller is known, whatever happens."""
        try:
            return self.handle(call)
        except Exception as problem:
            return failed(problem, call.about)


def told(content: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> ApiResponse:
    """A response in JSON."""
    return ApiResponse(status, json_bytes(content), headers=headers)


def failed(problem: BaseException, about: dict[str, Any]) -> ApiResponse:
    """The response to a failure."""
    failure = describe(problem)
    about["code"] = failure.code
    if failure.id:
        about["id"] = failure.id
    return ApiResponse(failure.status, failure_bytes(failure), headers=failure.headers)
