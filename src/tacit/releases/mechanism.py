"""Mechanisms used from Python, charged and receipted like queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tacit.accounting.currencies import AccountGuarantee, currency_named, currency_of
from tacit.accounting.prices import Charge, HasEvent
from tacit.core.canonical import canonical
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import Event
from tacit.core.guarantees import ApproxDP, Guarantee, PureDP
from tacit.releases.accounts import Entry, typed_epsilon
from tacit.releases.payment import Caller, CuratorContext, hide_internal_errors, pay_release
from tacit.releases.receipt import Receipt, about_mechanism, quoted

_FORMAT = "tacit-value"
_LONGEST_LABEL = 1000


@runtime_checkable
class ReleasingMechanism(Protocol):
    """Interface of a mechanism: it states its guarantee and releases a value with noise."""

    @property
    def guarantee(self) -> Guarantee:
        """Privacy guarantee of one release."""

    def release(self, value: Any, /) -> Any:
        """Return a value with noise."""


@dataclass(frozen=True)
class DirectRelease:
    """Result of a release or of a charge: the noisy value (None for a charge), the ledger entry and the receipt."""

    value: Any
    charge: Entry
    receipt: Receipt


def release_directly(
    context: CuratorContext, population: str, mechanism: ReleasingMechanism, value: Any, label: str, caller: Caller
) -> DirectRelease:
    """Reserve, release, commit; see :meth:`tacit.curator.curator.Curator.release`."""
    if not isinstance(mechanism, ReleasingMechanism):
        raise InputError("mechanism", "must have a guarantee and 'release'; for anything else use charge(…)")
    return _pay(context, population, mechanism, lambda: mechanism.release(value), label, caller, "release")


def charge_directly(
    context: CuratorContext, population: str, charge: Charge, label: str, caller: Caller
) -> DirectRelease:
    """Reserve and commit without a value; see :meth:`tacit.curator.curator.Curator.charge`."""
    return _pay(context, population, charge, lambda: None, label, caller, "charge")


def _pay(
    context: CuratorContext,
    population: str,
    charge: Charge,
    run: Callable[[], Any],
    label: str,
    caller: Caller,
    action: str,
) -> DirectRelease:
    with hide_internal_errors():
        # The label is stored permanently, in the ledger and in the receipt.
        given: object = label
        if not isinstance(given, str) or not given.strip() or len(given) > _LONGEST_LABEL:
            raise InputError(
                "label",
                f"say in a word or two, and in {_LONGEST_LABEL:,} characters at most, what is released; it stands in "
                "the history and the receipt",
            )
        relation = context.catalog.population(population).relation
        currency = currency_named(context.accounts[population].kind)
        guarantee = currency.price(charge, relation)
        about = about_mechanism(charge, event_for(charge, guarantee), label, released="")
        quote = {"mechanisms": quoted(about["mechanisms"])}
        own = getattr(charge, "guarantee", charge)
        stated = typed_epsilon({"epsilon": own.epsilon}) if isinstance(own, (PureDP, ApproxDP)) else {}
        paid, entry = pay_release(
            context, caller, lambda _: run(), value_to_text, lambda _, digest: [about | {"released": digest}],
            population=population, guarantee=guarantee, label=label, quote=quote | stated,
            unit="as the program that used the mechanism counts persons",
            # The exact value is secret, so requests are distinguished by action, population, label and charge.
            request=[action, context.project, population, label, quote],
            # The caller holds the exact value, and so may see the error of a failed release.
            raises=True,
        )  # fmt: skip
        # From this run, the mechanism's own result; from an earlier run, the value stored in the ledger.
        value = _from_plain(json.loads(paid.outcome.result)["value"]) if paid.outcome.repeated else paid.made
        return DirectRelease(value, entry, paid.receipt)


def event_for(charge: Charge, guarantee: AccountGuarantee) -> Event:
    """Return the charge's own event if its cost equals the guarantee; else an event that states the guarantee."""
    currency = currency_of(guarantee)
    own = charge if isinstance(charge, Event) else charge.event if isinstance(charge, HasEvent) else None
    try:
        if own is not None and currency.price(own, guarantee.relation) == guarantee:
            return own
    except AccountingError:
        pass  # The event has no cost in this currency.
    return currency.event(guarantee, type(charge).__name__)


def value_to_text(value: Any) -> str:
    """Return a released value as the text that the ledger stores."""
    return canonical({"format": _FORMAT, "version": 1, "value": _to_plain(value)})


def _to_plain(value: Any) -> Any:
    """Return a released value as exact JSON; objects other than numbers, texts and lists as their text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"integer": str(value)}
    if isinstance(value, float):
        return {"double": value.hex()}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, (list, tuple)):
        return [_to_plain(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _to_plain(value.tolist())
    return {"text": repr(value)}


def _from_plain(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_from_plain(part) for part in plain]
    match plain:
        case {"integer": text}:
            return int(text)
        case {"double": text}:
            return float.fromhex(text)
        case {"fraction": text}:
            return Fraction(text)
        case {"text": text}:
            return text
        case _:
            return plain
