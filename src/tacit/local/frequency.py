"""Frequency oracles: estimates of the share of each category, from locally differentially private reports.

All have one form. A value favours some of the possible reports, each of which is e^ε times as likely as each remaining
report; a report *supports* a category if that category favours it. The expected share of reports that support a
category is an increasing linear function of its frequency, which the estimate inverts. See ``frequency.proof.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.charts import altair, offline
from tacit.core.errors import InputError
from tacit.core.numbers import Number, float_nearest
from tacit.core.text_files import visible
from tacit.local.protocol import (
    MOST_COUNTS,
    CategoricalDomain,
    Counts,
    Draws,
    IntegerProtocol,
    LocalProtocol,
    Rows,
    bits_of,
    bytes_of_bits,
    column_sums,
    in_words,
    window_truth,
)
from tacit.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse, clopper_pearson
from tacit.noise.bernoulli import Coin

_COLOUR: Final = "#0072b2"
_MOST_SHOWN: Final = 40


@dataclass(frozen=True)
class Frequencies:
    """Estimated share of each category among the respondents.

    Attributes:
        categories: all categories, in the order of the protocol.
        frequencies: unbiased estimates, which may fall a little outside [0, 1]; after :meth:`consistent`, shares that
            are not negative and add up to 1, with a small bias.
        standard_errors: estimated standard deviations of the unbiased estimates over the coins.
        low: lower ends of the intervals.
        high: upper ends; with probability at least ``confidence`` *all* intervals contain their true shares.
        confidence: simultaneous coverage of the intervals.
        n: number of reports.
        reported: share of reports that support each category.
        is_consistent: whether the frequencies were projected to add up to 1.
    """

    categories: Sequence[Hashable]
    frequencies: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    n: int
    reported: NDArray[np.float64]
    is_consistent: bool = False

    def __getitem__(self, category: Hashable) -> FrequencyEstimate:
        try:
            return self._at(self.categories.index(category))
        except ValueError:
            raise InputError("category", "must be one of the categories") from None

    def __iter__(self) -> Iterator[tuple[Hashable, FrequencyEstimate]]:
        return ((category, self._at(place)) for place, category in enumerate(self.categories))

    def __len__(self) -> int:
        return len(self.categories)

    def top(self, number: int = 10) -> list[tuple[Hashable, FrequencyEstimate]]:
        """Return the ``number`` categories with the largest estimates, in descending order, with their estimates."""
        order = np.argsort(-self.frequencies, kind="stable")[:number]
        return [(self.categories[place], self._at(place)) for place in order.tolist()]

    def consistent(self) -> Frequencies:
        """Return the estimate with frequencies projected onto the simplex: not negative, with sum 1, by least squares.

        Intervals are unchanged: they remain valid for the true shares.
        """
        return replace(self, frequencies=onto_simplex(self.frequencies), is_consistent=True)

    def plot(self, title: str | None = None) -> Any:
        """Return an Altair bar chart with intervals; of more than 40 categories those with the largest estimates."""
        alt = altair()
        shown = [
            {"category": visible(str(category)), "share": each.frequency, "low": each.low, "high": each.high}
            for category, each in (self if len(self) <= _MOST_SHOWN else self.top(_MOST_SHOWN))
        ]
        base = alt.Chart(chart_data(alt, shown)).encode(y=alt.Y("category:N", title=None, sort=None))
        share = alt.X("share:Q", title="estimated share", axis=alt.Axis(format="%"))
        bars = base.mark_bar(color=_COLOUR, opacity=0.55).encode(x=share)
        rules = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
        words = f"{self.n:,} reports; all bars hold with {self.confidence:.0%} confidence"
        chart = alt.layer(bars, rules).properties(title={"text": title or "Survey", "subtitle": words}, width=420)
        return offline(chart)

    def _at(self, place: int) -> FrequencyEstimate:
        return FrequencyEstimate(
            frequency=float(self.frequencies[place]),
            standard_error=float(self.standard_errors[place]),
            low=float(self.low[place]),
            high=float(self.high[place]),
            confidence=self.confidence,
            n=self.n,
            reported=float(self.reported[place]),
        )


def bernstein_width(variance: NDArray[np.float64] | float, spread: float, n: int, tail: float) -> Any:
    """Return half the width of an empirical Bernstein interval for a mean of ``n`` independent values.

    The values lie in a range of length ``spread`` and may have different distributions; ``variance`` is their sample
    variance. The interval misses the mean on each side with probability at most ``tail`` at every n (Maurer and Pontil
    2009, theorem 4).
    """
    if n < 2:
        return np.full_like(np.asarray(variance, dtype=np.float64), spread)
    depth = math.log(2 / tail)
    return np.sqrt(2 * np.asarray(variance) * depth / n) + 7 * spread * depth / (3 * (n - 1))


def onto_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Euclidean projection onto the simplex: coordinates that are not negative and add up to 1."""
    ordered = np.sort(values)[::-1]
    surplus = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > surplus)[-1])
    found: NDArray[np.float64] = np.maximum(values - surplus[last], 0.0)
    return found


