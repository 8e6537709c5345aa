"""Pages of history, receipts, budget, promise and ledger."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

from starlette.responses import Response

from tacit.accounting.currencies import currency_of
from tacit.core.errors import TacitError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import float_nearest, with_noun
from tacit.core.relations import ADD_REMOVE
from tacit.ledger import LedgerError, Record
from tacit.ledger.entries import plain_name
from tacit.releases.accounts import Budget
from tacit.releases.receipt import outcome_problem
from tacit.server.console.amounts import Promise, as_pair, charge_text, down, gauges, promise, symbol, up, when
from tacit.server.console.charts import draw_stairs
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import Unknown
from tacit.server.identity import Access, Job, TokenScope
from tacit.server.identity.credentials import new_id

#: Pages of history that a burn-down looks at.
_PAGES: Final = 4


async def show_history(visit: PageRequest) -> Response:
    """Charges, newest first."""
    before = _position(visit.request.query_params.get("before", ""))
    everyone, undelivered = _sees_all(visit.user), visit.request.query_params.get("undelivered", "") == "1"
    found = await visit.run(
        visit.service.history, visit.user, before=before, everyone=everyone, undelivered=undelivered
    )
    return await visit.page(
        "history.html",
        undelivered=undelivered,
        everyone=everyone,
        can_ask=visit.user.has(TokenScope.ASK),
        entries=[_entry(record, visit.name) for record in found.records],
        older=found.next,
    )


async def receipt(visit: PageRequest) -> Response:
    """A receipt to keep: ``tacit receipt verify`` and :func:`tacit.verify_receipt` read it unchanged."""
    position = visit.request.path_params["position"]
    found = await visit.run(visit.service.receipt, visit.user, position)
    return visit.file(found.to_json() + "\n", f"receipt-{position}.json")


async def show_budget(visit: PageRequest) -> Response:
    """Show the remaining budgets and their history."""
    budgets = await visit.budgets()
    everyone = _sees_all(visit.user)
    accounts = [await visit.run(_account, visit, budget, everyone=everyone) for budget in budgets]
    decided = await visit.run(_decided, visit, budgets) if everyone else []
    return await visit.page("budget.html", accounts=accounts, budgets=budgets, decided=decided)


def _decided(visit: PageRequest, budgets: Iterable[Budget]) -> list[dict[str, Any]]:
    """Decisions of operators about the accounts that the person sees, newest first; for a thread."""
    seen = {"", *(plain_name(budget.population, "population") for budget in budgets)}
    return [
        {"position": each.seq, "time": when(each.time), "who": each.operator, "words": each.words, "why": each.reason}
        for each in reversed(visit.service.curator.ledger.overrides())
        if each.population in seen
    ]


async def show_guarantee(visit: PageRequest) -> Response:
    """Show the meaning of the budgets for a person in the data."""
    budgets = await visit.budgets()
    populations = [_population(budget) for budget in budgets]
    return await visit.page("guarantee.html", populations=populations, budgets=budgets)


def _sees_all(access: Access) -> bool:
    return access.has(TokenScope.AUDIT) or access.has(TokenScope.ADMIN)


def _position(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Unknown("page")
    return int(text)


def _entry(record: Record, name: str) -> dict[str, Any]:
    amounts = dict(
        sorted(((each.currency, each.amount) for each in record.amounts), key=lambda item: item[0] == "delta")
    )
    return {
        "position": record.seq,
        "time": when(record.time),
        "analyst": record.analyst,
        "population": record.population,
        "sql": record.sql,
        "charge": charge_text(amounts, record.typed) or "nothing",
        "released": record.answered,
        "failed": record.failed,
        "undelivered": record.undelivered,
        "mine": record.analyst == name,
    }


def _account(visit: PageRequest, budget: Budget, *, everyone: bool) -> dict[str, Any]:
    main = budget.lines[0]
    spent, letter = Fraction(main.spent), symbol(main.currency)
    whose = "charge" if everyone else "charge of yours"
    words = f"What was left of {letter} {down(main.cap)} after each {whose}; {letter} {down(main.left)} is left now."
    return {
        "population": budget.population,
        "gauges": gauges(budget, analyst=visit.name),
        "full": any(line.left == 0 and line.cap for line in budget.lines),
        "guarantee": _terms(budget.guarantee),
        "notes": budget.notes,
        "chart": _burn_down(visit, budget, words) if spent else None,
        "chart_words": words,
    }


def _burn_down(visit: PageRequest, budget: Budget, words: str) -> dict[str, Any]:
    """The budget as it went down: the ledger, newest first, added up backwards from the present; for a thread."""
    main = budget.lines[0]
    everyone = _sees_all(visit.user)
    charges = [
        next((each.amount for each in record.amounts if each.currency == main.currency), Fraction(0))
        for record in _newest(visit, everyone=everyone)
        if record.population == budget.population
    ]
    # Amounts that others spent stand before the first step: their times are not for this person to see.
    start = Fraction(main.spent) - sum(charges)
    spent = accumulate(reversed(charges), initial=start)
    steps = tuple(map(float_nearest, spent))
    return draw_stairs(steps, float_nearest(main.cap), symbol(main.currency), words)


def _newest(visit: PageRequest, *, everyone: bool) -> Iterable[Record]:
    before = None
    for _ in range(_PAGES):
        page = visit.service.history(visit.user, before=before, everyone=everyone)
        yield from page.records
        before = page.next
        if before is None:
            return


def _population(budget: Budget) -> dict[str, Any]:
    epsilon, delta = as_pair(budget.guarantee)
    whole, now = promise(epsilon, delta), promise(*as_pair(_spent(budget)))
    so_far = "Nothing has been spent yet, so nothing has been revealed about any person."
    if now.epsilon != "0":
        so_far = f"From what has been answered so far, a guess of 50% can have moved {_from_even(now)}."
    told = {"name": budget.population, "whole": whole, "so_far": so_far, "terms": _terms(budget.guarantee)}
    if budget.guarantee.relation is not ADD_REMOVE:
        return told | {
            "guess": "An attacker knows that you are in the data, and has a guess about what it says of you.",
            "other": "",
            "neighbours": "differ in what they say of one person",
        }
    # Two versions of a person who is there are two steps apart: one leaves, the other comes.
    twice = promise(2 * epsilon, delta)
    return told | {
        "guess": "An attacker has a guess whether you are in the data at all.",
        "other": "An attacker who knows that you are in it, and has a guess about what it says of you, compares two "
        f"different versions of you. That guess can move further: from 50% {_from_even(twice)}.",
        "neighbours": "differ in that one of them lacks a person",
    }


def _from_even(found: Promise) -> str:
    even = next(each for each in found.beliefs if each.before == "50%")
    return f"to at most {even.most}, and to no less than {even.least}"


def _spent(budget: Budget) -> Guarantee:
    """Guarantee spent so far, in the kind of promise that the account makes."""
    spent = {line.currency: Fraction(line.spent) for line in budget.lines}
    so_far: Guarantee = currency_of(budget.guarantee).from_amounts(spent)
    return so_far


def _terms(guarantee: Guarantee) -> str:
    currency = currency_of(guarantee)
    numbers = currency.numbers_of(guarantee)
    if not currency.relaxed:
        stated = " and ".join(f"{symbol(name)} = {down(number)}" for name, number in numbers.items())
        return f"The account keeps {stated} for everything together."
    name, number = next(iter(numbers.items()))
    epsilon, delta = as_pair(guarantee)
    return (
        f"The account keeps {symbol(name)} = {down(number)} of {currency.concept} for everything together, "
        f"which is ε = {up(epsilon)} at δ = {up(delta)}."
    )


_VERIFICATION: Final = "verification"
_STOPPED: Final = {
    "title": "The ledger has stopped",
    "words": (
        "It cannot be trusted or written: a storage failure, an entry that does not fit, or an old copy put in its "
        "place. No query is answered. The operator's log says what was found; after looking, restart the server "
        "or take the ledger over with “tacit ledger adopt”."
    ),
}


@dataclass(frozen=True)
class LedgerCheck:
    """A verification: under way, or what it found."""

    running: bool = False
    done: int = 0
    total: int = 0
    when: str = ""
    by: str = ""
    entries: int = 0
    charges: int = 0
    outcomes: int = 0
    problems: tuple[str, ...] = ()

    @property
    def report(self) -> bool:
        """Whether there is anything to report."""
        return bool(self.when) and not self.running

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def size(self) -> str:
        """Extent of the ledger, in words."""
        entries = with_noun(self.entries, "entry", "entries")
        return f"{entries}, {with_noun(self.charges, 'charge')}, {with_noun(self.outcomes, 'answer')}"

    @property
    def progress(self) -> str:
        """Progress of the check; numbers of entries are public."""
        return f"{self.done:,} of {self.total:,} entries" if self.total else "beginning"


class LedgerWatch:
    """The pages of the ledger, and the one verification that may be under way in this process.

    The result of a verification is also kept under its id where every worker finds it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = LedgerCheck()
        self._id = ""

    async def show(self, visit: PageRequest) -> Response:
        """State, alerts, verification."""
        check = await visit.run(self._check, visit)
        alerts, ledger = await visit.run(_state, visit, check)
        return await visit.page("ledger.html", alerts=alerts, check=check, ledger=ledger)

    async def verify(self, visit: PageRequest) -> Response:
        """Begin a verification, unless one is under way."""
        with self._lock:
            if not self._last.running:
                self._last = LedgerCheck(running=True, by=visit.name)
                self._id = new_id()
                # A thread of its own: it may take minutes, and no request waits for it.
                work = threading.Thread(target=self._run, args=(visit, self._id), name="tacit-verify", daemon=True)
                work.start()
        return visit.redirect(f"/console/ledger?check={self._id}")

    def _run(self, visit: PageRequest, id: str) -> None:  # noqa: A002
        by, ledger = visit.name, visit.service.curator.ledger

        def advance(done: int, total: int) -> None:
            self._last = replace(self._last, done=done, total=total)

        def receipt(outcome: Any) -> str | None:
            return outcome_problem(outcome, ledger=ledger.id, public_key=outcome.key) if outcome.receipt else None

        try:
            report = ledger.verify(progress=advance, check_outcome=receipt)
            found = LedgerCheck(
                entries=report.entries, charges=report.charges, outcomes=report.outcomes, problems=report.problems
            )
        except TacitError as problem:
            found = LedgerCheck(problems=(f"it could not be verified: {problem}",))
        now = datetime.now(UTC)
        self._last = replace(found, when=f"{now:%Y-%m-%d %H:%M} UTC", by=by)
        text = json.dumps(asdict(self._last))
        # Where it cannot be kept only this process knows; the ledger has other worries.
        with suppress(TacitError):
            visit.people.jobs.put(Job(id, by, _VERIFICATION, now, state="done", outcome=text, finished=now))

    def _check(self, visit: PageRequest) -> LedgerCheck:
        """The verification that the address names, wherever it ran; else the last one here."""
        id = visit.request.query_params.get("check", "")  # noqa: A001
        if not id or id == self._id:
            return self._last
        job = visit.people.jobs.find(id, visit.name)
        if job is None or job.request != _VERIFICATION:
            return LedgerCheck(running=True)
        told = json.loads(job.outcome)
        return LedgerCheck(**{**told, "problems": tuple(told["problems"])})


