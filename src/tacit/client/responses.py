"""Bodies of requests and of responses to queries: one class writes a body (``of``), reads and describes it.

Writing and reading are strict about types. Readers ignore unknown fields, so that newer servers may add some.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, create_model

from tacit.client.account_responses import (
    BudgetResponse,
    GuaranteeKind,
    GuaranteeResponse,
    cell_to_json,
    read_type,
    read_value,
)
from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import exact, exact_probability, exact_text
from tacit.query.planning.explain import ExplainedError, ExplainedRelease, Explanation
from tacit.query.postprocess.bias import Bias, CauseShare
from tacit.query.postprocess.cells import Ends
from tacit.query.query import OutputColumn
from tacit.query.request import OPTIONS, OptionKind, Request
from tacit.query.types import Domain, Range, Value
from tacit.releases.accounts import Entry
from tacit.releases.api_types import (
    Amount,
    Amounts,
    Count,
    DescribedAs,
    Exact,
    Limit,
    RequestModel,
    ResponseModel,
    Scalar,
    Text,
    maybe,
    option_text,
)
from tacit.releases.receipt import Receipt

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.releases.answer import Answer
    from tacit.releases.plans import Quote


class ErrorDetailResponse(ResponseModel):
    """A failure."""

    code: str = Field(description="stable; may be matched on")
    message: str = Field(description="for people")
    id: str = maybe(description="under which the operator's log has the reason")
    parameter: str = maybe(description="the input that cannot be used")


class ErrorResponse(ResponseModel):
    """The one shape of every failure."""

    error: ErrorDetailResponse


class AnswerColumnResponse(ResponseModel):
    """A column of an answer."""

    name: str
    type: str
    interval: bool = Field(description="whether its cells have value, low and high")
    not_negative: bool = maybe(description="whether the truth is 0 or more for certain, whatever the noise says")

    def to_domain(self) -> OutputColumn:
        """The column, of which only name, type and noise are known."""
        known = Domain(Range(Fraction(0), None)) if self.not_negative else Domain()
        return OutputColumn(self.name, read_type(self.type), self.interval, known)


class CellResponse(ResponseModel):
    """A number with noise and its interval."""

    value: Scalar
    low: Scalar
    high: Scalar
    bias_low: Scalar = maybe(description="of the interval that includes the bias")
    bias_high: Scalar = maybe(description="likewise")
    sure_low: Scalar = maybe(description="of the interval that includes only the bias which is sure, if there is any")
    sure_high: Scalar = maybe(description="likewise")
    marked: bool = maybe(description="true where the bias may exceed the interval")


class CauseResponse(ResponseModel):
    """People of whom something was left out, for one cause."""

    cause: Literal["max_groups", "max_rows", "max_rows_total", "clipping", "keys", "casts", "unit_rows"]
    limit: int | None
    people: int = Field(description="estimated number")
    share: Exact = Field(description="of all people in the query")
    error: Exact = Field(description="of the share, at the confidence of the answer")
    seen: bool = Field(description="whether it stands out from the noise")
    sentence: str
    found: bool = Field(default=False, description="whether AUTO found the limit, so that intervals allow for it")


class BiasResponse(ResponseModel):
    """Estimate of what limits, bounds and listed keys left out."""

    people: int = Field(description="estimated number of people in the query")
    causes: list[CauseResponse]

    @classmethod
    def of(cls, bias: Bias) -> Self:
        """The estimate, with shares to a few digits."""
        causes = [
            CauseResponse.from_domain(each, share=_rounded(each.share), error=_rounded(each.error))
            for each in bias.causes
        ]
        return cls(people=bias.people, causes=causes)

    def to_domain(self) -> Bias:
        """The estimate."""
        return Bias(
            self.people,
            tuple(
                CauseShare(
                    c.cause,
                    c.limit,
                    c.people,
                    exact(c.share, "share"),
                    exact(c.error, "error"),
                    c.seen,
                    c.sentence,
                    found=c.found,
                )
                for c in self.causes
            ),
        )


def _rounded(share: Fraction) -> Fraction:
    return Fraction(round(share * 10**6), 10**6)


class ChargeResponse(ResponseModel):
    """The charge of the release, when it was made."""

    population: str
    amounts: dict[str, Exact]
    position: int = Field(description="of the charge in the ledger, and of its receipt")

    @classmethod
    def of(cls, statement: Mapping[str, Any]) -> Self:
        """The charge that a receipt states."""
        amounts = {name: exact_text(Fraction(amount)) for name, amount in statement["charge"].items()}
        place = statement["ledger"]["position"]
        return cls(population=statement["population"], amounts=amounts, position=place)


class ReceiptResponse(ResponseModel):
    """A signed statement; see ``tacit receipt verify``."""

    receipt: dict[str, Any]
    signature: str

    def to_domain(self) -> Receipt:
        """The receipt; its signature is not checked here."""
        return Receipt(self.receipt, self.signature)


class CellRead(NamedTuple):
    """A cell as a client reads it: its value, its interval, and those that include the bias and what is sure of it."""

    value: Value | None
    ends: Ends
    biased: Ends
    sure: Ends
    marked: bool = False


class AnswerTableResponse(ResponseModel):
    """The table of an answer."""

    columns: list[AnswerColumnResponse]
    rows: Annotated[list[list[Any]], DescribedAs(list[list[CellResponse | Scalar]])]
    confidence: Exact
    bias: BiasResponse | None = Field(
        default=None, description="null where there can be no bias; missing where it was not bought"
    )

    def to_domain(self) -> tuple[tuple[OutputColumn, ...], list[list[CellRead]], Fraction]:
        """The columns, every cell with its intervals, and the confidence of the intervals."""
        columns = tuple(column.to_domain() for column in self.columns)
        cells = [[_read_cell(cell, column) for cell, column in zip(row, columns, strict=True)] for row in self.rows]
        return columns, cells, exact_probability(self.confidence, "confidence")


class AnswerResponse(AnswerTableResponse):
    """An answer: a function of the release and the request alone."""

    charge: ChargeResponse | None = Field(description="null for a query about public tables alone")
    note: str
    receipt: ReceiptResponse | None = Field(description="null for a query about public tables alone")
    public: bool = maybe(description="true where public tables alone were asked about: exact, and free")

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """The answer, the same for every caller and every time: the charge is that of the release."""
        columns = [AnswerColumnResponse(**each) for each in _columns(answer)]
        return cls(columns=columns, rows=_rows(answer), **cls.head(answer))

    @classmethod
    def head(cls, answer: Answer) -> dict[str, Any]:
        """All fields but the table itself."""
        about: dict[str, Any] = {"charge": None, "note": answer.meaning, "receipt": None, "public": True}
        if answer.receipt is not None:
            about = {
                "charge": ChargeResponse.of(answer.receipt.statement).plain(),
                "note": answer.meaning,
                "receipt": {"receipt": answer.receipt.statement, "signature": answer.receipt.signature},
            }
        return {"confidence": exact_text(answer.finished.confidence), **_bias(answer), **about}


def about_answer(answer: Answer) -> dict[str, Any]:
    """Return facts about an answer for a server's log: population, ledger entry, and the charge, if it is new."""
    if answer.receipt is None:
        return {"public": True}
    charged, repeated = ChargeResponse.of(answer.receipt.statement), answer.charge.repeated
    about = {"population": charged.population, "position": charged.position, "repeat": repeated}
    return about if repeated else {**about, "charge": charged.amounts}


