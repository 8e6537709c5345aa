"""Example mechanisms: private, not private, and sampled.

All are given by ``ratio`` = e^ε, a rational, so that every probability is rational and every answer exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact, exact_probability
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.lab.finite import FiniteMechanism


def randomized_response(*, ratio: Number, categories: Sequence[Hashable] = (0, 1), rows: int = 1) -> FiniteMechanism:
    """Each of ``rows`` people answers truthfully with the probability that makes it exactly ln(ratio)-DP.

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
    """The count of ones among 0 to ``rows`` people, with two-sided geometric noise folded onto 0, …, rows.

    Noise x has probability proportional to ratio^-|x|; whatever falls outside is put on the nearer end, which is
    post-processing. The ends keep it tight: the smallest ε is exactly ln(ratio).
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
    """Publish one row, chosen uniformly: (0, 1/n)-DP, and one person's record is disclosed every time.

    It is why δ has to be far below one over the number of people.
    """
    return sample_rows(universe=universe, size=size, sample=1)


def sample_rows(*, universe: Sequence[Hashable], size: int, sample: int) -> FiniteMechanism:
    """Publish ``sample`` rows, chosen uniformly without replacement: not ε-DP for any ε.

    A record that is in one database and not in its neighbour is published with probability sample/size, and no e^ε
    can pay for that: δ(ε) = sample/size at every ε for neighbours that differ in a record the rest does not hold.
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
    """One bit is published with probability δ and nothing otherwise: exactly (0, δ)-DP, the plainest use of a δ."""
    chance = exact_probability(delta, "delta", zero=True, one=True)
    return FiniteMechanism.local({bit: {bit: chance, "nothing": 1 - chance} for bit in (0, 1)})


def _folded_geometric(odds: Fraction, count: int, top: int) -> dict[Hashable, Fraction]:
    base = 1 / odds
    centre = (1 - base) / (1 + base)
    law: dict[Hashable, Fraction] = {output: centre * base ** abs(output - count) for output in range(top + 1)}
    # P(noise <= -m) = base^m / (1 + base): all that lies at the end or beyond it.
    law[0] = base**count / (1 + base)
    law[top] = base ** (top - count) / (1 + base)
    return law


def _ratio(ratio: Number) -> Fraction:
    odds = exact(ratio, "ratio")
    if odds <= 1:
        raise InputError("ratio", f"must be greater than 1: it is e^ε for an ε > 0, got {odds}")
    return odds
