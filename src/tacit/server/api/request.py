"""Requests of the API: limits, strict JSON bodies, the form of the reply, and the table entry of an endpoint.

The limits of paths, headers and bodies do not depend on an HTTP server or a proxy in front. A body is refused if it is
not UTF-8 or has a byte order mark, a duplicate key, NaN or infinities, lone surrogates, numbers of absurd length or
size, or bytes after the end. Numbers are parsed as ``int`` or ``Decimal``, so that one tenth stays one tenth.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.background import BackgroundTask
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Scope

from tacit.client.responses import read_query
from tacit.core.errors import InputError
from tacit.core.numbers import MAX_DIGITS
from tacit.query.request import Request
from tacit.releases.api_types import RequestModel, ResponseModel
from tacit.releases.kinds import KINDS
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import RequestError, Unauthenticated, Unknown, describe, failure_bytes
from tacit.server.settings import Settings

if TYPE_CHECKING:
    from tacit.server.identity import Access, Job
    from tacit.server.timing import ResponseTimer

JSON: Final = "application/json"


def wants_job(headers: dict[bytes, bytes]) -> bool:
    """Whether the caller prefers polling to waiting (RFC 7240, ``respond-async``)."""
    raw = headers.get(b"prefer", b"").decode("latin-1").lower()
    return any(part.partition(";")[0].strip() == "respond-async" for part in raw.split(","))


def json_bytes(content: Any) -> bytes:
    """Return compact JSON in the key order of the content; equal content gives equal bytes."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


#: Headers that affect the response; duplicates would be ambiguous.
_ONCE: Final = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"idempotency-key",
        b"origin",
        b"sec-fetch-site",
        b"tacit-repeat",
        b"tacit-seen",
        b"x-csrf-token",
    )
)
#: Ambiguous paths: invalid percent encodings, encodings of unreserved characters (RFC 3986, 2.3) or of control
#: characters, unencoded special characters, and dot segments. A proxy in front may parse such a path differently.
_ODD_PATH: Final = re.compile(
    rb"%(?![0-9A-Fa-f]{2})|%([01][0-9A-Fa-f]|7[EeFf]|2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])"
    rb"|[^\x21-\x7e]|/\.\.?(/|\Z)"
)
_JSON: Final = re.compile(rb'application/json(\s*;\s*charset\s*=\s*("utf-8"|utf-8))?\s*\Z', re.IGNORECASE)
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}\Z")
_CLOSE: Final = ((b"connection", b"close"),)
_MOST_PARAMETERS: Final = 16


def check_scope(scope: Scope, settings: Settings) -> dict[bytes, bytes]:
    """Return the headers of a request by lower-case name; refuse a head or path that is too long or ambiguous."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    if len(raw) + len(scope.get("query_string", b"")) > settings.max_path:
        raise RequestError("path", 414, "the path is too long", _CLOSE)
    if _ODD_PATH.search(raw) or not _is_text(raw):
        raise RequestError("path", 400, "the path is encoded in an unusual way")
    lines = scope["headers"]
    if len(lines) > settings.max_headers or sum(len(k) + len(v) for k, v in lines) > settings.max_header_bytes:
        raise RequestError("headers", 431, "the headers are too many or too long", _CLOSE)
    found: dict[bytes, bytes] = {}
    for name, value in lines:
        name = name.lower()
        if name in found and name in _ONCE:
            raise RequestError("headers", 400, f"the header {name.decode()} occurs twice")
        found[name] = found[name] + b", " + value if name in found else value
    return found


def check_type(headers: dict[bytes, bytes]) -> None:
    """Refuse a body that is not declared as JSON, or is compressed."""
    if _JSON.match(headers.get(b"content-type", b"")) is None:
        raise RequestError("type", 415, "send JSON: Content-Type: application/json")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise RequestError("type", 415, "send the body without Content-Encoding")


async def body_of(request: HttpRequest, most: int, seconds: float) -> bytes:
    """Read the body of a request, counting bytes while they arrive.

    Raises:
        ClientDisconnect: the client disconnected before the body was complete.
        RequestError: too large, or too slow.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > most):
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RequestError("time", 408, "the body took too long to arrive", _CLOSE) from None
    return bytes(body)


