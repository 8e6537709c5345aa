"""Ledger entries: canonical text and effect, a function of the text alone.

:func:`step_of` is used both to write an entry and, by ``verify``, to find out what it must have done.

============  =========================================================================================================
kind          meaning
============  =========================================================================================================
opened        the first entry: the ledger's id, the public key of its receipts
account       a population's account and its terms
caps          other caps for an account, by an operator
quota         caps for one analyst's share
conversation  caps for one conversation of an analyst with an assistant, fixed for good
renewal       a new version of the data, or period, with caps on its charges within those of the account
source        fingerprints of a data source whose rows are about people of a population
unit          what one person of a population is; see :mod:`tacit.ledger.protection` for this and the next two
column        which column of a source names the person
declared      bounds, categories and limits of a table, and what changed since the last time
analyst       an analyst was registered, changed or revoked
reserve       a charge
repeat        an idempotency key that stands for an earlier charge, because the query was a repeat
run           a charge is run once more, because its earlier run has no outcome
commit        the outcome of a charge, or that its run failed
key           another key signs receipts from here on
adopted       an operator accepted the ledger although its anchor was missing or disagreed
lost          the whole remaining budget of an account is charged, because entries are known to be missing
note          any other fact to keep
============  =========================================================================================================
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tacit.core.errors import InputError
from tacit.core.numbers import format_up
from tacit.ledger.protocol import BalanceChange, BalanceKey, Cap, Name, Step, from_grains, grains_up
from tacit.ledger.records import Amount, Order, PricedCharge, caps_of, filter_from_terms

_LONGEST_NAME = 200
#: Fields of an order that a ``repeat`` entry holds.
ORDER_WORDS = ("population", "analyst", "project", "key", "request")


def _no_float(text: str) -> float:
    raise ValueError(f"it holds the float {text}")


_DECODER = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)


_encoded = _ENCODER.encode


def canonical(value: Mapping[str, Any]) -> str:
    """Return an entry as canonical JSON: sorted keys, no spaces, ASCII, no floats."""
    _check_plain(value)
    return _encoded(value)


def event_text(event: Mapping[str, Any]) -> str:
    """Return the event of an entry as JSON, as :func:`tacit.core.events.event_from_json` reads it."""
    return _encoded(event)


#: Types that are written unchanged, if a value is of exactly this type.
_PLAIN = frozenset({str, int, bool, type(None)})


def _check_plain(value: object) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind is dict or isinstance(value, Mapping):
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str and not isinstance(key, str):
                raise InputError("entry", f"keys must be text, got {key!r}")
            if type(item) not in _PLAIN:
                _check_plain(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_plain(item)
    else:
        raise InputError(
            "entry", f"holds text, integers, lists and objects only, not {kind.__name__}; write numbers as text"
        )


@lru_cache(maxsize=4096)
def plain_name(text: str, parameter: str, *, empty: bool = False) -> str:
    """Return the normal form of a name: names that differ only in case or Unicode form are the same."""
    if not isinstance(text, str):
        raise InputError(parameter, f"must be text, not {type(text).__name__}")
    name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()
    if (not name and not empty) or len(name) > _LONGEST_NAME or any(unicodedata.category(c)[0] == "C" for c in name):
        raise InputError(parameter, f"must be 1 to {_LONGEST_NAME} printable characters, got {text[:40]!r}")
    return name


def check_text(text: str, parameter: str) -> str:
    """Refuse blank text."""
    if not text.strip():
        raise InputError(parameter, "must say something; it is kept for good")
    return text


def reserve_body(order: Order, price: Callable[[str], PricedCharge], period: str = "") -> dict[str, Any]:
    """Return the entry of a charge in a period; ``price`` gives its cost in a population's account."""
    population = plain_name(order.population, "population")
    _check_key(order.idempotency_key)
    priced = price(population)
    body = {
        "kind": "reserve",
        "population": population,
        "analyst": plain_name(order.analyst, "analyst", empty=True),
        "project": plain_name(order.project, "project", empty=True),
        "event": _event(priced.event),
        "amounts": amounts_text(priced.amounts),
        "quote": dict(order.quote),
        "sql": order.sql,
        "plan": order.plan,
        "repeat": order.repeat_key,
        "key": order.idempotency_key,
    }
    if order.conversation:
        body["conversation"] = plain_name(order.conversation, "conversation")
    if period:
        body["period"] = period
    if order.idempotency_key and not order.request:
        whole = canonical(body)
        return {**body, "request": _hashed(f"{len(whole)}:{whole}")}
    return {**body, "request": order.request}


@lru_cache(maxsize=1024)
def _event(text: str) -> dict[str, Any]:
    """Parse an event. Equal events share one object, because the contents of an entry are never changed."""
    event: dict[str, Any] = json.loads(text)
    return event


