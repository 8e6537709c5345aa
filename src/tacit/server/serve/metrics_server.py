"""``/metrics`` endpoint on loopback."""

from __future__ import annotations

import socket
from typing import Final

from tacit.core.errors import InputError
from tacit.server.serve.metrics import Counters, exposition

__all__ = ["MetricsPage"]

#: Whoever asks is on this machine and asks something short; a supervisor does not wait for anybody.
_SECONDS: Final = 0.25
_LONGEST: Final = 8192


class MetricsPage:
    """A page for Prometheus.

    Args:
        port: on loopback; 0 for any that is free.
    """

    def __init__(self, port: int) -> None:
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind(("127.0.0.1", port))
            self.listener.listen(16)
            self.listener.setblocking(False)
        except (OSError, OverflowError) as problem:
            self.listener.close()
            raise InputError("metrics_port", f"{port} cannot be used: {problem}") from None

    @property
    def address(self) -> str:
        """Where to point Prometheus."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/metrics"

    def answer(self, counters: Counters, workers: int) -> None:
        """Answer one request, if it comes at once."""
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(_SECONDS)
            try:
                connection.sendall(_response(_request(connection), counters, workers))
            except OSError:
                return

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()


def _request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and len(received) < _LONGEST:
        part = connection.recv(_LONGEST)
        if not part:
            break
        received += part
    return received


def _response(request: bytes, counters: Counters, workers: int) -> bytes:
    if request.split(b" ", 2)[:2] != [b"GET", b"/metrics"]:
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    body = exposition(counters, {"tacit_workers": ("Workers that run.", workers)})
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\nconnection: close\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body
