"""Bodies of responses: one class writes a body (``of``), reads it (``read``, ``to_domain``) and describes it.

Writing and reading are strict about types. Readers ignore fields that they do not know, so that a server may say more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from datetime import datetime
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from tacit.accounting.currencies import CURRENCIES
from tacit.accounting.filters import Line
from tacit.charges.accounts import Budget, Entry
from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import exact, exact_probability
from tacit.core.relations import as_relation
from tacit.curator.curator import TableInfo
from tacit.ledger import Balance
from tacit.ledger.protocol import Head
from tacit.query.catalog import Column, ForeignKey, Table
from tacit.query.planning.explain import ExplainedError, ExplainedRelease, Explanation
from tacit.query.postprocess.bounding_loss import CauseShare, LeftOut
from tacit.query.postprocess.cells import Ends
from tacit.query.question import OutputColumn
from tacit.query.types import Domain, Range, Value
from tacit.receipts.receipt import Receipt, guarantee_to_plain, is_of_sums
from tacit.wire.requests import Role, Scopes
from tacit.wire.values import cell_to_json, exact_text, read_amounts, read_type, read_value, value_to_json

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.curator.quote import Quote
    from tacit.curator.views.answer_object import Answer
    from tacit.ledger import Amount, Ledger, Record

__all__ = [
    "AnswerBody", "AnswerTable", "Budgets", "ChargeSchema", "EntryTold", "ErrorBody", "ErrorTold", "Health",
    "History", "KeySchema", "LineSchema", "Me", "PeopleBody", "PersonBody", "QuoteBody",
    "ReceiptBody", "ResponseBody", "Revoked", "ShareSchema", "SurveyBody", "SurveyCollected", "SurveyResults",
    "TableTold", "TablesSchema", "TokenShown", "TokenTold", "TokensSchema", "Withdrawn", "about_answer", "answer_json",
    "charge_json", "maybe",
    "seen_text",
]  # fmt: skip


def _sorted(names: Any) -> Any:
    return sorted(map(str, names)) if isinstance(names, Set) else names


def _seconds(moment: Any) -> Any:
    return moment.isoformat(timespec="seconds") if isinstance(moment, datetime) else moment


Exact = Annotated[
    str,
    BeforeValidator(lambda value: exact_text(value) if isinstance(value, Rational) else value),
    Field(description="exact: a decimal, or a fraction p/q"),
]
_Role = Annotated[Role, BeforeValidator(lambda role: str(role) if isinstance(role, str) else role)]
_Scopes = Annotated[Scopes, BeforeValidator(_sorted)]
_Populations = Annotated[list[str] | None, BeforeValidator(_sorted)]
_Moment = Annotated[str, BeforeValidator(_seconds)]
#: A value in JSON.
_Scalar = bool | int | float | str | None
_SEEN: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})\Z")


def maybe(**words: Any) -> Any:
    """A field that may be left out, and is never null."""
    return Field(default=None, **words)


class _DescribedAs:
    """Describe a field as a type without checking its values one by one: there may be millions of cells."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.json_or_python_schema(
            json_schema=handler.generate_schema(self._kind),
            python_schema=core_schema.list_schema(strict=True),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda rows: rows),
        )


