"""Ledger page for owners and auditors."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from tacit.core.errors import TacitError
from tacit.core.numbers import with_noun
from tacit.ledger import LedgerError
from tacit.releases.receipt import outcome_problem
from tacit.server.console.page_request import PageRequest
from tacit.server.identity import Job, TokenScope
from tacit.server.identity.context import new_id

_VERIFICATION: Final = "verification"
_STOPPED: Final = {
    "title": "The ledger has stopped",
    "words": (
        "It cannot be trusted or written: a storage failure, an entry that does not fit, or an old copy put in its "
        "place. No question is answered. The operator's log says what was found; after looking, restart the server "
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
        alerts.insert(0, {"title": "The ledger is not whole", "words": "See below. No question is answered any more."})
    return alerts, {"id": ledger.id, **known}


def alerts_of(visit: PageRequest) -> list[dict[str, str]]:
    """Budgets and shares that are used up. For a thread."""
    ledger = visit.service.curator.ledger
    owner = visit.user.has(TokenScope.ADMIN)
    found = []
    for budget in visit.service.budget(visit.user):
        population = budget.population
        if any(line.left == 0 and line.cap for line in budget.lines):
            words = f"No fresh question about {population} can be answered any more. Repeats stay free."
            found.append({"title": f"The budget of {population} is spent", "words": words})
        for person in visit.people.everyone():
            balance = ledger.budget(population, analyst=person.name).balances[1]
            if balance.limited and person.active and any(line.left == 0 for line in balance.lines if line.cap):
                words = "They can repeat what was answered, and ask nothing new."
                more = " Give them more on their page, if you want to." if owner else ""
                found.append({"title": f"{person.name} has used up their share of {population}", "words": words + more})
    return found
