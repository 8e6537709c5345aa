"""Units, source columns and declarations recorded in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tacit.core.errors import InputError
from tacit.ledger.entries import check_text, plain_name
from tacit.ledger.journal import Journal
from tacit.ledger.protection_entries import column_name, column_of, declared_name, differences, unit_name, unit_words
from tacit.ledger.protocol import Appended, StorageError

__all__ = ["Binding", "Protected"]


class Binding(NamedTuple):
    """A source whose rows name persons.

    Args:
        name: of the table, for people.
        rows: the source's marks: of everything whose rows it has as they are, under the same names of columns.
        column: which names the person; ``"row"``, or a path of columns along foreign keys.
    """

    name: str
    rows: tuple[str, ...]
    column: str


class Protected(Journal):
    """Fixes the unit of every population and the column of every source, and keeps what changed."""

    def unit_of(self, population: str) -> dict[str, str] | None:
        """What one person of a population is; None where that was never fixed."""
        return self._unit(plain_name(population, "population"))[1]

    def unit_entry(self, population: str) -> int:
        """The entry that fixes it; 0 where there is none. Another one means that sources must be opened again."""
        with self._working():
            return self._store.find(unit_name(plain_name(population, "population"))) or 0

    def check_unit(self, population: str, unit: Mapping[str, str]) -> None:
        """Compare with what was fixed, and write nothing.

        Raises:
            InputError: the population's account is about other units.
        """
        name = plain_name(population, "population")
        known = self._unit(name)[1]
        if known is not None and known != dict(unit):
            raise InputError(
                f"populations.{name}",
                f"its account protects {unit_words(known)}, and its tables now name {unit_words(unit)}: what was "
                "released would not be about the same persons; put the unit and its type back, name another "
                f"population with sources of its own, or have an operator fix it anew with `tacit ledger unit {name}`",
            )

    def ensure_unit(self, population: str, unit: Mapping[str, str]) -> None:
        """Fix what one person of a population is, or check that it is what was fixed.

        Args:
            population: one that has an account.
            unit: ``{"unit": "row"}``, or ``{"unit": "id", "type": …}``.

        Raises:
            InputError: the population's account is about other units.
        """
        name = plain_name(population, "population")
        with self._working():
            self._terms(name)
            if self._unit(name)[1] is None:
                first: dict[str, Any] = {"after": 0, "was": None, "sources": []}
                self._write({"kind": "unit", "population": name, "unit": dict(unit), **first})
        self.check_unit(name, unit)

    def change_unit(
        self, population: str, unit: Mapping[str, str], sources: Sequence[Binding], *, reason: str, operator: str
    ) -> None:
        """Fix the unit and the columns of sources anew. What was spent stays spent; that it was done stays as well.

        What was released before was about the units of before.
        """
        name = plain_name(population, "population")
        words = {"reason": check_text(reason, "reason"), "operator": check_text(operator, "operator")}
        with self._working():
            self._terms(name)
            while True:
                seq, known = self._unit(name)
                body = {"kind": "unit", "population": name, "unit": dict(unit), "was": known, "after": seq}
                listed = [self._listed(each, self._fresh(each)) for each in sources]
                if isinstance(self._write({**body, "sources": listed, **words}), Appended):
                    return

    def check_column(self, population: str, source: Binding) -> list[str]:
        """Compare the column of a source with what was fixed; the marks that nothing is known of yet.

        Raises:
            InputError: the source is known with another column.
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
        """Fix the column of a source that names the person, or check that it is what was fixed.

        Raises:
            InputError: the source is known with another column.
        """
        owner = plain_name(population, "population")
        with self._working():
            self._terms(owner)
        while fresh := self.check_column(owner, source):
            listed = [self._listed(source, fresh)]
            with self._working():
                if isinstance(self._write({"kind": "column", "population": owner, "sources": listed}), Appended):
                    return

    def declare(self, project: str, table: str, population: str, terms: Mapping[str, str]) -> None:
        """Keep what a project declares about a table, if that is not what it declared last."""
        owner, where = plain_name(population, "population"), declared_name(project, table)
        with self._working():
            while True:
                seq = self._store.find(where)
                known = {} if seq is None else dict(self._read(seq, "declared")[1]["terms"])
                if seq is not None and known == dict(terms):
                    return
                body = {"kind": "declared", "project": project, "table": table, "population": owner, "after": seq or 0}
                changed = {} if seq is None else differences(known, terms)
                if isinstance(self._write({**body, "terms": dict(terms), "changed": changed}), Appended):
                    return

    @staticmethod
    def _listed(source: Binding, fresh: Sequence[str]) -> dict[str, Any]:
        """A source as it is written down."""
        return {"name": source.name, "rows": list(source.rows), "fresh": list(fresh), "column": source.column}

    def _fresh(self, source: Binding) -> list[str]:
        """The marks that nothing is known of yet."""
        return [mark for mark in dict.fromkeys(source.rows) if self._column(mark) is None]

    def _unit(self, population: str) -> tuple[int, dict[str, str] | None]:
        with self._working():
            seq = self._store.find(unit_name(population))
            if seq is None:
                return 0, None
            _, body = self._read(seq, "unit")
            if body["population"] != population:
                raise StorageError(f"entry {seq} does not state the unit of {population}")
            unit: dict[str, str] = body["unit"]
            return seq, unit

    def _column(self, mark: str) -> str | None:
        with self._working():
            seq = self._store.find(column_name(mark))
            if seq is None:
                return None
            body: dict[str, Any] = self._read(seq, "column", "unit")[1]
            try:
                return column_of(body, mark)
            except LookupError:
                raise StorageError(f"entry {seq} does not name the column that it should") from None
