"""``Ledger``: durable account of charges.

``reserve → run → commit``. :meth:`Ledger.reserve` makes a charge durable before it returns; data is read after that.
:meth:`Ledger.commit` makes the outcome durable before the answer is sent. A reservation without a commit counts as
spent. There is no refund. ``ledger.proof.md`` has the argument.

Accounts, quotas, sources and analysts are registered as entries. A conversation with an assistant belongs to an analyst
and has a name. Its share of an account is an entry as well; a charge of the conversation is added to both in the same
step, so that two concurrent charges cannot overspend the share, and a process that starts anew finds what was
spent. A share cannot be changed: another name is another conversation.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

from tacit.accounting.filters import Filter
from tacit.accounting.prices import Charge
from tacit.core.closing import Closing
from tacit.core.errors import AccessError, BudgetError, InputError
from tacit.core.events import Event
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number
from tacit.ledger import history, verify
from tacit.ledger.anchor import Anchor
from tacit.ledger.entries import (
    ORDER_WORDS,
    amounts_of,
    analyst_owner,
    check_text,
    conversation_name,
    conversation_owner,
    owners_of,
    plain_name,
    repeat_name,
    reserve_body,
    run_name,
    source_name,
    typed_of,
    unit_name,
)
from tacit.ledger.errors import ConflictError, ReplacedKeyError, RollbackError, StorageError, storage_errors
from tacit.ledger.journal import Clock, Journal
from tacit.ledger.memory import MEMORY, rehearsed_on
from tacit.ledger.opening import (
    ANEW,
    check_anchor,
    check_not_gone,
    choose_anchor,
    is_postgres,
    loss_of,
    lost_name,
    open_journal,
    open_reader,
    open_store,
)
from tacit.ledger.protection import ProtectedUnits
from tacit.ledger.protocol import AlreadyTaken, Appended, Head, InsufficientBudget, Name, Store, digest
from tacit.ledger.records import (
    Analyst,
    LedgerBudget,
    Order,
    Outcome,
    PricedCharge,
    Record,
    Reservation,
    Succession,
    VerificationReport,
    budget,
    check_readable,
    describe_terms,
    filter_from_terms,
    price,
    shortage,
    stated_caps,
    terms_of,
)
from tacit.ledger.signing_keys import SigningKeys
from tacit.ledger.verify import Override, Overrides

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9 ._-]{0,59}\Z")


class ConversationShares:
    """Shares of an account that are fixed for conversations with assistants."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def fix(self, population: str, name: str, caps: Mapping[str, Number], *, analyst: str) -> None:
        """Fix the share of a conversation, or check that it is the share fixed before.

        Args:
            population: the account.
            name: name of the conversation.
            caps: the share's caps by currency of the account; currencies not named have no cap but the account's.
            analyst: the analyst whose conversation it is.

        Raises:
            InputError: the conversation has another share, or the name or a currency cannot be used.
        """
        account, who, what = _spelled(population, name, analyst)
        with self._journal.working():
            written = stated_caps(filter_from_terms(self._journal.terms(account)), caps)
            if self._place(account, who, what) is None:
                words = {"population": account, "analyst": who, "name": what, "caps": written}
                self._journal.write({"kind": "conversation", **words})
            known = self._journal.read(self._place(account, who, what) or 0, "conversation")[1]["caps"]
        if known != written:
            raise InputError(
                "conversation",
                f"{what!r} has a share of {_words(known)} of {account}, and not of {_words(written)}; a share is fixed "
                "when a conversation begins: state the same one, or name another conversation",
            )

    def check(self, population: str, name: str, *, analyst: str) -> None:
        """Refuse a conversation without a share.

        Raises:
            InputError: it has no share.
        """
        account, who, what = _spelled(population, name, analyst)
        if self._place(account, who, what) is None:
            raise InputError("conversation", f"{what!r} has no share of {account}; state how much it may spend")

    def _place(self, population: str, analyst: str, name: str) -> int | None:
        return self._journal.find(conversation_name(population, conversation_owner(analyst, name)))


