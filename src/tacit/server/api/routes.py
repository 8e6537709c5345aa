"""Endpoints of the API, and their table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tacit.client import account_responses as account
from tacit.client import releases as release
from tacit.client import responses as wire
from tacit.client.responses import ErrorResponse, QueryRequest
from tacit.core.errors import AccessError, InputError
from tacit.releases.answer import Answer
from tacit.releases.api_types import ResponseModel
from tacit.releases.kinds import KINDS
from tacit.releases.payment import entry_of
from tacit.releases.release import MEDIA_TYPES
from tacit.server.api.jobs import poll, put_off
from tacit.server.api.request import (
    JSON,
    ApiRequest,
    ApiResponse,
    Lines,
    Route,
    ask_of,
    idempotency_key,
    json_bytes,
    release_of,
    wants_job,
)
from tacit.server.errors import Unknown
from tacit.server.service import ADMIN, AUDIT, ONLY

_CODE: Final = re.compile(r"[0-9a-f]{64}\Z")


def query(call: ApiRequest) -> ApiResponse:
    """Ask a query; it is charged before data is read, and a repeat is free."""
    key, free = idempotency_key(call.headers), _free(call.headers)
    ask = ask_of(call.body)
    seen = _seen(call)
    call.about["sql"] = hashlib.sha256(ask.sql.encode()).hexdigest()[:16]
    # A repeat is available at once; and a job would be charged if no earlier answer exists.
    if wants_job(call.headers) and not free:
        return put_off(call, ask, key)
    call.held = True
    answer = call.runtime.service.ask(call.user, ask, key=key, free=free, timer=call.timer)
    return _answered(call, answer, seen)


def explain(call: ApiRequest) -> ApiResponse:
    """Effect and cost of a query; free, and reads no data."""
    access, service = call.user, call.runtime.service
    quote = service.quote(access, ask_of(call.body))
    left, engine = service.queries_left(access, quote), ADMIN in access.scopes
    key = ("quote", quote.explanation.digest, str(engine))
    shown = call.runtime.shown.get(key)
    if shown is None:
        shown = json_bytes(wire.QuoteResponse.of(quote, engine=engine).plain()).rpartition(b',"queries_left":')[0]
        call.runtime.shown.put(key, shown, len(shown))
    about = (shown, json_bytes(left), json_bytes(call.runtime.response_time(access, quote)))
    return ApiResponse(200, b'%b,"queries_left":%b,"response_time":%b}' % about)


def budget(call: ApiRequest) -> ResponseModel:
    """Amounts spent and left."""
    found = call.runtime.service.budget(call.user, call.query.get("population"))
    return account.BudgetsResponse(budgets=[account.BudgetResponse.of(each) for each in found])


def tables(call: ApiRequest) -> ResponseModel:
    """Tables, as their owner declared them."""
    found = call.runtime.service.tables(call.user)
    return account.TablesResponse(tables=[account.TableResponse.of(each) for each in found])


def history(call: ApiRequest) -> ResponseModel:
    """Charges, newest first."""
    everyone, undelivered = (_truth(name, call.query.get(name, "false")) for name in ("everyone", "undelivered"))
    before, limit = (_whole(name, call.query.get(name)) for name in ("before", "limit"))
    page = call.runtime.service.history(
        call.user, before=before, limit=limit, everyone=everyone, undelivered=undelivered
    )
    entries = [account.EntryResponse.of(entry_of(record)) for record in page.records]
    return account.HistoryResponse(entries=entries, next=page.next)


def deliver(call: ApiRequest) -> ApiResponse | ResponseModel:
    """Run what a charge has paid for and nobody was given, and answer: a query, or a workload; free."""
    position = call.position("charge")
    call.held = True
    found = call.runtime.service.deliver(call.user, position, timer=call.timer)
    if isinstance(found, Answer):
        return _answered(call, found, ())
    return release.ReleaseResponse.of("workload", found)


def receipt(call: ApiRequest) -> ApiResponse:
    """The receipt of a charge."""
    return ApiResponse(200, call.runtime.service.receipt(call.user, call.position("receipt")).to_json().encode())


def key(call: ApiRequest) -> ApiResponse:
    """The key that receipts are signed with, and the newest entry."""
    found = account.KeyResponse.of(call.runtime.service.curator.ledger)
    return ApiResponse(200, json_bytes(found.plain()), headers=_seen(call))


def whoami(call: ApiRequest) -> ResponseModel:
    """Person that the token stands for."""
    access = call.user
    audits = bool({AUDIT, ADMIN} & set(access.scopes))
    return account.MeResponse.from_domain(access.person, scopes=access.scopes, audits=audits)


def health(call: ApiRequest) -> ResponseModel:
    """Whether queries can be answered: the ledger and the files of the sources are where they were."""
    context = call.runtime.service.curator.context
    _ = context.ledger.head
    context.check_sources()
    return wire.HealthResponse(status="ok")


def make_release(call: ApiRequest) -> ApiResponse:
    """Make a synthetic table, answer a workload or fit a model, as a job; charged once, then free."""
    return put_off(call, release_of(call.body), idempotency_key(call.headers))


def list_releases(call: ApiRequest) -> ResponseModel:
    """Releases that were paid for."""
    found = call.runtime.service.releases(call.user, call.query.get("kind"))
    return release.ReleasesResponse(releases=[release.ReleaseLineResponse.of(each) for each in found])


def read_release(call: ApiRequest) -> ApiResponse | ResponseModel:
    """A release, or one of its files; free."""
    found, made = call.runtime.service.release(call.user, call.position("release"))
    name = call.query.get("file")
    if name is None:
        return release.ReleaseResponse.of(found.kind, made)
    files = KINDS[found.kind].files(made)
    if name not in files:
        raise InputError("file", "must be one of the names that the release lists")
    disposition = f"attachment; filename={found.kind}-{found.position}-{name}"
    form = MEDIA_TYPES[name.rpartition(".")[2]]
    return ApiResponse(200, files[name](), form, ((b"content-disposition", disposition.encode()),))


def _seen(call: ApiRequest) -> Lines:
    """Return the ledger entry that the caller has seen before; refuse one that the ledger lacks."""
    stated = call.headers.get(b"tacit-seen")
    if stated is None:
        return ()
    return ((b"tacit-seen", account.seen_text(call.runtime.service.curator.ledger, stated.decode("latin-1")).encode()),)


def _answered(call: ApiRequest, answer: Answer, seen: Lines) -> ApiResponse:
    call.about |= wire.about_answer(answer)
    headers = ((b"tacit-repeat", b"true" if answer.charge.repeated else b"false"), *seen)
    if not answer.is_public:
        code = call.runtime.service.release_code(call.user, answer)
        headers = ((b"tacit-release", code.encode()), *headers)
    return ApiResponse(200, _shown(call, answer), headers=headers)


def _shown(call: ApiRequest, answer: Answer) -> bytes:
    """Return the bytes of an answer: a function of the release, which its signature names, and of the request."""
    # Rows of public tables may change.
    if answer.is_public or answer.paid[0].query.reads:
        return json_bytes(wire.AnswerResponse.of(answer).plain())
    plan, receipt = answer.paid
    key = ("answer", receipt.signature, plan.digest)
    found = call.runtime.shown.get(key)
    if found is None:
        found = json_bytes(wire.AnswerResponse.of(answer).plain())
        call.runtime.shown.put(key, found, len(found))
    return found


def _free(headers: dict[bytes, bytes]) -> str:
    """Return which free repeat the caller insists on; empty if a fresh answer is allowed."""
    stated = headers.get(b"tacit-repeat", b"").decode("latin-1")
    if stated and stated != ONLY and _CODE.match(stated) is None:
        raise InputError("Tacit-Repeat", "must be 'only' or the Tacit-Release of an answer, or be left out")
    return stated


def _truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InputError(name, "must be true or false")
    return text == "true"


def _whole(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InputError(name, "must be a whole number")
    return int(text)


# Of owners ------------------------------------------------------------------------------------------------------------


def running_queries(call: ApiRequest) -> ResponseModel:
    """Queries that read data now."""
    _check_owner(call)
    found = [account.RunningQueryResponse.from_domain(each) for each in call.runtime.running.listed()]
    return account.RunningQueriesResponse(queries=found)


def stop_query(call: ApiRequest) -> ResponseModel:
    """Stop a query; its charge waits."""
    _check_owner(call)
    if not call.runtime.running.ask_to_stop(call.part):
        raise Unknown("query")
    return account.StoppedQueryResponse(id=call.part)


def _check_owner(call: ApiRequest) -> None:
    if ADMIN not in call.user.scopes:
        raise AccessError("this needs the scope admin, which your token does not have")


_MAKES: Final = tuple(kind.request for kind in KINDS.values())
ROUTES: Final = (
    Route(
        "POST", "/v1/query", query, {200: wire.AnswerResponse, 202: release.JobAcceptedResponse}, (QueryRequest,),
        (402, 403, 409, 422), rate="asks", asks=True,
    ),
    Route("POST", "/v1/explain", explain, {200: wire.QuoteResponse}, (QueryRequest,), (403, 422), rate="quotes"),
    Route("GET", "/v1/budget", budget, {200: account.BudgetsResponse}, fails=(404,), query=("population",)),
    Route("GET", "/v1/tables", tables, {200: account.TablesResponse}),
    Route(
        "GET", "/v1/history", history, {200: account.HistoryResponse}, fails=(403,),
        query=("before", "limit", "everyone", "undelivered"),
    ),
    Route(
        "POST", "/v1/deliver/{position}", deliver, {200: wire.AnswerResponse}, fails=(403, 404, 409, 422), rate="asks",
        asks=True,
    ),
    Route("GET", "/v1/receipts/{position}", receipt, {200: wire.ReceiptResponse}, fails=(404,)),
    Route("GET", "/v1/jobs/{id}", poll, {200: release.JobResponse}, fails=(404,)),
    Route("GET", "/v1/key", key, {200: account.KeyResponse}, fails=(409,)),
    Route("GET", "/v1/me", whoami, {200: account.MeResponse}),
    Route("GET", "/v1/health", health, {200: wire.HealthResponse}, rate=""),
    Route(
        "POST", "/v1/releases", make_release, {202: release.JobAcceptedResponse}, _MAKES, (403, 409, 422),
        rate="asks",
    ),
    Route("GET", "/v1/releases", list_releases, {200: release.ReleasesResponse}, query=("kind",)),
    Route(
        "GET", "/v1/releases/{position}", read_release, {200: release.ReleaseResponse}, fails=(404,), rate="quotes",
        query=("file",),
    ),
    Route("GET", "/v1/queries", running_queries, {200: account.RunningQueriesResponse}, fails=(403,)),
    Route("DELETE", "/v1/queries/{id}", stop_query, {202: account.StoppedQueryResponse}, fails=(403, 404)),
)  # fmt: skip


#: Failure statuses that any request may get.
_ANY: Final = (400, 414, 431, 500, 503)
_KNOWN: Final = (401, 429)
_BODY: Final = (408, 413, 415)
_REASONS: Final = {
    400: "it cannot be read, or a value in it cannot be used",
    401: "no valid token was shown",
    402: "the budget does not allow the charge; nothing was charged",
    403: "the token does not allow this",
    404: "there is no such thing, for the caller",
    408: "the body took too long to arrive",
    409: "the Idempotency-Key was used for another request; or there is nothing to repeat",
    413: "the body is too large",
    414: "the path is too long",
    415: "the body is not declared as JSON",
    422: "the query cannot be answered privately as written; nothing was charged",
    429: "too often; see Retry-After",
    431: "the headers are too many or too long",
    500: "something failed; the operator finds it by an id, and what was charged stays charged",
    503: "busy, or about to stop; nothing was done, try again",
}
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
}
_Header = tuple[str, dict[str, Any], str]


def _key_header(text: str) -> _Header:
    """Return the description of the idempotency-key header."""
    return "Idempotency-Key", {"type": "string", "pattern": "^[!-~]{1,200}$"}, text


_KEY_HEADER: Final = _key_header(
    "a name for this request, so that it may be sent again: it is charged once and gets the same bytes"
)
_ASKING: Final[tuple[_Header, ...]] = (
    _KEY_HEADER,
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
_HEADERS: Final = {"GET /v1/key": (_SEEN,), "POST /v1/releases": (_KEY_HEADER,)}


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of these endpoints."""
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


def described(routes: tuple[Route, ...]) -> Route:
    """Return the endpoint that describes the others, in a document that is made on first request."""
    document = cache(lambda: json_bytes(description(routes)))
    return Route("GET", "/v1/openapi.json", lambda _: ApiResponse(200, document()), rate="")


def _operation(route: Route) -> dict[str, Any]:
    fails = sorted({*_ANY, *route.fails, *(_KNOWN if route.rate else ()), *(_BODY if route.body else ())})
    operation: dict[str, Any] = {
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
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return operation


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
    response = _content({200: "as asked", 201: "made", 202: "put off; poll Location"}[status], body)
    if asks and status == 200:
        text = "true where nothing was charged for this call"
        response["headers"] = {
            "Tacit-Repeat": {"schema": {"type": "string", "enum": ["true", "false"]}, "description": text}
        }
    if status == 202:
        response["headers"] = {"Location": {"schema": {"type": "string"}}}
    return response


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
