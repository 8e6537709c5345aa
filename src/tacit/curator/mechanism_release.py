"""Mechanisms used from Python, charged and receipted like questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tacit.accounting.prices import Charge, HasEvent, approx_price, gdp_price, pure_price, zcdp_price
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import ApproxEvent, Event, GaussianEvent, PureEvent, ZCDPEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import sqrt_bounds
from tacit.core.relations import Relation
from tacit.curator.accounts import Entry, entry_of
from tacit.curator.answer import Caller, CuratorContext, opaque
from tacit.curator.failed_runs import check_succeeded, failed_run, note_failure
from tacit.ledger import FAILED, FAILED_DIGEST, Order, Outcome, Reservation, run_again
from tacit.receipts.keyring import commit_signed
from tacit.receipts.keys import Keys
from tacit.receipts.receipt import Receipt, about_mechanism, issue, quoted
from tacit.receipts.release_format import canonical, digest_of

__all__ = [
    "KINDS",
    "DirectRelease",
    "ReleasingMechanism",
    "charge_directly",
    "event_for",
    "in_currency",
    "release_directly",
    "value_to_text",
]

_FORMAT = "tacit-value"
_LONGEST_LABEL = 1000


@runtime_checkable
class ReleasingMechanism(Protocol):
    """A mechanism: something that states its guarantee and releases a value."""

    @property
    def guarantee(self) -> Guarantee:
        """What one release promises."""

    def release(self, value: Any, /) -> Any:
        """Release a value."""


@dataclass(frozen=True)
class DirectRelease:
    """What a mechanism released, or what was charged for: the value (None for a mere charge), its cost, its receipt."""

    value: Any
    charge: Entry
    receipt: Receipt


def release_directly(
    desk: CuratorContext, population: str, mechanism: ReleasingMechanism, value: Any, label: str, caller: Caller
) -> DirectRelease:
    """Reserve, release, commit; see :meth:`tacit.curator.curator.Curator.release`."""
    if not isinstance(mechanism, ReleasingMechanism):
        raise InputError("mechanism", "must have a guarantee and 'release'; for anything else use charge(…)")
    return _pay(desk, population, mechanism, lambda: mechanism.release(value), label, caller, "release")


def charge_directly(desk: CuratorContext, population: str, charge: Charge, label: str, caller: Caller) -> DirectRelease:
    """Reserve and commit without a value; see :meth:`tacit.curator.curator.Curator.charge`."""
    return _pay(desk, population, charge, lambda: None, label, caller, "charge")


def _pay(
    desk: CuratorContext, population: str, charge: Charge, run: Callable[[], Any], label: str, caller: Caller, what: str
) -> DirectRelease:
    with opaque():
        order, guarantee, event = _order(desk, population, charge, label, caller, what)
        desk.keys.check(desk.ledger)
        found = desk.ledger.reserve(order)
        paid = isinstance(found, Reservation) and not found.resumed
        released: Any = None
        if isinstance(found, Reservation):
            if found.resumed and not run_again(desk.ledger, found):
                raise failed_run(found)
            try:
                released = run()
                result = value_to_text(released)
            except Exception as problem:
                note_failure(found, problem)
                about = about_mechanism(charge, event, label, released=FAILED_DIGEST)
                _commit(desk, found, guarantee, about, FAILED.decode())
                raise
            about = about_mechanism(charge, event, label, released=digest_of(result))
            found = _commit(desk, found, guarantee, about, result)
        check_succeeded(found)
        # What this very run released, as its mechanism shaped it; what was released before, as the ledger holds it.
        value = _from_plain(json.loads(found.result)["value"]) if found.repeated else released
        entry = entry_of(found, sql=label, analyst=caller.analyst, paid=paid)
        return DirectRelease(value, entry, Receipt.from_json(found.receipt))


def _order(
    desk: CuratorContext, population: str, charge: Charge, label: str, caller: Caller, what: str
) -> tuple[Order, Guarantee, Event]:
    _check_label(label)
    relation = desk.catalog.population(population).relation
    guarantee = in_currency(desk.accounts[population].kind, charge, relation)
    event = event_for(charge, guarantee)
    quote = {"mechanisms": quoted(about_mechanism(charge, event, label, released="")["mechanisms"])}
    # The value is secret, so what tells one request from another is what is done, for whom, the label and the charge.
    request = digest_of(canonical([what, desk.project, population, label, quote]))
    order = Order(
        population, guarantee, analyst=caller.analyst, project=desk.project, sql=label, quote=quote,
        idempotency_key=caller.idempotency_key, request=request,
    )  # fmt: skip
    return order, guarantee, event


def _check_label(label: object) -> None:
    # It is kept for good, in the ledger and in the receipt.
    if not isinstance(label, str) or not label.strip() or len(label) > _LONGEST_LABEL:
        raise InputError(
            "label",
            f"say in a word or two, and in {_LONGEST_LABEL:,} characters at most, what is released; it stands in the "
            f"history and the receipt",
        )


def _commit(
    desk: CuratorContext, reservation: Reservation, guarantee: Guarantee, about: Mapping[str, Any], result: str
) -> Outcome:
    def receipt(keys: Keys) -> Receipt:
        return issue(
            keys,
            desk.ledger.id,
            reservation,
            answers=[about],
            unit="as the program that used the mechanism counts persons",
            account=KINDS[type(guarantee)],
            guarantee=guarantee,
            project=desk.project,
            catalog=desk.catalog.digest,
        )

    return commit_signed(desk.keys, desk.ledger, reservation, result, receipt)


KINDS: dict[type[Guarantee], str] = {PureDP: "pure", ApproxDP: "approx", ZCDP: "zcdp", GDP: "gdp"}


def in_currency(kind: str, charge: Charge, relation: Relation) -> PureDP | ApproxDP | ZCDP | GDP:
    """What a charge costs in an account, as the guarantee that costs exactly that."""
    match kind:
        case "pure":
            return PureDP(pure_price(charge, relation).amount, relation=relation)
        case "approx":
            return ApproxDP(*approx_price(charge, relation), relation=relation)
        case "zcdp":
            spend = zcdp_price(charge, relation)
            return ZCDP(spend.amount, delta=spend.delta, relation=relation)
        case _:
            return GDP(sqrt_bounds(gdp_price(charge, relation).amount)[1], relation=relation)


def event_for(charge: Charge, guarantee: Guarantee) -> Event:
    """The charge's own event where that alone shows what it costs, else one that states the guarantee."""
    own = charge if isinstance(charge, Event) else charge.event if isinstance(charge, HasEvent) else None
    try:
        if own is not None and in_currency(KINDS[type(guarantee)], own, guarantee.relation) == guarantee:
            return own
    except AccountingError:
        pass  # It has no price of its own in this currency.
    name, relation = type(charge).__name__, guarantee.relation
    match guarantee:
        case PureDP():
            return PureEvent(guarantee.epsilon, name, relation=relation)
        case ApproxDP():
            return ApproxEvent(guarantee.epsilon, guarantee.delta, name, relation=relation)
        case ZCDP():
            return ZCDPEvent(guarantee.rho, guarantee.delta, name, relation=relation)
        case GDP():
            return GaussianEvent(Fraction(1), guarantee.mu, relation=relation)
        case _:
            raise AccountingError(f"{name} is not what an account is charged in")


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
