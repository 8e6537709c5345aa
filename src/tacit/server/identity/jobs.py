"""Storage of background questions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.server.identity.context import IdentityContext, from_stamp, line, stamp, storable
from tacit.server.identity.ledger_people import spelled
from tacit.server.identity.models import Job

_COLUMNS: Final = (
    "SELECT id, analyst, request, created, state, outcome, worker, lease, finished, tries FROM people_jobs "
)
_PUT: Final = (
    "INSERT INTO people_jobs (id, analyst, request, created, state, outcome, worker, lease, finished, tries) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id"
)
_ID: Final = 64
#: Outcomes that are kept for one person. Repeats are free, so that without an end they would fill the ledger's disk.
_MOST_FINISHED: Final = 100
_OLD: Final = (
    "DELETE FROM people_jobs WHERE analyst = ? AND finished IS NOT NULL AND id NOT IN (SELECT id FROM people_jobs "
    "WHERE analyst = ? AND finished IS NOT NULL ORDER BY finished DESC, created DESC, id LIMIT ?)"
)


class JobStore:
    """Stores jobs, hands them to workers, and keeps their outcomes."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    def put(self, job: Job) -> None:
        """Store a new job."""
        values = (
            line(job.id, "id", _ID), spelled(job.analyst, "analyst"), storable(job.request, "request"),
            stamp(job.created, "created"), job.state, storable(job.outcome, "outcome"), line(job.worker, "worker", 200),
            None if job.lease is None else stamp(job.lease, "lease"),
            None if job.finished is None else stamp(job.finished, "finished"), job.tries,
        )  # fmt: skip
        with self._context.tables.write() as run:
            if not run(_PUT, values):
                raise InputError("id", "is that of another job")

    def find(self, job_id: object, analyst: str) -> Job | None:
        """A job of this analyst; those of others are not there."""
        if not _is_id(job_id):
            return None
        rows = self._context.tables.read(
            _COLUMNS + "WHERE id = ? AND analyst = ?", (job_id, spelled(analyst, "analyst"))
        )
        return _job(rows[0]) if rows else None

    def claim(self, job_id: str, worker: str, lease_until: datetime) -> int:
        """Take a free job, or one whose lease ran out; or extend the lease of one's own.

        That it was taken is counted in the same statement, so before anything is done for it.

        Returns:
            Number of workers that have taken it, this one included; 0 where it was not to be had.
        """
        values = (line(worker, "worker", 200), stamp(lease_until, "lease_until"))
        with self._context.tables.write() as run:
            rows = run(
                "UPDATE people_jobs SET tries = tries + CASE WHEN state = 'running' AND worker = ? THEN 0 ELSE 1 END, "
                "state = 'running', worker = ?, lease = ? WHERE id = ? AND "
                "(state = 'waiting' OR (state = 'running' AND (lease < ? OR worker = ?))) RETURNING tries",
                (worker, *values, line(job_id, "id", _ID), self._context.now(), worker),
            )
        return int(rows[0][0]) if rows else 0

    def put_back(self, job_id: str, worker: str) -> None:
        """Give a job back to other workers, as if it had never been taken."""
        with self._context.tables.write() as run:
            run(
                "UPDATE people_jobs SET state = 'waiting', worker = '', lease = NULL, tries = tries - 1 "
                "WHERE id = ? AND state = 'running' AND worker = ?",
                (line(job_id, "id", _ID), line(worker, "worker", 200)),
            )

    def finish(self, job_id: str, outcome: str, *, failed: bool = False) -> bool:
        """Keep the outcome of a job; whether it is the first, which stays. The oldest finished make room for it."""
        state = "failed" if failed else "done"
        with self._context.tables.write() as run:
            rows = run(
                "UPDATE people_jobs SET state = ?, outcome = ?, lease = NULL, finished = ? "
                "WHERE id = ? AND state IN ('waiting', 'running') RETURNING analyst",
                (state, storable(outcome, "outcome"), self._context.now(), line(job_id, "id", _ID)),
            )
            for (analyst,) in rows:
                run(_OLD, (analyst, analyst, _MOST_FINISHED))
        return bool(rows)

    def unfinished(self) -> tuple[Job, ...]:
        """Unfinished jobs that a worker may take, the oldest first."""
        rows = self._context.tables.read(
            _COLUMNS + "WHERE state = 'waiting' OR (state = 'running' AND lease < ?) ORDER BY created, id",
            (self._context.now(),),
        )
        return tuple(map(_job, rows))

    def open(self, analyst: str) -> int:
        """Number of an analyst's unfinished jobs."""
        count = "SELECT COUNT(*) FROM people_jobs WHERE analyst = ? AND state IN ('waiting', 'running')"
        return int(self._context.tables.read(count, (spelled(analyst, "analyst"),))[0][0])

    def forget(self, before: datetime) -> int:
        """Delete jobs that were finished before a moment; returns how many."""
        with self._context.tables.write() as run:
            old = "DELETE FROM people_jobs WHERE finished < ? RETURNING id"
            return len(run(old, (stamp(before, "before"),)))


def _is_id(job_id: object) -> bool:
    return isinstance(job_id, str) and len(job_id) <= _ID and job_id.isascii() and job_id.isalnum()


def _job(row: tuple[Any, ...]) -> Job:
    lease, finished = (None if moment is None else from_stamp(moment) for moment in (row[7], row[8]))
    return Job(row[0], row[1], row[2], from_stamp(row[3]), row[4], row[5], row[6], lease, finished, row[9])
