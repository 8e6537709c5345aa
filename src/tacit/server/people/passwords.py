"""Passwords: which ones are good enough, and their argon2id hashes.

Length is what makes a password hard to guess, so length is asked for, and nothing about digits and signs. Letters that
look the same in different Unicode forms are the same letter (NFKC), whichever keyboard they were typed on.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tacit.core.errors import InputError
from tacit.ledger import BusyError
from tacit.ledger.entries import plain_name

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["Hasher", "Hashing", "check_password"]

_SHORTEST: Final = 10
_LONGEST: Final = 256
_PATIENCE: Final = 20.0


@dataclass(frozen=True, slots=True)
class Hashing:
    """What one hash costs, and how many are made at once in a process. The defaults are those of RFC 9106.

    Args:
        time_cost: passes over the memory.
        memory_cost: in KiB.
        parallelism: threads.
        at_once: how many are made at a time; others wait.
    """

    time_cost: int = 3
    memory_cost: int = 65536
    parallelism: int = 4
    at_once: int = 2

    @classmethod
    def cheap(cls) -> Hashing:
        """For tests."""
        return cls(time_cost=1, memory_cost=8, parallelism=1)


def check_password(password: object, name: str) -> None:
    """Refuse what is guessed first.

    Raises:
        InputError: it is too short, too long, or obvious. The password itself is not in the words.
    """
    plain = _plain(password)
    if plain is None:
        raise InputError("password", f"must be text of {_SHORTEST} to {_LONGEST} characters")
    if len(plain) < _SHORTEST:
        raise InputError("password", f"must have at least {_SHORTEST} characters; several words make a good one")
    folded = plain.casefold()
    if len(set(folded)) < 3 or _is_run(folded) or plain_name(name, "name") in _cores(folded):
        raise InputError("password", "is one that would be guessed first; several words make a good one")


class Hasher:
    """Makes and compares hashes. Whoever is unknown costs as much as somebody who is wrong."""

    def __init__(self, hashing: Hashing) -> None:
        self._hashing = hashing
        self._room = threading.BoundedSemaphore(hashing.at_once)

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
                hasher.hash("nobody has this password")
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
        if not self._room.acquire(timeout=_PATIENCE):
            raise BusyError("too many people are signing in at once")
        try:
            yield self._made()
        finally:
            self._room.release()

    def _made(self) -> PasswordHasher:
        try:
            from argon2 import PasswordHasher
        except ImportError:
            raise InputError("password", "needs argon2-cffi: pip install 'tacit[server]'") from None
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


def _is_run(text: str) -> bool:
    """``abcdefghij``, ``9876543210`` and their like."""
    steps = {ord(b) - ord(a) for a, b in pairwise(text)}
    return steps <= {1, -9} or steps <= {-1, 9}


def _cores(text: str) -> set[str]:
    """What is left of a password without the digits and signs that people put around a name."""
    trimmed = text.strip("0123456789 !?.,-_")
    parts = {text, trimmed}
    for size in range(1, len(text) // 2 + 1):
        if len(text) % size == 0 and text == text[:size] * (len(text) // size):
            parts.add(text[:size])
    return parts
