"""Schemas of requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AnswerBody",
    "Budgets",
    "ErrorBody",
    "Health",
    "History",
    "JobBody",
    "JobPut",
    "KeySchema",
    "Me",
    "NewPerson",
    "NewToken",
    "PeopleBody",
    "PersonBody",
    "QuestionSchema",
    "Quota",
    "QuoteBody",
    "ReceiptBody",
    "Revoked",
    "ShareSchema",
    "TablesSchema",
    "TokenShown",
    "TokensSchema",
    "Withdrawn",
]

Amount = Annotated[float, Field(gt=0, description="read exactly from its decimal text; at most 40 digits")]
Exact = Annotated[str, Field(description="exact: a decimal, or a fraction p/q")]
Role = Literal["owner", "analyst", "auditor"]
Scopes = list[Literal["ask", "audit", "admin"]]


def _maybe(**words: Any) -> Any:
    """A field that may be left out, and is never null."""
    return Field(default=None, **words)


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class QuestionSchema(_Shape):
    """A question in SQL, and exactly one of epsilon, rho, mu and within, here or in the text of the query."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"sql": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "epsilon": 0.5}},
    )

    sql: str = Field(description="one SELECT")
    epsilon: Amount = _maybe(description="what the whole question may cost")
    delta: Amount = _maybe(description="for accounts and questions that have one")
    rho: Amount = _maybe(description="instead of epsilon, for zcdp accounts")
    mu: Amount = _maybe(description="instead of epsilon, for gdp accounts")
    within: Amount | dict[str, Amount] = _maybe(description="instead of a price: how far off answers may be")
    confidence: Amount = _maybe(description="of intervals; 0.95 unless said")
    max_groups: int = _maybe(ge=1, description="the most groups that one unit counts in")
    weights: dict[str, Amount] = _maybe(description="which aggregates matter more")
    suppose: int = _maybe(ge=1, description="values in a group, for the expected errors of averages")


class ErrorTold(_Shape):
    """What went wrong."""

    code: str = Field(description="stable; may be matched on")
    message: str = Field(description="for people")
    id: str = _maybe(description="under which the operator's log has the reason")
    parameter: str = _maybe(description="what cannot be used as it was given")


class ErrorBody(_Shape):
    """The one shape of every failure."""

    error: ErrorTold


class ColumnTold(_Shape):
    """A column of an answer."""

    name: str
    type: str
    interval: bool = Field(description="whether its cells have value, low and high")


class CellSchema(_Shape):
    """A number with noise and its interval."""

    value: bool | int | float | str | None
    low: bool | int | float | str | None
    high: bool | int | float | str | None


class ChargeSchema(_Shape):
    """What the release was charged, when it was made."""

    population: str
    amounts: dict[str, Exact]
    position: int = Field(description="of the charge in the ledger, and of its receipt")


class ReceiptBody(_Shape):
    """A signed statement; see ``tacit receipt verify``."""

    receipt: dict[str, Any]
    signature: str


class AnswerBody(_Shape):
    """An answer: a function of the release and the request alone."""

    columns: list[ColumnTold]
    rows: list[list[CellSchema | bool | int | float | str | None]]
    confidence: Exact
    charge: ChargeSchema
    note: str
    receipt: ReceiptBody


class JobPut(_Shape):
    """A question that will be answered later."""

    id: str
    state: Literal["waiting"]


class JobBody(_Shape):
    """Where such a question is."""

    id: str
    state: Literal["waiting", "running", "done", "failed"]
    seconds: float = Field(description="since it was put down, in whole slots")
    answer: AnswerBody = _maybe()
    error: ErrorTold = _maybe()


class PriceSchema(_Shape):
    """What would be charged."""

    text: str
    amounts: dict[str, Exact]


class ReleaseTold(_Shape):
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


class ErrorExpected(_Shape):
    """How far off one cell may be."""

    label: str
    bound: str | None
    meaning: str


class QuoteBody(_Shape):
    """What a question would do and cost."""

    price: PriceSchema
    guarantee: Literal["PureDP", "ApproxDP", "ZCDP", "GDP"]
    population: str
    protected: list[str]
    unit: str
    relation: str
    bounding: str
    keys: str
    bounds: str | None
    releases: list[ReleaseTold]
    account: str
    alone: str | None
    confidence: Exact
    errors: list[ErrorExpected]
    questions_left: int | None = Field(description="how many more such questions fit")
    leaves_after: float = Field(
        description="seconds from its beginning after which a fresh answer leaves, decided by the text; 0 without slots"
    )
    plan: str = Field(description="digest")
    engine_sql: str | None = _maybe(description="for owners")


