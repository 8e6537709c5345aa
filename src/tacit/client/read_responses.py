"""Parsing of quotes, budgets, tables and histories sent by a server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Final

from tacit.accounting.filters import Line
from tacit.client.remote_answer import read_amounts, read_type, read_value, understood
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import exact
from tacit.core.relations import Relation, as_relation
from tacit.curator.accounts import Budget, Entry
from tacit.curator.curator import TableInfo
from tacit.curator.quote import QuoteForms
from tacit.ledger import Amount, Balance
from tacit.query.catalog import Column, ForeignKey, Table
from tacit.query.planning.explain import ExplainedError, ExplainedRelease, Explanation

__all__ = ["RemoteQuote", "read_budget", "read_entry", "read_quote", "read_table"]

_KINDS: Final[dict[str, tuple[Callable[..., Guarantee], tuple[str, ...]]]] = {
    "PureDP": (PureDP, ("epsilon",)),
    "ApproxDP": (ApproxDP, ("epsilon", "delta")),
    "ZCDP": (ZCDP, ("rho", "delta")),
    "GDP": (GDP, ("mu",)),
}
_SHOWN: Final = re.compile(r"(\w+)\(([^(),]+)(?:, (?:delta=)?([0-9.e+-]+))?(?:, relation=\W?(?:\w+\.)?(\w+).*)?\)\Z")


@dataclass(frozen=True, repr=False)
class RemoteQuote(QuoteForms):
    """What a question would do and cost, as a server says: ``str`` for people, :meth:`to_json` for programs.

    Args:
        explanation: what is protected, each release with its noise, the price and the errors.
        guarantee: what the account would be charged.
        questions_left: how many more such questions fit.
        leaves_after: seconds after which a fresh answer leaves the server; None where it does not say.
    """

    explanation: Explanation
    guarantee: Guarantee
    questions_left: int | None = None
    leaves_after: float | None = None


def read_quote(content: Mapping[str, Any]) -> RemoteQuote:
    """A quote."""
    with understood("the quote"):
        said = dict(content)
        price = said["price"]
        words: dict[str, Any] = {word.name: said.get(word.name) for word in fields(Explanation)}
        words |= {
            "charge": price["text"],
            "digest": said["plan"],
            "protected": tuple(said["protected"]),
            "releases": tuple(ExplainedRelease(**release) for release in said["releases"]),
            "errors": tuple(ExplainedError(**error) for error in said["errors"]),
        }
        guarantee = _guarantee(said["guarantee"], price["amounts"], as_relation(said["relation"]))
        return RemoteQuote(Explanation(**words), guarantee, said.get("questions_left"), said.get("leaves_after"))


def read_budget(content: Mapping[str, Any], charge: tuple[Amount, ...] | None = None) -> Budget:
    """An account; with a charge, also how many more such charges fit in it and in its shares."""
    with understood("the budget"):
        balances = (
            Balance("population", True, _lines(content["currencies"])),
            *(Balance(s["owner"], s["limited"], _lines(s["currencies"])) for s in content["shares"]),
        )
        questions = content["questions_left"] if charge is None else _fitting(balances, charge)
        return Budget(content["population"], _shown(content["guarantee"]), balances, questions, content["durable"])


def read_entry(content: Mapping[str, Any]) -> Entry:
    """A line of the history."""
    with understood("the history"):
        amounts = read_amounts(content["amounts"])
        return Entry(
            int(content["position"]),
            str(content["population"]),
            amounts,
            str(content["sql"]),
            str(content["plan"]),
            bool(content["answered"]),
            str(content["analyst"]),
        )


def read_table(content: Mapping[str, Any]) -> TableInfo:
    """A table and what is publicly known about it."""
    with understood("the tables"):
        keys = tuple(ForeignKey(k["column"], k["table"], k["references"]) for k in content["foreign_keys"])
        words = {word: content[word] for word in ("public", "population", "unit", "max_groups", "max_rows")}
        # Servers of before did not say it.
        words |= {word: content[word] for word in ("unit_rows",) if word in content}
        columns = tuple(_column(said) for said in content["columns"])
        return TableInfo(Table(content["name"], columns, foreign_keys=keys, **words))


def _column(said: Mapping[str, Any]) -> Column:
    kind = read_type(said["type"])
    bounds, values = said["bounds"], said["categories"]
    low_high = None if bounds is None else tuple(read_value(end, kind) for end in bounds)
    return Column(
        said["name"],
        kind,
        bounds=low_high,  # type: ignore[arg-type]  # a Column checks its bounds itself
        step=None if said["step"] is None else exact(said["step"], "step"),
        categories=None if values is None else tuple(read_value(value, kind) for value in values),
        nullable=said["nullable"],
        unique=said["unique"],
    )


def _lines(said: list[Mapping[str, str]]) -> tuple[Line, ...]:
    return tuple(Line(str(s["currency"]), exact(s["cap"], "cap"), exact(s["spent"], "spent")) for s in said)


def _fitting(balances: tuple[Balance, ...], charge: tuple[Amount, ...]) -> int | None:
    prices = {amount.currency: amount.amount for amount in charge if amount.amount}
    counts = [
        int(line.left // prices[line.currency])
        for balance in balances
        if balance.limited
        for line in balance.lines
        if line.currency in prices
    ]
    return min(counts, default=None)


def _guarantee(kind: str, amounts: Mapping[str, str], relation: Relation) -> Guarantee:
    make, words = _KINDS[kind]
    stated = {name: exact(amounts[name], name) if name in amounts else Fraction(0) for name in words}
    return make(**stated, relation=relation)


def _shown(text: str) -> Guarantee:
    """The guarantee that a text such as ``ApproxDP(3, 1e-06)`` shows; it was rounded up, so it holds as well."""
    found = _SHOWN.match(text)
    if found is None:
        raise ValueError(f"{json.dumps(text)} is not a guarantee")
    kind, first, second, relation = found.groups()
    words = _KINDS[kind][1]
    amounts = {words[0]: first} | ({words[1]: second} if second is not None else {})
    return _guarantee(kind, amounts, as_relation((relation or "add_remove").lower()))
