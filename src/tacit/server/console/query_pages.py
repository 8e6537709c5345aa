"""Pages of saved queries: one's own, and those that others share."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tacit.server.console.page_request import PageRequest
from tacit.server.console.quotes import AskForm
from tacit.server.errors import Unknown
from tacit.server.identity.stored_queries import SavedQuery

_TITLE_START = 80


async def show_queries(visit: PageRequest) -> Response:
    """Queries that the person keeps, and shared ones about what they may see."""
    found = await visit.run(visit.people.queries.seen, visit.user.person)
    own = [_told(each) for each in found if each.name == visit.name]
    return await visit.page("queries.html", own=own, others=[_told(each) for each in found if each.name != visit.name])


async def save(visit: PageRequest) -> Response:
    """Keep the query in the form. A shared one must be a query that can be asked."""
    form = AskForm.of(visit.form)
    title = visit.form.get("title", "").strip() or " ".join(form.sql.split())[:_TITLE_START]
    shared = visit.form.get("shared") == "yes"
    options = form.fields()
    sql = options.pop("sql")
    populations = await _populations(visit, form) if shared else ()
    await visit.run(
        visit.people.queries.save, visit.user.person, title, sql, options, populations=populations, shared=shared
    )
    return visit.redirect("/console/queries")


async def share(visit: PageRequest) -> Response:
    """Share a query of one's own, or stop sharing it."""
    found = await opened(visit, visit.form.get("id", ""))
    populations = await _populations(visit, _form(found)) if visit.form.get("shared") == "yes" else None
    if not await visit.run(visit.people.queries.share, found.id, visit.user.person, populations):
        raise Unknown("query")
    return visit.redirect("/console/queries")


async def delete(visit: PageRequest) -> Response:
    """Delete a query of one's own."""
    if not await visit.run(visit.people.queries.delete, visit.form.get("id", ""), visit.user.person):
        raise Unknown("query")
    return visit.redirect("/console/queries")


async def opened(visit: PageRequest, identity: str) -> SavedQuery:
    """A query that the person sees; one that others keep to themselves is not there, as if it never was."""
    found = await visit.run(visit.people.queries.find, identity, visit.user.person)
    if found is None:
        raise Unknown("query")
    return found


async def _populations(visit: PageRequest, form: AskForm) -> frozenset[str]:
    """Populations that a query reads: those who may see all of them may see the query."""
    quote = await visit.runtime.quote(visit.user, form.ask())
    return frozenset(quote.populations)


def _form(found: SavedQuery) -> AskForm:
    return AskForm.of({"sql": found.sql, **found.options})


def _told(found: SavedQuery) -> dict[str, Any]:
    form = _form(found)
    return {
        "id": found.id,
        "name": found.name,
        "title": found.title,
        "sql": found.sql,
        "price": f"{form.pay} {form.amount}".strip(),
        "shared": found.shared,
        "time": f"{found.saved:%Y-%m-%d}",
    }
