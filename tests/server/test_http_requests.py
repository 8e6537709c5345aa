"""Bytes that are not a request: each gets the one error shape, is charged nothing, and is never a crash."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support.served import COUNT, Served, error, raw, serve

JSON = (b"content-type", b"application/json")


def post(served: Served, body: bytes | list[bytes], path: str = "/v1/query", *headers: tuple[bytes, bytes]) -> Any:
    return served.raw("POST", path, headers=[JSON, *headers], body=body)


def refused(served: Served, body: bytes, *, status: int = 400) -> dict[str, Any]:
    """On both endpoints that take queries; nothing is charged."""
    found, _, told = post(served, body)
    again, _, same = post(served, body, "/v1/explain")
    assert (found, told) == (again, same)
    assert found == status, told
    assert served.spent() == 0
    return error(told)


def with_epsilon(text: str) -> bytes:
    return b'{"sql": "%b", "epsilon": %b}' % (COUNT.encode(), text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "-1",
        "-0.0",
        "0",
        "0.0",
        "1e-400",
        "1e400",
        "5e-324",
        '"one"',
        "true",
        "false",
        "null",
        "[1]",
        "{}",
        "0.1+1e-18",
        "1" * 41,
        "0." + "1" * 41,
        "1" * 5000,
        "1e99999999999999999999",
        "01",
        ".5",
        "1.",
        "+1",
        "0x1",
        "1e41",
        "1e-41",
        "1_0",
        "１",
        "1/2",
        "0." + "0" * 200 + "1",
        "-" + "0" * 100,
        "1e+-1",
    ],
)
def test_an_epsilon_that_is_none(served: Served, text: str) -> None:
    told = refused(served, with_epsilon(text))
    assert told["code"] in ("input", "request.body")


@pytest.mark.parametrize("text", ["0.5", "5e-1", "5E-1", "0.50", "50e-2", "0.005e2", "0.5" + "0" * 30])
def test_one_number_in_many_spellings_is_one_query(served: Served, text: str) -> None:
    status, headers, body = post(served, with_epsilon(text))
    assert status == 200
    assert json.loads(body)["charge"]["amounts"] == {"epsilon": "0.5"}
    again = post(served, with_epsilon("0.5"))
    assert again[2] == body
    assert (headers[b"tacit-repeat"], again[1][b"tacit-repeat"]) == (b"false", b"true")


def test_numbers_are_read_from_their_digits(served: Served) -> None:
    """A float would lose the last digits, and with them money."""
    status, _, body = post(served, with_epsilon("0.1000000000000000000000001"))
    assert status == 200
    assert json.loads(body)["charge"]["amounts"] == {"epsilon": "0.1000000000000000000000001"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"text"',
        b"1",
        b"{",
        b"{}x",
        b"{} {}",
        b"{'sql': 1}",
        b"{,}",
        b'{"sql"}',
        b'{"sql": "SELECT 1"}\x00',
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b'{"sql": "\xff"}',
        b'{"sql": "\xc0\x80"}',
        b'{"sql": "\xed\xa0\x80"}',
        b'{"sql": "\\ud800", "epsilon": 1}',
        b'{"\\udfff": 1}',
        b'{"sql": "a\nb"}',
        b'{"sql": 1}',
        b'{"sql": null, "epsilon": 1}',
        b'{"epsilon": 1}',
        b'{"sql": "SELECT 1", "sql": "SELECT 1"}',
        b"/**/{}",
        b"{}//",
        b'{"sql": "x", "epsilon": 0.1, "epsilon": 9}',
        b'{"sql": "x", "Epsilon": 1}',
        b'{"sql": "x", "analyst": "bob"}',
        b'{"sql": "x", "seed": 1}',
        b'{"sql": "x", "epsilon": 1, "max_groups": 1.0}',
        b'{"sql": "x", "max_groups": true}',
        b'{"sql": "x", "max_groups": "1"}',
        b'{"sql": "x", "within": []}',
        b'{"sql": "x", "within": {"n": "one"}}',
        b'{"sql": "x", "within": {"n": 1, "n": 2}}',
        b'{"sql": "x", "weights": 1}',
        b'{"sql": "x", "weights": {"n": {}}}',
        b'{"sql": "x", "confidence": "sure"}',
        b"[" * 60_000,
        b'{"a":' * 12_000,
        b'{"sql": ["SELECT 1"]}',
    ],
)
def test_a_body_that_is_no_query(served: Served, body: bytes) -> None:
    assert refused(served, body)["code"] in ("input", "request.body")


@pytest.mark.parametrize("ends", ["[]", '{"a":}'])
def test_a_body_that_is_nested_deeply(served: Served, ends: str) -> None:
    """However deep: what one reader still takes, a later look must take as well."""
    opening, closing = ends[:-1], ends[-1]
    for depth in (10, 150, 300, 330, 450, 500, 650, 900, 980, 5_000):
        body = '{"sql":' + opening * depth + '"\\u0041"' + closing * depth + "}"
        assert refused(served, body.encode())["code"] in ("input", "request.body"), depth


def test_what_is_wrong_is_named(served: Served) -> None:
    told = refused(served, b'{"sql": "x", "epsilonn": 1}')
    assert told["parameter"] == "epsilonn"
    assert "epsilon, delta" in told["message"]


@pytest.mark.parametrize(
    "kind",
    [
        b"",
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"application/json; charset=utf-16",
        b"application/jsonp",
        b"multipart/form-data; boundary=x",
        b"application/json; charset=utf-8; x=y",
        b"text/json",
        b"application/json,text/plain",
    ],
)
def test_a_body_that_is_not_said_to_be_json(served: Served, kind: bytes) -> None:
    body = with_epsilon("1")
    status, _, told = served.raw("POST", "/v1/query", headers=[(b"content-type", kind)], body=body)
    assert (status, error(told)["code"]) == (415, "request.type")
    status, _, told = served.raw("POST", "/v1/query", body=body)
    assert status == 415
    status, _, told = post(served, body, "/v1/query", (b"content-encoding", b"gzip"))
    assert status == 415
    assert served.spent() == 0


@pytest.mark.parametrize("kind", [b"application/json", b"Application/JSON", b'application/json ; charset="UTF-8"'])
def test_ways_to_say_json(served: Served, kind: bytes) -> None:
    assert served.raw("POST", "/v1/query", headers=[(b"content-type", kind)], body=with_epsilon("1"))[0] == 200


def test_a_body_is_counted_while_it_arrives(served: Served) -> None:
    """A gigabyte is not waited for: reading stops at the limit, whatever was declared."""
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b" " * 10_000, "more_body": True}

    status, headers, told = served.raw("POST", "/v1/query", headers=[JSON], receive=receive)
    assert (status, error(told)["code"]) == (413, "request.size")
    assert headers[b"connection"] == b"close"
    assert taken == 7
    for declared in (b"65537", b"9" * 30):
        status, _, _ = post(served, b"{}", "/v1/query", (b"content-length", declared))
        assert status == 413
    padded = with_epsilon("1") + b" " * (65_536 - len(with_epsilon("1")))
    assert post(served, padded)[0] == 200
    assert post(served, padded + b" ")[0] == 413


def test_a_body_that_does_not_arrive() -> None:
    served = serve(body_seconds=0.05)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    status, headers, told = served.raw("POST", "/v1/query", headers=[JSON], receive=receive)
    assert (status, error(told)["code"]) == (408, "request.time")
    assert headers[b"connection"] == b"close"
    served.close()


def test_a_caller_who_leaves_gets_nothing_and_is_charged_nothing(served: Served) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert served.raw("POST", "/v1/query", headers=[JSON], receive=receive) == (0, {}, b"")
    assert served.spent() == 0


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v2/query",
        "//v1/query",
        "/v1//query",
        "/v1/query/",
        "/v1/query/x",
        "/V1/query",
        "/v1/people",
        "/v1/docs",
        "/metrics",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/v1/receipts/",
        "/v1/receipts/1/2",
        "*",
        "",
        "/v1/jobs/",
        "/.git/config",
        "/v1/query;x=1",
        "/favicon.ico",
        "/static/x",
        "/consol",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "TRACE"])
def test_a_path_that_leads_nowhere(served: Served, path: str, method: str) -> None:
    status, headers, told = served.raw(method, path)
    assert (status, error(told)) == (404, {"code": "request.path", "message": "there is nothing at this path"})
    assert headers[b"content-type"] == b"application/json"


@pytest.mark.parametrize("path", ["/v1/query\x00", "/v1/query\n", "/v1/\x00", "/v1/../v1/query", "/v1/./query"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "TRACE"])
def test_a_path_that_a_proxy_may_read_in_another_way(served: Served, path: str, method: str) -> None:
    status, _, told = served.raw(method, path)
    assert (status, error(told)["code"]) == (400, "request.path")


@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "DELETE", "GET", "get", "BREW", ""]
)
def test_a_method_that_a_path_does_not_take(served: Served, method: str) -> None:
    status, headers, told = served.raw(method, "/v1/query")
    assert (status, error(told)["code"], headers[b"allow"]) == (405, "request.method", b"POST")
    assert served.raw("PUT", "/v1/releases")[1][b"allow"] == b"GET, POST"


def test_the_front_door_leads_to_the_console(served: Served) -> None:
    status, headers, _ = served.raw("GET", "/")
    assert (status, headers[b"location"]) == (307, b"/console/")
    assert served.raw("POST", "/")[0] in (404, 405)


def test_a_path_that_is_too_long(served: Served) -> None:
    status, _, told = served.raw("GET", "/v1/" + "x" * 3_000)
    assert (status, error(told)["code"]) == (414, "request.path")
    assert served.raw("GET", "/v1/budget", query=b"population=" + b"x" * 3_000)[0] == 414
    assert served.raw("GET", "/console/" + "x" * 3_000)[0] == 414


def test_headers_that_are_too_many_or_too_long(served: Served) -> None:
    for headers in ([(b"x-%d" % i, b"") for i in range(70)], [(b"x", b"y" * 20_000)], [(b"y" * 20_000, b"x")]):
        status, _, told = served.raw("GET", "/v1/me", headers=headers)
        assert (status, error(told)["code"]) == (431, "request.headers")


@pytest.mark.parametrize(
    "name", [b"authorization", b"Content-Type", b"idempotency-key", b"content-length", b"tacit-repeat"]
)
def test_a_header_that_could_be_read_in_two_ways(served: Served, name: bytes) -> None:
    status, _, told = post(served, with_epsilon("1"), "/v1/query", (name, b"1"), (name, b"2"))
    assert (status, error(told)["code"]) == (400, "request.headers")
    assert served.spent() == 0


@pytest.mark.parametrize(
    "query",
    [
        b"population",
        b"population=a&population=b",
        b"x=1",
        b"population=%ff",
        b"&",
        b"population=a;b&",
        b"limit=1",
        b"\xff=1",
        b"&".join(b"population=a" for _ in range(50)),
    ],
)
def test_parameters_that_cannot_be_read(served: Served, query: bytes) -> None:
    status, _, told = served.raw("GET", "/v1/budget", query=query)
    assert status == 400, told
    error(told)


@pytest.mark.parametrize("limit", [b"0", b"51", b"-1", b"1.0", b"x", b"", b"9" * 30, b"%D9%A1", b"+1", b"1_0"])
def test_a_page_of_no_size(served: Served, limit: bytes) -> None:
    assert served.raw("GET", "/v1/history", query=b"limit=" + limit)[0] == 400
    if limit not in (b"51",):
        assert served.raw("GET", "/v1/history", query=b"before=" + limit)[0] == 400


def test_sql_of_every_length_and_kind_is_refused_or_answered(served: Served) -> None:
    for sql in (
        "",
        " ",
        "x" * 50_001,
        "SELECT",
        "\u0000",
        "SELECT '\U0001f600",
        "(" * 2_000,
        "SELECT 1; DROP TABLE visits",
    ):
        response = served.ask(sql, epsilon=1)
        assert response.status_code == 422
        assert error(response.content)["code"].startswith("query.")
    # A text that reads no table is public, and so are its rows.
    assert served.ask("SELECT '\U0001f600' AS face", epsilon=1).json()["rows"] == [["\U0001f600"]]
    assert served.spent() == 0


@pytest.mark.parametrize(
    "name", ["Origin", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-HTTP-Method-Override", "Cookie"]
)
def test_headers_that_change_nothing(served: Served, name: str) -> None:
    """No CORS, no method that is not the method, no cookie that is a token."""
    response = served.get("/v1/me", headers={name: "DELETE"})
    assert response.status_code == 200
    assert not [header for header in response.headers if header.startswith("access-control")]


def test_every_response_says_the_same_about_itself(served: Served) -> None:
    for response in (
        served.get("/v1/me"),
        served.get("/v1/nothing"),
        served.ask(epsilon=1),
        served.get("/v1/openapi.json"),
    ):
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert not {"server", "date", "x-powered-by"} & set(response.headers)


def test_what_is_neither_http_nor_a_life(served: Served) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    asyncio.run(served.app({"type": "websocket", "path": "/v1/query"}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_two_requests_do_not_share_anything(served: Served) -> None:
    async def both() -> list[Any]:
        good = [JSON, (b"authorization", f"Bearer {served.tokens['alice']}".encode())]
        return await asyncio.gather(
            *(
                raw(served.app, "POST", "/v1/explain", headers=headers, body=body)
                for headers, body in ((good, with_epsilon("1")), ([JSON], with_epsilon("1")), (good, b"{"))
                for _ in range(10)
            )
        )

    statuses = [status for status, _, _ in asyncio.run(both())]
    assert statuses == [200] * 10 + [401] * 10 + [400] * 10
