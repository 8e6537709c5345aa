"""Passwords: which ones are good enough, and their argon2id hashes.

Length is what makes a password hard to guess, so length is asked for, and nothing about digits and signs. But the
obvious choices are guessed first: the usual words with their ornaments (a capital, digits around them, 0 for
o), rows of a keyboard, runs and repetitions, the person's own name and that of the project. Letters that look the same
in different Unicode forms are the same letter (NFKC), whichever keyboard they were typed on.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.ledger import BusyError
from tacit.ledger.entries import plain_name

if TYPE_CHECKING:
    from argon2 import PasswordHasher

_SHORTEST: Final = 10
_LONGEST: Final = 256
_PATIENCE: Final = 20.0
#: Words that people everywhere begin with; a password that is nothing but these and ornaments is guessed first.
_COMMON: Final = frozenset(
    (
        "password", "passwort", "passwd", "passphrase", "pass", "word", "secret", "geheim", "login", "signin", "access",
        "admin", "administrator", "root", "user", "guest", "owner", "master", "default", "change", "letmein",
        "changeme",
        "welcome", "willkommen", "bonjour", "hello", "hallo", "iloveyou", "love", "lovely", "sunshine", "princess",
        "dragon", "monkey", "football", "baseball", "basketball", "soccer", "superman", "batman", "pokemon", "starwars",
        "michael", "jennifer", "jordan", "jessica", "charlie", "thomas", "trustno", "whatever", "computer", "internet",
        "server", "system", "summer", "winter", "spring", "autumn", "monday", "friday", "january", "december", "test",
        "testing", "temp", "temporary", "qwerty", "qwertz", "azerty", "abc", "data", "database", "privacy", "private",
        "tacit", "hospital", "company", "google", "github", "correct", "horse", "battery", "staple", "please", "open",
        "sesame", "me", "my", "the", "is", "in", "you", "new", "old", "now", "for", "and", "this",
    )
)  # fmt: skip
_KEYBOARD: Final = (
    "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm", "1234567890",
    "1qaz2wsx3edc4rfv5tgb6yhn", "qazwsxedcrfvtgbyhnujm", "1q2w3e4r5t6y7u8i9o0p", "q1w2e3r4t5y6u7i8o9p0",
    "abcdefghijklmnopqrstuvwxyz", "zaq1xsw2cde3vfr4",
)  # fmt: skip
#: Four keys and more in a row, in both directions, the longest first.
_PIECES: Final = tuple(
    sorted(
        {
            piece
            for row in _KEYBOARD
            for size in range(4, len(row) + 1)
            for start in range(len(row) - size + 1)
            for piece in (row[start : start + size], row[start : start + size][::-1])
        },
        key=len,
        reverse=True,
    )
)
_TAKEN: Final = "\uffff"
_ORNAMENT: Final = 8
_LOOK_ALIKES: Final = str.maketrans("0134578@$!", "oieastbasi")


@dataclass(frozen=True, slots=True)
class Hashing:
    """Cost of one hash, and how many are made at once in a process. The defaults are those of RFC 9106.

    Args:
        time_cost: passes over the memory.
        memory_cost: in KiB.
        parallelism: threads.
        at_once: how many are made at a time; others wait.
        iterations: of PBKDF2 in verifiers for PostgreSQL clients, which know no other hash; clients repeat them at
            every connection.
    """

    time_cost: int = 3
    memory_cost: int = 65536
    parallelism: int = 4
    at_once: int = 2
    iterations: int = 600_000

    @classmethod
    def cheap(cls) -> Hashing:
        """Parameters for tests."""
        return cls(time_cost=1, memory_cost=8, parallelism=1, iterations=4096)


def check_password(password: object, name: str, others: Iterable[str] = ()) -> None:
    """Refuse what is guessed first; ``others`` are names that stand for no secret either, such as the project's.

    Raises:
        InputError: it is too short, too long, or obvious. The password itself is not in the words.
    """
    plain = _plain(password)
    if plain is None:
        raise InputError("password", f"must be text of {_SHORTEST} to {_LONGEST} characters")
    if len(plain) < _SHORTEST:
        raise InputError("password", f"must have at least {_SHORTEST} characters; several words make a good one")
    if _is_obvious(plain.casefold(), {plain_name(each, "name", empty=True) for each in (name, *others)} - {""}):
        raise InputError("password", "is one that would be guessed first; several words make a good one")


class Hasher:
    """Makes and compares hashes. An unknown name costs as much time as a wrong password."""

    def __init__(self, hashing: Hashing) -> None:
        self._hashing = hashing
        self._context = threading.BoundedSemaphore(hashing.at_once)

    def hash(self, password: str) -> str:
        """The text that is kept, of a password that was checked."""
        with self._working() as hasher:
            return hasher.hash(_plain(password) or "")

    def fits(self, password: object, kept: str | None) -> bool:
        """Whether it is the password that is kept; where none is, the same work is done for nothing."""
        from argon2.exceptions import Argon2Error, InvalidHashError

        plain = _plain(password)
        with self._working() as hasher:
            if kept is None or plain is None:
                hasher.hash("the password of no account")
                return False
            try:
                return hasher.verify(kept, plain)
            except (Argon2Error, InvalidHashError):
                return False

    def is_old(self, kept: str) -> bool:
        """Whether it was made with other costs than those of today."""
        return self._made().check_needs_rehash(kept)

    @contextmanager
    def _working(self) -> Iterator[PasswordHasher]:
        # Each hash takes much memory for a moment, and there is only so much of it.
        if not self._context.acquire(timeout=_PATIENCE):
            raise BusyError("too many people are signing in at once")
        try:
            yield self._made()
        finally:
            self._context.release()

    def _made(self) -> PasswordHasher:
        try:
            from argon2 import PasswordHasher
        except ImportError:
            raise InputError("password", f"needs argon2-cffi: {install_command('server')}") from None
        costs = self._hashing
        return PasswordHasher(costs.time_cost, costs.memory_cost, costs.parallelism)


def _plain(password: object) -> str | None:
    """The one spelling of a password, if it can be one at all."""
    if not isinstance(password, str) or len(password) > _LONGEST:
        return None
    try:
        password.encode()
    except UnicodeEncodeError:
        return None
    return unicodedata.normalize("NFKC", password)


def _is_obvious(folded: str, names: set[str]) -> bool:
    if len(set(folded)) < 3:
        return True
    bare = "".join(
        sign for sign in unicodedata.normalize("NFKD", folded) if unicodedata.category(sign) not in ("Mn", "Cf")
    )
    forms = {folded, folded.translate(_LOOK_ALIKES), bare, bare.translate(_LOOK_ALIKES)}
    cores = {core for form in forms for core in _cores(form)}
    parts = {part for each in names for part in (each, *each.split())}
    known = _COMMON | {part for part in parts if len(part) > 2}
    return any(core in names or _is_made_of(core, known) or _is_run(core) for core in cores if core)


def _is_made_of(text: str, words: Iterable[str]) -> bool:
    """Whether a text is nothing but such words, rows of a keyboard, and a few ornaments between them."""
    rest = text
    for word in sorted(words, key=len, reverse=True):
        rest = rest.replace(word, _TAKEN)
    for piece in _PIECES:
        rest = rest.replace(piece, _TAKEN)
    # The rest is ornament: a few digits and signs, and a letter or two.
    left = "".join(rest.replace(_TAKEN, "").split())
    return _TAKEN in rest and sum(sign.isalpha() for sign in left) <= 2 and len(left) <= _ORNAMENT


def _is_run(text: str) -> bool:
    """``abcdefghij``, ``9876543210`` and their like."""
    steps = {ord(b) - ord(a) for a, b in pairwise(text)}
    if not steps:
        return False
    return steps <= {1, -9} or steps <= {-1, 9}


def _cores(text: str) -> set[str]:
    """A password, without the digits and signs that people put around a name, and a piece that it repeats."""
    trimmed = text.strip("0123456789 !?.,-_")
    parts = {text, trimmed}
    for size in range(1, len(text) // 2 + 1):
        if len(text) % size == 0 and text == text[:size] * (len(text) // size):
            parts.add(text[:size])
    return parts
