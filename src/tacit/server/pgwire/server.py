"""Connections of PostgreSQL clients: TLS, start-up, proof of identity, cancelling, shutdown.

A client has some seconds to complete start-up. Its password is a token, which is never requested in the clear or as
md5; the only mechanism is SCRAM-SHA-256, with channel binding on TLS. Where the server has a certificate, connections
without TLS are refused; without one it listens on loopback alone.

A cancel request arrives on a separate connection, possibly at another worker. Its secret is a keyed hash of the
connection's number, with a key that all workers share, so any of them can check it; the number is then marked in shared
memory, which the worker of the connection polls while a query runs.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.noise import entropy
from tacit.releases.payment import log_failure
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Busy
from tacit.server.identity import Access
from tacit.server.identity.scram import MECHANISM, MECHANISM_PLUS, ScramError, ScramExchange
from tacit.server.pgwire.catalog import Catalogues
from tacit.server.pgwire.protocol import (
    CANCEL,
    GSS,
    MAX_SASL,
    TLS,
    FrontendMessage,
    StartUp,
    WireFault,
    authentication,
    backend_key,
    error_of,
    negotiate,
    parameter_status,
    read_message,
    read_start_up,
    ready,
)
from tacit.server.pgwire.session import ClientQueries, WireSession
from tacit.server.pgwire.variables import REPORTED, SessionVariables, read_options
from tacit.server.rate_limit import Buckets
from tacit.server.serve.http_protocol import Connections

if TYPE_CHECKING:
    from tacit.server.settings import Settings

_PIECE: Final = 65_536
#: Seconds for a client to read the bytes sent to it.
_WRITE_SECONDS: Final = 30.0
#: Number of unsent bytes from which on a writer waits for the client.
_HIGH_WATER: Final = 262_144


class WireStream:
    """Reads messages and writes bytes.

    A message has at most ``most`` bytes, and is complete within ``seconds`` of its first byte.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int, seconds: float) -> None:
        self._reader = reader
        self._writer = writer
        self._most = most
        self._seconds = seconds
        self._out = bytearray()
        #: Whether the connection uses TLS.
        self.secure = False
        writer.transport.set_write_buffer_limits(_HIGH_WATER)

    async def start_up(self) -> StartUp:
        """Return the first message of the connection."""
        return await read_start_up(self._reader)

    async def receive(self, most: int | None = None) -> FrontendMessage:
        """Return the next message, waiting for its first byte without a time limit.

        Raises:
            WireFault: it is malformed, or took too long.
            EOFError: the client has left.
        """
        return await read_message(self._reader, most or self._most, self._seconds)

    def write(self, data: bytes) -> None:
        """Queue bytes for the next :meth:`flush`."""
        self._out += data

    async def spill(self) -> None:
        """Flush if many bytes are queued."""
        if len(self._out) > _PIECE:
            await self.flush()

    async def flush(self) -> None:
        """Send the queued bytes; disconnect a client that does not read."""
        if not self._out:
            return
        self._writer.write(bytes(self._out))
        self._out.clear()
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            self.hang_up()
            raise ConnectionResetError("the client does not read") from None

    async def secure_with(self, context: ssl.SSLContext) -> None:
        """Perform a TLS handshake.

        Raises:
            WireFault: bytes that were sent in the clear would count as sent within TLS.
        """
        if self._reader._buffer:  # type: ignore[attr-defined]
            raise WireFault("bytes follow a request for encryption")
        await self._writer.start_tls(context, ssl_handshake_timeout=START_SECONDS)
        self.secure = True

    def hang_up(self) -> None:
        """Abort the connection at once."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send the queued bytes, and close the connection."""
        try:
            await self.flush()
            self._writer.close()
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self.hang_up()


# -- cancelling

_PURPOSE: Final = "cancel"
_SECRET: Final = 4
_MINUTE: Final = 60 * 10**9


