"""Base classes of local protocols: public parameters, a client's random decisions, a report's bytes, sums of reports.

A protocol makes every random decision by one of the three methods of :class:`Draws`. :class:`SystemDraws` uses the
exact samplers of :mod:`tacit.noise`. :func:`output_law` runs the same code once for every sequence of outcomes and adds
up their probabilities as rationals, so that a check of privacy covers the code that clients run.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, Protocol, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.guarantees import PureDP
from tacit.core.numbers import Number, check_count, exact_positive
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.randomized_response import truth_for
from tacit.noise import entropy
from tacit.noise.bernoulli import Coin
from tacit.noise.uniform import sample_below

#: Largest number of sequences of decisions that :func:`output_law` enumerates.
_MOST_WALKS: Final = 1 << 18


class Draws(Protocol):
    """Source of independent random decisions."""

    def toss(self, coin: Coin) -> bool:
        """Return one toss of a coin."""

    def toss_many(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        """Return ``count`` independent tosses of a coin."""

    def below(self, bound: int) -> int:
        """Return a uniformly random integer from 0 to ``bound`` - 1."""


class SystemDraws:
    """Exact random decisions, from the operating system's entropy."""

    def toss(self, coin: Coin) -> bool:
        """Return one toss of a coin."""
        return coin.toss(entropy.current())

    def toss_many(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        """Return ``count`` independent tosses of a coin."""
        return coin.toss_many(count, entropy.current())

    def below(self, bound: int) -> int:
        """Return a uniformly random integer from 0 to ``bound`` - 1."""
        return sample_below(bound, entropy.current())


SYSTEM: Final = SystemDraws()


class _Scripted:
    """Decisions that follow a script of outcomes, 0 beyond its end; records outcomes and their joint probability."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = script
        self.taken: list[tuple[int, int]] = []
        self.probability = Fraction(1)

    def _choose(self, chances: Callable[[int], Fraction], number: int) -> int:
        place = len(self.taken)
        outcome = self._script[place] if place < len(self._script) else 0
        self.taken.append((outcome, number))
        self.probability *= chances(outcome)
        return outcome

    def toss(self, coin: Coin) -> bool:
        return self._choose(lambda outcome: coin.probability if outcome else 1 - coin.probability, 2) == 1

    def toss_many(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        return np.array([self.toss(coin) for _ in range(count)], dtype=np.bool_)

    def below(self, bound: int) -> int:
        return self._choose(lambda _: Fraction(1, bound), bound)


def output_law(randomise: Callable[[Draws], bytes]) -> dict[bytes, Fraction]:
    """Return the exact probability of each output of a randomiser, by enumeration of its random decisions.

    Args:
        randomise: function that computes one output from the decisions of its argument.

    Raises:
        InputError: there are too many sequences of decisions; take a smaller domain.
    """
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    script: tuple[int, ...] = ()
    for _ in range(_MOST_WALKS):
        walk = _Scripted(script)
        output = randomise(walk)
        if walk.probability:
            law[output] += walk.probability
        following = _following(walk.taken)
        if following is None:
            return dict(law)
        script = following
    raise InputError("protocol", f"has more than {_MOST_WALKS} sequences of decisions; take a smaller domain")


def largest_ratio(laws: Iterable[dict[bytes, Fraction]]) -> Fraction:
    """Return the largest ratio of an output's probabilities under two of the laws; its logarithm is the exact ε.

    Raises:
        InputError: some output is possible under one law and impossible under another.
    """
    listed = list(laws)
    outputs = set().union(*listed)
    if any(law.keys() != outputs for law in listed):
        raise InputError("protocol", "has an output that some value never gives; no ε covers it")
    return max(max(law[each] for law in listed) / min(law[each] for law in listed) for each in outputs)


def _following(taken: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """Return the next script in lexicographic order; None after the last."""
    while taken:
        outcome, number = taken.pop()
        if outcome + 1 < number:
            return (*(each for each, _ in taken), outcome + 1)
    return None


#: Sums of reports, the state of an aggregator.
Counts = NDArray[np.int64]
#: Encoded reports: one row of bytes each.
Rows = NDArray[np.uint8]

#: Largest ε of one report; a larger one protects no person.
_LARGEST_EPSILON: Final = 20
_WIDTHS: Final = (1, 2, 4, 8)
#: Number of bits that can be added up in one byte without overflow.
_BYTE: Final = 255
#: Largest number of counters of an aggregator.
MOST_COUNTS: Final = 1 << 23


class LocalProtocol(ABC):
    """Public parameters of a protocol; client and aggregator must hold equal ones.

    Attributes:
        kind: name of the protocol in descriptions.
        width: number of bytes of one report.
        size: number of counters of an aggregator, independent of the number of reports.
    """

    kind: ClassVar[str]
    width: int
    size: int

    def __init__(self, *, epsilon: Number) -> None:
        self._epsilon = exact_positive(epsilon, "epsilon")
        if self._epsilon > _LARGEST_EPSILON:
            raise InputError("epsilon", f"is too large to protect anyone; use at most {_LARGEST_EPSILON}")

    @property
    def epsilon(self) -> Fraction:
        """ε of one report."""
        return self._epsilon

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of one report for the person who sends it, against any collector."""
        return PureDP(self._epsilon, relation=REPLACE_ONE)

    @abstractmethod
    def randomise(self, value: object, draws: Draws) -> bytes:
        """Draw the report of a person with ``value``; never raises, for any value."""

    @abstractmethod
    def accumulate(self, counts: Counts, rows: Rows) -> None:
        """Add reports to counts; refuse all of them if one cannot come from a client."""

    @abstractmethod
    def may_be_counts(self, counts: Counts, n: int) -> bool:
        """Return whether ``n`` reports can add up to these counts."""

    @abstractmethod
    def estimate(self, counts: Counts, n: int, *, confidence: float) -> Any:
        """Return the estimate from the counts of ``n`` reports."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the constructor as JSON values."""

    def spec(self) -> dict[str, Any]:
        """Return the complete description as JSON values; :func:`protocol_from` reads it."""
        return {"protocol": self.kind, "epsilon": in_words(self._epsilon), **self.parameters()}

    @property
    def digest(self) -> str:
        """First 32 hexadecimal digits of the SHA-256 of the description; equal for equal protocols."""
        text = json.dumps(self.spec(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalProtocol) and self.spec() == other.spec()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self.parameters())[:80]}, ε={float(self._epsilon):g})"


