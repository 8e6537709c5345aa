"""Entries about units, source columns and declarations.

=========  ========================================================================================================
kind       is
=========  ========================================================================================================
unit       what one person of a population is: a row, or an id of one type. The first such entry fixes it; another one
           needs an operator and a reason, and names the columns of the population's sources anew
column     which column of a source names the person, fixed by the first entry that names one of the source's marks
declared   bounds, categories and limits of a table as the project file has them, and what changed since the last time
=========  ========================================================================================================

The guarantee of a charge speaks about these, so they are terms of the account as its rule and relation are. Bounds,
categories and limits may change from question to question, for noise is scaled to them; that they did is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tacit.ledger.protocol import Name, Reader

__all__ = [
    "EFFECTS",
    "ProtectionAudit",
    "changes_in",
    "column_name",
    "column_of",
    "declared_name",
    "differences",
    "protection_words",
    "unit_name",
    "unit_words",
]

#: In place of a term that is not there.
ABSENT: Final = ""


def unit_name(population: str) -> Name:
    """What stands for the unit of a population in force."""
    return Name("unit terms", population)


def column_name(mark: str) -> Name:
    """What stands for the column of a source in force, by one of the source's marks."""
    return Name("column", _hashed(mark))


def declared_name(project: str, table: str) -> Name:
    """What stands for the newest declaration of a table."""
    return Name("declared", _hashed(f"{len(project)}:{project}{table}"))


