"""Supervisor of worker processes.

It imports what workers need, and opens nothing: no ledger, no engine, no thread. So a worker is made in no time by a
fork, and inherits nothing that two processes must not share. What they must share, how often somebody came lately, lies
in memory that is made before. The listening sockets are its own: connections that arrive while a worker is replaced
wait for the next one.
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tacit.core.errors import AccessError, InputError, InternalError, TacitError
from tacit.server.serve.access_log import Lines
from tacit.server.serve.listen import address_of, bind, check_place, tls_context
from tacit.server.serve.metrics import MetricsPage
from tacit.server.serve.worker import Serving, run_worker
from tacit.server.serve.worker_pipe import WorkerLink, make_link
from tacit.server.shared_token_buckets import Buckets

__all__ = ["Started", "supervise"]

#: A worker whose loop has not turned for so long is taken for hung.
HUNG_SECONDS: Final = 60.0
_LONGEST_PAUSE: Final = 5.0
_YOUNG_SECONDS: Final = 5.0
#: All but the last mean the end, also that of the terminal.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True)
class Started:
    """What can be said once the first worker answers.

    Args:
        address: of the server.
        metrics: of the page with metrics; empty without.
        welcome: what the first worker had to say.
    """

    address: str
    metrics: str
    welcome: dict[str, Any]


@dataclass
class _Place:
    """A worker's place: its socket, and who works there now."""

    listener: socket.socket
    pid: int = 0
    link: WorkerLink | None = None
    began: float = 0.0
    heard: float = 0.0
    ready: bool = False
    failures: int = 0
    due: float = 0.0


def supervise(
    serving: Serving, *, started: Callable[[Started], None] | None = None, metrics_port: int | None = None
) -> int:
    """Serve until SIGTERM or SIGINT; the exit status.

    Args:
        serving: what and how.
        started: called when the first worker answers.
        metrics_port: of this machine alone, for a page with metrics; None for none, 0 for any that is free.

    Raises:
        InputError: the place, the certificate or the project cannot be used.
    """
    check_place(serving.settings)
    context = tls_context(serving.settings)
    listeners = bind(serving.settings)
    try:
        page = None if metrics_port is None else MetricsPage(metrics_port)
        try:
            _warm()
            return _Supervisor(serving, context, listeners, page, started).run()
        finally:
            # Libraries look for what was not collected when a process ends, and would complain.
            gc.unfreeze()
            if page is not None:
                page.server_close()
    finally:
        for listener in listeners:
            listener.close()


def _warm() -> None:
    """Import what every worker needs, once.

    Nothing of it can be collected, so the collector stays away until it is there, and never looks at it afterwards.
    """
    gc.disable()
    try:
        import duckdb  # noqa: F401

        import tacit.curator.opening
        import tacit.engines.duckdb
        import tacit.server.api.app
        import tacit.server.identity  # noqa: F401
    finally:
        gc.enable()
        gc.freeze()