def _columns(answer: Answer) -> list[dict[str, Any]]:
    known, counts = answer.finished.has_interval, answer.finished.not_negative
    return [
        {"name": c.name, "type": str(c.type), "interval": known[i]} | ({"not_negative": True} if counts[i] else {})
        for i, c in enumerate(answer.columns)
    ]


def _bias(answer: Answer) -> dict[str, Any]:
    """Return the estimate of the bias; empty where it was not estimated."""
    if not answer.finished.estimated:
        return {}
    return {"bias": None if answer.bias is None else BiasResponse.of(answer.bias).plain()}


def _rows(answer: Answer, *, wide: bool = True) -> list[list[Any]]:
    """Return the cells of each row; ``wide`` as for :func:`.value_to_json`."""
    finished, kinds = answer.finished, [column.type for column in answer.columns]
    known = finished.has_interval
    return [
        [
            cell_to_json(values[i], ends[i] if known[i] else None, kind, wide=wide, **({} if lost is None else lost[i]))
            for i, kind in enumerate(kinds)
        ]
        for values, ends, lost in zip(finished.values, finished.intervals(bias=False), _losses(answer), strict=True)
    ]


def _losses(answer: Answer) -> Sequence[list[dict[str, Any]] | None]:
    """Return for each cell the intervals that include bias, and its mark; None per row where there is no bias."""
    finished = answer.finished
    if answer.bias is None:
        return [None] * len(finished.values)
    plain, wide, sure = finished.intervals(bias=False), finished.intervals(bias=True), finished.sure()
    return [
        [
            {"biased": pair, "sure": None if known == own else known, "marked": mark}
            for own, pair, known, mark in zip(*row, strict=True)
        ]
        for row in zip(plain, wide, sure, finished.marked(), strict=True)
    ]


def _read_cell(cell: Any, column: OutputColumn) -> CellRead:
    if not column.noisy:
        value = read_value(cell, column.type)
        ends = (value, value) if column.type.is_ordered else (None, None)
        return CellRead(value, ends, ends, ends)

    def pair(name: str) -> Ends:
        low, high = (cell.get(name + end, cell[end]) for end in ("low", "high"))
        return read_value(low, column.type), read_value(high, column.type)

    value = read_value(cell["value"], column.type)
    return CellRead(value, pair(""), pair("bias_"), pair("sure_"), cell.get("marked") is True)


class PriceResponse(ResponseModel):
    """The charge that a query would make."""

    text: str
    amounts: dict[str, Exact]


class NoiseResponse(ResponseModel):
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


class ExpectedErrorResponse(ResponseModel):
    """Expected error of one cell."""

    label: str
    bound: str | None
    meaning: str


