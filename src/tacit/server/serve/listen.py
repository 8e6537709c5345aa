"""Listening sockets and TLS."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
import stat
import sys
from typing import Final

from tacit.core.errors import InputError
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