class CancelKeys:
    """Makes, checks and marks cancel keys, in memory that workers share."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def new(self) -> bytes:
        """Return a key for a connection: a number of 4 bytes, and a secret."""
        number = entropy.current().bits(31).to_bytes(4, "big")
        return number + self._secret(number)

    def cancel(self, key: bytes) -> bool:
        """Mark a connection for cancelling; return whether the key was valid."""
        number, secret = key[:4], key[4:]
        if not hmac.compare_digest(secret, self._secret(number)):
            return False
        self._buckets.pour(_name(number), _MINUTE, time.monotonic_ns(), _MINUTE)
        return True

    def is_cancelled(self, key: bytes) -> bool:
        return self._buckets.pour(_name(key[:4]), 0, time.monotonic_ns(), 0) > 0

    def clear(self, key: bytes) -> None:
        """Remove the mark of a connection: it applied to an earlier statement."""
        if self.is_cancelled(key):
            self._buckets.pour(_name(key[:4]), -2 * _MINUTE, time.monotonic_ns(), _MINUTE)

    def _secret(self, number: bytes) -> bytes:
        return self._buckets.seal(_PURPOSE, number, _SECRET)


def _name(number: bytes) -> str:
    return f"{_PURPOSE}\0{number.hex()}"


#: Seconds for TLS, start-up and proof of identity together.
START_SECONDS: Final = 15.0
_ALPN: Final = "postgresql"
_STOPS: Final = ("the server is about to stop", "57P01")
_REFUSED: Final = "password authentication failed"
#: Parameters of a start-up message that are not session settings.
_OWN: Final = ("user", "database", "options", "replication")


def postgres_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return a context for TLS 1.3 with the server's certificate and key; None if it has none."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    from tacit.server.serve.processes import tls_context

    context = tls_context(settings)
    if context is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols([_ALPN])
    return context


def binding_of(certificate: str | None) -> bytes | None:
    """Return the hash of a certificate for SCRAM channel binding (RFC 5929, tls-server-end-point).

    Returns:
        None if the certificate's signature names no hash, as with Ed25519: there is no channel binding then.
    """
    if certificate is None:
        return None
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    with open(certificate, "rb") as file:
        read = x509.load_pem_x509_certificate(file.read())
    algorithm = read.signature_hash_algorithm
    if algorithm is None:
        return None
    return read.fingerprint(hashes.SHA256() if algorithm.name in ("md5", "sha1") else algorithm)


class PostgresServer:
    """Serves PostgreSQL clients in one worker; shares runtime and connection limits with the API.

    TLS is offered if there is a context; ``note`` logs and counts a statement.
    """

    def __init__(
        self,
        runtime: WorkerRuntime,
        connections: Connections,
        context: ssl.SSLContext | None = None,
        note: Callable[[dict[str, Any], str], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._connections = connections
        self._context = context
        self._binding = None if context is None else binding_of(runtime.settings.tls_cert)
        self._note = note or (lambda _about, _state: None)
        self._keys = CancelKeys(runtime.buckets)
        self._catalogues = Catalogues()
        self._tasks: dict[asyncio.Task[None], WireStream] = {}
        #: Tasks whose client has sent nothing since its last statement.
        self._idle: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_stopping = False

    async def listen(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve, sock=listener, backlog=2048)

    async def stop(self, seconds: float) -> None:
        """Stop: accept nothing new, disconnect idle clients, and each other client once its statement is answered."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        for task in self._idle:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)
        for task, stream in list(self._tasks.items()):
            stream.hang_up()
            task.cancel()
        self._catalogues.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        settings = self._runtime.settings
        stream = WireStream(reader, writer, settings.max_body, settings.body_seconds)
        peer = writer.get_extra_info("peername")
        address = peer[0] if isinstance(peer, tuple) else ""
        task = asyncio.current_task()
        if task is None or not self._connections.admit(address):
            stream.hang_up()
            return
        self._tasks[task] = stream
        found = writer.get_extra_info("socket")
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            await self._talk(task, stream, address)
        except WireFault as problem:
            stream.write(error_of(problem, "FATAL")[2])
        except (OSError, EOFError):
            stream.hang_up()
        except asyncio.CancelledError:
            stream.write(error_of(WireFault(*_STOPS), "FATAL")[2])
        except Exception as problem:
            log_failure(problem)
            stream.write(error_of(problem, "FATAL")[2])
        finally:
            del self._tasks[task]
            self._connections.leave(address)
            await stream.close()

    async def _talk(self, task: asyncio.Task[None], stream: WireStream, address: str) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                session = await self._begin(stream, address)
        except TimeoutError:
            raise WireFault("start-up took too long") from None
        while session is not None:
            if self._is_stopping:
                raise WireFault(*_STOPS)
            self._idle.add(task)
            try:
                received = await stream.receive()
            finally:
                self._idle.discard(task)
            if not await session.handle(received):
                return

    # -- start-up

    async def _begin(self, stream: WireStream, address: str) -> WireSession | None:
        received = await self._negotiated(stream)
        if received.code == CANCEL:
            self._keys.cancel(received.cancel)
            return None
        if self._context is not None and not stream.secure:
            raise WireFault("this server takes connections by TLS alone; connect with sslmode=require", "28000")
        unknown = [name for name in received.settings if name.startswith("_pq_.")]
        if received.code & 0xFFFF or unknown:
            stream.write(negotiate(unknown))
        user = received.settings.get("user", "")
        access = await self._proved(stream, user, address)
        self._check_database(received, user)
        variables = _variables(received, access)
        stream.write(authentication(0))
        for name, shown in REPORTED.items():
            stream.write(parameter_status(shown, variables.show(name)))
        key = self._keys.new()
        stream.write(backend_key(key))
        stream.write(ready("I"))
        await stream.flush()
        queries = ClientQueries(self._runtime, access, variables, self._catalogues, self._keys, key, self._note)
        return WireSession(queries, stream, variables)

    async def _negotiated(self, stream: WireStream) -> StartUp:
        """Return the start-up message, after TLS if the client wants it."""
        asked: set[int] = set()
        while (received := await stream.start_up()).code in (TLS, GSS):
            if received.code in asked or stream.secure:
                raise WireFault("encryption was asked for twice")
            asked.add(received.code)
            context = self._context if received.code == TLS else None
            stream.write(b"N" if context is None else b"S")
            await stream.flush()
            if context is not None:
                await stream.secure_with(context)
        return received

    async def _proved(self, stream: WireStream, user: str, address: str) -> Access:
        """Authenticate the client; the error does not tell unknown, wrong, expired and revoked tokens apart."""
        binding = self._binding if stream.secure else None
        offered = [MECHANISM_PLUS, MECHANISM] if binding is not None else [MECHANISM]
        stream.write(authentication(10, b"".join(each.encode() + b"\0" for each in offered) + b"\0"))
        try:
            mechanism, first = _initial(await self._sasl(stream))
            exchange = ScramExchange(mechanism, f"{entropy.current().bits(144):036x}", binding)
            stream.write(authentication(11, exchange.first(first)))
            shown = exchange.final(await self._sasl(stream))
            found = await self._runtime.prove(user, shown, address)
        except ScramError as problem:
            raise WireFault(f"malformed proof of identity: {problem}", "28000") from None
        except Busy as problem:
            raise WireFault(str(problem), "53300") from None
        if found is None:
            self._note({"route": "postgres/connect", "code": "auth"}, "28P01")
            raise WireFault(_REFUSED, "28P01")
        access, signature = found
        stream.write(authentication(12, signature))
        return access

    async def _sasl(self, stream: WireStream) -> bytes:
        await stream.flush()
        received = await stream.receive(MAX_SASL)
        if received.kind != "p":
            raise WireFault("the client sent another message than its proof of identity", "28000")
        body: bytes = received.parts[0]
        return body

    def _check_database(self, received: StartUp, user: str) -> None:
        """Refuse any database but the project; for clients that name none, libraries send the name of the user."""
        project = self._runtime.service.curator.name
        named = received.settings.get("database", "") or user
        if named not in (project, user):
            raise WireFault(f"there is no such database; this server has the project {project}", "3D000")
        if received.settings.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise WireFault("there is nothing to replicate", "0A000")


def _initial(body: bytes) -> tuple[str, bytes]:
    """Return the mechanism and the first message of a SASLInitialResponse."""
    name, ended, rest = body.partition(b"\0")
    length = int.from_bytes(rest[:4], "big", signed=True)
    if not ended or len(rest) < 4 or length != len(rest) - 4:
        raise ScramError("malformed first message")
    return name.decode("ascii", "replace"), rest[4:]


def _variables(received: StartUp, access: Access) -> SessionVariables:
    """Return the settings of a start-up message; refuse unknown ones, as PostgreSQL does."""
    variables = SessionVariables(access.person.name)
    try:
        stated = read_options(received.settings.get("options", ""))
        own = {
            name: value
            for name, value in received.settings.items()
            if name not in _OWN and not name.startswith("_pq_.")
        }
        for name, value in (own | stated).items():
            variables.set(name, value)
    except InputError as problem:
        raise WireFault(str(problem), "22023") from None
    return variables