class QuoteResponse(ResponseModel):
    """Effect and price of a query."""

    price: PriceResponse
    guarantee: GuaranteeKind
    population: str
    protected: list[str]
    unit: str
    relation: str
    bounding: str
    limits: str
    keys: str
    bounds: str | None
    bias: str | None = Field(default=None, description="share of the cost for an estimate of the bias")
    releases: list[NoiseResponse]
    account: str
    alone: str | None
    confidence: Exact
    errors: list[ExpectedErrorResponse]
    plan: str = Field(description="digest")
    engine_sql: str | None = maybe(description="for owners")
    advice: list[str] = maybe(description="what to write for less noise, a sentence each")
    sets: str = maybe(description="grouping sets, and how their totals are made")
    public: bool = maybe(description="true where public tables alone are asked about: exact, and free")
    steps: str = maybe(description="which parts of the query wait for what others release")
    queries_left: int | None = Field(description="how many more such queries fit")
    response_time: float = Field(
        description="seconds after which a fresh answer is sent, decided by the text; 0 without response steps"
    )

    @classmethod
    def of(
        cls, quote: Quote, *, engine: bool = False, queries_left: int | None = None, response_time: float = 0.0
    ) -> Self:
        """The quote; ``engine`` adds the statements of the engine, which are for owners."""
        it, price = quote.explanation, GuaranteeResponse.of(quote.guarantee)
        return cls.from_domain(
            it,
            price=PriceResponse(text=it.charge, amounts=price.amounts),
            guarantee=price.kind,
            protected=list(it.protected),
            bias=it.bias,
            releases=list(it.releases),
            errors=list(it.errors),
            plan=it.digest,
            queries_left=queries_left,
            response_time=response_time,
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
        guarantee = GuaranteeResponse(kind=self.guarantee, amounts=self.price.amounts, relation=self.relation)
        return Explanation(**said), guarantee.to_domain()


class HealthResponse(ResponseModel):
    """Queries can be asked."""

    status: Literal["ok"]


# Headers and printed answers ------------------------------------------------------------------------------------------


def answer_json(curator: Curator, answer: Answer) -> dict[str, Any]:
    """Return the answer for the command line's JSON: rows by column name, and the remaining budget."""
    names = [column.name for column in answer.columns]
    return {
        "columns": _columns(answer),
        "rows": [dict(zip(names, row, strict=True)) for row in _rows(answer, wide=False)],
        "confidence": exact_text(answer.finished.confidence),
        **_bias(answer),
        "charge": charge_json(answer.charge),
        "budget": None if answer.is_public else BudgetResponse.of(curator.budget(answer)).plain(),
        "receipt": None if answer.receipt is None else json.loads(answer.receipt.to_json()),
        **({"public": True} if answer.is_public else {}),
    }


def charge_json(charge: Entry) -> dict[str, Any]:
    """Return a charge for the command line's JSON."""
    return {
        "population": charge.population,
        "amounts": {amount.currency: exact_text(amount.amount) for amount in charge.amounts},
        "repeat": charge.repeated,
        "position": charge.number,
        "text": charge.text,
    }


_OPTION_TYPES: Final[Mapping[OptionKind, Any]] = {
    OptionKind.AMOUNT: Amount,
    OptionKind.PROBABILITY: Amount,
    OptionKind.COUNT: Count,
    OptionKind.LIMIT: Limit,
    OptionKind.AMOUNTS: Amount | Amounts,
    OptionKind.WEIGHTS: Amounts,
}


class _Query(RequestModel):
    model_config = ConfigDict(
        json_schema_extra={"example": {"sql": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "epsilon": 0.5}}
    )


_FIELDS: Final[dict[str, Any]] = {
    "sql": (Text, Field(description="one SELECT")),
    **{name: (_OPTION_TYPES[option.kind], maybe(description=option.help)) for name, option in OPTIONS.items()},
}
QueryRequest: Final[type[RequestModel]] = create_model(
    "QueryRequest",
    __base__=_Query,
    __doc__="A query in SQL, and exactly one of epsilon, rho, mu and within, here or in the text of the query.",
    **_FIELDS,
)


def read_query(content: Any) -> Request:
    """Return the query of a request body, from JSON whose numbers are ``int`` or ``Decimal``."""
    return Request(**{name: _as_text(value) for name, value in QueryRequest.of(content).stated.items()})


def _as_text(value: Any) -> Any:
    """Return a value with decimals as text, so that equal queries are equal requests."""
    if isinstance(value, Mapping):
        return {name: _as_text(each) for name, each in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def query_body(request: Request) -> str:
    """Return the request body of a query: its text, and the stated options."""
    if not isinstance(request.sql, str):
        raise InputError("sql", f"must be text, not {type(request.sql).__name__}")
    stated = {name: value for name in OPTIONS if (value := getattr(request, name)) is not None}
    return (
        "{"
        + ",".join(
            [f'"sql":{json.dumps(request.sql)}', *(f"{json.dumps(n)}:{option_text(v, n)}" for n, v in stated.items())]
        )
        + "}"
    )
