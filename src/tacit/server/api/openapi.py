"""OpenAPI description and its HTML page."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tacit.client.responses import ErrorResponse
from tacit.releases.api_types import ResponseModel
from tacit.releases.kinds import KINDS
from tacit.server.api.request import ARROW, JSON, ApiRequest, ApiResponse, Route, json_bytes

#: Statuses that any request may get.
_ANY: Final = (400, 414, 431, 500, 503)
_KNOWN: Final = (401, 429)
_BODY: Final = (408, 413, 415)
_REASONS: Final = {
    400: "it cannot be read, or a value in it cannot be used",
    401: "no valid token was shown",
    402: "the budget does not allow the charge; nothing was charged",
    403: "the token does not allow this",
    404: "there is no such thing, for the caller",
    406: "no form that is offered is accepted",
    408: "the body took too long to arrive",
    409: "the Idempotency-Key was used for another request; or there is nothing to repeat",
    413: "the body is too large",
    414: "the path is too long",
    415: "the body is not said to be JSON",
    422: "the query cannot be answered privately as written; nothing was charged",
    429: "too often; see Retry-After",
    431: "the headers are too many or too long",
    500: "something failed; only an id says what, and what was charged stays charged",
    503: "busy, or about to stop; nothing was done, try again",
}
_STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "code{font-family:ui-monospace,monospace}td{padding:.1rem 1rem .1rem 0;vertical-align:top}h2{margin-top:2.5rem}"
)


_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "population": {"type": "string", "maxLength": 200},
    "before": {"type": "integer", "minimum": 1},
    "limit": {"type": "integer", "minimum": 1, "maximum": 50},
    "everyone": {"type": "string", "enum": ["true", "false"]},
    "undelivered": {"type": "string", "enum": ["true", "false"]},
    "position": {"type": "integer", "minimum": 1},
    "kind": {"type": "string", "enum": list(KINDS)},
    "file": {"type": "string", "minLength": 1, "maxLength": 200},
    "id": {"type": "string", "minLength": 1, "maxLength": 64},
    "name": {"type": "string", "minLength": 1, "maxLength": 200},
}
_Header = tuple[str, dict[str, Any], str]


def _named(text: str) -> _Header:
    """The header by which a request has a name."""
    return "Idempotency-Key", {"type": "string", "pattern": "^[!-~]{1,200}$"}, text


_NAMED: Final = _named(
    "a name for this request, so that it may be sent again: it is charged once and gets the same bytes"
)
_ASKING: Final[tuple[_Header, ...]] = (
    _NAMED,
    ("Prefer", {"type": "string", "enum": ["respond-async"]}, "answer 202 and a job to poll"),
    (
        "Tacit-Repeat",
        {"type": "string", "pattern": "^(only|[0-9a-f]{64})$"},
        "answer only what the caller paid for, or the answer that came with this Tacit-Release; charge nothing",
    ),
)
_SEEN: Final[_Header] = (
    "Tacit-Seen",
    {"type": "string", "pattern": "^[1-9][0-9]{0,17}:[0-9a-f]{64}$"},
    "position and hash of an entry of the ledger that was seen before: 409 if the ledger does not hold it",
)
#: Headers of endpoints that ask no query.
_HEADERS: Final = {"GET /v1/key": (_SEEN,), "POST /v1/releases": (_NAMED,)}


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI document of some endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tacit",
            "version": "1",
            "description": "Differentially private answers. Amounts of privacy are exact; see the error shape below.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def described(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The endpoints that describe all others; both are made once, when they are first asked for."""
    made: dict[str, bytes] = {}

    def document(_: ApiRequest) -> ApiResponse:
        if "json" not in made:
            made["json"] = json_bytes(description(routes))
        return ApiResponse(200, made["json"])

    def page(_: ApiRequest) -> ApiResponse:
        if "page" not in made:
            made["page"] = "".join(_page(description(routes))).encode()
        digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
        return ApiResponse(200, made["page"], "text/html; charset=utf-8", policy=policy.encode())

    return (
        Route("GET", "/v1/openapi.json", document, rate=""),
        Route("GET", "/v1/docs", page, rate=""),
    )


