"""SCRAM-SHA-256: the example of RFC 7677, channel binding, and storage of verifiers."""

from __future__ import annotations

import base64

import pytest

from support.served import Served
from tacit.server.identity import People
from tacit.server.identity.scram import (
    MECHANISM,
    MECHANISM_PLUS,
    ScramError,
    ScramExchange,
    ScramVerifier,
    salt_of,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def test_the_example_of_the_standard() -> None:
    verifier = ScramVerifier.derive("pencil", SALT, 4096)
    assert ScramVerifier.read(verifier.text) == verifier
    exchange = ScramExchange(MECHANISM, NONCE, None)
    assert exchange.first(FIRST, SALT, 4096) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    shown = exchange.final(FINAL)
    assert verifier.check(shown) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ScramVerifier.derive("pencils", SALT, 4096).check(shown) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=,r=abcdefghij",
        b"n,a=x,n=,r=abcdefghij",
        b"n,,n=,r=abc,x=1",
        b"n,,m=1,n=,r=abcdefghij",
    ],
)
def test_malformed_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        ScramExchange(MECHANISM, NONCE, None).first(message, SALT, 4096)


def test_channel_binding_cannot_be_taken_away_or_moved() -> None:
    with pytest.raises(ScramError):
        ScramExchange(MECHANISM_PLUS, NONCE, None)
    with pytest.raises(ScramError, match="no channel binding"):
        ScramExchange(MECHANISM, NONCE, b"hash").first(b"y,,n=,r=abcdefghij", SALT, 4096)
    bound = ScramExchange(MECHANISM_PLUS, NONCE, b"hash")
    bound.first(b"p=tls-server-end-point,,n=,r=abcdefghij", SALT, 4096)
    other = base64.b64encode(b"p=tls-server-end-point,,other")
    proof = base64.b64encode(bytes(32))
    with pytest.raises(ScramError, match="another connection"):
        bound.final(b"c=%b,r=abcdefghij%b,p=%b" % (other, NONCE.encode(), proof))


def test_names_that_no_person_has_look_like_others(served: Served) -> None:
    salt, iterations = served.people.salt("no-person-here")
    known, same = served.people.salt("alice")
    assert (len(salt), iterations) == (len(known), same)
    assert served.people.salt("ALICE")[0] == known != salt
    assert salt_of("a", b"k") != salt_of("b", b"k")


def test_verifiers_of_tokens_take_as_many_rounds_as_those_of_passwords_should(served: Served) -> None:
    """600,000 rounds of PBKDF2 with SHA-256 are what OWASP asks for; people of tests have fewer."""
    people = People.open(served.curator.ledger, ":memory:")
    assert people.salt("alice")[1] == 600_000
    assert served.people.salt("alice")[1] == 4096
    ((kept,),) = served.people.tables.read("SELECT verifier FROM people_tokens WHERE name = 'alice'")
    assert kept.startswith("SCRAM-SHA-256$4096:")
