"""Finite mechanisms, whose privacy parameters are computed exactly, and theorems checked on them.

>>> from tacit.lab.finite import randomized_response
>>> coin = randomized_response(ratio=3)
>>> coin.is_private(ratio=3), coin.is_private(ratio="2.9")
(True, False)
>>> coin.delta(ratio=2).value
Fraction(1, 4)
>>> print(coin.epsilon(delta="1/4"))
0.6931471806

Each round of :func:`composition_bounds` is (ε, δ₀)-DP with e^ε given as a rational ``ratio``, so the optimal bound is
exact: it is the δ-approximate max divergence of two binomial laws with rational weights.

>>> print(group_privacy(geometric(ratio=2, rows=3), k=3))
group privacy, 3 units: measured e^ε = 8, bound 8: holds, with equality
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb, inf, prod
from typing import Any, Final, NamedTuple

from tacit.core.divergences import (
    Distribution,
    Enclosure,
    Extended,
    as_distribution,
    hockey_stick,
    kl_divergence,
    max_ratio,
    ratio_bounds,
    renyi_divergence,
)
from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_probability,
    log_bounds,
    round_down,
    sqrt_bounds,
)
from tacit.core.relations import (
    ADD_REMOVE,
    REPLACE_ONE,
    Database,
    Relation,
    as_histogram,
    as_relation,
    databases,
    is_neighbour,
    neighbouring_pairs,
)
from tacit.noise import entropy
from tacit.noise.uniform import LazyUniform

Pair = tuple[Hashable, Hashable]
Law = dict[Hashable, Enclosure]
_NEVER = Enclosure(Fraction(0), Fraction(0))
#: Precisions tried in turn, in decimal digits, to decide a comparison with e^ε.
_PRECISIONS = (40, 80, 160, 320, 640, 1280)


class ProfilePoint(NamedTuple):
    """Point of a privacy profile: δ at one ε, given by the exact ``ratio`` = e^ε."""

    ratio: Fraction
    delta: Enclosure

    @property
    def epsilon(self) -> Enclosure:
        """Logarithm of ``ratio``."""
        return Enclosure(self.ratio, self.ratio).log()


class Worst(NamedTuple):
    """Neighbours and the event S that attain δ(ε), the largest P(S) - e^ε Q(S).

    P is the output's law on ``left``, Q on ``right``.
    """

    left: Hashable
    right: Hashable
    event: frozenset[Hashable]
    delta: Enclosure

    def __str__(self) -> str:
        shown = ", ".join(sorted(map(repr, self.event)))
        return f"{self.left!r} against {self.right!r}: the output lies in {{{shown}}}; δ = {self.delta}"


class FiniteMechanism:
    """Mechanism given by a table: for every database, the probability of every output.

    Args:
        table: database -> {output: probability}. Under a ``relation`` a database is a sequence of rows (a tuple, or
            text whose letters are the rows); pairs ``(histogram, distribution)`` are accepted too. Probabilities are
            exact, or ``(low, high)`` if they are irrational.
        relation: relation that defines which databases of the table are neighbours.
        pairs: instead of a relation, the pairs of neighbours; both directions are always compared.
    """

    def __init__(
        self,
        table: Mapping[Any, Distribution] | Iterable[tuple[Database, Distribution]],
        *,
        relation: Relation | str | None = None,
        pairs: Iterable[Pair] | None = None,
    ) -> None:
        if (relation is None) == (pairs is None):
            raise InputError("relation", "give either a relation, or the pairs of neighbours, and not both")
        items = table.items() if isinstance(table, Mapping) else table
        self._table = {_label(d): as_distribution(p, f"table[{d!r}]") for d, p in items}
        if not self._table:
            raise InputError("table", "must list at least one database")
        self.relation = None if relation is None else as_relation(relation)
        if self.relation is not None:
            _check_distinct(self._table)
        self._pairs = tuple(dict.fromkeys(self._related() if pairs is None else self._both_ways(pairs)))

    @classmethod
    def local(cls, table: Mapping[Any, Distribution]) -> FiniteMechanism:
        """Return a local mechanism: its input is one person's value, so any two inputs are neighbours."""
        return cls(table, pairs=[(a, b) for a in table for b in table if a != b])

    @classmethod
    def over_universe(
        cls,
        function: Callable[..., Distribution],
        *,
        universe: Sequence[Hashable],
        sizes: int | Iterable[int],
        relation: Relation | str = ADD_REMOVE,
        form: str = "rows",
    ) -> FiniteMechanism:
        """Return the table of ``function`` on every database of the given sizes over ``universe``.

        ``form`` is the form of the function's argument: "rows" (a tuple in the universe's order), "histogram"
        (record -> count), or "ordered" (a tuple; databases that differ in the order of rows are distinct, and
        neighbours differ in the row at one position).
        """
        kind, lengths = as_relation(relation), [sizes] if isinstance(sizes, int) else list(sizes)
        if form == "ordered":
            every = [rows for size in lengths for rows in product(universe, repeat=size)]
            return cls(_tabulate(function, every), pairs=_ordered_pairs(every, universe, kind))
        if form not in ("rows", "histogram"):
            raise InputError("form", f"must be 'rows', 'histogram' or 'ordered', got {form!r}")
        every = [rows for size in lengths for rows in databases(universe, size)]
        known = _tabulate((lambda rows: function(as_histogram(rows))) if form == "histogram" else function, every)
        near = (pair for n in lengths for pair in neighbouring_pairs(universe, n, kind) if pair[1] in known)
        mechanism = cls(known, pairs=near)
        mechanism.relation = kind
        return mechanism

    @property
    def databases(self) -> tuple[Hashable, ...]:
        return tuple(self._table)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All ordered pairs of neighbours."""
        return self._pairs

    def distribution(self, database: Database | Hashable) -> Law:
        """Return the probability of each output on one database."""
        label: Hashable = None
        if isinstance(database, Mapping):
            wanted = as_histogram(database)
            label = next((d for d in self._table if isinstance(d, Sequence) and as_histogram(d) == wanted), None)
        elif database in self._table:
            label = database
        if label is None:
            raise InputError("database", f"{database!r} is not in the table")
        return self._table[label]

    def is_private(self, *, epsilon: Number | None = None, ratio: Number | None = None, delta: Number = 0) -> bool:
        """Return whether the mechanism is (ε, δ)-DP, decided exactly; ``ratio`` is e^ε."""
        allowed = exact_probability(delta, "delta", zero=True, one=True)
        return all(self._holds(p, q, epsilon, ratio, allowed) for p, q in self._laws())

    def delta(self, *, epsilon: Number | None = None, ratio: Number | None = None) -> Enclosure:
        """Return the privacy profile δ(ε): the smallest δ for which the mechanism is (ε, δ)-DP."""
        return self.worst(epsilon=epsilon, ratio=ratio).delta

    def ratio(self, *, delta: Number = 0) -> Enclosure:
        """Return e^ε for the smallest ε >= 0 for which the mechanism is (ε, δ)-DP: rational when the table is."""
        one = Enclosure(Fraction(1), Fraction(1))
        return Enclosure.largest([one, *(max_ratio(p, q, delta=delta) for p, q in self._laws())])

    def epsilon(self, *, delta: Number = 0) -> Enclosure:
        """Return the smallest ε for which the mechanism is (ε, δ)-DP; infinite when there is none."""
        return self.ratio(delta=delta).log()

    def profile(self, ratios: Iterable[Number] | None = None) -> tuple[ProfilePoint, ...]:
        """Return δ at each e^ε in ``ratios``; by default at 1 and at every likelihood ratio above 1."""
        chosen = self._likelihood_ratios() if ratios is None else [Fraction(ratio_bounds(ratio=r).low) for r in ratios]
        return tuple(ProfilePoint(r, self.delta(ratio=r)) for r in sorted(chosen))

    def worst(self, *, epsilon: Number | None = None, ratio: Number | None = None) -> Worst:
        """Return the pair of neighbours and the event that attain δ(ε)."""
        factor = ratio_bounds(epsilon=epsilon, ratio=ratio)
        found = [hockey_stick(p, q, epsilon=epsilon, ratio=ratio) for p, q in self._laws()]
        left, right = self._pairs[max(range(len(found)), key=found.__getitem__)]
        p, q = self._table[left], self._table[right]
        event = frozenset(o for o in p if p[o].low > factor.low * q.get(o, _NEVER).low)
        return Worst(left, right, event, Enclosure.largest(found))

    def kl(self) -> Enclosure:
        """Return the largest KL divergence of neighbours."""
        return Enclosure.largest(kl_divergence(p, q) for p, q in self._laws())

    def renyi(self, alpha: Number) -> Enclosure:
        """Return the largest Renyi divergence of neighbours at order ``alpha``."""
        return Enclosure.largest(renyi_divergence(p, q, alpha=alpha) for p, q in self._laws())

    def postprocess(self, function: Callable[[Any], Distribution | Hashable]) -> FiniteMechanism:
        """Return the mechanism followed by ``function``, which maps an output to an output or {output: probability}."""
        table: dict[Hashable, Distribution] = {}
        for database, outputs in self._table.items():
            mixed: dict[Hashable, tuple[Fraction, Fraction]] = {}
            for output, p in outputs.items():
                _mix(mixed, function(output), p)
            table[database] = {o: (low, min(high, Fraction(1))) for o, (low, high) in mixed.items()}
        result = FiniteMechanism(table, pairs=self._pairs)
        result.relation = self.relation
        return result

    def release(self, database: Database | Hashable) -> Hashable:
        """Draw one output with exactly the probabilities of the table, which must be rational."""
        uniform = LazyUniform(entropy.current())
        edges = list(_cumulative(self.distribution(database)))
        while True:
            for output, low, high in edges:
                if low <= uniform.low and uniform.high <= high:
                    return output
            uniform.reveal()

    def __str__(self) -> str:
        outputs = list(dict.fromkeys(o for row in self._table.values() for o in row))
        heads = ["database", *map(str, outputs)]
        rows = [[_show(d), *(str(row.get(o, _NEVER)) for o in outputs)] for d, row in self._table.items()]
        widths = [max(len(line[i]) for line in [heads, *rows]) for i in range(len(heads))]
        lines = ("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in [heads, *rows])
        return "\n".join(lines) + f"\nsmallest ε: {self.epsilon()}"

    def __repr__(self) -> str:
        return f"<FiniteMechanism: {len(self._table)} databases, {len(self._pairs)} ordered pairs of neighbours>"

    def _laws(self) -> list[tuple[Law, Law]]:
        if not self._pairs:
            # Without pairs the mechanism would wrongly count as 0-DP.
            raise AccountingError("the table has no two neighbouring databases; add_remove needs two sizes")
        return [(self._table[left], self._table[right]) for left, right in self._pairs]

    @staticmethod
    def _holds(p: Law, q: Law, epsilon: Number | None, ratio: Number | None, allowed: Fraction) -> bool:
        for digits in _PRECISIONS:
            found = hockey_stick(p, q, epsilon=epsilon, ratio=ratio, digits=digits)
            if found.high <= allowed or found.low > allowed:
                return found.high <= allowed
        raise AccountingError("the probabilities are not known closely enough to decide; narrow their enclosures")

    def _likelihood_ratios(self) -> set[Fraction]:
        ratios = {Fraction(1)}
        for left, right in self._pairs:
            q = self._table[right]
            ratios |= {
                Fraction(p.low) / Fraction(q[o].low)
                for o, p in self._table[left].items()
                if o in q and q[o].low and p.low > q[o].low
            }
        return ratios

    def _related(self) -> Iterator[Pair]:
        kind = as_relation(self.relation) if self.relation is not None else ADD_REMOVE
        for left in self._table:
            for right in self._table:
                if is_neighbour(_rows(left), _rows(right), kind):
                    yield left, right

    def _both_ways(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for left, right in pairs:
            for database in (left, right):
                if _label(database) not in self._table:
                    raise InputError("pairs", f"{database!r} is not in the table")
            yield _label(left), _label(right)
            yield _label(right), _label(left)


def group_pairs(mechanism: FiniteMechanism, k: int) -> list[Pair]:
    """Return the ordered pairs of databases that are exactly ``k`` neighbouring steps apart."""
    steps: dict[Hashable, list[Hashable]] = {}
    for left, right in mechanism.pairs:
        steps.setdefault(left, []).append(right)
    found = []
    for start in mechanism.databases:
        near, seen = {start}, {start}
        for _ in range(check_count(k, "k")):
            near = {right for left in near for right in steps.get(left, [])} - seen
            seen |= near
        found += [(start, end) for end in near]
    return found


def _tabulate(
    function: Callable[..., Distribution], every: Iterable[tuple[Hashable, ...]]
) -> dict[Hashable, Distribution]:
    return {rows: function(rows) for rows in every}


def _label(database: Database | Hashable) -> Hashable:
    return tuple(as_histogram(database).elements()) if isinstance(database, Mapping) else database


def _check_distinct(labels: Iterable[Hashable]) -> None:
    seen = set()
    for label in labels:
        records = frozenset(as_histogram(_rows(label)).items())
        if records in seen:
            raise InputError("table", f"lists {label!r} twice: the order of rows has no meaning under a relation")
        seen.add(records)


def _rows(label: Hashable) -> Database:
    if isinstance(label, Sequence):
        return label
    raise InputError("table", f"{label!r} is not a database of rows; give pairs=, or use FiniteMechanism.local")


def _ordered_pairs(
    every: list[tuple[Hashable, ...]], universe: Sequence[Hashable], relation: Relation
) -> Iterator[Pair]:
    known = set(every)
    for rows in every:
        for place in range(len(rows)):
            before, after = rows[:place], rows[place + 1 :]
            others = [before + after] if relation is ADD_REMOVE else [(*before, new, *after) for new in universe]
            yield from ((rows, other) for other in others if other in known and other != rows)


def _mix(mixed: dict[Hashable, tuple[Fraction, Fraction]], outcome: Distribution | Hashable, weight: Enclosure) -> None:
    parts = as_distribution(outcome, "function") if isinstance(outcome, Mapping) else {outcome: None}
    for output, part in parts.items():
        low, high = (Fraction(1), Fraction(1)) if part is None else (Fraction(part.low), Fraction(part.high))
        old_low, old_high = mixed.get(output, (Fraction(0), Fraction(0)))
        mixed[output] = old_low + Fraction(weight.low) * low, old_high + Fraction(weight.high) * high


def _cumulative(distribution: dict[Hashable, Enclosure]) -> Iterator[tuple[Hashable, Fraction, Fraction]]:
    edge = Fraction(0)
    for output, p in distribution.items():
        if not p.is_exact:
            raise AccountingError("only a table of rational probabilities can be sampled exactly")
        start, edge = edge, edge + Fraction(p.low)
        yield output, start, edge


def _show(database: Hashable) -> str:
    return "".join(map(str, database)) if isinstance(database, tuple) and database else repr(database)


def randomized_response(*, ratio: Number, categories: Sequence[Hashable] = (0, 1), rows: int = 1) -> FiniteMechanism:
    """Randomised response of each of ``rows`` people, exactly ln(ratio)-DP.

    The truth has probability e^ε/(e^ε+c-1) among c categories and each other answer 1/(e^ε+c-1). With several rows
    the output is the tuple of all answers, in the order of the people.
    """
    odds = _ratio(ratio)
    weight = 1 / (odds + len(categories) - 1)

    def answer(truth: Hashable) -> dict[Hashable, Fraction]:
        return {told: odds * weight if told == truth else weight for told in categories}

    def answers(database: tuple[Hashable, ...]) -> dict[Hashable, Fraction]:
        return {
            told: prod((answer(truth)[said] for truth, said in zip(database, told, strict=True)), start=Fraction(1))
            for told in product(categories, repeat=len(database))
        }

    if check_count(rows, "rows") == 1:
        return FiniteMechanism.local({truth: answer(truth) for truth in categories})
    return FiniteMechanism.over_universe(answers, universe=categories, sizes=rows, relation=REPLACE_ONE, form="ordered")


def geometric(*, ratio: Number, rows: int, relation: Relation | str = ADD_REMOVE) -> FiniteMechanism:
    """Count of ones among 0 to ``rows`` people, plus two-sided geometric noise, clamped to 0, …, rows.

    Noise x has probability proportional to ratio^-|x|; clamping is post-processing. The smallest ε is exactly
    ln(ratio).
    """
    odds, top = _ratio(ratio), check_count(rows, "rows")
    sizes = range(top + 1) if relation in (ADD_REMOVE, "add_remove") else range(top, top + 1)
    return FiniteMechanism.over_universe(
        lambda histogram: _folded_geometric(odds, histogram[1], top),
        universe=(0, 1),
        sizes=sizes,
        relation=relation,
        form="histogram",
    )


def release_random_row(*, universe: Sequence[Hashable], size: int) -> FiniteMechanism:
    """Publish one row, chosen uniformly: (0, 1/n)-DP, although one person's record is always disclosed.

    This is why δ has to be far below one over the number of people.
    """
    return sample_rows(universe=universe, size=size, sample=1)


def sample_rows(*, universe: Sequence[Hashable], size: int, sample: int) -> FiniteMechanism:
    """Publish ``sample`` rows, chosen uniformly without replacement: not ε-DP for any ε.

    A record that is in one database and not in its neighbour is published with probability sample/size in the first
    and 0 in the second: δ(ε) = sample/size at every ε for neighbours that differ in a record that no other row equals.
    """
    count = check_count(sample, "sample", maximum=size)

    def published(rows: tuple[Hashable, ...]) -> dict[Hashable, Fraction]:
        law = Counter(combinations(rows, count))
        return {out if count > 1 else out[0]: Fraction(n, comb(size, count)) for out, n in law.items()}

    return FiniteMechanism.over_universe(published, universe=universe, sizes=size, relation=REPLACE_ONE)


def subsample_then_count(*, ratio: Number, rate: Number, rows: int) -> FiniteMechanism:
    """:func:`geometric` on a secret sample that holds each person independently with probability ``rate``.

    Its smallest ε is exactly ln(1 + rate·(ratio - 1)): privacy amplified by sampling.
    """
    odds, share, top = _ratio(ratio), exact_probability(rate, "rate", zero=True, one=True), check_count(rows, "rows")

    def law(histogram: Mapping[Hashable, int]) -> dict[Hashable, Fraction]:
        ones = histogram[1]
        mixed: dict[Hashable, Fraction] = dict.fromkeys(range(top + 1), Fraction(0))
        for kept in range(ones + 1):
            weight = comb(ones, kept) * share**kept * (1 - share) ** (ones - kept)
            for output, p in _folded_geometric(odds, kept, top).items():
                mixed[output] += weight * p
        return mixed

    return FiniteMechanism.over_universe(law, universe=(0, 1), sizes=range(top + 1), form="histogram")


def leak(*, delta: Number) -> FiniteMechanism:
    """Publish one bit with probability δ and "nothing" otherwise: exactly (0, δ)-DP, the simplest use of δ."""
    chance = exact_probability(delta, "delta", zero=True, one=True)
    return FiniteMechanism.local({bit: {bit: chance, "nothing": 1 - chance} for bit in (0, 1)})


def _folded_geometric(odds: Fraction, count: int, top: int) -> dict[Hashable, Fraction]:
    base = 1 / odds
    centre = (1 - base) / (1 + base)
    law: dict[Hashable, Fraction] = {output: centre * base ** abs(output - count) for output in range(top + 1)}
    # P(noise <= -m) = base^m / (1 + base): the probability at or beyond the end.
    law[0] = base**count / (1 + base)
    law[top] = base ** (top - count) / (1 + base)
    return law


def _ratio(ratio: Number) -> Fraction:
    odds = exact(ratio, "ratio")
    if odds <= 1:
        raise InputError("ratio", f"must be greater than 1: it is e^ε for an ε > 0, got {odds}")
    return odds


#: Largest number of rounds of the exact optimal bound, whose integers grow with the rounds.
MOST_ROUNDS: Final = 1000


@dataclass(frozen=True)
class CompositionBounds:
    """Upper bounds on ε at one δ, by four theorems; infinite where a theorem gives no bound at that δ."""

    rounds: int
    ratio: Fraction
    delta: Fraction
    basic: Extended
    advanced: Extended
    zcdp: Extended
    optimal: Extended

    @property
    def by_name(self) -> dict[str, Extended]:
        """Bounds on ε by theorem: basic, advanced, zCDP, optimal."""
        return {"basic": self.basic, "advanced": self.advanced, "zCDP": self.zcdp, "optimal": self.optimal}

    def __str__(self) -> str:
        return "\n".join(f"{name:>10}  ε <= {Enclosure(v, v).up:.6g}" for name, v in self.by_name.items())


def composition_bounds(*, ratio: Number, rounds: int, delta: Number, step_delta: Number = 0) -> CompositionBounds:
    """Bound ε of ``rounds`` adaptive rounds, each (ln ``ratio``, ``step_delta``)-DP, at the total ``delta``.

    * basic: kε, with kδ₀ (Dwork et al. 2006);
    * advanced: √(2k ln(1/δ'))·ε + kε(e^ε-1), with kδ₀ + δ' (Dwork, Rothblum and Vadhan 2010);
    * zCDP: ρ = kε²/2 and the best Renyi order (Bun and Steinke 2016; Canonne, Kamath and Steinke 2020);
    * optimal: the smallest ε that holds for every sequence of such mechanisms (Kairouz, Oh and Viswanath 2015).

    All logarithms are rounded up. The optimal bound is computed with exact integers, so rounds are limited;
    ``tacit.compose`` takes any number.
    """
    odds, k = exact(ratio, "ratio"), check_count(rounds, "rounds", minimum=0, maximum=MOST_ROUNDS)
    total = exact_probability(delta, "delta", zero=True)
    each = exact_probability(step_delta, "step_delta", zero=True)
    if odds < 1:
        raise InputError("ratio", "must be at least 1: it is e^ε for an ε >= 0")
    epsilon, spare = log_bounds(odds)[1], total - k * each
    return CompositionBounds(
        rounds=k,
        ratio=odds,
        delta=total,
        basic=k * epsilon if spare >= 0 else inf,
        advanced=_advanced(epsilon, odds, k, spare),
        zcdp=ZCDP(k * epsilon**2 / 2).to_approx(spare).epsilon if spare > 0 else inf,
        optimal=min(_optimal(odds, k, total, each), k * epsilon if spare >= 0 else inf),
    )


def optimal_pair(*, ratio: Number, rounds: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the two laws of the optimal bound: the number of ones in k randomized responses, for bit 0 and bit 1."""
    odds, k = exact(ratio, "ratio"), check_count(rounds, "rounds", minimum=0, maximum=MOST_ROUNDS)
    weights = [comb(k, lies) * odds ** (k - lies) for lies in range(k + 1)]
    left = [Fraction(weight) / (1 + odds) ** k for weight in weights]
    return left, left[::-1]


def _advanced(epsilon: Fraction, odds: Fraction, k: int, spare: Fraction) -> Extended:
    if spare <= 0:
        return inf
    spread = sqrt_bounds(2 * k * log_bounds(1 / spare)[1])[1] if k else Fraction(0)
    return spread * epsilon + k * epsilon * (odds - 1)


def _optimal(odds: Fraction, k: int, total: Fraction, each: Fraction) -> Extended:
    # No δ₀ event occurs in k rounds with probability (1-δ₀)^k; the rounds are then k randomized responses.
    spare = 1 - (1 - total) / (1 - each) ** k
    if spare < 0:
        return inf
    left, right = optimal_pair(ratio=odds, rounds=k)
    # Rounding δ down is conservative, and keeps the number short.
    found = max_ratio(left, right, delta=round_down(spare, 60)).high
    if isinstance(found, float):
        raise AccountingError("randomized response gives every answer with some probability")
    return log_bounds(max(found, Fraction(1)))[1]


@dataclass(frozen=True)
class TheoremCheck:
    """Comparison of a measured number with a theorem's bound on it."""

    theorem: str
    quantity: str
    measured: Enclosure
    bound: Enclosure

    @property
    def holds(self) -> bool:
        """Whether the measured number is proven to be at most the bound."""
        return self.measured.high <= self.bound.low or self.measured == self.bound

    @property
    def is_tight(self) -> bool:
        """Whether the measured number is exact and equals the bound."""
        return self.measured == self.bound and self.measured.is_exact

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        verdict = ("holds, with equality" if self.is_tight else "holds") if self.holds else "is BROKEN"
        return f"{self.theorem}: measured {self.quantity} = {self.measured}, bound {self.bound}: {verdict}"


def group_privacy(mechanism: FiniteMechanism, *, k: int, delta: Number = 0) -> TheoremCheck:
    """Check group privacy: (ε, δ) for one unit is (kε, δ(e^{kε}-1)/(e^ε-1)) for ``k`` units.

    At δ = 0 the largest e^ε of databases k steps apart is compared with (e^ε)^k; otherwise their largest δ at kε is
    compared with the bound, where ε is the mechanism's exact one at ``delta``.
    """
    units, slack = check_count(k, "k"), exact_probability(delta, "delta", zero=True)
    pairs = group_pairs(mechanism, units)
    if not pairs:
        raise AccountingError(f"the table has no two databases that are {units} steps apart")
    step = mechanism.ratio(delta=slack)
    if not step.is_finite:
        raise AccountingError("the mechanism has no finite epsilon at this delta; give a larger delta")
    laws = [(mechanism.distribution(left), mechanism.distribution(right)) for left, right in pairs]
    name = f"group privacy, {units} units"
    power = Enclosure(*(Fraction(end) ** units for end in step))
    if slack == 0:
        return TheoremCheck(name, "e^ε", Enclosure.largest(max_ratio(p, q) for p, q in laws), power)
    growth = Enclosure(*(sum((Fraction(end) ** i for i in range(units)), Fraction(0)) for end in step))
    measured = Enclosure.largest(hockey_stick(p, q, ratio=Fraction(power.low)) for p, q in laws)
    return TheoremCheck(name, "δ", measured, Enclosure(slack * growth.low, slack * growth.high))