class _Supervisor:
    def __init__(
        self,
        serving: Serving,
        context: ssl.SSLContext | None,
        listeners: list[socket.socket],
        page: MetricsPage | None,
        started: Callable[[Started], None] | None,
    ) -> None:
        self._serving = serving
        self._context = context
        self._places = [_Place(listener) for listener in listeners]
        self._page = page
        self._started = started
        self._buckets = Buckets(shared=True)
        self._selector = selectors.DefaultSelector()
        self._stopping = 0
        self._ready = False
        self._lines = Lines(sys.stderr if serving.log == "-" else None)

    def run(self) -> int:
        """Until told to stop."""
        wake_read, wake_write = os.pipe()
        for end in (wake_read, wake_write):
            os.set_blocking(end, False)
        former = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        # A server started with nohup outlives the terminal.
        heard = [sign for sign in _SIGNALS if sign != signal.SIGHUP or signal.getsignal(sign) != signal.SIG_IGN]
        kept = {sign: signal.signal(sign, self._on_signal) for sign in heard}
        self._selector.register(wake_read, selectors.EVENT_READ, None)
        if self._page is not None:
            self._selector.register(self._page, selectors.EVENT_READ, self._page)
        try:
            self._fork(self._places[0], first=True)
            while not self._stopping:
                self._wait(0.5, wake_read)
                self._care()
            self._stop_all(wake_read)
        finally:
            self._kill_all()
            signal.set_wakeup_fd(former)
            for sign, handler in kept.items():
                signal.signal(sign, handler)
            self._selector.close()
            self._buckets.close()
            os.close(wake_read)
            os.close(wake_write)
        return 0

    def _on_signal(self, sign: int, _: object) -> None:
        if sign != signal.SIGCHLD:
            self._stopping += 1

    def _fork(self, place: _Place, *, first: bool = False) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        link = make_link()
        # Signals wait until the child has let go of our handlers: they would swallow the one that tells it to stop.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._become(place, link, former, first=first)
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        link.as_supervisor()
        place.pid, place.link, place.ready = pid, link, False
        place.began = place.heard = time.monotonic()
        self._selector.register(link.reading, selectors.EVENT_READ, place)

    def _become(self, place: _Place, link: WorkerLink, signals: set[int | signal.Signals], *, first: bool) -> None:
        """The child's side of a fork: it never returns, and runs nothing that was meant for the parent's end."""
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            for sign in _SIGNALS:
                signal.signal(sign, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            self._selector.close()
            link.as_worker()
            for other in self._places:
                if other.link is not None:
                    other.link.close()
                if other.listener is not place.listener:
                    other.listener.close()
            if self._page is not None:
                self._page.server_close()
            status = run_worker(self._serving, place.listener, self._context, link, self._buckets, first=first)
        except BaseException:
            logging.getLogger("tacit.operator").exception("a worker failed")
        finally:
            # No exit handlers, no threads to wait for: what had to be closed is closed.
            os._exit(status)

    def _wait(self, seconds: float, wake: int) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                _drain(wake)
            elif isinstance(key.data, MetricsPage):
                key.data.workers.set(len([place for place in self._places if place.pid]))
                key.data.handle_request()
            else:
                self._listen(key.data)

    def _listen(self, place: _Place) -> None:
        if place.link is None:
            return
        for told in place.link.told():
            place.heard = time.monotonic()
            if self._page is not None:
                self._page.add(told.get("added", []))
            if "failed" in told and not self._ready:
                raise _error(told["failed"])
            if "ready" in told:
                place.ready = True
                self._lines.write("worker ready", pid=place.pid)
                self._greet(told)
        if not place.link.open:
            self._bury(place)

    def _greet(self, told: dict[str, Any]) -> None:
        if self._ready:
            return
        self._ready = True
        if self._started is not None:
            metrics = "" if self._page is None else self._page.address
            address = address_of(self._serving.settings, self._places[0].listener)
            self._started(Started(address, metrics, told.get("welcome") or {}))

    def _bury(self, place: _Place) -> None:
        """A worker's pipe has ended, and so has the worker."""
        if place.link is not None:
            self._selector.unregister(place.link.reading)
            place.link.close()
            place.link = None
        pid, status = os.waitpid(place.pid, 0)
        # From here on the number may be somebody else's.
        place.pid = 0
        if not self._ready:
            raise InternalError(f"the first worker ended with status {os.waitstatus_to_exitcode(status)}")
        young = time.monotonic() - place.began < _YOUNG_SECONDS
        place.failures = place.failures + 1 if young else 0
        pause = min(0.1 * 2**place.failures, _LONGEST_PAUSE) if place.failures else 0.0
        place.due = time.monotonic() + pause
        self._lines.write("worker ended", pid=pid, status=os.waitstatus_to_exitcode(status))
        if not self._stopping and self._page is not None:
            self._page.add([("tacit_workers_replaced", (), 1)])

    def _care(self) -> None:
        """Fill empty places, and end whoever has hung."""
        now = time.monotonic()
        for place in self._places:
            if place.pid == 0 and self._ready and now >= place.due and not self._stopping:
                self._fork(place)
            elif place.ready and place.pid and now - place.heard > HUNG_SECONDS:
                self._lines.write("worker hung", pid=place.pid)
                _signal(place.pid, signal.SIGKILL)

    def _stop_all(self, wake: int) -> None:
        """Let workers finish; whoever asks a second time does not want to wait."""
        self._lines.write("stopping")
        for place in self._places:
            _signal(place.pid, signal.SIGTERM)
        limit = time.monotonic() + 2 * self._serving.settings.drain_seconds + 5
        asked = self._stopping
        while any(place.pid for place in self._places) and time.monotonic() < limit and self._stopping == asked:
            self._wait(0.2, wake)

    def _kill_all(self) -> None:
        for place in self._places:
            if place.pid:
                _signal(place.pid, signal.SIGKILL)
                os.waitpid(place.pid, 0)
                place.pid = 0
            if place.link is not None:
                place.link.close()
                place.link = None


def _signal(pid: int, sign: int) -> None:
    if pid:
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            return


def _drain(pipe: int) -> None:
    try:
        while os.read(pipe, 4096):
            continue
    except BlockingIOError:
        return


def _error(told: dict[str, Any]) -> TacitError:
    """What stopped the first worker, as an error of this process."""
    code, message = str(told.get("code")), str(told.get("message"))
    if code.startswith("input"):
        parameter = str(told.get("parameter") or "project")
        return InputError(parameter, message.removeprefix(f"{parameter}: "))
    if code.startswith("access"):
        return AccessError(message)
    problem = InternalError(message)
    vars(problem)["code"] = code if code.startswith("internal") else "internal"
    return problem
