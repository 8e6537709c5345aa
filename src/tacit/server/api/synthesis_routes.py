"""Endpoints of synthetic tables: owners make them as jobs, people who see the population use them for nothing."""

from __future__ import annotations

from typing import Final

from tacit.core.errors import InputError
from tacit.server.api.jobs import put_off_synthesis
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.api.request_body import read_body
from tacit.server.api.request_limits import idempotency_key
from tacit.server.errors import Unknown
from tacit.wire import job_responses as wire
from tacit.wire.requests import SynthesisSchema

__all__ = ["FORMS", "ROUTES"]

#: Files of a table, with their media types.
FORMS: Final = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def synthesize(call: ApiRequest) -> ApiResponse:
    """Put a synthetic table down as a job."""
    return put_off_synthesis(call, read_body(SynthesisSchema, call.body), idempotency_key(call.headers))


def synthetic_tables(call: ApiRequest) -> ApiResponse:
    """Synthetic tables that exist for the caller."""
    found = call.runtime.service.synthetic_tables(call.user)
    told = [wire.SyntheticTableTold.from_domain(each) for each in found]
    return json_response(wire.SyntheticTablesBody(tables=told).plain())


def synthetic(call: ApiRequest) -> ApiResponse:
    """The quality of a synthetic table, or the table itself as a file."""
    if not call.part.isascii() or not call.part.isdigit() or len(call.part) > 18:
        raise Unknown("synthetic table")
    form = call.query.get("form", "json")
    if form not in ("json", *FORMS):
        raise InputError("form", f"must be one of json, {', '.join(FORMS)}")
    table = call.runtime.service.synthetic(call.user, int(call.part))
    if form == "json":
        return json_response(wire.SyntheticTableBody.of(table).plain())
    name = f"attachment; filename={table.name}.{form}"
    return ApiResponse(200, table.to_bytes(form), FORMS[form], ((b"content-disposition", name.encode()),))


ROUTES: Final = (
    Route("POST", "/v1/synthesize", synthesize, rate="asks", takes=True),
    Route("GET", "/v1/synthetic", synthetic_tables),
    Route("GET", "/v1/synthetic/{position}", synthetic, rate="quotes", query=("form",)),
)