class LineSchema(_Shape):
    """One currency of an account."""

    currency: str
    cap: Exact
    spent: Exact
    left: Exact


class ShareTold(_Shape):
    """The part of an account that one analyst or project may use."""

    owner: str
    limited: bool
    currencies: list[LineSchema]


class ShareSchema(_Shape):
    """The account of a population."""

    population: str
    guarantee: str
    currencies: list[LineSchema]
    shares: list[ShareTold]
    questions_left: int | None
    durable: bool


class Budgets(_Shape):
    """All accounts that the caller sees."""

    budgets: list[ShareSchema]


class TableColumn(_Shape):
    """A column as its owner declared it."""

    name: str
    type: str
    bounds: list[bool | int | float | str] | None
    step: Exact | None
    categories: list[bool | int | float | str | None] | None
    nullable: bool
    unique: bool


class KeyTold(_Shape):
    """A foreign key."""

    column: str
    table: str
    references: str


class TableTold(_Shape):
    """A table as its owner declared it."""

    name: str
    public: bool
    population: str | None
    unit: str | None
    max_groups: int
    max_rows: int
    unit_rows: int
    columns: list[TableColumn]
    foreign_keys: list[KeyTold]


class TablesSchema(_Shape):
    """All tables that the caller sees."""

    tables: list[TableTold]


class EntryTold(_Shape):
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


class History(_Shape):
    """A page of charges, newest first; a page may be short, or empty, and still have a next one."""

    entries: list[EntryTold]
    next: int | None = Field(description="the 'before' of the next page")


class HandoverSchema(_Shape):
    """One key that signed receipts replaced by another; both have signed that."""

    previous: str
    public_key: str
    signature: str = Field(description="by the previous key; empty where it was lost")
    accepted: str = Field(description="by the new key")


class Newest(_Shape):
    """The newest entry of the ledger."""

    position: int = Field(ge=1)
    hash: str


class KeySchema(_Shape):
    """What anybody needs to check receipts, and to follow from a key that was known before."""

    public_key: str = Field(description="signs receipts now")
    ledger: str
    head: Newest
    successions: list[HandoverSchema] = Field(description="every key that was replaced, in order")


class Me(_Shape):
    """Who the token stands for."""

    name: str
    role: Role
    scopes: Scopes
    populations: list[str] | None
    audits: bool


class Health(_Shape):
    """Questions can be asked."""

    status: Literal["ok"]


class NewPerson(_Shape):
    """Somebody to add, or to change."""

    name: str = Field(min_length=1, max_length=200)
    role: Role
    populations: list[str] | None = _maybe(
        description="whose data exists for them, null for everybody's; unless said, what did before, or everybody's"
    )


class PersonBody(_Shape):
    """Somebody, and what they may spend and have spent."""

    name: str
    role: Role
    active: bool
    populations: list[str] | None
    budgets: list[ShareSchema]


class PeopleBody(_Shape):
    """Everybody."""

    people: list[PersonBody]


class Revoked(_Shape):
    """Somebody who is refused from now on."""

    name: str
    active: bool


class NewToken(_Shape):
    """A token to issue."""

    name: str = Field(min_length=1, max_length=200)
    days: int = Field(ge=1, le=3650, description="until it ends")
    label: str = _maybe(max_length=200)
    scopes: Scopes = _maybe(description="those of the person unless said")


class TokenShown(_Shape):
    """A new token; its text is shown this once."""

    token: str
    id: str
    name: str
    label: str
    scopes: Scopes
    expires: str | None


class TokenTold(_Shape):
    """A token, without what would open anything."""

    id: str
    name: str
    label: str
    scopes: Scopes
    issued: str
    expires: str | None
    used: str | None
    alive: bool


class TokensSchema(_Shape):
    """All tokens."""

    tokens: list[TokenTold]


class Withdrawn(_Shape):
    """A token that opens nothing any more."""

    id: str
    alive: bool


class Quota(_Shape):
    """A limit for one person, counting what they have spent; no caps take it away."""

    name: str = Field(min_length=1, max_length=200)
    population: str
    caps: dict[str, Annotated[float, Field(ge=0)]] = Field(description="by currency of the account")
