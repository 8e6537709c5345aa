"""Endpoints of the API, and their table."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from tacit.client import account_responses as told
from tacit.client import releases as jobs
from tacit.client import responses as wire
from tacit.client.account_responses import PersonRequest, QuotaRequest, TokenRequest
from tacit.client.releases import ReleaseLineResponse, ReleaseResponse, ReleasesResponse
from tacit.client.responses import QueryRequest
from tacit.core.errors import InputError
from tacit.releases.answer import Answer
from tacit.releases.kinds import KINDS
from tacit.releases.payment import entry_of
from tacit.releases.release import MEDIA_TYPES
from tacit.server.api import admin_routes as operating
from tacit.server.api.jobs import poll, put_off
from tacit.server.api.request import (
    ARROW,
    JSON,
    ApiRequest,
    ApiResponse,
    Route,
    arrow_bytes,
    ask_of,
    chosen,
    idempotency_key,
    json_bytes,
    json_response,
    release_of,
    wants_job,
)
from tacit.server.service import ADMIN, AUDIT, ONLY


def make(call: ApiRequest) -> ApiResponse:
    """Make a synthetic table, answer a workload or fit a model, as a job; charged once, then free."""
    return put_off(call, release_of(call.body), idempotency_key(call.headers))


def everything(call: ApiRequest) -> ApiResponse:
    """Releases that were paid for."""
    found = call.runtime.service.releases(call.user, call.query.get("kind"))
    return json_response(ReleasesResponse(releases=[ReleaseLineResponse.of(each) for each in found]).plain())


def one(call: ApiRequest) -> ApiResponse:
    """A release, or one of its files; free."""
    release, made = call.runtime.service.release(call.user, call.position("release"))
    name = call.query.get("file")
    if name is None:
        return json_response(ReleaseResponse.of(release.kind, made).plain())
    files = KINDS[release.kind].files(made)
    if name not in files:
        raise InputError("file", "must be one of the names that the release lists")
    told = f"attachment; filename={release.kind}-{release.position}-{name}"
    form = MEDIA_TYPES[name.rpartition(".")[2]]
    return ApiResponse(200, files[name](), form, ((b"content-disposition", told.encode()),))


_CODE: Final = re.compile(r"[0-9a-f]{64}\Z")


def query(call: ApiRequest) -> ApiResponse:
    """Ask a query; it is charged before data is read, and a repeat is free."""
    access, service = call.user, call.runtime.service
    form = chosen(call.headers, (JSON, ARROW))
    key = idempotency_key(call.headers)
    free = _free(call.headers)
    ask = ask_of(call.body)
    seen = _seen(call)
    call.about["sql"] = hashlib.sha256(ask.sql.encode()).hexdigest()[:16]
    # A repeat is there at once; and a job would be charged for what there is none of.
    if wants_job(call.headers) and not free:
        return put_off(call, ask, key)
    call.held = True
    answer = service.ask(access, ask, key=key, free=free, departure=call.departure)
    return _answered(call, answer, form, seen)


def explain(call: ApiRequest) -> ApiResponse:
    """Effect and cost of a query; free, and reads no data."""
    access, service = call.user, call.runtime.service
    chosen(call.headers)
    quote = service.quote(access, ask_of(call.body))
    left, engine = service.queries_left(access, quote), ADMIN in access.scopes
    key = ("quote", quote.explanation.digest, str(engine))
    shown = call.runtime.shown.get(key)
    if shown is None:
        shown = json_bytes(wire.QuoteResponse.of(quote, engine=engine).plain()).rpartition(b',"queries_left":')[0]
        call.runtime.shown.put(key, shown, len(shown))
    leaves = call.runtime.leaves_after(access, quote)
    about = (shown, b"null" if left is None else str(left).encode(), json_bytes(leaves))
    return ApiResponse(200, b'%b,"queries_left":%b,"leaves_after":%b}' % about)


def budget(call: ApiRequest) -> ApiResponse:
    """Amounts spent and left."""
    found = call.runtime.service.budget(call.user, call.query.get("population"))
    return json_response(told.BudgetsResponse(budgets=[told.BudgetResponse.of(each) for each in found]).plain())


def tables(call: ApiRequest) -> ApiResponse:
    """Tables, as their owner declared them."""
    found = call.runtime.service.tables(call.user)
    return json_response(told.TablesResponse(tables=[told.TableResponse.of(each) for each in found]).plain())


def history(call: ApiRequest) -> ApiResponse:
    """Charges, newest first."""
    words = call.query
    everyone, undelivered = (_truth(name, words.get(name, "false")) for name in ("everyone", "undelivered"))
    page = call.runtime.service.history(
        call.user,
        before=_whole("before", words.get("before")),
        limit=_whole("limit", words.get("limit")),
        everyone=everyone,
        undelivered=undelivered,
    )
    return json_response(
        told.HistoryResponse(
            entries=[told.EntryResponse.of(entry_of(record)) for record in page.records], next=page.next
        ).plain()
    )


def deliver(call: ApiRequest) -> ApiResponse:
    """Run what a charge has paid for and nobody was given, and answer: a query, or a workload; free."""
    position = call.position("charge")
    call.held = True
    found = call.runtime.service.deliver(call.user, position, departure=call.departure)
    if isinstance(found, Answer):
        return _answered(call, found, JSON, ())
    return json_response(jobs.ReleaseResponse.of("workload", found).plain())


def receipt(call: ApiRequest) -> ApiResponse:
    """The receipt of a charge."""
    return ApiResponse(200, call.runtime.service.receipt(call.user, call.position("receipt")).to_json().encode())


def key(call: ApiRequest) -> ApiResponse:
    """The key that receipts are signed with, and the newest entry."""
    return json_response(told.KeyResponse.of(call.runtime.service.curator.ledger).plain(), headers=_seen(call))


def whoami(call: ApiRequest) -> ApiResponse:
    """Person that the token stands for."""
    access = call.user
    audits = bool({AUDIT, ADMIN} & set(access.scopes))
    return json_response(told.MeResponse.from_domain(access.person, scopes=access.scopes, audits=audits).plain())


def health(call: ApiRequest) -> ApiResponse:
    """Whether queries can be answered: the ledger and the files of the sources are where they were."""
    context = call.runtime.service.curator.context
    _ = context.ledger.head
    context.check_sources()
    return json_response(wire.HealthResponse(status="ok").plain())


def _seen(call: ApiRequest) -> tuple[tuple[bytes, bytes], ...]:
    """The entry that the caller has seen before, as the ledger has it; refused where the ledger lacks it."""
    said = call.headers.get(b"tacit-seen")
    if said is None:
        return ()
    return ((b"tacit-seen", told.seen_text(call.runtime.service.curator.ledger, said.decode("latin-1")).encode()),)


def _answered(call: ApiRequest, answer: Answer, form: str, seen: tuple[tuple[bytes, bytes], ...]) -> ApiResponse:
    call.about |= wire.about_answer(answer)
    headers = ((b"tacit-repeat", b"true" if answer.charge.repeated else b"false"), *seen)
    if not answer.is_public:
        code = call.runtime.service.release_code(call.user, answer)
        headers = ((b"tacit-release", code.encode()), *headers)
    return ApiResponse(200, _shown(call, answer, form), form, headers)


def _shown(call: ApiRequest, answer: Answer, form: str) -> bytes:
    """The bytes of an answer: a function of the release, which its signature names, and of the request."""
    if answer.is_public:
        return _written(answer, form)
    plan, receipt = answer.paid
    key = ("answer", receipt.signature, plan.digest, form)
    found = call.runtime.shown.get(key)
    if found is None:
        found = _written(answer, form)
        # Public rows may be others tomorrow.
        if not plan.query.reads:
            call.runtime.shown.put(key, found, len(found))
    return found


def _written(answer: Answer, form: str) -> bytes:
    if form == ARROW:
        return arrow_bytes(answer, wire.AnswerResponse.head(answer))
    return json_bytes(wire.AnswerResponse.of(answer).plain())


def _free(headers: dict[bytes, bytes]) -> str:
    """Which repeat the caller wants or nothing; empty where a fresh answer will do."""
    said = headers.get(b"tacit-repeat", b"").decode("latin-1")
    if said and said != ONLY and _CODE.match(said) is None:
        raise InputError("Tacit-Repeat", "must be 'only' or the Tacit-Release of an answer, or be left out")
    return said


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


_MAKES: Final = tuple(kind.request for kind in KINDS.values())
ROUTES: Final = (
    Route(
        "POST", "/v1/query", query, {200: wire.AnswerResponse, 202: jobs.JobAcceptedResponse}, (QueryRequest,),
        (402, 403, 406, 409, 422), rate="asks", asks=True,
    ),
    Route("POST", "/v1/explain", explain, {200: wire.QuoteResponse}, (QueryRequest,), (403, 406, 422), rate="quotes"),
    Route("GET", "/v1/budget", budget, {200: told.BudgetsResponse}, fails=(404,), query=("population",)),
    Route("GET", "/v1/tables", tables, {200: told.TablesResponse}),
    Route(
        "GET", "/v1/history", history, {200: told.HistoryResponse}, fails=(403,),
        query=("before", "limit", "everyone", "undelivered"),
    ),
    Route(
        "POST", "/v1/deliver/{position}", deliver, {200: wire.AnswerResponse}, fails=(403, 404, 409, 422), rate="asks",
        asks=True,
    ),
    Route("GET", "/v1/receipts/{position}", receipt, {200: wire.ReceiptResponse}, fails=(404,)),
    Route("GET", "/v1/jobs/{id}", poll, {200: jobs.JobResponse}, fails=(404,)),
    Route("GET", "/v1/key", key, {200: told.KeyResponse}, fails=(409,)),
    Route("GET", "/v1/me", whoami, {200: told.MeResponse}),
    Route("GET", "/v1/health", health, {200: wire.HealthResponse}, rate=""),
    Route(
        "POST", "/v1/releases", make, {202: jobs.JobAcceptedResponse}, _MAKES, (403, 409, 422),
        rate="asks",
    ),
    Route("GET", "/v1/releases", everything, {200: jobs.ReleasesResponse}, query=("kind",)),
    Route(
        "GET", "/v1/releases/{position}", one, {200: jobs.ReleaseResponse}, fails=(404,), rate="quotes",
        query=("file",),
    ),
    Route("GET", "/v1/people", operating.everyone, {200: told.PeopleResponse}, fails=(403,)),
    Route("POST", "/v1/people", operating.add, {201: told.PersonResponse}, (PersonRequest,), (403,)),
    Route(
        "DELETE", "/v1/people/{name}", operating.revoke, {200: told.RevokedResponse}, fails=(403, 404), slashes=True
    ),
    Route("GET", "/v1/tokens", operating.tokens, {200: told.TokensResponse}, fails=(403,)),
    Route("POST", "/v1/tokens", operating.issue, {201: told.NewTokenResponse}, (TokenRequest,), (403,)),
    Route("DELETE", "/v1/tokens/{id}", operating.withdraw, {200: told.WithdrawnResponse}, fails=(403, 404)),
    Route("GET", "/v1/queries", operating.running, {200: told.RunningQueriesResponse}, fails=(403,)),
    Route("DELETE", "/v1/queries/{id}", operating.stop, {202: told.StoppedQueryResponse}, fails=(403, 404)),
    Route("POST", "/v1/quotas", operating.quota, {200: told.BudgetResponse}, (QuotaRequest,), (403, 404)),
)  # fmt: skip