class IntegerProtocol(LocalProtocol):
    """Base class of protocols whose report is an integer below ``alphabet``; an aggregator counts each integer."""

    def __init__(self, *, epsilon: Number, alphabet: int) -> None:
        super().__init__(epsilon=epsilon)
        if alphabet > MOST_COUNTS:
            raise InputError("categories", f"need {alphabet:,} counters here; at most {MOST_COUNTS:,} are kept")
        self.alphabet = self.size = alphabet
        self.width = next(width for width in _WIDTHS if alphabet <= 256**width)

    @abstractmethod
    def draw(self, value: object, draws: Draws) -> int:
        """Draw the report of a person with ``value``, as an integer."""

    def randomise(self, value: object, draws: Draws) -> bytes:
        """Draw the report of a person with ``value``, in little-endian bytes."""
        return self.draw(value, draws).to_bytes(self.width, "little")

    def accumulate(self, counts: Counts, rows: Rows) -> None:
        """Add the number of occurrences of each report to ``counts``."""
        numbers = np.ascontiguousarray(rows).reshape(-1).view(f"<u{self.width}")
        self.tally(counts, numbers)

    def may_be_counts(self, counts: Counts, n: int) -> bool:
        """Return whether the counts are not negative and add up to ``n``."""
        return bool(counts.min(initial=0) >= 0 and counts.sum() == n)

    def tally(self, counts: Counts, numbers: NDArray[Any]) -> None:
        """Add reports given as integers to ``counts``."""
        if not len(numbers):
            return
        if numbers.min() < 0 or numbers.max() >= self.alphabet:
            raise InputError("reports", f"hold a number that is not from 0 to {self.alphabet - 1}")
        if len(numbers) * 8 < self.alphabet:
            np.add.at(counts, numbers.astype(np.intp), 1)
        else:
            counts += np.bincount(numbers, minlength=self.alphabet)


