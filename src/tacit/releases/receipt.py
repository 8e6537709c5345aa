"""Receipts: signed statements of releases, mechanisms and charges.

A receipt is JSON of two parts: ``receipt``, the statement, and ``signature``, an Ed25519 signature of its canonical
text. The statement holds the unit of protection (population, unit, relation); for each answer its query and every
mechanism with its sensitivity, noise and event; the guarantee of all mechanisms together; the charge and its position
in the ledger; and the digest of the released numbers. Numbers are exact and written as text.

*Offline verification* (:func:`verify_receipt`). The signature shows that the curator signed the statement and that it
is unchanged. The other checks show that the statement is consistent: every mechanism has the noise that its event
states, the events composed cost no more than the guarantee, and the charge is the cost of that guarantee in an account
of that kind, rounded up.

*Comparison with the ledger* (:func:`against_ledger`). A signature alone shows that a key signed. A stolen key that was
replaced since can still sign statements about any position at which it was in force. So a receipt is compared with the
receipt that the ledger holds at its position. One of these must hold:

* the receipts are equal; or
* the receipt is about the same release (population, unit, relation, account, project, catalogue, guarantee, charge,
  position, digest of the released numbers, and noise of every mechanism), with a later caller's text of the query, and
  is signed with the key in force *now*. A receipt with another text whose key was replaced since fails this
  comparison; asking the same query again is free and gives a receipt that passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tacit.accounting.compose import compose
from tacit.accounting.currencies import CURRENCIES, currency_of
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import AccountingError, InputError, TacitError
from tacit.core.events import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    NoEvent,
    RepeatedEvent,
    ZCDPEvent,
    event_from_json,
    event_to_json,
)
from tacit.core.guarantees import ApproxDP, Guarantee
from tacit.core.numbers import exact, format_up
from tacit.core.relations import Relation, as_relation
from tacit.ledger import FAILED_DIGEST, Amount, Ledger, Outcome, Reservation, RollbackError
from tacit.ledger.protocol import to_grain
from tacit.ledger.signing_keys import is_signed, key_id
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.query.planning.explain import Explanation
from tacit.query.planning.noise import GaussianLaw
from tacit.query.planning.plan import Outline, Plan
from tacit.releases.keys import Keys
from tacit.releases.release_format import manifest

FORMAT: Final = "tacit-receipt"
VERSION: Final = 1
#: Prefix of every signed text, so that nothing else signed with the key can pass for a receipt.
_PURPOSE: Final = b"tacit receipt 1\n"
#: Largest number of digits of a number; lower than the limit of the reader, because bounds found by AUTO add digits.
_MOST_DIGITS: Final = 440


@dataclass(frozen=True)
class Receipt:
    """A signed statement about a release; ``str`` gives its JSON, ``receipt["charge"]`` one field of the statement.

    The signature is Ed25519 over the statement's canonical text, in hexadecimal.
    """

    statement: Mapping[str, Any]
    signature: str

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Parse a receipt from JSON; its signature is not checked here.

        Raises:
            InputError: the text is not a receipt, or a key occurs twice in it.
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
        return canonical({"receipt": self.statement, "signature": self.signature})

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @property
    def position(self) -> int:
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
    """Content of a receipt without the charge and its position in the ledger.

    Args:
        answers: one entry per answer, from :func:`about_plan` or :func:`about_mechanism`.
        unit: unit of protection of the guarantee of all answers together.
        account: kind of the account.
        guarantee: guarantee of all answers together.
        catalog: digest of the public metadata.
    """

    answers: Sequence[Mapping[str, Any]]
    unit: str
    account: str
    guarantee: Guarantee
    catalog: str


def issue(keys: Keys, ledger: str, project: str, reservation: Reservation, said: ReceiptStatement) -> Receipt:
    """Sign a statement about answers and the charge reserved for them.

    It names the ledger position of the reservation, so that it can be signed and stored before the answers are
    committed.
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
    # The signature covers the statement as a reader will parse it: plain JSON, read back once. Without floats, and with
    # strings as keys, the parsed statement has the same canonical text.
    text = canonical(statement)
    return Receipt(json.loads(text), keys.sign(_PURPOSE + text.encode()))


