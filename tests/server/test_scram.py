"""SCRAM-SHA-256: the example of RFC 7677, channel binding, and storage of verifiers."""

from __future__ import annotations

import base64

import pytest

from tacit.server.identity.scram import (
    MECHANISM,
    MECHANISM_PLUS,
    ScramError,
    ScramExchange,
    ScramVerifier,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def test_the_example_of_the_standard() -> None:
    verifier = ScramVerifier.derive("pencil", SALT)
    assert ScramVerifier.read(verifier.text) == verifier
    exchange = ScramExchange(MECHANISM, NONCE, None)
    assert exchange.first(FIRST, SALT) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    shown = exchange.final(FINAL)
    assert verifier.check(shown) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ScramVerifier.derive("pencils", SALT).check(shown) is None


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
        ScramExchange(MECHANISM, NONCE, None).first(message, SALT)


def test_channel_binding_cannot_be_taken_away_or_moved() -> None:
    with pytest.raises(ScramError):
        ScramExchange(MECHANISM_PLUS, NONCE, None)
    with pytest.raises(ScramError, match="no channel binding"):
        ScramExchange(MECHANISM, NONCE, b"hash").first(b"y,,n=,r=abcdefghij", SALT)
    bound = ScramExchange(MECHANISM_PLUS, NONCE, b"hash")
    bound.first(b"p=tls-server-end-point,,n=,r=abcdefghij", SALT)
    other = base64.b64encode(b"p=tls-server-end-point,,other")
    proof = base64.b64encode(bytes(32))
    with pytest.raises(ScramError, match="another connection"):
        bound.final(b"c=%b,r=abcdefghij%b,p=%b" % (other, NONCE.encode(), proof))
