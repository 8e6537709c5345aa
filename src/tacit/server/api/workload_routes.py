"""Endpoints of workloads: analysts have them answered as jobs, people who see the population read them for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tacit.core.errors import InputError
from tacit.curator.views.arrow_tables import table_bytes
from tacit.server.api.jobs import as_job
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.api.synthesis_routes import FORMS
from tacit.wire import job_responses as wire
from tacit.wire.requests import WorkloadSchema

if TYPE_CHECKING:
    from tacit.paid_work.workload_release import WorkloadAnswer


def workloads(call: ApiRequest) -> ApiResponse:
    """Workloads that exist for the caller."""
    found = call.runtime.service.workloads(call.user)
    told = [wire.WorkloadTold.from_domain(each) for each in found]
    return json_response(wire.WorkloadsBody(workloads=told).plain())


def workload(call: ApiRequest) -> ApiResponse:
    """Errors of a workload, or the answers of one of its tables as a file."""
    position = call.position("workload")
    form, place = call.query.get("form", "json"), call.query.get("table", "0")
    if form not in ("json", *FORMS):
        raise InputError("form", f"must be one of json, {', '.join(FORMS)}")
    if not place.isascii() or not place.isdigit() or len(place) > 9:
        raise InputError("table", "must be the place of a table, from 0 on")
    answer = call.runtime.service.workload(call.user, position)
    if form == "json":
        return json_response(wire.WorkloadBody.of(answer).plain())
    name = f"attachment; filename=workload-{call.part}-{int(place)}.{form}"
    headers = ((b"content-disposition", name.encode()),)
    return ApiResponse(200, table_file(answer, int(place), form), FORMS[form], headers)


def table_file(answer: WorkloadAnswer, place: int, form: str) -> bytes:
    """The answers of one table of a workload as the content of a file.

    Raises:
        InputError: there is no such table.
    """
    found = next((table for at, table in enumerate(answer.tables()) if at == place), None)
    if found is None:
        raise InputError("table", f"there is no table {place}; they are numbered from 0 on")
    return table_bytes(found.to_arrow(), form)


ROUTES: Final = (
    Route("POST", "/v1/workload", as_job(WorkloadSchema), rate="asks", takes=True),
    Route("GET", "/v1/workloads", workloads),
    Route("GET", "/v1/workloads/{position}", workload, rate="quotes", query=("form", "table")),
)
