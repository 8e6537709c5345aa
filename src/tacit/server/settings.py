"""Settings of a server."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, fields
from typing import Final

from tacit.core.errors import InputError

_ADDRESS: Final = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")

#: Settings that may be zero: a slot that is switched off, a queue that does not exist.
_MAY_BE_ZERO: Final = (
    "slot",
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
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits, slots, rates and addresses of a server.

    Rates are counted for all worker processes together; threads, queues and connections are those of each.

    Args:
        host: the address to listen on.
        port: to listen on.
        postgres: port for PostgreSQL clients; None for none.
        mcp: whether AI assistants may ask, at ``/mcp``.
        workers: processes.
        tls_cert: file of the certificate.
        tls_key: file of its key.
        behind_proxy: whether a reverse proxy terminates TLS and forwards the client address.
        address: how people reach it, for links that are passed on; what a request says of it is not believed.
        slot: seconds; a fresh answer leaves 1, 2, 4, 8 … slots after its query began, which of them is decided by
            the query's text. 0 switches slots off.
        tick: seconds; what is free (quotes, budgets, the catalog) answers after 1, 2, 4, 8 … ticks, unless slots are
            switched off.
        row_seconds: how long one row operation takes at most; by how much one person can change a running time is
            this times the work that the text allows.
        work_seconds: processor time that one query may take, by its text and the declared sizes of tables; one of more
            is refused.
        processor_share: of the processor time of the machine, for the queries that one person asks in a minute.
        time_epsilon: the most that readiness in time reveals, for each worker process and once more
            for each answer that was late.
        late_per_analyst: how many answers of one person may be late in one start of the server.
        late_per_population: how many about one population, for all workers together.
        late_per_day: how many of these are forgotten in a day; each costs ``time_epsilon`` again. 0 for none.
        threads: queries that run at once.
        threads_per_analyst: of them, for one person; 0 for half of them.
        queue: queries that may wait for a thread; one more is told to come back.
        quick_threads: quotes, budgets and other free things that run at once.
        quick_queue: as ``queue``, for those.
        max_body: bytes of a request's body.
        max_form: bytes of a form of the console, where the same text takes more of them.
        body_seconds: in which a body must have arrived.
        max_headers: header lines of a request.
        max_header_bytes: of all of them together.
        max_path: bytes of path and query string.
        asks_per_minute: of one person, at all workers together; as many may come at once.
        quotes_per_minute: likewise.
        reads_per_minute: likewise, for everything else.
        failures_per_minute: requests without a valid token from one address, and ten times as many sign-ins.
        history_page: the most charges of one page.
        history_look: the most entries of the ledger that one page looks at.
        job_seconds: how long a worker may be silent about a job before another takes it over.
        drain_seconds: how long a server that stops waits for what is under way.
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
    slot: float = 0.25
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
        """Number of queries of one person that run at once."""
        return min(self.threads_per_analyst or max(self.threads // 2, 1), self.threads)

    @property
    def secure(self) -> bool:
        """Whether browsers reach it by TLS, so that cookies may say so."""
        return self.tls_cert is not None or self.behind_proxy
