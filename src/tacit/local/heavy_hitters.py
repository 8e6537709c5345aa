"""Heavy hitters: the most common texts of an open domain, found prefix by prefix.

A person draws a prefix length and one of two public hash functions, and reports the hash of their text's prefix of that
length by Hadamard response. The aggregator grows prefixes: those that are common enough by both functions are extended
by every byte. See ``heavy_hitters.proof.md``.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count
from tacit.local.draws import Draws
from tacit.local.frequencies import EstimateRow
from tacit.local.frequency import HadamardResponse
from tacit.local.protocol import Counts, IntegerProtocol, LocalProtocol
from tacit.mechanisms.randomized_response import FrequencyEstimate

_BYTES: Final = 256
#: Hash functions; a text whose hash collides with a common one's by one of them is told apart by the other.
_FUNCTIONS: Final = 2
#: Share of the threshold that a prefix must reach by each function alone.
_BY_EACH: Final = 0.5
#: Prefixes that are kept on each level at most, so that the work is bounded whatever the reports are.
_MOST_PREFIXES: Final = 256


@dataclass(frozen=True)
class CommonTexts:
    """Texts whose estimated share is above the noise, the most common first.

    Attributes:
        found: texts with their shares. The intervals hold together for all texts that were compared on the last level.
        threshold: a text whose true share is below this would mostly not be found.
        n: number of reports.
    """

    found: tuple[tuple[str, FrequencyEstimate], ...]
    threshold: float
    n: int

    def rows(self) -> list[EstimateRow]:
        """One row per text."""
        return [EstimateRow.of(text, share) for text, share in self.found]

    def consistent(self) -> CommonTexts:
        """Unchanged: shares of a part of the domain need not add up."""
        return self


class HeavyHitters(IntegerProtocol):
    """The most common texts of at most ``length`` bytes, of a domain that is not listed anywhere.

    Longer texts are cut after ``length`` bytes of UTF-8; a value that is no text counts as the empty one.

    Privacy:
        relation: replace-one. ε-DP of one report: the prefix length does not depend on the text, the hash is public,
        and its value is reported by Hadamard response.

    Sensitivity:
        none to state: a text may change to any other.

    Error:
        shares are estimated from the reports of whole texts, n/``length`` of them; texts below about four standard
        errors of such an estimate are not found.

    Assumes:
        clients follow the protocol. Texts whose hashes collide by both functions are counted together: one pair in
        the square of ``hashes``.

    References:
        Wang, Li and Jha (2021), *Locally differentially private heavy hitter identification*; Bassily, Nissim, Stemmer
        and Thakurta (2017).
    """

    kind: ClassVar[str] = "heavy-hitters"

    def __init__(
        self, *, epsilon: Number, length: SupportsIndex = 8, hashes: SupportsIndex = 1 << 14, salt: str = ""
    ) -> None:
        self.length = check_count(length, "length", maximum=32)
        self.hashes = check_count(hashes, "hashes", minimum=16, maximum=1 << 20)
        if not isinstance(salt, str):
            raise InputError("salt", "must be text")
        self.salt = salt
        self._keys = [hashlib.blake2b(f"{i}{self.salt}".encode(), digest_size=32).digest() for i in range(_FUNCTIONS)]
        LocalProtocol.__init__(self, epsilon=epsilon)
        self._response = HadamardResponse(categories=self.hashes, epsilon=epsilon)
        super().__init__(epsilon=epsilon, alphabet=_FUNCTIONS * self.length * self._response.alphabet)

    def draw(self, value: object, draws: Draws) -> int:
        """The report: the columns of the prefix lengths follow each other."""
        raw = value.encode("utf-8", "replace") if isinstance(value, str) else b""
        raw = raw[: self.length].ljust(self.length, b"\0")
        part = draws.below(_FUNCTIONS * self.length)
        level, function = divmod(part, _FUNCTIONS)
        return part * self._response.alphabet + self._response.draw(self._hash(raw[: level + 1], function), draws)

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> CommonTexts:
        """Common texts, with shares from the reports of whole texts."""
        tables = counts.reshape(self.length, _FUNCTIONS, self._response.alphabet)
        prefixes, threshold = [b""], 0.0
        for level in tables:
            reports = level.sum(axis=1)
            if not reports.all():
                return CommonTexts((), 1.0, n)
            grown = [prefix + bytes((byte,)) for prefix in prefixes for byte in _following(prefix)]
            found = [self._response.shares(table, int(number)) for table, number in zip(level, reports, strict=True)]
            places = self._places(grown)
            shares = np.array([each[0][place] for each, place in zip(found, places, strict=True)])
            errors = np.array([each[1][place] for each, place in zip(found, places, strict=True)])
            score = -NormalDist().inv_cdf((1 - confidence) / len(grown))
            mean, error = shares.mean(axis=0), np.sqrt(np.square(errors).sum(axis=0)) / _FUNCTIONS
            by_each = (shares > _BY_EACH * score * errors).all(axis=0)
            wanted = np.flatnonzero((mean > score * error) & by_each)
            order = wanted[np.argsort(-mean[wanted], kind="stable")][:_MOST_PREFIXES]
            prefixes = [grown[place] for place in order.tolist()]
            threshold = max(threshold, score * float(np.median(error)))
            if not prefixes:
                break
        return CommonTexts(self._shares(tables[-1], prefixes, confidence), threshold, n)

    def _shares(self, level: Counts, prefixes: list[bytes], confidence: float) -> Any:
        """Texts with shares: the mean of both functions' estimates, and the part that both intervals have in common."""
        each = (1 + confidence) / 2
        both = [self._response.estimate(table, int(table.sum()), confidence=each) for table in level]
        found = []
        for prefix, *places in zip(prefixes, *self._places(prefixes), strict=True):
            parts = [estimate[int(place)] for estimate, place in zip(both, places, strict=True)]
            low, high = max(part.low for part in parts), min(part.high for part in parts)
            estimate = FrequencyEstimate(
                frequency=sum(part.frequency for part in parts) / _FUNCTIONS,
                standard_error=math.hypot(*(part.standard_error for part in parts)) / _FUNCTIONS,
                low=min(low, high),
                high=max(low, high),
                confidence=confidence,
                n=int(level.sum()),
                reported=sum(part.reported for part in parts) / _FUNCTIONS,
            )
            found.append((prefix.rstrip(b"\0").decode("utf-8", "replace"), estimate))
        return tuple(found)

    def _places(self, prefixes: list[bytes]) -> list[NDArray[np.intp]]:
        """The hashes of prefixes by each function."""
        return [
            np.array([self._hash(prefix, function) for prefix in prefixes], dtype=np.intp)
            for function in range(_FUNCTIONS)
        ]

    def parameters(self) -> dict[str, Any]:
        """Length, hashes and salt."""
        return {"length": self.length, "hashes": self.hashes, "salt": self.salt}

    def _hash(self, prefix: bytes, function: int) -> int:
        raw = hashlib.blake2b(prefix, digest_size=8, key=self._keys[function]).digest()
        return int.from_bytes(raw, "little") % self.hashes


def _following(prefix: bytes) -> range:
    """Bytes that may follow: after the end of a text nothing but its end."""
    return range(1) if prefix.endswith(b"\0") else range(_BYTES)