def query_of(scope: Scope, known: Iterable[str]) -> dict[str, str]:
    """Return the parameters of a query string; each must be known and stated at most once."""
    raw = scope.get("query_string", b"")
    if not raw:
        return {}
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise RequestError("path", 400, "the parameters of the path cannot be read") from None
    names = tuple(known)
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in names:
            raise InputError(name[:80], f"is not a parameter; there are {', '.join(names) or 'none'}")
        if name in found:
            raise InputError(name, "is stated twice")
        found[name] = value
    return found


def idempotency_key(headers: dict[bytes, bytes]) -> str:
    """Return the idempotency key of a request; empty if it has none."""
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return ""
    text = raw.decode("latin-1")
    if _KEY.match(text) is None:
        raise InputError("Idempotency-Key", "must be 1 to 200 visible ASCII characters, without spaces")
    return text


def _is_text(raw: bytes) -> bool:
    """Whether the bytes that a percent-encoded path stands for are UTF-8."""
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_large(most: int) -> RequestError:
    return RequestError("size", 413, f"the body has more than {most} bytes", _CLOSE)


#: Request that a job may run: a query, or a release of any kind.
JobRequest = Request | RequestModel

#: Largest absolute value of a decimal exponent.
MAX_EXPONENT: Final = 40
_HALF: Final = re.compile("[\ud800-\udfff]")


def ask_of(body: bytes) -> Request:
    """Parse a body as a query.

    Raises:
        RequestError, InputError: the body is not a query.
    """
    return read_query(read_json(body))


def release_of(body: bytes) -> RequestModel:
    """Parse a body as the request for a release of any kind.

    Raises:
        RequestError, InputError: the body is no such request.
    """
    content = read_json(body)
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str) or content["kind"] not in KINDS:
        raise InputError("kind", f"must be one of {', '.join(KINDS)}")
    return KINDS[content["kind"]].request.of(content)


def job_text(asked: JobRequest, key: str) -> str:
    """Return the canonical text of a job's request and key, equal for equal requests; :func:`job_back` parses it."""
    is_query = isinstance(asked, Request)
    stated = asked.stated
    if isinstance(asked, Request):
        stated = {"sql": asked.sql, **{name: value for name, value in asked.options.items() if value is not None}}
    # Of two synthetic tables, the first is the table of persons.
    return json.dumps([stated, key], sort_keys=is_query, separators=(",", ":"), default=str)


def job_back(text: str) -> tuple[JobRequest, str]:
    """Return the request and the key from the text that :func:`job_text` wrote."""
    stated, key = json.loads(text)
    if "kind" in stated:
        return KINDS[stated["kind"]].request.model_construct(**stated), key
    return Request(**stated), key


