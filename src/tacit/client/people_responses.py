"""Bodies of responses about people and their tokens."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from tacit.client.account_responses import BudgetResponse
from tacit.client.requests import Role, Scopes
from tacit.releases.api_types import ResponseModel


def _sorted(names: Any) -> Any:
    return sorted(map(str, names)) if isinstance(names, Set) else names


def _seconds(moment: Any) -> Any:
    return moment.isoformat(timespec="seconds") if isinstance(moment, datetime) else moment


_Role = Annotated[Role, BeforeValidator(lambda role: str(role) if isinstance(role, str) else role)]
_Scopes = Annotated[Scopes, BeforeValidator(_sorted)]
_Populations = Annotated[list[str] | None, BeforeValidator(_sorted)]
_Moment = Annotated[str, BeforeValidator(_seconds)]


class MeResponse(ResponseModel):
    """The person that the token stands for."""

    name: str
    role: _Role
    scopes: _Scopes
    populations: _Populations
    audits: bool


class PersonResponse(ResponseModel):
    """A person, and what they may spend and have spent."""

    name: str
    role: _Role
    active: bool
    populations: _Populations
    budgets: list[BudgetResponse]


class PeopleResponse(ResponseModel):
    """All people."""

    people: list[PersonResponse]


class RevokedResponse(ResponseModel):
    """A person who is refused from now on."""

    name: str
    active: bool


class NewTokenResponse(ResponseModel):
    """A new token; its text is shown this once."""

    token: str
    id: str
    name: str
    label: str
    scopes: _Scopes
    expires: _Moment | None
    share: str | None


class TokenResponse(ResponseModel):
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


class TokensResponse(ResponseModel):
    """All tokens."""

    tokens: list[TokenResponse]


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


class WithdrawnResponse(ResponseModel):
    """A token that opens nothing any more."""

    id: str
    alive: bool
