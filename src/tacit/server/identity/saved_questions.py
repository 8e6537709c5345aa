"""Storage of saved questions: a title, a text and options; private, or shared with those who may see its populations.

A saved question is text that a person typed, never an answer, and nothing is charged or decided by it: the ledger does
not know of it. Its tables stand beside those of the people in the same database. A question that a person may not see
is found by the same statement, and is told in the same way, as one that never was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.ledger.entries import plain_name
from tacit.server.identity.context import IdentityContext, from_stamp, line, storable
from tacit.server.identity.credentials import new_id
from tacit.server.identity.models import Person
from tacit.server.identity.tables import PeopleTables, schema_of

_TITLE: Final = 120
_TEXT: Final = 20_000
_OPTIONS: Final = 4_000
#: Questions that one person may keep.
_MOST: Final = 200
_MOST_SHOWN: Final = 1_000
_LOCK: Final = 0x71756573
#: Words in braces differ between databases.
_TABLES: Final = (
    """
    CREATE TABLE people_questions (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        title {text} NOT NULL,
        sql {text} NOT NULL,
        options {text} NOT NULL,
        populations {text} NOT NULL,
        shared {integer} NOT NULL,
        saved {integer} NOT NULL
    ) {end}
    """,
    "CREATE INDEX people_questions_of ON people_questions (name, saved)",
)
_schema = partial(schema_of, "the saved questions have", "people_question_version", _TABLES, _LOCK)
_COLUMNS: Final = "SELECT id, name, title, sql, options, populations, shared, saved FROM people_questions "


@dataclass(frozen=True)
class SavedQuestion:
    """A question that a person keeps.

    Attributes:
        id: in its address; cannot be guessed.
        name: the person whose it is.
        options: fields of the form beside the text.
        populations: that it reads, as the ledger spells them.
        shared: whether others see it who may see all of those populations.
    """

    id: str
    name: str
    title: str
    sql: str
    options: Mapping[str, str]
    populations: frozenset[str]
    shared: bool
    saved: datetime

    def is_seen_by(self, person: Person) -> bool:
        """Whether a person sees it: their own, or a shared one about populations that they may see."""
        if self.name == person.name:
            return True
        return self.shared and (person.populations is None or self.populations <= person.populations)


class SavedQuestions:
    """Keeps questions; for any number of threads and processes."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    @property
    def _tables(self) -> PeopleTables:
        """The database, with the table of questions, which is made when it is first needed."""
        return self._context.tables.prepared(_schema)

    def save(
        self,
        person: Person,
        title: str,
        sql: str,
        options: Mapping[str, str],
        *,
        populations: Iterable[str],
        shared: bool,
    ) -> SavedQuestion:
        """Keep a question.

        Raises:
            InputError: something is missing or too long, or the person keeps too many already.
        """
        named = line(title, "title", _TITLE)
        if not named:
            raise InputError("title", "write a few words by which you will find it again")
        if not sql.strip():
            raise InputError("sql", "write a question")
        text = json.dumps(dict(options), ensure_ascii=False, sort_keys=True)
        if len(sql) > _TEXT or len(text) > _OPTIONS:
            raise InputError("sql", f"is too long to be kept; at most {_TEXT:,} characters are")
        seen = frozenset(plain_name(each, "population") for each in populations)
        now = self._context.now()
        made = SavedQuestion(new_id(), person.name, named, sql, dict(options), seen, shared, from_stamp(now))
        kept = storable(sql, "sql"), storable(text, "options"), json.dumps(sorted(seen))
        values = (made.id, made.name, named, *kept, int(shared), now)
        with self._tables.write() as run:
            # Enough to keep the database small; on PostgreSQL two at once may pass the limit by one.
            done = run(
                "INSERT INTO people_questions (id, name, title, sql, options, populations, shared, saved) "
                "SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE (SELECT COUNT(*) FROM people_questions WHERE name = ?) < ? "
                "RETURNING id",
                (*values, person.name, _MOST),
            )
        if not done:
            raise InputError("title", f"you keep {_MOST} questions already; delete one first")
        return made

    def seen(self, person: Person) -> tuple[SavedQuestion, ...]:
        """Questions that a person sees, newest first: their own, and shared ones about what they may see."""
        rows = self._tables.read(
            f"{_COLUMNS} WHERE name = ? OR shared = 1 ORDER BY saved DESC, id LIMIT ?", (person.name, _MOST_SHOWN)
        )
        found = (_question(row) for row in rows)
        return tuple(each for each in found if each.is_seen_by(person))

    def find(self, identity: str, person: Person) -> SavedQuestion | None:
        """A question that a person sees; None for one that is not there for them."""
        rows = self._tables.read(f"{_COLUMNS} WHERE id = ? AND (name = ? OR shared = 1)", (identity, person.name))
        found = _question(rows[0]) if rows else None
        return found if found is not None and found.is_seen_by(person) else None

    def share(self, identity: str, person: Person, populations: Iterable[str] | None) -> bool:
        """Share a question of one's own with those who may see these populations, or stop sharing it with None.

        Returns:
            Whether there is such a question of theirs.
        """
        seen = sorted(plain_name(each, "population") for each in populations or ())
        with self._tables.write() as run:
            done = run(
                "UPDATE people_questions SET shared = ?, populations = ? WHERE id = ? AND name = ? RETURNING id",
                (int(populations is not None), json.dumps(seen), identity, person.name),
            )
        return bool(done)

    def delete(self, identity: str, person: Person) -> bool:
        """Delete a question of one's own; returns whether there was one."""
        with self._tables.write() as run:
            done = run("DELETE FROM people_questions WHERE id = ? AND name = ? RETURNING id", (identity, person.name))
        return bool(done)


def _question(row: tuple[Any, ...]) -> SavedQuestion:
    identity, name, title, sql, options, populations, shared, saved = row
    return SavedQuestion(
        identity, name, title, sql, json.loads(options), frozenset(json.loads(populations)), bool(shared),
        from_stamp(saved),
    )  # fmt: skip
