"""A real ``tacit serve`` on a loopback port: a process of its own, with workers that may be killed."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

import tacit
from support.warm import WarmProcess

WARDS = ("cardiology", "oncology", "surgery")
COUNT = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"
#: Nothing here is about rates; those have tests of their own.
GENEROUS = ("asks_per_minute", "quotes_per_minute", "reads_per_minute", "failures_per_minute")
PATIENCE = 60.0


def until(done: Callable[[], Any], what: str) -> Any:
    """Wait until ``done`` returns something true, and return it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = done()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it took too long: {what}")


def fetch(url: str, token: str = "", body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a response, on a connection of its own."""
    words = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        words["Authorization"] = f"Bearer {token}"
    if body is not None:
        words["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=body, headers=words)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as found:
            return found.status, {k.lower(): v for k, v in found.headers.items()}, found.read()
    except urllib.error.HTTPError as found:
        return found.code, {k.lower(): v for k, v in found.headers.items()}, found.read()


def spent(project: Path) -> Fraction:
    """Amount charged to the account of a project."""
    with tacit.open(project) as curator:
        return Fraction(curator.budget().spent[0].amount)


def make_clinic(
    folder: Path, *, patients: int = 300, epsilon: str = "1000000", heavy: int = 0, without: int | None = None
) -> Path:
    """A project: patients with three visits each, one with ``heavy`` more of them, one of them left out if said."""
    folder.mkdir(parents=True, exist_ok=True)
    visits = [
        {"patient": p, "ward": WARDS[(p + v) % 3], "cost": (37 * p + 11 * v) % 1000, "day": (p + v) % 365}
        for p in range(patients)
        for v in range(3 + (heavy if p == 0 else 0))
        if p != without
    ]
    table = pa.Table.from_pylist(visits)
    pq.write_table(table, folder / "visits.parquet")
    project = folder / "tacit.toml"
    project.write_text(
        f"""
[project]
name = "clinic"
ledger = "tacit.ledger"
anchor = "tacit.anchor"

[populations.patients]
epsilon = "{epsilon}"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient"
max_groups = 3
max_rows = 2
table_rows = 10000

[tables.visits.columns]
ward = {{ categories = ["cardiology", "oncology", "surgery"] }}
cost = {{ bounds = [0, 1000] }}
day  = {{ bounds = [0, 365] }}
"""
    )
    return project


def make_tokens(project: Path, names: Iterable[str], *, role: str = "analyst") -> dict[str, str]:
    """People of a project, with a token each."""
    from tacit.curator.opening import open_curator
    from tacit.server.identity import People, Role

    with open_curator(project) as curator, People.open(curator.ledger, str(project.parent / "tacit.ledger")) as people:
        for name in names:
            people.add(name, Role(role), operator="test")
        return {name: people.issue(name, expires=None, operator="test").text for name in names}


class Server:
    """``tacit serve`` on any free port; ended by its process id, however a test ends.

    Args:
        project: the project file.
        options: of the command.
        limits: settings of the server.
        cold: start Python anew, which takes two seconds of processor time, instead of a fork with its modules.
    """

    def __init__(
        self, project: Path, *options: str, limits: dict[str, float] | None = None, cold: bool = False
    ) -> None:
        self.project = project
        self.log = project.parent / "server.err"
        chosen = dict.fromkeys(GENEROUS, 10_000_000.0) | (limits or {})
        words = [part for name, value in chosen.items() for part in ("--set", f"{name}={value:g}")]
        command = [sys.executable, "-m", "tacit.cli", "serve", "--project", str(project), "--port", "0", "--json"]
        out = project.parent / "server.out"
        with out.open("w") as stdout, self.log.open("a") as stderr:
            env = {**os.environ, "TACIT_STATE": str(project.parent / "state")}
            kind = subprocess.Popen if cold else WarmProcess
            self.process = kind([*command, *words, *options], stdout=stdout, stderr=stderr, env=env)
        self.told: dict[str, Any] = self._wait_for(out)
        self.address = str(self.told["address"])
        self.port = int(self.address.rpartition(":")[2])

    def _wait_for(self, out: Path) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = out.read_text()
            if text.endswith("\n"):
                return json.loads(text)  # type: ignore[no-any-return]
            if self.process.poll() is not None:
                raise RuntimeError(f"it ended with {self.process.returncode}: {self.log.read_text()}")
            time.sleep(0.02)
        self.kill()
        raise RuntimeError("it did not start")

    def workers(self) -> list[int]:
        """The process ids of its workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def wait_for_workers(self, count: int) -> list[int]:
        """Those, once there are so many that answer."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if len(found := self.workers()) == count:
                return found
            time.sleep(0.05)
        raise RuntimeError(f"there are {len(self.workers())} workers")

    def stop(self, seconds: float = 60.0) -> int:
        """End it in order; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End it and its workers at once."""
        if self.process.poll() is None:
            workers = self.workers()
            self.process.kill()
            self.process.wait()
            for pid in workers:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def resident(pid: int) -> int:
    """The memory of a process that is in use, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def certificate(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A certificate for this machine that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    for file in (cert, secret):
        file.chmod(0o600)
    yield cert, secret
