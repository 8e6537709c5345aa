"""Releases that the ledger holds, found again for coarser questions that are sums of their cells.

Which release serves depends on the text of the question, on public metadata and on the ledger; no data is read. A
release is planned again from its own text, with the catalogue of the person who asks now: a table that does not exist
for them cannot be reached this way either. It is used only if its name (:func:`tacit.curator.answer.release_key`), made
anew, is the one that the ledger holds it under, which says that plan, noise, price and data version are those of now.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from tacit.core.errors import TacitError
from tacit.curator.planner import Planner
from tacit.curator.quote import Quote
from tacit.ledger import Ledger, Outcome
from tacit.ledger.entries import plain_name
from tacit.ledger.history import charge_at
from tacit.query.planning.coarser import coarser, errs_no_more
from tacit.query.planning.contribution_limits import scans
from tacit.query.planning.explain import explain
from tacit.query.planning.left_out import GROUPS, loss_table
from tacit.query.planning.plan import Plan
from tacit.query.postprocess.bounding_loss import bounding_losses
from tacit.query.request import Request
from tacit.receipts.receipt import Receipt, guesses, mechanisms_of
from tacit.receipts.release_format import released_from_text

__all__ = ["FreeRelease", "ReleasedPlans"]

#: Plans that are remembered; about as many as questions of one population that are looked at, for a few populations.
_MOST: Final = 256


@dataclass(frozen=True)
class FreeRelease:
    """A release whose cells add up to the answer of a coarser question.

    Args:
        position: of its charge in the ledger.
        plan: of the release, with the coarser question asked of its cells.
    """

    position: int
    plan: Plan

    @property
    def quote(self) -> Quote:
        """Quote: nothing is charged, and the errors are those of the sums."""
        said = explain(self.plan)
        words = f"nothing: sums of cells that were released before, under entry {self.position}"
        return Quote(self.plan, replace(said, charge=words, alone=None), free=True)


def _keeps_groups(plan: Plan, result: bytes) -> bool:
    """Whether no person is seen to have lost groups, by the release's own table of what was left out.

    A total of groups that people lost would be too low by more than its interval, where a fresh question of fewer
    groups would lose none.
    """
    table = loss_table(plan.final)
    if table is None or GROUPS not in table.causes:
        return True
    (loss,) = bounding_losses(released_from_text(result.decode(), plan), plan.confidence).parts
    return loss is not None and GROUPS not in loss.seen


class ReleasedPlans:
    """Plans of recent releases of one ledger; safe to use from several threads.

    Args:
        ledger: holds the releases.
        plans: plans their questions again.
    """

    def __init__(self, ledger: Ledger, plans: Planner) -> None:
        self._ledger, self._plans = ledger, plans
        self._recent = RecentCharges()
        self._known: dict[int, Plan | None] = {}
        self._lock = threading.Lock()

    def coarser(self, plan: Plan, key: Callable[[Plan], str], *, only: int | None = None) -> FreeRelease | None:
        """The newest release that holds the answer to a question and errs no more than its price would buy.

        Args:
            plan: of the question.
            key: names a release under the data of now.
            only: the place of the one charge to look at, whatever its errors; None for all recent ones.
        """
        population = plan.final.population
        for position, stored in self._stored(population, plan, only):
            asked = coarser(plan, stored)
            if asked is None or (only is None and not errs_no_more(plan, asked)):
                continue
            found = self._ledger.outcome_under(population, key(stored))
            if found is None or found.failed or found.reservation.seq != position:
                continue
            if only is not None or _keeps_groups(asked, found.result):
                return FreeRelease(position, asked)
        return None

    def _stored(self, population: str, plan: Plan, only: int | None) -> Iterator[tuple[int, Plan]]:
        tables = {scan.table.lower() for scan in scans(plan.final.source)}
        for position, sql in self._recent.of(self._ledger, population):
            text = sql.lower()
            if (only is not None and position != only) or "group" not in text or not all(t in text for t in tables):
                continue
            found = self._plan_at(position, sql)
            if found is not None:
                yield position, found

    def _plan_at(self, position: int, sql: str) -> Plan | None:
        """The plan that a charge was for, remembered once its run has an outcome."""
        with self._lock:
            if position in self._known:
                return self._known[position]
        outcome = self._ledger.outcome(position)
        if outcome is None:
            return None
        found = None if outcome.failed or not outcome.receipt else self._planned(position, sql, outcome)
        with self._lock:
            while len(self._known) >= _MOST:
                self._known.pop(next(iter(self._known)))
            self._known[position] = found
        return found

    def _planned(self, position: int, sql: str, outcome: Outcome) -> Plan | None:
        """The plan that a charge was for, as far as its price tells; None where that is another."""
        charged = charge_at(self._ledger, position)
        if charged is None:
            return None
        for words in guesses(Receipt.from_json(outcome.receipt)):
            try:
                plan = self._plans.of(sql, Request(**words)).plan
            except TacitError:
                continue
            if charged.quote.get("mechanisms") == mechanisms_of(plan):
                return plan
        return None


class RecentCharges:
    """Questions that were charged for lately, by population, newest first; a later look reads only what was added.

    Args:
        look: the most entries of a ledger that are looked at when it is opened.
        most: the most questions of one population that are remembered.
    """

    def __init__(self, look: int = 500, most: int = 16) -> None:
        self._look, self._most, self._last = look, most, 0
        self._found: dict[str, deque[tuple[int, str]]] = {}
        self._lock = threading.Lock()

    def of(self, ledger: Ledger, population: str) -> tuple[tuple[int, str], ...]:
        """Place and text of each."""
        with self._lock:
            new = []
            for entry, body in islice(ledger.journal.bodies(newest_first=True), self._look):
                if entry.seq <= self._last:
                    break
                new.append((entry.seq, body))
            for seq, body in reversed(new):
                self._last = seq
                if body["kind"] == "reserve" and body["sql"] and body["repeat"]:
                    known = self._found.setdefault(body["population"], deque(maxlen=self._most))
                    known.appendleft((seq, body["sql"]))
            return tuple(self._found.get(plain_name(population, "population"), ()))
