"""Processes: a supervisor with its listening sockets and TLS, and workers with a curator each on the shared ledger.

*The supervisor* imports the modules of workers, and opens nothing: no ledger, no engine, no thread. A worker is thus
forked quickly and inherits nothing that two processes must not share. The counters that they must share, of rates and
late answers, are in memory that is allocated before the fork. The listening sockets belong to the supervisor:
connections that arrive while a worker is replaced wait for the next one.

*A worker* stops on SIGTERM, or when its supervisor has ended: it accepts nothing new, finishes running work within the
time that the settings allow, and closes. Queries that it could not finish are charged already; asked again, they are
answered under that charge. A worker whose event loop stands still for a minute ends, and is replaced.

*Memory.* A database without a limit takes most of the machine's memory, and so would that of every worker. If a project
sets no limit, each worker therefore gets a share. By default the C library returns memory that a thread frees to the
system at once, and the arrays of the next query have to be mapped and cleared again, page by page: a fifth of the
processor time of a small query (docs/design-notes.md).
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import faulthandler
import gc
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import ssl
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from tacit.core.errors import InputError, InternalError, TacitError
from tacit.server.rate_limit import Buckets
from tacit.server.serve.access_log import AccessLog, Lines
from tacit.server.serve.http_protocol import Connections, GuardedProtocol
from tacit.server.settings import Settings, is_loopback

if TYPE_CHECKING:
    from tacit.project.project_file import Project
    from tacit.server.identity.oidc import OpenIDProvider
    from tacit.server.service import CuratorService

# -- a worker

# Constants of glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: Bytes of free memory that are kept, and the largest block allocated from them.
_KEPT: Final = 64 * 2**20
_LARGEST: Final = 32 * 2**20
#: Tenths of the machine's memory that the databases of all workers may use together.
_SHARED: Final = 6
_MEGABYTE: Final = 2**20
#: Minimum MiB of a worker's database: several times the bounded work of one unit (docs/semantics.md, 11).
_LEAST: Final = 512
#: Files with a container's memory limit.
_LIMIT_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
#: Number of malloc arenas; each keeps its own free memory.
_HEAPS: Final = 2


def keep_memory() -> bool:
    """Let the C library keep freed memory, within limits; return False if it lacks the setting."""
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    wanted = {_TRIM_THRESHOLD: _KEPT, _MMAP_THRESHOLD: _LARGEST, _ARENA_MAX: _HEAPS}
    done = [choose(which, size) for which, size in wanted.items()]
    return all(done)


def collect_rarely() -> None:
    """Make a full garbage collection run about once per thousand new queries.

    A full collection takes up to a tenth of a second, in which no request is answered. Modules are frozen, so that it
    scans only kept plans. It is necessary: the syntax tree of a query is a cycle of some hundred objects that has
    survived a young collection, so that only a full one frees it.
    """
    gc.collect()
    gc.freeze()
    gc.collect()
    gc.set_threshold(*_COLLECT)


def with_shared_memory(project: Project, workers: int, machine: int | None = None) -> Project:
    """Return the project with its database limited to a worker's share of memory, unless the project file sets a limit.

    ``machine`` is the machine's memory in bytes; None to look it up.
    """
    # The other engines are servers, which set their own limits.
    if project.engine != "duckdb" or project.limits.memory is not None:
        return project
    found = machine_memory() if machine is None else machine
    if not found:
        return project
    size = max(found * _SHARED // 10 // workers // _MEGABYTE, _LEAST)
    return replace(project, limits=project.limits.model_copy(update={"memory": f"{size}MiB"}))


def machine_memory() -> int:
    """Return the memory of this machine or its container in bytes; 0 if unknown."""
    found = []
    with suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in _LIMIT_FILES:
        with suppress(OSError, ValueError):
            found.append(int(Path(name).read_text(encoding="ascii")))
    return min((size for size in found if size > 0), default=0)


#: Seconds between two signs of life of a worker, and without one until it ends.
_BEAT: Final = 1
_HUNG: Final = 60.0
#: File descriptors reserved for files other than connections.
_FILES: Final = 256
_TURN: Final = 0.001
#: Allocations before a collection of generation 0, and collections of generations 0 and 1 before the next older one.
_COLLECT: Final = (2_000, 10, 10)


@dataclass(frozen=True)
class Serving:
    """A project and the options of serving it.

    Args:
        log: file of the access log; None for none, ``-`` for standard error.
        welcome: called once, by the first worker before it listens; its result is shown to the operator.
        proxies: addresses of proxies whose forwarded client addresses are trusted.
        connections: maximum number of connections of one worker.
        connections_of_one: maximum number of connections of one address.
    """

    project: Path
    settings: Settings
    log: str | None = "-"
    welcome: Callable[[CuratorService], dict[str, Any]] | None = None
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    connections: int = 2000
    connections_of_one: int = 256


@contextmanager
def _opened(serving: Serving) -> Iterator[tuple[CuratorService, dict[str, OpenIDProvider]]]:
    from tacit.curator.opening import open_project
    from tacit.ledger.memory import MEMORY
    from tacit.project.project_file import load
    from tacit.server.identity import People
    from tacit.server.service import CuratorService

    project = load(serving.project)
    place = project.ledger
    if place is None or place == MEMORY:
        # Each worker would have a separate ledger, and thus the whole budget again.
        raise InputError("project.ledger", 'a server needs one that lasts; write ledger = "tacit.ledger"')
    providers = {}
    if project.providers:
        from tacit.server.identity.oidc import open_providers

        providers = open_providers(project.providers)
    shared = with_shared_memory(project, serving.settings.workers)
    with (
        open_project(shared) as curator,
        People.open(curator.ledger, place) as people,
    ):
        yield CuratorService(curator, people, serving.settings), providers


class _Worker(uvicorn.Server):
    """uvicorn's server on the sockets of its supervisor, with our signal handling and limits.

    ``supervisor`` is a process id; ``ready`` is called once it listens.
    """

    def __init__(
        self,
        serving: Serving,
        service: CuratorService,
        providers: dict[str, OpenIDProvider],
        context: ssl.SSLContext | None,
        buckets: Buckets,
        postgres: socket.socket | None,
        supervisor: int,
        ready: Callable[[], None],
    ) -> None:
        from tacit.server.api.app import create_app
        from tacit.server.pgwire.server import PostgresServer, postgres_tls

        settings = serving.settings
        self._supervisor, self._ready = supervisor, ready
        connections = Connections(
            min(serving.connections, _room()), None if settings.behind_proxy else serving.connections_of_one
        )
        app = create_app(service, settings, buckets, providers)
        logged = AccessLog(app, Lines(_stream(serving.log)))
        self._postgres_socket = postgres
        self._postgres = PostgresServer(app.state.runtime, connections, postgres_tls(settings), logged.note)
        config = uvicorn.Config(
            logged,
            http=partial(GuardedProtocol, connections, settings),  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=settings.behind_proxy,
            forwarded_allow_ips=list(serving.proxies),
            timeout_keep_alive=30,
            timeout_graceful_shutdown=max(int(settings.drain_seconds), 1),
            callback_notify=self._beat,
            timeout_notify=0,
        )
        config.load()
        config.ssl = context
        super().__init__(config)
        _quiet_libraries()
        keep_memory()
        collect_rarely()
        if settings.response_step:
            # A working thread keeps the interpreter this long before the event loop runs: short for a response.
            sys.setswitchinterval(_TURN)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no uvicorn signal handlers: :meth:`startup` handles SIGTERM; resources are closed afterwards."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, setattr, self, "should_exit", True)
        if self._postgres_socket is not None:
            await self._postgres.listen(self._postgres_socket)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing new, and finish running work."""
        await self._postgres.stop(self.config.timeout_graceful_shutdown or 1)
        await super().shutdown(sockets)

    async def _beat(self) -> None:
        """Each second: end with the supervisor; if no beat follows for a minute, this process ends, and logs where."""
        faulthandler.dump_traceback_later(_HUNG, exit=True)
        self.should_exit |= os.getppid() != self._supervisor


