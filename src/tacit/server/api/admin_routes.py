"""Endpoints for owners: people, tokens, quotas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tacit.client import account_responses as wire
from tacit.client.account_responses import PersonRequest, QuotaRequest, TokenRequest
from tacit.core.errors import AccessError, InputError
from tacit.ledger.entries import plain_name
from tacit.releases.accounts import share_caps
from tacit.server.api.request import ApiRequest, ApiResponse, json_response, read_body
from tacit.server.errors import Unknown
from tacit.server.service import ADMIN

if TYPE_CHECKING:
    from tacit.server.identity import People, Person


def everyone(call: ApiRequest) -> ApiResponse:
    """All people ever added, with their shares and spending."""
    people = _people(call)
    return json_response(wire.PeopleResponse(people=[_person(call, person) for person in people.everyone()]).plain())


def add(call: ApiRequest) -> ApiResponse:
    """Add a person, change their role, or admit them again."""
    from tacit.server.identity import Role

    people = _people(call)
    said = read_body(PersonRequest, call.body)
    if "populations" in said.model_fields_set:
        known = {each.name for each in call.runtime.service.curator.context.catalog.populations}
        populations = None if said.populations is None else frozenset(said.populations)
        if populations is not None and not populations <= known:
            raise InputError("populations", f"there are {', '.join(sorted(known))}")
    else:
        # A change of role alone does not show more.
        before = people.person(said.name)
        populations = None if before is None else before.populations
    person = people.add(said.name, Role(said.role), populations=populations, operator=_operator(call))
    return json_response(_person(call, person).plain(), 201)


def revoke(call: ApiRequest) -> ApiResponse:
    """Revoke a person; their charges stay."""
    people = _people(call)
    person = people.person(_name(call.part))
    if person is None:
        raise Unknown("person")
    if person.name == call.user.person.name:
        raise InputError("name", "you cannot revoke yourself; another owner can")
    people.revoke(person.name, operator=_operator(call))
    return json_response(wire.RevokedResponse(name=person.name, active=False).plain())


def tokens(call: ApiRequest) -> ApiResponse:
    """All tokens, without their secrets."""
    people = _people(call)
    found = [wire.TokenResponse.from_domain(each, used=each.used and each.used.isoformat()) for each in people.tokens()]
    return json_response(wire.TokensResponse(tokens=found).plain())


def issue(call: ApiRequest) -> ApiResponse:
    """A new token; its text is shown this once."""
    from tacit.server.identity import TokenScope

    people = _people(call)
    said = read_body(TokenRequest, call.body)
    issued = people.issue(
        said.name,
        label=said.label or "",
        scopes=frozenset(map(TokenScope, said.scopes)) if "scopes" in said.stated else None,
        expires=datetime.now(UTC) + timedelta(days=said.days),
        operator=_operator(call),
        share=None if "share" not in said.stated else str(said.share),
    )
    return json_response(wire.NewTokenResponse.from_domain(issued, token=issued.text).plain(), 201)


def withdraw(call: ApiRequest) -> ApiResponse:
    """End a token at once."""
    people = _people(call)
    if call.part not in {each.id for each in people.tokens()}:
        raise Unknown("token")
    people.withdraw(call.part, operator=_operator(call))
    return json_response(wire.WithdrawnResponse(id=call.part, alive=False).plain())


def quota(call: ApiRequest) -> ApiResponse:
    """Limit a person's share of a budget, earlier spending included; without caps the limit is removed."""
    people = _people(call)
    service = call.runtime.service
    said = read_body(QuotaRequest, call.body)
    person = people.person(_name(said.name))
    if person is None:
        raise Unknown("person")
    (found,) = service.budget(call.user, said.population)
    ledger = service.curator.ledger
    shares = share_caps(ledger.filter(found.population), said.caps) if said.caps else None
    ledger.set_quota(found.population, shares, analyst=person.name, operator=_operator(call))
    return json_response(
        wire.BudgetResponse.of(service.curator.budget(population=found.population, analyst=person.name)).plain()
    )


def running(call: ApiRequest) -> ApiResponse:
    """Queries that read data now."""
    _people(call)
    found = [wire.RunningQueryResponse.from_domain(each) for each in call.runtime.running.listed()]
    return json_response(wire.RunningQueriesResponse(queries=found).plain())


def stop(call: ApiRequest) -> ApiResponse:
    """Stop a query; its charge waits."""
    _people(call)
    if not call.runtime.running.ask_to_stop(call.part):
        raise Unknown("query")
    return json_response(wire.StoppedQueryResponse(id=call.part).plain(), 202)


def _people(call: ApiRequest) -> People:
    if ADMIN not in call.user.scopes:
        raise AccessError("this needs the scope admin, which your token does not have")
    return call.runtime.service.people


def _operator(call: ApiRequest) -> str:
    return call.user.person.name


def _name(text: str) -> str:
    """A name as the ledger spells it; text that cannot be a name is unknown."""
    try:
        return plain_name(text, "name")
    except InputError:
        raise Unknown("person") from None


def _person(call: ApiRequest, person: Person) -> wire.PersonResponse:
    curator = call.runtime.service.curator
    budgets = [curator.budget(population=name, analyst=person.name) for name in curator.ledger.accounts()]
    return wire.PersonResponse.from_domain(person, budgets=[wire.BudgetResponse.of(each) for each in budgets])
