"""Pages of releases: a list, one of each for everyone who sees its population, and forms that make one.

What a kind shows beside its facts, and how its form is read, is in :mod:`.release_views`; its page and its form are the
macros of the template ``release_<kind>.html``.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.query.request import Request
from tacit.releases.kinds import KINDS
from tacit.releases.notebook import tables_notebook
from tacit.releases.release import MEDIA_TYPES, Files, Made, Release
from tacit.server.api.jobs import put_job
from tacit.server.api.request import job_back, release_of
from tacit.server.console.page_request import PageProblem, PageRequest, problem_of
from tacit.server.console.release_views import view_of
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope

#: Name of the notebook among the files of every release, and how many of its tables it holds.
_NOTEBOOK, _MOST_TABLES = "notebook.ipynb", 20


def _made_by(visit: PageRequest) -> list[str]:
    """Kinds that the user may make."""
    owns, asks = (visit.user.has(scope) for scope in (TokenScope.ADMIN, TokenScope.ASK))
    return [name for name, kind in KINDS.items() if owns or (asks and kind.by_analysts)]


async def show_releases(visit: PageRequest, problem: PageProblem | None = None, quote: str = "") -> Response:
    """All releases, the newest first; a form for those who may make one, and the state of its job."""
    query, makes = visit.request.query_params, _made_by(visit)
    making = visit.form.get("kind") or query.get("make", "")
    if making not in makes:
        if making and problem is None:
            raise Unknown("page")
        making = ""
    found = await visit.run(visit.service.releases, visit.user)
    tables = await visit.run(visit.service.tables, visit.user) if making else ()
    view = view_of(making) if making else None
    return await visit.page(
        "releases.html",
        200 if problem is None else problem.status,
        releases=list(reversed(found)),
        makes=[(name, view_of(name).making) for name in makes],
        making=making,
        draft={} if view is None else {name: visit.form.get(name, "") for name in view.fields},
        choices=() if view is None else view.choices,
        sources=[each.name for each in tables if not each.table.public],
        job=await visit.run(_job_of, visit, query.get("job", "")),
        problem=problem,
        quote=quote,
    )


async def make(visit: PageRequest) -> Response:
    """Quote a release, or put it down as a job; one that would be refused is refused now."""
    kind = visit.form.get("kind", "")
    try:
        if kind not in KINDS:
            raise InputError("kind", f"must be one of {', '.join(KINDS)}")
        view = view_of(kind)
        prices = {
            name: text
            for name, text in visit.typed("epsilon", "delta").items()
            if name in KINDS[kind].request.model_fields
        }
        body = KINDS[kind].request.text({"kind": kind, **view.stated(visit.form)}, prices)
        request = release_of(body.encode())
        quote = await visit.run(visit.service.quote_release, visit.user, request)
        if visit.form.get("do") == "quote":
            return await show_releases(visit, quote=quote)
        job = await visit.run(put_job, visit.runtime, visit.user, request)
    except TacitError as raised:
        return await show_releases(visit, problem=problem_of(raised))
    return visit.redirect(f"/console/releases?job={job.id}")


async def show_release(visit: PageRequest) -> Response:
    """One release, made of what was paid for alone."""
    release, made = await visit.run(visit.service.release, visit.user, visit.request.path_params["position"])
    shown = await visit.run(view_of(release.kind).shown, made, visit.request.query_params)
    about = await visit.run(lambda: KINDS[release.kind].describe(made).plain())
    return await visit.page("release.html", release=release, position=release.position, about=about, **shown)


async def download(visit: PageRequest) -> Response:
    """A file of a release."""
    release, made = await visit.run(visit.service.release, visit.user, visit.request.path_params["position"])
    name = visit.request.path_params["file"]
    files = await visit.run(KINDS[release.kind].files, made)
    if name == _NOTEBOOK:
        return visit.file(
            await visit.run(_notebook, release, made, files), f"{release.kind}-{release.position}.ipynb",
            MEDIA_TYPES["ipynb"],
        )  # fmt: skip
    if name not in files:
        raise Unknown("page")
    content = await visit.run(files[name])
    return visit.file(content, f"{release.kind}-{release.position}-{name}", MEDIA_TYPES[name.rpartition(".")[2]])


def _notebook(release: Release, made: Made, files: Files) -> bytes:
    """The facts, the first tables and the receipt of a release."""
    tables = {name: content() for name, content in files.items() if name.endswith(".csv")}
    about = json.dumps(KINDS[release.kind].describe(made).plain(), indent=1, ensure_ascii=False)
    shown = dict(list(tables.items())[:_MOST_TABLES])
    return tables_notebook(f"{release.kind} {release.title}", about, shown, made.receipt)


def _job_of(visit: PageRequest, identity: str) -> dict[str, Any] | None:
    """The state of a job in words, and the position of what it made; None where there is none of this person."""
    found = visit.people.jobs.find(identity, visit.name) if identity else None
    if found is None:
        return None
    state: dict[str, Any] = {"state": found.state, "message": "", "open": False, "position": None}
    request, _ = job_back(found.request)
    if found.state == "failed":
        state["message"] = json.loads(found.outcome).get("message", "")
    elif found.state == "done":
        state["position"] = json.loads(found.outcome).get("position")
    else:
        state["open"] = True
        state["message"] = "" if isinstance(request, Request) else visit.service.release_progress(visit.user, request)
    return state
