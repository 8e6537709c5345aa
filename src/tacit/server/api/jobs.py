"""Background queries: submit, poll, fetch.

Jobs are stored in the ledger's database, so that any worker can report their state, and another worker takes over the
jobs of one that died; but only a few times, because the job may be the cause. Every job has an idempotency key, its
own or its caller's: run again, it runs under the same charge. Its outcome is recorded at the time at which an answer
would be sent, so that its running time is not visible more finely.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from tacit.client.releases import ReleaseResponse
from tacit.client.responses import AnswerResponse
from tacit.core.errors import DelayedError, InputError, InternalError, TacitError
from tacit.ledger import ConflictError
from tacit.noise import entropy
from tacit.query.request import Request
from tacit.releases.kinds import kind_of
from tacit.server.api.request import ApiRequest, ApiResponse, JobRequest, job_back, job_text, json_bytes
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Busy, TooMany, Unauthenticated, Unknown, describe, failure_json
from tacit.server.identity.credentials import new_id
from tacit.server.service import ADMIN, ASK
from tacit.server.timing import LateLimit

if TYPE_CHECKING:
    from tacit.server.identity import Access, Job
    from tacit.server.timing import ResponseTimer

#: Maximum number of unfinished jobs of one person.
_MOST: Final = 20
#: Maximum number of workers that may die on a job. One that stops in order, or is busy, puts it back uncounted.
_MOST_TRIES: Final = 3
_KEPT: Final = timedelta(days=1)


def put_off(call: ApiRequest, asked: JobRequest, key: str) -> ApiResponse:
    """Submit work as a job; refuse at once what the job would refuse."""
    service, user = call.runtime.service, call.user
    # A job runs with the rights of the person, not of the token that submitted it.
    if isinstance(asked, Request):
        call.runtime.response_time(user, service.quote(user, asked))
        if user.share is not None:
            raise InputError("Prefer", "a token with a share of its own asks and waits; leave respond-async out")
    else:
        service.quote_release(user, asked)
        if user.share is not None:
            raise InputError("token", "has a share of its own, and a release is made for the person; use another one")
        if ADMIN in user.person.scopes - user.scopes:
            # Nor may a token without this right learn at once when the owner's job has ended.
            raise InputError("token", "lacks the right admin, and a release is made for the owner; use another one")
    job = put_job(call.runtime, user, asked, key)
    call.about["job"] = job.id
    headers = ((b"location", f"/v1/jobs/{job.id}".encode()), (b"retry-after", b"1"))

    async def begin() -> None:
        if call.put_off is not None:
            call.put_off(job)

    return ApiResponse(202, json_bytes({"id": job.id, "state": "waiting"}), headers=headers, after=begin)


def put_job(runtime: WorkerRuntime, access: Access, asked: JobRequest, key: str = "") -> Job:
    """Store a job for the next worker with free capacity; return the earlier job if the key was used before.

    Raises:
        TooMany: the person has too many unfinished jobs.
        ConflictError: the key belongs to a different request.
    """
    from tacit.server.identity import Job

    request, people = job_text(asked, key), runtime.service.people
    identity = _named(runtime, access, key) if key else new_id()
    job = people.jobs.find(identity, access.person.name) if key else None
    if job is None:
        if people.jobs.open(access.person.name) >= _MOST:
            raise TooMany(5.0)
        job = Job(identity, access.person.name, request, datetime.now(UTC))
        try:
            people.jobs.put(job)
        except InputError:
            # A concurrent request with the same key was faster.
            job = people.jobs.find(identity, access.person.name) or job
    if job.request != request:
        raise ConflictError("Idempotency-Key", "was used before for another request; use a fresh one")
    return job


def poll(call: ApiRequest) -> ApiResponse:
    """State of work that was put off, and its outcome."""
    job = call.runtime.service.people.jobs.find(call.part, call.user.person.name)
    if job is None:
        raise Unknown("job")
    step = call.runtime.settings.response_step or 1.0
    until = job.finished or datetime.now(UTC)
    steps = max(0, int((until - job.created).total_seconds() / step))
    head = json_bytes({"id": job.id, "state": job.state, "seconds": steps * step})
    if job.state not in ("done", "failed"):
        return ApiResponse(200, head, headers=((b"retry-after", b"1"),))
    name = b"error"
    if job.state == "done":
        name = b"answer" if isinstance(job_back(job.request)[0], Request) else b"release"
    return ApiResponse(200, head[:-1] + b',"' + name + b'":' + job.outcome.encode() + b"}")


def _named(runtime: WorkerRuntime, access: Access, key: str) -> str:
    """Return the id of a job with this idempotency key, so that a repeated request finds the job."""
    parts = (runtime.service.curator.ledger.id, access.person.name, key)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class JobRunner:
    """Runs the jobs of one worker process; for one event loop."""

    def __init__(self, runtime: WorkerRuntime) -> None:
        self._runtime = runtime
        self._worker = f"{entropy.current().bits(64):016x}"
        self._running: dict[str, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None

    def begin(self, job: Job) -> None:
        """Run a job, unless it is running already."""
        if job.id not in self._running:
            task = asyncio.get_running_loop().create_task(self._run(job))
            self._running[job.id] = task
            task.add_done_callback(lambda _: self._running.pop(job.id, None))

    def watch(self) -> None:
        """Start to poll for jobs without a worker."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Stop polling; running jobs continue."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching

    async def leave(self) -> None:
        """Return running jobs to the queue for other workers, since this worker is about to end."""
        left = dict(self._running)
        for task in left.values():
            task.cancel()
        await asyncio.gather(*left.values(), return_exceptions=True)
        for job in left:
            with suppress(TacitError):
                await self._runtime.run(self._put_back, job)

    @property
    def under_way(self) -> int:
        """Number of jobs that run in this process."""
        return len(self._running)

    async def _watch(self) -> None:
        people = self._runtime.service.people
        while True:
            try:
                for job in await self._runtime.run(people.jobs.unfinished):
                    if self.under_way < self._runtime.asking.threads:
                        self.begin(job)
                await self._runtime.run(people.jobs.forget, datetime.now(UTC) - _KEPT)
            except Exception as problem:
                describe(problem)
            await asyncio.sleep(self._runtime.settings.job_seconds / 3)

    async def _run(self, job: Job) -> None:
        try:
            tries = await self._runtime.run(self._claim, job)
            if not tries:
                return
            if tries > _MOST_TRIES:
                await self._runtime.run(self._give_up, job)
                return
            timer = self._runtime.timer(job.analyst)
            renewing = asyncio.get_running_loop().create_task(self._renew(job))
            try:
                outcome, failed = await self._runtime.asking.run_for(job.analyst, self._outcome, job, timer)
            finally:
                renewing.cancel()
            await timer.hold()
            await self._runtime.run(self._runtime.service.people.jobs.finish, job.id, outcome, failed=failed)
        except (Busy, DelayedError, LateLimit, TooMany):
            # Retried once a worker has capacity, or the analyst may run more; an existing charge waits.
            with suppress(TacitError):
                await self._runtime.run(self._put_back, job.id)
        except Exception as problem:
            # The job stays unfinished, and is taken over when its lease expires.
            describe(problem)

    async def _renew(self, job: Job) -> None:
        while True:
            await asyncio.sleep(self._runtime.settings.job_seconds / 3)
            with suppress(TacitError):
                await self._runtime.run(self._claim, job)

    def _claim(self, job: Job) -> int:
        until = datetime.now(UTC) + timedelta(seconds=self._runtime.settings.job_seconds)
        return self._runtime.service.people.jobs.claim(job.id, self._worker, until)

    def _put_back(self, job: str) -> None:
        self._runtime.service.people.jobs.put_back(job, self._worker)

    def _give_up(self, job: Job) -> None:
        """Fail a job permanently: its charge stays, and the operator's log states the reason."""
        problem = InternalError(f"job {job.id} was given up: {_MOST_TRIES} workers ended while they ran it")
        self._runtime.service.people.jobs.finish(job.id, _failure_text(problem), failed=True)

    def _outcome(self, job: Job, timer: ResponseTimer) -> tuple[str, bool]:
        try:
            asked, key = job_back(job.request)
            # A space distinguishes it from every key that a caller can send.
            service, key = self._runtime.service, key or f"job {job.id}"
            if isinstance(asked, Request):
                answer = service.ask(self._access(job, ASK), asked, key=key, timer=timer)
                return json_bytes(AnswerResponse.of(answer).plain()).decode(), False
            made = service.make_release(self._access(job, ADMIN, ASK), asked, key=key, timer=timer)
            body = ReleaseResponse.of(kind_of(asked), made)
            return json_bytes(body.plain()).decode(), False
        except (DelayedError, LateLimit, TooMany):
            raise
        except Exception as problem:
            return _failure_text(problem), True

    def _access(self, job: Job, *needed: str) -> Access:
        """Return the current rights of the person who submitted the job."""
        from tacit.server.identity import Access

        person = self._runtime.service.people.person(job.analyst)
        if person is None or not person.active:
            raise Unauthenticated
        return Access(person, frozenset(scope for scope in person.scopes if scope in needed), "token", f"job {job.id}")


def _failure_text(problem: Exception) -> str:
    """Return a failure as JSON text, for polling."""
    return json_bytes(failure_json(describe(problem))["error"]).decode()
