"""Permission-checked operations shared by the API and the console.

Data that a person may not see does not exist for them. Queries are resolved with a catalog that lacks the tables of
other populations, so that a forbidden table and one that never existed take the same code path and get the same
message. Plans still name the digest of the complete catalog: everyone who may see a release shares it, whatever else
they may see.

Everything here is synchronous and thread-safe. The API and the console control response times and rate limits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from tacit.core.canonical import canonical
from tacit.core.errors import AccessError, InputError, TacitError
from tacit.curator.curator import Conversation, Curator, TableInfo
from tacit.ledger import ConflictError, Outcome, Record
from tacit.ledger.entries import plain_name
from tacit.ledger.history import Charged, Page, charge_at, how_many_fit, page
from tacit.query.catalog import Catalog
from tacit.query.refusal import Refusal
from tacit.query.request import Request
from tacit.releases.accounts import Budget
from tacit.releases.answer import Answer
from tacit.releases.api_types import RequestModel
from tacit.releases.kinds import KINDS, kind_of
from tacit.releases.payment import Caller, check_succeeded, hide_internal_errors
from tacit.releases.plans import FreeQuery, Quote
from tacit.releases.published_numbers import NumberSearch, find_number
from tacit.releases.query import (
    QueryContext,
    charged_answer,
    deliver,
    free_answer,
    planned,
    public_rows,
    quote,
    release_key,
    to_answer,
)
from tacit.releases.receipt import Receipt
from tacit.releases.release import Made, Release, ReleaseKind, release_at, released
from tacit.releases.workload import WorkloadAnswer
from tacit.server.errors import TooMany, Unauthenticated, Unknown
from tacit.server.settings import Settings
from tacit.server.timing import LateLimit

if TYPE_CHECKING:
    from tacit.releases.plans import PricedPlan
    from tacit.server.identity import Access, People
    from tacit.server.timing import ResponseTimer

#: Scopes: the values of :class:`tacit.server.identity.TokenScope`.
ASK: Final = "ask"
AUDIT: Final = "audit"
ADMIN: Final = "admin"
#: Value of ``free`` in :meth:`CuratorService.ask`: return only an answer that the person paid for.
ONLY: Final = "only"
#: Maximum number of releases kept in memory.
_MOST_READ: Final = 4


class CuratorService:
    """A curator's operations, each checked against the rights (:class:`Access`) of the person who calls it.

    ``settings`` bound the number of charges and of ledger entries that one page of history reads.
    """

    def __init__(self, curator: Curator, people: People, settings: Settings | None = None) -> None:
        self.curator = curator
        self.people = people
        self.settings = settings or Settings()
        self._lock = threading.Lock()
        self._seen: dict[frozenset[str] | None, Curator] = {}
        self._read: dict[int, Made] = {}
        self._reading = threading.RLock()

    def quote(self, access: Access, ask: Request) -> Quote:
        """Return the cost and the expected errors of a query. Free; reads no data."""
        self._need(access, ASK)
        return self._for(access).explain(ask.sql, **ask.options)

    def ask(
        self,
        access: Access,
        ask: Request,
        *,
        key: str = "",
        free: str = "",
        timer: ResponseTimer | None = None,
    ) -> Answer:
        """Answer a query, charged to its population's budget and to the person's share of it.

        Args:
            access: the caller and their rights.
            ask: the query and its options.
            key: idempotency key of this request; a request sent again with it is charged once.
            free: never charge: with :data:`ONLY`, return an answer that this person paid for; with a code from
                :meth:`release_code`, return the answer that it stands for. Empty to charge where necessary.
            timer: decides when the outcome of a fresh run is recorded.

        Raises:
            Unauthenticated: the person was revoked after authentication.
            ConflictError: the key belongs to a different request; or ``free`` is set and no earlier answer exists.
            LateLimit: too many answers were late, and no earlier answer exists.
        """
        self._need(access, ASK)
        context = self._for(access).context
        with self._while_active(access):
            plan = planned(context, ask.sql, ask)
            if isinstance(plan, FreeQuery):
                return free_answer(plan, ask.sql, Caller(access.person.name))
            if free:
                return _repeat(context, access, plan, ask.sql, free)
            if timer is not None:
                _check_late(context, plan, timer)
            conversation = _conversation(access)
            caller = Caller(access.person.name, key, "" if conversation is None else conversation.name)
            if conversation is not None:
                conversation.begin(context, access.person.name, plan.plan.final.population)
            # The outcome is recorded only at the response time: otherwise history, receipt and repeats would reveal how
            # long the query took, even though the answer itself is held.
            return charged_answer(context, plan, ask.sql, ask, caller, timer=timer)

    def release_code(self, access: Access, answer: Answer) -> str:
        """Return a code with which a person who received an answer can fetch it again for free, whoever paid for it."""
        return _code(self._for(access).context, access, answer.charge.number)

    def quote_release(self, access: Access, request: RequestModel) -> str:
        """Describe the cost and errors of a release in text; refuse an impossible release. Free; reads no data."""
        return self._kind(access, request).quote(self._for(access).context, request)

    def make_release(
        self, access: Access, request: RequestModel, *, key: str = "", timer: ResponseTimer | None = None
    ) -> Made:
        """Make a release, charged to its population's budget and to the person's share of it.

        Args:
            access: the caller and their rights.
            request: of one kind of release.
            key: idempotency key of this request; a request sent again with it is charged once.
            timer: decides when the outcome is recorded; ignored for owners, who may read the data anyway.
        """
        kind, context = self._kind(access, request), self._for(access).context
        timer = None if ADMIN in access.scopes else timer
        made: Made = kind.make(context, request, Caller(access.person.name, key), timer)
        self._keep(made.receipt.position, made)
        return made

    def releases(self, access: Access, kind: str | None = None) -> tuple[Release, ...]:
        """Return the releases of all populations that the person may see; reading them is free."""
        return released(self._for(access).context, KINDS, kind)

    def release(self, access: Access, position: int) -> tuple[Release, Any]:
        """Return the release at a position in the ledger, and its content as recorded there. Free; reads no data.

        Raises:
            Unknown: the person may see no release at this position.
        """
        context = self._for(access).context
        found = release_at(context, KINDS, position)
        if found is None:
            raise Unknown("release")
        # Rebuilding a release takes seconds: one at a time, and the newest few are kept.
        with self._reading:
            made = self._read.get(position)
            if made is None:
                made = KINDS[found.kind].read(context, position)
                self._keep(position, made)
            return found, made

    def _kind(self, access: Access, request: RequestModel) -> ReleaseKind[Any, Any]:
        kind = KINDS[kind_of(request)]
        self._need(access, *((ASK, ADMIN) if kind.by_analysts else (ADMIN,)))
        return kind

    def _keep(self, position: int, made: Made) -> None:
        """Keep a release in memory, and drop the oldest ones beyond ``_MOST_READ``."""
        with self._reading:
            self._read[position] = made
            while len(self._read) > _MOST_READ:
                del self._read[next(iter(self._read))]

    def budget(self, access: Access, population: str | None = None, quote: Quote | None = None) -> tuple[Budget, ...]:
        """Return the budget of each population that the person may see: spent, remaining, and the person's share.

        Args:
            access: the caller and their rights.
            population: return only the budget of this one.
            quote: a query's quote; the budget then counts how many more queries of this cost fit.
        """
        curator, who = self._for(access), access.person.name
        conversation = _conversation(access)
        if conversation is not None:
            self._need(access, ASK)
        names = [each.name for each in curator.context.catalog.populations]
        if population is not None:
            if population not in names:
                raise Unknown("population")
            names = [population]
        plan = None if quote is None else quote.plan
        if conversation is not None:
            names, charge = (names, None) if plan is None else ([plan.final.population], plan.guarantee)
            return tuple(conversation.budget(curator.context, who, name, charge) for name in names)
        if plan is not None:
            return (curator.budget(quote, analyst=who),)
        return tuple(curator.budget(population=name, analyst=who) for name in names)

    def queries_left(self, access: Access, quote: Quote) -> int | None:
        """Return how many more queries of this cost fit in the budgets of population and person.

        None if nothing limits their number.
        """
        if quote.plan is None:
            return None
        context = self.curator.context
        who = access.person.name
        if access.share is not None:
            return self.budget(access, quote=quote)[0].queries
        with hide_internal_errors():
            population = quote.plan.final.population
            return how_many_fit(context.ledger, population, quote.guarantee, analyst=who)

    def tables(self, access: Access) -> tuple[TableInfo, ...]:
        """Return the tables that the person may see, with their public metadata."""
        return self._for(access).tables()

    def catalog(self, access: Access) -> Catalog:
        """Return the public metadata of the tables that the person may see, as a catalog."""
        return self._for(access).context.catalog

    def deliver(self, access: Access, position: int, *, timer: ResponseTimer | None = None) -> Answer | WorkloadAnswer:
        """Run a query that was charged but never answered, and return its answer. Free.

        People may run their own charges; owners may run everyone's.

        Raises:
            Unknown: no charge at this position is the person's to run.
            InputError: the ledger alone does not suffice to run it.
        """
        self._need(access, ASK, ADMIN)
        with hide_internal_errors():
            found = charge_at(self.curator.ledger, position)
            own = found is not None and found.record.analyst == plain_name(access.person.name, "name")
            if found is None or not self._may_see(access, found.record) or not (own or ADMIN in access.scopes):
                raise Unknown("charge")
        return deliver(self._for(access).context, position, timer=timer)

    def history(
        self,
        access: Access,
        *,
        before: int | None = None,
        limit: int | None = None,
        everyone: bool = False,
        undelivered: bool = False,
    ) -> Page:
        """Return a page of charges, newest first: the person's own, or everyone's for people who may audit.

        Args:
            access: the caller and their rights.
            before: ``next`` of the preceding page; None for the newest charges.
            limit: maximum number of charges on the page.
            everyone: include the charges of all people.
            undelivered: only charges without an outcome.
        """
        if everyone:
            self._need(access, AUDIT, ADMIN)
        most = self.settings.history_page
        if limit is not None and not 1 <= limit <= most:
            raise InputError("limit", f"must be a whole number from 1 to {most}")
        if before is not None and not 1 <= before < 2**62:
            raise InputError("before", "must be the 'next' of another page")
        with hide_internal_errors():
            return page(
                self.curator.ledger,
                before=before,
                limit=limit or most,
                look=self.settings.history_look,
                analyst="" if everyone else access.person.name,
                populations=access.person.populations if everyone else None,
                undelivered=undelivered,
            )

    def receipt(self, access: Access, position: int) -> Receipt:
        """Return the receipt of a charge that the person may see, with the query as that person wrote it.

        If a run failed and another person, with an equal query, finished it, the recorded receipt quotes that person's
        text, which only people who may see all charges may read.

        Raises:
            Unknown: no receipt at this position, or it is another person's.
        """
        found, outcome = self._charged(access, position)
        receipt = Receipt.from_json(outcome.receipt)
        if _audits(access) or _has_text(receipt, found.record.sql):
            return receipt
        return self.answer_again(access, position).paid[1]

    def answer_again(self, access: Access, position: int) -> Answer:
        """Return the answer to an earlier charge again, at no cost.

        Raises:
            Unknown: no such charge, it is another person's, or its answer cannot be rebuilt from the ledger position.
            FailedRunError: the run failed.
        """
        found, outcome = self._charged(access, position)
        check_succeeded(outcome)
        receipt = Receipt.from_json(outcome.receipt)
        context = self._for(access).context
        record, options = found.record, found.quote.get("options")
        if options is None:
            raise Unknown("answer")
        try:
            planned = quote(context, record.sql, Request(**options))
        except TacitError:
            raise Unknown("answer") from None
        # If the catalog was changed in the meantime, the query is no longer the one that was answered.
        if (planned.plan.catalog, planned.mechanisms) != (receipt["catalog"], found.quote["mechanisms"]):
            raise Unknown("answer")
        return _earlier(context, planned, record.sql, outcome, record.analyst)

    def find_number(self, access: Access, number: str) -> NumberSearch:
        """Search for a quoted number in the releases and answers that the person may see. Free."""
        return find_number(self._for(access).context, number, sees=lambda record: self._may_see(access, record))

    def _charged(self, access: Access, position: int) -> tuple[Charged, Outcome]:
        """Return a charge that the person may see, and its recorded outcome."""
        with hide_internal_errors():
            found = charge_at(self.curator.ledger, position)
            if found is None or not self._may_see(access, found.record):
                raise Unknown("receipt")
            outcome = self.curator.ledger.outcome(position)
        # The parts of a planned release are paid by the whole release, which has the receipt.
        if outcome is None or not outcome.receipt:
            raise Unknown("receipt")
        return found, outcome

    def _may_see(self, access: Access, record: Record) -> bool:
        if record.analyst == plain_name(access.person.name, "name"):
            return True
        seen = access.person.populations
        return _audits(access) and (seen is None or record.population in seen)

    @contextmanager
    def _while_active(self, access: Access) -> Iterator[None]:
        """Turn an AccessError of the ledger into Unauthenticated if the person was revoked after authentication."""
        try:
            yield
        except AccessError:
            found = self.people.person(access.person.name)
            if found is None or not found.active:
                raise Unauthenticated from None
            raise

    def _for(self, access: Access) -> Curator:
        """Return a curator whose catalog holds what the person may see; people with equal rights share one."""
        key = access.person.populations
        with self._lock:
            known = self._seen.get(key)
            if known is None:
                context = self.curator.context
                catalog = context.catalog if key is None else _Seen.of(context.catalog, key)
                known = Curator(replace(context, catalog=catalog), self.curator.analyst)
                self._seen[key] = known
            return known

    @staticmethod
    def _need(access: Access, *scopes: str) -> None:
        if not set(scopes) & set(access.scopes):
            raise AccessError(f"this needs the scope {' or '.join(scopes)}, which your {access.kind} does not have")


@dataclass(frozen=True)
class _Seen(Catalog):
    """The visible part of a catalog, with the digest of the complete catalog."""

    whole: str = ""

    @classmethod
    def of(cls, catalog: Catalog, populations: frozenset[str]) -> _Seen:
        tables = [table for table in catalog.tables if table.public or _is_among(table.population, populations)]
        names = {table.name.lower() for table in tables}
        # A foreign key to a hidden table is hidden as well.
        kept = (
            replace(table, foreign_keys=tuple(key for key in table.foreign_keys if key.table.lower() in names))
            for table in tables
        )
        known = tuple(each for each in catalog.populations if _is_among(each.name, populations))
        return cls(tuple(kept), known, whole=catalog.digest)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "digest", self.whole)


def _is_among(population: str | None, names: frozenset[str]) -> bool:
    """Whether a population, as spelled by its owner, is among normalized names."""
    return population is not None and plain_name(population, "population") in names


def _repeat(context: QueryContext, access: Access, planned: PricedPlan, sql: str, known: str) -> Answer:
    """Return the earlier answer to a query. Nothing is reserved, so nothing can be charged.

    Answers paid for by other people are excluded: otherwise anyone could find out at no cost what others asked.
    """
    with hide_internal_errors():
        found = context.ledger.outcome_under(planned.plan.final.population, release_key(context, planned.plan))
        if found is not None and not _audits(access):
            position = found.reservation.seq
            charged = charge_at(context.ledger, position)
            paid = charged is not None and charged.record.analyst == plain_name(access.person.name, "name")
            if not paid and not compare_digest(
                known.encode(errors="replace"), _code(context, access, position).encode()
            ):
                found = None
    if found is None:
        raise ConflictError("Tacit-Repeat", "you have no answer to this query yet; nothing was charged")
    return _earlier(context, planned, sql, found, access.person.name)


def _code(context: QueryContext, access: Access, position: int) -> str:
    return context.keys.veil(canonical(["repeat", access.person.name, position]))


def _check_late(context: QueryContext, planned: PricedPlan, timer: ResponseTimer) -> None:
    """Refuse a query that would read data after too many late answers; repeats stay free."""
    try:
        timer.check(planned.plan)
    except (LateLimit, Refusal, TooMany):
        with hide_internal_errors():
            found = context.ledger.outcome_under(planned.plan.final.population, release_key(context, planned.plan))
        if found is None:
            raise


def _earlier(context: QueryContext, planned: PricedPlan, sql: str, outcome: Outcome, analyst: str) -> Answer:
    with hide_internal_errors():
        public = public_rows(context, planned.plan)
        return to_answer(context, planned, sql, outcome, public, analyst=analyst, paid=False)


def _conversation(access: Access) -> Conversation | None:
    """Return the conversation that the charges of a token with a share count towards."""
    return None if access.share is None else Conversation.of_token(access.id, access.share)


def _audits(access: Access) -> bool:
    return bool({AUDIT, ADMIN} & set(access.scopes))


def _has_text(receipt: Receipt, sql: str) -> bool:
    """Whether a receipt has this text of the query; others have the text of their owner."""
    return all(each["name"] or each["query"] == sql for each in receipt["answers"])