def _quiet_libraries() -> None:
    """Send failures of libraries to the operator's log; drop their messages about malformed requests."""

    class _ToOperator(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logging.getLogger("tacit.operator").handle(record)

    for name in ("uvicorn", "mcp"):
        log = logging.getLogger(name)
        log.setLevel(logging.ERROR)
        log.propagate = False
        log.handlers = [_ToOperator()]


def _stream(log: str | None) -> Any:
    if log is None or log == "-":
        return None if log is None else sys.stderr
    return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")


def _room() -> int:
    """Return the number of connections that the system's limit on open files allows this process."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(min(hard, 1 << 20) - _FILES, 16)


# -- addresses

_BACKLOG: Final = 2048


def check_place(settings: Settings) -> None:
    """Refuse to send tokens and answers unencrypted over a network.

    Raises:
        InputError: the host is not loopback, and neither TLS nor a proxy that terminates TLS is configured.
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
    """Return a context for TLS 1.2 or newer with the configured certificate and key; None if there are none."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _check_guarded(settings.tls_key)
    try:
        # A key with a passphrase would block the server until someone types it.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_passphrase)
    except FileNotFoundError as problem:
        missing = settings.tls_cert if problem.filename is None else problem.filename
        raise InputError("tls_cert", f"there is no file {missing}") from None
    except (OSError, ssl.SSLError, ValueError) as problem:
        raise InputError("tls_cert", f"certificate and key cannot be used: {problem}") from None
    return context


def _check_guarded(key: str) -> None:
    """Refuse a key file that other users of this machine may read or change: its holder can impersonate the server."""
    try:
        mode = stat.S_IMODE(os.stat(key).st_mode)
    except OSError:
        return  # The caller reports an unreadable key.
    if mode & 0o027:
        others = "read" if mode & 0o004 else "use or change"
        raise InputError(
            "tls_key", f"others may {others} {key}; allow its owner alone, or also read its group: chmod 600"
        )


def _no_passphrase() -> str:
    raise ValueError("the key is protected by a passphrase; use one that is not, readable by its owner alone")


def bind(settings: Settings, port: int | None = None) -> list[socket.socket]:
    """Return a listening socket for each worker, by default at the port of the API.

    The system distributes connections among them evenly. They stay open in the supervisor: connections that arrive
    while a worker is replaced wait for the next one. If the system cannot distribute, all workers share one socket.
    """
    first = _bound(settings.host, settings.port if port is None else port, shared=False)
    port = first.getsockname()[1]
    if settings.workers == 1 or sys.platform != "linux":
        return [first] * settings.workers
    # The first socket was bound exclusively, so no other server listens there; only then is the port shared.
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
    """Return the URL of the server for a browser on this machine."""
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


_LONGEST_PAUSE: Final = 5.0
_YOUNG_SECONDS: Final = 5.0
#: Maximum seconds between two checks of the workers.
_STEP: Final = 0.2
#: Signals that stop the server, including the end of the terminal.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Not the spawned processes of uvicorn's supervisor: shared memory is inherited by a fork alone.
_FORK: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Started:
    """Facts for the operator once the first worker answers; ``welcome`` is the result of :attr:`.Serving.welcome`.

    ``address`` is the URL on this machine, ``public`` the one that the operator configured for links.
    """

    address: str
    welcome: dict[str, Any]
    postgres: tuple[str, int] | None = None
    public: str | None = None


@dataclass
class _Place:
    """A worker's sockets, and the process that uses them now."""

    listener: socket.socket
    postgres: socket.socket | None = None
    process: ForkProcess | None = None
    began: float = 0.0
    failures: int = 0
    due: float = 0.0


def supervise(serving: Serving, *, started: Callable[[Started], None] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status.

    Args:
        serving: the project and the options of serving it.
        started: called when the first worker answers.

    Raises:
        InputError: the address, the certificate or the project cannot be used.
    """
    check_place(serving.settings)
    context = tls_context(serving.settings)
    port = serving.settings.postgres
    with ExitStack() as opened:
        listeners = [opened.enter_context(each) for each in bind(serving.settings)]
        others = [] if port is None else [opened.enter_context(each) for each in bind(serving.settings, port)]
        _import_modules_of_workers()
        places = [_Place(listener, others[i] if others else None) for i, listener in enumerate(listeners)]
        return _Supervisor(serving, context, places, started).run()


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
        places: list[_Place],
        started: Callable[[Started], None] | None,
    ) -> None:
        self._serving = serving
        self._context = context
        self._places = places
        self._started = started
        self._buckets = Buckets(shared=True)
        self._pid = os.getpid()
        self._stopping = 0
        self._lines = Lines(sys.stderr if serving.log == "-" else None)

    def run(self) -> int:
        """Supervise the workers until a signal stops it; return the exit status."""
        # A server started with nohup outlives the terminal.
        heard = [sign for sign in _SIGNALS if sign != signal.SIGHUP or signal.getsignal(sign) != signal.SIG_IGN]
        kept = {sign: signal.signal(sign, self._on_signal) for sign in heard}
        try:
            self._start_first(self._places[0])
            while not self._stopping:
                self._wait()
                now = time.monotonic()
                for place in self._places:
                    if place.process is None and now >= place.due:
                        self._fork(place)
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

    def _start_first(self, place: _Place) -> None:
        """Start the first worker, which welcomes the operator; raise what keeps it from starting."""
        reports, sending = _FORK.Pipe(duplex=False)
        with reports, sending:
            process = self._fork(place, sending)
            while not (reports.poll() or process.exitcode is not None or self._stopping):
                wait([reports, process.sentinel], _STEP)
            if not reports.poll():
                if not self._stopping:
                    raise InternalError(f"the first worker ended with status {process.exitcode}")
                return
            first_report = reports.recv()
        if isinstance(first_report, Exception):
            raise first_report
        if self._started is not None:
            settings, clients = self._serving.settings, place.postgres
            where = None if clients is None else clients.getsockname()[:2]
            self._started(Started(address_of(settings, place.listener), first_report, where, settings.address))

    def _fork(self, place: _Place, first: Connection | None = None) -> ForkProcess:
        # Signals are blocked until the child has removed our handlers, which would swallow its SIGTERM.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        place.process = _FORK.Process(target=self._become, args=(place, former, first))
        place.process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        place.began = time.monotonic()
        return place.process

    def _become(self, place: _Place, signals: set[signal.Signals], first: Connection | None) -> None:
        """Run the child's side of a fork: never returns, and runs no cleanup of the parent."""
        status = 3
        try:
            # A terminal sends these to the whole process group. The supervisor handles them and lets workers finish.
            for sign in _SIGNALS:
                signal.signal(sign, signal.SIG_DFL if sign is signal.SIGTERM else signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            self._work(place, first)
            status = 0
        except TacitError as problem:
            if first is not None:
                first.send(problem)
        except BaseException as problem:
            logging.getLogger("tacit.operator").exception("a worker failed")
            if first is not None:
                first.send(InternalError(f"{type(problem).__name__}: see the operator's log"))
        finally:
            # Without exit handlers and without joining threads: the worker has closed its own resources.
            os._exit(status)

    def _work(self, place: _Place, first: Connection | None) -> None:
        with _opened(self._serving) as (service, providers):
            welcome = {} if first is None or self._serving.welcome is None else self._serving.welcome(service)
            ready = (lambda: None) if first is None else partial(first.send, welcome)
            worker = _Worker(
                self._serving, service, providers, self._context, self._buckets, place.postgres, self._pid, ready
            )
            worker.run([place.listener])

    def _wait(self) -> None:
        """Wait a moment; note workers that have ended, and when their successors may start."""
        wait([process.sentinel for process in self._processes()], _STEP)
        for place in self._places:
            if place.process is not None and place.process.exitcode is not None:
                self._lines.write("worker ended", pid=place.process.pid, status=place.process.exitcode)
                place.process.close()
                place.process = None
                now = time.monotonic()
                place.failures = place.failures + 1 if now - place.began < _YOUNG_SECONDS else 0
                place.due = now + (min(0.1 * 2**place.failures, _LONGEST_PAUSE) if place.failures else 0.0)

    def _stop_all(self) -> None:
        """Stop all workers after their work; a second signal ends the wait."""
        self._lines.write("stopping")
        for process in self._processes():
            process.terminate()
        limit = time.monotonic() + 2 * self._serving.settings.drain_seconds + 5
        asked = self._stopping
        while self._processes() and time.monotonic() < limit and self._stopping == asked:
            self._wait()
