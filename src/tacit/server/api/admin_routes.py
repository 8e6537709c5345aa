"""Endpoints for owners: people, tokens, quotas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import AccessError, InputError
from tacit.curator.accounts import share_caps
from tacit.ledger.entries import plain_name
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.api.request_body import count, numbers, object_of, text
from tacit.server.errors import Unknown
from tacit.server.service import ADMIN
from tacit.wire.responses import budget_json

if TYPE_CHECKING:
    from tacit.server.identity import People, Person, TokenInfo

__all__ = ["ROUTES"]

_MOST_DAYS: Final = 3650
_LONGEST: Final = 200
_PERSON: Final[Mapping[str, object]] = {"name": text, "role": text, "populations": list}
_TOKEN: Final[Mapping[str, object]] = {"name": text, "label": text, "scopes": list, "days": count}
_QUOTA: Final[Mapping[str, object]] = {"name": text, "population": text, "caps": numbers}


def everyone(call: ApiRequest) -> ApiResponse:
    """Everybody who was ever added, with what they may spend and have spent."""
    people = _people(call)
    return json_response({"people": [_person(call, person) for person in people.everyone()]})


def add(call: ApiRequest) -> ApiResponse:
    """Add somebody, change what they are, or admit them again."""
    from tacit.server.identity import Role

    people = _people(call)
    said = object_of(call.body, _PERSON, needed=("name", "role"))
    role = text("role", said["role"])
    if role not in set(Role):
        raise InputError("role", f"must be one of {', '.join(Role)}")
    name = text("name", said["name"])
    if "populations" in said:
        known = {each.name for each in call.floor.office.curator.context.catalog.populations}
        listed = said["populations"]
        populations = None if listed is None else frozenset(_texts("populations", listed))
        if populations is not None and not populations <= known:
            raise InputError("populations", f"there are {', '.join(sorted(known))}")
    else:
        # Whoever changes a role does not mean to show more.
        before = people.person(name)
        populations = None if before is None else before.populations
    person = people.add(name, Role(role), populations=populations, operator=_operator(call))
    return json_response(_person(call, person), 201)


def revoke(call: ApiRequest) -> ApiResponse:
    """Refuse somebody from now on; what they spent stays spent."""
    people = _people(call)
    person = people.person(_name(call.part))
    if person is None:
        raise Unknown("person")
    if person.name == call.someone.person.name:
        raise InputError("name", "you cannot revoke yourself; another owner can")
    people.revoke(person.name, operator=_operator(call))
    return json_response({"name": person.name, "active": False})


def tokens(call: ApiRequest) -> ApiResponse:
    """All tokens, without what would open anything."""
    people = _people(call)
    return json_response({"tokens": [_token(each) for each in people.tokens()]})


def issue(call: ApiRequest) -> ApiResponse:
    """A new token; its text is shown this once."""
    from tacit.server.identity import TokenScope

    people = _people(call)
    said = object_of(call.body, _TOKEN, needed=("name", "days"))
    days = count("days", said["days"])
    if not 1 <= days <= _MOST_DAYS:
        raise InputError("days", f"must be a whole number from 1 to {_MOST_DAYS}")
    scopes = None
    if "scopes" in said:
        names = _texts("scopes", said["scopes"])
        if not set(names) <= set(TokenScope):
            raise InputError("scopes", f"must be of {', '.join(TokenScope)}")
        scopes = frozenset(map(TokenScope, names))
    issued = people.issue(
        text("name", said["name"]),
        label=_short("label", said.get("label", "")),
        scopes=scopes,
        expires=datetime.now(UTC) + timedelta(days=days),
        operator=_operator(call),
    )
    expires = None if issued.expires is None else issued.expires.isoformat(timespec="seconds")
    shown = {"token": issued.text, "id": issued.id, "name": issued.name, "label": issued.label}
    return json_response({**shown, "scopes": sorted(map(str, issued.scopes)), "expires": expires}, 201)


def withdraw(call: ApiRequest) -> ApiResponse:
    """End a token at once."""
    people = _people(call)
    if call.part not in {each.id for each in people.tokens()}:
        raise Unknown("token")
    people.withdraw(call.part, operator=_operator(call))
    return json_response({"id": call.part, "alive": False})


def quota(call: ApiRequest) -> ApiResponse:
    """Limit what somebody may spend of a budget, counting what they have spent; no caps take the limit away."""
    people = _people(call)
    office = call.floor.office
    said = object_of(call.body, _QUOTA, needed=("name", "population", "caps"))
    person = people.person(_name(text("name", said["name"])))
    if person is None:
        raise Unknown("person")
    population = text("population", said["population"])
    (found,) = office.budget(call.someone, population)
    caps = numbers("caps", said["caps"])
    ledger = office.curator.ledger
    shares = share_caps(ledger.filter(found.population), caps) if caps else None
    ledger.set_quota(found.population, shares, analyst=person.name, operator=_operator(call))
    return json_response(budget_json(office.curator.budget(population=found.population, analyst=person.name)))


def _people(call: ApiRequest) -> People:
    if ADMIN not in call.someone.scopes:
        raise AccessError("this needs the scope admin, which your token does not have")
    return call.floor.office.people


def _operator(call: ApiRequest) -> str:
    return call.someone.person.name


def _name(text: str) -> str:
    """A name as the ledger spells it; what cannot be one is nobody's."""
    try:
        return plain_name(text, "name")
    except InputError:
        raise Unknown("person") from None


def _person(call: ApiRequest, person: Person) -> dict[str, Any]:
    curator = call.floor.office.curator
    return {
        "name": person.name,
        "role": str(person.role),
        "active": person.active,
        "populations": None if person.populations is None else sorted(person.populations),
        "budgets": [
            budget_json(curator.budget(population=name, analyst=person.name)) for name in curator.ledger.accounts()
        ],
    }


def _token(token: TokenInfo) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "label": token.label,
        "scopes": sorted(map(str, token.scopes)),
        "issued": token.issued.isoformat(timespec="seconds"),
        "expires": None if token.expires is None else token.expires.isoformat(timespec="seconds"),
        "used": None if token.used is None else token.used.isoformat(),
        "alive": token.alive,
    }


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > _LONGEST:
        raise InputError(name, "must be a list of names")
    return [text(name, item) for item in value]


def _short(name: str, value: Any) -> str:
    found = text(name, value)
    if len(found) > _LONGEST:
        raise InputError(name, f"must have at most {_LONGEST} characters")
    return found


ROUTES: Final = (
    Route("GET", "/v1/people", everyone),
    Route("POST", "/v1/people", add, takes=True),
    Route("DELETE", "/v1/people/{name}", revoke, slashes=True),
    Route("GET", "/v1/tokens", tokens),
    Route("POST", "/v1/tokens", issue, takes=True),
    Route("DELETE", "/v1/tokens/{id}", withdraw),
    Route("POST", "/v1/quotas", quota, takes=True),
)