def _state(visit: PageRequest, check: LedgerCheck) -> tuple[list[dict[str, str]], dict[str, Any]]:
    ledger = visit.service.curator.ledger
    try:
        head = ledger.head
        alerts = alerts_of(visit)
        known = {"seq": f"{head.seq:,}", "hash": head.hash, "key": ledger.public_key}
    except LedgerError:
        # It says nothing any more, not even which key it signs with.
        alerts = [_STOPPED]
        known = {"seq": "?", "hash": "", "key": "?"}
    if check.report and not check.ok:
        alerts.insert(0, {"title": "The ledger is not whole", "words": "See below. No query is answered any more."})
    return alerts, {"id": ledger.id, **known}


def alerts_of(visit: PageRequest) -> list[dict[str, str]]:
    """Budgets and shares that are used up. For a thread."""
    ledger = visit.service.curator.ledger
    owner = visit.user.has(TokenScope.ADMIN)
    found = []
    for budget in visit.service.budget(visit.user):
        population = budget.population
        if any(line.left == 0 and line.cap for line in budget.lines):
            words = f"No fresh query about {population} can be answered any more. Repeats stay free."
            found.append({"title": f"The budget of {population} is spent", "words": words})
        for person in visit.people.everyone():
            balance = ledger.budget(population, analyst=person.name).balances[1]
            if balance.limited and person.active and any(line.left == 0 for line in balance.lines if line.cap):
                words = "They can repeat what was answered, and ask nothing new."
                more = " Give them more on their page, if you want to." if owner else ""
                found.append({"title": f"{person.name} has used up their share of {population}", "words": words + more})
    return found
