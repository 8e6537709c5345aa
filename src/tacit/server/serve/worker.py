"""Worker process with its own curator on the shared ledger.

Besides, they share only how often somebody came lately.

It stops for SIGTERM, or when its supervisor is gone: it takes nothing new, finishes what is under way as long as the
settings allow, and closes. What it could not finish was charged before, and whoever asks again gets the answer under
that charge.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from tacit.core.errors import InputError, TacitError
from tacit.server.serve.access_log import AccessLog, Lines
from tacit.server.serve.connection_limit import Connections
from tacit.server.serve.malloc import keep_memory, with_shared_memory
from tacit.server.serve.metrics import Counters
from tacit.server.serve.protocol import guarded
from tacit.server.serve.worker_pipe import WorkerLink
from tacit.server.settings import Settings
from tacit.server.shared_token_buckets import Buckets

if TYPE_CHECKING:
    from tacit.server.service import CuratorService

__all__ = ["Serving", "run_worker"]

#: Seconds between two signs of life.
BEAT: Final = 1.0
#: Room for files beside connections.
_FILES: Final = 256
_HANDSHAKE_SECONDS: Final = 10.0
_PIECE: Final = 16
_TURN: Final = 0.001
#: How often Python's collector looks at young, older and all objects: what a request leaves behind is young. Each look
#: is short, since nobody is answered meanwhile; to look rarely and long takes no less time in all.
_COLLECT: Final = (2_000, 10, 10_000)


@dataclass(frozen=True)
class Serving:
    """What is served, and how.

    Args:
        project: the project file.
        settings: of the server.
        log: the file for lines about requests; None for none, ``-`` for standard error.
        welcome: called once, by the first worker before it listens; what it returns is for the operator to see.
        proxies: addresses that are believed about where requests come from, behind a proxy.
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
    link: WorkerLink,
    buckets: Buckets,
    *,
    first: bool,
) -> int:
    """The life of a worker, from the fork to its exit status."""
    # A terminal sends these to the whole group. The supervisor hears them too, and lets workers finish what they do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Until the loop runs, as if it had never begun.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with _opened(serving) as office:
            welcome = serving.welcome(office) if first and serving.welcome is not None else {}
            _serve(serving, office, listener, context, link, buckets, welcome)
    except TacitError as problem:
        link.tell(failed={"code": problem.code, "message": str(problem), "parameter": _parameter(problem)})
        return 3
    except Exception as problem:
        logging.getLogger("tacit.operator").exception("a worker failed")
        link.tell(failed={"code": "internal", "message": f"{type(problem).__name__}: see the operator's log"})
        return 3
    return 0


@contextmanager
def _opened(serving: Serving) -> Iterator[CuratorService]:
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
    shared = with_shared_memory(project, serving.settings.workers)
    with open_project(shared) as curator, People.open(curator.ledger, place, obvious=(curator.name,)) as people:
        yield CuratorService(curator, people, serving.settings)


def _serve(
    serving: Serving,
    office: CuratorService,
    listener: socket.socket,
    context: ssl.SSLContext | None,
    link: WorkerLink,
    buckets: Buckets,
    welcome: dict[str, Any],
) -> None:
    from tacit.server.api.app import create_app

    counters = Counters()
    settings = serving.settings
    application = AccessLog(create_app(office, settings, buckets), Lines(_stream(serving.log)), counters)
    connections = Connections(
        min(serving.connections, _room()), None if settings.behind_proxy else serving.connections_of_one
    )
    config = uvicorn.Config(
        application,
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
    _hush()
    if settings.slot:
        # Threads that work hold the interpreter so long before the loop gets a turn: it must be small beside a slot.
        sys.setswitchinterval(_TURN)
    # What was imported and opened stays for good: the collector need not look at it ever again. Plans that are kept are
    # many objects; to look through all of them takes a tenth of a second in which nobody is answered.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT)
    keep_memory()
    _Worker(config, context, link, counters, welcome).run([listener])


class _Worker(uvicorn.Server):
    """uvicorn's server with our signals, a limit for handshakes, and reports to the supervisor."""

    def __init__(
        self,
        config: uvicorn.Config,
        context: ssl.SSLContext | None,
        link: WorkerLink,
        counters: Counters,
        welcome: dict[str, Any],
    ) -> None:
        super().__init__(config)
        self._context = context
        self._link = link
        self._counters = counters
        self._welcome = welcome

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Only SIGTERM means something, and it is not raised again: there is something to close afterwards."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the application did not start")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(self._link.life, self._stop)
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
        self.started = True
        self._link.tell(ready=os.getpid(), welcome=self._welcome)

    async def main_loop(self) -> None:
        """Sign of life after sign of life, until told to stop."""
        while not self.should_exit:
            self._report()
            for _ in range(20):
                await asyncio.sleep(BEAT / 20)
                if self.should_exit:
                    return

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing new, finish what is under way, and report the last counts."""
        asyncio.get_running_loop().remove_reader(self._link.life)
        await super().shutdown(sockets)
        self._report()

    def _report(self) -> None:
        """A sign of life, and what was counted: in pieces that a pipe takes whole or not at all."""
        news = self._counters.news()
        for start in range(0, max(len(news), 1), _PIECE):
            self._link.tell(alive=os.getpid(), added=news[start : start + _PIECE])

    def _stop(self) -> None:
        self.should_exit = True


def _hush() -> None:
    """Have uvicorn say to the operator what fails, and to nobody what strangers send: that would be theirs to write."""

    class _ToOperator(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logging.getLogger("tacit.operator").handle(record)

    log = logging.getLogger("uvicorn")
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.handlers = [_ToOperator()]


def _stream(log: str | None) -> Any:
    if log is None or log == "-":
        return None if log is None else sys.stderr
    return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")


def _room() -> int:
    """How many connections the system lets this process have."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(min(hard, 1 << 20) - _FILES, 16)


def _parameter(problem: TacitError) -> str:
    return str(getattr(problem, "parameter", ""))
