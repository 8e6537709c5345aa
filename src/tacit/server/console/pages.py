"""Table of all pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Mount, Route

from tacit.server.console import (
    answers,
    ask_page,
    datasets,
    history_pages,
    people_pages,
    query_pages,
    quotes,
    release_pages,
)
from tacit.server.console.history_pages import LedgerWatch
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
    """The console as an application below ``/console``."""
    shared, watch = ConsoleContext(service, people, settings, providers), LedgerWatch()
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
        ("POST", "/build", ask_page.build_query, _ASKS),
        ("POST", "/curve", quotes.curve, _ASKS),
        ("POST", "/again", ask_page.ask_again, _ASKS),
        ("POST", "/deliver", ask_page.deliver, _ASKS),
        ("GET", "/queries", query_pages.show_queries, _ASKS),
        ("POST", "/queries", query_pages.save, _ASKS),
        ("POST", "/queries/share", query_pages.share, _ASKS),
        ("POST", "/queries/delete", query_pages.delete, _ASKS),
        ("POST", "/table.{form}", answers.again, _ASKS),
        ("GET", "/answers/{position:int}", ask_page.answer_page, _SIGNED_IN),
        ("GET", "/answers/{position:int}/table.{form}", answers.by_position, _SIGNED_IN),
        ("GET", "/datasets", datasets.show_datasets, _SIGNED_IN),
        ("GET", "/history", history_pages.show_history, _SIGNED_IN),
        ("GET", "/receipts/{position:int}", history_pages.receipt, _SIGNED_IN),
        ("GET", "/budget", history_pages.show_budget, _SIGNED_IN),
        ("GET", "/guarantee", history_pages.show_guarantee, _SIGNED_IN),
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
        ("GET", "/ledger", watch.show, _WATCHES),
        ("POST", "/ledger/verify", watch.verify, _WATCHES),
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
