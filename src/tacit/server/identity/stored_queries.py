"""Stored queries: background jobs, and queries that people keep; private or shared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tacit.core.errors import InputError
from tacit.ledger.entries import plain_name
from tacit.server.identity.chain import Person, spelled
from tacit.server.identity.credentials import PeopleStore, from_stamp, line, new_id, stamp, storable

JobState = Literal["waiting", "running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """A query that is answered later, by whichever worker takes it.

    Args:
        id: as :func:`~tacit.server.identity.credentials.new_id` makes them.
        analyst: its owner, who alone finds it.
        request: the query, as :func:`tacit.server.api.request.job_text` writes it.
        outcome: the answer or the failure, in JSON.
        worker: the one that has it, until ``lease``; afterwards another may take it.
        tries: how many workers have taken it.
    """

    id: str
    analyst: str
    request: str
    created: datetime
    state: JobState = "waiting"
    outcome: str = field(default="", repr=False)
    worker: str = ""
    lease: datetime | None = None
    finished: datetime | None = None
    tries: int = 0


_JOB_COLUMNS: Final = (
    "SELECT id, analyst, request, created, state, outcome, worker, lease, finished, tries FROM people_jobs "
)
_PUT: Final = (
    "INSERT INTO people_jobs (id, analyst, request, created, state, outcome, worker, lease, finished, tries) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id"
)
_ID: Final = 64
#: Outcomes that are kept for one person. Repeats are free, so that without an end they would fill the ledger's disk.
_MOST_FINISHED: Final = 100
_OLD_JOBS: Final = (
    "DELETE FROM people_jobs WHERE analyst = ? AND finished IS NOT NULL AND id NOT IN (SELECT id FROM people_jobs "
    "WHERE analyst = ? AND finished IS NOT NULL ORDER BY finished DESC, created DESC, id LIMIT ?)"
)


class JobStore:
    """Stores jobs, hands them to workers, and keeps their outcomes."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    def put(self, job: Job) -> None:
        """Store a new job."""
        values = (
            line(job.id, "id", _ID), spelled(job.analyst, "analyst"), storable(job.request, "request"),
            stamp(job.created, "created"), job.state, storable(job.outcome, "outcome"), line(job.worker, "worker", 200),
            None if job.lease is None else stamp(job.lease, "lease"),
            None if job.finished is None else stamp(job.finished, "finished"), job.tries,
        )  # fmt: skip
        with self._store.tables.write() as run:
            if not run(_PUT, values):
                raise InputError("id", "is that of another job")

    def find(self, job_id: object, analyst: str) -> Job | None:
        """A job of this analyst; those of others are not there."""
        if not (isinstance(job_id, str) and len(job_id) <= _ID and job_id.isascii() and job_id.isalnum()):
            return None
        rows = self._store.tables.read(
            _JOB_COLUMNS + "WHERE id = ? AND analyst = ?", (job_id, spelled(analyst, "analyst"))
        )
        return _job(rows[0]) if rows else None

    def claim(self, job_id: str, worker: str, lease_until: datetime) -> int:
        """Take a free job, or one whose lease ran out; or extend the lease of one's own.

        That it was taken is counted in the same statement, so before anything is done for it.

        Returns:
            Number of workers that have taken it, this one included; 0 where it was not to be had.
        """
        values = (line(worker, "worker", 200), stamp(lease_until, "lease_until"))
        with self._store.tables.write() as run:
            rows = run(
                "UPDATE people_jobs SET tries = tries + CASE WHEN state = 'running' AND worker = ? THEN 0 ELSE 1 END, "
                "state = 'running', worker = ?, lease = ? WHERE id = ? AND "
                "(state = 'waiting' OR (state = 'running' AND (lease < ? OR worker = ?))) RETURNING tries",
                (worker, *values, line(job_id, "id", _ID), self._store.now(), worker),
            )
        return int(rows[0][0]) if rows else 0

    def put_back(self, job_id: str, worker: str) -> None:
        """Give a job back to other workers, as if it had never been taken."""
        with self._store.tables.write() as run:
            run(
                "UPDATE people_jobs SET state = 'waiting', worker = '', lease = NULL, tries = tries - 1 "
                "WHERE id = ? AND state = 'running' AND worker = ?",
                (line(job_id, "id", _ID), line(worker, "worker", 200)),
            )

    def finish(self, job_id: str, outcome: str, *, failed: bool = False) -> bool:
        """Keep the outcome of a job; whether it is the first, which stays. The oldest finished make room for it."""
        state = "failed" if failed else "done"
        with self._store.tables.write() as run:
            rows = run(
                "UPDATE people_jobs SET state = ?, outcome = ?, lease = NULL, finished = ? "
                "WHERE id = ? AND state IN ('waiting', 'running') RETURNING analyst",
                (state, storable(outcome, "outcome"), self._store.now(), line(job_id, "id", _ID)),
            )
            for (analyst,) in rows:
                run(_OLD_JOBS, (analyst, analyst, _MOST_FINISHED))
        return bool(rows)

    def unfinished(self) -> tuple[Job, ...]:
        """Unfinished jobs that a worker may take, the oldest first."""
        rows = self._store.tables.read(
            _JOB_COLUMNS + "WHERE state = 'waiting' OR (state = 'running' AND lease < ?) ORDER BY created, id",
            (self._store.now(),),
        )
        return tuple(map(_job, rows))

    def open(self, analyst: str) -> int:
        """Number of an analyst's unfinished jobs."""
        count = "SELECT COUNT(*) FROM people_jobs WHERE analyst = ? AND state IN ('waiting', 'running')"
        return int(self._store.tables.read(count, (spelled(analyst, "analyst"),))[0][0])

    def forget(self, before: datetime) -> int:
        """Delete jobs that were finished before a moment; returns how many."""
        with self._store.tables.write() as run:
            old = "DELETE FROM people_jobs WHERE finished < ? RETURNING id"
            return len(run(old, (stamp(before, "before"),)))


