"""Page request: user, form fields, protection of forms, static files, responses and error pages.

Every request has a :class:`Visit`. It authenticates the user, refuses forms that were not sent from a page of this
console, and turns every failure into a page that says what to do next. A :class:`PageRequest` is a request to a server,
whose users have sessions; owner mode has another subclass.
"""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from tacit.core.errors import AccessError, InputError, TacitError
from tacit.core.numbers import with_noun
from tacit.noise import entropy
from tacit.query.refusal import CODES, Proposal, Refusal
from tacit.server.api.request import body_of
from tacit.server.console.amounts import Gauge, gauges, is_spent, record_charge, tightest, when
from tacit.server.errors import Unauthenticated, Unknown, describe
from tacit.server.identity import Access, TokenScope

if TYPE_CHECKING:
    from tacit.releases.accounts import Budget
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Opened, People
    from tacit.server.identity.oidc import OpenIDProvider
    from tacit.server.service import CuratorService
    from tacit.server.settings import Settings

_MOST_FIELDS: Final = 60

#: Headers of every page: no foreign resources, nothing inline, no frames, no caching.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def from_here(request: Request) -> bool:
    """Whether a request comes from a page of this server, by Sec-Fetch-Site, or by Origin where browsers send no other.

    Origin is compared with Host, which a reverse proxy may replace; the browser compares for Sec-Fetch-Site itself.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is None or (urlsplit(origin).netloc or None) == request.headers.get("host")


def read_form(request: Request, body: bytes) -> dict[str, str]:
    """Parse a form body as browsers send it without files; each field must be unique.

    Raises:
        InputError: the body is no such form, or has a duplicate field.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("form", "must be sent as application/x-www-form-urlencoded")
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise InputError("form", "cannot be read") from None
    found = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if len(found) != len(pairs):
        raise InputError("form", "has a field that occurs twice")
    return found


