"""Settings of a server."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, fields
from typing import Final

from tacit.core.errors import InputError

_ADDRESS: Final = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")

#: Settings for which zero is valid.
_MAY_BE_ZERO: Final = (
    "response_step",
    "tick",
    "queue",
    "quick_queue",
    "drain_seconds",
    "late_per_day",
    "port",
    "postgres",
    "threads_per_analyst",
)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback address, reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits, response steps, rates and addresses of a server.

    Rates are counted across all worker processes; numbers of threads, queues and connections are per process.

    Args:
        host: the address to listen on.
        port: the port to listen on.
        postgres: port for PostgreSQL clients; None to serve none.
        mcp: whether AI assistants may ask queries, at ``/mcp``.
        workers: number of worker processes.
        tls_cert: path of the TLS certificate.
        tls_key: path of its private key.
        behind_proxy: whether a reverse proxy terminates TLS and forwards the client address.
        address: public address of the server, for links; the Host header of a request is not trusted.
        response_step: a fresh answer is sent 1, 2, 4, 8 … times these seconds after its query began; the query's text
            decides which of these times it is. 0 to send answers when they are ready.
        tick: seconds; the response to a free request (quotes, budgets, the catalog) is sent after 1, 2, 4, 8 …
            ticks, unless ``response_step`` is 0.
        row_seconds: maximum seconds of one row operation; one person can change a running time by at most this times
            the row operations that the query's text allows per person.
        work_seconds: maximum processor seconds of one query, by its text and the declared sizes of tables; a query
            that needs more is refused.
        processor_share: share of the machine's processor time for the queries that one person asks in a minute.
        time_epsilon: maximum epsilon that response times reveal, once for each worker process and once more for each
            late answer.
        late_per_analyst: maximum number of late answers of one person while the server runs.
        late_per_population: maximum number of late answers about one population, for all workers together.
        late_per_day: number of late answers forgotten per day; each costs ``time_epsilon`` again. 0 for none.
        threads: maximum number of queries that run at once.
        threads_per_analyst: maximum number of one person's queries that run at once; 0 for half of ``threads``.
        queue: maximum number of queries that wait for a thread; further ones are refused as busy.
        quick_threads: maximum number of free requests (quotes, budgets and so on) that run at once.
        quick_queue: maximum number of free requests that wait for a thread.
        max_body: maximum bytes of a request's body.
        max_form: maximum bytes of a console form, in whose encoding the same text takes more bytes.
        body_seconds: maximum seconds until a body has arrived.
        max_headers: maximum number of header lines of a request.
        max_header_bytes: maximum bytes of all header lines together.
        max_path: maximum bytes of path and query string.
        asks_per_minute: maximum queries of one person per minute, across all workers; all may arrive at once.
        quotes_per_minute: maximum quotes of one person per minute, counted likewise.
        reads_per_minute: maximum number of all further requests of one person per minute, counted likewise.
        failures_per_minute: maximum requests without a valid token from one address per minute; ten times as many
            sign-ins.
        history_page: maximum number of charges on one page.
        history_look: maximum number of ledger entries that one page reads.
        job_seconds: seconds without a sign of life from a worker after which another one takes over its job.
        drain_seconds: maximum seconds that a stopping server waits for running work.
    """

    host: str = "127.0.0.1"
    port: int = 8470
    postgres: int | None = None
    mcp: bool = False
    workers: int = 1
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    address: str | None = None
    response_step: float = 0.25
    tick: float = 0.01
    row_seconds: float = 1e-7
    work_seconds: float = 30.0
    processor_share: float = 0.5
    time_epsilon: float = 0.1
    late_per_analyst: int = 4
    late_per_population: int = 12
    late_per_day: float = 1.0
    threads: int = 8
    threads_per_analyst: int = 0
    queue: int = 64
    quick_threads: int = 4
    quick_queue: int = 256
    max_body: int = 65_536
    max_form: int = 262_144
    body_seconds: float = 10.0
    max_headers: int = 64
    max_header_bytes: int = 16_384
    max_path: int = 2_048
    asks_per_minute: int = 60
    quotes_per_minute: int = 600
    reads_per_minute: int = 600
    failures_per_minute: int = 20
    history_page: int = 50
    history_look: int = 2_000
    job_seconds: float = 30.0
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            # Written so that NaN fails.
            if not (0 <= value < 10**9 and (value > 0 or field.name in _MAY_BE_ZERO)):
                raise InputError(field.name, f"must be a number above 0, got {value}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("tls_key", "certificate and key go together; state both")
        if self.address is not None and _ADDRESS.fullmatch(self.address) is None:
            raise InputError("address", "must be an address alone, such as https://tacit.example.org")

    @property
    def running_each(self) -> int:
        """Maximum number of one person's queries that run at once."""
        return min(self.threads_per_analyst or max(self.threads // 2, 1), self.threads)

    @property
    def secure(self) -> bool:
        """Whether browsers reach the server by TLS, so that cookies may be marked secure."""
        return self.tls_cert is not None or self.behind_proxy
