"""Bodies of responses about a project: accounts, tables, history, keys, people and tokens.

*Exact numbers, types and cells.* Privacy parameters are exact text. Within a cell, integers beyond ±(2⁵³ − 1),
decimals, dates and timestamps are text, because readers of JSON round or lack them; the type of the column determines
how to read it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Set
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field

from tacit.accounting.currencies import CURRENCIES
from tacit.accounting.filters import Line
from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import exact, exact_text
from tacit.core.relations import as_relation
from tacit.curator.curator import TableInfo
from tacit.ledger import Amount, Balance
from tacit.ledger.protocol import Head
from tacit.query.catalog import Column, ForeignKey, Table
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMESTAMP,
    Kind,
    SqlType,
    Value,
    as_value,
    decimal,
)
from tacit.releases.accounts import Budget, Entry
from tacit.releases.answer import plain
from tacit.releases.api_types import (
    Exact,
    ResponseModel,
    Scalar,
    maybe,
)
from tacit.releases.receipt import guarantee_to_plain

if TYPE_CHECKING:
    from tacit.ledger import Amount, Ledger


#: Integers of at most this size are read exactly by every reader of JSON.
EXACT_IN_JSON: Final = 2**53 - 1
_TYPES: Final = {str(kind): kind for kind in (BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIMESTAMP)}
_DECIMAL: Final = re.compile(r"DECIMAL\(18,(\d)\)\Z")
_INTEGER: Final = re.compile(r"-?\d{1,19}\Z")
_PLAIN: Final = re.compile(r"-?\d{1,19}(\.\d{1,9})?(E-\d)?\Z")


def cell_to_json(
    value: Any,
    ends: tuple[Any, Any] | None,
    kind: SqlType,
    *,
    wide: bool = True,
    biased: tuple[Any, Any] | None = None,
    sure: tuple[Any, Any] | None = None,
    marked: bool = False,
) -> Any:
    """Return a cell for JSON: its value, or an object with value and interval; ``wide`` as for :func:`value_to_json`.

    ``biased`` is the interval that includes the bias, where the bias is known, and ``sure`` the one that includes only
    what is sure of it, where there is any; ``marked`` is whether the bias may exceed the interval.
    """
    if ends is None:
        return value_to_json(value, kind, wide=wide)
    value, low, high = (value_to_json(each, kind, wide=wide) for each in (value, *ends))
    cell = {"value": value, "low": low, "high": high}
    for name, pair in (("bias", biased), ("sure", sure)):
        if pair is not None:
            cell[f"{name}_low"], cell[f"{name}_high"] = (value_to_json(each, kind, wide=wide) for each in pair)
    return cell | {"marked": True} if marked else cell


def value_to_json(value: Any, kind: SqlType, *, wide: bool = True) -> Any:
    """Return a value for JSON; with ``wide``, integers that readers of JSON would round are text."""
    shown = plain(value, kind)
    if shown is None or isinstance(shown, (bool, float, str)):
        return shown
    if isinstance(shown, int):
        return str(shown) if wide and abs(shown) > EXACT_IN_JSON else shown
    if wide:
        return f"{shown:f}" if isinstance(shown, Decimal) else shown.isoformat()
    return str(shown)


def read_type(text: str) -> SqlType:
    """Return the SQL type of a type name."""
    found = _DECIMAL.match(text)
    return decimal(int(found[1])) if found else _TYPES[text]


def read_value(value: Any, kind: SqlType) -> Value | None:
    """Return the SQL value of a JSON value of type ``kind``; nothing is rounded."""
    if value is None:
        return None
    read = as_value(_converted(value, kind), kind)
    if read is None or (isinstance(read, float) and not math.isfinite(read)):
        raise ValueError(f"{value!r} is not a value of {kind}")
    return read


def _converted(value: Any, kind: SqlType) -> object:
    match kind.kind:
        case Kind.INTEGER:
            return int(value) if isinstance(value, str) and _INTEGER.match(value) else value
        case Kind.DECIMAL:
            return Fraction(value) if isinstance(value, str) and _PLAIN.match(value) else None
        case Kind.DATE:
            return dt.date.fromisoformat(value)
        case Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(value)
        case _:
            return value


def read_amounts(said: Mapping[str, str]) -> tuple[Amount, ...]:
    """Return the amounts of a charge, delta last."""
    amounts = [Amount(str(name), exact(text, "charge")) for name, text in said.items()]
    return tuple(sorted((each for each in amounts if each.amount), key=lambda each: each.currency == "delta"))


_SEEN: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})\Z")
GuaranteeKind = Literal["PureDP", "ApproxDP", "ZCDP", "GDP"]


class GuaranteeResponse(ResponseModel):
    """A guarantee: its kind, its exact amounts, and the relation that it is about."""

    kind: GuaranteeKind
    amounts: dict[str, Exact]
    relation: str

    @classmethod
    def of(cls, guarantee: Guarantee) -> Self:
        """The guarantee; an amount of 0 is left out."""
        amounts = guarantee_to_plain(guarantee)
        kind = amounts.pop("kind")
        exactly = {name: exact_text(Fraction(text)) for name, text in amounts.items() if Fraction(text)}
        return cls.model_validate({"kind": kind, "amounts": exactly, "relation": guarantee.relation.value})

    def to_domain(self) -> Guarantee:
        """The guarantee."""
        currency = next(each for each in CURRENCIES.values() if each.guarantee_type.__name__ == self.kind)
        numbers = {name: exact(self.amounts.get(name, 0), name) for name in currency.numbers}
        return currency.guarantee(numbers, as_relation(self.relation))


class LineResponse(ResponseModel):
    """One currency of an account."""

    currency: str
    cap: Exact
    spent: Exact
    left: Exact

    def to_domain(self) -> Line:
        """The line."""
        return Line(self.currency, exact(self.cap, "cap"), exact(self.spent, "spent"))


class BalanceResponse(ResponseModel):
    """The part of an account that one analyst or project may use."""

    owner: str
    limited: bool
    currencies: list[LineResponse]


class BudgetResponse(ResponseModel):
    """The account of a population."""

    population: str
    guarantee: str = Field(description="of all answers together, for people: rounded up")
    promise: GuaranteeResponse = Field(description="the same, exactly")
    currencies: list[LineResponse]
    shares: list[BalanceResponse]
    queries_left: int | None
    durable: bool
    notes: list[str] = maybe(description="the policy of the owner, and warnings where much is spent")

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """The account."""
        notes: dict[str, list[str]] = {"notes": list(budget.notes)} if budget.notes else {}
        own, *shares = (BalanceResponse.from_domain(share, currencies=list(share.lines)) for share in budget.balances)
        return cls(
            population=budget.population,
            guarantee=str(budget.guarantee),
            promise=GuaranteeResponse.of(budget.guarantee),
            currencies=own.currencies,
            shares=shares,
            queries_left=budget.queries,
            durable=budget.durable,
            **notes,
        )

    def to_domain(self, charge: tuple[Amount, ...] | None = None) -> Budget:
        """The account; with a charge, also how many more such charges fit in it and in its shares."""
        own = BalanceResponse(owner="population", limited=True, currencies=self.currencies)
        balances = tuple(
            Balance(share.owner, share.limited, tuple(line.to_domain() for line in share.currencies))
            for share in (own, *self.shares)
        )
        queries = self.queries_left if charge is None else _fitting(balances, charge)
        notes = tuple(self.notes or ())
        return Budget(self.population, self.promise.to_domain(), balances, queries, self.durable, notes)


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


class BudgetsResponse(ResponseModel):
    """All accounts that the caller sees."""

    budgets: list[BudgetResponse]


class ColumnResponse(ResponseModel):
    """A column as its owner declared it."""

    name: str
    type: str
    bounds: list[bool | int | float | str] | None
    step: Exact | None
    categories: list[Scalar] | None
    nullable: bool
    unique: bool

    @classmethod
    def of(cls, column: Column) -> Self:
        """The column."""
        kind, values = column.type, column.categories
        bounds = None if column.bounds is None else [value_to_json(end, kind) for end in column.bounds]
        listed = None if values is None else [value_to_json(value, kind) for value in values]
        return cls.from_domain(column, type=str(kind), bounds=bounds, categories=listed)

    def to_domain(self) -> Column:
        """The column."""
        kind = read_type(self.type)
        bounds = None if self.bounds is None else tuple(read_value(end, kind) for end in self.bounds)
        return Column(
            self.name,
            kind,
            bounds=bounds,  # type: ignore[arg-type]  # a Column checks its bounds itself
            step=None if self.step is None else exact(self.step, "step"),
            categories=None if self.categories is None else tuple(read_value(value, kind) for value in self.categories),
            nullable=self.nullable,
            unique=self.unique,
        )


class ForeignKeyResponse(ResponseModel):
    """A foreign key."""

    column: str
    table: str
    references: str


class TableResponse(ResponseModel):
    """A table as its owner declared it."""

    name: str
    public: bool
    population: str | None
    unit: str | None
    max_groups: int | Literal["auto"] = Field(description='"auto" where it is found privately for each query')
    max_rows: int | Literal["auto"] = Field(description="likewise")
    unit_rows: int
    max_groups_limit: int | None = Field(description="the most groups that a query may state; null for any number")
    max_rows_limit: int | None = Field(description="likewise the most rows")
    columns: list[ColumnResponse]
    foreign_keys: list[ForeignKeyResponse]

    @classmethod
    def of(cls, info: TableInfo) -> Self:
        """The table."""
        columns = [ColumnResponse.of(column) for column in info.table.columns]
        return cls.from_domain(info.table, columns=columns, foreign_keys=list(info.table.foreign_keys))

    def to_domain(self) -> TableInfo:
        """The table."""
        said = {name: getattr(self, name) for name in type(self).model_fields}
        said["columns"] = tuple(column.to_domain() for column in self.columns)
        said["foreign_keys"] = tuple(ForeignKey(**key.plain()) for key in self.foreign_keys)
        return TableInfo(Table(**said))


class TablesResponse(ResponseModel):
    """All tables that the caller sees."""

    tables: list[TableResponse]


class EntryResponse(ResponseModel):
    """One charge."""

    position: int
    time: str
    analyst: str
    population: str
    sql: str
    amounts: dict[str, Exact]
    answered: bool
    failed: bool = Field(description="whether its run failed: nothing was released, and nothing will be")
    plan: str
    typed: str = maybe(
        description="the epsilon that was typed, such as 'epsilon 0.5', where the account counts otherwise"
    )

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The charge."""
        amounts = {each.currency: each.amount for each in sorted(entry.amounts, key=str)}
        typed = {"typed": entry.typed} if entry.typed else {}
        return cls.from_domain(
            entry, position=entry.number, amounts=amounts, answered=entry.committed, plan=entry.digest, **typed
        )

    def to_domain(self) -> Entry:
        """The line of the history."""
        what = self.position, self.population, read_amounts(self.amounts), self.sql, self.plan, self.answered
        return Entry(*what, self.analyst, typed=self.typed or "", time=self.time, failed=self.failed)


