"""Receipts: signed statements of releases, mechanisms and charges.

A receipt is JSON of two parts: ``receipt``, the statement, and ``signature``, an Ed25519 signature of its canonical
text. The statement says whom it protects (population, unit, relation), for each answer its query and every mechanism
with its sensitivity, its noise and its event, the guarantee of all of them together, what was charged for it and
where in the ledger that stands, and the digest of the released numbers. Numbers are exact and written as text.

:func:`tacit.releases.verify_receipt.verify_receipt` checks one, offline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tacit.accounting.currencies import currency_of
from tacit.core.canonical import canonical
from tacit.core.errors import InputError
from tacit.core.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, Event, ZCDPEvent, event_to_json
from tacit.core.guarantees import Guarantee
from tacit.core.relations import ADD_REMOVE
from tacit.ledger import Reservation
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.query.planning.explain import Explanation
from tacit.query.planning.plan import Outline, Plan
from tacit.query.planning.rank_choice import RankChoice
from tacit.query.planning.releases import KeySelection, Priced, Release
from tacit.releases.keys import Keys

FORMAT: Final = "tacit-receipt"
VERSION: Final = 1
#: A signature is of this and the statement, so that no other thing signed with the key can pass for a receipt.
_PURPOSE: Final = b"tacit receipt 1\n"
#: Fewer than are read back, because AUTO bounds that are found later add some.
_MOST_DIGITS: Final = 440


@dataclass(frozen=True)
class Receipt:
    """A signed statement; ``str`` gives its text, and ``receipt["charge"]`` a part of it.

    The signature is of its canonical text, in hexadecimal.
    """

    statement: Mapping[str, Any]
    signature: str

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """The receipt in a text; its signature is not checked here.

        Raises:
            InputError: the text is not a receipt, or says something twice.
        """
        try:
            content = json.loads(text, object_pairs_hook=keys_once)
        except (ValueError, RecursionError):
            raise InputError("receipt", "is not JSON that says everything once") from None
        if not isinstance(content, dict) or set(content) != {"receipt", "signature"}:
            raise InputError("receipt", "must be an object with the keys 'receipt' and 'signature'")
        statement, signature = content["receipt"], content["signature"]
        if not isinstance(statement, dict) or not isinstance(signature, str):
            raise InputError("receipt", "must hold a statement and the text of its signature")
        return cls(statement, signature)

    def to_json(self) -> str:
        """One line of canonical JSON."""
        return canonical({"receipt": self.statement, "signature": self.signature})

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @property
    def position(self) -> int:
        """Position of its entry in the ledger."""
        return int(self.statement["ledger"]["position"])

    def __getitem__(self, name: str) -> Any:
        return self.statement[name]

    def __str__(self) -> str:
        return self.to_json()

    def __repr__(self) -> str:
        ledger = self.statement.get("ledger", {})
        return f"<Receipt {ledger.get('position')} of ledger {str(ledger.get('id'))[:8]}>"


@dataclass(frozen=True)
class ReceiptStatement:
    """Content of a receipt besides the charge and its place in the ledger.

    Args:
        answers: by :func:`about_plan` and :func:`about_mechanism`.
        unit: whom the guarantee of all answers together is about.
        catalog: digest of the public metadata.
    """

    answers: Sequence[Mapping[str, Any]]
    unit: str
    account: str
    guarantee: Guarantee
    catalog: str


def issue(keys: Keys, ledger: str, project: str, reservation: Reservation, said: ReceiptStatement) -> Receipt:
    """Sign a statement about some answers, and the charge that was reserved for them.

    It speaks of the place of the reservation, so that it can be made, and stored, before the answers are committed.
    """
    statement: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "ledger": {
            "id": ledger,
            "position": reservation.seq,
            "previous": reservation.previous,
            "hash": reservation.hash,
        },
        "population": reservation.population,
        "unit": said.unit,
        "relation": said.guarantee.relation.value,
        "account": said.account,
        "project": project,
        "catalog": said.catalog,
        "answers": list(said.answers),
        "guarantee": guarantee_to_plain(said.guarantee),
        "charge": {amount.currency: str(amount.amount) for amount in reservation.amounts if amount.amount},
        "key": keys.id,
    }
    # The signature covers what a reader of the text will see: plain JSON, read back once. Without floats, and with
    # texts for names, what is read back has the same canonical text.
    text = canonical(statement)
    return Receipt(json.loads(text), keys.sign(_PURPOSE + text.encode()))


def signed_text(statement: Mapping[str, Any]) -> bytes:
    """Bytes that the signature is of."""
    return _PURPOSE + canonical(statement).encode()


def about_plan(
    words: Outline | Explanation,
    plan: Plan,
    sql: str,
    *,
    released: str,
    name: str = "",
    mechanisms: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Lines of a receipt about the answer to a question: ``words`` explain its plan, ``released`` digests its numbers.

    ``mechanisms`` is what :func:`mechanisms_of` says of the plan, where that is known already.
    """
    return {
        "name": name,
        "query": sql,
        "plan": plan.digest,
        "bounding": words.bounding,
        "groups": words.keys,
        "mechanisms": mechanisms_of(plan) if mechanisms is None else mechanisms,
        "released": released,
    }


