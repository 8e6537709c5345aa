"""HTTP client with bounded retries for idempotent requests.

* Plain HTTP is used to this machine only; to any other, the token could be read in transit.
* Certificates are always checked. Redirects are never followed: a token is for the stated address only.
* Every request is free, or carries an Idempotency-Key under which it is charged once however often it arrives. So it is
  sent again after a lost connection, and where the server asks to wait.
* Responses are read up to a limit of bytes.

*Errors*, by a server's codes and for failed connections::

    TacitError
    └── RemoteError        remote         the server cannot be reached, or does not speak the language
        ├── SignInError    remote.auth    the token is missing, unknown, expired or withdrawn
        ├── RateError      remote.rate    too many requests, and waiting a little did not help
        └── TrustError     remote.trust   another key than the pinned one, or a receipt that does not hold
"""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tacit.client.responses import ErrorResponse
from tacit.core.errors import (
    AccessError,
    AccountingError,
    BudgetError,
    EngineError,
    InputError,
    InternalError,
    QueryError,
    TacitError,
)
from tacit.core.extras import install_command
from tacit.ledger.errors import BusyError, ConflictError, LedgerError, RollbackError
from tacit.noise import entropy
from tacit.query.refusal import CODES, Refusal
from tacit.releases.receipt import keys_once

if TYPE_CHECKING:
    import httpx2


class RemoteError(TacitError):
    """The server cannot be reached, or its response is not that of a Tacit server."""

    code = "remote"


class SignInError(RemoteError):
    """The server refuses the token, without a reason."""

    code = "remote.auth"


class RateError(RemoteError):
    """Too many requests in a short time; nothing was charged."""

    code = "remote.rate"


class TrustError(RemoteError):
    """The server is not the pinned one, or its receipt does not match the query and the charge."""

    code = "remote.trust"


#: The longest matching prefix decides: ``query.sample`` is a ``query``.
_CLASSES: Final[dict[str, type[TacitError]]] = {
    "query": QueryError,
    "budget": BudgetError,
    "access": AccessError,
    "accounting": AccountingError,
    "engine": EngineError,
    "internal": InternalError,
    "internal.ledger": LedgerError,
    "internal.rollback": RollbackError,
    "internal.busy": BusyError,
    "busy": BusyError,
    "ledger": LedgerError,
    "auth": SignInError,
    "rate": RateError,
}


def error_of(content: object, status: int) -> TacitError:
    """Return the error that a response describes: of the same class and message as the local one."""
    try:
        said = ErrorResponse.read(content).error
    except ValueError:
        return RemoteError(f"the server answered with status {status} and nothing that explains it")
    code, head = said.code, said.code.partition(".")[0]
    message = said.message or f"status {status}"
    if head in ("input", "conflict", "request"):
        kind = ConflictError if code in ("input.conflict", "conflict") else InputError
        parameter = said.parameter or "request"
        return kind(parameter, message.removeprefix(f"{parameter}: "))
    reason = code.removeprefix("query.")
    if reason in CODES:
        return Refusal.read(reason, message)
    found = _CLASSES.get(code) or _CLASSES.get(head, RemoteError)
    return found(f"{message} ({said.id})" if said.id and said.id not in message else message)


