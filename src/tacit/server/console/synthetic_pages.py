"""Pages of synthetic tables: their quality and files for everyone who sees the population, a form for owners."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from starlette.responses import Response

from tacit.client.requests import SynthesisSchema, synthesis_text
from tacit.core.errors import InputError, TacitError
from tacit.releases.synthetic_table import SyntheticTable
from tacit.server.api.jobs import put_job
from tacit.server.api.release_routes import FORMS, one_of
from tacit.server.api.request_body import job_back, read_body
from tacit.server.console.charts import MOST_BARS, draw_panels
from tacit.server.console.drawings import Drawing, Panel, Point, Series
from tacit.server.console.error_pages import PageProblem, problem_of
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope

_METHODS: Final = (
    ("aim", "best, minutes"),
    ("mst", "good, seconds"),
    ("marginals", "listed sets"),
    ("independent", "columns alone"),
)
_FIELDS: Final = ("source", "second", "method", "marginals", "rows", "epsilon", "delta")
_MOST_PAIRS: Final = 20
#: Counts that a page lists.
MOST_COUNTS: Final = 200


async def make(visit: PageRequest) -> Response:
    """Put a synthetic table down as a job; one that would be refused is refused now."""
    form = visit.form
    source, second = form.get("source", "").strip(), form.get("second", "").strip()
    words: dict[str, Any] = {"source": {source: None, second: None} if second else source}
    words |= visit.typed("method")
    try:
        words |= _listed(form.get("marginals", ""), form.get("rows", "").strip())
        said = read_body(SynthesisSchema, synthesis_text(words, visit.typed("epsilon", "delta")).encode())
        await visit.run(visit.service.check_synthesis, visit.user, said)
        job = await visit.run(put_job, visit.runtime, visit.user, said)
    except TacitError as raised:
        return await show_tables(visit, problem=problem_of(raised))
    return visit.redirect(f"/console/synthetic?job={job.id}")


async def show_synthetic(visit: PageRequest) -> Response:
    """The quality of one table, made of what was paid for alone."""
    made = await visit.run(visit.service.synthetic, visit.user, visit.request.path_params["position"])
    table = one_of(made, visit.request.query_params.get("name", ""))
    best = await visit.run(table.best_quality)
    quality = [
        {
            "columns": each.columns,
            "shown": " × ".join(each.columns),
            "times": each.times,
            "wide": f"{each.wide:.3g}",
            "distance": _percent(each.distance),
            "noise": _percent(each.noise),
        }
        for each in best
    ]
    chosen = tuple(visit.request.query_params.getlist("column"))
    known = [each.columns for each in best]
    if chosen and chosen not in known:
        raise Unknown("page")
    missing = [" × ".join(pair) for pair in table.not_measured]
    return await visit.page(
        "synthetic_table.html",
        table=table,
        rows=f"{await visit.run(lambda: table.rows):,}",
        position=table.receipt.position,
        quality=quality,
        missing=missing[:_MOST_PAIRS],
        more=len(missing) - _MOST_PAIRS,
        counts=await visit.run(_counts, table, chosen or min(known, key=len)) if known else None,
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
    sources = [each.name for each in tables if not each.table.public]
    shown = {"tables": list(reversed(found)), "owns": owns, "sources": sources, "methods": _METHODS}
    return await job_page(visit, "synthetic_tables.html", _FIELDS, problem, **shown)


async def job_page(
    visit: PageRequest, template: str, fields: tuple[str, ...], problem: PageProblem | None, **shown: Any
) -> Response:
    """A page with a form that puts work down as a job: what was typed, the state of the job, and what is wrong."""
    job = await visit.run(job_of, visit, visit.request.query_params.get("job", ""))
    draft = {name: visit.form.get(name, "") for name in fields}
    status = 200 if problem is None else problem.status
    return await visit.page(template, status, draft=draft, job=job, problem=problem, **shown)


def job_of(visit: PageRequest, identity: str) -> dict[str, Any] | None:
    """The state of a job in words, and the place of what it made; None where there is none of this person."""
    found = visit.people.jobs.find(identity, visit.name) if identity else None
    if found is None:
        return None
    is_open = found.state in ("waiting", "running")
    told: dict[str, Any] = {"state": found.state, "message": "", "open": is_open, "position": None}
    said, _ = job_back(found.request)
    if found.state == "failed":
        told["message"] = json.loads(found.outcome).get("message", "")
    elif found.state == "done":
        told["position"] = json.loads(found.outcome).get("position")
    elif isinstance(said, SynthesisSchema) and said.method == "aim" and visit.user.has(TokenScope.ADMIN):
        parts = visit.service.kept_parts(visit.user, said)
        told["message"] = f"{parts} {'part is' if parts == 1 else 'parts are'} measured and kept." if parts else ""
    return told


def _listed(marginals: str, rows: str) -> dict[str, Any]:
    """Sets of columns, as ``ward + sex, ward + age``, and a number of rows, where they are stated."""
    sets = [[name.strip() for name in each.split("+") if name.strip()] for each in marginals.split(",")]
    told: dict[str, Any] = {"marginals": [each for each in sets if each]} if any(sets) else {}
    if rows:
        if not rows.isascii() or not rows.isdigit() or len(rows) > 12:
            raise InputError("rows", "must be a whole number, or left out")
        told["rows"] = int(rows)
    return told


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share <= 1 else "more than 100 %"


def _counts(table: SyntheticTable, columns: tuple[str, ...]) -> dict[str, Any]:
    """Counts of a marginal that was measured: the model's, the noisy one and its interval."""
    found = table.marginal(columns).slice(0, MOST_COUNTS).to_pylist()
    labels = [["NULL" if row[name] is None else str(row[name]) for name in columns] for row in found]
    rows = [
        {
            "labels": named,
            "model": count_text(row["model"]),
            "measured": None if row["measured"] is None else count_text(row["measured"]),
            **{end: "" if row[end] is None else count_text(row[end]) for end in ("low", "high")},
        }
        for named, row in zip(labels, found, strict=True)
    ]
    points = [
        (named, row["measured"], row["low"], row["high"])
        for named, row in zip(labels, found, strict=True)
        if row["measured"] is not None
    ]
    cells = math.prod(len(table.columns[name]) for name in columns)
    return {
        "columns": columns,
        "title": " × ".join(columns),
        "rows": rows,
        "more": cells - len(rows),
        "charts": counts_drawn("measured", points),
    }


def count_text(count: float) -> str:
    """A count with one digit after the point, where it is small enough for that to matter."""
    return f"{count:,.0f}" if abs(count) >= 1_000 else f"{count:,.1f}"


def counts_drawn(title: str, counts: list[tuple[list[str], float, float, float]]) -> list[dict[str, Any]]:
    """A picture of counts with their intervals, where there are few enough for a bar each."""
    if not 1 < len(counts) <= MOST_BARS:
        return []
    points = tuple(Point(", ".join(labels), value, low, high) for labels, value, low, high in counts)
    return list(draw_panels(Drawing((Panel(title, (Series("", points),)),), "95%")))
