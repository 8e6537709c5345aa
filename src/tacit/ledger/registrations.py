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


def ensure_account(journal: Journal, population: str, limit: Filter) -> None:
    """Make the account of a population, or check that it has exactly these terms."""
    name, terms = plain_name(population, "population"), terms_of(limit)
    with journal.working():
        if journal.find(Name("account", name)) is None:
            journal.write({"kind": "account", "population": name, "terms": terms})
        if journal.find(ANEW) is not None and journal.find(lost_name(name)) is None:
            journal.write(loss_of(journal.store, name, anew=True) or {})
        known = journal.terms(name)
    if known != terms:
        raise InputError(
            f"populations.{name}",
            f"has an account with other terms, {terms_words(known)}, and not {terms_words(terms)}; terms are "
            f"fixed when an account is made, caps can be changed by an operator with `tacit ledger caps`",
        )


def change_caps(journal: Journal, population: str, limit: Filter, *, reason: str, operator: str) -> None:
    """Give an account other caps of the same rule and relation."""
    name, terms = plain_name(population, "population"), terms_of(limit)
    words = {"reason": check_text(reason, "reason"), "operator": check_text(operator, "operator")}
    with journal.working():
        known = filter_from_terms(journal.terms(name))
        if _currencies(known) != _currencies(limit):
            raise InputError("limit", f"must keep the account's rule and relation: {terms_words(terms_of(known))}")
        journal.write({"kind": "caps", "population": name, "terms": terms, **words})


def _currencies(limit: Filter) -> tuple[object, ...]:
    return type(limit), limit.relation, tuple(line.currency for line in limit.lines)


def set_quota(
    journal: Journal,
    population: str,
    caps: Mapping[str, Number] | None,
    *,
    analyst: str,
    project: str,
    operator: str,
) -> None:
    """Limit what an analyst or a project may spend of an account; None takes the limit away."""
    name = plain_name(population, "population")
    who, what = plain_name(analyst, "analyst", empty=True), plain_name(project, "project", empty=True)
    if bool(who) == bool(what):
        raise InputError("analyst", "say whose quota it is: an analyst's or a project's, one of them")
    with journal.working():
        written = stated_caps(filter_from_terms(journal.terms(name)), caps or {})
        owner = owner_of(who, what)
        journal.write({"kind": "quota", "population": name, "owner": owner, "caps": written, "operator": operator})


def bind_source(journal: Journal, population: str, fingerprints: Sequence[str], *, name: str) -> None:
    """Note that a source holds persons of a population."""
    owner = plain_name(population, "population")
    with journal.working():
        journal.terms(owner)
        while fresh := _unbound(journal, owner, fingerprints):
            body = {"kind": "source", "population": owner, "fingerprints": fresh, "name": name}
            if isinstance(journal.write(body), Appended):
                return


def source_of(journal: Journal, fingerprint: str) -> str | None:
    """The population that a fingerprint belongs to."""
    with journal.working():
        seq = journal.find(source_name(fingerprint))
        return None if seq is None else str(journal.read(seq, "source")[1]["population"])


def _unbound(journal: Journal, population: str, fingerprints: Sequence[str]) -> list[str]:
    """The fingerprints that nothing is known of yet."""
    fresh = []
    for fingerprint in dict.fromkeys(fingerprints):
        owner = source_of(journal, fingerprint)
        if owner is None:
            fresh.append(fingerprint)
        elif owner != population:
            raise InputError(
                "source",
                f"belongs to the population {owner!r}, whose account it is charged to; it cannot be {population!r}",
            )
    return fresh


def register(
    journal: Journal,
    name: str,
    *,
    active: bool,
    details: Mapping[str, Any] | None,
    operator: str,
    reason: str = "",
) -> None:
    """Register or revoke an analyst; without ``details`` those that are known stay."""
    who = plain_name(name, "name")
    with journal.working():
        if details is None:
            known = journal.find(Name("analyst", who))
            details = {} if known is None else journal.read(known, "analyst")[1]["details"]
        words = {"operator": operator, "reason": reason}
        journal.write({"kind": "analyst", "name": who, "active": active, "details": dict(details), **words})


def analysts(journal: Journal) -> tuple[Analyst, ...]:
    """Everyone ever registered, by name."""
    with journal.working():
        found = [journal.read(seq, "analyst") for _, seq in journal.store.names("analyst")]
        return tuple(Analyst(body["name"], body["active"], body["details"], entry.seq) for entry, body in found)