def signed_text(statement: Mapping[str, Any]) -> bytes:
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
    """Return the receipt's entry for the answer to a query.

    Args:
        words: outline or explanation of the plan.
        plan: plan of the query.
        sql: the caller's text of the query.
        released: digest of the released numbers.
        name: name of the answer in a planned release; else empty.
        mechanisms: result of :func:`mechanisms_of` for the plan, where it is known already.
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
    """Return the receipt's entry for a mechanism used from Python; ``event`` is the privacy event that was charged."""
    plain = json.loads(event_to_json(event))
    line: dict[str, Any] = {"name": label, "mechanism": type(mechanism).__name__, "event": plain}
    if isinstance(mechanism, Laplace) and isinstance(event, DiscreteLaplaceEvent):
        line |= {"l1_sensitivity": str(mechanism.l1_sensitivity), "scale": str(mechanism.scale)}
    if isinstance(mechanism, Gaussian) and isinstance(event, DiscreteGaussianEvent | ZCDPEvent):
        line |= GaussianLaw.text(mechanism)
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
    """Return a guarantee as JSON, without its neighbouring relation, which is another field of the statement."""
    currency = currency_of(guarantee)
    numbers = {name: str(number) for name, number in currency.numbers_of(guarantee).items()}
    return {"kind": currency.guarantee_type.__name__, **numbers}


def exact_events(plan: Plan) -> tuple[Event, ...]:
    """Return the privacy events of all releases of a plan, with exact noise parameters where there are any."""
    return tuple([line["event"] for part in plan.parts for line in part.priced.lines])


def mechanisms_of(plan: Plan) -> list[dict[str, Any]]:
    """Return the receipt's lines for the mechanisms of a plan, in order; with the part's number if it has several."""
    found = []
    for number, part in enumerate(plan.parts, 1):
        own = [{**line, "event": json.loads(event_to_json(line["event"]))} for line in part.priced.lines]
        found += [{**line, "part": str(number)} for line in own] if plan.others else own
    return found


