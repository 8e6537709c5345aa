"""Table of all pages."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Mount, Route

from tacit.server.console import ask_page as asking
from tacit.server.console import datasets
from tacit.server.console import history_pages as records
from tacit.server.console import people_pages as owners
from tacit.server.console import sign_in as entry
from tacit.server.console.ledger_page import LedgerWatch
from tacit.server.console.page_request import ConsoleContext, Handler, PageRequest, endpoint
from tacit.server.errors import Unknown
from tacit.server.identity import People, TokenScope
from tacit.server.service import CuratorService
from tacit.server.settings import Settings

__all__ = ["console"]

_NO_SESSION = None
_SIGNED_IN: tuple[TokenScope, ...] = ()
_ASKS = (TokenScope.ASK,)
_OWNS = (TokenScope.ADMIN,)
_WATCHES = (TokenScope.ADMIN, TokenScope.AUDIT)


def console(office: CuratorService, *, people: People, settings: Settings) -> Mount:
    """The console as an application below ``/console``.

    Args:
        office: what does things for people.
        people: who they are.
        settings: whether cookies travel by TLS only.
    """
    building, watch = ConsoleContext(office, people, settings), LedgerWatch()
    table: tuple[tuple[str, str, Handler, tuple[TokenScope, ...] | None], ...] = (
        ("GET", "/", entry.home, _SIGNED_IN),
        ("GET", "/sign-in", entry.show_sign_in, _NO_SESSION),
        ("POST", "/sign-in", entry.sign_in, _NO_SESSION),
        ("POST", "/sign-out", entry.sign_out, _SIGNED_IN),
        ("GET", "/password", entry.show_password, _SIGNED_IN),
        ("POST", "/password", entry.change_password, _SIGNED_IN),
        ("GET", "/setup/{secret}", entry.show_set_up, _NO_SESSION),
        ("POST", "/setup/{secret}", entry.set_up, _NO_SESSION),
        ("GET", "/welcome/{secret}", entry.show_welcome, _NO_SESSION),
        ("POST", "/welcome/{secret}", entry.accept, _NO_SESSION),
        ("GET", "/ask", asking.show_ask, _ASKS),
        ("POST", "/ask", asking.ask, _ASKS),
        ("POST", "/quote", asking.quote, _ASKS),
        ("GET", "/chart.svg", asking.chart, _SIGNED_IN),
        ("GET", "/answers/{position:int}", asking.answer_page, _SIGNED_IN),
        ("GET", "/answers/{position:int}/table.csv", asking.table_csv, _SIGNED_IN),
        ("GET", "/datasets", datasets.show_datasets, _SIGNED_IN),
        ("GET", "/history", records.show_history, _SIGNED_IN),
        ("GET", "/receipts/{position:int}", records.receipt, _SIGNED_IN),
        ("GET", "/budget", records.show_budget, _SIGNED_IN),
        ("GET", "/burn-down.svg", records.burn_down, _SIGNED_IN),
        ("GET", "/guarantee", records.show_guarantee, _SIGNED_IN),
        ("GET", "/people", owners.show_people, _OWNS),
        ("POST", "/people", owners.add, _OWNS),
        ("GET", "/people/one", owners.show_person, _OWNS),
        ("POST", "/people/invite", owners.invite, _OWNS),
        ("POST", "/people/token", owners.issue, _OWNS),
        ("POST", "/people/withdraw", owners.withdraw, _OWNS),
        ("POST", "/people/quota", owners.quota, _OWNS),
        ("POST", "/people/role", owners.role, _OWNS),
        ("POST", "/people/revoke", owners.revoke, _OWNS),
        ("GET", "/ledger", watch.show, _WATCHES),
        ("POST", "/ledger/verify", watch.verify, _WATCHES),
    )
    routes = [
        Route(path, endpoint(building, handler, needs=needs), methods=[method])
        for method, path, handler, needs in table
    ]
    statics = Route("/static/{digest}/{name}", building.statics.serve)
    lost = Route("/{path:path}", endpoint(building, _lost, needs=_NO_SESSION), methods=["GET", "POST"])
    return Mount("/console", routes=[statics, *routes, lost])


async def _lost(_: PageRequest) -> Response:
    raise Unknown("page")