def _spelled(population: str, name: str, analyst: str) -> tuple[str, str, str]:
    what = plain_name(name, "conversation")
    if _NAME.match(what) is None:
        raise InputError("conversation", "must be 1 to 60 letters, digits, spaces, dots, dashes and underscores")
    return plain_name(population, "population"), plain_name(analyst, "analyst"), what


def _words(caps: Mapping[str, str | None]) -> str:
    return ", ".join(f"{currency} {cap}" for currency, cap in caps.items() if cap is not None) or "everything"


def _currencies(limit: Filter) -> tuple[object, ...]:
    return type(limit), limit.relation, tuple(line.currency for line in limit.lines)


#: Maximal number of runs of one charge. Concurrent processes that get the same query each use one run.
MOST_RUNS: Final = 16
_MOST_PRICES: Final = 1024


class Ledger(Closing):
    """Accounts, charges and outcomes in one append-only, hash-chained journal. Safe to use from several threads.

    Any number of processes may hold the same ledger open. After a storage error the object is stopped for good: every
    further call raises :class:`LedgerError`.
    """

    def __init__(self, journal: Journal) -> None:
        #: Appends and reads entries.
        self.journal = journal
        #: Random identifier, fixed when the ledger was made.
        self.id = journal.id
        #: Keys that sign receipts.
        self.keys = SigningKeys(journal)
        #: Declarations of the protected unit: the columns that identify one person of a population.
        self.units = ProtectedUnits(journal)
        #: Shares of conversations with assistants.
        self.conversations = ConversationShares(journal)
        # The rule of an account is fixed when it is made, so it is read once.
        limit_of = lru_cache(maxsize=None)(lambda population: filter_from_terms(journal.terms(population)))

        def priced(population: str, charge: Charge) -> PricedCharge:
            found = price(limit_of(population), charge)
            check_readable(found)
            return found

        self._price, self._known_price = priced, lru_cache(maxsize=_MOST_PRICES)(priced)
        self._overrides, self._looking = Overrides(), threading.Lock()

    @classmethod
    def on(
        cls,
        store: Store,
        anchor: Anchor,
        *,
        public_key: str = "",
        key_check: str = "",
        clock: Clock | None = None,
        override: Mapping[str, str] | None = None,
    ) -> Self:
        """Open the ledger in a store if it is intact and the anchor agrees; create a new one in an empty store.

        Args:
            store: the database; it is closed if the ledger cannot be opened.
            anchor: remembers the newest entry.
            public_key: public key that signs receipts, for the first entry of a new ledger.
            key_check: check value of the other secrets, for the first entry of a new ledger.
            clock: gives the times written into entries, for people to read.
            override: operator and reason for accepting the ledger although the anchor does not agree.
        """
        keys = {"public_key": public_key, **({"key_check": key_check} if key_check else {})}
        try:
            with storage_errors():
                return cls(open_journal(store, anchor, keys, clock, override))
        except BaseException:
            store.close()
            raise

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        anchor: str | os.PathLike[str] | None = None,
        create: bool = True,
        public_key: str = "",
        key_check: str = "",
        clock: Clock | None = None,
    ) -> Self:
        """Open the ledger at ``place``, making a new one where there is none.

        Args:
            place: a file for SQLite, ``postgresql://…``, or ``:memory:`` for a ledger that ends with the process.
            anchor: the file that remembers the newest entry, outside the ledger's folder; by default in the user's
                state directory (``TACIT_STATE``, ``XDG_STATE_HOME`` or ``~/.local/state``), by the ledger's id.
            create: whether a new ledger may be made.
            public_key: public key that signs receipts, written into the first entry of a new ledger.
            key_check: check value of the other secrets that belong to the ledger; written into the first entry, too.
            clock: gives the times written into entries, for people to read; no decision depends on it.

        Raises:
            RollbackError: the ledger is older than its anchor, or the anchor is missing.
            LedgerError: it is damaged, cannot be written, or does not exist and ``create`` is false.
        """
        with storage_errors():
            check_not_gone(place, anchor)
            store = open_store(place, create=create)
            found = choose_anchor(anchor, store.place)
            return cls.on(store, found, public_key=public_key, key_check=key_check, clock=clock)

    @classmethod
    def adopt(
        cls,
        place: str | os.PathLike[str],
        *,
        reason: str,
        operator: str,
        anchor: str | os.PathLike[str] | None = None,
        public_key: str = "",
        key_check: str = "",
        clock: Clock | None = None,
    ) -> Self:
        """Open a ledger whose anchor is missing or ahead, after a full verification.

        A permanent entry records the adoption, the operator, the reason, and the anchor's mark. Where the anchor proves
        that entries are missing, every account is charged its whole remaining budget (:mod:`tacit.ledger.opening`).
        Where the ledger was deleted, a new one is created, with ``public_key`` and ``key_check`` as in :meth:`open`.
        """
        words = {"reason": check_text(reason, "reason"), "operator": check_text(operator, "operator")}
        with storage_errors():
            store = open_store(place, create=True)
            found = choose_anchor(anchor, store.place)
            return cls.on(store, found, public_key=public_key, key_check=key_check, clock=clock, override=words)

    @classmethod
    def examine(
        cls,
        place: str | os.PathLike[str],
        *,
        anchor: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
        check_outcome: Callable[[Outcome], str | None] | None = None,
    ) -> VerificationReport:
        """Verify the whole ledger without changing it, even if :meth:`open` refuses it."""
        with storage_errors(), open_reader(place, still=True) as (reader, _):
            report = verify.verify(reader, progress=progress, check_outcome=check_outcome)
        with storage_errors(), open_reader(place, still=False) as (reader, where):
            try:
                check_anchor(reader, choose_anchor(anchor, where), report.ledger, where)
            except (RollbackError, StorageError) as problem:
                report = replace(report, problems=(*report.problems, str(problem)))
            return report

    @classmethod
    def back_up(
        cls,
        place: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        check_outcome: Callable[[Outcome], str | None] | None = None,
    ) -> VerificationReport:
        """Copy the SQLite file of a ledger, which may be in use, to a new file; verify the copy, return the report."""
        if is_postgres(place) or place == MEMORY:
            raise InputError("ledger", "is no file; copy a ledger in PostgreSQL with pg_dump, or by its own backups")
        from tacit.ledger.sqlite import copy_file

        to = Path(target).resolve()
        with storage_errors():
            copy_file(place, to)
            with open_reader(to, still=True) as (reader, _):
                return verify.verify(reader, check_outcome=check_outcome)

    def rehearsal(self) -> Self:
        """Return a ledger over this one whose writes are discarded, for one thread and a short while."""
        with self.journal.working():
            store, anchor = rehearsed_on(self.journal.store, self.id)
        return self.on(store, anchor, clock=self.journal.clock)

    @property
    def place(self) -> str:
        """Location of the database, without passwords."""
        return self.journal.store.place

    @property
    def durable(self) -> bool:
        """Whether the ledger outlives the process."""
        return self.place != MEMORY

    @property
    def head(self) -> Head:
        """Number and hash of the newest entry."""
        with self.journal.working():
            return self.journal.store.head()

    @property
    def public_key(self) -> str:
        """The public key in force: it signs the receipts from here on."""
        return self.keys.in_force

    def successions(self) -> tuple[Succession, ...]:
        """Return all replacements of the key that signs receipts, in order."""
        return self.keys.successions()

    def overrides(self) -> tuple[Override, ...]:
        """Return the decisions of operators, in order: adoptions, losses, changed caps, new versions, replaced keys."""
        with self.journal.working(), self._looking:
            return self._overrides.of(self.journal.store)

    def unit_entry(self, population: str) -> int:
        """Return the number of the entry that fixes the protected unit; 0 if there is none.

        If the number changes, sources must be opened again.
        """
        with self.journal.working():
            return self.journal.find(unit_name(plain_name(population, "population"))) or 0

    def note(self, kind: str, fields: Mapping[str, Any]) -> Head:
        """Append a permanent note: plain JSON, integers and text, no floats."""
        with self.journal.working():
            placed = self.journal.write({"kind": "note", "note": check_text(kind, "kind"), "fields": dict(fields)})
            if not isinstance(placed, Appended):
                raise StorageError("a note was refused")
            return placed.head

    def notes(self, kind: str | None = None) -> Iterator[tuple[Head, Mapping[str, Any]]]:
        """Iterate over notes in order, of one kind or of all."""
        for entry, body in self.journal.bodies():
            if body["kind"] == "note" and kind in (None, body["note"]):
                yield entry.head, body["fields"]

    # Accounts, quotas, sources and analysts ---------------------------------------------------------------------

    def ensure_account(self, population: str, limit: Filter) -> None:
        """Make the account of a population, or check that it has exactly these terms.

        Args:
            population: its name; names that differ only in case or Unicode form are the same.
            limit: a filter with nothing spent, which states rule, relation and caps.

        Raises:
            InputError: the account exists with other terms. Rule and relation are fixed; :meth:`change_caps` changes
                caps, and leaves a permanent entry.
        """
        name, terms = plain_name(population, "population"), terms_of(limit)
        with self.journal.working():
            if self.journal.find(Name("account", name)) is None:
                self.journal.write({"kind": "account", "population": name, "terms": terms})
            if self.journal.find(ANEW) is not None and self.journal.find(lost_name(name)) is None:
                self.journal.write(loss_of(self.journal.store, name, anew=True) or {})
            known = self.journal.terms(name)
        if known != terms:
            raise InputError(
                f"populations.{name}",
                f"the account has {describe_terms(known)}; stated is {describe_terms(terms)}. State the account's "
                f"terms, or change its caps: tacit ledger caps {name} --reason …",
            )

    def change_caps(self, population: str, limit: Filter, *, reason: str, operator: str) -> None:
        """Give an account new caps under the same rule and relation. Earlier charges stay."""
        name, terms = plain_name(population, "population"), terms_of(limit)
        words = {"reason": check_text(reason, "reason"), "operator": check_text(operator, "operator")}
        with self.journal.working():
            known = filter_from_terms(self.journal.terms(name))
            if _currencies(known) != _currencies(limit):
                raise InputError(
                    "limit", f"must keep the account's rule and relation: {describe_terms(terms_of(known))}"
                )
            self.journal.write({"kind": "caps", "population": name, "terms": terms, **words})

    def accounts(self) -> tuple[str, ...]:
        """Return the names of all populations."""
        with self.journal.working():
            return tuple(name.key for name, _ in self.journal.store.names("account"))

    def filter(self, population: str) -> Filter:
        """Return a filter with the account's terms, nothing spent; it gives costs and the account's guarantee."""
        name = plain_name(population, "population")
        with self.journal.working():
            return filter_from_terms(self.journal.terms(name))

    def set_quota(
        self, population: str, caps: Mapping[str, Number] | None, *, analyst: str, operator: str = ""
    ) -> None:
        """Limit what one analyst may spend of an account; all earlier spending counts.

        Args:
            population: the account.
            caps: by currency of the account's filter, such as ``{"epsilon": "1"}``; currencies not named have no cap
                but the account's. ``None`` removes the quota.
            analyst: the analyst to limit.
            operator: the operator who decided.
        """
        name, owner = plain_name(population, "population"), analyst_owner(plain_name(analyst, "analyst"))
        with self.journal.working():
            written = stated_caps(filter_from_terms(self.journal.terms(name)), caps or {})
            body = {"kind": "quota", "population": name, "owner": owner, "caps": written, "operator": operator}
            self.journal.write(body)

    def limit_analyst(self, population: str, analyst: str, caps: Mapping[str, Number]) -> None:
        """Limit an analyst who has no quota; a quota that an operator has set stays."""
        name, owner = plain_name(population, "population"), analyst_owner(plain_name(analyst, "analyst"))
        with self.journal.working():
            known = any(state.cap is not None for state in self.journal.store.balances(name, [owner]))
        if not known:
            self.set_quota(population, caps, analyst=analyst, operator="policy")

    def period(self, population: str) -> str:
        """Return the version of the data, or period, that charges now belong to; empty if there was never one."""
        seq = self.journal.find(Name("period", plain_name(population, "population")))
        return "" if seq is None else str(self.journal.read(seq, "renewal")[1]["period"])

    def renew(self, population: str, period: str, caps: Mapping[str, Number]) -> None:
        """Begin a version of the data, or a period, with caps on its charges; or check that it is the one in force.

        The caps of the account count the charges of all periods, and stay. No clock is read: a period begins by its
        entry alone, has its caps for good, and does not come back after another one.

        Args:
            population: the account.
            period: name of the version or period.
            caps: by currency of the account.

        Raises:
            InputError: it has other caps, or another one was begun after it.
        """
        name, what = plain_name(population, "population"), plain_name(period, "version")
        with self.journal.working():
            written = stated_caps(filter_from_terms(self.journal.terms(name)), caps)
            if self.period(name) != what:
                self.journal.write({"kind": "renewal", "population": name, "period": what, "caps": written})
            now = self.period(name)
            if now != what:
                raise InputError(
                    f"populations.{name}.policy.version",
                    f"{what!r} was followed by {now!r}, and does not come back: state that, or a new word",
                )
            known = self.journal.read(self.journal.find(Name("period", name)) or 0, "renewal")[1]["caps"]
        if known != written:
            raise InputError(
                f"populations.{name}.policy.per_version",
                f"is fixed when a version begins, and {what!r} has another; state a new version",
            )

    def bind_source(self, population: str, fingerprints: Sequence[str], *, name: str = "") -> None:
        """Record that a source is about people of a population; a source is recognised by any one of its fingerprints.

        Raises:
            InputError: it belongs to another population, which the message names.
        """
        owner = plain_name(population, "population")
        with self.journal.working():
            self.journal.terms(owner)
            while fresh := self._unbound(owner, fingerprints):
                body = {"kind": "source", "population": owner, "fingerprints": fresh, "name": name}
                if isinstance(self.journal.write(body), Appended):
                    return

    def source_of(self, fingerprint: str) -> str | None:
        """Return the population that a fingerprint belongs to, or None."""
        with self.journal.working():
            seq = self.journal.find(source_name(fingerprint))
            return None if seq is None else str(self.journal.read(seq, "source")[1]["population"])

    def _unbound(self, population: str, fingerprints: Sequence[str]) -> list[str]:
        """Return the fingerprints that belong to no population yet."""
        fresh = []
        for fingerprint in dict.fromkeys(fingerprints):
            owner = self.source_of(fingerprint)
            if owner is None:
                fresh.append(fingerprint)
            elif owner != population:
                raise InputError(
                    "source",
                    f"belongs to the population {owner!r}, whose account it is charged to; it cannot be {population!r}",
                )
        return fresh

    def add_analyst(self, name: str, details: Mapping[str, Any] | None = None, *, operator: str = "") -> None:
        """Register an analyst, change their details, or readmit them. Their earlier charges still count."""
        self._register(name, active=True, details=details or {}, operator=operator, reason="")

    def revoke_analyst(self, name: str, *, operator: str = "", reason: str = "") -> None:
        """Revoke an analyst: from here on :meth:`reserve` refuses their orders."""
        self._register(name, active=False, details=None, operator=operator, reason=reason)

    def _register(
        self, name: str, *, active: bool, details: Mapping[str, Any] | None, operator: str, reason: str
    ) -> None:
        """Register or revoke an analyst; without ``details`` the known ones stay."""
        who = plain_name(name, "name")
        with self.journal.working():
            if details is None:
                known = self.journal.find(Name("analyst", who))
                details = {} if known is None else self.journal.read(known, "analyst")[1]["details"]
            words = {"operator": operator, "reason": reason}
            self.journal.write({"kind": "analyst", "name": who, "active": active, "details": dict(details), **words})

    def analysts(self) -> tuple[Analyst, ...]:
        """Return everyone ever registered, sorted by name."""
        with self.journal.working():
            found = [self.journal.read(seq, "analyst") for _, seq in self.journal.store.names("analyst")]
            return tuple(Analyst(body["name"], body["active"], body["details"], entry.seq) for entry, body in found)

    # The way of a charge -----------------------------------------------------------------------------------------

    def reserve(self, order: Order) -> Reservation | Outcome:
        """Authorise a charge, durably; or return the existing reservation or outcome of an equal order at no cost.

        * A new order that fits: a :class:`Reservation`. Now data may be read.
        * Its repeat key or idempotency key is known and its outcome exists: that :class:`Outcome`.
        * The key is known and there is no outcome yet (still running elsewhere, or its process died): the same
          reservation, with ``resumed`` set. Run it; the first commit decides what is released.

        Raises:
            BudgetError: the charge does not fit; the message names the missing budget. Nothing was charged.
            InputError: it names a conversation whose share was not fixed.
            AccountingError: the charge has no cost in the account's currency.
            ConflictError: the idempotency key stands for another request.
            AccessError: the analyst was revoked, or there is no such account.
            BusyError: nothing was charged; try again.
            LedgerError: it is unknown whether the order was charged; nothing may be answered.
        """
        with self.journal.working():
            period = self.period(order.population)
            body = reserve_body(order, lambda population: self.price(population, order.charge), period)
            if order.conversation:
                self.conversations.check(body["population"], body["conversation"], analyst=body["analyst"])
            result = self.journal.write(body)
            if isinstance(result, Appended):
                return _reservation(result.head.seq, result.head.hash, result.previous, body)
            if isinstance(result, InsufficientBudget):
                terms = self.journal.terms(body["population"])
                raise BudgetError(shortage(body, result.balances, filter_from_terms(terms)))
            return self._known(body, result)

    def resume(self, seq: int, order: Order) -> Reservation | Outcome:
        """Return the charge at entry ``seq``, to run its order once more under it, or its outcome. Charge nothing.

        Raises:
            ConflictError: the charge was for another order.
        """
        with self.journal.working():
            body = reserve_body(order, lambda population: self.price(population, order.charge))
            _, paid = self.journal.read(seq, "reserve")
            if any(paid[name] != body[name] for name in ("population", "event", "analyst", "project", "sql", "plan")):
                raise ConflictError("position", f"the charge at {seq} was for another release")
            return self._kept(seq) or self._reservation(seq, resumed=True)

    def run_again(self, reservation: Reservation) -> int:
        """Record that a charge is run once more; return the number of this run, from 2 on, or 0 if it must not run.

        A run that fails has an outcome that says so. A run whose process was killed has none, and none can be written
        for it. The next order for the same release runs under the same charge, and has an entry for that run. Without a
        limit on runs, a query that kills its process depending on one person's rows could be tried again at no cost.

        Args:
            reservation: a ``resumed`` one: an equal order was admitted before, and has no outcome yet.
        """
        with self.journal.working():
            for number in range(2, MOST_RUNS + 1):
                if self.journal.find(run_name(reservation.seq, number)) is not None:
                    continue
                body = {"kind": "run", "of": reservation.seq, "number": number}
                if isinstance(self.journal.write(body), Appended):
                    return number
        return 0

    def commit(self, reservation: Reservation, result: bytes, *, receipt: bytes = b"", key: str = "") -> Outcome:
        """Make an outcome durable and return the outcome to release.

        The first commit of a reservation wins. **Answer with the bytes of the outcome that is returned**, which are
        those of another run if that one was first (``repeated`` is then set).

        Raises:
            ReplacedKeyError: another key has replaced ``key``; sign the receipt with that one and commit again.
        """
        with self.journal.working():
            if self.journal.read(reservation.seq)[0].hash != reservation.hash:
                raise InputError("reservation", "is not one of this ledger")
            contents = {"result": result, "receipt": receipt}
            digests = {name: digest(content) for name, content in contents.items()}
            signed = {"key": key} if key else {}
            body = {"kind": "commit", "of": reservation.seq, "papers": digests, **signed}
            placed = self.journal.write(body, contents)
            if isinstance(placed, Appended):
                return Outcome(reservation, placed.head.seq, digests["result"], result, receipt, key=key)
            if isinstance(placed, AlreadyTaken) and placed.name.space == "successor":
                raise ReplacedKeyError(f"the key {key} was replaced at entry {placed.seq}")
            kept = self._kept(reservation.seq)
            if kept is None:
                raise StorageError(f"the outcome of entry {reservation.seq} is gone")
            return kept

    def outcome_under(self, population: str, repeat_key: str) -> Outcome | None:
        """Return the outcome under a repeat key; None while there is none."""
        with self.journal.working():
            seq = self.journal.find(repeat_name(plain_name(population, "population"), repeat_key))
            return None if seq is None else self._kept(seq)

    def outcome(self, seq: int) -> Outcome | None:
        """Return the outcome of the reservation at entry ``seq``; None while there is none."""
        with self.journal.working():
            return self._kept(seq)

    def budget(
        self,
        population: str,
        *,
        analyst: str = "",
        conversation: str = "",
        charge: Charge | None = None,
    ) -> LedgerBudget:
        """Return spent and remaining amounts, and how many more charges like ``charge`` fit."""
        name = plain_name(population, "population")
        with self.journal.working():
            who = plain_name(analyst, "analyst", empty=True)
            what = plain_name(conversation, "conversation", empty=True)
            owners = owners_of(who, what, self.period(name))
            limit = filter_from_terms(self.journal.terms(name))
            states = self.journal.store.balances(name, owners)
        return budget(limit, name, owners, states, None if charge is None else price(limit, charge))

    def history(
        self, *, population: str = "", analyst: str = "", project: str = "", newest_first: bool = False
    ) -> Iterator[Record]:
        """Iterate over the charges in order, streaming: of a population, an analyst, a project, or all."""
        wanted = {
            "population": plain_name(population, "population", empty=True),
            "analyst": plain_name(analyst, "analyst", empty=True),
            "project": plain_name(project, "project", empty=True),
        }
        for entry, body in self.journal.bodies(newest_first=newest_first):
            if body["kind"] == "reserve" and all(body[key] == value for key, value in wanted.items() if value):
                yield history.record_of(self.journal, entry, body)

    # Trust -------------------------------------------------------------------------------------------------------

    def check_receipt(self, seq: int, hash: str, *, ledger: str = "") -> None:  # noqa: A002
        """Compare a receipt with the ledger.

        Raises:
            RollbackError: the receipt is of another ledger or newer than the head, or its entry has another hash here.
        """
        with self.journal.working():
            if ledger and ledger != self.id:
                raise RollbackError(f"the receipt is of ledger {ledger}, and this is ledger {self.id}")
            entry = self.journal.store.entry(seq) if seq > 0 else None
            if entry is None:
                raise RollbackError(
                    f"the receipt is of entry {seq}, and this ledger ends at entry {self.journal.store.head().seq}: "
                    f"it is an old copy"
                )
            if entry.hash != hash:
                raise RollbackError(
                    f"the receipt says that entry {seq} has hash {hash[:16]}…, and here it has {entry.hash[:16]}…: "
                    f"this is another history"
                )

    def verify(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        check_outcome: Callable[[Outcome], str | None] | None = None,
    ) -> VerificationReport:
        """Recompute everything: chain, costs, sums, caps, names, outcomes. A ledger with problems is stopped.

        Args:
            progress: called now and then with the number of entries done and the number of all entries.
            check_outcome: called with every outcome; returns the problem with its receipt, or ``None``.
        """
        with self.journal.working(), self.journal.store.snapshot() as snapshot:
            report = verify.verify(snapshot, progress=progress, check_outcome=check_outcome)
        if not report.ok:
            self.journal.stop(f"verification found that {report.problems[0]}")
        return report

    def close(self) -> None:
        """Close the store; further calls raise."""
        self.journal.stop("it was closed")
        self.journal.store.close()

    def price(self, population: str, charge: Charge) -> PricedCharge:
        """Return the cost of a charge in an account. Events and guarantees are values, so their costs are cached."""
        if isinstance(charge, Event | Guarantee):
            return self._known_price(population, charge)
        return self._price(population, charge)

    def _reservation(self, seq: int, *, resumed: bool) -> Reservation:
        entry, body = self.journal.read(seq, "reserve")
        # The process that made the entry may have died before the anchor remembered it.
        self.journal.remember(entry.head)
        return _reservation(seq, entry.hash, entry.previous, body, resumed=resumed)

    def _kept(self, seq: int) -> Outcome | None:
        """Return the stored outcome of a reservation, compared with its digests; None if there is none."""
        at = self.journal.find(Name("outcome", str(seq)))
        if at is None:
            return None
        commit, body = self.journal.read(at, "commit")
        if body["of"] != seq:
            raise StorageError(f"entry {at} is not the outcome of entry {seq}")
        result, receipt = (self.journal.store.attachment(at, name) for name in ("result", "receipt"))
        if (
            result is None
            or receipt is None
            or body["papers"] != {"result": digest(result), "receipt": digest(receipt)}
        ):
            raise StorageError(f"what is kept with entry {at} does not fit its digest")
        self.journal.remember(commit.head)
        reservation = self._reservation(seq, resumed=False)
        key = body.get("key", "")
        return Outcome(reservation, at, body["papers"]["result"], result, receipt, repeated=True, key=key)

    def _known(self, body: Mapping[str, Any], taken: AlreadyTaken) -> Reservation | Outcome:
        """Return what exists for an order that cannot be new, because a name it needs is taken."""
        if taken.name.space == "revoked":
            raise AccessError(f"{body['analyst']} may not ask any more")
        seq = taken.seq
        if taken.name.space == "repeat" and body["key"]:
            words = {name: body[name] for name in ORDER_WORDS}
            again = self.journal.write({"kind": "repeat", "of": seq, **words})
            if isinstance(again, AlreadyTaken):
                return self._known({**body, "repeat": ""}, again)
        elif taken.name.space == "request":
            seq = self._same_request(body, seq)
        return self._kept(seq) or self._resumed(body, seq, taken.name.space)

    def _resumed(self, body: Mapping[str, Any], seq: int, space: str) -> Reservation:
        """Return the charge of an equal order, after checking that it was for the same event and population."""
        _, paid = self.journal.read(seq, "reserve")
        if (paid["population"], paid["event"]) != (body["population"], body["event"]):
            parameter = "repeat_key" if space == "repeat" else "idempotency_key"
            raise ConflictError(parameter, "stands for a charge that was for another release; use a fresh one")
        return self._reservation(seq, resumed=True)

    def _same_request(self, body: Mapping[str, Any], seq: int) -> int:
        """Return the number of the charge that an idempotency key stands for, if it was given with the same request."""
        _, first = self.journal.read(seq, "reserve", "repeat")
        if (first["analyst"], first["key"]) != (body["analyst"], body["key"]):
            raise StorageError(f"entry {seq} does not hold the request it should")
        if (first["request"], first["population"]) != (body["request"], body["population"]):
            raise ConflictError("idempotency_key", "was used before for another request; use a fresh one")
        return int(first["of"]) if first["kind"] == "repeat" else seq


def _reservation(
    seq: int, digest: str, previous: str, body: Mapping[str, Any], *, resumed: bool = False
) -> Reservation:
    """Return the reservation of a charge from the number, hashes and contents of its entry."""
    return Reservation(seq, digest, previous, body["population"], amounts_of(body), typed_of(body), resumed)
