"""Processes of Python that begin with Tacit's modules in memory: a parent that has imported them forks each one.

Importing what a server needs takes two seconds of processor time, a fork a hundredth of that. A process is one of its
own in all other ways: with its own environment, streams, exit status and signals. Imports, options of Python, and what
is inherited from the process that starts it (ignored signals) are tested with :mod:`subprocess` itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["WarmProcess", "run_warm"]

_TESTS = Path(__file__).resolve().parents[1]
_LONGEST_MESSAGE = 1 << 18
#: Seconds between two looks whether a process has ended.
_STEP = 0.01


class _Parent:
    """The process that forks: started when the first one is asked for, ended with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._connection: socket.socket | None = None

    def ask(self, request: dict[str, Any], streams: Sequence[int] = ()) -> Any:
        """Send a request; return the reply."""
        with self._lock:
            # What was forked of this process has no use for its parent's.
            if self._connection is None or self._owner != os.getpid():
                self._start()
            assert self._connection is not None
            socket.send_fds(self._connection, [json.dumps(request).encode()], streams)
            return json.loads(self._connection.recv(_LONGEST_MESSAGE))

    def _start(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.warm", str(there.fileno())],
                pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, cwd=_TESTS, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        self._owner, self._connection = os.getpid(), here


_parent = _Parent()


class WarmProcess(subprocess.Popen[Any]):
    """``subprocess.Popen`` of ``[sys.executable, "-m" or "-c", program, *arguments]``."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        (_, _, _, cwd, env, _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_) = rest
        assert args[0] == sys.executable
        assert args[1] in ("-m", "-c")
        request = {
            "argv": [os.fspath(word) for word in args[1:]],
            "cwd": os.path.abspath(cwd or os.curdir),  # Links stay as they were given.
            "env": dict(os.environ if env is None else env),
        }
        streams = [given if given != -1 else own for given, own in ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))]
        try:
            self.pid = _parent.ask(request, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As of the base class, whose processes are children of this one."""
        while True:
            try:
                pid, status = _parent.ask({"wait": self.pid})
            except (OSError, ValueError):
                return self.pid, 0  # As where a child was waited for elsewhere.
            if pid or wait_flags & os.WNOHANG:
                return pid, status
            time.sleep(_STEP)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def run_warm(command: Sequence[str], *, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run`` with what it writes, in a :class:`WarmProcess`."""
    with WarmProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            said, complained = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def _import_all() -> None:
    for module in ("tacit.cli.query", "tacit.cli.serve", "support.toy_curators", "support.toy_engine"):
        importlib.import_module(module)
    importlib.import_module("tacit.server.serve.processes")._import_modules_of_workers()


def _fork_on_request(connection: socket.socket) -> dict[str, Any]:
    """Fork for every request until the other end is closed; returns in the children alone, with the request."""
    connection.settimeout(5)
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            message, streams, _, _ = socket.recv_fds(connection, _LONGEST_MESSAGE, 3)
        except TimeoutError:
            continue
        if not message:
            break
        request: dict[str, Any] = json.loads(message)
        if "wait" in request:
            connection.send(json.dumps(os.waitpid(request["wait"], os.WNOHANG)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            return request
        for stream in streams:
            os.close(stream)
        connection.send(json.dumps(pid).encode())
    os._exit(0)


def _become(request: dict[str, Any]) -> None:
    """Go on as the program that was asked for."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    # Buffered by line at a terminal alone, as at the start of Python.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    how, program, *arguments = request["argv"]
    # Where Python looks first, as at its start.
    sys.path[0] = request["cwd"] if how == "-m" else ""
    if how == "-m":
        sys.argv = [program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})


if __name__ == "__main__":
    # The keyboard's signal is for the tests; they end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    gc.collect()
    gc.freeze()
    _become(_fork_on_request(socket.socket(fileno=int(sys.argv[1]))))