def _operation(route: Route) -> dict[str, Any]:
    fails = sorted({*_ANY, *route.fails, *(_KNOWN if route.rate else ()), *(_BODY if route.body else ())})
    told: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.path.removeprefix('/v1/').replace('/', '_').strip('{}')}",
        "summary": route.summary,
        "parameters": [*_parameters(route)],
        "responses": {
            **{str(status): _given(status, body, route.asks) for status, body in route.gives.items()},
            **{str(status): _content(_REASONS[status], ErrorResponse) for status in fails},
        },
        "security": [{"token": []}] if route.rate else [],
    }
    if route.body:
        refs = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in route.body]
        schema = refs[0] if len(refs) == 1 else {"oneOf": refs, "discriminator": {"propertyName": "kind"}}
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return told


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    _, brace, name = route.path.rstrip("}").partition("{")
    if brace:
        yield {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}
    for name in route.query:
        yield {"name": name, "in": "query", "required": False, "schema": _PARAMETERS[name]}
    headers = (*_ASKING, _SEEN) if route.asks else _HEADERS.get(f"{route.method} {route.path}", ())
    for name, schema, text in headers:
        yield {"name": name, "in": "header", "required": False, "schema": schema, "description": text}


def _given(status: int, body: type[ResponseModel], asks: bool) -> dict[str, Any]:
    told = _content({200: "as asked", 201: "made", 202: "put off; poll Location"}[status], body)
    if asks and status == 200:
        told["content"][ARROW] = {"schema": {"type": "string", "format": "binary"}}
        text = "true where nothing was charged for this call"
        told["headers"] = {
            "Tacit-Repeat": {"schema": {"type": "string", "enum": ["true", "false"]}, "description": text}
        }
    if status == 202:
        told["headers"] = {"Location": {"schema": {"type": "string"}}}
    return told


def _content(text: str, body: type[BaseModel]) -> dict[str, Any]:
    return {"description": text, "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}}


def _schemas(routes: Iterable[Route]) -> dict[str, Any]:
    models: dict[type[BaseModel], Literal["validation"]] = {ErrorResponse: "validation"}
    for route in routes:
        models |= dict.fromkeys((*route.gives.values(), *route.body), "validation")
    template = "#/components/schemas/{model}"
    _, found = models_json_schema(list(models.items()), ref_template=template)
    parts: dict[str, Any] = found["$defs"]
    for part in parts.values():
        for field in part.get("properties", {}).values():
            # An optional field is never null.
            if field.get("default", "") is None:
                del field["default"]
    return parts


def _page(document: dict[str, Any]) -> Iterator[str]:
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Tacit</title><style>{_STYLE}</style>'
    yield '<h1>Tacit</h1><p>The same for programs: <a href="/v1/openapi.json">openapi.json</a>.</p>'
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
            yield f"<p>{html.escape(operation['summary'])}.</p>"
            yield from _table("Parameters", ((p["name"], _line(p)) for p in operation["parameters"]))
            schema = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema", {})
            for one in schema.get("oneOf", [schema] if schema else []):
                yield from _table("Body", _fields(document, one["$ref"]))
            yield from _table("Responses", ((s, _response(r)) for s, r in operation["responses"].items()))
    yield "</html>"


def _table(title: str, lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    shown = "".join(f"<tr><td><code>{html.escape(a)}</code></td><td>{html.escape(b)}</td></tr>" for a, b in lines)
    if shown:
        yield f"<h3>{title}</h3><table>{shown}</table>"


def _line(parameter: dict[str, Any]) -> str:
    return f"{parameter['in']}: {parameter.get('description', parameter['schema']['type'])}"


def _fields(document: dict[str, Any], ref: str) -> Iterator[tuple[str, str]]:
    schema = document["components"]["schemas"][ref.rpartition("/")[2]]
    for name, field in schema["properties"].items():
        needed = "needed" if name in schema.get("required", ()) else "may be left out"
        yield name, f"{field.get('description', field.get('type', ''))} ({needed})"


def _response(response: dict[str, Any]) -> str:
    ref: str = response["content"][JSON]["schema"]["$ref"]
    return f"{ref.rpartition('/')[2]}: {response['description']}"