class ResponseBody(BaseModel):
    """The body of a response, or a part of one."""

    model_config = ConfigDict(
        extra="ignore", strict=True, from_attributes=True, json_schema_extra={"additionalProperties": False}
    )

    @classmethod
    def from_domain(cls, thing: object, **more: Any) -> Self:
        """The body of an object whose attributes have the names of the fields, but for those stated."""
        same = (name for name, field in cls.model_fields.items() if name not in more and field.is_required())
        return cls.model_validate({**{name: getattr(thing, name) for name in same}, **more})

    def plain(self) -> dict[str, Any]:
        """The object to send: fields in order, without those that are left out."""
        return self.model_dump(exclude_unset=True)

    @classmethod
    def read(cls, content: Any) -> Self:
        """The body that a server sent.

        Raises:
            ValueError: it is another; names the field.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


class ErrorTold(ResponseBody):
    """A failure."""

    code: str = Field(description="stable; may be matched on")
    message: str = Field(description="for people")
    id: str = maybe(description="under which the operator's log has the reason")
    parameter: str = maybe(description="the input that cannot be used")


class ErrorBody(ResponseBody):
    """The one shape of every failure."""

    error: ErrorTold


class ColumnTold(ResponseBody):
    """A column of an answer."""

    name: str
    type: str
    interval: bool = Field(description="whether its cells have value, low and high")
    not_negative: bool = maybe(description="whether the truth is 0 or more for certain, whatever the noise says")

    def to_domain(self) -> OutputColumn:
        """The column, of which only name, type and noise are known."""
        known = Domain(Range(Fraction(0), None)) if self.not_negative else Domain()
        return OutputColumn(self.name, read_type(self.type), self.interval, known)


class CellSchema(ResponseBody):
    """A number with noise and its interval."""

    value: _Scalar
    low: _Scalar
    high: _Scalar
    bias_low: _Scalar = maybe(description="of the interval that allows for what was left out")
    bias_high: _Scalar = maybe(description="likewise")
    marked: bool = maybe(description="true where what was left out may exceed the interval")


class CauseTold(ResponseBody):
    """People of whom something was left out, for one cause."""

    cause: Literal["max_groups", "max_rows", "clipping", "keys"]
    limit: int | None
    people: int = Field(description="estimated number")
    share: Exact = Field(description="of all people in the question")
    error: Exact = Field(description="of the share, at the confidence of the answer")
    seen: bool = Field(description="whether it stands out from the noise")
    sentence: str


class LeftOutTold(ResponseBody):
    """Estimate of what limits, bounds and listed keys left out."""

    people: int = Field(description="estimated number of people in the question")
    causes: list[CauseTold]

    @classmethod
    def of(cls, left_out: LeftOut) -> Self:
        """The estimate, with shares to a few digits."""
        causes = [
            CauseTold.from_domain(each, share=_rounded(each.share), error=_rounded(each.error))
            for each in left_out.causes
        ]
        return cls(people=left_out.people, causes=causes)

    def to_domain(self) -> LeftOut:
        """The estimate."""
        return LeftOut(
            self.people,
            tuple(
                CauseShare(
                    c.cause, c.limit, c.people, exact(c.share, "share"), exact(c.error, "error"), c.seen, c.sentence
                )
                for c in self.causes
            ),
        )


def _rounded(share: Fraction) -> Fraction:
    return Fraction(round(share * 10**6), 10**6)


class ChargeSchema(ResponseBody):
    """The charge of the release, when it was made."""

    population: str
    amounts: dict[str, Exact]
    position: int = Field(description="of the charge in the ledger, and of its receipt")
    summed: bool = maybe(description="the answer is made of sums of that release, and cost nothing more")

    @classmethod
    def of(cls, statement: Mapping[str, Any]) -> Self:
        """The charge that a receipt states."""
        amounts = {name: exact_text(Fraction(amount)) for name, amount in statement["charge"].items()}
        words: dict[str, Any] = {"summed": True} if any(map(is_of_sums, statement["answers"])) else {}
        place = statement["ledger"]["position"]
        return cls(population=statement["population"], amounts=amounts, position=place, **words)


class ReceiptBody(ResponseBody):
    """A signed statement; see ``tacit receipt verify``."""

    receipt: dict[str, Any]
    signature: str

    def to_domain(self) -> Receipt:
        """The receipt; its signature is not checked here."""
        return Receipt(self.receipt, self.signature)


class CellRead(NamedTuple):
    """A cell as a client reads it: its value, its interval, and the one that allows for what was left out."""

    value: Value | None
    ends: Ends
    biased: Ends
    marked: bool = False


class AnswerTable(ResponseBody):
    """The table of an answer."""

    columns: list[ColumnTold]
    rows: Annotated[list[list[Any]], _DescribedAs(list[list[CellSchema | _Scalar]])]
    confidence: Exact
    left_out: LeftOutTold | None = Field(
        default=None, description="null where nothing can be left out; missing where it was not bought"
    )

    def to_domain(self) -> tuple[tuple[OutputColumn, ...], list[list[CellRead]], Fraction]:
        """The columns, every cell with its intervals, and the confidence of the intervals."""
        columns = tuple(column.to_domain() for column in self.columns)
        cells = [[_read_cell(cell, column) for cell, column in zip(row, columns, strict=True)] for row in self.rows]
        return columns, cells, exact_probability(self.confidence, "confidence")


class AnswerBody(AnswerTable):
    """An answer: a function of the release and the request alone."""

    charge: ChargeSchema | None = Field(description="null for a question about public tables alone")
    note: str
    receipt: ReceiptBody | None = Field(description="null for a question about public tables alone")
    public: bool = maybe(description="true where public tables alone were asked about: exact, and free")

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """The answer, the same for every caller and every time: the charge is that of the release."""
        finished, kinds = answer.finished, [column.type for column in answer.columns]
        known = finished.has_interval
        rows = [
            [
                cell_to_json(values[i], ends[i] if known[i] else None, kind, **({} if lost is None else lost[i]))
                for i, kind in enumerate(kinds)
            ]
            for values, ends, lost in zip(finished.values, finished.intervals(), _losses(answer), strict=True)
        ]
        return cls(columns=[ColumnTold(**each) for each in _columns(answer)], rows=rows, **cls.head(answer))

    @classmethod
    def head(cls, answer: Answer) -> dict[str, Any]:
        """All fields but the table itself."""
        about: dict[str, Any] = {"charge": None, "note": answer.meaning, "receipt": None, "public": True}
        if answer.receipt is not None:
            about = {
                "charge": ChargeSchema.of(answer.receipt.statement).plain(),
                "note": answer.meaning,
                "receipt": {"receipt": answer.receipt.statement, "signature": answer.receipt.signature},
            }
        return {
            "confidence": exact_text(answer.finished.confidence),
            **_left_out(answer),
            **about,
        }


def about_answer(answer: Answer) -> dict[str, Any]:
    """Facts about an answer for the log of a server: whose budget, which entry, and what was charged now."""
    if answer.receipt is None:
        return {"public": True}
    charged, repeated = ChargeSchema.of(answer.receipt.statement), answer.charge.repeated
    about = {"population": charged.population, "position": charged.position, "repeat": repeated}
    return about if repeated else {**about, "charge": charged.amounts}


def _columns(answer: Answer) -> list[dict[str, Any]]:
    known, counts = answer.finished.has_interval, answer.finished.not_negative
    return [
        {"name": c.name, "type": str(c.type), "interval": known[i]} | ({"not_negative": True} if counts[i] else {})
        for i, c in enumerate(answer.columns)
    ]


def _left_out(answer: Answer) -> dict[str, Any]:
    """The estimate of what was left out; nothing where it was not bought."""
    if not answer.finished.estimated:
        return {}
    return {"left_out": None if answer.left_out is None else LeftOutTold.of(answer.left_out).plain()}


def _losses(answer: Answer) -> Sequence[list[dict[str, Any]] | None]:
    """For each cell the interval that allows for what was left out, and its mark, where that is known."""
    finished = answer.finished
    if answer.left_out is None:
        return [None] * len(finished.values)
    return [
        [{"biased": pair, "marked": mark} for pair, mark in zip(ends, marks, strict=True)]
        for ends, marks in zip(finished.intervals(bias=True), finished.marked(), strict=True)
    ]


def _read_cell(cell: Any, column: OutputColumn) -> CellRead:
    if not column.noisy:
        value = read_value(cell, column.type)
        ends = (value, value) if column.type.is_ordered else (None, None)
        return CellRead(value, ends, ends)
    value, low, high = (read_value(cell[word], column.type) for word in ("value", "low", "high"))
    if "bias_low" not in cell:
        return CellRead(value, (low, high), (low, high))
    least, most = (read_value(cell[word], column.type) for word in ("bias_low", "bias_high"))
    return CellRead(value, (low, high), (least, most), cell.get("marked") is True)


class PriceSchema(ResponseBody):
    """The charge that a question would make."""

    text: str
    amounts: dict[str, Exact]


class ReleaseTold(ResponseBody):
    """One release: how far one unit moves it, and the noise it gets."""

    name: str
    mechanism: str
    l1_sensitivity: str
    l2_sensitivity: str
    reason: str
    scale: str
    share: str
    cost: str
    integers: int


class ErrorExpected(ResponseBody):
    """Expected error of one cell."""

    label: str
    bound: str | None
    meaning: str


GuaranteeKind = Literal["PureDP", "ApproxDP", "ZCDP", "GDP"]


class GuaranteeTold(ResponseBody):
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


class QuoteBody(ResponseBody):
    """Effect and price of a question."""

    price: PriceSchema
    guarantee: GuaranteeKind
    population: str
    protected: list[str]
    unit: str
    relation: str
    bounding: str
    limits: str
    keys: str
    bounds: str | None
    left_out: str | None = Field(default=None, description="share of the price for an estimate of what is left out")
    releases: list[ReleaseTold]
    account: str
    alone: str | None
    confidence: Exact
    errors: list[ErrorExpected]
    plan: str = Field(description="digest")
    engine_sql: str | None = maybe(description="for owners")
    advice: list[str] = maybe(description="what to write for less noise, a sentence each")
    sets: str = maybe(description="grouping sets, and how their totals are made")
    public: bool = maybe(description="true where public tables alone are asked about: exact, and free")
    steps: str = maybe(description="which parts of the question wait for what others release")
    questions_left: int | None = Field(description="how many more such questions fit")
    leaves_after: float = Field(
        description="seconds from its beginning after which a fresh answer leaves, decided by the text; 0 without slots"
    )

    @classmethod
    def of(
        cls, quote: Quote, *, engine: bool = False, questions_left: int | None = None, leaves_after: float = 0.0
    ) -> Self:
        """The quote; ``engine`` adds the statements of the engine, which are for owners."""
        it, price = quote.explanation, GuaranteeTold.of(quote.guarantee)
        return cls.from_domain(
            it,
            price=PriceSchema(text=it.charge, amounts=price.amounts),
            guarantee=price.kind,
            protected=list(it.protected),
            left_out=it.left_out,
            releases=list(it.releases),
            errors=list(it.errors),
            plan=it.digest,
            questions_left=questions_left,
            leaves_after=leaves_after,
            **({"engine_sql": it.engine_sql} if engine else {}),
            **({"advice": list(it.advice)} if it.advice else {}),
            **({} if it.sets is None else {"sets": it.sets}),
            **({"public": True} if it.public else {}),
            **({} if it.steps is None else {"steps": it.steps}),
        )

    def to_domain(self) -> tuple[Explanation, Guarantee]:
        """The explanation of the plan, and the charge of the account."""
        said: dict[str, Any] = {each.name: getattr(self, each.name, None) for each in fields(Explanation)}
        said |= {
            "charge": self.price.text,
            "digest": self.plan,
            "protected": tuple(self.protected),
            "releases": tuple(ExplainedRelease(**each.plain()) for each in self.releases),
            "errors": tuple(ExplainedError(**each.plain()) for each in self.errors),
            "advice": tuple(self.advice or ()),
            "public": self.public is True,
        }
        guarantee = GuaranteeTold(kind=self.guarantee, amounts=self.price.amounts, relation=self.relation)
        return Explanation(**said), guarantee.to_domain()


class LineSchema(ResponseBody):
    """One currency of an account."""

    currency: str
    cap: Exact
    spent: Exact
    left: Exact

    def to_domain(self) -> Line:
        """The line."""
        return Line(self.currency, exact(self.cap, "cap"), exact(self.spent, "spent"))


class ShareTold(ResponseBody):
    """The part of an account that one analyst or project may use."""

    owner: str
    limited: bool
    currencies: list[LineSchema]


class ShareSchema(ResponseBody):
    """The account of a population."""

    population: str
    guarantee: str = Field(description="of all answers together, for people: rounded up")
    promise: GuaranteeTold = Field(description="the same, exactly")
    currencies: list[LineSchema]
    shares: list[ShareTold]
    questions_left: int | None
    durable: bool

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """The account."""
        own, *shares = (ShareTold.from_domain(share, currencies=list(share.lines)) for share in budget.balances)
        return cls(
            population=budget.population,
            guarantee=str(budget.guarantee),
            promise=GuaranteeTold.of(budget.guarantee),
            currencies=own.currencies,
            shares=shares,
            questions_left=budget.questions,
            durable=budget.durable,
        )

    def to_domain(self, charge: tuple[Amount, ...] | None = None) -> Budget:
        """The account; with a charge, also how many more such charges fit in it and in its shares."""
        own = ShareTold(owner="population", limited=True, currencies=self.currencies)
        balances = tuple(
            Balance(share.owner, share.limited, tuple(line.to_domain() for line in share.currencies))
            for share in (own, *self.shares)
        )
        questions = self.questions_left if charge is None else _fitting(balances, charge)
        return Budget(self.population, self.promise.to_domain(), balances, questions, self.durable)


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


class Budgets(ResponseBody):
    """All accounts that the caller sees."""

    budgets: list[ShareSchema]


class TableColumn(ResponseBody):
    """A column as its owner declared it."""

    name: str
    type: str
    bounds: list[bool | int | float | str] | None
    step: Exact | None
    categories: list[_Scalar] | None
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


class KeyTold(ResponseBody):
    """A foreign key."""

    column: str
    table: str
    references: str


class TableTold(ResponseBody):
    """A table as its owner declared it."""

    name: str
    public: bool
    population: str | None
    unit: str | None
    max_groups: int | Literal["auto"] = Field(description='"auto" where it is found privately for each question')
    max_rows: int | Literal["auto"] = Field(description="likewise")
    unit_rows: int
    max_groups_limit: int | None = Field(description="the most groups that a question may state; null for any number")
    max_rows_limit: int | None = Field(description="likewise the most rows")
    columns: list[TableColumn]
    foreign_keys: list[KeyTold]

    @classmethod
    def of(cls, info: TableInfo) -> Self:
        """The table."""
        columns = [TableColumn.of(column) for column in info.table.columns]
        return cls.from_domain(info.table, columns=columns, foreign_keys=list(info.table.foreign_keys))

    def to_domain(self) -> TableInfo:
        """The table."""
        said = {name: getattr(self, name) for name in type(self).model_fields}
        said["columns"] = tuple(column.to_domain() for column in self.columns)
        said["foreign_keys"] = tuple(ForeignKey(**key.plain()) for key in self.foreign_keys)
        return TableInfo(Table(**said))


class TablesSchema(ResponseBody):
    """All tables that the caller sees."""

    tables: list[TableTold]


class EntryTold(ResponseBody):
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

    @classmethod
    def of(cls, record: Record) -> Self:
        """The charge."""
        amounts = {amount.currency: amount.amount for amount in record.amounts if amount.amount}
        return cls.from_domain(record, position=record.seq, amounts=amounts)

    def to_domain(self) -> Entry:
        """The line of the history."""
        amounts = read_amounts(self.amounts)
        return Entry(self.position, self.population, amounts, self.sql, self.plan, self.answered, self.analyst)


class History(ResponseBody):
    """A page of charges, newest first; a page may be short, or empty, and still have a next one."""

    entries: list[EntryTold]
    next: int | None = Field(description="the 'before' of the next page")


class HandoverSchema(ResponseBody):
    """One key that signed receipts replaced by another; both have signed that."""

    previous: str
    public_key: str
    signature: str = Field(description="by the previous key; empty where it was lost")
    accepted: str = Field(description="by the new key")


class Newest(ResponseBody):
    """The newest entry of the ledger."""

    position: int = Field(ge=1, lt=2**62)
    hash: str = Field(pattern="^[0-9a-f]{64}$")

    def to_domain(self) -> Head:
        """The entry."""
        return Head(self.position, self.hash)


class KeySchema(ResponseBody):
    """The key that receipts are signed with, and the keys before it."""

    public_key: str = Field(description="signs receipts now")
    ledger: str
    head: Newest
    successions: list[HandoverSchema] = Field(description="every key that was replaced, in order")

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """The keys of a ledger: what both keys have signed, not who or why."""
        followed, head = ledger.successions(), ledger.head
        key = followed[-1].public_key if followed else ledger.first_key
        handovers = [HandoverSchema.from_domain(each) for each in followed]
        newest = Newest(position=head.seq, hash=head.hash)
        return cls(public_key=key, ledger=ledger.id, head=newest, successions=handovers)


class Me(ResponseBody):
    """The person that the token stands for."""

    name: str
    role: _Role
    scopes: _Scopes
    populations: _Populations
    audits: bool


class Health(ResponseBody):
    """Questions can be asked."""

    status: Literal["ok"]


class SurveyBody(ResponseBody):
    """A survey as the people who are asked may read it: question, protocol and promise."""

    name: str
    question: str
    open: bool
    epsilon: Exact
    total_epsilon: Exact
    protocol: dict[str, Any]
    report_bytes: int
    probabilities: dict[str, str]


class SurveyCollected(ResponseBody):
    """Reports were kept."""

    survey: str
    accepted: int
    repeated: bool


class SurveyEstimateTold(ResponseBody):
    """An estimated share, mean or total, with its interval."""

    label: str
    value: float
    standard_error: float | None
    low: float
    high: float


class SurveyResults(ResponseBody):
    """Estimates of a survey from all its reports."""

    name: str
    n: int
    confidence: float
    epsilon: Exact
    estimates: list[SurveyEstimateTold]


class PersonBody(ResponseBody):
    """A person, and what they may spend and have spent."""

    name: str
    role: _Role
    active: bool
    populations: _Populations
    budgets: list[ShareSchema]


class PeopleBody(ResponseBody):
    """All people."""

    people: list[PersonBody]


class Revoked(ResponseBody):
    """A person who is refused from now on."""

    name: str
    active: bool


class TokenShown(ResponseBody):
    """A new token; its text is shown this once."""

    token: str
    id: str
    name: str
    label: str
    scopes: _Scopes
    expires: _Moment | None
    share: str | None


class TokenTold(ResponseBody):
    """A token, without what would open anything."""

    id: str
    name: str
    label: str
    scopes: _Scopes
    issued: _Moment
    expires: _Moment | None
    used: str | None
    alive: bool
    share: str | None


class TokensSchema(ResponseBody):
    """All tokens."""

    tokens: list[TokenTold]


class Withdrawn(ResponseBody):
    """A token that opens nothing any more."""

    id: str
    alive: bool


# Headers and printed answers ------------------------------------------------------------------------------------------


def seen_text(ledger: Ledger, said: str) -> str:
    """The entry that a caller has seen, ``position:hash``, as the ledger has it.

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


