"""Pages of workloads: their errors and answers for everyone who sees the population, a form for those who may ask."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from tacit.client.requests import WorkloadSchema, synthesis_text
from tacit.core.errors import InputError, TacitError
from tacit.server.api.jobs import put_job
from tacit.server.api.release_routes import FORMS, table_file
from tacit.server.api.request_body import read_body
from tacit.server.console.error_pages import PageProblem, problem_of
from tacit.server.console.page_request import PageRequest
from tacit.server.console.synthetic_pages import MOST_COUNTS, count_text, counts_drawn, job_page
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope

if TYPE_CHECKING:
    from tacit.releases.workload import WorkloadAnswer

_KINDS: Final = (
    ("1", "counts by each column"),
    ("2", "counts by each pair of columns"),
    ("3", "counts by every three columns"),
    ("prefixes", "cumulative counts of one column"),
    ("ranges", "counts of every interval of one column"),
)
_FIELDS: Final = ("source", "columns", "kind", "epsilon", "delta")
_MOST_LISTED: Final = 200


async def answer(visit: PageRequest) -> Response:
    """Quote a workload, or put it down as a job; one that would be refused is refused now."""
    form, priced = visit.form, visit.typed("epsilon", "delta")
    try:
        words = {"source": form.get("source", ""), "workload": _workload(form.get("kind", ""), form.get("columns", ""))}
        said = read_body(WorkloadSchema, synthesis_text(words, priced, WorkloadSchema).encode())
        quote = await visit.run(visit.service.quote_workload, visit.user, said)
        if form.get("do") != "answer":
            return await show_workloads(visit, quote=str(quote))
        job = await visit.run(put_job, visit.runtime, visit.user, said)
    except TacitError as raised:
        return await show_workloads(visit, problem=problem_of(raised))
    return visit.redirect(f"/console/workloads?job={job.id}")


async def show_workload(visit: PageRequest) -> Response:
    """The errors of one workload, and its tables."""
    position = visit.request.path_params["position"]
    found = await visit.run(visit.service.workload, visit.user, position)
    tables = [
        {"place": place, "columns": " × ".join(each.columns) or "all rows", "queries": f"{len(each):,}",
         "stddev": f"{each.variances.max() ** 0.5:.4g}"}
        for place, each in enumerate(found.tables())
    ]  # fmt: skip
    place = visit.request.query_params.get("table", "0")
    if not place.isascii() or not place.isdigit() or not int(place[:9]) < len(tables):
        raise Unknown("page")
    return await visit.page(
        "workload.html",
        answers=await visit.run(_answers, found, int(place[:9])),
        words=str(found.plan.workload),
        queries=f"{found.plan.count:,}",
        error=f"{found.plan.root_mean_square_error:.4g}",
        position=position,
        tables=tables[:_MOST_LISTED],
        more=len(tables) - _MOST_LISTED,
        forms=list(FORMS),
    )


def _answers(found: WorkloadAnswer, place: int) -> dict[str, Any]:
    """The first answers of one table, each with its interval."""
    table = next(islice(found.tables(), place, None))
    listed = [([_label(each) for each in labels], told) for labels, told in islice(table.rows(), MOST_COUNTS)]
    points = [(labels, told.value, told.low, told.high) for labels, told in listed]
    return {
        "place": place,
        "columns": table.columns,
        "title": " × ".join(table.columns) or "all rows",
        "rows": [
            {"labels": labels} | {name: count_text(getattr(told, name)) for name in ("value", "low", "high")}
            for labels, told in listed
        ],
        "more": len(table) - len(listed),
        "charts": counts_drawn("answers", points) if len(table) == len(listed) else [],
    }


def _label(label: Any) -> str:
    if isinstance(label, tuple):
        return f"{label[0]} to {label[1]}"
    return "NULL" if label is None else str(label)


async def download(visit: PageRequest) -> Response:
    """The answers of one table as a file."""
    position, place, form = (visit.request.path_params[name] for name in ("position", "place", "form"))
    if form not in FORMS:
        raise Unknown("page")
    found = await visit.run(visit.service.workload, visit.user, position)
    content = await visit.run(table_file, found, place, form)
    return visit.file(content, f"workload-{position}-{place}.{form}", FORMS[form])


def _workload(kind: str, columns: str) -> list[dict[str, Any]]:
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if kind in ("prefixes", "ranges"):
        if len(names) != 1:
            raise InputError("columns", f"must be one column for {kind}")
        return [{kind: names[0]}]
    if kind not in ("1", "2", "3"):
        raise InputError("kind", f"must be one of {', '.join(kind for kind, _ in _KINDS)}")
    return [{"marginals": names, "ways": int(kind)}]


async def show_workloads(visit: PageRequest, problem: PageProblem | None = None, quote: str = "") -> Response:
    """All workloads, the newest first; for those who may ask a form that has one answered, and the state of its job."""
    found = await visit.run(visit.service.workloads, visit.user)
    asks = visit.user.has(TokenScope.ADMIN) or visit.user.has(TokenScope.ASK)
    tables = await visit.run(visit.service.tables, visit.user) if asks else ()
    sources = [each.name for each in tables if not each.table.public]
    shown = {"workloads": list(reversed(found)), "asks": asks, "sources": sources, "kinds": _KINDS, "quote": quote}
    return await job_page(visit, "workloads.html", _FIELDS, problem, **shown)
