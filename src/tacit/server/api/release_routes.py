"""Endpoints of synthetic tables, workloads and models: put down as jobs, paid for once, and free to use from then on.

Synthetic tables and models are made for owners, workloads answered for analysts; people who see the population use them
for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tacit.client import release_responses as wire
from tacit.client.requests import FitSchema, SynthesisSchema, WorkloadSchema
from tacit.core.errors import InputError
from tacit.core.text_files import table_bytes
from tacit.releases.synthetic_star import SyntheticStar
from tacit.releases.synthetic_table import SyntheticTable
from tacit.server.api.jobs import as_job
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.errors import Unknown

if TYPE_CHECKING:
    from tacit.releases.workload import WorkloadAnswer

#: Files of a table, with their media types.
FORMS: Final = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def stated_form(call: ApiRequest) -> str:
    """The form that the path asks for: JSON, or one of :data:`FORMS`."""
    form = call.query.get("form", "json")
    if form not in ("json", *FORMS):
        raise InputError("form", f"must be one of json, {', '.join(FORMS)}")
    return form


def file_response(content: bytes, name: str, form: str) -> ApiResponse:
    """A table as a file to keep."""
    told = f"attachment; filename={name}.{form}"
    return ApiResponse(200, content, FORMS[form], ((b"content-disposition", told.encode()),))


def synthetic_tables(call: ApiRequest) -> ApiResponse:
    """Synthetic tables that exist for the caller."""
    found = call.runtime.service.synthetic_tables(call.user)
    told = [wire.SyntheticTableTold.from_domain(each) for each in found]
    return json_response(wire.SyntheticTablesBody(tables=told).plain())


def synthetic(call: ApiRequest) -> ApiResponse:
    """The quality of a synthetic table, or the table itself as a file."""
    position, form = call.position("synthetic table"), stated_form(call)
    made = call.runtime.service.synthetic(call.user, position)
    table = one_of(made, call.query.get("name", ""))
    if form == "json":
        return json_response(wire.SyntheticTableBody.of(made, table.name).plain())
    return file_response(table.to_bytes(form), table.name, form)


def one_of(made: SyntheticTable | SyntheticStar, name: str) -> SyntheticTable:
    """The table of a name; of two tables the first where none is stated.

    Raises:
        Unknown: it is none of them.
    """
    found = {made.name: made} if isinstance(made, SyntheticTable) else {each: made[each] for each in made.names}
    if name and name not in found:
        raise Unknown("synthetic table")
    return found[name or next(iter(found))]


def workloads(call: ApiRequest) -> ApiResponse:
    """Workloads that exist for the caller."""
    found = call.runtime.service.workloads(call.user)
    return json_response(wire.WorkloadsBody(workloads=[wire.WorkloadTold.from_domain(each) for each in found]).plain())


def workload(call: ApiRequest) -> ApiResponse:
    """Errors of a workload, or the answers of one of its tables as a file."""
    position, form, place = call.position("workload"), stated_form(call), call.query.get("table", "0")
    if not place.isascii() or not place.isdigit() or len(place) > 9:
        raise InputError("table", "must be the place of a table, from 0 on")
    answer = call.runtime.service.workload(call.user, position)
    if form == "json":
        return json_response(wire.WorkloadBody.of(answer).plain())
    return file_response(table_file(answer, int(place), form), f"workload-{call.part}-{int(place)}", form)


def table_file(answer: WorkloadAnswer, place: int, form: str) -> bytes:
    """The answers of one table of a workload as the content of a file.

    Raises:
        InputError: there is no such table.
    """
    found = next((table for at, table in enumerate(answer.tables()) if at == place), None)
    if found is None:
        raise InputError("table", f"there is no table {place}; they are numbered from 0 on")
    return table_bytes(found.to_arrow(), form)


def models(call: ApiRequest) -> ApiResponse:
    """Models that exist for the caller."""
    found = call.runtime.service.models(call.user)
    return json_response(wire.ModelsBody(models=[wire.ModelTold.from_domain(each) for each in found]).plain())


def model(call: ApiRequest) -> ApiResponse:
    """A model with its report."""
    return json_response(wire.ModelBody.of(call.runtime.service.model(call.user, call.position("model"))).plain())


ROUTES: Final = (
    Route("POST", "/v1/fit", as_job(FitSchema), rate="asks", takes=True),
    Route("GET", "/v1/models", models),
    Route("GET", "/v1/models/{position}", model, rate="quotes"),
    Route("POST", "/v1/synthesize", as_job(SynthesisSchema), rate="asks", takes=True),
    Route("GET", "/v1/synthetic", synthetic_tables),
    Route("GET", "/v1/synthetic/{position}", synthetic, rate="quotes", query=("form", "name")),
    Route("POST", "/v1/workload", as_job(WorkloadSchema), rate="asks", takes=True),
    Route("GET", "/v1/workloads", workloads),
    Route("GET", "/v1/workloads/{position}", workload, rate="quotes", query=("form", "table")),
)
