"""A small hospital behind an application: three tables, two populations, people with tokens; all in one process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import httpx2

from support.toy_engine import ToyEngine
from tacit.curator.curator import Curator
from tacit.curator.opening import open_ledger
from tacit.ledger.memory import MEMORY
from tacit.project.project_file import PopulationModel
from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table
from tacit.query.types import DATE, INTEGER, TEXT, decimal
from tacit.releases.accounts import account_kind, filter_of
from tacit.releases.query import QueryContext
from tacit.server.api.app import App, create_app
from tacit.server.identity import People, Role
from tacit.server.identity.oidc import OpenIDProvider
from tacit.server.service import CuratorService
from tacit.server.settings import Settings

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("a", "b", "c")),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(100))),
                Column("units", INTEGER, bounds=(0, 2**52)),
                Column("street", TEXT),
                Column("day", DATE),
                Column("nurse", INTEGER),
            ),
            population="patients",
            unit="patient",
            foreign_keys=(ForeignKey("nurse", "staff", "id"),),
            max_groups=2,
            max_rows=2,
        ),
        Table(
            "staff",
            (Column("id", INTEGER, unique=True), Column("salary", INTEGER, bounds=(0, 9000))),
            population="employees",
            unit="id",
        ),
        Table("wards", (Column("name", TEXT, categories=("a", "b", "c")), Column("beds", INTEGER)), public=True),
    ),
    (Population("patients"), Population("employees")),
)
BUDGETS: Mapping[str, Mapping[str, Any]] = {
    "patients": {"accounting": "approx", "epsilon": "10", "delta": "1e-6"},
    "employees": {"accounting": "pure", "epsilon": "5"},
}
COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
STAFF = "SELECT COUNT(*) AS n FROM staff"


def rows() -> dict[str, list[dict[str, Any]]]:
    """The contents of all tables."""
    import datetime as dt

    visits = [
        {
            "patient": i // 3,
            "ward": "abc"[i % 3],
            "cost": Fraction(i % 101),
            "units": i,
            "street": f"street {i % 2}",
            "day": dt.date(2025, 1, 1 + i % 28),
            "nurse": i % 10,
        }
        for i in range(600)
    ]
    staff = [{"id": i, "salary": 1000 + 100 * i} for i in range(10)]
    wards = [{"name": name, "beds": beds} for name, beds in (("a", 10), ("b", 20), ("c", 30))]
    return {"visits": visits, "staff": staff, "wards": wards}


@dataclass
class Served:
    """An application and what is behind it."""

    app: App
    service: CuratorService
    engine: Any
    settings: Settings
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def people(self) -> People:
        """People who may sign in."""
        return self.service.people

    @property
    def curator(self) -> Curator:
        """Curator that answers."""
        return self.service.curator

    def client(self, name: str = "alice", **headers: str) -> httpx2.AsyncClient:
        """A client with the token of a named person; without a token where the name is empty."""
        shown = {"authorization": f"Bearer {self.tokens[name]}"} if name else {}
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=True)
        return httpx2.AsyncClient(transport=transport, base_url="http://tacit", headers=shown | headers)

    def job(self, path: str, body: Any, name: str = "olga", headers: Any = None) -> tuple[httpx2.Response, Any]:
        """The response to a request for a job, and the job when it has ended; None where there is none."""

        async def story() -> tuple[httpx2.Response, Any]:
            async with self.client(name) as client:
                response = await client.post(path, json=body, headers=headers)
                if response.status_code != 202:
                    return response, None
                for _ in range(3_000):
                    body_of_job = (await client.get(response.headers["location"])).json()
                    if body_of_job["state"] in ("done", "failed"):
                        return response, body_of_job
                    await asyncio.sleep(0.01)
                raise AssertionError("the job is not finished")

        return asyncio.run(story())

    def call(self, method: str, path: str, name: str = "alice", **words: Any) -> httpx2.Response:
        """One request and its response, on an event loop of its own."""

        async def once() -> httpx2.Response:
            async with self.client(name) as client:
                return await client.request(method, path, **words)

        return asyncio.run(once())

    def get(self, path: str, name: str = "alice", **words: Any) -> httpx2.Response:
        """As :meth:`call`."""
        return self.call("GET", path, name, **words)

    def ask(self, sql: str = COUNT, name: str = "alice", *, headers: Any = None, **words: Any) -> httpx2.Response:
        """A query to ``/v1/query``."""
        return self.call("POST", "/v1/query", name, json={"sql": sql, **words}, headers=headers)

    def raw(self, *args: Any, name: str = "alice", headers: Any = (), **words: Any) -> tuple[int, Any, bytes]:
        """As :func:`raw`, with the token of a named person."""
        shown = [(b"authorization", f"Bearer {self.tokens[name]}".encode())] if name else []
        return asyncio.run(raw(self.app, *args, headers=[*shown, *headers], **words))

    def access(self, name: str = "alice") -> Any:
        """Access that the token of a named person stands for."""
        found = self.people.authenticate(self.tokens[name])
        assert found is not None
        return found

    def spent(self, population: str = "patients") -> Fraction:
        """Epsilon that was charged to a population."""
        lines = self.curator.budget(population=population).lines
        return next(Fraction(line.spent) for line in lines if line.currency == "epsilon")

    def close(self) -> None:
        """Give everything back."""
        self.people.close()
        self.curator.close()


def serve(
    *,
    engine: Any = None,
    catalog: Catalog = CATALOG,
    ledger: str = MEMORY,
    budgets: Mapping[str, Mapping[str, Any]] = BUDGETS,
    version: Callable[[Any], str] = lambda tables: "1",
    providers: Mapping[str, OpenIDProvider] | None = None,
    **settings: Any,
) -> Served:
    """The hospital, with alice and bob, carol (patients only), dan (employees only), audrey (auditor) and olga (owner).

    Slots are off by default.
    """
    engine = engine or ToyEngine(rows())
    opened = open_ledger(ledger)
    accounts = {}
    for name, words in budgets.items():
        model = PopulationModel(**words)
        limit = filter_of(name, model)
        opened.ledger.ensure_account(name, limit)
        accounts[name] = account_kind(name, model, limit)
    context = QueryContext("hospital", catalog, engine, opened.ledger, opened.keys, accounts, version)
    chosen = Settings(**{"response_step": 0.0, **settings})
    people = People.open(opened.ledger, ledger)
    service = CuratorService(Curator(context, "owner"), people, chosen)
    served = Served(create_app(service, chosen, providers=providers), service, engine, chosen)
    for name, role, seen in (
        ("alice", Role.ANALYST, None),
        ("bob", Role.ANALYST, None),
        ("carol", Role.ANALYST, frozenset({"patients"})),
        ("dan", Role.ANALYST, frozenset({"employees"})),
        ("audrey", Role.AUDITOR, None),
        ("olga", Role.OWNER, None),
    ):
        people.add(name, role, populations=seen, operator="test")
        served.tokens[name] = people.issue(name, expires=None, operator="test").text
    return served


async def raw(
    app: App,
    method: str = "GET",
    path: str = "/v1/health",
    *,
    headers: list[tuple[bytes, bytes]] | None = None,
    body: list[bytes] | bytes = b"",
    query: bytes = b"",
    receive: Any = None,
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Answer of an application to a request that no client would send."""
    parts = [body] if isinstance(body, bytes) else list(body)
    messages = [{"type": "http.request", "body": part, "more_body": i < len(parts) - 1} for i, part in enumerate(parts)]
    sent: list[dict[str, Any]] = []

    async def from_parts() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": query,
        "root_path": "",
        "headers": headers or [],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive or from_parts, send)  # type: ignore[arg-type]
    if not sent:
        return 0, {}, b""
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(m.get("body", b"") for m in sent[1:])


def error(body: bytes) -> dict[str, Any]:
    """The error in a body, if it has exactly the one shape."""
    content = json.loads(body)
    assert set(content) == {"error"}
    told: dict[str, Any] = content["error"]
    assert {"code", "message"} <= set(told) <= {"code", "message", "id", "parameter"}
    assert all(isinstance(value, str) for value in told.values())
    return told
