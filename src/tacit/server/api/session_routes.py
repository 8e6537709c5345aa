"""Endpoints of sessions of counting queries: open, ask, look, close; only hard queries are paid for."""

from __future__ import annotations

from typing import Final

from tacit.curator.views.arrow_tables import table_bytes
from tacit.server.api.release_routes import file_response, stated_form
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.api.request_body import read_body
from tacit.server.api.request_limits import idempotency_key
from tacit.wire import session_responses as wire
from tacit.wire.requests import SessionQuerySchema, SessionSchema


def open_session(call: ApiRequest) -> ApiResponse:
    """Open a session."""
    said, key = read_body(SessionSchema, call.body), idempotency_key(call.headers)
    call.held = True
    session = call.runtime.service.open_session(call.user, said, key=key, departure=call.departure)
    return json_response(wire.SessionBody.of(session).plain(), 201)


def ask_session(call: ApiRequest) -> ApiResponse:
    """Answer one query."""
    position = call.position("session")
    said, key = read_body(SessionQuerySchema, call.body), idempotency_key(call.headers)
    # Noise that is never shown watches over a part: the time that it takes to draw is not shown either.
    call.held = call.held_after = True
    found = call.runtime.service.ask_session(call.user, position, said.where, key=key, departure=call.departure)
    return json_response(wire.SessionAnswerBody.from_domain(found).plain())


def sessions(call: ApiRequest) -> ApiResponse:
    """Sessions that exist for the caller."""
    found = call.runtime.service.sessions(call.user)
    return json_response(wire.SessionsBody(sessions=[wire.SessionTold.of(each) for each in found]).plain())


def session(call: ApiRequest) -> ApiResponse:
    """A session with its hard answers, or its public histogram as a file."""
    position, form = call.position("session"), stated_form(call)
    found = call.runtime.service.session(call.user, position)
    if form == "json":
        return json_response(wire.SessionBody.of(found).plain())
    return file_response(table_bytes(found.histogram(), form), f"session-{position}", form)


def close_session(call: ApiRequest) -> ApiResponse:
    """End a session."""
    found = call.runtime.service.session(call.user, call.position("session"))
    found.close()
    return json_response(wire.SessionBody.of(found).plain())


ROUTES: Final = (
    Route("POST", "/v1/sessions", open_session, rate="asks", takes=True, asks=True),
    Route("GET", "/v1/sessions", sessions),
    Route("POST", "/v1/sessions/{position}", ask_session, rate="quotes", takes=True, asks=True),
    Route("GET", "/v1/sessions/{position}", session, rate="quotes", query=("form",)),
    Route("DELETE", "/v1/sessions/{position}", close_session),
)
