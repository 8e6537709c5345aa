"""Single sign-on at a real provider, and what a hostile provider, browser or page between them achieves: nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx2
import pytest
from joserfc.jwk import RSAKey

from support.openid import Lies, OpenID, openid, symmetric
from support.served import Served, serve
from support.visiting import Visitor
from tacit.core.errors import InputError
from tacit.project.project_file import OpenIDModel, load
from tacit.server.identity import Role
from tacit.server.identity.oidc import open_providers

BASE = "http://127.0.0.1:8470"
GROUPS = {
    "owners": {"role": "owner"},
    "analysts": {"role": "analyst", "populations": ["patients"]},
    "staff office": {"role": "analyst", "populations": ["employees"]},
}


class House:
    """A server with providers ``house`` and ``other``, and browsers that come to it."""

    def __init__(self, providers: dict[str, OpenID], secret: Path, **model: Any) -> None:
        self.providers, self.now = providers, timedelta()
        words = {"client_id": "tacit", "client_secret": f"file:{secret}", "groups": GROUPS, **model}
        models = {name: OpenIDModel(**{"issuer": each.issuer, **words}) for name, each in providers.items()}
        self.served: Served = serve(providers=open_providers(models, lambda: datetime.now(UTC) + self.now))
        self.visitors: list[Visitor] = []

    def visitor(self, base: str = BASE) -> Visitor:
        made = Visitor(self.served, base)
        self.visitors.append(made)
        return made

    def begin(self, visitor: Visitor, name: str = "house", page: str = "") -> dict[str, str]:
        """Go to the provider; its response."""
        found = visitor.get(f"/console/sign-in/{name}" + (f"?next={quote(page, safe='')}" if page else ""))
        assert found.status_code == 303, found.text
        address = found.headers["location"]
        assert address.startswith(f"{self.providers[name].issuer}/authorize?")
        sent = httpx2.get(address, verify=False)
        assert sent.status_code == 302, sent.text
        back = sent.headers["location"]
        assert back.startswith(f"{BASE}/console/signed-in/{name}?")
        return {key: value for key, (value,) in parse_qs(urlsplit(back).query).items()}

    def finish(self, visitor: Visitor, answer: dict[str, str], name: str = "house") -> httpx2.Response:
        return visitor.get(f"/console/signed-in/{name}?{urlencode(answer)}", sec_fetch_site="cross-site")

    def sign_in(self, name: str = "house", page: str = "") -> tuple[Visitor, httpx2.Response]:
        visitor = self.visitor()
        return visitor, self.finish(visitor, self.begin(visitor, name, page), name)

    def refused(self, words: str, status: int = 403, name: str = "house") -> None:
        """One more sign-in is refused, and opens nothing."""
        before = len(list(self.served.curator.ledger.notes("session opened")))
        visitor, found = self.sign_in(name)
        assert found.status_code == status, found.text
        assert words in found.text
        assert "tacit_session" not in visitor.client.cookies
        assert visitor.get("/console/history").status_code == 303
        assert len(list(self.served.curator.ledger.notes("session opened"))) == before


@pytest.fixture(scope="module")
def real() -> Iterator[dict[str, OpenID]]:
    with (
        openid(f"{BASE}/console/signed-in/house") as house,
        openid(f"{BASE}/console/signed-in/other") as other,
    ):
        yield {"house": house, "other": other}


@pytest.fixture
def houses(real: dict[str, OpenID], tmp_path: Path) -> Iterator[Any]:
    """Makes servers for these providers; the words are of their models."""
    secret, made = tmp_path / "secret", []
    secret.write_text("a shared secret\n")

    def make(**model: Any) -> House:
        for each in real.values():
            each.lies, each.only_userinfo, each.fetched = Lies(), (), []
            each.user = {"sub": "erin-1", "preferred_username": "Erin", "groups": ["x", "analysts"]}
        made.append(House(real, secret, **model))
        return made[-1]

    yield make
    for house in made:
        for each in house.visitors:
            each.close()


@pytest.fixture
def house(houses: Any) -> House:
    made: House = houses()
    return made


def test_a_person_of_the_provider_comes_in(house: House) -> None:
    page = house.visitor().get("/console/sign-in?next=/console/history").text
    assert '<a class="button main" href="/console/sign-in/house?next=%2Fconsole%2Fhistory">' in page
    visitor, found = house.sign_in(page="/console/history?before=7")
    assert 'content="0;url=/console/history?before=7"' in found.text
    assert "You are signed in as erin." in found.text
    asked = house.providers["house"].asked
    assert (asked["code_challenge_method"], len(asked["code_challenge"])) == ("S256", 43)
    assert set(asked["scope"].split()) == {"openid", "profile", "email", "groups"}
    assert visitor.get("/console/history").status_code == 200
    person = house.served.people.person("erin")
    assert person is not None
    assert (person.role, person.populations) == (Role.ANALYST, frozenset({"patients"}))
    assert person.identity == f"{house.providers['house'].issuer} erin-1"
    (noted,) = [fields for _, fields in house.served.curator.ledger.notes("session opened")]
    assert (noted["analyst"], noted["by"]) == ("erin", "house")
    cookies = {each.split("=")[0]: each for each in found.headers.get_list("set-cookie")}
    assert "SameSite=strict" in cookies["tacit_session"]
    assert "Max-Age=0" in cookies["tacit_entry"]
    assert visitor.post("/console/sign-out").status_code == 303
    assert visitor.get("/console/history").status_code == 303


def test_groups_decide_each_time(house: House) -> None:
    provider = house.providers["house"]
    visitor, _ = house.sign_in()
    for groups, role, populations in (
        (["analysts", "staff office"], Role.ANALYST, frozenset({"patients", "employees"})),
        (["staff office", "owners"], Role.OWNER, None),
        ("staff office", Role.ANALYST, frozenset({"employees"})),
    ):
        provider.user["groups"] = groups
        house.sign_in()
        person = house.served.people.person("erin")
        assert person is not None
        assert (person.role, person.populations) == (role, populations)
    token = house.served.people.issue("erin", expires=None, operator="test").text
    assert visitor.get("/console/history").status_code == 200
    for groups in ([], None, {"owners": True}, [["owners"]], "owner"):
        provider.user = {**provider.user, "groups": groups, "sub": "zoe", "preferred_username": "zoe"}
        house.refused("in no group that may enter")
    provider.user = {"sub": "erin-1", "preferred_username": "erin", "groups": ["former staff"]}
    house.refused("in no group that may enter")
    assert visitor.get("/console/history").status_code == 303
    assert house.served.people.authenticate(token) is None
    provider.user["groups"] = ["analysts"]
    house.refused("was revoked")


def test_claims_that_only_the_userinfo_has(house: House) -> None:
    provider = house.providers["house"]
    provider.only_userinfo = ("groups", "preferred_username")
    _, found = house.sign_in()
    assert "You are signed in as erin." in found.text
    assert "/userinfo" in provider.fetched
    provider.lies = Lies(claims={"sub": "another"})
    house.refused("names nobody")


def test_the_same_subject_and_name_at_two_providers_are_two_people(house: House) -> None:
    house.sign_in()
    house.refused("is that of another person here", name="other")
    house.providers["other"].user["preferred_username"] = "olga"
    house.refused("is that of another person here", name="other")
    house.providers["other"].user["preferred_username"] = "erin of the other house"
    _, found = house.sign_in("other")
    assert "erin of the other house" in found.text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "another client"}, "aud"),
        ({"aud": ["tacit", "another client"]}, "azp"),
        ({"aud": ["tacit"], "azp": "another client"}, "azp"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"exp": int(time.time()) - 120}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "never"}, "exp"),
        ({"iat": int(time.time()) + 600}, "ID token"),
        ({"nbf": int(time.time()) + 600}, "ID token"),
        ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "subject"),
        ({"sub": "x" * 256}, "subject"),
        ({"sub": 7}, "sub"),
        ({"preferred_username": ""}, "names nobody"),
        ({"preferred_username": ["erin"]}, "names nobody"),
    ],
)
def test_an_id_token_that_does_not_hold(house: House, claims: dict[str, Any], words: str) -> None:
    house.providers["house"].lies = Lies(claims=claims)
    house.refused(words)


def test_names_that_none_can_have(house: House) -> None:
    for name in ("a\nb", "\u202e", "x" * 201, "  "):
        house.providers["house"].user["preferred_username"] = name
        house.refused("name", status=400)


def test_signatures_that_the_provider_did_not_make(house: House) -> None:
    provider = house.providers["house"]
    stranger = RSAKey.generate_key(2048, {"kid": provider.key.kid})
    public = json.dumps(provider.key.as_dict(private=False))
    for lies in (
        Lies(key=stranger),
        Lies(header={"alg": "HS256"}, key=symmetric(public)),
        Lies(header={"alg": "HS256"}, key=symmetric("a shared secret")),
        Lies(header={"alg": "RS256", "kid": "unknown"}, key=stranger),
    ):
        provider.lies = lies
        house.refused("the ID token does not hold")
    for text in ("", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJlcmluLTEifQ.", None, 7, {}):
        provider.lies = Lies(body=json.dumps({"access_token": "x", "token_type": "Bearer", "id_token": text}).encode())
        house.refused("ID token")


def test_keys_that_the_provider_changes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, old = house.providers["house"], house.providers["house"].key
    house.sign_in()
    provider.key = RSAKey.generate_key(2048, {"kid": "second"})
    house.refused("the ID token does not hold")  # looked for too lately
    monkeypatch.setattr("tacit.server.identity.oidc._KEYS_AGAIN", 0.0)
    _, found = house.sign_in()
    assert found.status_code == 200
    provider.lies = Lies(key=old, header={"kid": "first"})
    house.refused("the ID token does not hold")
    provider.key = old


@pytest.mark.parametrize(("seconds", "works"), [(-50, True), (50, True), (-70, False), (290, True), (370, False)])
def test_clocks_may_differ_by_a_minute(house: House, seconds: int, works: bool) -> None:
    """Its tokens last five minutes."""
    house.now = timedelta(seconds=seconds)
    if works:
        assert house.sign_in()[1].status_code == 200
    else:
        house.refused("the ID token does not hold")


def test_responses_that_are_replayed_mixed_up_or_of_another_browser(house: House) -> None:
    refused = "was not begun in this browser"
    alice, eve = house.visitor(), house.visitor()
    answer = house.begin(alice)
    others = house.begin(eve)
    for visitor, said in (
        (eve, answer),  # a login that is forced on another browser
        (house.visitor(), answer),
        (alice, {**answer, "state": others["state"]}),
        (alice, {name: text for name, text in answer.items() if name != "state"}),
        (alice, {**answer, "state": ""}),
    ):
        found = house.finish(visitor, said)
        assert (found.status_code, refused in found.text) == (403, True)
    twice = alice.get(f"/console/signed-in/house?{urlencode(answer)}&code=another")
    assert (twice.status_code, refused in twice.text) == (403, True)
    found = house.finish(alice, answer, "other")
    assert (found.status_code, "was used already" in found.text) == (403, True), "begun at another provider"
    assert house.finish(alice, answer).status_code == 200, "none of it used the sign-in up"
    entry = alice.client.cookies.get("tacit_entry")
    assert entry is None
    copy = house.visitor()
    copy.client.cookies.set("tacit_entry", "entry_" + "0" * 16 + "_" + "0" * 64)
    assert house.finish(copy, answer).status_code == 403


def test_a_sign_in_is_used_up_by_its_first_response(house: House) -> None:
    visitor = house.visitor()
    answer = house.begin(visitor)
    kept = visitor.client.cookies["tacit_entry"]
    assert house.finish(visitor, answer).status_code == 200
    again = house.visitor()
    again.client.cookies.set("tacit_entry", kept)
    found = house.finish(again, answer)
    assert (found.status_code, "was used already" in found.text) == (403, True)


def test_a_code_that_was_stolen_is_worth_nothing_in_another_sign_in(house: House) -> None:
    """PKCE and nonce bind a code to the browser that began: the provider refuses the verifier of another."""
    alice, eve = house.visitor(), house.visitor()
    stolen, own = house.begin(alice)["code"], house.begin(eve)
    found = house.finish(eve, {**own, "code": stolen})
    assert (found.status_code, "the code was not accepted" in found.text) == (403, True)


def test_the_issuer_of_a_response_is_checked(house: House) -> None:
    house.providers["house"].lies = Lies(iss="https://evil.example")
    house.refused("the response is of another issuer")
    visitor = house.visitor()
    house.providers["house"].lies = Lies()
    answer = house.begin(visitor)
    found = house.finish(visitor, {name: text for name, text in answer.items() if name != "iss"})
    assert (found.status_code, "does not name its issuer" in found.text) == (403, True)
    visitor = house.visitor()
    answer = {**house.begin(visitor), "error": "access_denied", "error_description": "<script>alert(1)</script>"}
    found = house.finish(visitor, answer)
    assert (found.status_code, "you were not signed in there" in found.text) == (403, True)
    assert "<script>alert" not in found.text


def test_nobody_is_led_elsewhere(house: House) -> None:
    for page in ("//evil.example", "https://evil.example", "/console/..//evil", "/other", "/console/\\x",
                 "/console/sign-out", "/console/signed-in/house", "/console/" + "x" * 1900):  # fmt: skip
        _, found = house.sign_in(page=page)
        assert 'content="0;url=/console/' in found.text
        assert "evil" not in found.text.partition("http-equiv")[2].partition(">")[0]
    foreign = house.visitor("http://evil.example")
    assert foreign.get("/console/sign-in/house").status_code == 403, "its redirect address would be that of the request"
    forced = house.visitor()
    sent = forced.get("/console/sign-in/house", sec_fetch_site="cross-site")
    assert (sent.status_code, sent.headers["location"]) == (303, "/console/sign-in")
    assert "tacit_entry" not in forced.client.cookies
    assert house.visitor().get("/console/sign-in/nowhere").status_code == 404


def test_a_session_from_before_does_not_outlive_a_sign_in(house: House) -> None:
    visitor = house.visitor()
    visitor.sign_in("alice")
    before = visitor.client.cookies["tacit_session"]
    assert house.finish(visitor, house.begin(visitor)).status_code == 200
    assert visitor.client.cookies["tacit_session"] != before
    assert house.served.people.session(before) is None


def test_an_address_that_was_not_verified_names_nobody(houses: Any) -> None:
    house = houses(name_claim="email")
    for verified in (False, None, "true", 1):
        house.providers["house"].user |= {"email": "erin@example.org", "email_verified": verified}
        house.refused("is not verified there")
    house.providers["house"].user["email_verified"] = True
    _, found = house.sign_in()
    assert "You are signed in as erin@example.org." in found.text


def test_a_path_into_the_claims(houses: Any) -> None:
    house = houses(groups_claim="realm_access.roles")
    house.providers["house"].user["realm_access"] = {"roles": ["owners"]}
    assert house.sign_in()[1].status_code == 200
    person = house.served.people.person("erin")
    assert person is not None
    assert person.role is Role.OWNER
    house.providers["house"].user["realm_access"] = "owners"
    house.refused("in no group that may enter")


def test_a_provider_that_is_down_keeps_nobody_else_out(
    houses: Any, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = house.visitor()
    answer = house.begin(visitor)
    provider = house.providers["house"]
    for body in (b"", b"[]", b"<html>", b"x" * 1_100_000):
        provider.lies = Lies(body=body)
        house.refused("Sign-in does not work now", status=503)
    monkeypatch.setattr("tacit.server.identity.oidc._SECONDS", 0.2)
    provider.lies = Lies(seconds=0.5)
    found = house.finish(visitor, answer)
    assert (found.status_code, "Sign-in does not work now" in found.text) == (503, True)
    fresh = houses()
    for lies in (
        Lies(issuer="https://evil.example"),
        Lies(endpoints={"token_endpoint": "http://evil.example/token"}),
        Lies(endpoints={"jwks_uri": "file:///etc/passwd"}),
        Lies(endpoints={"authorization_endpoint": ""}),
    ):
        provider.lies = lies
        found = fresh.visitor().get("/console/sign-in/house")
        assert (found.status_code, "Sign-in does not work now" in found.text) == (503, True)
    assert house.served.people.authenticate(house.served.tokens["alice"]) is not None
    assert house.visitor().sign_in("alice").status_code == 303


def test_sign_ins_from_one_address_are_a_bounded_number(houses: Any) -> None:
    house = houses()
    statuses = [house.visitor().get("/console/sign-in/house").status_code for _ in range(205)]
    assert statuses[:200] == [303] * 200
    assert 429 in statuses[200:]


PROJECT = """
[populations.patients]
epsilon = "1"
[tables.visits]
source = "visits.csv"
population = "patients"
unit = "id"
[tables.visits.columns]
id = { type = "integer" }
[server.oidc.house]
issuer = "https://id.example.org"
client_id = "tacit"
client_secret = "env:HOUSE_SECRET"
[server.oidc.house.groups.analysts]
role = "analyst"
populations = ["patients"]
"""


def test_the_project_file_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "visits.csv").write_text("id\n1\n")
    place = tmp_path / "tacit.toml"

    def read(text: str) -> Any:
        place.write_text(text)
        return load(place).providers

    providers = read(PROJECT)
    assert providers["house"].groups["analysts"].populations == ("patients",)
    with pytest.raises(InputError, match="cannot be read from env:HOUSE_SECRET"):
        open_providers(providers)
    monkeypatch.setenv("HOUSE_SECRET", "s3cret")
    assert "s3cret" not in repr(vars(open_providers(providers)["house"])["_model"])
    for old, new, words in (
        ("env:HOUSE_SECRET", "s3cret", "client_secret"),
        ('"https://id.example.org"', '"id.example.org"', "issuer"),
        ('["patients"]', '["cats"]', "there is no .populations.cats."),
        ('"analyst"', '"owner"', "an owner sees everything"),
        ('"analyst"', '"king"', "role"),
        ("oidc.house", "oidc.House", "oidc"),
        ("client_id", "client", "client"),
    ):
        with pytest.raises(InputError, match=words):
            read(PROJECT.replace(old, new))
    with pytest.raises(InputError, match="must begin with https"):
        open_providers(read(PROJECT.replace("https://id", "http://id")))