def _check_key(key: object) -> None:
    # Halves of a character (surrogates) come back from JSON as another text, under which the entry is not found again.
    if not isinstance(key, str) or len(key) > _LONGEST_NAME or any("\ud800" <= sign <= "\udfff" for sign in key):
        raise InputError("idempotency_key", f"must be text of at most {_LONGEST_NAME} characters")


def analyst_owner(analyst: str) -> str:
    """Return the owner of the balances of an analyst's share."""
    return f"analyst:{analyst}"


def conversation_owner(analyst: str, conversation: str) -> str:
    """Return the owner of a conversation's balances; the name has no slash, so that no two analysts share one."""
    return f"conversation:{analyst}/{conversation}"


def period_owner(period: str) -> str:
    """Return the owner of the balances of a version of the data, or of a period."""
    return f"version:{period}"


def owners_of(analyst: str, conversation: str = "", period: str = "") -> list[str]:
    """Return the owners of the balances that a charge counts for: the population, and the shares that are named."""
    owners = ["", *([analyst_owner(analyst)] if analyst else []), *([period_owner(period)] if period else [])]
    return [*owners, conversation_owner(analyst, conversation)] if conversation else owners


def amounts_text(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts in grains as exact fractions in text, for an entry."""
    return {currency: _text(grains) for currency, grains in amounts.items()}


def amounts_of(body: Mapping[str, Any]) -> tuple[Amount, ...]:
    """Return the positive amounts that an entry charged."""
    return _amounts(tuple(body["amounts"].items()))


def typed_of(body: Mapping[str, Any]) -> str:
    """Return the epsilon that was typed, such as ``epsilon 0.5``, where the account counts another currency."""
    quote = body["quote"]
    stated = quote.get("epsilon", quote.get("options", {}).get("epsilon"))
    return "" if stated is None or "epsilon" in body["amounts"] else f"epsilon {format_up(Fraction(stated))}"


@lru_cache(maxsize=1024)
def _amounts(stated: tuple[tuple[str, str], ...]) -> tuple[Amount, ...]:
    exact = ((currency, Fraction(text)) for currency, text in stated)
    return tuple(Amount(currency, amount) for currency, amount in exact if amount)


@lru_cache(maxsize=4096)
def _text(grains: int) -> str:
    return str(from_grains(grains))


def request_name(analyst: str, key: str) -> Name:
    """Return the name of an idempotency key; each analyst has a separate set of keys."""
    return Name("request", _hashed(f"{len(analyst)}:{analyst}{len(key)}:{key}"))


def repeat_name(population: str, key: str) -> Name:
    """Return the name of a release, under which an equal order finds it."""
    return Name("repeat", _hashed(f"{len(population)}:{population}{len(key)}:{key}"))


def run_name(seq: int, number: int) -> Name:
    """Return the name of one more run of a charge, so that each run is counted once."""
    return Name("run", f"{seq} {number}")


def renewal_name(population: str, period: str) -> Name:
    """Return the name of a period of an account, so that no period is opened twice."""
    return Name("renewal", _hashed(f"{len(population)}:{population}{period}"))


def conversation_name(population: str, owner: str) -> Name:
    """Return the name of a conversation's share of an account, so that it is fixed once."""
    return Name("conversation", _hashed(f"{len(population)}:{population}{owner}"))


def source_name(fingerprint: str) -> Name:
    return Name("source", _hashed(f"{len(fingerprint)}:{fingerprint}"))


def unit_name(population: str) -> Name:
    """Return the name that stands for the entry of the population's unit in force."""
    return Name("unit terms", population)


def column_name(mark: str) -> Name:
    """Return the name that stands for the entry of a source's column in force, from one of the source's marks."""
    return Name("column", _hashed(mark))


def declared_name(project: str, table: str) -> Name:
    """Return the name that stands for the newest declaration of a table."""
    return Name("declared", _hashed(f"{len(project)}:{project}{table}"))


def successor_name(public_key: str) -> Name:
    """Return the name of the successor of a key, so that a key is replaced once."""
    return Name("successor", public_key)


def _hashed(text: str) -> str:
    # Texts of several parts have their lengths first, so that no two lists of parts are the same text.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def step_of(body: Mapping[str, Any], attachments: Mapping[str, bytes] | None = None) -> Step:
    """Return the step that carries out an entry."""
    return Step(canonical(body), attachments=attachments or {}, **effects_of(body))


def effects_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the effects of an entry, by the fields of :class:`Step`.

    Raises:
        LookupError: the kind is unknown, or a part of the entry is missing.
    """
    match body["kind"]:
        case "reserve":
            population, amounts = body["population"], tuple(body["amounts"].items())
            shares = body.get("conversation", ""), body.get("period", "")
            repeat = [repeat_name(population, body["repeat"])] if body["repeat"] else []
            return {
                "moves": _moves(population, amounts, body["analyst"], *shares),
                "claims": _request(body) + repeat,
                "bars": _not_revoked(body),
            }
        case "commit":
            claims = [Name("outcome", str(body["of"]))]
            # An outcome signed with a key that was replaced meanwhile is refused.
            return {"claims": claims, "bars": [successor_name(body["key"])]} if body.get("key") else {"claims": claims}
        case "repeat":
            return {"claims": _request(body), "bars": _not_revoked(body)}
        case "run":
            return {"claims": [run_name(body["of"], body["number"])]}
        case "opened":
            return {"claims": [Name("ledger", "")]}
        case "account" | "caps" as kind:
            population = body["population"]
            claims = [Name("account", population)] if kind == "account" else []
            caps = caps_of(filter_from_terms(body["terms"])).items()
            stated = [Cap(BalanceKey(population, "", currency), cap) for currency, cap in caps]
            return {"claims": claims, "puts": [Name("terms", population)], "caps": stated}
        case "quota":
            return {"caps": _share_caps(body, body["owner"])}
        case "conversation":
            owner = conversation_owner(body["analyst"], body["name"])
            return {"claims": [conversation_name(body["population"], owner)], "caps": _share_caps(body, owner)}
        case "renewal":
            population, period = body["population"], body["period"]
            return {
                "claims": [renewal_name(population, period)],
                "puts": [Name("period", population)],
                "caps": _share_caps(body, period_owner(period)),
            }
        case "source":
            return {"claims": [source_name(fingerprint) for fingerprint in body["fingerprints"]]}
        case "analyst":
            name, revoked = Name("analyst", body["name"]), Name("revoked", body["name"])
            return {"puts": [name], "drops": [revoked]} if body["active"] else {"puts": [name, revoked]}
        case "key":
            return {"claims": [successor_name(body["previous"])]}
        case "adopted":
            return {"claims": [Name("anew", "")]} if body.get("anew") else {}
        case "lost":
            population, amounts = body["population"], tuple(body["amounts"].items())
            return {
                "claims": [Name("lost", population)] if body["anew"] else [],
                "moves": _moves(population, amounts),
            }
        case "note":
            return {}
        case "unit":
            population = body["population"]
            # A unit entry has one predecessor and at most one successor, so what it says about the predecessor is true.
            after = Name("unit after", f"{body['after']}:{population}")
            return {"claims": [after, *_bound(body)], "puts": [unit_name(population), *_columns(body)]}
        case "column":
            return {"claims": _bound(body), "puts": _columns(body)}
        case "declared":
            name = declared_name(body["project"], body["table"])
            return {"claims": [Name("declared after", f"{body['after']}:{name.key}")], "puts": [name]}
        case kind:
            raise LookupError(kind)


def parse(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an entry read back from its text, and its effects by the fields of :class:`Step`.

    Raises:
        ValueError: the text is not canonical.
    """
    body: dict[str, Any] = _DECODER.raw_decode(text)[0]  # anything around it is not canonical either
    if _encoded(body) != text:
        raise ValueError("it is not written in canonical form")
    return body, effects_of(body)


@lru_cache(maxsize=4096)
def _moves(
    population: str, amounts: tuple[tuple[str, str], ...], analyst: str = "", conversation: str = "", period: str = ""
) -> tuple[BalanceChange, ...]:
    """Return the changes of all balances that a charge counts for; those of shares are made when they are missing."""
    grains = [(currency, _grains(amount)) for currency, amount in amounts]
    return tuple(
        BalanceChange(BalanceKey(population, owner, currency), amount, owner != "")
        for owner in owners_of(analyst, conversation, period)
        for currency, amount in grains
        if amount
    )


def _share_caps(body: Mapping[str, Any], owner: str) -> list[Cap]:
    """Return the caps of a share of an account; None for a currency without one."""
    return [
        Cap(BalanceKey(body["population"], owner, currency), None if cap is None else _grains(cap))
        for currency, cap in body["caps"].items()
    ]


def _request(body: Mapping[str, Any]) -> list[Name]:
    return [request_name(body["analyst"], body["key"])] if body["key"] else []


def _not_revoked(body: Mapping[str, Any]) -> list[Name]:
    return [Name("revoked", body["analyst"])] if body["analyst"] else []


def _columns(body: Mapping[str, Any]) -> list[Name]:
    return list(dict.fromkeys(column_name(mark) for source in body["sources"] for mark in source["rows"]))


def _bound(body: Mapping[str, Any]) -> list[Name]:
    """Return names for the marks that are new in an entry, so that of two such entries the second is refused."""
    marks = dict.fromkeys(mark for source in body["sources"] for mark in source["fresh"])
    return [Name("bound", column_name(mark).key) for mark in marks]


@lru_cache(maxsize=4096)
def _grains(amount: str) -> int:
    return grains_up(Fraction(amount))
