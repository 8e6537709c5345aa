"""Registrations: accounts and their caps, quotas, sources and analysts, as entries of the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.accounting.filters import Filter
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.ledger.entries import check_text, owner_of, plain_name, source_name
from tacit.ledger.journal import Journal
from tacit.ledger.messages import terms_words
from tacit.ledger.opening import ANEW, loss_of, lost_name
from tacit.ledger.protocol import Appended, Name
from tacit.ledger.records import Analyst, filter_from_terms, stated_caps, terms_of


class Registrations:
    """Writes down accounts, quotas, sources and analysts, and finds them; a part of :class:`~.ledger.Ledger`."""

    def __init__(self, journal: Journal) -> None:
        #: Appends and reads entries.
        self.journal = journal

    def ensure_account(self, population: str, limit: Filter) -> None:
        """Make the account of a population, or check that it has exactly these terms.

        Args:
            population: its name; names that differ only in case or Unicode form are the same.
            limit: an empty filter that states rule, relation and caps.

        Raises:
            InputError: the account exists with other terms. They are fixed; :meth:`change_caps` is the way to change
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
                f"has an account with other terms, {terms_words(known)}, and not {terms_words(terms)}; terms are "
                f"fixed when an account is made, caps can be changed by an operator with `tacit ledger caps`",
            )

    def change_caps(self, population: str, limit: Filter, *, reason: str, operator: str) -> None:
        """Give an account other caps of the same rule and relation. Earlier charges stay."""
        name, terms = plain_name(population, "population"), terms_of(limit)
        words = {"reason": check_text(reason, "reason"), "operator": check_text(operator, "operator")}
        with self.journal.working():
            known = filter_from_terms(self.journal.terms(name))
            if _currencies(known) != _currencies(limit):
                raise InputError("limit", f"must keep the account's rule and relation: {terms_words(terms_of(known))}")
            self.journal.write({"kind": "caps", "population": name, "terms": terms, **words})

    def accounts(self) -> tuple[str, ...]:
        """Names of all populations."""
        with self.journal.working():
            return tuple(name.key for name, _ in self.journal.store.names("account"))

    def filter(self, population: str) -> Filter:
        """An empty filter with the account's terms; for prices and for its guarantee."""
        name = plain_name(population, "population")
        with self.journal.working():
            return filter_from_terms(self.journal.terms(name))

    def set_quota(
        self,
        population: str,
        caps: Mapping[str, Number] | None,
        *,
        analyst: str = "",
        project: str = "",
        operator: str = "",
    ) -> None:
        """Limit what one analyst or one project may spend of an account, from everything they ever spent on.

        Args:
            population: the account.
            caps: by currency of the account's filter, such as ``{"epsilon": "1"}``; currencies not named stay free
                within the account. ``None`` takes the limit away.
            analyst: whose limit; or
            project: whose.
            operator: who decided.
        """
        name = plain_name(population, "population")
        who, what = plain_name(analyst, "analyst", empty=True), plain_name(project, "project", empty=True)
        if bool(who) == bool(what):
            raise InputError("analyst", "say whose quota it is: an analyst's or a project's, one of them")
        with self.journal.working():
            written = stated_caps(filter_from_terms(self.journal.terms(name)), caps or {})
            body = {"kind": "quota", "population": name, "owner": owner_of(who, what), "caps": written}
            self.journal.write({**body, "operator": operator})

    def limit_analyst(self, population: str, analyst: str, caps: Mapping[str, Number]) -> None:
        """Limit an analyst for whom nothing was decided; a limit that an operator has set stays."""
        name, owner = plain_name(population, "population"), owner_of(plain_name(analyst, "analyst"), "")
        with self.journal.working():
            known = any(state.cap is not None for state in self.journal.store.balances(name, [owner]))
        if not known:
            self.set_quota(population, caps, analyst=analyst, operator="policy")

    def period(self, population: str) -> str:
        """The version of the data, or period, in which charges fall; empty where none was ever stated."""
        seq = self.journal.find(Name("period", plain_name(population, "population")))
        return "" if seq is None else str(self.journal.read(seq, "renewal")[1]["period"])

    def renew(self, population: str, period: str, caps: Mapping[str, Number]) -> None:
        """Begin a version of the data, or a period, with caps for its charges; or check that it is the one in force.

        The caps of the account count all charges of all periods, and stay. No clock is read: a period begins by its
        entry alone, has its caps for good, and does not come back after another one.

        Args:
            population: the account.
            period: a name.
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
        """Note that a source holds persons of a population; any one known fingerprint makes it the same source.

        Raises:
            InputError: it belongs to another population, which is named.
        """
        owner = plain_name(population, "population")
        with self.journal.working():
            self.journal.terms(owner)
            while fresh := self._unbound(owner, fingerprints):
                body = {"kind": "source", "population": owner, "fingerprints": fresh, "name": name}
                if isinstance(self.journal.write(body), Appended):
                    return

    def source_of(self, fingerprint: str) -> str | None:
        """The population that a fingerprint belongs to."""
        with self.journal.working():
            seq = self.journal.find(source_name(fingerprint))
            return None if seq is None else str(self.journal.read(seq, "source")[1]["population"])

    def _unbound(self, population: str, fingerprints: Sequence[str]) -> list[str]:
        """The fingerprints that nothing is known of yet."""
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
        """Register an analyst, change their details, or admit them again. Their earlier charges still count."""
        self._register(name, active=True, details=details or {}, operator=operator, reason="")

    def revoke_analyst(self, name: str, *, operator: str = "", reason: str = "") -> None:
        """From here on :meth:`~.ledger.Ledger.reserve` refuses them."""
        self._register(name, active=False, details=None, operator=operator, reason=reason)

    def _register(
        self, name: str, *, active: bool, details: Mapping[str, Any] | None, operator: str, reason: str
    ) -> None:
        """Register or revoke an analyst; without ``details`` those that are known stay."""
        who = plain_name(name, "name")
        with self.journal.working():
            if details is None:
                known = self.journal.find(Name("analyst", who))
                details = {} if known is None else self.journal.read(known, "analyst")[1]["details"]
            words = {"operator": operator, "reason": reason}
            self.journal.write({"kind": "analyst", "name": who, "active": active, "details": dict(details), **words})

    def analysts(self) -> tuple[Analyst, ...]:
        """Everyone ever registered, by name."""
        with self.journal.working():
            found = [self.journal.read(seq, "analyst") for _, seq in self.journal.store.names("analyst")]
            return tuple(Analyst(body["name"], body["active"], body["details"], entry.seq) for entry, body in found)


def _currencies(limit: Filter) -> tuple[object, ...]:
    return type(limit), limit.relation, tuple(line.currency for line in limit.lines)
