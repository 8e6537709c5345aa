"""Permissions: tokens, roles, and tables that do not exist for a person."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.served import COUNT, STAFF, Served, error, serve
from tacit.server.identity import TokenScope

PATHS = [
    ("POST", "/v1/query"),
    ("POST", "/v1/explain"),
    ("GET", "/v1/budget"),
    ("GET", "/v1/tables"),
    ("GET", "/v1/history"),
    ("GET", "/v1/receipts/1"),
    ("GET", "/v1/jobs/1"),
    ("GET", "/v1/key"),
    ("GET", "/v1/me"),
    ("GET", "/v1/queries"),
    ("DELETE", "/v1/queries/1"),
]
JSON = (b"content-type", b"application/json")


def strangers(served: Served) -> list[bytes | None]:
    """Headers without a valid token, in many ways."""
    people, alice = served.people, served.tokens["alice"]
    ended = people.issue("alice", expires=datetime.now(UTC) + timedelta(days=1), operator="test")
    people.withdraw(ended.id, operator="test")
    people.add("eve", operator="test")
    eve = people.issue("eve", expires=None, operator="test").text
    people.revoke("eve", operator="test")
    prefix, _, secret = alice.rpartition("_")
    return [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer x",
        b"Basic YTpi",
        b"Bearer " + alice.encode() + b"x",
        alice.encode(),
        f"Bearer {prefix}_{'a' * len(secret)}".encode(),
        f"Bearer tacit_0000_{secret}".encode(),
        b"Bearer \xff\xfe",
        f"Bearer {ended.text}".encode(),
        f"Bearer {eve}".encode(),
        b"Bearer " + b"x" * 600,
        f"Bearer {alice} {alice}".encode(),
        f"Bearer {alice},x".encode(),
        b"Bearer tacit_\x00",
        f"Token {alice}".encode(),
        f"Bearer {alice.upper()}".encode(),
    ]


def test_all_clients_without_a_valid_token_get_one_response() -> None:
    served = serve(failures_per_minute=10**6)
    seen = set()
    for method, path in PATHS:
        for shown in strangers(served) if path == "/v1/me" else (None, b"Bearer x"):
            headers = [JSON, *([] if shown is None else [(b"authorization", shown)])]
            found = served.raw(method, path, name="", headers=headers, body=b"{}")
            seen.add((found[0], tuple(found[1].items()), found[2]))
    assert len(seen) == 1
    ((status, headers_seen, body),) = seen
    assert status == 401
    assert dict(headers_seen)[b"www-authenticate"] == b"Bearer"
    assert error(body) == {"code": "auth", "message": "show a token that is valid: Authorization: Bearer tacit_…"}
    served.close()


def test_the_scheme_is_read_in_any_case(served: Served) -> None:
    for scheme in ("bearer", "BEARER", "Bearer  "):
        headers = [(b"authorization", f"{scheme} {served.tokens['alice']}".encode())]
        assert served.raw("GET", "/v1/me", name="", headers=headers)[0] == 200


def test_a_token_ends_at_once(served: Served) -> None:
    issued = served.people.issue("alice", expires=None, operator="test")
    served.tokens["second"] = issued.text
    assert served.get("/v1/me", "second").status_code == 200
    served.people.withdraw(issued.id, operator="test")
    assert served.get("/v1/me", "second").status_code == 401
    assert served.get("/v1/me").status_code == 200


def test_a_person_who_was_revoked(served: Served) -> None:
    assert served.ask(epsilon=0.5).status_code == 200
    access = served.access()
    served.people.revoke("alice", operator="test")
    assert served.ask(epsilon=0.5).status_code == 401
    # Also if they were revoked after their token had been looked at.
    served.people.authenticate = lambda _: access  # type: ignore[method-assign]
    late = served.ask(epsilon=0.25)
    assert (late.status_code, error(late.content)["code"]) == (401, "auth")
    assert late.headers["www-authenticate"] == "Bearer"


def test_health_and_the_description_need_no_token(served: Served) -> None:
    for path in ("/v1/health", "/v1/openapi.json"):
        assert served.get(path, "").status_code == 200


def test_an_auditor_looks_and_does_not_ask(served: Served) -> None:
    served.ask(epsilon=0.5)
    for path in ("/v1/query", "/v1/explain"):
        response = served.call("POST", path, "audrey", json={"sql": COUNT, "epsilon": 0.5})
        assert (response.status_code, error(response.content)["code"]) == (403, "access")
    assert [entry["analyst"] for entry in served.get("/v1/history?everyone=true", "audrey").json()["entries"]] == [
        "alice"
    ]
    assert served.get("/v1/budget", "audrey").status_code == 200
    for method, path in PATHS[9:]:
        assert served.call(method, path, "audrey").status_code == 403


def test_owner_endpoints_are_closed_to_analysts_before_anything_is_read(served: Served) -> None:
    seen = set()
    for method, path in PATHS[9:]:
        response = served.call(method, path)
        seen.add((response.status_code, response.content))
    assert len(seen) == 1
    assert served.get("/v1/history?everyone=true").status_code == 403


def test_a_token_may_do_less_than_its_person(served: Served) -> None:
    served.tokens["narrow"] = served.people.issue(
        "olga", scopes=frozenset({TokenScope.ASK}), expires=None, operator="test"
    ).text
    assert served.ask(name="narrow", epsilon=0.5).status_code == 200
    assert served.get("/v1/queries", "narrow").status_code == 403
    assert served.get("/v1/history?everyone=true", "narrow").status_code == 403
    body = served.call("POST", "/v1/explain", "narrow", json={"sql": COUNT, "epsilon": 0.5}).json()
    assert "engine_sql" not in body


#: Queries about a table; {} is its name.
ABOUT = [
    "SELECT COUNT(*) FROM {}",
    "SELECT SUM(salary) FROM {}",
    "SELECT no_such_column FROM {}",
    "SELECT COUNT(*) FROM {} JOIN visits ON visits.nurse = {}.id",
    "SELECT COUNT(*) FROM visits WHERE nurse IN (SELECT id FROM {})",
    "WITH t AS (SELECT * FROM {}) SELECT COUNT(*) FROM t",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward UNION ALL SELECT id, COUNT(*) FROM {} GROUP BY id",
    'SELECT COUNT(*) FROM "{}"',
    "SELECT COUNT(*) FROM main.{}",
    "SELECT (SELECT COUNT(*) FROM {}) FROM visits",
]


@pytest.mark.parametrize("sql", ABOUT)
@pytest.mark.parametrize("path", ["/v1/query", "/v1/explain"])
def test_a_forbidden_table_and_one_that_never_was(served: Served, sql: str, path: str) -> None:
    """Threat 37: the same status, headers and bytes, but for the name that was sent."""
    seen = []
    for table in ("staff", "stuff"):
        response = served.call("POST", path, "carol", json={"sql": sql.replace("{}", table), "epsilon": 1})
        seen.append((response.status_code, dict(response.headers), response.text.replace("stuff", "staff")))
    assert seen[0] == seen[1]
    assert seen[0][0] == 422
    assert served.spent("employees") == 0
    assert "employees" not in seen[0][2]


def test_names_of_what_a_person_may_not_see_are_nowhere(served: Served) -> None:
    served.ask(STAFF, "dan", epsilon=0.5)
    texts = [served.get(path, "carol").text for path in ("/v1/tables", "/v1/budget", "/v1/history", "/v1/me")]
    wrong = ("SELECT COUNT(*) FROM nothing", "SELECT nothing FROM visits", "SELECT COUNT(*) FROM visits, nothing")
    texts += [served.ask(sql, "carol", epsilon=1).text for sql in wrong]
    for text in texts:
        assert "staff" not in text
        assert "employees" not in text
    assert "staff" in served.get("/v1/tables", "dan").text
    assert "visits" not in served.get("/v1/tables", "dan").text
    assert [each["name"] for each in served.get("/v1/tables", "dan").json()["tables"]] == ["staff", "wards"]


def test_a_forbidden_population_and_one_that_never_was(served: Served) -> None:
    seen = [served.get(f"/v1/budget?population={name}", "carol") for name in ("employees", "nobodies", "")]
    assert len({(each.status_code, each.content) for each in seen}) == 1
    assert seen[0].status_code == 404


def test_who_sees_less_shares_what_both_see(served: Served) -> None:
    """The release is the same for carol, who does not know that there is a table staff."""
    first = served.ask(name="carol", epsilon=0.5)
    for name in ("alice", "carol"):
        again = served.ask(name=name, epsilon=0.5)
        assert again.content == first.content
        assert again.headers["tacit-repeat"] == "true"
    mine = served.ask(STAFF, "dan", epsilon=0.5)
    assert served.ask(STAFF, "alice", epsilon=0.5).content == mine.content
    assert (served.spent(), served.spent("employees")) == (0.5, 0.5)


def test_receipts_and_jobs_of_others_do_not_exist(served: Served) -> None:
    position = served.ask(epsilon=0.5).json()["charge"]["position"]
    put = served.call(
        "POST", "/v1/query", json={"sql": STAFF, "epsilon": 0.5}, headers={"prefer": "respond-async"}
    ).json()
    for kind, mine, never in (
        ("receipts", position, position + 1),
        ("receipts", position, 10**9),
        ("jobs", put["id"], "0" * 32),
    ):
        assert served.get(f"/v1/{kind}/{mine}").status_code == 200
        other, none = (served.get(f"/v1/{kind}/{place}", "bob") for place in (mine, never))
        assert (other.status_code, other.content) == (none.status_code, none.content)
        assert other.status_code == 404
    for odd in ("0", "-1", "01x", "1e3", "9" * 40, "%D9%A1", "x"):
        assert served.get(f"/v1/receipts/{odd}").status_code == 404
        assert served.get(f"/v1/jobs/{odd}").status_code == 404
    assert served.get(f"/v1/receipts/{position}", "audrey").status_code == 200


def test_history_is_ones_own(served: Served) -> None:
    served.ask(epsilon=0.5)
    served.ask(STAFF, "bob", epsilon=0.25)
    mine = served.get("/v1/history").json()
    assert [(entry["sql"], entry["amounts"], entry["answered"]) for entry in mine["entries"]] == [
        (COUNT, {"epsilon": "0.5"}, True)
    ]
    assert mine["next"] is None or isinstance(mine["next"], int)
    entries_of_all = served.get("/v1/history?everyone=true", "olga").json()
    assert [entry["analyst"] for entry in entries_of_all["entries"]] == ["bob", "alice"]
    assert served.get("/v1/history", "carol").json()["entries"] == []


def test_history_comes_in_pages() -> None:
    """Newest first; a page looks at few entries of the ledger, so it may be short and still have a next one."""
    served = serve(history_look=7, history_page=3)
    for i in range(8):
        served.service.ask(
            served.access("alice" if i % 4 else "bob"),
            _ask(f"SELECT COUNT(*) AS n{i} FROM visits WHERE cost < {i + 1}"),
        )
    positions: list[int] = []
    place, pages = "", 0
    while True:
        page = served.get(f"/v1/history{place}").json()
        positions += [entry["position"] for entry in page["entries"]]
        assert len(page["entries"]) <= 3
        pages += 1
        if page["next"] is None:
            break
        place = f"?before={page['next']}"
    assert pages > 3
    assert positions == sorted(positions, reverse=True)
    assert len(positions) == len(set(positions)) == 6
    served.close()


def test_too_many_failures_from_one_address_are_told_to_wait() -> None:
    served = serve(failures_per_minute=3)
    seen = [served.raw("GET", "/v1/me", name="") for _ in range(5)]
    assert [status for status, _, _ in seen] == [401, 401, 401, 429, 429]
    assert int(seen[-1][1][b"retry-after"]) >= 1
    assert error(seen[-1][2])["code"] == "rate"
    # A client with a token is not kept out by neighbours.
    assert served.raw("GET", "/v1/me")[0] == 200
    served.close()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%62udget", "/v1/budge%74", "/v1/b%75dget", "/v1%2Fbudget%2e", "/v1/./budget", "/v1/../v1/budget",
        "/v1/budget/..",
        "/v1/%2e%2e/v1/budget", "/v1/budget%00", "/v1/budget%0a", "/v1/budget%", "/v1/budget%4", "/v1/budget%zz",
        "/v1/receipts/%31", "/v1/receipts/1%7f", "/v1/receipts/%c0%ae", "/v1/receipts/%ed%a0%80", "/v1/receipts/\u0661",
        "/v1/bud get", "/console/%61sk", "/v1/jobs/%ff",
    ],
)  # fmt: skip
def test_odd_encodings_of_a_path_are_refused(served: Served, path: str) -> None:
    """A proxy in front that looks at paths may read them in another way."""
    status, _, body = served.raw("GET", path)
    assert status == 400, body
    assert served.raw("GET", "/v1/jobs/%C3%A9ve%20y", name="olga")[0] == 404


def test_one_person_does_not_take_the_time_of_others() -> None:
    served = serve(asks_per_minute=2, quotes_per_minute=1, reads_per_minute=1)
    body = {"sql": COUNT, "epsilon": 0.5}
    assert [served.ask(epsilon=0.5).status_code for _ in range(3)] == [200, 200, 429]
    assert [served.call("POST", "/v1/explain", json=body).status_code for _ in range(2)] == [200, 429]
    assert [served.get("/v1/me").status_code for _ in range(2)] == [200, 429]
    assert served.ask(name="bob", epsilon=0.5).status_code == 200
    assert served.spent() == 0.5
    served.close()


def _ask(sql: str) -> Any:
    from tacit.query.request import Request

    return Request(sql=sql, epsilon="0.01")


def test_what_is_logged_about_a_request(served: Served) -> None:
    """Public things only, and never the text of a query."""
    import asyncio

    async def about(path: str, body: bytes, name: str) -> dict[str, Any]:
        told: dict[str, Any] = {}

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(_: Any) -> None:
            pass

        token = f"Bearer {served.tokens[name]}".encode() if name else b""
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [JSON, (b"authorization", token)],
            "tacit.about": told,
        }
        await served.app(scope, receive, send)
        return told

    body = json.dumps({"sql": COUNT, "epsilon": 0.5}).encode()
    first = asyncio.run(about("/v1/query", body, "alice"))
    assert first["route"] == "/v1/query"
    assert (first["analyst"], first["charge"], first["repeat"]) == ("alice", {"epsilon": "0.5"}, False)
    again = asyncio.run(about("/v1/query", body, "bob"))
    assert again["repeat"] is True
    assert "charge" not in again
    assert asyncio.run(about("/v1/query", b"{", "bob"))["code"] == "request.body"
    assert asyncio.run(about("/v1/query", body, ""))["code"] == "auth"
    assert "SELECT" not in str(first)


def test_a_position_has_one_spelling(served: Served) -> None:
    """A proxy or a cache in front would take others for other things."""
    position = served.ask(epsilon=0.5).json()["charge"]["position"]
    assert served.get(f"/v1/receipts/{position}").status_code == 200
    for other in (f"0{position}", f"00{position}", f"+{position}", f"{position}.0"):
        assert served.get(f"/v1/receipts/{other}").status_code == 404
