"""Supervisor of worker processes, their listening sockets and TLS.

It imports the modules of workers, and opens nothing: no ledger, no engine, no thread. So a worker is forked at once and
inherits nothing that two processes must not share. The counters they must share, of rates and of late answers, lie in
memory that is made before. The listening sockets belong to the supervisor: connections that arrive while a worker is
replaced wait for the next one.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import logging
import multiprocessing
import os
import signal
import socket
import ssl
import stat
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Final

from tacit.core.errors import AccessError, InputError, InternalError, TacitError
from tacit.server.rate_limit import Buckets
from tacit.server.serve.access_log import Lines, MetricsPage
from tacit.server.serve.worker import Serving, run_worker
from tacit.server.settings import Settings, is_loopback

_BACKLOG: Final = 2048


def check_place(settings: Settings) -> None:
    """Refuse to send tokens and answers over a network in the clear.

    Raises:
        InputError: the host is not loopback, and neither TLS nor a proxy that has it was stated.
    """
    if not is_loopback(settings.host) and not settings.secure:
        raise InputError(
            "host",
            f"{settings.host} can be reached from elsewhere, and without TLS any machine on the way could read tokens "
            "and answers: state --tls-cert and --tls-key, or --behind-proxy if something in front ends TLS",
        )
    if settings.postgres is not None and not is_loopback(settings.host) and settings.tls_cert is None:
        raise InputError(
            "postgres", "PostgreSQL clients end TLS here, not at a proxy for HTTP: state --tls-cert and --tls-key"
        )


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """TLS 1.2 or newer by the certificate and key that were stated; None where none were."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _check_guarded(settings.tls_key)
    try:
        # A key with a passphrase would make a server wait until it is typed.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_passphrase)
    except FileNotFoundError as problem:
        missing = settings.tls_cert if problem.filename is None else problem.filename
        raise InputError("tls_cert", f"there is no file {missing}") from None
    except (OSError, ssl.SSLError, ValueError) as problem:
        raise InputError("tls_cert", f"certificate and key cannot be used: {problem}") from None
    return context


def _check_guarded(key: str) -> None:
    """Refuse a key that any user of this machine may read or change: its holder can pass for the server."""
    try:
        mode = stat.S_IMODE(os.stat(key).st_mode)
    except OSError:
        return  # That it cannot be used is said below.
    if mode & 0o027:
        others = "read" if mode & 0o004 else "use or change"
        raise InputError(
            "tls_key", f"others may {others} {key}; allow its owner alone, or also read its group: chmod 600"
        )


def _no_passphrase() -> str:
    raise ValueError("the key is protected by a passphrase; use one that is not, readable by its owner alone")


def bind(settings: Settings, port: int | None = None) -> list[socket.socket]:
    """A listening socket for each worker, at the port of the API or another: the system shares connections out evenly.

    They stay open in the supervisor: connections that arrive while a worker is replaced wait for the next one. Where
    the system cannot share out, all workers have the same one.
    """
    first = _bound(settings.host, settings.port if port is None else port, shared=False)
    port = first.getsockname()[1]
    if settings.workers == 1 or sys.platform != "linux":
        return [first] * settings.workers
    # The first one was alone, so no other server listens there; only then are several allowed.
    first.close()
    return [_bound(settings.host, port, shared=True) for _ in range(settings.workers)]


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError):
        raise InputError("host", f"{host!r} is not an address of this machine") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            raise InputError("port", f"{port} is taken; state another, or 0 for any that is free") from None
        if problem.errno == errno.EACCES:
            raise InputError("port", f"{port} is not allowed to this user; state one above 1023") from None
        raise InputError("host", f"cannot listen on {host}: {problem.strerror}") from None
    return listener


def address_of(settings: Settings, listener: socket.socket) -> str:
    """The address to type into a browser on this machine."""
    port = listener.getsockname()[1]
    scheme = "https" if settings.tls_cert is not None else "http"
    host = settings.host
    try:
        found = ipaddress.ip_address(host)
        if found.is_unspecified:
            host = socket.gethostname()
        elif found.version == 6:
            host = f"[{host}]"
    except ValueError:
        pass
    return f"{scheme}://{host}:{port}"