def column_of(body: Mapping[str, Any], mark: str) -> str:
    """The column that an entry of kind ``column`` or ``unit`` gives to a mark."""
    for source in _sources(body):
        if mark in source["rows"]:
            return str(source["column"])
    raise LookupError("the entry does not hold the mark")


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """What changed, by term: what it was and what it is, empty where it is not there."""
    names = sorted({*before, *now})
    pairs = {name: [before.get(name, ABSENT), now.get(name, ABSENT)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def unit_words(unit: Mapping[str, str]) -> str:
    """Such as ``every row``, or ``an id of type INTEGER``."""
    return "every row" if unit["unit"] == "row" else f"an id of type {unit['type']}"


def protection_words(kind: str, body: Mapping[str, Any]) -> str:
    """An entry in one line."""
    if kind == "declared":
        changed = [
            f"{name} was {was or 'not stated'}, is {now or 'not stated'}"
            for name, (was, now) in body["changed"].items()
        ]
        return f"{body['table']}: {'; '.join(changed) or 'for the first time'}"
    columns = dict.fromkeys(f"{source['name']} by {source['column']}" for source in _sources(body))
    listed = f"; named in {', '.join(columns)}" if columns else ""
    if kind == "column":
        return f"{body['population']}{listed}"
    was = f", {unit_words(body['was'])} before" if body["was"] else ""
    reason = f": {body['reason']}" if body.get("reason") else ""
    return f"{body['population']}: {unit_words(body['unit'])}{was}{listed}{reason}"


class ProtectionAudit:
    """Follows the entries about who is protected, for :mod:`tacit.ledger.verify`."""

    def __init__(self) -> None:
        self._units: dict[str, Mapping[str, str]] = {}
        self._columns: dict[str, tuple[str, str]] = {}
        self._declared: dict[tuple[str, str], Mapping[str, str]] = {}
        #: What changed, in words, in order.
        self.changes: list[str] = []

    def read(self, seq: int, body: Mapping[str, Any], accounts: Iterable[str], *, charged: bool) -> str:
        """Take in one entry; what is wrong with it, in words, or nothing.

        Args:
            seq: its place.
            body: what it says.
            accounts: of all populations so far.
            charged: whether anything was charged to its population so far.
        """
        if body["population"] not in accounts:
            return "is about an account that does not exist"
        if body["kind"] == "declared":
            return self._declare(seq, body, charged=charged)
        wrong = self._unit(seq, body) if body["kind"] == "unit" else ""
        return wrong or self._bind(seq, body, charged=charged)

    def _unit(self, seq: int, body: Mapping[str, Any]) -> str:
        population, now = body["population"], body["unit"]
        known = self._units.get(population)
        self._units[population] = now
        if known is None:
            return ""
        if not _answered_for(body):
            return f"changes the unit of {population}, and no operator answers for it"
        if body["was"] != known:
            return f"says that the unit of {population} was {unit_words(body['was'])}; it was {unit_words(known)}"
        changed = "" if known == now else f" was {unit_words(known)} and is {unit_words(now)};"
        self._note(seq, f"the unit of {population}{changed} was fixed anew by {body['operator']}: {body['reason']}")
        return ""

    def _bind(self, seq: int, body: Mapping[str, Any], *, charged: bool) -> str:
        changed = {}
        for source in _sources(body):
            if charged and not any(mark in self._columns for mark in source["rows"]):
                # Perhaps an unrecognised copy, with another column for the person.
                words = f"{source['name']}, a source not seen before, names persons of {body['population']}"
                self._note(seq, f"{words} by {source['column']}")
            for mark in source["rows"]:
                known = self._columns.get(mark, ("", ""))
                if known[0] and known[0] != body["population"]:
                    return f"names a unit in a source of {known[0]} for {body['population']}"
                if known[1] and known[1] != source["column"]:
                    changed[source["name"]] = f"{source['name']} by {source['column']}, {known[1]} before"
                self._columns[mark] = body["population"], source["column"]
        if changed and not _answered_for(body):
            return f"changes the unit column of {', '.join(sorted(changed))}, and no operator answers for it"
        for words in sorted(changed.values()):
            self._note(seq, f"persons of {body['population']} are named in {words}")
        return ""

    def _declare(self, seq: int, body: Mapping[str, Any], *, charged: bool) -> str:
        key = body["project"], body["table"]
        known = self._declared.get(key)
        self._declared[key] = body["terms"]
        changed = {} if known is None else differences(known, body["terms"])
        if body["changed"] != changed:
            return f"does not say what changed in the declaration of {body['table']}"
        if known is None and charged:
            # Under another name, of the table or of the project, there is nothing to compare with.
            limits = ", ".join(f"{name} {body['terms'].get(name, '')}" for name in ("unit", "max_groups", "max_rows"))
            self._note(seq, f"{body['table']} of {body['project']} was declared after charges: {limits}")
        for name, (before, now) in changed.items():
            self._note(seq, f"{body['table']}: {name} was {before or 'not stated'}, is {now or 'not stated'}")
        return ""

    def _note(self, seq: int, words: str) -> None:
        self.changes.append(f"entry {seq}: {words}")


def changes_in(reader: Reader) -> list[str]:
    """What was changed about who is protected and how, in words, without verifying anything else."""
    audit = ProtectionAudit()
    # Every entry of these kinds has taken a name for good.
    seqs = {seq for space in ("unit after", "declared after", "bound") for _, seq in reader.names(space)}
    for seq in sorted(seqs):
        entry = reader.entry(seq)
        if entry is not None:
            body = json.loads(entry.body)
            audit.read(seq, body, (body["population"],), charged=False)
    return audit.changes


def _answered_for(body: Mapping[str, Any]) -> bool:
    return bool(body.get("operator", "").strip() and body.get("reason", "").strip())


def _sources(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = body["sources"]
    return found


def _unit(body: Mapping[str, Any]) -> dict[str, Any]:
    population = body["population"]
    # An entry follows one other and is followed by one, so that what it says about the one before is true.
    claims = [Name("unit after", f"{body['after']}:{population}"), *_bound(body)]
    return {"claims": claims, "puts": [unit_name(population), *_columns(body)]}


def _column(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"claims": _bound(body), "puts": _columns(body)}


def _columns(body: Mapping[str, Any]) -> list[Name]:
    return list(dict.fromkeys(column_name(mark) for source in _sources(body) for mark in source["rows"]))


def _bound(body: Mapping[str, Any]) -> list[Name]:
    """Marks that nothing was known of: of two entries that name one for the first time, one is first."""
    marks = dict.fromkeys(mark for source in _sources(body) for mark in source["fresh"])
    return [Name("bound", column_name(mark).key) for mark in marks]


def _declared(body: Mapping[str, Any]) -> dict[str, Any]:
    name = declared_name(body["project"], body["table"])
    return {"claims": [Name("declared after", f"{body['after']}:{name.key}")], "puts": [name]}


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


#: By kind, what an entry does, by the words of :class:`tacit.ledger.protocol.Step`.
EFFECTS: Final = {"unit": _unit, "column": _column, "declared": _declared}
