"""Entries by operators that change what holds, for auditors.

=========  =====================================================================
adopted    a ledger was taken although its anchor was missing or disagreed
lost       everything that was left of an account was counted as spent
caps       an account got other caps
renewal    a new version of the data, or period, began, with caps inside those of the account
key        another key signs receipts
=========  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tacit.ledger.journal import entries_of
from tacit.ledger.messages import amounts_words, terms_words
from tacit.ledger.protocol import Reader

_KINDS: Final = frozenset({"adopted", "lost", "caps", "key", "renewal"})


@dataclass(frozen=True, slots=True)
class Override:
    """One decision.

    Args:
        seq: place of its entry.
        time: for people.
        kind: as in the table above.
        population: whose account; empty where it is about all of them.
        operator: who decided.
        reason: why.
        words: what was done.
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
    """The decision that an entry is, if it is one; ``before`` are the terms that its account had."""
    if body["kind"] not in _KINDS:
        return None
    words = _WORDS[body["kind"]](body, before)
    population, operator, reason = (str(body.get(name, "")) for name in ("population", "operator", "reason"))
    return Override(seq, str(body.get("time", "")), str(body["kind"]), population, operator, reason, words)


class Overrides:
    """The decisions in a ledger, read once; a later look reads only what was added."""

    def __init__(self) -> None:
        self._found: list[Override] = []
        self._terms: dict[str, Mapping[str, Any]] = {}
        self._last = 0

    def of(self, reader: Reader) -> tuple[Override, ...]:
        """All of them, in order."""
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


def _adopted(body: Mapping[str, Any], _: Mapping[str, Any] | None) -> str:
    known, seq = body.get("remembered"), (body.get("found") or [0])[0]
    if not known:
        return (
            f"the ledger was taken at entry {seq} without an anchor, so nothing showed whether it was the newest copy"
        )
    if "problem" in known:
        return f"the ledger was taken at entry {seq} although its anchor could not be read"
    return (
        f"the ledger was taken at entry {seq} although its anchor remembered entry {known['seq']} of ledger "
        f"{str(known['ledger'])[:16]}"
    )


def _lost(body: Mapping[str, Any], _: Mapping[str, Any] | None) -> str:
    left = amounts_words(body["amounts"])
    return f"what was left of {body['population']} ({left}) was counted as spent, because entries are missing"


def _caps(body: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    was = "" if before is None else f" from {terms_words(before)}"
    return f"the caps of {body['population']} were changed{was} to {terms_words(body['terms'])}"


def _key(body: Mapping[str, Any], _: Mapping[str, Any] | None) -> str:
    lost = "" if body.get("signature") else " without the signature of the old one, which was lost"
    return f"the key that signs receipts was replaced{lost}"


def _renewal(body: Mapping[str, Any], _: Mapping[str, Any] | None) -> str:
    caps = amounts_words({currency: cap for currency, cap in body["caps"].items() if cap is not None})
    return f"version {body['period']} of {body['population']} began, which may spend {caps} within the caps that stay"


_WORDS: Final = {"adopted": _adopted, "lost": _lost, "caps": _caps, "key": _key, "renewal": _renewal}