def _job(row: tuple[Any, ...]) -> Job:
    lease, finished = (None if moment is None else from_stamp(moment) for moment in (row[7], row[8]))
    return Job(row[0], row[1], row[2], from_stamp(row[3]), row[4], row[5], row[6], lease, finished, row[9])


_TITLE: Final = 120
_TEXT: Final = 20_000
_OPTIONS: Final = 4_000
#: Queries that one person may keep.
_MOST: Final = 200
_MOST_SHOWN: Final = 1_000
_COLUMNS: Final = "SELECT id, name, title, sql, options, populations, shared, saved FROM people_queries "


@dataclass(frozen=True)
class SavedQuery:
    """A query that a person keeps.

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


class SavedQueries:
    """Keeps queries; for any number of threads and processes."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    def save(
        self,
        person: Person,
        title: str,
        sql: str,
        options: Mapping[str, str],
        *,
        populations: Iterable[str],
        shared: bool,
    ) -> SavedQuery:
        """Keep a query.

        Raises:
            InputError: something is missing or too long, or the person keeps too many already.
        """
        named = line(title, "title", _TITLE)
        if not named:
            raise InputError("title", "write a few words by which you will find it again")
        if not sql.strip():
            raise InputError("sql", "write a query")
        text = json.dumps(dict(options), ensure_ascii=False, sort_keys=True)
        if len(sql) > _TEXT or len(text) > _OPTIONS:
            raise InputError("sql", f"is too long to be kept; at most {_TEXT:,} characters are")
        seen = frozenset(plain_name(each, "population") for each in populations)
        now = self._store.now()
        made = SavedQuery(new_id(), person.name, named, sql, dict(options), seen, shared, from_stamp(now))
        kept = storable(sql, "sql"), storable(text, "options"), json.dumps(sorted(seen))
        values = (made.id, made.name, named, *kept, int(shared), now)
        with self._store.tables.write() as run:
            # Enough to keep the database small; on PostgreSQL two at once may pass the limit by one.
            done = run(
                "INSERT INTO people_queries (id, name, title, sql, options, populations, shared, saved) "
                "SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE (SELECT COUNT(*) FROM people_queries WHERE name = ?) < ? "
                "RETURNING id",
                (*values, person.name, _MOST),
            )
        if not done:
            raise InputError("title", f"you keep {_MOST} queries already; delete one first")
        return made

    def seen(self, person: Person) -> tuple[SavedQuery, ...]:
        """Queries that a person sees, newest first: their own, and shared ones about what they may see."""
        rows = self._store.tables.read(
            f"{_COLUMNS} WHERE name = ? OR shared = 1 ORDER BY saved DESC, id LIMIT ?", (person.name, _MOST_SHOWN)
        )
        found = (_query(row) for row in rows)
        return tuple(each for each in found if each.is_seen_by(person))

    def find(self, identity: str, person: Person) -> SavedQuery | None:
        """A query that a person sees; None for one that is not there for them."""
        rows = self._store.tables.read(f"{_COLUMNS} WHERE id = ? AND (name = ? OR shared = 1)", (identity, person.name))
        found = _query(rows[0]) if rows else None
        return found if found is not None and found.is_seen_by(person) else None

    def share(self, identity: str, person: Person, populations: Iterable[str] | None) -> bool:
        """Share a query of one's own with those who may see these populations, or stop sharing it with None.

        Returns:
            Whether there is such a query of theirs.
        """
        seen = sorted(plain_name(each, "population") for each in populations or ())
        with self._store.tables.write() as run:
            done = run(
                "UPDATE people_queries SET shared = ?, populations = ? WHERE id = ? AND name = ? RETURNING id",
                (int(populations is not None), json.dumps(seen), identity, person.name),
            )
        return bool(done)

    def delete(self, identity: str, person: Person) -> bool:
        """Delete a query of one's own; returns whether there was one."""
        with self._store.tables.write() as run:
            done = run("DELETE FROM people_queries WHERE id = ? AND name = ? RETURNING id", (identity, person.name))
        return bool(done)


def _query(row: tuple[Any, ...]) -> SavedQuery:
    identity, name, title, sql, options, populations, shared, saved = row
    return SavedQuery(
        identity, name, title, sql, json.loads(options), frozenset(json.loads(populations)), bool(shared),
        from_stamp(saved),
    )  # fmt: skip
