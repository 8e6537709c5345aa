"""Console: pages for people, rendered on the server.

Modules:
* :mod:`.amounts` — Amounts as pages show them: numbers and times, bars of a budget, and what a guarantee means
* :mod:`.ask_page` — Pages for asking: query, quote and answer, and files of answers
* :mod:`.charts` — Answers as tables and charts: released numbers as SVG, written into the page
* :mod:`.owner_mode` — Owner mode of the console: pages that write a project file, for one browser on the owner's own
  machine
* :mod:`.page_request` — Page request: user, form fields, protection of forms, static files, responses and error pages
* :mod:`.people_pages` — Sign-in at a provider or by a one-time link, sessions, and the pages of owners about people,
  shares and tokens
* :mod:`.project_pages` — Pages of a project file: sources, tables, columns and a picture of what bounds keep, budgets,
  checking and saving
* :mod:`.read_pages` — Pages that only show: tables, history, receipts, budgets, the promise, the ledger
* :mod:`.release_pages` — Pages of releases: a list, one of each for everyone who sees its population, and forms that
  make one
* :mod:`.tables` — Tables as pages show them, and the words of the editor
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Mount, Route

from tacit.server.console import ask_page, people_pages, read_pages, release_pages
from tacit.server.console.page_request import ConsoleContext, Handler, PageRequest, endpoint
from tacit.server.errors import Unknown
from tacit.server.identity import People, TokenScope
from tacit.server.service import CuratorService
from tacit.server.settings import Settings

if TYPE_CHECKING:
    from tacit.server.identity.oidc import OpenIDProvider

_NO_SESSION = None
_SIGNED_IN: tuple[TokenScope, ...] = ()
_ASKS = (TokenScope.ASK,)
_OWNS = (TokenScope.ADMIN,)
_ASKS_OR_OWNS = (TokenScope.ASK, TokenScope.ADMIN)
_WATCHES = (TokenScope.ADMIN, TokenScope.AUDIT)


def console(
    service: CuratorService, *, people: People, settings: Settings, providers: Mapping[str, OpenIDProvider]
) -> Mount:
    """Return the console as an application below ``/console``."""
    shared = ConsoleContext(service, people, settings, providers)
    table: tuple[tuple[str, str, Handler, tuple[TokenScope, ...] | None], ...] = (
        ("GET", "/", people_pages.home, _SIGNED_IN),
        ("GET", "/sign-in", people_pages.show_sign_in, _NO_SESSION),
        ("GET", "/sign-in/{provider}", people_pages.go, _NO_SESSION),
        ("GET", "/signed-in/{provider}", people_pages.signed_in, _NO_SESSION),
        ("POST", "/sign-out", people_pages.sign_out, _SIGNED_IN),
        ("GET", "/sessions", people_pages.show_sessions, _SIGNED_IN),
        ("POST", "/sessions", people_pages.end_session, _SIGNED_IN),
        ("GET", "/link/{secret}", people_pages.show_link, _NO_SESSION),
        ("POST", "/link/{secret}", people_pages.follow_link, _NO_SESSION),
        ("GET", "/ask", ask_page.show_ask, _ASKS),
        ("POST", "/ask", ask_page.ask, _ASKS),
        ("POST", "/quote", ask_page.quote, _ASKS),
        ("POST", "/deliver", ask_page.deliver, _ASKS),
        ("POST", "/table.{form}", ask_page.asked_file, _ASKS),
        ("GET", "/answers/{position:int}", ask_page.answer_page, _SIGNED_IN),
        ("GET", "/answers/{position:int}/table.{form}", ask_page.answer_file, _SIGNED_IN),
        ("GET", "/datasets", read_pages.show_datasets, _SIGNED_IN),
        ("GET", "/history", read_pages.show_history, _SIGNED_IN),
        ("GET", "/receipts/{position:int}", read_pages.receipt, _SIGNED_IN),
        ("GET", "/budget", read_pages.show_budget, _SIGNED_IN),
        ("GET", "/guarantee", read_pages.show_guarantee, _SIGNED_IN),
        ("GET", "/releases", release_pages.show_releases, _SIGNED_IN),
        ("POST", "/releases", release_pages.make, _ASKS_OR_OWNS),
        ("GET", "/releases/{position:int}", release_pages.show_release, _SIGNED_IN),
        ("GET", "/releases/{position:int}/{file}", release_pages.download, _SIGNED_IN),
        ("GET", "/people", people_pages.show_people, _OWNS),
        ("POST", "/people", people_pages.add, _OWNS),
        ("GET", "/people/one", people_pages.show_person, _OWNS),
        ("POST", "/people/link", people_pages.link, _OWNS),
        ("POST", "/people/token", people_pages.issue, _OWNS),
        ("POST", "/people/withdraw", people_pages.withdraw, _OWNS),
        ("POST", "/people/quota", people_pages.quota, _OWNS),
        ("POST", "/people/role", people_pages.role, _OWNS),
        ("POST", "/people/revoke", people_pages.revoke, _OWNS),
        ("GET", "/ledger", read_pages.show_ledger, _WATCHES),
    )
    visit_of = partial(PageRequest, shared)
    routes = [
        Route(path, endpoint(visit_of, handler, needs=needs), methods=[method])
        for method, path, handler, needs in table
    ]
    statics = Route("/static/{digest}/{name}", shared.statics.serve)
    lost = Route("/{path:path}", endpoint(visit_of, _lost, needs=_NO_SESSION), methods=["GET", "POST"])
    return Mount("/console", routes=[statics, *routes, lost])


async def _lost(_: PageRequest) -> Response:
    raise Unknown("page")
