"""The object users hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.curator.accounts import Account, Budget, Entry
from tacit.curator.answer import Desk, answer, opaque, quote
from tacit.curator.quote import Quote
from tacit.curator.result import Answer
from tacit.query.catalog import Table
from tacit.query.explain import explain
from tacit.query.final import FinalAggregation
from tacit.query.request import Request

__all__ = ["Curator", "TableInfo"]


@runtime_checkable
class Explains(Protocol):
    """An engine that can show its statements."""

    def explain(self, final: FinalAggregation) -> tuple[str, ...]:
        """What it would run."""


@dataclass(frozen=True)
class TableInfo:
    """A table as anyone may know it: what its owner declared, and nothing from its contents."""

    table: Table

    @property
    def name(self) -> str:
        """How queries call it."""
        return self.table.name

    def __str__(self) -> str:
        owner = "public" if self.table.public else f"protects {self.table.population}"
        lines = [f"{self.name}: {owner}"]
        for column in self.table.columns:
            parts = [f"  {column.name} {column.type}"]
            if column.name == self.table.unit:
                parts.append("the unit")
            if column.bounds is not None:
                parts.append(f"from {column.bounds[0]} to {column.bounds[1]}")
            if column.categories is not None:
                shown = ", ".join("NULL" if value is None else str(value) for value in column.categories[:6])
                parts.append(f"one of {shown}{', …' if len(column.categories) > 6 else ''}")
            lines.append(", ".join(parts))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<TableInfo {self.name}: {', '.join(column.name for column in self.table.columns)}>"


class Curator:
    """Stands between data and questions: answers with noise, within a budget. Made by :func:`tacit.open`.

    Every method may be called from several threads at once.
    """

    def __init__(self, name: str, desk: Desk) -> None:
        self.name = name
        self._desk = desk

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        mu: Number | None = None,
        within: Number | Mapping[str, Number] | None = None,
        confidence: Number = "0.95",
        max_groups: int | None = None,
        weights: Mapping[str, Number] | None = None,
        suppose: int | None = None,
    ) -> Answer:
        """The answer to a question in SQL.

        The number typed is the guarantee of the whole question. It is charged before data is read; the same question
        with the same parameters, asked again, gets the same answer for nothing.

        Args:
            sql: the question.
            epsilon: what it may cost; or ``rho`` (zCDP accounts) or ``mu`` (GDP accounts).
            delta: for accounts and questions that have one.
            rho: see ``epsilon``.
            mu: see ``epsilon``.
            within: instead of a price, how far off an answer may be.
            confidence: of the intervals.
            max_groups: the most groups that one unit counts in, if fewer than declared.
            weights: which aggregates matter more.
            suppose: how many values a group is supposed to have, for the errors of averages.
        """
        request = Request(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, within=within, confidence=confidence,
            max_groups=max_groups, weights=weights, suppose=suppose,
        )  # fmt: skip
        return answer(self._desk, sql, request)

    def explain(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        mu: Number | None = None,
        within: Number | Mapping[str, Number] | None = None,
        confidence: Number = "0.95",
        max_groups: int | None = None,
        weights: Mapping[str, Number] | None = None,
        suppose: int | None = None,
    ) -> Quote:
        """What :meth:`sql` would do with the same arguments: releases, noise, price, errors. Free; reads no data."""
        request = Request(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, within=within, confidence=confidence,
            max_groups=max_groups, weights=weights, suppose=suppose,
        )  # fmt: skip
        plan = quote(self._desk, sql, request)
        engine = self._desk.engine
        with opaque():
            explanation = explain(plan)
            if isinstance(engine, Explains):
                explanation = explanation.with_engine_sql(";\n".join(engine.explain(plan.final)))
        return Quote(plan, explanation)

    def budget(self, quote: Quote | Answer | None = None, *, population: str | None = None) -> Budget:
        """What is spent and what is left; with a quote or an answer, also how many more such questions fit."""
        name = population if quote is None else quote.plan.final.population
        return self._account(name).budget(None if quote is None else quote.plan.guarantee)

    def tables(self) -> tuple[TableInfo, ...]:
        """The tables and what is publicly known about their columns."""
        return tuple(TableInfo(table) for table in self._desk.catalog.tables)

    def history(self, *, population: str | None = None) -> tuple[Entry, ...]:
        """What was asked of a population and what it cost, in order."""
        return self._account(population).history()

    def close(self) -> None:
        """Give the engine back; further questions fail."""
        self._desk.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(table.name for table in self._desk.catalog.tables)
        return f"<Curator {self.name}: {names}>"

    def _account(self, population: str | None) -> Account:
        accounts = self._desk.accounts
        if population is None and len(accounts) == 1:
            return next(iter(accounts.values()))
        if population is None or population not in accounts:
            raise InputError("population", f"must be one of {', '.join(accounts)}")
        return accounts[population]