def answer_json(curator: Curator, answer: Answer) -> dict[str, Any]:
    """The answer as the command line prints it: rows by name, and what is left."""
    columns, finished = answer.columns, answer.finished
    known = finished.has_interval
    rows = [
        {
            column.name: cell_to_json(
                values[i],
                ends[i] if known[i] else None,
                column.type,
                wide=False,
                **({} if lost is None else lost[i]),
            )
            for i, column in enumerate(columns)
        }
        for values, ends, lost in zip(finished.values, finished.intervals(), _losses(answer), strict=True)
    ]
    return {
        "columns": _columns(answer),
        "rows": rows,
        "confidence": exact_text(finished.confidence),
        **_left_out(answer),
        "charge": charge_json(answer.charge),
        "budget": None if answer.is_public else ShareSchema.of(curator.budget(answer)).plain(),
        "receipt": None if answer.receipt is None else json.loads(answer.receipt.to_json()),
        **({"public": True} if answer.is_public else {}),
    }


def charge_json(charge: Entry) -> dict[str, Any]:
    """A charge as the command line prints it."""
    return {
        "population": charge.population,
        "amounts": {amount.currency: exact_text(amount.amount) for amount in charge.amounts},
        "repeat": charge.repeated,
        **({"summed": True} if charge.summed else {}),
        "position": charge.number,
        "text": charge.text,
    }