@contextmanager
def parsing(subject: str) -> Iterator[None]:
    """Turn any failure to parse a response into a :class:`RemoteError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as problem:
        if isinstance(problem, TacitError) and not isinstance(problem, InputError):
            raise
        raise RemoteError(f"{subject} that the server sent cannot be read: {problem}") from None


#: The most bytes of a response.
MOST_BYTES: Final = 64 * 2**20
#: Most attempts at one request.
ATTEMPTS: Final = 6
_KEY_BITS: Final = 128
_FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 30.0
#: Status codes to retry: a proxy without its server, a busy or restarting server, and rate limits.
_AGAIN: Final = frozenset({429, 502, 503, 504})
#: OpenSSL's messages for a certificate that this machine does not trust.
_UNKNOWN_AUTHORITY: Final = ("local issuer", "self-signed", "self signed")
_TRUST: Final = "; name the certificate of its authority in ca_file, or in the environment as SSL_CERT_FILE"
_TOKEN: Final = re.compile(r"[!-~]{1,512}\Z")


@dataclass(frozen=True)
class HttpReply:
    """Response: the JSON object in the body, and headers by lower-case name."""

    content: dict[str, Any]
    headers: Mapping[str, str]


def base_url(url: str) -> str:
    """Return the address without a trailing slash; refuse one that a token must not be sent to."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        raise InputError("url", f"must be an address such as 'https://tacit.example.org', got {url!r}") from None
    if parts.scheme not in ("https", "http") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError("url", f"must be an address such as 'https://tacit.example.org', got {url!r}")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError("url", "must be an address alone: no user, password, query or fragment")
    if parts.scheme == "http" and not _is_loopback(host):
        raise InputError("url", f"must be https://{host}: over http a token and the answers could be read on the way")
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def request_key(stated: str = "") -> str:
    """Return the Idempotency-Key of a request: as stated, or a new random one."""
    return stated or f"{entropy.current().bits(_KEY_BITS):032x}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class Channel:
    """HTTP connection to one server, safe for any number of threads; the token is sent with each request, never shown.

    Args:
        ca_file: certificates to trust instead of the system's.
        timeout: seconds to wait for a part of a response.
        sleep: function that waits; replaced in tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str | Path | None = None,
        timeout: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = base_url(url)
        if not _TOKEN.match(token):
            raise InputError("token", "must be the text that was shown when it was issued, such as 'tacit_…'")
        self._sleep = sleep
        self._closed = threading.Event()
        self._client = _client(self.url, token, ca_file, timeout)

    def get(
        self, path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpReply:
        """Send a GET request."""
        return _read(*self._exchange("GET", path, params=dict(query or {}), headers=dict(headers or {})))

    def download(self, path: str, query: Mapping[str, str]) -> bytes:
        """Send a GET request for a file."""
        status, headers, body = self._exchange("GET", path, params=dict(query), headers={"Accept": "*/*"})
        if status == 200:
            return body
        _read(status, headers, body)
        raise RemoteError(f"status {status} instead of a file")

    def post(self, path: str, body: str, headers: Mapping[str, str] | None = None) -> HttpReply:
        """Send a POST request that is free, or whose headers hold an Idempotency-Key."""
        words = {"Content-Type": "application/json", **(headers or {})}
        return _read(*self._exchange("POST", path, content=body.encode(), headers=words))

    def wait(self, seconds: float) -> None:
        """Wait before the next attempt."""
        if self._closed.is_set():
            raise RemoteError("the connection was closed")
        self._sleep(seconds)

    def close(self) -> None:
        """Close all connections."""
        self._closed.set()
        self._client.close()

    def __repr__(self) -> str:
        return f"<Channel {self.url}>"

    def _exchange(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, str], bytes]:
        import httpx2

        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            if self._closed.is_set():
                raise RemoteError("the connection was closed")
            try:
                status, headers, body = self._send(method, path, **more)
            except (httpx2.TransportError, httpx2.StreamError) as problem:
                if last or _is_hopeless(problem):
                    words = str(problem) or type(problem).__name__
                    remedy = _TRUST if any(each in words for each in _UNKNOWN_AUTHORITY) else ""
                    raise RemoteError(f"{self.url} cannot be reached: {words}{remedy}") from None
                self._sleep(_pause(attempt))
                continue
            if status not in _AGAIN or last:
                return status, headers, body
            self._sleep(_pause(attempt, headers.get("retry-after", "")))
        raise AssertionError("unreachable")  # pragma: no cover

    def _send(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, str], bytes]:
        with self._client.stream(method, f"{self.url}{path}", **more) as response:
            parts, size = [], 0
            for part in response.iter_bytes():
                size += len(part)
                if size > MOST_BYTES:
                    raise RemoteError(f"the response is longer than {MOST_BYTES >> 20} MiB and was not read")
                parts.append(part)
            return response.status_code, {k.lower(): v for k, v in response.headers.items()}, b"".join(parts)


def _client(url: str, token: str, ca_file: str | Path | None, timeout: float) -> httpx2.Client:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise InputError("url", f"asking a server needs httpx2: {install_command('client')}") from None
    try:
        trusted = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as problem:
        raise InputError("ca_file", f"cannot be used: {problem}") from None
    return httpx2.Client(
        verify=trusted,
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "tacit"},
        timeout=httpx2.Timeout(timeout, connect=10.0),
        follow_redirects=False,
        # A proxy from the environment may carry TLS, which it cannot read, but never requests to this machine.
        trust_env=url.startswith("https:"),
    )


def _read(status: int, headers: Mapping[str, str], body: bytes) -> HttpReply:
    if 300 <= status < 400:
        raise RemoteError(f"the server sends to another address (status {status}); connect to that one if you trust it")
    try:
        content = json.loads(body, object_pairs_hook=keys_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise RemoteError(f"status {status}, and what was sent is not JSON of a server of Tacit") from None
    if not 200 <= status < 300:
        raise error_of(content, status)
    if not isinstance(content, dict):
        raise RemoteError("what was sent is not JSON of a server of Tacit")
    return HttpReply(content, headers)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _pause(attempt: int, said: str = "") -> float:
    """Return the seconds to wait: the server's Retry-After, plus a delay that doubles with each attempt.

    Part of the delay is random, so that the many clients of a restarted server do not return all at once.
    """
    least = min(int(said), _LONGEST_WAIT) if said.isascii() and said.isdigit() and len(said) < 7 else 0.0
    spread = _FIRST_WAIT * 2**attempt
    return float(min(least + spread * (1 + entropy.current().bits(16) / 2**16) / 2, _LONGEST_WAIT))


def _is_hopeless(problem: Exception) -> bool:
    """Return whether a retry is pointless: a wrong certificate stays wrong."""
    text = str(problem)
    return "CERTIFICATE_VERIFY_FAILED" in text or "WRONG_VERSION_NUMBER" in text
