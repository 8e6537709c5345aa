"""Storage of surveys: their descriptions, the reports that arrived, and the sums of those that were added up.

A report is randomised before it leaves its sender's device, so nothing here is protected data; but no address and no
name is stored beside it. Reports arrive in batches under a key, so that a batch may be sent again and counts once.
A batch is written whole before it is acknowledged, and later added to the sums in one transaction; then its bytes are
dropped, and a digest is kept for a week, so that a late repeat is still recognised.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

from tacit.core.errors import AccessError, InputError
from tacit.ledger import ConflictError
from tacit.local import Aggregator, LocalProtocol, protocol_from
from tacit.server.identity.context import IdentityContext, from_stamp, line
from tacit.server.identity.credentials import new_id
from tacit.server.identity.tables import PeopleTables, schema_of

CREATED: Final = "survey created"
CLOSED: Final = "survey closed"
_NAME: Final = 60
_QUESTION: Final = 500
#: Numbers that the sums of a survey may take, so that a request works with little memory.
_MOST_COUNTS: Final = 1 << 20
_MOST_DESCRIPTION: Final = 100_000
_WEEK: Final = 7 * 24 * 3600_000
#: Batches that are added up at once.
_AT_ONCE: Final = 1000
_LOCK: Final = 0x73757276
#: Words in braces differ between databases.
_MIGRATIONS: Final = (
    (
        """
        CREATE TABLE people_surveys (
            name {text} PRIMARY KEY,
            question {text} NOT NULL,
            description {text} NOT NULL,
            created {integer} NOT NULL,
            closed {integer},
            sums {bytes} NOT NULL
        ) {end}
        """,
        """
        CREATE TABLE people_survey_batches (
            survey {text} NOT NULL,
            name {text} NOT NULL,
            mark {text} NOT NULL,
            received {integer} NOT NULL,
            reports {bytes},
            PRIMARY KEY (survey, name)
        ) {end}
        """,
    ),
)
_schema = partial(schema_of, "the tables of surveys have", "people_survey_version", _MIGRATIONS, _LOCK)
_COLUMNS: Final = "SELECT name, question, description, created, closed FROM people_surveys "


@dataclass(frozen=True)
class SurveyRecord:
    """A survey as it was created; reports are taken until ``closed``, which is None while it is open."""

    name: str
    question: str
    protocol: LocalProtocol
    created: datetime
    closed: datetime | None

    @property
    def open(self) -> bool:
        """Whether reports are taken."""
        return self.closed is None


@dataclass(frozen=True)
class Collected:
    """Number of reports in a batch, and whether it had arrived before; then it was not counted again."""

    accepted: int
    repeated: bool


class Surveys:
    """Creates surveys, takes reports and adds them up; for any number of threads and processes."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    @property
    def _tables(self) -> PeopleTables:
        """The database, with the tables of surveys, which are made when they are first needed."""
        return self._context.tables.prepared(_schema)

    def create(self, name: str, protocol: LocalProtocol, *, question: str = "", operator: str) -> SurveyRecord:
        """Begin a survey; it stands in the ledger's chain with its promise.

        Raises:
            InputError: the name is taken, or cannot be one; or the protocol needs too many numbers.
        """
        if not name or not all(
            sign.isascii() and (sign.isalnum() or sign in "-_") for sign in line(name, "name", _NAME)
        ):
            raise InputError("name", "must be letters, digits, - and _ without accents")
        text, asked = json.dumps(protocol.spec(), sort_keys=True), line(question, "question", _QUESTION)
        if protocol.size > _MOST_COUNTS or len(text) > _MOST_DESCRIPTION:
            raise InputError(
                "categories", f"need {protocol.size:,} sums; a survey on a server has at most {_MOST_COUNTS:,}"
            )
        if self.find(name) is not None:
            raise InputError("name", f"there is a survey {name!r} already; choose another name")
        self._context.ledger.note(CREATED, {"survey": name, "promise": text, "operator": operator})
        with self._tables.write() as run:
            made = run(
                "INSERT INTO people_surveys (name, question, description, created, closed, sums) "
                "VALUES (?, ?, ?, ?, NULL, ?) ON CONFLICT (name) DO NOTHING RETURNING name",
                (name, asked, text, self._context.now(), Aggregator(protocol).to_bytes()),
            )
        found = self.find(name)
        if not made or found is None:
            raise InputError("name", f"there is a survey {name!r} already; choose another name")
        return found

    def close(self, name: str, *, operator: str) -> SurveyRecord:
        """Take no more reports."""
        self.one(name)
        self._context.ledger.note(CLOSED, {"survey": name, "operator": operator})
        with self._tables.write() as run:
            run("UPDATE people_surveys SET closed = ? WHERE name = ? AND closed IS NULL", (self._context.now(), name))
        return self.one(name)

    def find(self, name: object) -> SurveyRecord | None:
        """A survey; None for an unknown name."""
        if not isinstance(name, str) or not name.isascii() or len(name) > _NAME or "\0" in name:
            return None
        rows = self._tables.read(_COLUMNS + "WHERE name = ?", (name,))
        return _record(rows[0]) if rows else None

    def one(self, name: object) -> SurveyRecord:
        """A survey that exists.

        Raises:
            InputError: it does not.
        """
        found = self.find(name)
        if found is None:
            raise InputError("survey", "there is none of this name")
        return found

    def all(self) -> tuple[SurveyRecord, ...]:
        """All surveys, the oldest first."""
        return tuple(map(_record, self._tables.read(_COLUMNS + "ORDER BY created, name")))

    def total(self) -> Fraction:
        """The ε of a person who sends one report to every open survey."""
        return sum((each.protocol.epsilon for each in self.all() if each.open), Fraction(0))

    def collect(self, survey: SurveyRecord, reports: bytes, key: str = "") -> Collected:
        """Keep a batch of reports, durably; it is counted once, however often it is sent under its key.

        Args:
            survey: which.
            reports: a version and any number of payloads.
            key: a name for the batch; without one every call is another batch.

        Raises:
            AccessError: the survey is closed.
            InputError: some report is not one of its protocol; none was kept.
            ConflictError: the key stands for other reports.
        """
        if not survey.open:
            raise AccessError("this survey is closed; nothing was kept")
        # Sums that are thrown away: reports are checked before they are kept.
        number = Aggregator(survey.protocol).add(reports)
        if not number:
            raise InputError("reports", "hold none")
        mark = hashlib.sha256(reports).hexdigest()
        name = hashlib.sha256(key.encode()).hexdigest() if key else new_id()
        with self._tables.write() as run:
            kept = run(
                "INSERT INTO people_survey_batches (survey, name, mark, received, reports) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (survey, name) DO NOTHING RETURNING name",
                (survey.name, name, mark, self._context.now(), reports),
            )
            earlier = "SELECT mark FROM people_survey_batches WHERE survey = ? AND name = ?"
            known = [] if kept else run(earlier, (survey.name, name))
        if known and known[0][0] != mark:
            raise ConflictError("Idempotency-Key", "was used for other reports; these were not kept")
        # One batch in 256 has them all added up, so that none has to wait for many.
        if kept and mark.startswith("00"):
            self.sums(survey)
        return Collected(number, not kept)

    def sums(self, survey: SurveyRecord) -> Aggregator:
        """All reports that were kept, added up."""
        while True:
            with self._tables.write() as run:
                # The update locks the row, so that one process at a time adds up.
                raw = run("UPDATE people_surveys SET name = name WHERE name = ? RETURNING sums", (survey.name,))
                found = Aggregator.from_bytes(bytes(raw[0][0]))
                rows = run(
                    "SELECT name, reports FROM people_survey_batches WHERE survey = ? AND reports IS NOT NULL LIMIT ?",
                    (survey.name, _AT_ONCE),
                )
                for _, reports in rows:
                    found.add(bytes(reports))
                if rows:
                    run("UPDATE people_surveys SET sums = ? WHERE name = ?", (found.to_bytes(), survey.name))
                    for name, _ in rows:
                        run(
                            "UPDATE people_survey_batches SET reports = NULL WHERE survey = ? AND name = ?",
                            (survey.name, name),
                        )
                run(
                    "DELETE FROM people_survey_batches WHERE survey = ? AND reports IS NULL AND received < ?",
                    (survey.name, self._context.now() - _WEEK),
                )
            if len(rows) < _AT_ONCE:
                return found


def _record(row: tuple[Any, ...]) -> SurveyRecord:
    name, question, text, created, closed = row
    return SurveyRecord(
        name, question, _protocol(text), from_stamp(created), None if closed is None else from_stamp(closed)
    )


@lru_cache(maxsize=256)
def _protocol(text: str) -> LocalProtocol:
    """A protocol by its description; equal descriptions share one, which never changes."""
    return protocol_from(json.loads(text))