def whole_number(text: str) -> int:
    """Parse a ledger position or page number from a URL or form; refuse other text as an unknown page."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Unknown("page")
    return int(text)


def same(token: str, expected: str) -> bool:
    """Compare a token with the expected one in constant time; an empty token never matches."""
    return bool(expected) and hmac.compare_digest(token.encode(), expected.encode())


def new_door() -> str:
    """Create a random token for the forms of pages without a session."""
    return f"{entropy.current().bits(128):032x}"


_KINDS: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "editor.js": "text/javascript; charset=utf-8",
    "project.js": "text/javascript; charset=utf-8",
    "mark.svg": "image/svg+xml",
}


class Statics:
    """The files of the folder ``static``, read once."""

    def __init__(self) -> None:
        folder = files(__package__) / "static"
        self._contents = {name: (folder / name).read_bytes() for name in _KINDS}
        self._addresses = {
            name: f"/console/static/{hashlib.sha256(content).hexdigest()[:16]}/{name}"
            for name, content in self._contents.items()
        }

    def address(self, name: str) -> str:
        return self._addresses[name]

    async def serve(self, request: Request) -> Response:
        """Serve the file at a URL; an outdated URL is not found."""
        name = request.path_params["name"]
        if self._addresses.get(name) != f"/console/static/{request.path_params['digest']}/{name}":
            return PlainTextResponse("not found", 404, headers=dict(HEADERS))
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        return Response(self._contents[name], media_type=_KINDS[name], headers=headers)


@dataclass(frozen=True)
class PageProblem:
    """A failure for a page: heading, cause, remedy, the code or id to quote, and headers of the response.

    ``proposal`` is a query that would be accepted.
    """

    title: str
    message: str
    advice: str = ""
    rule: str = ""
    code: str = ""
    status: int = 400
    id: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    proposal: Proposal | None = None


_LOOK_UP: Final = "The owner of the data can look up the reason by its number. The same query is never charged twice."
_WORDS: Final = {
    "query": ("This cannot be answered as written", "Nothing was charged."),
    "input": ("Something to correct", "Nothing was charged."),
    "access.unknown": (
        "Nothing is here for you",
        "It does not exist, or it is not yours to see: the two look the same.",
    ),
    "access.sign_in": ("You were not signed in", "Sign in once more, or ask an owner of the data."),
    "budget": (
        "The budget does not allow this",
        "Nothing was charged. A smaller cost may still fit, and every query that was answered before stays free.",
    ),
    "accounting": ("No guarantee can be computed for this", "Nothing was charged. Ask for less, or in another form."),
    "access": ("Your role does not allow this", "Nothing was done."),
    "auth": ("Your session has ended", "Nothing was charged. Sign in again to go on."),
    "rate": ("Too many requests", "Nothing was charged. Wait a moment and try again."),
    "provider": ("Sign-in does not work now", "Try again later, or ask an owner for a one-time link."),
    "busy": ("The server is busy", "Nothing was charged. Try again in a moment."),
    "internal.ledger": (
        "The ledger has stopped",
        "No query is answered until the owner of the data has looked at it. What was released before stays valid.",
    ),
    "engine.failed": (
        "The query failed",
        "The owner of the data can look up the reason by its number. The charge stays, and so does the failure.",
    ),
    "engine": ("The query failed", _LOOK_UP),
    "internal": ("Something failed here", _LOOK_UP),
    "form": ("This form is out of date", "Nothing was done. Go back, reload the page, and try again."),
}


def problem_of(raised: BaseException) -> PageProblem:
    """Return a failure for a page; if it might quote data, only its id."""
    failure = describe(raised)
    code, rule = failure.code, CODES.get(failure.code.removeprefix("query."), "")
    title, advice = (
        _WORDS.get("busy" if code == "internal.busy" else code)
        or _WORDS.get(code.split(".")[0])
        or ("This did not work", "Nothing was charged.")
    )
    message = "" if code == "auth" else failure.message
    # In the console people sign in by a form, not by a token.
    headers = tuple((name.decode(), text.decode()) for name, text in failure.headers if name != b"www-authenticate")
    proposal = None
    if isinstance(raised, Refusal):
        message, proposal = raised.sentence, raised.proposal
    return PageProblem(title, message, advice, rule, code, failure.status, failure.id, headers, proposal)


Words = ParamSpec("Words")
Result = TypeVar("Result")

_MOST_HEAD_GAUGES: Final = 2
_DOOR: Final = "tacit_door"
SESSION: Final = "tacit_session"
ENTRY: Final = "tacit_entry"
_ENTRY_SECONDS: Final = 600


class PageContext:
    """State shared by all page requests: settings, templates and static files."""

    def __init__(self, settings: Settings, project: str) -> None:
        self.settings = settings
        self.statics = Statics()
        self.pages = Environment(
            loader=PackageLoader("tacit.server.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.pages.globals |= {"static": self.statics.address, "project": project}
        self.pages.filters |= {"when": when, "charge": record_charge, "count_of": with_noun}
        self.pages.tests["spent"] = is_spent


class ConsoleContext(PageContext):
    """State of the console of a server: its service and people as well."""

    def __init__(
        self,
        service: CuratorService,
        people: People,
        settings: Settings,
        providers: Mapping[str, OpenIDProvider] | None = None,
    ) -> None:
        super().__init__(settings, service.curator.name)
        self.service = service
        self.people = people
        self.providers = providers or {}

    def cookie(self, name: str) -> str:
        """Return the name of a cookie; with TLS it has the ``__Host-`` prefix, which binds it to this host."""
        return f"__Host-{name}" if self.settings.secure else name


Context = TypeVar("Context", bound=PageContext)


class Visit(ABC, Generic[Context]):
    """A request for a page; ``form`` holds the fields of a form that passed the check against forgery."""

    def __init__(self, shared: Context, request: Request) -> None:
        self.shared = shared
        self.request = request
        self.access: Access | None = None
        self.form: Mapping[str, str] = {}

    @abstractmethod
    async def identify(self) -> None:
        """Determine who sends the request."""

    @property
    def csrf(self) -> str:
        """Text that a form must carry to be accepted."""
        return "" if self.access is None else self.access.csrf

    def typed(self, name: str) -> str:
        """Return a field of the form, without surrounding spaces."""
        return self.form.get(name, "").strip()

    async def stranger(self) -> Response:
        """Return the page for someone who is not signed in."""
        raise Unauthenticated

    @abstractmethod
    async def head(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return the context for the head of a page."""

    def problem(self, raised: Exception) -> PageProblem:
        """Return a failure as a page shows it."""
        return problem_of(raised)

    @abstractmethod
    async def failed(self, problem: PageProblem, *, kept: str = "") -> Response:
        """Return a page about a failure, with a link to continue."""

    async def page(self, template: str, status: int = 200, **context: Any) -> Response:
        """Render a complete page; a ``problem`` in its context adds its headers."""
        context |= await self.head(context)
        return self.html(self.render(template, **context), status, context.get("problem"))

    def render(self, template: str, **context: Any) -> str:
        """Render a template with its context, escaped."""
        return self.shared.pages.get_template(template).render(context)

    def html(self, text: str, status: int = 200, problem: object = None) -> Response:
        """Return a response with the headers of every page."""
        more = dict(problem.headers) if isinstance(problem, PageProblem) else {}
        return HTMLResponse(text, status, headers={**HEADERS, **more})

    def redirect(self, address: str) -> Response:
        return RedirectResponse(address, 303, headers=dict(HEADERS))