def quoted(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return ``lines`` unchanged, or refuse them if their numbers are too long for a receipt to be read back.

    A cost with hundreds of digits would otherwise leave a receipt, and so a ledger, that cannot be verified.

    Raises:
        InputError: a number has too many digits; nothing has been charged yet.
    """
    pending = [line["event"] for line in lines]
    while pending:
        content = pending.pop()
        if isinstance(content, (dict, list)):
            pending += content.values() if isinstance(content, dict) else content
        elif len(str(content)) > _MOST_DIGITS:
            raise InputError("epsilon", f"makes numbers of more than {_MOST_DIGITS} digits; state fewer digits")
    return lines


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict; raise ValueError for a repeated key, which would be ambiguous."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


_STATEMENT: Final = {
    "account", "answers", "catalog", "charge", "format", "guarantee", "key", "ledger", "population",
    "project", "relation", "unit", "version",
}  # fmt: skip
_ANSWER: Final = {"bounding", "groups", "mechanisms", "name", "plan", "query", "released"}
_LEDGER: Final = {"hash", "id", "position", "previous"}
_GUARANTEES: Final = {currency.guarantee_type.__name__: currency for currency in CURRENCIES.values()}


@dataclass(frozen=True, slots=True)
class ReceiptCheck:
    """Result of one check of a receipt: its name, whether it passed, and a sentence about the finding."""

    name: str
    passed: bool
    words: str

    def __str__(self) -> str:
        return f"{'ok ' if self.passed else 'NOT'}  {self.words}"


@dataclass(frozen=True)
class ReceiptReport:
    """Results of all checks of a receipt; ``str`` gives a line for each."""

    checks: tuple[ReceiptCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.passed for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def to_json(self) -> str:
        checks = [{"name": c.name, "passed": c.passed, "words": c.words} for c in self.checks]
        return json.dumps({"ok": self.ok, "checks": checks}, ensure_ascii=False)

    def __str__(self) -> str:
        verdict = "The receipt holds." if self.ok else "The receipt does NOT hold."
        return "\n".join([*map(str, self.checks), verdict])


def verify_receipt(receipt: Receipt | str | bytes, public_key: str) -> ReceiptReport:
    """Verify a receipt offline.

    Args:
        receipt: the receipt or its text.
        public_key: public key of the curator that issued it, such as ``ed25519:5f…``; get it from the data owner, not
            together with the receipt.

    Raises:
        InputError: ``public_key`` is no valid public key.
    """
    wanted = key_id(public_key)
    try:
        read = receipt if isinstance(receipt, Receipt) else Receipt.from_json(receipt)
        _check_form(read.statement)
        text = signed_text(read.statement)
    except (TacitError, KeyError, TypeError, AttributeError, UnicodeError, RecursionError) as problem:
        return ReceiptReport((ReceiptCheck("form", False, f"it is not a receipt of version {VERSION}: {problem}"),))
    said = read.statement
    signed = is_signed(text, read.signature, public_key)
    checks = [
        ReceiptCheck("form", True, f"it is a receipt of version {VERSION}"),
        ReceiptCheck("key", said["key"] == wanted, f"it names the key {said['key']}; the one given is {wanted}"),
        ReceiptCheck(
            "signature",
            signed,
            "the signature is of exactly these words"
            if signed
            else "the signature is not of these words: something was changed, or another key signed it",
        ),
    ]
    try:
        checks += _about_privacy(said)
    except (TacitError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as problem:
        checks.append(ReceiptCheck("content", False, f"its numbers cannot be read: {problem}"))
    return ReceiptReport(tuple(checks))


def outcome_problem(outcome: Outcome, *, ledger: str, public_key: str) -> str | None:
    """Return the first problem of the receipt that a ledger holds for an outcome; None if there is none.

    For :meth:`tacit.ledger.Ledger.verify`. Parts of a batch are charged with the batch and have no separate receipt.
    """
    paid = outcome.reservation
    if not outcome.receipt:
        return "it was charged and has no receipt" if any(amount.amount for amount in paid.amounts) else None
    report = verify_receipt(outcome.receipt, public_key)
    if not report.ok:
        return next(check.words for check in report.checks if not check.passed)
    said = Receipt.from_json(outcome.receipt).statement
    place = {"id": ledger, "position": paid.seq, "previous": paid.previous, "hash": paid.hash}
    if said["ledger"] != place or said["population"] != paid.population:
        return "its receipt speaks of another entry"
    digests = [answer["released"] for answer in said["answers"]]
    together = digest_of(manifest({answer["name"]: answer["released"] for answer in said["answers"]}))
    return None if outcome.digest in (together, *digests[:1]) else "its receipt speaks of other numbers"


def _about_privacy(said: Mapping[str, Any]) -> list[ReceiptCheck]:
    relation = as_relation(said["relation"])
    lines = [line for answer in said["answers"] for line in answer["mechanisms"]]
    events = [event_from_json(json.dumps(line["event"])) for line in lines]
    guarantee = _guarantee(said["guarantee"], relation)
    together = ComposedEvent(tuple(events), relation=relation)
    mistaken = [line["name"] for line, event in zip(lines, events, strict=True) if not _is_true(line, event)]
    covered, cost = guarantee_covers(guarantee, together)
    charged = tuple(Amount(name, exact(text, "charge")) for name, text in said["charge"].items())
    expected = charge_of(said["account"], guarantee)
    place = said["ledger"]
    checks = [
        ReceiptCheck(
            "mechanisms",
            not mistaken,
            f"{len(lines)} mechanisms have the sensitivity and the noise that their events claim"
            if not mistaken
            else f"the noise of {', '.join(mistaken)} is not what the event claims",
        ),
        ReceiptCheck("guarantee", covered, f"the events together cost {cost}; the guarantee says {_words(guarantee)}"),
        ReceiptCheck(
            "charge",
            sorted(charged, key=str) == sorted(expected, key=str),
            f"charged {_amounts(charged)}; the guarantee costs {_amounts(expected)} under {said['account']} accounting",
        ),
        ReceiptCheck(
            "ledger",
            True,
            f"it stands at position {place['position']} of ledger {place['id']}, after {place['previous'][:16]}…: "
            "a ledger that ends before it, or has another entry there, is not the one that issued it",
        ),
    ]
    if any(answer["released"] == FAILED_DIGEST for answer in said["answers"]):
        words = "nothing was released: the run failed after it was charged, and stays failed"
        checks.append(ReceiptCheck("failure", True, words))
    return checks


def charge_of(account: str, guarantee: Guarantee) -> tuple[Amount, ...]:
    """Return the charge for a guarantee in an account of this kind, rounded up to the ledger's unit, without zeros."""
    currency = CURRENCIES.get(account)
    if currency is None or not isinstance(guarantee, currency.guarantee_type):
        raise InputError("account", f"a {account} account is not charged in {type(guarantee).__name__}")
    amounts = currency.amounts_of(guarantee)
    return tuple(Amount(name, to_grain(value)) for name, value in amounts.items() if value)


def guarantee_covers(guarantee: Guarantee, event: ComposedEvent) -> tuple[bool, str]:
    """Return whether the composition of events is within a guarantee, and its cost as text."""
    currency = currency_of(guarantee)
    try:
        cost = currency.cost(event, event.relation)
        if not isinstance(guarantee, ApproxDP) or currency.covers(guarantee, cost):
            return currency.covers(guarantee, cost), currency.text(cost)
    except AccountingError:
        if not isinstance(guarantee, ApproxDP) or not guarantee.delta:
            raise
    # Events fixed beforehand, such as those of a planned batch, are composed tightly.
    total = compose([event], delta=guarantee.delta, method="best")
    words = currency.text({"epsilon": total.epsilon, "delta": total.delta})
    return total.epsilon <= guarantee.epsilon, f"{words} ({total.method})"


def _is_true(line: Mapping[str, Any], event: Event) -> bool:
    """Return whether the stated sensitivity and noise of a mechanism are those of its event."""
    name = line["mechanism"].lower()
    match event:
        case DiscreteLaplaceEvent() if name == "laplace":
            return _ratio(line, "l1_sensitivity", "scale") == event.l1_sensitivity / event.scale
        case DiscreteGaussianEvent() if name == "gaussian":
            return _ratio(line, "l2_squared", "sigma2") == event.l2_squared / event.sigma2
        case GaussianEvent() if name == "gaussian":
            return _ratio(line, "l2_sensitivity", "sigma") == event.l2_sensitivity / event.sigma
        case ZCDPEvent() if name == "gaussian" and "sigma2" in line:
            return _ratio(line, "l2_squared", "sigma2") == 2 * event.rho
        case RepeatedEvent(event=ExponentialEvent(epsilon=epsilon), count=count) if name == "exponential":
            return bool(line["draws"] == str(count)) and exact(line["epsilon"], "epsilon") == epsilon
        case NoEvent():
            return bool(name == "constant") or not {"scale", "sigma", "sigma2"} & set(line)
        case _:
            # The line states no parameters beyond the event itself.
            return name != "constant" and not {"scale", "sigma", "sigma2", "draws"} & set(line)


def _ratio(line: Mapping[str, Any], above: str, below: str) -> Fraction:
    # Parsed with the limits of user input: a forged number such as 1e999999999 would take forever to compute.
    return exact(line[above], above) / exact(line[below], below)


def _guarantee(said: Mapping[str, str], relation: Relation) -> Guarantee:
    words = {name: exact(text, name) for name, text in said.items() if name != "kind"}
    guarantee: Guarantee = _GUARANTEES[said["kind"]].guarantee(words, relation)
    if guarantee_to_plain(guarantee) != dict(said):
        raise InputError("guarantee", "is not in canonical form")
    return guarantee


def _check_form(said: Mapping[str, Any]) -> None:
    if (said["format"], said["version"]) != (FORMAT, VERSION):
        raise InputError("receipt", f"is of format {said['format']!r}, version {said['version']!r}")
    parts = [(said, _STATEMENT), (said["ledger"], _LEDGER), *((answer, _ANSWER) for answer in said["answers"])]
    for part, words in parts:
        if not isinstance(part, dict) or set(part) != words:
            raise InputError("receipt", f"must have exactly the words {', '.join(sorted(words))}")
    if not said["answers"]:
        raise InputError("receipt", "is about nothing")


def _words(guarantee: Guarantee) -> str:
    numbers = currency_of(guarantee).numbers_of(guarantee)
    return ", ".join(f"{name} {format_up(number)}" for name, number in numbers.items() if number) or "nothing"


def _amounts(amounts: tuple[Amount, ...]) -> str:
    return ", ".join(map(str, amounts)) or "nothing"


#: Fields that may differ in the receipt of a later caller.
_WORDS: Final = ("query", "plan", "bounding", "groups")
_MECHANISM_WORDS: Final = ("name", "reason")


def against_ledger(receipt: Receipt, ledger: Ledger) -> tuple[ReceiptCheck, ...]:
    """Return the results of comparing a receipt, whose signature is valid, with the ledger."""
    try:
        return check_against_ledger(receipt, ledger)
    except RollbackError as problem:
        return (ReceiptCheck("here", False, str(problem)),)


def check_against_ledger(receipt: Receipt, ledger: Ledger) -> tuple[ReceiptCheck, ...]:
    """Compare a receipt with the ledger as :func:`against_ledger` does, but raise for an old copy of the ledger.

    Raises:
        RollbackError: the receipt is newer than the ledger or of another history: the ledger is an old copy.
    """
    said = receipt.statement
    place = said["ledger"]
    position = int(place["position"])
    ledger.check_receipt(position, place["hash"], ledger=place["id"])
    here = ReceiptCheck("here", True, f"the ledger of this project has it, at entry {position}")
    kept = _kept(ledger, position)
    if kept is None:
        words = f"entry {position} of the ledger released nothing that a receipt could be about"
        return here, ReceiptCheck("released", False, words)
    if said == kept.statement:
        return here, ReceiptCheck("released", True, f"it is the receipt that the ledger holds for entry {position}")
    other = _difference(said, kept.statement)
    if other:
        words = f"the ledger holds another receipt for entry {position}: it differs in {other}"
        return here, ReceiptCheck("released", False, words)
    released = ReceiptCheck("released", True, f"charge, noise and released numbers are those of entry {position}")
    is_current = said["key"] == key_id(ledger.public_key)
    words = (
        "its words are those of a repeated query, signed with the key in force"
        if is_current
        else "its words are not those that the ledger holds, and the key that signed them was replaced since; "
        "ask the query again, which is free, for a receipt that holds"
    )
    return here, released, ReceiptCheck("words", is_current, words)


def _kept(ledger: Ledger, position: int) -> Receipt | None:
    outcome = ledger.outcome(position)
    if outcome is None or not outcome.receipt:
        return None
    try:
        return Receipt.from_json(outcome.receipt)
    except InputError:
        return None


def _difference(said: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """Return the name of the first field in which two statements must not differ but do; empty if there is none."""
    for part in sorted({*said, *kept} - {"answers", "key"}):
        if said.get(part) != kept.get(part):
            return {"charge": "what was charged", "guarantee": "its guarantee", "ledger": "its place"}.get(part, part)
    if len(said["answers"]) != len(kept["answers"]):
        return "how many answers it is about"
    for one, other in zip(said["answers"], kept["answers"], strict=True):
        if one["released"] != other["released"]:
            return "the released numbers"
        if _essence(one) != _essence(other):
            return "the mechanisms"
    return ""


def _essence(answer: Mapping[str, Any]) -> dict[str, Any]:
    lines = [{k: v for k, v in line.items() if k not in _MECHANISM_WORDS} for line in answer["mechanisms"]]
    return {**{k: v for k, v in answer.items() if k not in _WORDS}, "mechanisms": lines}
