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
    """A query or release that runs in the background, in any worker that claims it.

    Args:
        id: from :func:`~tacit.server.identity.credentials.new_id`, or a hash of the idempotency key.
        analyst: its owner, who alone can find it.
        request: the request, in the format of :func:`tacit.server.api.request.job_text`.
        outcome: the answer or the failure, in JSON.
        worker: the worker that runs it, until ``lease``; afterwards another may claim it.
        tries: number of workers that have claimed it.
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
#: Maximum number of outcomes kept per person. Repeats are free, and would otherwise fill the ledger's disk.
_MOST_FINISHED: Final = 100
_OLD_JOBS: Final = (
    "DELETE FROM people_jobs WHERE analyst = ? AND finished IS NOT NULL AND id NOT IN (SELECT id FROM people_jobs "
    "WHERE analyst = ? AND finished IS NOT NULL ORDER BY finished DESC, created DESC, id LIMIT ?)"
)


class JobStore:
    """Stores jobs, assigns them to workers, and keeps their outcomes."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    def put(self, job: Job) -> None:
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
        """Return an analyst's job; None for an unknown id, or the job of another analyst."""
        if not (isinstance(job_id, str) and len(job_id) <= _ID and job_id.isascii() and job_id.isalnum()):
            return None
        rows = self._store.tables.read(
            _JOB_COLUMNS + "WHERE id = ? AND analyst = ?", (job_id, spelled(analyst, "analyst"))
        )
        return _job(rows[0]) if rows else None

    def claim(self, job_id: str, worker: str, lease_until: datetime) -> int:
        """Claim a free job, or one whose lease has expired; or extend the lease of this worker's job.

        The same statement counts the claim, before any work on the job.

        Returns:
            Number of workers that have claimed it, including this one; 0 if it is not available.
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
        """Return a job to the queue for other workers, as if it had never been claimed."""
        with self._store.tables.write() as run:
            run(
                "UPDATE people_jobs SET state = 'waiting', worker = '', lease = NULL, tries = tries - 1 "
                "WHERE id = ? AND state = 'running' AND worker = ?",
                (line(job_id, "id", _ID), line(worker, "worker", 200)),
            )

    def finish(self, job_id: str, outcome: str, *, failed: bool = False) -> bool:
        """Store a job's outcome unless it has one; return whether it was stored. Delete the oldest ones."""
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
        """Return the unfinished jobs that a worker may claim, the oldest first."""
        rows = self._store.tables.read(
            _JOB_COLUMNS + "WHERE state = 'waiting' OR (state = 'running' AND lease < ?) ORDER BY created, id",
            (self._store.now(),),
        )
        return tuple(map(_job, rows))

    def open(self, analyst: str) -> int:
        """Return the number of an analyst's unfinished jobs."""
        count = "SELECT COUNT(*) FROM people_jobs WHERE analyst = ? AND state IN ('waiting', 'running')"
        return int(self._store.tables.read(count, (spelled(analyst, "analyst"),))[0][0])

    def forget(self, before: datetime) -> int:
        """Delete the jobs finished before a time; return their number."""
        with self._store.tables.write() as run:
            old = "DELETE FROM people_jobs WHERE finished < ? RETURNING id"
            return len(run(old, (stamp(before, "before"),)))


def _job(row: tuple[Any, ...]) -> Job:
    lease, finished = (None if moment is None else from_stamp(moment) for moment in (row[7], row[8]))
    return Job(row[0], row[1], row[2], from_stamp(row[3]), row[4], row[5], row[6], lease, finished, row[9])


_TITLE: Final = 120
_TEXT: Final = 20_000
_OPTIONS: Final = 4_000
#: Maximum number of saved queries of one person.
_MOST: Final = 200
_MOST_SHOWN: Final = 1_000
_COLUMNS: Final = "SELECT id, name, title, sql, options, populations, shared, saved FROM people_queries "


@dataclass(frozen=True)
class SavedQuery:
    """A query that a person has saved.

    Attributes:
        id: unguessable id, part of its address.
        name: its owner.
        options: fields of the form other than the text.
        populations: populations that it reads, as normalized in the ledger.
        shared: whether other people who may see all of these populations see it.
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
        """Whether a person sees the query: an owner's own, or a shared one about populations that they may see."""
        if self.name == person.name:
            return True
        return self.shared and (person.populations is None or self.populations <= person.populations)


class SavedQueries:
    """Stores saved queries; for any number of threads and processes."""

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
        """Save a query.

        Raises:
            InputError: a value is missing or too long, or the person has too many saved queries.
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
            # Enough to keep the database small; on PostgreSQL two concurrent calls may exceed the limit by one.
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
        """Return the queries that a person sees, newest first: their own, and shared ones about visible populations."""
        rows = self._store.tables.read(
            f"{_COLUMNS} WHERE name = ? OR shared = 1 ORDER BY saved DESC, id LIMIT ?", (person.name, _MOST_SHOWN)
        )
        found = (_query(row) for row in rows)
        return tuple(each for each in found if each.is_seen_by(person))

    def find(self, identity: str, person: Person) -> SavedQuery | None:
        """Return a saved query; None if the person may not see it, or it does not exist."""
        rows = self._store.tables.read(f"{_COLUMNS} WHERE id = ? AND (name = ? OR shared = 1)", (identity, person.name))
        found = _query(rows[0]) if rows else None
        return found if found is not None and found.is_seen_by(person) else None

    def share(self, identity: str, person: Person, populations: Iterable[str] | None) -> bool:
        """Share a person's own query with everyone who may see these populations; None stops sharing it.

        Returns:
            Whether the person has such a query.
        """
        seen = sorted(plain_name(each, "population") for each in populations or ())
        with self._store.tables.write() as run:
            done = run(
                "UPDATE people_queries SET shared = ?, populations = ? WHERE id = ? AND name = ? RETURNING id",
                (int(populations is not None), json.dumps(seen), identity, person.name),
            )
        return bool(done)

    def delete(self, identity: str, person: Person) -> bool:
        """Delete a person's own query; return whether it existed."""
        with self._store.tables.write() as run:
            done = run("DELETE FROM people_queries WHERE id = ? AND name = ? RETURNING id", (identity, person.name))
        return bool(done)


def _query(row: tuple[Any, ...]) -> SavedQuery:
    identity, name, title, sql, options, populations, shared, saved = row
    return SavedQuery(
        identity, name, title, sql, json.loads(options), frozenset(json.loads(populations)), bool(shared),
        from_stamp(saved),
    )  # fmt: skip
