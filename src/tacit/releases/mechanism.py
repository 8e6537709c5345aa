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
    """A mechanism: something that states its guarantee and releases a value."""

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of one release."""

    def release(self, value: Any, /) -> Any:
        """Release a value."""


@dataclass(frozen=True)
class DirectRelease:
    """Result of a release or of a mere charge: the value (None for a charge), its cost, its receipt."""

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
        # It is kept for good, in the ledger and in the receipt.
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
            # The value is secret, so one request is told from another by the action, the population, label and charge.
            request=[action, context.project, population, label, quote],
            # The caller holds the value, and so may see how releasing it failed.
            raises=True,
        )  # fmt: skip
        # Of this run, the value as its mechanism shaped it; of an earlier one, as the ledger holds it.
        value = _from_plain(json.loads(paid.outcome.result)["value"]) if paid.outcome.repeated else paid.made
        return DirectRelease(value, entry, paid.receipt)


def event_for(charge: Charge, guarantee: AccountGuarantee) -> Event:
    """The charge's own event where that alone shows what it costs, else one that states the guarantee."""
    currency = currency_of(guarantee)
    own = charge if isinstance(charge, Event) else charge.event if isinstance(charge, HasEvent) else None
    try:
        if own is not None and currency.price(own, guarantee.relation) == guarantee:
            return own
    except AccountingError:
        pass  # It has no price of its own in this currency.
    return currency.event(guarantee, type(charge).__name__)


def value_to_text(value: Any) -> str:
    """A released value as the text that the ledger keeps."""
    return canonical({"format": _FORMAT, "version": 1, "value": _to_plain(value)})


def _to_plain(value: Any) -> Any:
    """A released value as exact JSON; what is neither number, text nor a list of them is kept as its text alone."""
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
