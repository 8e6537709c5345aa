"""tacit.connect against a server of a few lines: what is sent, what is read back, what is not believed."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tacit
from support.tiny_http import Request, TinyServer, response
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.client import http_client as channel
from tacit.client.account_responses import KeyResponse
from tacit.client.http_client import RateError, RemoteError, SignInError, TrustError, base_url, error_of, parsing
from tacit.client.remote_curator import RemoteCurator, RemoteRows
from tacit.client.responses import AnswerTableResponse, query_body
from tacit.core.errors import (
    AccessError,
    AccountingError,
    BudgetError,
    EngineError,
    InputError,
    InternalError,
    QueryError,
    TacitError,
)
from tacit.core.numbers import decimal_text
from tacit.curator.curator import Curator
from tacit.ledger.errors import BusyError, ConflictError, LedgerError, RollbackError
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.request import Request as Query
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, decimal

DAYS = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("<b>a</b>", "b", None)),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(10**12))),
                Column("weight", DOUBLE, bounds=(0.5, 300.25)),
                Column("day", DATE, bounds=DAYS),
            ),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
SQL = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS m, MEDIAN(day) AS d, AVG(weight) AS w, "
    "COUNT(*) > 100 AS many FROM visits GROUP BY ward"
)
COUNT = "SELECT COUNT(*) AS n FROM visits"


def rows() -> list[dict[str, Any]]:
    return [
        {
            "patient": i,
            "ward": "<b>a</b>" if i % 3 else "b",
            "cost": Fraction(i * 10**9),
            "weight": i / 7,
            "day": DAYS[0] + dt.timedelta(days=i % 366),
        }
        for i in range(600)
    ]


@pytest.fixture
def curator() -> Curator:
    return toy_curator(CATALOG, ToyEngine({"visits": rows()}), {"epsilon": "1000"})


@pytest.fixture
def server(curator: Curator) -> Iterator[TinyServer]:
    with TinyServer(curator) as running:
        yield running


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits are skipped in these tests; their lengths are remembered."""
    waited: list[float] = []
    original = channel.Channel.__init__

    def quick(self: Any, *args: Any, **words: Any) -> None:
        original(self, *args, **{**words, "sleep": waited.append})

    monkeypatch.setattr(channel.Channel, "__init__", quick)
    return waited


@pytest.fixture
def remote(server: TinyServer) -> Iterator[RemoteCurator]:
    with tacit.connect(server.url, "tacit_token") as connected:
        yield connected


def test_an_answer_from_afar_is_the_local_answer_in_every_form(
    remote: RemoteCurator, curator: Curator, tmp_path: Path
) -> None:
    far = remote.sql(SQL, epsilon="2")
    near = curator.sql(SQL, epsilon="2")
    assert near.charge.repeated, "the same release"
    assert far.finished.values == near.finished.values
    assert [(c.name, c.type, c.noisy) for c in far.columns] == [
        (c.name, c.type, known) for c, known in zip(near.columns, near.finished.has_interval, strict=True)
    ]
    assert far.to_arrow().equals(near.to_arrow())
    assert far.intervals().equals(near.intervals())
    assert far.to_pandas().equals(near.to_pandas())
    assert far.to_polars().equals(near.to_polars())
    assert len(far) == len(near)
    assert far.receipt.to_json() == near.receipt.to_json()
    assert far.receipt.signature == near.receipt.signature
    table = str(far).splitlines()
    assert table[:5] == str(near).splitlines()[:5]
    assert far._repr_html_().partition("<p")[0] == near._repr_html_().partition("<p")[0]
    assert "Charged epsilon 2 to patients" in far.note
    assert repr(far).startswith("<RemoteAnswer 3 rows: ward, n, s, m, d, w, many; Charged")
    far.plot("n", path=tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").stat().st_size > 1000


def test_a_repeat_says_that_nothing_was_charged(remote: RemoteCurator, curator: Curator) -> None:
    first, second = remote.sql(COUNT, epsilon=1), remote.sql(COUNT, epsilon=1)
    assert first.charge.amounts
    assert not first.charge.repeated
    assert not second.charge.amounts
    assert second.charge.repeated
    assert second.charge.number == first.charge.number
    assert "charged nothing" in second.note
    assert curator.budget().spent[0].amount == 1


def test_another_confidence_is_asked_for_with_the_query_which_is_free(remote: RemoteCurator, curator: Curator) -> None:
    far = remote.sql(COUNT, epsilon=1)
    near = curator.sql(COUNT, epsilon=1)
    assert far.intervals("0.95").equals(far.intervals())
    with pytest.raises(InputError, match="ask the query with it again"):
        far.intervals("0.999")
    assert remote.sql(COUNT, epsilon=1, confidence="0.999").intervals().equals(near.intervals("0.999"))
    assert curator.budget().spent[0].amount == 1


def test_numbers_arrive_exactly_as_they_were_typed(remote: RemoteCurator, server: TinyServer) -> None:
    remote.sql(
        SQL,
        epsilon=Fraction(1, 8),
        confidence=0.9,
        weights={"n": Decimal("2.50"), "s": "1e-3"},
        max_groups=1,
        suppose=100,
    )
    (request,) = server.asked("/v1/query")
    assert request.body.decode() == (
        f'{{"sql":{json.dumps(SQL)},"epsilon":0.125,"confidence":0.9,"max_groups":1,'
        '"weights":{"n":2.5,"s":0.001},"bias_share":0.04,"suppose":100}'
    )
    assert request.headers["authorization"] == "Bearer tacit_token"
    assert len(request.headers["idempotency-key"]) == 32


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("0.1", "0.1"),
        (0.1, "0.1"),
        (Fraction(1, 2**10), "0.0009765625"),
        (1, "1"),
        ("1e-12", "1E-12"),
        ("1200", "1200"),
    ],
)
def test_decimals_are_exact(number: Any, text: str) -> None:
    assert decimal_text(number, "epsilon") == text
    assert Fraction(decimal_text(number, "epsilon")) == Fraction(str(number))


