"""Background jobs: queries and releases that any worker may take up, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tacit.core.errors import InputError
from tacit.server.identity.chain import spelled
from tacit.server.identity.credentials import PeopleStore, from_stamp, line, stamp, storable

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