class PageRequest(Visit[ConsoleContext]):
    """A request to the console of a server, with or without a signed-in user.

    ``door`` is the token that forms carry before sign-in.
    """

    def __init__(self, shared: ConsoleContext, request: Request) -> None:
        super().__init__(shared, request)
        self.door = ""
        self.service = shared.service
        self.people = shared.people
        self.runtime: WorkerRuntime = request.app.state.runtime
        self.address = request.client.host if request.client else ""
        #: Whether a script requests parts of a page.
        self.partly = request.headers.get("tacit-part") == "1"

    async def identify(self) -> None:
        """Identify the user by the session in the cookie."""
        text = self.cookie(SESSION)
        self.access = await self.run(self.people.session, text) if text else None
        self.door = self.cookie(_DOOR) or new_door()
        if self.access is not None:
            self.runtime.rates["reads"].take(self.name)

    @property
    def csrf(self) -> str:
        """Token of the session; before sign-in, the token in the cookie."""
        return self.cookie(_DOOR) if self.access is None else self.access.csrf

    async def stranger(self) -> Response:
        """Send a browser without a session to the sign-in page."""
        request = self.request
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.headers.get("sec-fetch-site") == "cross-site" and not self.cookie(SESSION):
            # After a link from another site, browsers omit the strict cookie; they send it when this page reloads.
            return await self.page(
                "onward.html", here=here, words="You came from another site, so this page asks once more by itself."
            )
        return self.redirect(f"/console/sign-in?next={quote(here, safe='')}")

    @property
    def user(self) -> Access:
        """Signed-in user.

        Raises:
            Unauthenticated: the request has no live session.
        """
        if self.access is None:
            raise Unauthenticated
        return self.access

    @property
    def name(self) -> str:
        return self.user.person.name

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """Run blocking work in a thread."""
        return await self.runtime.run(work, *args, **words)

    async def budgets(self) -> tuple[Budget, ...]:
        """Return the budgets of all populations that the user may see."""
        return await self.run(self.service.budget, self.user)

    def head_gauges(self, budgets: tuple[Budget, ...]) -> list[Gauge]:
        """Return the gauges in the head of every page: for each population, its tightest limit."""
        found = [tightest(gauges(each, analyst=self.name)) for each in budgets]
        known = sorted((gauge for gauge in found if gauge), key=lambda gauge: -gauge.used)
        return known[:_MOST_HEAD_GAUGES]

    async def head(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user, the budgets and the navigation, as context for the head."""
        if self.access is None:
            return {"person": None, "csrf": self.door, "nav": []}
        budgets = context.get("budgets") or await self._known_budgets()
        return {
            "person": self.access.person,
            "csrf": self.access.csrf,
            "head_gauges": self.head_gauges(budgets),
            "nav": self._nav(budgets),
        }

    async def parts(
        self, status: int = 200, problem: PageProblem | None = None, /, *, stopped: bool = False, **named: str
    ) -> Response:
        """Render parts of a page for the script, each with the id of its element."""
        state = "stopped" if stopped else ""
        text = "".join(f'<div data-into="{place}" data-state="{state}">{html}</div>' for place, html in named.items())
        return self.html(text, status, problem)

    async def failed(self, problem: PageProblem, *, kept: str = "") -> Response:
        """Return a page about a failure, with a link to continue; for a script, only that part of the page."""
        if self.partly:
            if self.request.url.path.endswith("/ask"):
                notice = {"result": self.render("part_result.html", problem=problem, sheet=None)}
            else:
                notice = {"trouble": self.render("part_trouble.html", quote_problem=problem)}
            return await self.parts(problem.status, problem, stopped=True, **notice)
        way = ("/console/sign-in", "Sign in") if self.access is None else ("/console/", "Back to the start")
        context = {"problem": problem, "kept": kept, "way_out": way[0], "way_words": way[1]}
        return await self.page("error.html", problem.status, **context)

    def file(self, content: str | bytes, name: str, kind: str = "application/json") -> Response:
        """Return a file to download, with its name and media type."""
        disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=kind, headers={**HEADERS, **disposition})

    def cookie(self, name: str) -> str:
        """Return the text of a cookie; empty if there is none."""
        return self.request.cookies.get(self.shared.cookie(name), "")

    def set_cookie(self, response: Response, name: str, text: str) -> None:
        """Set a cookie; an empty text deletes it."""
        # The cookie of a sign-in in progress has to be sent along with a provider's redirect.
        is_entry = name == ENTRY
        response.set_cookie(
            self.shared.cookie(name), text, max_age=0 if not text else _ENTRY_SECONDS if is_entry else None, path="/",
            secure=self.shared.settings.secure, httponly=True, samesite="lax" if is_entry else "strict",
        )  # fmt: skip

    def keep_session(self, response: Response, opened: Opened) -> None:
        """Set the cookie of a new session."""
        self.set_cookie(response, SESSION, opened.text)
        self.set_cookie(response, _DOOR, "")

    async def _known_budgets(self) -> tuple[Budget, ...]:
        """Return the budgets for a page's head; none if the ledger has stopped, so that a page can still report it."""
        try:
            return await self.budgets()
        except TacitError:
            return ()

    def _nav(self, budgets: tuple[Budget, ...]) -> list[dict[str, Any]]:
        """Return the navigation entries that the user may see; on paths of the query form, Ask is the current entry."""
        may = self.user.has
        asks, owns = may(TokenScope.ASK), may(TokenScope.ADMIN)
        spent = sum(is_spent(each.balances[0]) for each in budgets)
        pages = (
            ("Ask", "ask", asks),
            ("Datasets", "datasets", True),
            ("History", "history", True),
            ("Budget", "budget", True),
            ("Releases", "releases", True),
            ("The promise", "guarantee", True),
            ("People", "people", owns),
            ("Ledger", "ledger", owns or may(TokenScope.AUDIT)),
        )
        here = self.request.url.path.removeprefix("/console/").partition("/")[0]
        here = "ask" if here == "quote" else here
        return [
            {
                "name": name,
                "address": f"/console/{page}",
                "here": page == here,
                "count": spent if page == "ledger" else 0,
            }
            for name, page, shown in pages
            if shown
        ]

    def html(self, text: str, status: int = 200, problem: object = None) -> Response:
        """Return a response; before sign-in, with the token of its forms in a cookie."""
        response = super().html(text, status, problem)
        if self.access is None and self.door and self.door != self.cookie(_DOOR):
            self.set_cookie(response, _DOOR, self.door)
        return response


Visited = TypeVar("Visited", bound=Visit[Any])
Handler = Callable[[PageRequest], Awaitable[Response]]


def endpoint(
    visit_of: Callable[[Request], Visited],
    handler: Callable[[Visited], Awaitable[Response]],
    *,
    needs: tuple[TokenScope, ...] | None,
) -> Any:
    """Wrap a handler for Starlette.

    The user needs one of the scopes in ``needs``; an empty tuple allows any signed-in user, None allows everyone.
    """

    async def visited(request: Request) -> Response:
        visit = visit_of(request)
        try:
            await visit.identify()
            if request.method == "POST":
                settings = visit.shared.settings
                form = read_form(request, await body_of(request, settings.max_form, settings.body_seconds))
                if needs is not None and visit.access is None:
                    # The session has ended; the typed query stays on the page.
                    return await visit.failed(problem_of(Unauthenticated()), kept=form.get("sql", ""))
                token = request.headers.get("x-csrf-token") or form.get("csrf", "")
                if not (from_here(request) and same(token, visit.csrf)):
                    return await visit.failed(_OUT_OF_DATE)
                visit.form = form
            if needs is not None and visit.access is None:
                return await visit.stranger()
            if needs and not any(visit.access.has(scope) for scope in needs if visit.access):
                # A page that the user's role may not see is reported as unknown.
                raise Unknown("page") if request.method == "GET" else AccessError("this is not for your role")
            return await handler(visit)
        except ClientDisconnect:
            raise
        except Exception as raised:
            return await visit.failed(visit.problem(raised))

    return visited


_OUT_OF_DATE: Final = PageProblem(
    "This form is out of date",
    "It did not come from a page of this console that is still open to you.",
    "Nothing was done. Reload the page and try again.",
    code="form",
    status=403,
)