@pytest.mark.parametrize("number", [Fraction(1, 3), Fraction(1, 2**41), "1e-41", "1e41", True, "x", float("nan")])
def test_numbers_without_an_exact_text_are_refused_here(number: Any) -> None:
    with pytest.raises(InputError, match="epsilon"):
        decimal_text(number, "epsilon")


def test_what_is_not_a_request_is_refused_here() -> None:
    with pytest.raises(InputError, match="sql"):
        query_body(Query(sql=b"SELECT"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weights"):
        query_body(Query(sql=COUNT, weights={1: 1}))  # type: ignore[dict-item]
    with pytest.raises(InputError, match="max_groups"):
        query_body(Query(sql=COUNT, max_groups=1.5))  # type: ignore[arg-type]


def test_a_quote_is_the_local_quote(remote: RemoteCurator, curator: Curator) -> None:
    far = remote.explain(SQL, epsilon="0.5", suppose=100)
    near = curator.explain(SQL, epsilon="0.5", suppose=100)
    assert far.guarantee == near.guarantee
    assert far.charge == near.charge
    assert str(far) == str(near).partition("\nEngine")[0] or str(far) == str(near)
    assert json.loads(far.to_json())["releases"] == json.loads(near.to_json())["releases"]


def test_budget_tables_and_history_are_the_local_ones(remote: RemoteCurator, curator: Curator) -> None:
    answers = [remote.sql(COUNT, epsilon=f"0.{i}") for i in range(1, 6)]
    near, far = curator.budget(answers_of(curator)), remote.budget(answers[0])
    assert (far.lines, far.guarantee, far.balances) == (near.lines, near.guarantee, near.balances)
    assert far.queries == near.queries == int((1000 - Fraction(15, 10)) / Fraction(1, 10))
    assert remote.budget(remote.explain(COUNT, epsilon="0.1")).queries == near.queries
    assert remote.budget().queries is None
    assert [info.table for info in remote.tables()] == [info.table for info in curator.tables()]
    assert remote.history() == curator.history()
    assert len(remote.history()) == 5, "of three pages"
    assert remote.history(population="others") == ()
    assert len(remote.history(analyst="owner")) == 5
    with pytest.raises(InputError, match="must be one of patients"):
        remote.budget(population="others")


def answers_of(curator: Curator) -> Any:
    return curator.sql(COUNT, epsilon="0.1")


def test_what_needs_the_data_says_so(remote: RemoteCurator) -> None:
    for method in (remote.release, remote.charge):
        with pytest.raises(AccessError, match="not over HTTP"):
            method(1, label="x")
    for call in (lambda: remote.sql(COUNT, epsilon=1, analyst="bob"), lambda: remote.budget(analyst="bob")):
        with pytest.raises(InputError, match="token"):
            call()


# What is sent again, and what is not.


def dropped(_: Request) -> None:
    return None


def busy(_: Request) -> bytes:
    return response(503, {"error": {"code": "busy", "message": "busy"}}, Retry_After="2")


def test_a_lost_response_is_asked_for_again_and_charged_once(
    remote: RemoteCurator, server: TinyServer, curator: Curator, pauses: list[float]
) -> None:
    def answered_and_lost(request: Request) -> None:
        server.usual(request)

    server.next["/v1/query"] = [answered_and_lost, dropped, busy, None]
    answer = remote.sql(COUNT, epsilon=1)
    requests = server.asked("/v1/query")
    assert len(requests) == 4
    assert len({(r.headers["idempotency-key"], r.body) for r in requests}) == 1
    assert curator.budget().spent[0].amount == 1
    assert answer.charge.repeated, "the first of the four was charged"
    assert len(pauses) == 3
    assert pauses[0] <= 0.2
    assert 2 <= pauses[2] < 3, "as the server said"


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        (dropped, RemoteError, "cannot be reached"),
        (busy, BusyError, "busy"),
        (lambda _: response(429, {"error": {"code": "rate", "message": "too many"}}), RateError, "too many"),
        (lambda _: response(502, b"<html>bad gateway"), RemoteError, "502"),
    ],
)
def test_patience_ends(
    remote: RemoteCurator, server: TinyServer, behaviour: Any, kind: type[TacitError], words: str, pauses: list[float]
) -> None:
    server.next["/v1/query"] = [behaviour] * 100
    with pytest.raises(kind, match=words):
        remote.sql(COUNT, epsilon=1)
    assert len(server.asked("/v1/query")) == channel.ATTEMPTS
    assert sum(pauses) < 60


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (response(307, b"", Location="http://127.0.0.1:1/"), "another address"),
        (response(200, b"not json"), "not JSON"),
        (response(200, b"[1]"), "not JSON of a server"),
        (response(200, b'{"rows": NaN}'), "not JSON"),
        (response(200, b'{"rows": 1, "rows": 2}'), "not JSON"),
        (response(200, b'{"rows": ' + b"[" * 100_000), "not JSON"),
        (response(200, {"columns": []}), "does not say whether its ledger still holds"),
        (response(418, {"error": "x"}), "status 418"),
    ],
)
def test_other_languages_are_not_understood_and_not_repeated(
    remote: RemoteCurator, server: TinyServer, sent: bytes, words: str
) -> None:
    server.next["/v1/query"] = [lambda _: sent]
    with pytest.raises(RemoteError, match=words):
        remote.sql(COUNT, epsilon=1)
    assert len(server.asked("/v1/query")) == 1


