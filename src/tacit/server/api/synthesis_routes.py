"""Endpoints of synthetic tables: owners make them as jobs, people who see the population use them for nothing."""

from __future__ import annotations

from typing import Final

from tacit.core.errors import InputError
from tacit.server.api.jobs import as_job
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.errors import Unknown
from tacit.synthetic_tables.synthetic_star import SyntheticStar
from tacit.synthetic_tables.synthetic_table import SyntheticTable
from tacit.wire import job_responses as wire
from tacit.wire.requests import SynthesisSchema

#: Files of a table, with their media types.
FORMS: Final = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def synthetic_tables(call: ApiRequest) -> ApiResponse:
    """Synthetic tables that exist for the caller."""
    found = call.runtime.service.synthetic_tables(call.user)
    told = [wire.SyntheticTableTold.from_domain(each) for each in found]
    return json_response(wire.SyntheticTablesBody(tables=told).plain())


def synthetic(call: ApiRequest) -> ApiResponse:
    """The quality of a synthetic table, or the table itself as a file."""
    position = call.position("synthetic table")
    form = call.query.get("form", "json")
    if form not in ("json", *FORMS):
        raise InputError("form", f"must be one of json, {', '.join(FORMS)}")
    made, name = call.runtime.service.synthetic(call.user, position), call.query.get("name", "")
    table = one_of(made, name)
    if form == "json":
        return json_response(wire.SyntheticTableBody.of(made, table.name).plain())
    told = f"attachment; filename={table.name}.{form}"
    return ApiResponse(200, table.to_bytes(form), FORMS[form], ((b"content-disposition", told.encode()),))


def one_of(made: SyntheticTable | SyntheticStar, name: str) -> SyntheticTable:
    """The table of a name; of two tables the first where none is stated.

    Raises:
        Unknown: it is none of them.
    """
    found = {made.name: made} if isinstance(made, SyntheticTable) else {each: made[each] for each in made.names}
    if name and name not in found:
        raise Unknown("synthetic table")
    return found[name or next(iter(found))]


ROUTES: Final = (
    Route("POST", "/v1/synthesize", as_job(SynthesisSchema), rate="asks", takes=True),
    Route("GET", "/v1/synthetic", synthetic_tables),
    Route("GET", "/v1/synthetic/{position}", synthetic, rate="quotes", query=("form", "name")),
)