#: A worker whose event loop has not turned for so long is killed.
HUNG_SECONDS: Final = 60.0
_LONGEST_PAUSE: Final = 5.0
_YOUNG_SECONDS: Final = 5.0
#: Seconds between two looks at workers where none reports.
_STEP: Final = 0.2
#: All of them stop the server, also the end of the terminal.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Not the spawned processes of uvicorn's supervisor: shared memory is inherited by a fork alone.
_FORK: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Started:
    """Facts for the operator once the first worker answers; ``welcome`` is the result of :attr:`.Serving.welcome`.

    ``address`` is on this machine, ``public`` the one that the operator gave for links.
    """

    address: str
    metrics: str
    welcome: dict[str, Any]
    postgres: tuple[str, int] | None = None
    public: str | None = None


@dataclass
class _Place:
    """A worker's place: its socket, and the process that works there now."""

    listener: socket.socket
    postgres: socket.socket | None = None
    process: ForkProcess | None = None
    reports: Connection | None = None
    began: float = 0.0
    heard: float = 0.0
    ready: bool = False
    failures: int = 0
    due: float = 0.0


def supervise(
    serving: Serving, *, started: Callable[[Started], None] | None = None, metrics_port: int | None = None
) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status.

    Args:
        serving: the project and how it is served.
        started: called when the first worker answers.
        metrics_port: port on loopback for the page with metrics; None for none, 0 for any free one.

    Raises:
        InputError: the address, the certificate or the project cannot be used.
    """
    check_place(serving.settings)
    context = tls_context(serving.settings)
    port = serving.settings.postgres
    with ExitStack() as opened:
        listeners = [opened.enter_context(each) for each in bind(serving.settings)]
        others = [] if port is None else [opened.enter_context(each) for each in bind(serving.settings, port)]
        page = None if metrics_port is None else opened.enter_context(MetricsPage(metrics_port))
        _import_modules_of_workers()
        return _Supervisor(serving, context, listeners, others, page, started).run()


def _import_modules_of_workers() -> None:
    import tacit.curator.opening
    import tacit.engines.registry
    import tacit.server.api.app
    import tacit.server.identity
    import tacit.server.pgwire

    tacit.engines.registry.warm()


class _Supervisor:
    def __init__(
        self,
        serving: Serving,
        context: ssl.SSLContext | None,
        listeners: list[socket.socket],
        others: list[socket.socket],
        page: MetricsPage | None,
        started: Callable[[Started], None] | None,
    ) -> None:
        self._serving = serving
        self._context = context
        self._places = [_Place(listener, others[i] if others else None) for i, listener in enumerate(listeners)]
        self._page = page
        self._started = started
        self._buckets = Buckets(shared=True)
        self._stopping = 0
        self._ready = False
        self._lines = Lines(sys.stderr if serving.log == "-" else None)

    def run(self) -> int:
        """Until told to stop."""
        # A server started with nohup outlives the terminal.
        heard = [sign for sign in _SIGNALS if sign != signal.SIGHUP or signal.getsignal(sign) != signal.SIG_IGN]
        kept = {sign: signal.signal(sign, self._on_signal) for sign in heard}
        try:
            self._fork(self._places[0], first=True)
            while not self._stopping:
                self._wait()
                self._care()
            self._stop_all()
        finally:
            for process in self._processes():
                process.kill()
                process.join()
            for sign, handler in kept.items():
                signal.signal(sign, handler)
            self._buckets.close()
        return 0

    def _on_signal(self, *_: object) -> None:
        self._stopping += 1

    def _processes(self) -> list[ForkProcess]:
        return [place.process for place in self._places if place.process is not None]

    def _fork(self, place: _Place, *, first: bool = False) -> None:
        place.reports, sending = _FORK.Pipe(duplex=False)
        # Signals wait until the child has let go of our handlers: they would swallow the one that tells it to stop.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        place.process = _FORK.Process(target=self._become, args=(place, sending, former, os.getpid(), first))
        place.process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        sending.close()
        place.ready = False
        place.began = place.heard = time.monotonic()

    def _become(
        self, place: _Place, sending: Connection, signals: set[signal.Signals], supervisor: int, first: bool
    ) -> None:
        """The child's side of a fork: it never returns, and runs nothing that was meant for the parent's end."""
        status = 70
        try:
            for sign in _SIGNALS:
                signal.signal(sign, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            for other in self._places:
                if other.reports is not None:
                    other.reports.close()
                if other.listener is not place.listener:
                    other.listener.close()
                if other.postgres is not None and other.postgres is not place.postgres:
                    other.postgres.close()
            if self._page is not None:
                self._page.server_close()
            status = run_worker(
                self._serving,
                place.listener,
                self._context,
                sending,
                self._buckets,
                supervisor,
                first=first,
                postgres=place.postgres,
            )
        except BaseException:
            logging.getLogger("tacit.operator").exception("a worker failed")
        finally:
            # No exit handlers, no threads to wait for: the worker has closed its own.
            os._exit(status)

    def _wait(self) -> None:
        """Read reports, answer the page with metrics, and note workers that ended."""
        sentinels = [process.sentinel for process in self._processes()]
        reports = [place.reports for place in self._places if place.reports is not None]
        page = [] if self._page is None else [self._page.fileno()]
        ready = wait([*sentinels, *reports, *page], _STEP)
        if self._page is not None and page[0] in ready:
            self._page.workers.set(len(sentinels))
            self._page.handle_request()
        for place in self._places:
            if place.process is not None:
                # Looked at first, so that its last reports are read as well.
                status = place.process.exitcode
                self._read(place)
                if status is not None:
                    self._bury(place, status)

    def _read(self, place: _Place) -> None:
        try:
            while place.reports is not None and place.reports.poll():
                self._hear(place, json.loads(place.reports.recv_bytes()))
        except (EOFError, OSError):
            return

    def _hear(self, place: _Place, told: dict[str, Any]) -> None:
        place.heard = time.monotonic()
        if self._page is not None:
            self._page.add(told.get("added", []))
        if "failed" in told and not self._ready:
            raise _error(told["failed"])
        if "ready" in told:
            place.ready = True
            self._lines.write("worker ready", pid=told["ready"])
            if not self._ready:
                self._ready = True
                if self._started is not None:
                    metrics = "" if self._page is None else self._page.address
                    address = address_of(self._serving.settings, place.listener)
                    place_of = None if place.postgres is None else place.postgres.getsockname()[:2]
                    public = self._serving.settings.address
                    self._started(Started(address, metrics, told["welcome"], place_of, public))

    def _bury(self, place: _Place, status: int) -> None:
        """Note that a worker has ended, and when the next one is due."""
        if not self._ready:
            raise InternalError(f"the first worker ended with status {status}")
        if place.reports is not None and place.process is not None:
            self._lines.write("worker ended", pid=place.process.pid, status=status)
            place.reports.close()
            place.process.close()
        place.process = place.reports = None
        now = time.monotonic()
        place.failures = place.failures + 1 if now - place.began < _YOUNG_SECONDS else 0
        place.due = now + (min(0.1 * 2**place.failures, _LONGEST_PAUSE) if place.failures else 0.0)
        if not self._stopping and self._page is not None:
            self._page.add([("tacit_workers_replaced", (), 1)])

    def _care(self) -> None:
        """Fill empty places, and kill workers that hang."""
        now = time.monotonic()
        for place in self._places:
            if place.process is None and self._ready and now >= place.due and not self._stopping:
                self._fork(place)
            elif place.process is not None and place.ready and now - place.heard > HUNG_SECONDS:
                self._lines.write("worker hung", pid=place.process.pid)
                place.process.kill()

    def _stop_all(self) -> None:
        """Let workers finish; a second signal ends the wait."""
        self._lines.write("stopping")
        for process in self._processes():
            process.terminate()
        limit = time.monotonic() + 2 * self._serving.settings.drain_seconds + 5
        asked = self._stopping
        while self._processes() and time.monotonic() < limit and self._stopping == asked:
            self._wait()


def _error(told: dict[str, Any]) -> TacitError:
    """The failure of the first worker, as an error of this process."""
    code, message = str(told.get("code")), str(told.get("message"))
    if code.startswith("input"):
        parameter = str(told.get("parameter") or "project")
        return InputError(parameter, message.removeprefix(f"{parameter}: "))
    if code.startswith("access"):
        return AccessError(message)
    problem = InternalError(message)
    vars(problem)["code"] = code if code.startswith("internal") else "internal"
    return problem