def test_an_endless_response_is_cut_off(
    remote: RemoteCurator, server: TinyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MOST_BYTES", 1000)
    server.next["/v1/tables"] = [lambda _: response(200, b" " * 1001)]
    with pytest.raises(RemoteError, match="longer than"):
        remote.tables()


def test_a_closed_connection_asks_nothing(remote: RemoteCurator) -> None:
    remote.close()
    with pytest.raises(RemoteError, match="closed"):
        remote.tables()


# Errors.


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("input", InputError),
        ("input.conflict", ConflictError),
        ("request.body", InputError),
        ("query.sample", Refusal),
        ("query", QueryError),
        ("query.of_tomorrow", QueryError),
        ("budget", BudgetError),
        ("access", AccessError),
        ("access.unknown", AccessError),
        ("accounting", AccountingError),
        ("engine", EngineError),
        ("internal", InternalError),
        ("internal.ledger", LedgerError),
        ("internal.rollback", RollbackError),
        ("internal.busy", BusyError),
        ("busy", BusyError),
        ("auth", SignInError),
        ("rate", RateError),
        ("of_tomorrow", RemoteError),
    ],
)
def test_codes_become_the_classes_of_a_local_curator(code: str, kind: type[TacitError]) -> None:
    told = error_of({"error": {"code": code, "message": "the words", "parameter": "epsilon", "id": "abc123"}}, 400)
    assert type(told) is kind
    assert "the words" in str(told)
    if kind is Refusal:
        assert told.code == code
    if isinstance(told, InputError):
        assert told.parameter == "epsilon"