class CategoricalDomain:
    """Categories of a value, and the category that replaces any value outside of them."""

    __slots__ = ("_place", "categories", "otherwise")

    def __init__(self, categories: SupportsIndex | Sequence[Hashable], otherwise: Hashable | None = None) -> None:
        self.categories: Sequence[Hashable]
        self._place: dict[Hashable, int] | None = None
        if isinstance(categories, SupportsIndex):
            self.categories = range(check_count(categories, "categories", minimum=2, maximum=10**6))
        else:
            self.categories = _listed(categories)
            self._place = {category: place for place, category in enumerate(self.categories)}
        self.otherwise = len(self.categories) - 1
        if otherwise is not None:
            if otherwise not in self.categories:
                raise InputError("otherwise", "must be one of the categories")
            self.otherwise = list(self.categories).index(otherwise)

    def place(self, value: object) -> int:
        """Return the index of a value among the categories; that of ``otherwise`` for a value that is none of them."""
        try:
            if self._place is not None:
                return self._place.get(value, self.otherwise)
        except TypeError:
            return self.otherwise
        number = whole_number(value)
        return number if number is not None and 0 <= number < len(self.categories) else self.otherwise

    def parameters(self) -> dict[str, Any]:
        """Return the entries of a protocol's description as JSON values."""
        named = isinstance(self.categories, range)
        listed: object = len(self.categories) if named else list(self.categories)
        last = self.otherwise == len(self.categories) - 1
        return {"categories": listed} | ({} if last else {"otherwise": self.categories[self.otherwise]})


def whole_number(value: object) -> int | None:
    """Return a value of any numeric type as an int if it is a whole number, otherwise None."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # else a TypeError
    except TypeError:
        return None


def window_truth(epsilon: Fraction, inside: int, outside: int) -> Fraction:
    """Return the total probability, rounded down, of ``inside`` outputs e^ε times as likely as ``outside`` others."""
    return truth_for(epsilon, Fraction(outside, inside))


def in_words(value: Fraction) -> str:
    """Return a rational as text without loss: a decimal if it terminates within 30 digits, otherwise a quotient."""
    if 10**30 % value.denominator:
        return f"{value.numerator}/{value.denominator}"
    digits = next(d for d in range(31) if 10**d % value.denominator == 0)
    whole = str(abs(value.numerator) * (10**digits // value.denominator)).rjust(digits + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole)


def protocol_from(spec: dict[str, Any]) -> LocalProtocol:
    """Return the protocol of a description, as made by :meth:`LocalProtocol.spec`.

    Raises:
        InputError: unknown protocol, or wrong parameters.
    """
    from tacit.local import PROTOCOLS

    words = dict(spec)
    kind = words.pop("protocol", None)
    made = next((each for each in PROTOCOLS if each.kind == kind), None)
    if made is None:
        raise InputError("protocol", f"must be one of {', '.join(each.kind for each in PROTOCOLS)}")
    try:
        found: LocalProtocol = made(**words)
    except TypeError:
        raise InputError("protocol", f"the parameters of {kind} are not {', '.join(sorted(words))}") from None
    return found


def _listed(categories: Iterable[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(categories, str | bytes) or not isinstance(categories, Sequence):
        raise InputError("categories", "must be a whole number of them or a list of them")
    listed = tuple(categories)
    if any(not isinstance(each, str | int) for each in listed):
        raise InputError("categories", "must be text or whole numbers")
    if len(listed) < 2 or len(set(listed)) != len(listed):
        raise InputError("categories", "must list at least two, none of them twice")
    return listed


def column_sums(bits: NDArray[np.uint8]) -> Counts:
    """Return the sums of columns of zeros and ones; blocks of 255 rows are summed in bytes, which is much faster."""
    whole = len(bits) // _BYTE * _BYTE
    parts = bits[:whole].reshape(-1, _BYTE, bits.shape[1]).sum(axis=1, dtype=np.uint8)
    found: Counts = parts.sum(axis=0, dtype=np.int64) + bits[whole:].sum(axis=0, dtype=np.int64)
    return found


def bits_of(rows: Rows, bits: int) -> NDArray[np.uint8]:
    """Return the first ``bits`` bits of each report; refuse a report in which a later bit is set."""
    unpacked = np.unpackbits(rows, axis=1, bitorder="little")
    if bits % 8 and unpacked[:, bits:].any():
        raise InputError("reports", f"hold a bit beyond the {bits} of a report")
    return unpacked[:, :bits]


def bytes_of_bits(bits: int) -> int:
    """Return the number of bytes that hold ``bits`` bits."""
    return math.ceil(bits / 8)
