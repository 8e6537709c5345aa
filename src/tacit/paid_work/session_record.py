"""Record of a session in the ledger: its terms, hard answers and its end; public, so that any process can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.core.errors import InternalError
from tacit.ledger import Ledger, Reservation
from tacit.ledger.history import charge_at, hash_at
from tacit.receipts.release_format import canonical

#: Parts of quotes in the ledger: of the charge that opens a session, and of that of each of its parts.
SESSION: Final = "session"
PART: Final = "session part"
#: Note that ends a session.
_CLOSED: Final = "query session closed"
_FORMAT: Final = "tacit-session-part"
#: Result of a part that was ended before a query was hard.
ENDED: Final = canonical({"format": _FORMAT, "version": 1, "answer": None})


@dataclass(frozen=True)
class SessionTerms:
    """Terms of a session, as the ledger keeps them.

    Args:
        source: a table or a SELECT of rows.
        columns: whose combinations of values are the cells.
        epsilon: price of each part.
        threshold: error that is let pass.
        cells: digest of the rows, the columns and their values.
        conversation: to whose share all charges are counted; empty for none.
    """

    source: str
    columns: tuple[str, ...]
    epsilon: Fraction
    threshold: int
    cells: str
    conversation: str = ""

    def plain(self) -> dict[str, Any]:
        """The terms as JSON."""
        return {**vars(self), "columns": list(self.columns), "epsilon": str(self.epsilon)}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> SessionTerms:
        """The terms that :meth:`plain` wrote."""
        return cls(**{**plain, "columns": tuple(plain["columns"]), "epsilon": Fraction(plain["epsilon"])})


@dataclass(frozen=True)
class HardAnswer:
    """A query that data had to answer, and its noisy answer.

    Args:
        position: of the charge of its part.
        places: of the chosen values of every column.
        answer: with noise.
        key: names the request, so that it may be sent again; empty for none.
    """

    position: int
    places: tuple[tuple[int, ...], ...]
    answer: int
    key: str = ""


def hard_text(answer: HardAnswer) -> str:
    """The result of a part that a hard query has ended."""
    places = [list(each) for each in answer.places]
    content = {"format": _FORMAT, "version": 1, "answer": str(answer.answer), "places": places, "key": answer.key}
    return canonical(content)


class SessionRecord:
    """The public state of a session, read from the ledger as it grows.

    Args:
        ledger: that holds it.
        position: of the charge that opened the session.
    """

    def __init__(self, ledger: Ledger, position: int) -> None:
        self._ledger = ledger
        self.position = position
        self.parts: list[int] = []
        self.hard: list[HardAnswer] = []
        self.closed = False
        self._ended: set[int] = set()
        self._read = position

    def catch_up(self) -> list[HardAnswer]:
        """Read the entries since the last look; the hard answers among them, in the order of the ledger."""
        new = []
        for entry, body in self._ledger.journal.bodies(newest_first=True):
            if entry.seq <= self._read:
                break
            new.append((entry.seq, body))
        found = []
        for seq, body in reversed(new):
            self._read = seq
            if body["kind"] == "reserve" and body["quote"].get(PART) == self.position:
                self.parts.append(seq)
            elif body["kind"] == "commit" and body["of"] in self.parts:
                self._ended.add(body["of"])
                found += self._answer(body["of"])
            elif body["kind"] == "note" and body["note"] == _CLOSED and body["fields"].get(SESSION) == self.position:
                self.closed = True
        self.hard += found
        return found

    def close(self) -> list[Reservation]:
        """Write down that the session has ended; the charges of parts that have no outcome yet, of any process."""
        self.catch_up()
        if not self.closed:
            self._ledger.note(_CLOSED, {SESSION: self.position})
            self.catch_up()
        return [self._reservation(seq) for seq in self.parts if seq not in self._ended]

    def _answer(self, position: int) -> list[HardAnswer]:
        outcome = self._ledger.outcome(position)
        if outcome is None or outcome.failed:
            return []
        content = json.loads(outcome.result)
        if content.get("format") != _FORMAT or content.get("version") != 1:
            raise InternalError("the ledger holds something else than a part of a session")
        if content["answer"] is None:
            return []
        places = tuple(tuple(each) for each in content["places"])
        return [HardAnswer(position, places, int(content["answer"]), content["key"])]

    def _reservation(self, position: int) -> Reservation:
        charged = charge_at(self._ledger, position)
        if charged is None:
            raise InternalError(f"entry {position} is no charge")
        record = charged.record
        previous = hash_at(self._ledger, position - 1) or ""
        return Reservation(record.seq, record.hash, previous, record.population, record.amounts)