def test_errors_arrive_as_they_were_raised(remote: RemoteCurator, curator: Curator) -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda c: c.sql("SELECT cost FROM visits", epsilon=1),
        lambda c: c.sql(COUNT, epsilon=5000),
        lambda c: c.sql(COUNT, epsilon=0),
        lambda c: c.sql(COUNT),
        lambda c: c.sql("SELECT COUNT(*) FROM nowhere", epsilon=1),
    ]
    for call in calls:
        with pytest.raises(TacitError) as near:
            call(curator)
        with pytest.raises(TacitError) as far:
            call(remote)
        assert type(far.value) is type(near.value)
        assert str(far.value) == str(near.value)
        assert far.value.code == near.value.code


# What is trusted.


@pytest.mark.parametrize(
    "url",
    [
        "http://tacit.example.org",
        "http://10.0.0.1:8470",
        "http://localhost.example.org",
        "http://127.0.0.1@example.org",
        "ftp://localhost",
        "localhost:8470",
        "https://user:pass@example.org",
        "https://example.org/?a=1",
        "https://example.org/#x",
        "https://exämple.org",
        "https://a b",
        "https://[::1",
        "https://host:99999",
        "",
    ],
)
def test_addresses_that_no_token_is_sent_to(url: str) -> None:
    with pytest.raises(InputError, match="url"):
        base_url(url)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://localhost:8470/", "http://localhost:8470"),
        ("http://127.1.2.3", "http://127.1.2.3"),
        ("http://[::1]:1", "http://[::1]:1"),
        ("https://example.org/tacit/", "https://example.org/tacit"),
    ],
)
def test_addresses_that_are_used(url: str, base: str) -> None:
    assert base_url(url) == base


def test_the_token_comes_from_the_environment_and_is_shown_nowhere(
    server: TinyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="TACIT_TOKEN"):
        tacit.connect(server.url)
    for token in ("with space", "new\nline", "ünicode", "x" * 600):
        with pytest.raises(InputError, match="token"):
            tacit.connect(server.url, token)
    monkeypatch.setenv("TACIT_TOKEN", "tacit_secret")
    with tacit.connect(server.url) as remote:
        assert "secret" not in repr(remote) + repr(vars(remote)) + repr(vars(remote._channel))
    assert server.asked("/v1/key")[0].headers["authorization"] == "Bearer tacit_secret"


def test_a_key_is_remembered_and_another_one_later_is_an_error(server: TinyServer, state: Path) -> None:
    tacit.connect(server.url, "t").close()
    kept = sorted((state / "servers").iterdir())
    assert len(kept) == 2
    assert all(place.stat().st_mode & 0o077 == 0 for place in kept)
    tacit.connect(server.url, "t").close()
    other = toy_curator(CATALOG, ToyEngine({"visits": []}), {"epsilon": "1"})
    first, server.curator = server.curator, other
    with pytest.raises(TrustError, match="delete"):
        tacit.connect(server.url, "t")
    tacit.connect(server.url, "t", public_key=other.public_key).close()
    with pytest.raises(TrustError, match="not with the one stated"):
        tacit.connect(server.url, "t", public_key=first.public_key)


def test_a_ledger_that_moved_is_still_known_by_its_key(server: TinyServer, curator: Curator) -> None:
    tacit.connect(server.url, "t").close()
    with TinyServer(curator) as elsewhere:
        tacit.connect(elsewhere.url, "t").close()
        fake = response(200, {**KeyResponse.of(curator.ledger).plain(), "public_key": "ed25519:" + "ab" * 32})
        with TinyServer(curator, {"/v1/key": [lambda _: fake]}) as forger, pytest.raises(TrustError, match="known"):
            tacit.connect(forger.url, "t")


def test_a_pin_that_cannot_be_read_is_not_ignored(server: TinyServer, state: Path) -> None:
    tacit.connect(server.url, "t").close()
    for place in (state / "servers").iterdir():
        place.write_text("{}")
    with pytest.raises(TrustError, match="cannot be read"):
        tacit.connect(server.url, "t")