def read_json(body: bytes) -> Any:
    """Parse a JSON text; numbers become ``int`` or ``Decimal``.

    Raises:
        RequestError: it is not JSON, or is ambiguous.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused("is not UTF-8") from None
    try:
        value = _DECODER.decode(text)
        half = "\\u" in text and _has_half(value)
    except RecursionError:
        raise _refused("is nested too deeply") from None
    except ValueError as problem:
        raise _refused(f"is not JSON: {_words(problem)}") from None
    if half:
        raise _refused("holds half of a character (a lone surrogate)")
    return value


def _number(text: str) -> int | Decimal:
    # The length before the exponent is limited, so that parsing stays cheap.
    mantissa, _, exponent = text.lower().partition("e")
    digits = mantissa.lstrip("-").replace(".", "").lstrip("0")
    if len(digits) > MAX_DIGITS or len(mantissa) > 2 * MAX_DIGITS:
        raise _refused(f"holds a number of more than {MAX_DIGITS} digits")
    if exponent and (len(exponent) > 6 or abs(int(exponent)) > MAX_EXPONENT):
        raise _refused(f"holds a number with an exponent beyond ±{MAX_EXPONENT}")
    return int(text) if mantissa.lstrip("-") == text.lstrip("-") and "." not in text else Decimal(text)


def _no_constant(text: str) -> Any:
    raise _refused(f"holds {text}, which is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _refused("has a key that occurs twice")
    return found


def _has_half(value: Any) -> bool:
    if isinstance(value, str):
        return _HALF.search(value) is not None
    if isinstance(value, dict):
        return any(_has_half(key) or _has_half(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_half, value))


def _refused(what: str) -> RequestError:
    return RequestError("body", 400, f"the body {what}")


def _words(problem: ValueError) -> str:
    """Describe a parse error by its position, without quoting the text."""
    return f"{problem.msg} at character {problem.pos}" if isinstance(problem, json.JSONDecodeError) else "unreadable"


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_float=_number, parse_int=_number, parse_constant=_no_constant
)


Lines = tuple[tuple[bytes, bytes], ...]

#: Headers of every response.
ALWAYS: Final[Lines] = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]{1,512})\Z", re.IGNORECASE)
_POSITION: Final = re.compile("[1-9][0-9]{0,17}")


class ApiResponse(Response):
    """A response with the common headers, and further ones.

    Args:
        form: media type of the body.
        after: coroutine run on the event loop after the response was sent.
        policy: content security policy; by default it allows nothing.
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
    """One request as handlers see it; handlers run in a thread.

    Args:
        headers: by lower-case name.
        part: value of the path parameter, if the route has one.
        query: parameters of the query string.
        access: the caller, once authenticated.
        held: whether the response is held until a response time.
        about: public facts that may be logged and counted.
        put_off: begins a job; to be called on the event loop.
        timer: decides when the outcome may become known.
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
    timer: ResponseTimer | None = None

    def caller(self, rate: str) -> Access:
        """Authenticate the caller by the bearer token, and count the request against a rate limit."""
        shown = _BEARER.match(self.headers.get(b"authorization", b"").strip())
        self.access = self.runtime.authenticated(shown.group(1).decode("ascii") if shown else "", self.address)
        self.about |= {"analyst": self.access.person.name, "token": self.access.id}
        self.runtime.rates[rate].take(self.access.person.name)
        return self.access

    def position(self, what: str) -> int:
        """Return the ledger position in the path.

        Raises:
            Unknown: the text is no valid position of a ``what``.
        """
        if _POSITION.fullmatch(self.part) is None:
            raise Unknown(what)
        return int(self.part)

    @property
    def user(self) -> Access:
        """Caller that :meth:`caller` authenticated."""
        if self.access is None:
            raise Unauthenticated
        return self.access


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint.

    Args:
        method: HTTP method in capitals.
        path: may end with a path parameter in braces.
        handle: serves a request, in a thread; the first line of its docstring is the summary.
        gives: response bodies by status; the first is that of a result that is no ApiResponse.
        body: accepted request bodies, distinguished by their ``kind``; none for no body.
        fails: statuses of failures, in addition to those that any request may get.
        rate: name of the rate limit that counts it; empty if no token is needed.
        query: known parameters of the query string.
        asks: whether it reads data: it then uses the threads for queries, and its response may be held.
    """

    method: str
    path: str
    handle: Callable[[ApiRequest], ApiResponse | ResponseModel]
    gives: Mapping[int, type[ResponseModel]] = field(default_factory=dict)
    body: tuple[type[RequestModel], ...] = ()
    fails: tuple[int, ...] = ()
    rate: str = "reads"
    query: tuple[str, ...] = ()
    asks: bool = False

    @property
    def summary(self) -> str:
        return (self.handle.__doc__ or "").partition("\n")[0].removesuffix(".")

    def serve(self, call: ApiRequest) -> ApiResponse:
        """Authenticate the caller if necessary, and return the response."""
        if self.rate:
            call.caller(self.rate)
        return self.answer(call)

    def answer(self, call: ApiRequest) -> ApiResponse:
        """Return the response to a caller who is authenticated if necessary."""
        found = self.handle(call)
        if isinstance(found, ApiResponse):
            return found
        return ApiResponse(next(iter(self.gives)), json_bytes(found.plain()))


def error_response(problem: BaseException, about: dict[str, Any]) -> ApiResponse:
    """Return the response to a failure, and note its code."""
    failure = describe(problem)
    about["code"] = failure.code
    if failure.id:
        about["id"] = failure.id
    return ApiResponse(failure.status, failure_bytes(failure), headers=failure.headers)