class HistoryResponse(ResponseModel):
    """A page of charges, newest first; a page may be short, or empty, and still have a next one."""

    entries: list[EntryResponse]
    next: int | None = Field(description="the 'before' of the next page")


class HandoverResponse(ResponseModel):
    """One key that signed receipts replaced by another; both have signed that."""

    previous: str
    public_key: str
    signature: str = Field(description="by the previous key; empty where it was lost")
    accepted: str = Field(description="by the new key")


class HeadResponse(ResponseModel):
    """The newest entry of the ledger."""

    position: int = Field(ge=1, lt=2**62)
    hash: str = Field(pattern="^[0-9a-f]{64}$")

    def to_domain(self) -> Head:
        """The entry."""
        return Head(self.position, self.hash)


class KeyResponse(ResponseModel):
    """The key that receipts are signed with, and the keys before it."""

    public_key: str = Field(description="signs receipts now")
    ledger: str
    head: HeadResponse
    successions: list[HandoverResponse] = Field(description="every key that was replaced, in order")

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """The keys of a ledger: what both keys have signed, not who or why."""
        followed, head = ledger.successions(), ledger.head
        key = followed[-1].public_key if followed else ledger.keys.first
        handovers = [HandoverResponse.from_domain(each) for each in followed]
        newest = HeadResponse(position=head.seq, hash=head.hash)
        return cls(public_key=key, ledger=ledger.id, head=newest, successions=handovers)