def chart_data(alt: Any, rows: list[dict[str, Any]]) -> Any:
    """Return rows as the inline data of an Altair chart."""
    return alt.Data(values=rows)


#: Largest domain of reports with one bit per category.
_MOST_BITS: Final = 1 << 16
#: Largest number of buckets that local hashing tries.
_MOST_BUCKETS: Final = 1024


class FrequencyProtocol(LocalProtocol):
    """Base class of protocols that estimate the frequency of every category.

    Attributes:
        domain: the categories.
    """

    domain: CategoricalDomain

    @property
    def categories(self) -> Sequence[Hashable]:
        """All categories, in the order of the protocol."""
        return self.domain.categories

    @property
    def k(self) -> int:
        """Number of categories."""
        return len(self.domain.categories)

    @abstractmethod
    def variance(self, frequency: Number = 0) -> float:
        """Return n times the variance of a category's estimated share, where its true share is ``frequency``."""

    @abstractmethod
    def estimate(self, counts: Counts, n: int, *, confidence: float) -> Frequencies:
        """Return unbiased frequencies with simultaneous intervals, from the counts of ``n`` reports."""

    def parameters(self) -> dict[str, Any]:
        """Return the categories, for the description of the protocol."""
        return self.domain.parameters()


class SupportProtocol(FrequencyProtocol):
    """Base class of protocols in which a report supports each false category with equal probability.

    Attributes:
        truth: p, the probability that a report supports its sender's category.
        noise: q, the probability that a report supports any one given category that is not its sender's.
    """

    truth: Fraction
    noise: Fraction

    def support(self, counts: Counts) -> Counts:
        """Return the number of reports that support each category: the counts themselves, if reports are categories."""
        return counts

    def variance(self, frequency: Number = 0) -> float:
        """Return n times the variance of an estimate, (f·p(1-p) + (1-f)·q(1-q))/(p-q)², for a true share f."""
        f, p, q = Fraction(frequency), self.truth, self.noise
        return float_nearest((f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2)

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> Frequencies:
        """Return unbiased frequencies with simultaneous Clopper-Pearson intervals (Bonferroni)."""
        found = self.support(counts)
        p, q = float_nearest(self.truth), float_nearest(self.noise)
        lean = float_nearest(self.truth - self.noise)
        share = found / n
        frequencies = (share - q) / lean
        mixed = q * (1 - q) + np.clip(frequencies, 0.0, 1.0) * (p * (1 - p) - q * (1 - q))
        low, high = clopper_pearson(found, n, (1 - confidence) / 2 / self.k)
        return Frequencies(
            categories=self.categories,
            frequencies=frequencies,
            standard_errors=np.sqrt(mixed / n) / lean,
            low=np.clip((low - q) / lean, 0.0, 1.0),
            high=np.clip((high - q) / lean, 0.0, 1.0),
            confidence=confidence,
            n=n,
            reported=share,
        )


class ResponseProtocol(IntegerProtocol, SupportProtocol):
    """Randomized response as a protocol: a report is a category, most likely the true one.

    Probabilities, guarantee and event are those of
    :class:`~tacit.mechanisms.randomized_response.RandomizedResponse`, which clients and aggregators also accept. This
    class adds the handling of values that are no category, and the bytes of reports.

    Privacy:
        relation: replace-one. That of the mechanism: ε-DP of one report with e^ε >= p/q.

    Sensitivity:
        none to state: a value may change to any other.

    Error:
        variance (k - 2 + e^ε)/(e^ε - 1)² per report for a rare category: the least for few categories, k < 3e^ε + 2.

    Assumes:
        clients follow the protocol; estimates are not robust to those who do not.

    References:
        Warner (1965); Kairouz, Bonawitz and Ramage (2016).
    """

    kind: ClassVar[str] = "randomized-response"

    def __init__(
        self,
        *,
        categories: SupportsIndex | Sequence[Hashable],
        epsilon: Number | None = None,
        gamma: Number | None = None,
        otherwise: Hashable | None = None,
    ) -> None:
        self.domain = CategoricalDomain(categories, otherwise)
        response = RandomizedResponse(epsilon=epsilon, gamma=gamma, categories=self.k)
        super().__init__(epsilon=response.epsilon, alphabet=self.k)
        self.truth, self.noise = response.truth, response.lie
        self._coin = Coin(self.truth)
        self._by_gamma = gamma is not None

    @classmethod
    def of(cls, response: RandomizedResponse) -> ResponseProtocol:
        """Return the protocol with a mechanism's probabilities; its categories must be text or whole numbers."""
        by_epsilon = RandomizedResponse(epsilon=response.epsilon, categories=response.k)
        if by_epsilon.truth == response.truth:
            return cls(categories=response.categories, epsilon=response.epsilon)
        return cls(categories=response.categories, gamma=response.gamma)

    def draw(self, value: object, draws: Draws) -> int:
        """Draw a report, as the index of a category."""
        place = self.domain.place(value)
        if draws.toss(self._coin):
            return place
        other = draws.below(self.k - 1)
        return other + (other >= place)

    def spec(self) -> dict[str, Any]:
        """Return the description as JSON values; it holds ``gamma`` instead of ``epsilon`` if that was given."""
        if not self._by_gamma:
            return super().spec()
        return {"protocol": self.kind, "gamma": in_words(self.truth - Fraction(1, 2)), **self.parameters()}


class UnaryEncoding(SupportProtocol):
    """One bit per category, each flipped by an independent coin; symmetric (basic RAPPOR) or optimised.

    Privacy:
        relation: replace-one. ε-DP of one report with e^ε >= p(1 - q)/((1 - p)q), where p is the probability that
        the bit of the true category is sent as 1 and q that any other bit is. Symmetric: p = 1 - q, each bit
        ε/2-DP. Optimised: p = 1/2.

    Sensitivity:
        none to state: a value may change to any other, which changes two bits before they are flipped.

    Error:
        variance 4e^ε/(e^ε - 1)² per report for a rare category (optimised), e^(ε/2)/(e^(ε/2) - 1)² (symmetric).

    Assumes:
        clients follow the protocol.

    References:
        Erlingsson, Pihur and Korolova (2014); Wang, Blocki, Li and Jha (2017).
    """

    kind: ClassVar[str] = "unary"

    def __init__(
        self,
        *,
        categories: SupportsIndex | Sequence[Hashable],
        epsilon: Number,
        optimised: bool = True,
        otherwise: Hashable | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon)
        self.domain = CategoricalDomain(categories, otherwise)
        if self.k > _MOST_BITS:
            raise InputError("categories", f"are {self.k:,} bits of a report; use hadamard beyond {_MOST_BITS:,}")
        self.optimised = optimised
        if optimised:
            self.truth, self.noise = Fraction(1, 2), 1 - window_truth(self._epsilon, 1, 1)
        else:
            self.truth = window_truth(self._epsilon / 2, 1, 1)
            self.noise = 1 - self.truth
        self._coins = Coin(self.noise), Coin(self.truth)
        self.size, self.width = self.k, bytes_of_bits(self.k)

    def randomise(self, value: object, draws: Draws) -> bytes:
        """Draw the bits of a report, packed into bytes; the first category is the lowest bit of the first byte."""
        noise, truth = self._coins
        bits = draws.toss_many(noise, self.k)
        bits[self.domain.place(value)] = draws.toss(truth)
        return np.packbits(bits, bitorder="little").tobytes()

    def accumulate(self, counts: Counts, rows: Rows) -> None:
        """Add the number of ones of each category to ``counts``."""
        counts += column_sums(bits_of(rows, self.k))

    def may_be_counts(self, counts: Counts, n: int) -> bool:
        """Return whether each count lies between 0 and ``n``."""
        return bool(counts.min(initial=0) >= 0 and counts.max(initial=0) <= n)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"optimised": self.optimised}


