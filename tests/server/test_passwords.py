"""Passwords that are guessed first, and links whose address no client may choose."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.served import Served, serve
from support.visiting import PASSWORD, Visitor
from tacit.core.errors import InputError
from tacit.server.identity.passwords import check_password
from tacit.server.serve.listen import tls_context
from tacit.server.settings import Settings

GUESSED = [
    "password12",
    "Password123!",
    "passw0rd123",
    "P@ssw0rd2024",
    "password1234567",
    "1234567890",
    "0987654321",
    "12345678910",
    "qwertyuiop",
    "qwerty12345",
    "QWERTZuiop1",
    "asdfghjkl1",
    "1q2w3e4r5t",
    "1qaz2wsx3edc",
    "zaq1xsw2cde3",
    "iloveyou123",
    "welcome2024!",
    "letmein1234",
    "adminadmin",
    "administrator1",
    "changeme123",
    "abcdefghij",
    "abc123abc123",
    "aaaaaaaaaa",
    "ababababab",
    "trustno1trustno1",
    "football2024",
    "sunshine123",
    "princess2023",
    "dragondragon",
    "superman1234",
    "monkey123456",
    "secret123456",
    "master123456",
    "hello12345",
    "test123456",
    "testtesttest",
    "correcthorsebatterystaple",
    "alice12345",
    "Alice!2024",
    "alicealice",
    "alice_alice_1",
    "hospital2024",
    "hospital-hospital",
    "Hospital123!",
    "tacit12345",
    "clinic-north1",
]
FINE = [
    PASSWORD, "tr0ub4dor&3!", "a b c d e f", "ночь тиха, путь", "red lamp under stairs", "another long password",
    "v7#Kq9!pLm2x", "zimt und zwiebeln", "my dentist plays oboe",
]  # fmt: skip


@pytest.mark.parametrize(
    "password",
    [each for each in GUESSED if len(each) >= 10]
    + ["this is my password", "p\u00e4ssw\u00f6rd123456", "a\u200dl\u200di\u200dc\u200de12345"],
)
def test_passwords_that_are_guessed_first(password: str) -> None:
    with pytest.raises(InputError, match="guessed first") as caught:
        check_password(password, "alice", ["hospital", "Clinic North"])
    assert password not in str(caught.value)


@pytest.mark.parametrize("password", FINE)
def test_what_is_good_stays_good(password: str) -> None:
    check_password(password, "alice", ["hospital", "Clinic North"])


def test_a_long_password_is_looked_at_quickly() -> None:
    check_password("x7 " * 80 + "zebra", "alice")
    with pytest.raises(InputError):
        check_password("password" * 32, "alice")


@pytest.fixture
def owner() -> Iterator[Any]:
    made: list[Any] = []

    def visiting(base: str, **settings: Any) -> tuple[Served, Visitor]:
        served = serve(**settings)
        served.people.set_password("olga", PASSWORD, operator="test")
        visitor = Visitor(served, base)
        assert visitor.sign_in("olga").status_code == 303
        made.extend((visitor, served))
        return served, visitor

    yield visiting
    for each in made:
        each.close()


def invited(visitor: Visitor) -> str:
    page = visitor.post("/console/people/invite", name="alice")
    assert page.status_code == 200, page.text
    return str(page.text)


@pytest.mark.parametrize(
    ("base", "settings", "shown"),
    [
        ("http://evil.example", {}, ""),
        ("http://localhost.evil.example", {}, ""),
        ("http://127.0.0.1:8470", {}, "http://127.0.0.1:8470"),
        ("http://localhost:8470", {}, "http://localhost:8470"),
        ("http://evil.example", {"address": "https://tacit.example.org"}, "https://tacit.example.org"),
        ("https://evil.example", {"behind_proxy": True}, ""),
    ],
)
def test_the_address_of_an_invitation_is_not_what_a_request_says(
    owner: Any, base: str, settings: dict[str, Any], shown: str
) -> None:
    _, visitor = owner(base, **settings)
    page = invited(visitor)
    assert "evil.example" not in page
    assert f"{shown}/console/welcome/" in page
    assert ("Put it behind the address of this server" in page) == (not shown)


@pytest.mark.parametrize(
    "address", ["tacit.example.org", "https://a b", "https://x/y", "javascript:alert(1)", "https://"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match="address"):
        Settings(address=address)


def test_a_key_of_tls_that_others_may_read_is_refused(tmp_path: Path) -> None:
    key, cert = tmp_path / "k.pem", tmp_path / "c.pem"
    key.write_text("x")
    cert.write_text("x")
    settings = Settings(tls_cert=str(cert), tls_key=str(key))
    for mode, words in ((0o644, "others may read"), (0o604, "others may read"), (0o620, "use or change")):
        key.chmod(mode)
        with pytest.raises(InputError, match=words):
            tls_context(settings)
    for mode in (0o600, 0o640, 0o400):
        key.chmod(mode)
        assert stat.S_IMODE(os.stat(key).st_mode) == mode
        with pytest.raises(InputError, match="cannot be used"):
            tls_context(settings)
