"""Verification of a ledger from its entries alone, and the decisions of operators among them.

Recomputed: every hash of the chain; every cost, from the event written down; every sum, and that it was
within its cap when it grew; which name stands for which entry; that a commit belongs to one reservation and a
reservation has one commit at most; the digest of every outcome's bytes. One pass; one byte of memory per entry.

Kinds of entries that record decisions of operators, for auditors:

=========  =====================================================================
adopted    the ledger was accepted although its anchor was missing or disagreed
lost       the whole remaining budget of an account was counted as spent
caps       the caps of an account were changed
renewal    a new version of the data, or period, began, with caps within those of the account
key        another key signs receipts
=========  =====================================================================
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.accounting.filters import Filter
from tacit.core.errors import TacitError
from tacit.core.events import event_from_json
from tacit.ledger.entries import amounts_of, amounts_text, conversation_owner, event_text, parse, period_owner
from tacit.ledger.errors import StorageError
from tacit.ledger.journal import entries_of
from tacit.ledger.protection import ProtectionAudit
from tacit.ledger.protocol import (
    GENESIS,
    BalanceChange,
    BalanceKey,
    BalanceState,
    Head,
    Name,
    Reader,
    Stored,
    digest,
    from_grains,
    link,
)
from tacit.ledger.records import (
    FAILED_DIGEST,
    Outcome,
    Reservation,
    VerificationReport,
    describe_amounts,
    describe_owner,
    describe_terms,
    filter_from_terms,
    price,
)
from tacit.ledger.signing_keys import is_signed, succession_text
from tacit.noise import entropy

_KINDS: Final = frozenset({"adopted", "lost", "caps", "key", "renewal"})


@dataclass(frozen=True, slots=True)
class Override:
    """One decision of an operator.

    Args:
        seq: number of its entry.
        time: time of the entry, for people to read.
        kind: as in the table above.
        population: the population of the account; empty where it concerns all accounts.
        operator: the operator who decided.
        reason: the operator's reason.
        words: a sentence about what was done.
    """

    seq: int
    time: str
    kind: str
    population: str
    operator: str
    reason: str
    words: str

    def __str__(self) -> str:
        who = f" by {self.operator}" if self.operator else ""
        why = f": {self.reason}" if self.reason else ""
        return f"entry {self.seq}, {self.time}{who}: {self.words}{why}"


def override_of(seq: int, body: Mapping[str, Any], before: Mapping[str, Any] | None) -> Override | None:
    """Return the decision that an entry records, or None; ``before`` are the earlier terms of its account."""
    if body["kind"] not in _KINDS:
        return None
    population, operator, reason = (str(body.get(name, "")) for name in ("population", "operator", "reason"))
    return Override(
        seq, str(body.get("time", "")), str(body["kind"]), population, operator, reason, _words(body, before)
    )


class Overrides:
    """The decisions of operators in a ledger; entries that were read once are not read again."""

    def __init__(self) -> None:
        self._found: list[Override] = []
        self._terms: dict[str, Mapping[str, Any]] = {}
        self._last = 0

    def of(self, reader: Reader) -> tuple[Override, ...]:
        """Return all decisions, in order."""
        for entry, body in entries_of(reader, {*_KINDS, "account"}, after=self._last):
            self._last = entry.seq
            if body is None:
                continue
            found = override_of(entry.seq, body, self._terms.get(body.get("population", "")))
            if "terms" in body:
                self._terms[body["population"]] = body["terms"]
            if found is not None:
                self._found.append(found)
        return tuple(self._found)


def _words(body: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """Return a sentence about what an operator's entry did."""
    match body["kind"]:
        case "adopted":
            known, taken = body.get("remembered"), f"the ledger was taken at entry {(body.get('found') or [0])[0]}"
            if not known:
                return f"{taken} without an anchor, so nothing showed whether it was the newest copy"
            if "problem" in known:
                return f"{taken} although its anchor could not be read"
            return f"{taken} although its anchor remembered entry {known['seq']} of ledger {str(known['ledger'])[:16]}"
        case "lost":
            left = describe_amounts(body["amounts"])
            return f"what was left of {body['population']} ({left}) was counted as spent, because entries are missing"
        case "caps":
            was = "" if before is None else f" from {describe_terms(before)}"
            return f"the caps of {body['population']} were changed{was} to {describe_terms(body['terms'])}"
        case "key":
            lost = "" if body.get("signature") else " without the signature of the old one, which was lost"
            return f"the key that signs receipts was replaced{lost}"
        case _:
            caps = describe_amounts({currency: cap for currency, cap in body["caps"].items() if cap is not None})
            begun = f"version {body['period']} of {body['population']} began"
            return f"{begun}, which may spend {caps} within the caps that stay"


