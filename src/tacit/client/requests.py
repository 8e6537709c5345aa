"""Requests of the API that make no release: queries, people, tokens and quotas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, create_model

from tacit.core.errors import InputError
from tacit.query.request import OPTIONS, OptionKind, Request
from tacit.releases.api_types import (
    Amount,
    Amounts,
    Count,
    Label,
    Limit,
    Name,
    Names,
    RequestModel,
    Text,
    maybe,
    option_text,
)

Role = Literal["owner", "analyst", "auditor"]
Scopes = list[Literal["ask", "audit", "admin"]]
_OPTION_TYPES: Final[Mapping[OptionKind, Any]] = {
    OptionKind.AMOUNT: Amount,
    OptionKind.PROBABILITY: Amount,
    OptionKind.COUNT: Count,
    OptionKind.LIMIT: Limit,
    OptionKind.AMOUNTS: Amount | Amounts,
    OptionKind.WEIGHTS: Amounts,
}


class PersonRequest(RequestModel):
    """A person to add, or to change."""

    name: Name
    role: Role
    populations: Names | None = maybe(
        description="populations that exist for them, null for all; if left out, as before, or all"
    )


class TokenRequest(RequestModel):
    """A token to issue."""

    name: Name
    days: Annotated[Count, Field(ge=1, le=3650)] = Field(description="until it ends")
    label: Label = maybe()
    scopes: Scopes = maybe(description="by default those of the person")
    share: Amount = maybe(
        description="epsilon that all its charges may amount to, of each population; it may then only ask"
    )


class QuotaRequest(RequestModel):
    """A limit for one person, counting what they have spent; no caps take it away."""

    name: Name
    population: Text
    caps: Amounts = Field(
        description="by currency of the account",
        json_schema_extra={"additionalProperties": {"type": "number", "minimum": 0}},
    )


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
    """The query in a body, from JSON whose numbers are ``int`` or ``Decimal``."""
    return Request(**{name: _as_text(value) for name, value in QueryRequest.of(content).stated.items()})


def _as_text(value: Any) -> Any:
    """A value whose numbers, but for whole ones of counts, are text: equal queries are equal requests."""
    if isinstance(value, Mapping):
        return {name: _as_text(each) for name, each in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def query_body(request: Request) -> str:
    """The body of a query as a client sends it: the text, and the options that are stated."""
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