def about_mechanism(mechanism: object, event: Event, label: str, *, released: str) -> dict[str, Any]:
    """Lines of a receipt about a mechanism used from Python; ``event`` is the one that was paid for."""
    line: dict[str, Any] = {"name": label, "mechanism": type(mechanism).__name__, "event": _plain(event)}
    if isinstance(mechanism, Laplace) and isinstance(event, DiscreteLaplaceEvent):
        line |= {"l1_sensitivity": str(mechanism.l1_sensitivity), "scale": str(mechanism.scale)}
    if isinstance(mechanism, Gaussian) and isinstance(event, DiscreteGaussianEvent | ZCDPEvent):
        line |= _about_gaussian(mechanism)
    return {
        "name": label,
        "query": "",
        "plan": "",
        "bounding": "left to the program that used the mechanism",
        "groups": "left to the program that used the mechanism",
        "mechanisms": [line],
        "released": released,
    }


def guarantee_to_plain(guarantee: Guarantee) -> dict[str, str]:
    """A guarantee as JSON; its relation is said elsewhere."""
    currency = currency_of(guarantee)
    numbers = {name: str(number) for name, number in currency.numbers_of(guarantee).items()}
    return {"kind": currency.guarantee_type.__name__, **numbers}


def exact_events(plan: Plan) -> tuple[Event, ...]:
    """Everything that is released, as exactly as it is known."""
    events: list[Event] = []
    for part in (each for one in plan.parts for each in one.priced.parts):
        events += [] if part.keys is None else [part.keys.event]
        for release in part.releases:
            events += [] if release.choice is None else [release.choice.event]
            events += [exact_event(each) for each in release.vectors]
    return tuple(events)


def exact_event(release: Release) -> Event:
    """The event of a release; for Gaussian noise the noise itself, since what a question releases is integers."""
    noise = None if release.mechanism == "constant" else release.noise()
    if not isinstance(noise, Gaussian):
        return release.event
    return DiscreteGaussianEvent(
        noise.sigma2, _moved_squared(noise), dimension=noise.dimension, relation=release.relation
    )


def mechanisms_of(plan: Plan) -> list[dict[str, Any]]:
    """Lines of a receipt about each mechanism, in order; with the number of the part where there are several."""
    if not plan.others:
        return _mechanisms(plan.priced)
    parts = enumerate(plan.parts, 1)
    return [{**line, "part": str(number)} for number, part in parts for line in _mechanisms(part.priced)]


def _mechanisms(priced: Priced) -> list[dict[str, Any]]:
    """Mechanisms of one part, in order: searches for AUTO, keys, numbers, the rest."""
    lines = []
    for part in priced.parts:
        lines += [] if part.keys is None else [_about_selection(part.keys)]
        for release in part.releases:
            lines += [] if release.choice is None else [_about_choice(release.choice)]
            lines += [_about_release(each) for each in release.vectors]
    return lines


def quoted(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines about mechanisms, for an order; refused where numbers are so long that a receipt could not be read.

    A price of hundreds of digits would otherwise leave a receipt, and so a ledger, that cannot be verified.

    Raises:
        InputError: as said; nothing has been charged yet.
    """
    if any(len(text) > _MOST_DIGITS for line in lines for text in _numbers(line["event"])):
        raise InputError("epsilon", f"makes numbers of more than {_MOST_DIGITS} digits; state fewer digits")
    return lines


def _numbers(content: object) -> Iterator[str]:
    if isinstance(content, (dict, list)):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _numbers(part)
    else:
        yield str(content)


def _about_selection(keys: KeySelection) -> dict[str, Any]:
    touched = keys.groups * (1 if keys.relation is ADD_REMOVE else 2)
    threshold = keys.mechanism().threshold
    return {
        "name": "selection of keys",
        "mechanism": f"partition selection, {keys.rule}",
        "l1_sensitivity": str(touched),
        "threshold": "" if threshold is None else str(threshold),
        "event": _plain(keys.event),
    }


def _about_choice(choice: RankChoice) -> dict[str, Any]:
    return {
        "name": f"quantiles, {choice.name}",
        "mechanism": "exponential",
        "reason": choice.reason,
        "epsilon": str(choice.epsilon),
        "draws": str(choice.draws),
        "event": _plain(choice.event),
    }


def _about_release(release: Release) -> dict[str, Any]:
    line: dict[str, Any] = {
        "name": release.block.name,
        "mechanism": release.mechanism,
        "reason": release.block.reason,
        "event": _plain(exact_event(release)),
    }
    if release.mechanism == "constant":
        return line
    noise = release.noise()
    if isinstance(noise, Laplace):
        return line | {"l1_sensitivity": str(noise.l1_sensitivity), "scale": str(noise.scale)}
    if isinstance(noise, RoundedGaussian):
        return line | {"l2_sensitivity": str(noise.event.l2_sensitivity), "sigma": str(noise.event.sigma)}
    return line | _about_gaussian(noise)


def _about_gaussian(noise: Gaussian) -> dict[str, str]:
    return {"l2_squared": str(_moved_squared(noise)), "sigma2": str(noise.sigma2)}


def _moved_squared(noise: Gaussian) -> Fraction:
    """Square of the sensitivity that counts: one integer moves by a whole number, so it may be below the declared."""
    return 2 * noise.zcdp.rho * noise.sigma2


def _plain(event: Event) -> Any:
    return json.loads(event_to_json(event))


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a key that occurs twice could be read in two ways, and is a ValueError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
