"""Units, source columns and declarations: recorded in the ledger, compared, audited.

=========  ========================================================================================================
kind       meaning
=========  ========================================================================================================
unit       the protected unit of a population: a row, or an id of one type. The first such entry fixes it; another one
           needs an operator and a reason, and names the columns of the population's sources anew
column     the column of a source that identifies the person, fixed by the first entry that names one of its marks
declared   bounds, categories and limits of a table as the project file has them, and what changed since the last time
=========  ========================================================================================================

The guarantee of a charge is about these units, so they are terms of the account like its rule and relation. Bounds,
categories and limits may change from query to query, because noise is scaled to them; each change is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tacit.core.errors import InputError
from tacit.ledger.entries import check_text, column_name, declared_name, plain_name, unit_name
from tacit.ledger.errors import StorageError
from tacit.ledger.journal import Journal
from tacit.ledger.protocol import Appended, Reader


class Binding(NamedTuple):
    """A source whose rows identify people, and the column by which they do.

    Args:
        name: name of the table, for people to read.
        rows: the source's marks, which recognise every source with the same rows under the same column names.
        column: the identifying column; ``"row"``, or a path of columns along foreign keys.
    """

    name: str
    rows: tuple[str, ...]
    column: str


class ProtectedUnits:
    """Protected units of populations and identifying columns of sources: fixes them, and records changes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def unit_of(self, population: str) -> dict[str, str] | None:
        """Return the protected unit of a population; None if it was never fixed."""
        return self._unit(plain_name(population, "population"))[1]

    def check_unit(self, population: str, unit: Mapping[str, str]) -> None:
        """Compare a unit with the fixed one, and write nothing.

        Raises:
            InputError: the population's account protects another unit.
        """
        name = plain_name(population, "population")
        known = self._unit(name)[1]
        if known is not None and known != dict(unit):
            raise InputError(
                f"populations.{name}",
                f"its account protects {describe_unit(known)}, and its tables now name {describe_unit(unit)}: what was "
                "released would not be about the same persons; put the unit and its type back, name another "
                f"population with sources of its own, or have an operator fix it anew with `tacit ledger unit {name}`",
            )

    def ensure_unit(self, population: str, unit: Mapping[str, str]) -> None:
        """Fix the protected unit of a population, or check that it is the fixed one.

        Args:
            population: a population that has an account.
            unit: ``{"unit": "row"}``, or ``{"unit": "id", "type": …}``.

        Raises:
            InputError: the population's account protects another unit.
        """
        name = plain_name(population, "population")
        with self._journal.working():
            self._journal.terms(name)
            if self._unit(name)[1] is None:
                first: dict[str, Any] = {"after": 0, "was": None, "sources": []}
                self._journal.write({"kind": "unit", "population": name, "unit": dict(unit), **first})
        self.check_unit(name, unit)

    def change_unit(
        self, population: str, unit: Mapping[str, str], sources: Sequence[Binding], *, reason: str, operator: str
    ) -> None:
        """Fix the unit and the columns of sources anew, in a permanent entry. Earlier charges stay.

        Earlier releases are about the earlier units.
        """
        name = plain_name(population, "population")
        words = {"reason": check_text(reason, "reason"), "operator": check_text(operator, "operator")}
        with self._journal.working():
            self._journal.terms(name)
            while True:
                seq, known = self._unit(name)
                body = {"kind": "unit", "population": name, "unit": dict(unit), "was": known, "after": seq}
                listed = [self._listed(each, self._fresh(each)) for each in sources]
                if isinstance(self._journal.write({**body, "sources": listed, **words}), Appended):
                    return

    def check_column(self, population: str, source: Binding) -> list[str]:
        """Compare the column of a source with the fixed one; return the marks that are not in the ledger yet.

        Raises:
            InputError: the ledger has another column for the source.
        """
        for mark in source.rows:
            known = self._column(mark)
            if known not in (None, source.column):
                raise InputError(
                    f"tables.{source.name}.unit",
                    f"persons are named in this source by {known!r} for the account of {population!r}, and not by "
                    f"{source.column!r}: what was released would not be about the same persons; put it back, or have "
                    f"an operator fix it anew with `tacit ledger unit {population}`",
                )
        return self._fresh(source)

    def bind_column(self, population: str, source: Binding) -> None:
        """Fix the identifying column of a source, or check that it is the fixed one.

        Raises:
            InputError: the ledger has another column for the source.
        """
        owner = plain_name(population, "population")
        with self._journal.working():
            self._journal.terms(owner)
        while fresh := self.check_column(owner, source):
            listed = [self._listed(source, fresh)]
            with self._journal.working():
                if isinstance(
                    self._journal.write({"kind": "column", "population": owner, "sources": listed}), Appended
                ):
                    return

    def declare(self, project: str, table: str, population: str, terms: Mapping[str, str]) -> None:
        """Record a project's declaration of a table, unless it equals the last one recorded."""
        owner, where = plain_name(population, "population"), declared_name(project, table)
        with self._journal.working():
            while True:
                seq = self._journal.find(where)
                known = {} if seq is None else dict(self._journal.read(seq, "declared")[1]["terms"])
                if seq is not None and known == dict(terms):
                    return
                body = {"kind": "declared", "project": project, "table": table, "population": owner, "after": seq or 0}
                changed = {} if seq is None else _differences(known, terms)
                if isinstance(self._journal.write({**body, "terms": dict(terms), "changed": changed}), Appended):
                    return

    @staticmethod
    def _listed(source: Binding, fresh: Sequence[str]) -> dict[str, Any]:
        """Return a source as an entry states it."""
        return {"name": source.name, "rows": list(source.rows), "fresh": list(fresh), "column": source.column}

    def _fresh(self, source: Binding) -> list[str]:
        """Return the marks of a source that are not in the ledger yet."""
        return [mark for mark in dict.fromkeys(source.rows) if self._column(mark) is None]

    def _unit(self, population: str) -> tuple[int, dict[str, str] | None]:
        with self._journal.working():
            seq = self._journal.find(unit_name(population))
            if seq is None:
                return 0, None
            _, body = self._journal.read(seq, "unit")
            if body["population"] != population:
                raise StorageError(f"entry {seq} does not state the unit of {population}")
            unit: dict[str, str] = body["unit"]
            return seq, unit

    def _column(self, mark: str) -> str | None:
        with self._journal.working():
            seq = self._journal.find(column_name(mark))
            if seq is None:
                return None
            body: dict[str, Any] = self._journal.read(seq, "column", "unit")[1]
            try:
                return _column_of(body, mark)
            except LookupError:
                raise StorageError(f"entry {seq} does not name the column that it should") from None