Progress = Callable[[int, int], None]

_EVERY: Final = 5000
_MOST_PROBLEMS: Final = 20
_RECENT: Final = 64
#: Maximal number of distinct charges whose costs are cached.
_MOST_PRICED: Final = 1 << 14
_RESERVED, _COMMITTED = 1, 2
#: Errors that reading a malformed entry raises.
_NONSENSE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TacitError)


def verify(
    reader: Reader,
    *,
    progress: Progress | None = None,
    check_outcome: Callable[[Outcome], str | None] | None = None,
) -> VerificationReport:
    """Verify a whole ledger; the report lists the problems."""
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


def quick_check(reader: Reader, what: str = "the ledger") -> None:
    """Check the newest entries, every balance, and that these two agree: a cheap check for every opening.

    Raises:
        StorageError: something is wrong; the message says what.
    """
    try:
        states = {state.key: state for state in reader.balances()}
        recent: dict[BalanceKey, int] = {}
        expected = reader.head()
        for entry, _ in zip(reader.entries_down(), range(_RECENT), strict=False):
            if entry.head != expected or link(entry.previous, entry.body) != entry.hash:
                raise ValueError(f"entry {entry.seq} does not fit the chain")
            expected = Head(entry.seq - 1, entry.previous)
            for move in parse(entry.body)[1].get("moves", ()):
                recent[move.key] = recent.get(move.key, 0) + move.amount
        for key, amount in recent.items():
            if key not in states or states[key].spent < amount:
                raise ValueError(f"{_whose(key)} holds less than the newest entries charged to it")
    except _NONSENSE as problem:
        raise StorageError(f"{what} is damaged: {problem}") from problem


