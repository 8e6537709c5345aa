"""Recomputing a ledger from its entries alone, and comparing all that is kept beside them.

What is recomputed: every hash of the chain; every price, from the event written down; every sum, and that it was
within its cap when it grew; which name stands for which entry; that a commit belongs to one reservation and a
reservation has one commit at most; the digest of every outcome's bytes. One pass, and memory for a byte per entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from tacit.accounting.filters import Filter
from tacit.core.errors import TacitError
from tacit.core.events import event_from_json
from tacit.ledger.chain import digest, link
from tacit.ledger.entries import amounts_text, event_text, parse
from tacit.ledger.protocol import GENESIS, Head, Level, Name, Pocket, Reader, StorageError, Stored
from tacit.ledger.records import Amount, Outcome, Report, Reservation
from tacit.ledger.terms import filter_from_terms, price
from tacit.noise import entropy

__all__ = ["Progress", "amounts_of", "quick_check", "verify"]

Progress = Callable[[int, int], None]

_EVERY: Final = 5000
_MOST_PROBLEMS: Final = 20
#: Spaces whose names move from entry to entry; all others are taken once and for good.
_MOVING: Final = frozenset({"terms", "analyst", "revoked"})
_RECENT: Final = 64
_RESERVED, _COMMITTED = 1, 2


def verify(
    reader: Reader,
    *,
    progress: Progress | None = None,
    check_outcome: Callable[[Outcome], str | None] | None = None,
) -> Report:
    """Check everything that a snapshot holds; the report lists what is wrong."""
    audit = _Audit(reader, check_outcome)
    try:
        total = reader.head().seq
        for entry in reader.entries():
            audit.read(entry)
            if progress is not None and entry.seq % _EVERY == 0:
                progress(entry.seq, total)
        audit.finish()
        if progress is not None:
            progress(total, total)
    except StorageError as problem:
        audit.problem(f"it cannot be read to the end: {problem}")
    return audit.report()


def quick_check(reader: Reader) -> None:
    """What can be checked at every opening: the newest entries, every pocket's row, and the one against the other.

    Raises:
        ValueError: something is wrong, in words.
    """
    levels = {level.pocket: level for level in reader.levels()}
    recent: dict[Pocket, int] = {}
    expected = reader.head()
    for entry, _ in zip(reader.entries_down(), range(_RECENT), strict=False):
        if entry.head != expected or link(entry.previous, entry.body) != entry.hash:
            raise ValueError(f"entry {entry.seq} does not fit the chain")
        expected = Head(entry.seq - 1, entry.previous)
        for move in parse(entry.body)[1].get("moves", ()):
            recent[move.pocket] = recent.get(move.pocket, 0) + move.amount
    for pocket, amount in recent.items():
        if pocket not in levels or levels[pocket].spent < amount:
            raise ValueError(f"the pocket {'/'.join(pocket)} holds less than the newest entries charged to it")


def amounts_of(body: Mapping[str, Any]) -> tuple[Amount, ...]:
    """What an entry charged, without the currencies it left alone."""
    stated = ((currency, Fraction(text)) for currency, text in body["amounts"].items())
    return tuple(Amount(currency, amount) for currency, amount in stated if amount)


class _Audit:
    def __init__(self, reader: Reader, check_outcome: Callable[[Outcome], str | None] | None) -> None:
        self._reader = reader
        self._check_outcome = check_outcome
        self._head = GENESIS
        self._ledger = ""
        self._problems: list[str] = []
        self._missed = 0
        self._states = bytearray(1)
        self._charges = self._outcomes = 0
        self._limits: dict[str, Filter] = {}
        self._prices: dict[tuple[str, str], dict[str, str]] = {}
        self._spent: dict[Pocket, int] = {}
        self._caps: dict[Pocket, int | None] = {}
        self._moving: dict[Name, int] = {}
        self._taken = 0
        self._secret = f"{entropy.current().bits(128):032x}"

    def read(self, entry: Stored) -> None:
        """One more entry."""
        self._states.append(0)
        if entry.seq != self._head.seq + 1:
            self.problem(f"entry {entry.seq} follows entry {self._head.seq}")
            self._states.extend(bytes(max(entry.seq - len(self._states) + 1, 0)))
        if link(self._head.hash, entry.body) != entry.hash:
            self.problem(f"entry {entry.seq} does not fit the chain")
        self._head = entry.head
        try:
            self._apply(entry, *parse(entry.body))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TacitError) as problem:
            self.problem(f"entry {entry.seq} cannot be understood: {problem}")

    def finish(self) -> None:
        """Compare the sums and the names with what is kept."""
        kept = {level.pocket: level for level in self._reader.levels()}
        for pocket in sorted(kept.keys() | self._spent.keys()):
            owed = Level(pocket, self._spent.get(pocket, 0), self._caps.get(pocket))
            if kept.get(pocket) != owed:
                self.problem(f"the pocket {'/'.join(pocket)} holds {kept.get(pocket)} and the entries say {owed}")
        due = self._taken + sum(self._weight(name, seq) for name, seq in self._moving.items())
        if due != sum(self._weight(name, seq) for name, seq in self._reader.names()):
            self.problem("the index of names does not fit the entries")
        if self._reader.head() != self._head:
            self.problem(f"the head is {self._reader.head()} and the entries end at {self._head}")

    def report(self) -> Report:
        """What was found."""
        problems = self._problems
        if self._missed:
            problems = [*problems, f"and {self._missed} more"]
        return Report(self._ledger, self._head.seq, self._head, self._charges, self._outcomes, tuple(problems))

    def problem(self, words: str) -> None:
        """Note one, and only count what is too much to read."""
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(words)
        else:
            self._missed += 1

    def _apply(self, entry: Stored, body: Mapping[str, Any], effects: Mapping[str, Any]) -> None:
        match body["kind"]:
            case "opened":
                self._ledger = body["ledger"]
                if entry.seq != 1:
                    self.problem(f"entry {entry.seq} opens the ledger a second time")
            case "account" | "caps":
                self._terms(entry.seq, body)
            case "reserve":
                self._reserve(entry.seq, body)
            case "repeat":
                if not self._state(body["of"]):
                    self.problem(f"entry {entry.seq} repeats entry {body['of']}, which charges nothing")
            case "commit":
                self._commit(entry, body)
        if entry.seq == 1 and body["kind"] != "opened":
            self.problem("the first entry does not open the ledger")
        for name in effects.get("bars", ()):
            if name in self._moving:
                self.problem(f"entry {entry.seq} was made although {name.key} had been revoked")
        for name in effects.get("claims", ()):
            self._taken += self._weight(name, entry.seq)
        for name in effects.get("puts", ()):
            self._moving[name] = entry.seq
        for name in effects.get("drops", ()):
            self._moving.pop(name, None)
        for cap in effects.get("caps", ()):
            self._caps[cap.pocket] = cap.cap
            self._spent.setdefault(cap.pocket, 0)
        for move in effects.get("moves", ()):
            spent = self._spent.get(move.pocket, 0) + move.amount
            limit = self._caps.get(move.pocket)
            if (limit is not None and spent > limit) or (limit is None and not move.opens):
                self.problem(f"entry {entry.seq} exceeds the cap of {'/'.join(move.pocket)}")
            self._spent[move.pocket] = spent

    def _terms(self, seq: int, body: Mapping[str, Any]) -> None:
        limit, known = filter_from_terms(body["terms"]), self._limits.get(body["population"])
        if (known is None) != (body["kind"] == "account"):
            self.problem(f"entry {seq} is about an account that {'does not exist' if known is None else 'exists'}")
        elif known is not None and _rule(known) != _rule(limit):
            self.problem(f"entry {seq} changes the rule of an account")
        self._limits[body["population"]] = limit

    def _reserve(self, seq: int, body: Mapping[str, Any]) -> None:
        self._charges += 1
        self._states[seq] = _RESERVED
        # The text was canonical, so equal events have been read in the same order.
        key = body["population"], repr(body["event"])
        if key not in self._prices:
            priced = price(self._limits[body["population"]], event_from_json(event_text(body["event"])))
            self._prices[key] = amounts_text(priced.amounts)
        if body["amounts"] != self._prices[key]:
            self.problem(f"entry {seq} charges {body['amounts']}, and its event costs {self._prices[key]}")

    def _commit(self, entry: Stored, body: Mapping[str, Any]) -> None:
        self._outcomes += 1
        of = body["of"]
        if self._state(of) != _RESERVED:
            self.problem(f"entry {entry.seq} commits entry {of}, which is not a charge that waits for an outcome")
            return
        self._states[of] = _COMMITTED
        papers = {name: self._reader.paper(entry.seq, name) for name in body["papers"]}
        wrong = [name for name, paper in papers.items() if paper is None or digest(paper) != body["papers"][name]]
        if wrong:
            self.problem(f"the {' and '.join(wrong)} kept with entry {entry.seq} does not fit its digest")
        elif self._check_outcome is not None:
            self._ask(of, entry.seq, body, papers)

    def _ask(self, of: int, seq: int, body: Mapping[str, Any], papers: Mapping[str, bytes | None]) -> None:
        charge = self._reader.entry(of)
        if charge is None or self._check_outcome is None:
            return
        told = json.loads(charge.body)
        reservation = Reservation(of, charge.hash, charge.previous, told["population"], amounts_of(told))
        result, receipt = papers["result"] or b"", papers["receipt"] or b""
        words = self._check_outcome(Outcome(reservation, seq, body["papers"]["result"], result, receipt))
        if words is not None:
            self.problem(f"the receipt kept with entry {seq}: {words}")

    def _weight(self, name: Name, seq: int) -> int:
        """Sums of these agree for the same names and, but for a chance of 2⁻⁶⁴, for no others.

        The names are too many to keep and to sort; a hash with a key that is fresh for every verification lets nobody
        prepare a set with the same sum.
        """
        return hash(f"{self._secret}{seq} {name.space} {name.key}")

    def _state(self, seq: int) -> int:
        return self._states[seq] if 0 < seq < len(self._states) else 0


def _rule(limit: Filter) -> tuple[object, ...]:
    return type(limit), limit.relation, tuple(line.currency for line in limit.lines)
