"""Pages of synthetic tables: their quality and files for everyone who sees the population, a form for owners."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.responses import Response

from tacit.core.errors import TacitError
from tacit.server.api.jobs import put_job
from tacit.server.api.request_body import read_body
from tacit.server.api.synthesis_routes import FORMS, one_of
from tacit.server.console.error_pages import PageProblem, problem_of
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope
from tacit.synthetic_tables.synthetic_table import BANNER, SyntheticTable
from tacit.wire.requests import SynthesisSchema, synthesis_text

__all__ = ["download", "job_of", "make", "show_synthetic", "show_tables"]

_METHODS: Final = (
    ("aim", "round by round, the best table; minutes"),
    ("mst", "a tree of pairs; seconds"),
    ("independent", "columns alone"),
)
_MOST_PAIRS: Final = 20


async def make(visit: PageRequest) -> Response:
    """Put a synthetic table down as a job; one that would be refused is refused now."""
    form = visit.form
    source, second = form.get("source", "").strip(), form.get("second", "").strip()
    words = {"source": {source: None, second: None} if second else source, "method": form.get("method", "aim")}
    priced = {name: form[name].strip() for name in ("epsilon", "delta") if form.get(name, "").strip()}
    try:
        said = read_body(SynthesisSchema, synthesis_text(words, priced).encode())
        await visit.run(visit.service.check_synthesis, visit.user, said)
        job = await visit.run(put_job, visit.runtime, visit.user, said)
    except TacitError as raised:
        return await show_tables(visit, problem=problem_of(raised))
    return visit.redirect(f"/console/synthetic?job={job.id}")


async def show_synthetic(visit: PageRequest) -> Response:
    """The quality of one table, made of what was paid for alone."""
    made = await visit.run(visit.service.synthetic, visit.user, visit.request.path_params["position"])
    table = one_of(made, visit.request.query_params.get("name", ""))
    quality = [
        {
            "columns": " × ".join(each.columns),
            "stddev": f"{each.stddev:.3g}",
            "distance": f"{100 * each.distance:.2g} %",
            "noise": f"{100 * each.noise:.2g} %",
        }
        for each in await visit.run(table.quality)
    ]
    missing = [" × ".join(pair) for pair in table.not_measured]
    return await visit.page(
        "synthetic_table.html",
        table=table,
        rows=f"{await visit.run(lambda: table.rows):,}",
        position=table.receipt.position,
        quality=quality,
        missing=missing[:_MOST_PAIRS],
        more=len(missing) - _MOST_PAIRS,
        note=BANNER,
        beside=[] if isinstance(made, SyntheticTable) else [each for each in made.names if each != table.name],
        forms=list(FORMS),
    )


async def download(visit: PageRequest) -> Response:
    """The table as a file."""
    form = visit.request.path_params["form"]
    if form not in FORMS:
        raise Unknown("page")
    made = await visit.run(visit.service.synthetic, visit.user, visit.request.path_params["position"])
    table = one_of(made, visit.request.query_params.get("name", ""))
    content = await visit.run(table.to_bytes, form)
    return visit.file(content, f"{table.name}.{form}", FORMS[form])


async def show_tables(visit: PageRequest, problem: PageProblem | None = None) -> Response:
    """All synthetic tables, the newest first; for owners a form that makes one, and the state of its job."""
    found = await visit.run(visit.service.synthetic_tables, visit.user)
    owns = visit.user.has(TokenScope.ADMIN)
    tables = await visit.run(visit.service.tables, visit.user) if owns else ()
    job = await visit.run(job_of, visit, visit.request.query_params.get("job", ""))
    status = 200 if problem is None else problem.status
    return await visit.page(
        "synthetic_tables.html",
        status,
        tables=list(reversed(found)),
        owns=owns,
        sources=[each.name for each in tables if not each.table.public],
        methods=_METHODS,
        draft={name: visit.form.get(name, "") for name in ("source", "second", "method", "epsilon", "delta")},
        job=job,
        problem=problem,
    )


def job_of(visit: PageRequest, identity: str) -> dict[str, Any] | None:
    """The state of a job in words; None where there is none of this person."""
    found = visit.people.jobs.find(identity, visit.name) if identity else None
    if found is None:
        return None
    told: dict[str, Any] = {"state": found.state, "message": "", "open": found.state in ("waiting", "running")}
    if found.state == "failed":
        told["message"] = json.loads(found.outcome).get("message", "")
    return told