class _Audit:
    def __init__(self, reader: Reader, check_outcome: Callable[[Outcome], str | None] | None) -> None:
        self._reader = reader
        self._check_outcome = check_outcome
        self._last: Head | Stored = GENESIS
        self._ledger = ""
        self._keys: list[str] = [""]
        self._problems: list[str] = []
        self._missed = 0
        self._states = bytearray(1)
        self._charges = self._outcomes = self._failures = 0
        self._limits: dict[str, Filter] = {}
        self._stated: dict[str, Mapping[str, Any]] = {}
        self._overrides: list[Override] = []
        self._priced: dict[tuple[Any, ...], str] = {}
        self._spent: dict[BalanceKey, int] = {}
        self._caps: dict[BalanceKey, int | None] = {}
        self._moving: dict[Name, int] = {}
        self._protection = ProtectionAudit()
        self._taken = 0
        self._secret = f"{entropy.current().bits(128):032x}"

    def read(self, entry: Stored) -> None:
        """Check and apply one more entry."""
        self._states.append(0)
        if entry.seq != self._last.seq + 1:
            self.problem(f"entry {entry.seq} follows entry {self._last.seq}")
            self._states.extend(bytes(max(entry.seq - len(self._states) + 1, 0)))
        if link(self._last.hash, entry.body) != entry.hash:
            self.problem(f"entry {entry.seq} does not fit the chain")
        self._last = entry
        try:
            self._apply(entry, *parse(entry.body))
        except _NONSENSE as problem:
            self.problem(f"entry {entry.seq} cannot be understood: {problem}")

    def finish(self) -> None:
        """Compare the recomputed sums and names with the stored ones."""
        kept = {state.key: state for state in self._reader.balances()}
        for key in sorted(kept.keys() | self._spent.keys()):
            owed = BalanceState(key, self._spent.get(key, 0), self._caps.get(key))
            if kept.get(key) != owed:
                self.problem(f"{_whose(key)}: {_holds(kept.get(key))}, and the entries say {_holds(owed)}")
        weight = self._weight
        due = self._taken + sum(weight(space, key, seq) for (space, key), seq in self._moving.items())
        if due != sum(weight(space, key, seq) for (space, key), seq in self._reader.names()):
            self.problem("the index of names does not fit the entries")
        if self._reader.head() != self._head:
            known, found = self._reader.head(), self._head
            self.problem(
                f"it says that it ends at entry {known.seq} ({known.hash[:16]}…), and it ends at entry "
                f"{found.seq} ({found.hash[:16]}…)"
            )

    @property
    def _head(self) -> Head:
        return Head(self._last.seq, self._last.hash)

    def report(self) -> VerificationReport:
        problems = self._problems
        if self._missed:
            problems = [*problems, f"and {self._missed} more"]
        counts = self._head.seq, self._head, self._charges, self._outcomes
        decisions = tuple(self._protection.changes), tuple(self._overrides)
        return VerificationReport(self._ledger, *counts, tuple(problems), *decisions, self._failures)

    def problem(self, words: str) -> None:
        """Record a problem; beyond the first ones, only their number."""
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(words)
        else:
            self._missed += 1

    def _apply(self, entry: Stored, body: Mapping[str, Any], effects: Mapping[str, Any]) -> None:
        seq, kind = entry.seq, body["kind"]
        # Nearly all entries are charges and outcomes.
        if kind == "reserve":
            self._charges += 1
            self._states[seq] = _RESERVED
            if wrong := self._price_problem(body):
                self.problem(f"entry {seq} {wrong}")
            if wrong := self._share_problem(body):
                self.problem(f"entry {seq} {wrong}")
        elif kind == "commit":
            self._commit(entry, body["of"], body["papers"], body.get("key", ""))
        else:
            self._decide(seq, kind, body)
        if seq == 1 and kind != "opened":
            self.problem("the first entry does not open the ledger")
        for name in effects.get("bars", ()):
            if name in self._moving:
                self.problem(f"entry {seq} was made although {name.key} had been revoked")
        for space, key in effects.get("claims", ()):
            self._taken += self._weight(space, key, seq)
        for name in effects.get("puts", ()):
            self._moving[name] = seq
        for name in effects.get("drops", ()):
            self._moving.pop(name, None)
        for cap in effects.get("caps", ()):
            self._caps[cap.key] = cap.cap
            self._spent.setdefault(cap.key, 0)
        self._move(seq, effects.get("moves", ()))

    def _decide(self, seq: int, kind: str, body: Mapping[str, Any]) -> None:
        """Check and apply an entry that is neither a charge nor an outcome."""
        known = self._stated.get(body.get("population", ""))
        if (found := override_of(seq, body, known)) is not None:
            self._overrides.append(found)
        match kind:
            case "opened":
                self._ledger = body["ledger"]
                self._keys = [body["public_key"]]
                if seq != 1:
                    self.problem(f"entry {seq} opens the ledger a second time")
            case "account" | "caps":
                self._terms(seq, body)
            case "repeat" if not self._state(body["of"]):
                self.problem(f"entry {seq} repeats entry {body['of']}, which charges nothing")
            case "run" if not self._state(body["of"]):
                self.problem(f"entry {seq} runs entry {body['of']} again, which charges nothing")
            case "key":
                self._succeed(seq, body)
            case "unit" | "column" | "declared":
                charged = any(spent for key, spent in self._spent.items() if key.account == body["population"])
                wrong = self._protection.read(seq, body, self._limits, charged=charged)
                if wrong:
                    self.problem(f"entry {seq} {wrong}")

    def _move(self, seq: int, moves: Sequence[BalanceChange]) -> None:
        for key, amount, opens in moves:
            spent = self._spent.get(key, 0) + amount
            limit = self._caps.get(key)
            if (limit is not None and spent > limit) or (limit is None and not opens):
                self.problem(f"entry {seq} exceeds the cap of {_whose(key)}")
            self._spent[key] = spent

    def _terms(self, seq: int, body: Mapping[str, Any]) -> None:
        limit, known = filter_from_terms(body["terms"]), self._limits.get(body["population"])
        if (known is None) != (body["kind"] == "account"):
            self.problem(f"entry {seq} is about an account that {'does not exist' if known is None else 'exists'}")
        elif known is not None and _rule(known) != _rule(limit):
            self.problem(f"entry {seq} changes the rule of an account")
        self._limits[body["population"]] = limit
        self._stated[body["population"]] = body["terms"]
        self._priced.clear()

    def _price_problem(self, body: Mapping[str, Any]) -> str:
        """Return how the amounts of a charge differ from the cost of its event, as text; empty if they do not.

        The costs of equal events in one account are computed once, until the terms of an account change.
        """
        # The event is canonical, so equal events have equal bytes here, in a third of the time of their text.
        key = body["population"], marshal.dumps(body["event"], 2), tuple(body["amounts"].items())
        known = self._priced.get(key)
        if known is None:
            event = event_from_json(event_text(body["event"]))
            costs = amounts_text(price(self._limits[body["population"]], event).amounts)
            known = "" if body["amounts"] == costs else f"charges {body['amounts']}, and its event costs {costs}"
            if len(self._priced) >= _MOST_PRICED:
                self._priced.clear()
            self._priced[key] = known
        return known

    def _share_problem(self, body: Mapping[str, Any]) -> str:
        """Return a problem where a charge names a conversation or version whose share was not fixed before.

        Without a fixed share the charge would open a balance without a cap.
        """
        period, conversation = body.get("period", ""), body.get("conversation", "")
        if period and not self._has_caps(body, period_owner(period)):
            return f"is of the version {period}, which was never begun"
        if not conversation:
            return ""
        owner = conversation_owner(body["analyst"], conversation)
        return "" if self._has_caps(body, owner) else f"is of the conversation {conversation}, which has no share"

    def _has_caps(self, body: Mapping[str, Any], owner: str) -> bool:
        return any(BalanceKey(body["population"], owner, currency) in self._caps for currency in body["amounts"])

    def _succeed(self, seq: int, body: Mapping[str, Any]) -> None:
        """Check an entry that replaces the key: both keys must have signed it, except for a lost old key."""
        previous, key = body["previous"], body["public_key"]
        text = succession_text(self._ledger, previous, key)
        if previous != self._keys[-1]:
            self.problem(f"entry {seq} replaces the key {previous}, and the one in force is {self._keys[-1]}")
        elif body["signature"] and not is_signed(text, body["signature"], previous):
            self.problem(f"entry {seq} replaces the key, and the signature of the old one does not hold")
        elif body["signature"] and "key_check" in body:
            self.problem(f"entry {seq} changes the other secrets although the key was not lost")
        if not is_signed(text, body["accepted"], key):
            self.problem(f"entry {seq} replaces the key, and the signature of the new one does not hold")
        if key in self._keys:
            self.problem(f"entry {seq} brings back a key that was used before")
        self._keys.append(key)

    def _commit(self, entry: Stored, of: int, digests: Mapping[str, str], key: str) -> None:
        self._outcomes += 1
        self._failures += digests["result"] == FAILED_DIGEST
        if key and key != self._keys[-1]:
            self.problem(f"entry {entry.seq} was signed with the key {key}, and the one in force is {self._keys[-1]}")
        if self._state(of) != _RESERVED:
            self.problem(f"entry {entry.seq} commits entry {of}, which is not a charge that waits for an outcome")
            return
        self._states[of] = _COMMITTED
        contents = {name: self._reader.attachment(entry.seq, name) for name in digests}
        wrong = [name for name, kept in contents.items() if kept is None or digest(kept) != digests[name]]
        if wrong:
            self.problem(f"the {' and '.join(wrong)} kept with entry {entry.seq} does not fit its digest")
        elif self._check_outcome is not None:
            # A commit that names no key was signed with the first one.
            self._ask(of, entry.seq, digests, contents, key or self._keys[0])

    def _ask(
        self, of: int, seq: int, digests: Mapping[str, str], contents: Mapping[str, bytes | None], key: str
    ) -> None:
        charge = self._reader.entry(of)
        if charge is None or self._check_outcome is None:
            return
        body = json.loads(charge.body)
        reservation = Reservation(of, charge.hash, charge.previous, body["population"], amounts_of(body))
        result, receipt = contents["result"] or b"", contents["receipt"] or b""
        words = self._check_outcome(Outcome(reservation, seq, digests["result"], result, receipt, key=key))
        if words is not None:
            self.problem(f"the receipt kept with entry {seq}: {words}")

    def _weight(self, space: str, key: str, seq: int) -> int:
        """Return a keyed hash of a name and its entry, for a checksum that is a sum.

        The names are too many to keep and to sort. Sums over equal sets are equal; those over different sets agree with
        probability 2⁻⁶⁴. The key is drawn for every verification, so nobody can prepare a set with the same sum.
        """
        return hash(f"{self._secret}{seq} {space} {key}")

    def _state(self, seq: int) -> int:
        return self._states[seq] if 0 < seq < len(self._states) else 0


def _whose(key: BalanceKey) -> str:
    """Return text such as ``epsilon of patients`` or ``epsilon of patients for analyst alice``."""
    whose = f" for {describe_owner(key.owner)}" if key.owner else ""
    return f"{key.currency} of {key.account}{whose}"


def _holds(state: BalanceState | None) -> str:
    if state is None:
        return "nothing is kept"
    # Exactly: numbers that differ in the last digit must not look the same.
    cap = "no cap" if state.cap is None else f"a cap of {from_grains(state.cap)}"
    return f"{from_grains(state.spent)} is spent, with {cap}"


def _rule(limit: Filter) -> tuple[object, ...]:
    return type(limit), limit.relation, tuple(line.currency for line in limit.lines)