@pytest.mark.parametrize(
    "content",
    [{}, {"public_key": "ed25519:00", "ledger": "a"}, {"public_key": "ed25519:" + "ab" * 32, "ledger": "../../x"}],
)
def test_a_server_that_does_not_say_who_it_is(curator: Curator, content: dict[str, Any]) -> None:
    with (
        TinyServer(curator, {"/v1/key": [lambda _: response(200, content)]}) as server,
        pytest.raises((RemoteError, InputError)),
    ):
        tacit.connect(server.url, "t")


def forged(part: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def forge(content: dict[str, Any]) -> None:
        *way, last = part.split(".")
        here: Any = content
        for step in way:
            here = here[int(step) if step.isdigit() else step]
        here[last] = change(here[last])

    return forge


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (forged("receipt.signature", lambda s: "00" + s[2:]), "signature"),
        (forged("receipt.receipt.population", lambda _: "others"), "signature"),
        (forged("receipt.receipt.charge", lambda _: {"epsilon": "1/4"}), "signature"),
        (forged("charge.amounts", lambda _: {"epsilon": "0.5"}), "another charge"),
        (forged("charge.position", lambda p: p + 1), "another position"),
        (forged("charge.population", lambda _: "others"), "another population"),
    ],
)
def test_an_answer_whose_receipt_does_not_fit_is_an_error(
    remote: RemoteCurator, server: TinyServer, forge: Callable[[dict[str, Any]], None], words: str
) -> None:
    server.change = forge
    with pytest.raises(TrustError, match=words):
        remote.sql(COUNT, epsilon=1)


def test_the_receipt_of_another_query_is_an_error(remote: RemoteCurator, server: TinyServer, curator: Curator) -> None:
    other = curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon=1)
    dearer = curator.sql(COUNT, epsilon=2)

    def swap(answer: Any) -> Callable[[dict[str, Any]], None]:
        def change(content: dict[str, Any]) -> None:
            statement = answer.receipt.statement
            content["receipt"] = {"receipt": statement, "signature": answer.receipt.signature}
            amounts = {name: str(Fraction(text)) for name, text in statement["charge"].items()}
            content["charge"] = {"population": "patients", "amounts": amounts, "position": answer.receipt.position}

        return change

    server.change = swap(other)
    with pytest.raises(TrustError, match="another query"):
        remote.sql(COUNT, epsilon=1)
    server.change = swap(dearer)
    with pytest.raises(TrustError, match="another epsilon"):
        remote.sql(COUNT, epsilon=1)
    assert remote.check_receipt(other.receipt).ok
    assert not toy_remote_check(remote, other.receipt.to_json().replace("patients", "patient"))


def toy_remote_check(remote: RemoteCurator, text: str) -> bool:
    return remote.check_receipt(text).ok


def test_values_that_do_not_fit_their_type_are_not_read() -> None:
    def body(kind: str, value: Any) -> dict[str, Any]:
        return {
            "columns": [{"name": "x", "type": kind, "interval": False}],
            "rows": [[value]],
            "confidence": "0.95",
        }

    def read(kind: str, value: Any) -> Any:
        with parsing("the answer"):
            table = AnswerTableResponse.read(body(kind, value))
            return RemoteRows.of(table).values[0][0]  # type: ignore[return-value]

    assert read("INTEGER", str(2**63 - 1)) == 2**63 - 1
    assert read("DECIMAL(18,9)", "0E-9") == 0
    assert read("DECIMAL(18,2)", "-12.50") == Fraction(-25, 2)
    assert read("DOUBLE", 0.1) == 0.1
    assert read("TIMESTAMP", "2024-02-29 12:30:00.000001") == dt.datetime(2024, 2, 29, 12, 30, 0, 1)
    assert read("TEXT", None) is None
    odd: list[tuple[str, Any]] = [
        ("INTEGER", 1.5), ("INTEGER", str(2**63)), ("INTEGER", True), ("INTEGER", "1e3"), ("DECIMAL(18,2)", 1.5),
        ("DECIMAL(18,2)", "1.234"), ("DECIMAL(18,2)", "1/2"), ("DATE", "yesterday"), ("DATE", 5), ("TEXT", 5),
        ("BOOLEAN", 1), ("DOUBLE", "1"), ("VARCHAR", "x"), ("DOUBLE", 10**400),
    ]  # fmt: skip
    for kind, value in odd:
        with pytest.raises(RemoteError, match="cannot be read"):
            read(kind, value)