class LocalHashing(IntegerProtocol, SupportProtocol):
    """Local hashing: a report is a random hash function, and the hashed value by randomized response.

    The functions are the linear forms x ↦ ⟨a, x⟩ modulo a prime g, the number of buckets, for every a but zero; x are
    the digits of a category's index in base g. Any two categories collide under exactly the same share of functions,
    so estimates are exactly unbiased. There are few enough functions that an aggregator counts (function, bucket)
    pairs, and one Fourier transform computes all estimates, for any number of reports.

    Privacy:
        relation: replace-one. The function is drawn independently of the value; the bucket is ε-DP by randomized
        response over the buckets.

    Sensitivity:
        none to state: a value may change to any other.

    Error:
        variance about 4e^ε/(e^ε - 1)² per report for a rare category, for the prime nearest to e^ε + 1.

    Assumes:
        clients follow the protocol.

    References:
        Bassily and Smith (2015); Wang, Blocki, Li and Jha (2017); Feldman, Nelson, Nguyen and Talwar (2022) for linear
        forms in place of random functions.
    """

    kind: ClassVar[str] = "local-hashing"

    def __init__(
        self,
        *,
        categories: SupportsIndex | Sequence[Hashable],
        epsilon: Number,
        buckets: int | None = None,
        otherwise: Hashable | None = None,
    ) -> None:
        self.domain = CategoricalDomain(categories, otherwise)
        # The base class checks ε, which the best number of buckets needs.
        LocalProtocol.__init__(self, epsilon=epsilon)
        self.buckets = self._best_buckets() if buckets is None else buckets
        g = self.buckets
        if not _is_prime(g):
            raise InputError("buckets", "must be a prime number")
        self.digits = _digits_needed(self.k, g)
        self.functions = g**self.digits
        super().__init__(epsilon=epsilon, alphabet=self.functions * g)
        kept = window_truth(self._epsilon, 1, g - 1)
        collisions = Fraction(self.functions // g - 1, self.functions - 1)
        self.truth = kept
        self.noise = collisions * kept + (1 - collisions) * (1 - kept) / (g - 1)
        self._coin = Coin(kept)

    def draw(self, value: object, draws: Draws) -> int:
        """Draw a report: function·g + bucket, the index of a random function and the reported bucket."""
        g = self.buckets
        function = draws.below(self.functions - 1) + 1
        rest, place, bucket = function, self.domain.place(value), 0
        while place:
            place, digit = divmod(place, g)
            rest, factor = divmod(rest, g)
            bucket += digit * factor
        bucket %= g
        if not draws.toss(self._coin):
            other = draws.below(g - 1)
            bucket = other + (other >= bucket)
        return function * g + bucket

    def support(self, counts: Counts) -> Counts:
        """Return, for each category, the number of reports whose function maps the category to the reported bucket.

        With ω = e^(2πi/g), the indicator of ⟨a, x⟩ = y is the mean of ω^(j(y - ⟨a, x⟩)) over j; summed over all a it is
        a Fourier transform over the digits of a. Results are integers, so the floats are rounded.
        """
        g, m = self.buckets, self.digits
        waves = np.fft.ifft(counts.reshape(self.functions, g), axis=1) * g
        numbers = np.arange(self.functions)
        digits = [numbers // g**i % g for i in range(m)]
        gathered = np.zeros(self.functions, dtype=np.complex128)
        for j in range(1, g):
            inverse = pow(j, -1, g)
            source = np.zeros(self.functions, dtype=np.intp)
            for i in range(m):
                source += digits[i] * inverse % g * g**i
            gathered += waves[source, j]
        sums = np.fft.fftn(gathered.reshape((g,) * m)).real.reshape(-1)[: self.k]
        found: Counts = np.rint((counts.sum() + sums) / g).astype(np.int64)
        return found

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"buckets": self.buckets}

    def _best_buckets(self) -> int:
        odds = math.exp(float_nearest(self._epsilon))

        def variance(g: int) -> Any:
            kept, functions = odds / (odds + g - 1), g ** _digits_needed(self.k, g)
            collisions = (functions // g - 1) / (functions - 1)
            noise = collisions * kept + (1 - collisions) * (1 - kept) / (g - 1)
            return noise * (1 - noise) / (kept - noise) ** 2

        tried = [
            g for g in range(2, _MOST_BUCKETS) if _is_prime(g) and g ** (_digits_needed(self.k, g) + 1) <= MOST_COUNTS
        ]
        return min(tried, key=variance)


class HadamardResponse(IntegerProtocol, FrequencyProtocol):
    """Hadamard response: a report is a column of a Hadamard matrix; a category favours columns where its row has +1.

    Categories are spread over ``blocks`` matrices, one for small ε. The sum over a block's columns of sign times count
    is a Walsh-Hadamard transform, so that all estimates together take K·log K steps for K columns in total.

    Privacy:
        relation: replace-one. ε-DP of one report: the b/2 favoured columns are e^ε times as likely as the rest of
        all B·b columns, or a hair less.

    Sensitivity:
        none to state: a value may change to any other.

    Error:
        variance about (e^ε + 2B - 1)(2 + (e^ε - 1)/B)/(e^ε - 1)² per report for a rare category, where categories
        are spread evenly over B blocks; at most twice that of the best protocols.

    Assumes:
        clients follow the protocol.

    References:
        Acharya, Sun and Zhang (2019), *Hadamard response*.
    """

    kind: ClassVar[str] = "hadamard"

    def __init__(
        self,
        *,
        categories: SupportsIndex | Sequence[Hashable],
        epsilon: Number,
        blocks: int | None = None,
        otherwise: Hashable | None = None,
    ) -> None:
        self.domain = CategoricalDomain(categories, otherwise)
        LocalProtocol.__init__(self, epsilon=epsilon)
        self.blocks = self._best_blocks() if blocks is None else blocks
        if self.blocks < 1 or self.blocks & (self.blocks - 1):
            raise InputError("blocks", "must be a power of two")
        # A row of ones favours all columns and is not used.
        self.columns = 1 << (-(-self.k // self.blocks)).bit_length()
        super().__init__(epsilon=epsilon, alphabet=self.blocks * self.columns)
        half = self.columns // 2
        self.favoured = window_truth(self._epsilon, half, self.alphabet - half)
        # Probability of each column that is not favoured, in the value's block or in any other block.
        self._rest = (1 - self.favoured) / (self.alphabet - half)
        self.lean = self.favoured - half * self._rest
        self._coin = Coin(self.favoured)

    def draw(self, value: object, draws: Draws) -> int:
        """Draw a report: the index of a column among those of all blocks."""
        row, block = divmod(self.domain.place(value), self.blocks)
        row, start, half = row + 1, block * self.columns, self.columns // 2
        if draws.toss(self._coin):
            return start + hadamard_column(row, draws.below(half), False)
        other = draws.below(self.alphabet - half)
        if other < half:
            return start + hadamard_column(row, other, True)
        outside = other - half
        return outside if outside < start else outside + self.columns

    def variance(self, frequency: Number = 0) -> float:
        """Return n times the variance of an estimate, if the remaining values are spread evenly over the blocks."""
        f = Fraction(frequency)
        own = self.favoured + self.columns // 2 * self._rest
        other = own / self.blocks + self.columns * self._rest * (1 - Fraction(1, self.blocks))
        moment = f * own + (1 - f) * other
        return float_nearest((moment - f * self.lean**2) / self.lean**2)

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> Frequencies:
        """Return unbiased frequencies; intervals are Clopper-Pearson for one block, otherwise empirical Bernstein."""
        lean = float_nearest(self.lean)
        signed, totals = self._signs(counts)
        mean = signed / n
        shares = mean / lean
        # Given the true categories, a report from this category has an expected sign of ``lean``, any other one of 0.
        coins = totals / n - np.clip(shares, 0.0, 1.0) * lean**2
        errors = np.sqrt(np.maximum(coins, 0.0) / n) / lean
        variance = totals / n - mean**2
        tail = (1 - confidence) / 2 / self.k
        if self.blocks == 1:
            low, high = (2 * each - 1 for each in clopper_pearson((n + signed) // 2, n, tail))
        else:
            width = bernstein_width(variance * n / max(n - 1, 1), 2.0, n, tail)
            low, high = mean - width, mean + width
        return Frequencies(
            categories=self.categories,
            frequencies=shares,
            standard_errors=errors,
            low=np.clip(low / lean, 0.0, 1.0),
            high=np.clip(high / lean, 0.0, 1.0),
            confidence=confidence,
            n=n,
            reported=(totals + signed) / (2 * n),
        )

    def _signs(self, counts: Counts) -> tuple[Counts, Counts]:
        """Return, for each category, the sum of its signs over all reports, and the number of reports in its block."""
        table = counts.reshape(self.blocks, self.columns)
        signed = walsh_hadamard(table)[:, 1:].T.reshape(-1)[: self.k]
        return signed, np.tile(table.sum(axis=1), self.columns - 1)[: self.k]

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"blocks": self.blocks}

    def _best_blocks(self) -> int:
        odds = math.exp(float_nearest(self._epsilon))
        most = max(min(odds / 2, self.k), 1.0)
        tried = [1 << i for i in range(int(math.log2(most)) + 2)]
        # The variance of a rare category, up to a factor that does not depend on the number of blocks.
        return min((b for b in tried if b <= self.k), key=lambda b: (odds + 2 * b - 1) * (1 + (odds - 1) / (2 * b)))


def as_protocol(protocol: LocalProtocol | RandomizedResponse) -> LocalProtocol:
    """Return a protocol unchanged, and randomized response as a :class:`ResponseProtocol`."""
    return ResponseProtocol.of(protocol) if isinstance(protocol, RandomizedResponse) else protocol


def walsh_hadamard(table: NDArray[Any]) -> NDArray[np.int64]:
    """Return the Walsh-Hadamard transform of each row: entry r is Σ_c row[c]·(-1)^popcount(r & c)."""
    result = table.astype(np.int64)
    rows, size = result.shape
    step = 1
    while step < size:
        pairs = result.reshape(rows, size // (2 * step), 2, step)
        result = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        result = result.reshape(rows, size)
        step *= 2
    return result


def hadamard_column(row: int, number: int, odd: bool) -> int:
    """Return the ``number``-th column that shares an even (or, if ``odd``, an odd) number of set bits with ``row``.

    All bits of the column but the row's lowest set bit are free; that bit makes the parity of the shared bits right.
    """
    low = row & -row
    column = (number & (low - 1)) | (number & -low) << 1
    return column | low if ((column & row).bit_count() + odd) & 1 else column


def _digits_needed(k: int, base: int) -> int:
    digits, reach = 1, base
    while reach < k:
        digits, reach = digits + 1, reach * base
    return digits


def _is_prime(number: int) -> bool:
    return number >= 2 and all(number % each for each in range(2, math.isqrt(number) + 1))