def _column_of(body: Mapping[str, Any], mark: str) -> str:
    """Return the column that an entry of kind ``column`` or ``unit`` gives to a mark."""
    for source in body["sources"]:
        if mark in source["rows"]:
            return str(source["column"])
    raise LookupError("the entry does not hold the mark")


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the changed terms with their values before and now, empty text for a term that is not stated."""
    names = sorted({*before, *now})
    pairs = {name: [before.get(name, ""), now.get(name, "")] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def describe_unit(unit: Mapping[str, str]) -> str:
    """Return text such as ``every row``, or ``an id of type INTEGER``."""
    return "every row" if unit["unit"] == "row" else f"an id of type {unit['type']}"


class ProtectionAudit:
    """Audit of entries of kinds ``unit``, ``column`` and ``declared``, in order, for :mod:`tacit.ledger.verify`."""

    def __init__(self) -> None:
        self._units: dict[str, Mapping[str, str]] = {}
        self._columns: dict[str, tuple[str, str]] = {}
        self._declared: dict[tuple[str, str], Mapping[str, str]] = {}
        #: Sentences about the changes, in order.
        self.changes: list[str] = []

    def read(self, seq: int, body: Mapping[str, Any], accounts: Iterable[str], *, charged: bool) -> str:
        """Check and apply one entry; return the problem as text, or empty text.

        Args:
            seq: number of the entry.
            body: its contents.
            accounts: populations that have accounts so far.
            charged: whether its population was charged anything so far.
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
            return f"says that the unit of {population} was {describe_unit(body['was'])}; it was {describe_unit(known)}"
        changed = "" if known == now else f" was {describe_unit(known)} and is {describe_unit(now)};"
        self._note(seq, f"the unit of {population}{changed} was fixed anew by {body['operator']}: {body['reason']}")
        return ""

    def _bind(self, seq: int, body: Mapping[str, Any], *, charged: bool) -> str:
        changed = {}
        for source in body["sources"]:
            if charged and not any(mark in self._columns for mark in source["rows"]):
                # It may be an unrecognised copy of a source, with another identifying column.
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
        changed = {} if known is None else _differences(known, body["terms"])
        if body["changed"] != changed:
            return f"does not say what changed in the declaration of {body['table']}"
        if known is None and charged:
            # Under another name, of the table or of the project, there is nothing to compare with.
            terms = body["terms"]
            ceilings = [name for name in ("max_groups_limit", "max_rows_limit") if name in terms]
            limits = ", ".join(
                f"{name} {terms.get(name, '')}" for name in ("unit", "max_groups", "max_rows", *ceilings)
            )
            self._note(seq, f"{body['table']} of {body['project']} was declared after charges: {limits}")
        for name, (before, now) in changed.items():
            self._note(seq, f"{body['table']}: {name} was {before or 'not stated'}, is {now or 'not stated'}")
        return ""

    def _note(self, seq: int, words: str) -> None:
        self.changes.append(f"entry {seq}: {words}")


def changes_in(reader: Reader) -> list[str]:
    """Return sentences about changes of units, columns and declarations, without verifying anything else."""
    audit = ProtectionAudit()
    # Every entry of these kinds has claimed one of these names for good.
    seqs = {seq for space in ("unit after", "declared after", "bound") for _, seq in reader.names(space)}
    for seq in sorted(seqs):
        entry = reader.entry(seq)
        if entry is not None:
            body = json.loads(entry.body)
            audit.read(seq, body, (body["population"],), charged=False)
    return audit.changes


def _answered_for(body: Mapping[str, Any]) -> bool:
    return bool(body.get("operator", "").strip() and body.get("reason", "").strip())
