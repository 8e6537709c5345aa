"""Worker process with its own curator on the shared ledger, and its memory.

Workers share the ledger, and the counters of rates and of late answers.

A worker stops for SIGTERM, or when its supervisor is gone: it takes nothing new, finishes work under way as long as the
settings allow, and closes. Queries that it could not finish are charged already; asked again, they are answered under
that charge.

A database without a limit takes most of the machine's memory, and so would that of every worker. So where a project
states none, workers share. The C library returns memory that a thread frees to the system at once, and the arrays of
the next query have to be mapped and cleared again, page by page: a fifth of the processor time of a small query
(docs/design-notes.md).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from tacit.core.errors import InputError, TacitError
from tacit.server.rate_limit import Buckets
from tacit.server.serve.access_log import AccessLog, Counters, Lines
from tacit.server.serve.http_protocol import Connections, guarded
from tacit.server.settings import Settings

if TYPE_CHECKING:
    from tacit.project.project_file import Project
    from tacit.server.identity.oidc import OpenIDProvider
    from tacit.server.service import CuratorService

# The names are those of glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
#: Bytes that stay when they are free, and the largest piece that comes out of them.
_KEPT: Final = 64 * 2**20
_LARGEST: Final = 32 * 2**20
#: Of ten parts of the machine's memory, those that the databases of all workers may use together.
_SHARED: Final = 6
_MEGABYTE: Final = 2**20
#: The least memory of a worker's database: several times the bounded work of one unit (docs/semantics.md, 11).
_LEAST: Final = 512
#: Where a container says how much it may use.
_LIMIT_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
#: Each heap keeps its own; threads that wait for the interpreter do not wait for each other's memory.
_HEAPS: Final = 2


def keep_memory() -> bool:
    """Keep freed memory, within limits; False where the C library knows no such thing, and nothing is changed."""
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    wanted = {_TRIM_THRESHOLD: _KEPT, _MMAP_THRESHOLD: _LARGEST, _ARENA_MAX: _HEAPS}
    done = [choose(which, size) for which, size in wanted.items()]
    return all(done)


def with_shared_memory(project: Project, workers: int, machine: int | None = None) -> Project:
    """A project whose database has its share of the machine's memory, where the project file does not state a size.

    The bytes of the machine are looked up where they are not given.
    """
    # The other engines are servers with limits of their own.
    if project.engine != "duckdb" or project.limits.memory is not None:
        return project
    found = machine_memory() if machine is None else machine
    if not found:
        return project
    size = max(found * _SHARED // 10 // workers // _MEGABYTE, _LEAST)
    return replace(project, limits=project.limits.model_copy(update={"memory": f"{size}MiB"}))


def machine_memory() -> int:
    """Bytes that this machine or its container has; 0 where nothing says so."""
    found = []
    with suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in _LIMIT_FILES:
        with suppress(OSError, ValueError):
            found.append(int(Path(name).read_text(encoding="ascii")))
    return min((size for size in found if size > 0), default=0)


#: Seconds between two signs of life, and between two looks whether to stop.
_BEAT: Final = 1.0
_LOOK: Final = 0.05
#: Increments in one report: a pipe takes a message of 4,096 bytes whole or not at all.
_PIECE: Final = 16
#: Room for files beside connections.
_FILES: Final = 256
_HANDSHAKE_SECONDS: Final = 10.0
_TURN: Final = 0.001
#: Allocations before a collection of young objects, of those before one of older ones, of those before one of all.
_COLLECT: Final = (2_000, 10, 10_000)


@dataclass(frozen=True)
class Serving:
    """A project and how it is served.

    Args:
        log: the file for lines about requests; None for none, ``-`` for standard error.
        welcome: called once, by the first worker before it listens; its result is for the operator to see.
        proxies: addresses whose word about the origin of requests counts, behind a proxy.
        connections: the most of one worker.
        connections_of_one: the most of one address.
    """

    project: Path
    settings: Settings
    log: str | None = "-"
    welcome: Callable[[CuratorService], dict[str, Any]] | None = None
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    connections: int = 2000
    connections_of_one: int = 256


def run_worker(
    serving: Serving,
    listener: socket.socket,
    context: ssl.SSLContext | None,
    reports: Connection,
    buckets: Buckets,
    supervisor: int,
    *,
    first: bool,
    postgres: socket.socket | None = None,
) -> int:
    """Run a worker from the fork to its exit status.

    It writes to a pipe that the supervisor, a process id, reads; the first one of this start welcomes the operator.
    """
    # A terminal sends these to the whole group. The supervisor hears them too, and lets workers finish their work.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A supervisor that does not listen is not waited for.
    os.set_blocking(reports.fileno(), False)
    try:
        with _opened(serving) as (service, providers):
            welcome = serving.welcome(service) if first and serving.welcome is not None else {}
            _Worker(serving, service, providers, context, reports, buckets, supervisor, welcome, postgres).run(
                [listener]
            )
    except TacitError as problem:
        about = {"code": problem.code, "message": str(problem), "parameter": str(getattr(problem, "parameter", ""))}
        _report(reports, failed=about)
        return 3
    except Exception as problem:
        logging.getLogger("tacit.operator").exception("a worker failed")
        _report(reports, failed={"code": "internal", "message": f"{type(problem).__name__}: see the operator's log"})
        return 3
    return 0


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
        # Each worker would have an account of its own, and so the whole budget once more.
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
    """uvicorn's server with our signals, a limit for handshakes, and reports to the supervisor."""

    def __init__(
        self,
        serving: Serving,
        service: CuratorService,
        providers: dict[str, OpenIDProvider],
        context: ssl.SSLContext | None,
        reports: Connection,
        buckets: Buckets,
        supervisor: int,
        welcome: dict[str, Any],
        postgres: socket.socket | None = None,
    ) -> None:
        from tacit.server.api.app import create_app
        from tacit.server.pgwire.server import PostgresServer, postgres_tls

        settings = serving.settings
        self._context = context
        self._reports = reports
        self._supervisor = supervisor
        self._welcome = welcome
        self._counters = Counters()
        most_of_one = None if settings.behind_proxy else serving.connections_of_one
        connections = Connections(min(serving.connections, _room()), most_of_one)
        app = create_app(service, settings, buckets, providers)
        logged = AccessLog(app, Lines(_stream(serving.log)), self._counters)
        self._postgres_socket = postgres
        self._postgres: PostgresServer | None = None
        if postgres is not None:
            self._postgres = PostgresServer(app.state.runtime, connections, postgres_tls(settings), logged.note)
        super().__init__(
            uvicorn.Config(
                logged,
                http=guarded(settings, connections),
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
            )
        )
        _quiet_libraries()
        keep_memory()
        # A full collection looks through modules and kept plans, a tenth of a second in which no request is answered:
        # modules are frozen, and it is made rare. A request leaves young objects, whose collections are short.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECT)
        if settings.slot:
            # So long a working thread holds the interpreter before the loop gets a turn: small beside a slot.
            sys.setswitchinterval(_TURN)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: only SIGTERM means something, and resources are closed after it."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report it."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the application did not start")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        protocol: Any = self.config.http_protocol_class
        state, more = self.server_state, self.lifespan.state

        def make() -> asyncio.Protocol:
            made: asyncio.Protocol = protocol(config=self.config, server_state=state, app_state=more)
            return made

        # A limit for handshakes may only be stated where there are some.
        seconds = None if self._context is None else _HANDSHAKE_SECONDS
        backlog = self.config.backlog
        self.servers = [
            await loop.create_server(make, sock=each, backlog=backlog, ssl=self._context, ssl_handshake_timeout=seconds)
            for each in sockets or []
        ]
        if self._postgres is not None and self._postgres_socket is not None:
            await self._postgres.listen(self._postgres_socket)
        self.started = True
        _report(self._reports, ready=os.getpid(), welcome=self._welcome)

    async def main_loop(self) -> None:
        """Give signs of life until told to stop, or until the supervisor is gone."""
        while not self.should_exit:
            self._beat()
            for _ in range(round(_BEAT / _LOOK)):
                await asyncio.sleep(_LOOK)
                self.should_exit |= os.getppid() != self._supervisor
                if self.should_exit:
                    return

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing new, finish work under way, and report the last counts."""
        if self._postgres is not None:
            await self._postgres.stop(self.config.timeout_graceful_shutdown or 1)
        await super().shutdown(sockets)
        self._beat()

    def _beat(self) -> None:
        news = self._counters.news()
        for start in range(0, max(len(news), 1), _PIECE):
            _report(self._reports, added=news[start : start + _PIECE])

    def _stop(self) -> None:
        self.should_exit = True


def _report(reports: Connection, **about: Any) -> None:
    with suppress(OSError):
        reports.send_bytes(json.dumps(about).encode())


def _quiet_libraries() -> None:
    """Send failures of libraries to the operator's log; drop their lines about malformed requests."""

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
    """Number of connections that the system lets this process have."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(min(hard, 1 << 20) - _FILES, 16)