def seen_text(ledger: Ledger, said: str) -> str:
    """Check that the ledger holds the entry ``position:hash`` that a caller has seen, and return it as text.

    Raises:
        ConflictError: the ledger has another entry there, or none; nothing was charged.
    """
    from tacit.ledger import ConflictError
    from tacit.ledger.history import hash_at

    found = _SEEN.match(said)
    if found is None:
        raise InputError("Tacit-Seen", "must be the position and the hash of an entry, such as 17:5f…")
    position = int(found[1])
    here = hash_at(ledger, position)
    if here != found[2]:
        raise ConflictError(
            "Tacit-Seen",
            f"the ledger does not hold entry {position} as it was seen: it was put back to an older state, or is "
            f"another copy; nothing was charged",
        )
    return f"{position}:{here}"


def _sorted(names: Any) -> Any:
    return sorted(map(str, names)) if isinstance(names, Set) else names


Role = Literal["owner", "analyst", "auditor"]
Scopes = list[Literal["ask", "audit", "admin"]]
_Role = Annotated[Role, BeforeValidator(lambda role: str(role) if isinstance(role, str) else role)]
_Scopes = Annotated[Scopes, BeforeValidator(_sorted)]
_Populations = Annotated[list[str] | None, BeforeValidator(_sorted)]


class MeResponse(ResponseModel):
    """The person that the token stands for."""

    name: str
    role: _Role
    scopes: _Scopes
    populations: _Populations
    audits: bool


class RunningQueryResponse(ResponseModel):
    """A query that reads data now."""

    id: str
    analyst: str
    population: str
    seconds: float = Field(description="since it began")
    expected: float = Field(description="processor seconds, by its text and the declared sizes of tables")
    operator: str = Field(description="the part of it that is most work")


class RunningQueriesResponse(ResponseModel):
    """The queries that read data now in the worker that answers, the longest first; other workers have their own."""

    queries: list[RunningQueryResponse]


class StoppedQueryResponse(ResponseModel):
    """A query that is being stopped; its charge waits for another run."""

    id: str
