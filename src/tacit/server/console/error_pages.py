"""Error pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tacit.query.refusal import CODES, Proposal, Refusal
from tacit.server.api.errors import describe
from tacit.server.console.editor import place_of


@dataclass(frozen=True)
class PageProblem:
    """A heading, what happened, what to do, the rule or id to quote, and headers for the page that says so.

    ``proposal`` is a query that is accepted, and ``span`` the part of the text that the problem is about.
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
    span: tuple[int, int] | None = None


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
        "Nothing was charged. A smaller price may still fit, and every question that was answered before stays free.",
    ),
    "accounting": ("No guarantee can be computed for this", "Nothing was charged. Ask for less, or in another form."),
    "access": ("Your role does not allow this", "Nothing was done."),
    "auth": ("Your session has ended", "Nothing was charged. Sign in again to go on."),
    "rate": ("Too many requests", "Nothing was charged. Wait a moment and try again."),
    "provider": ("Sign-in does not work now", "Try again later, or ask an owner for a one-time link."),
    "busy": ("The server is busy", "Nothing was charged. Try again in a moment."),
    "internal.busy": ("The server is busy", "Nothing was charged. Try again in a moment."),
    "internal.ledger": (
        "The ledger has stopped",
        "No question is answered until the owner of the data has looked at it. What was released before stays valid.",
    ),
    "engine.failed": (
        "The question failed",
        "The owner of the data can look up the reason by its number. The charge stays, and so does the failure.",
    ),
    "engine": (
        "The question failed",
        "The owner of the data can look up the reason by its number. The same question is never charged twice.",
    ),
    "internal": (
        "Something failed here",
        "The owner of the data can look up the reason by its number. The same question is never charged twice.",
    ),
    "form": ("This form is out of date", "Nothing was done. Go back, reload the page, and try again."),
}


def problem_of(raised: BaseException, sql: str = "") -> PageProblem:
    """A failure for a page, of a question if there is one; of one whose words might quote data, an id."""
    failure = describe(raised)
    code, rule = failure.code, CODES.get(failure.code.removeprefix("query."), "")
    title, advice = _words(code)
    message = "" if code == "auth" else failure.message
    # The console lets people in by a form, not by a token.
    headers = tuple((name.decode(), text.decode()) for name, text in failure.headers if name != b"www-authenticate")
    proposal, span = None, None
    if isinstance(raised, Refusal):
        message, proposal, span = raised.sentence, raised.proposal, place_of(raised, sql)
    return PageProblem(title, message, advice, rule, code, failure.status, failure.id, headers, proposal, span)


def _words(code: str) -> tuple[str, str]:
    kind = code.split(".")[0]
    return _WORDS.get(code) or _WORDS.get(kind) or ("This did not work", "Nothing was charged.")
