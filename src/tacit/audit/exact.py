"""Exact privacy loss of a mechanism with finitely many outputs.

Code is a function of a database and a :class:`Chance`, which makes all of its random choices. It is run once for every
possible sequence of choices, and the probabilities are multiplied: nothing is sampled, nothing is rounded. The result
is a :class:`~tacit.lab.FiniteMechanism`, compared with the claim.

>>> def coin(answer, chance):
...     return answer if chance("3/4") else 1 - answer
>>> print(exact(coin, databases=[0, 1], claimed=1))
REFUTED: the exact epsilon is 1.098612289, claimed 1. Worst: 0 against 1: the output lies in {0}; δ = 0.07042954289
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.core.divergences import Distribution, Enclosure, as_distribution
from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import Number, check_count, exact_nonnegative, exact_probability, exp_bounds
from tacit.core.relations import Relation
from tacit.lab.finite import FiniteMechanism, Worst

#: The most sequences of choices that an exact audit enumerates.
_MOST_PATHS: Final = 20_000
#: The most choices in one run.
_MOST_CHOICES: Final = 1_000
_ORDERS: Final = (Fraction(3, 2), Fraction(2), Fraction(3), Fraction(4), Fraction(8), Fraction(16))
_ONE: Final = (Fraction(1), Fraction(1))


class Chance:
    """Source of all randomness of a mechanism under exact audit; each call is one random choice.

    The choices are enumerated, not drawn: the mechanism is run again until every choice was taken.
    """

    def __init__(self, decided: Sequence[int]) -> None:
        self._decided = decided
        self.taken: list[int] = []
        self.options: list[int] = []
        self.weight = _ONE

    def __call__(self, probability: Number) -> bool:
        """Return True with exactly this probability."""
        p = exact_probability(probability, "probability", zero=True, one=True)
        return not self._choose([(p, p), (1 - p, 1 - p)])

    def exp(self, rate: Number) -> bool:
        """Return True with probability e^-rate, which is irrational: enclosed by rationals that agree to 40 digits."""
        low, high = exp_bounds(-exact_nonnegative(rate, "rate"))
        return not self._choose([(low, high), (1 - high, 1 - low)])

    def pick(self, count: int) -> int:
        """Return a uniform integer from 0 to ``count`` - 1."""
        share = Fraction(1, check_count(count, "count"))
        return self._choose([(share, share)] * count)

    def draw(self, distribution: Distribution) -> Hashable:
        """Return an output of {output: probability}, where a probability may be a pair that encloses it."""
        law = as_distribution(distribution, "distribution")
        return list(law)[self._choose([(Fraction(p.low), Fraction(p.high)) for p in law.values()])]

    def _choose(self, weights: Sequence[tuple[Fraction, Fraction]]) -> int:
        possible = [i for i, weight in enumerate(weights) if weight[1] > 0]
        turn = len(self.taken)
        if turn >= _MOST_CHOICES:
            raise _TooLongError(f"the mechanism makes more than {_MOST_CHOICES} choices in one run; make it smaller")
        place = self._decided[turn] if turn < len(self._decided) else 0
        self.taken.append(place)
        self.options.append(len(possible))
        low, high = weights[possible[place]]
        self.weight = self.weight[0] * low, self.weight[1] * high
        return possible[place]


class _TooLongError(AccountingError):
    """An exact audit exceeds its limits; never an output of the mechanism."""


def tabulate(mechanism: Callable[[Any, Chance], Hashable], database: Any) -> Distribution:
    """Return the exact law of a mechanism's output on one database."""
    law: dict[Hashable, tuple[Fraction, Fraction]] = {}
    decided: list[int] | None = []
    paths = 0
    while decided is not None:
        paths += 1
        if paths > _MOST_PATHS:
            raise AccountingError(f"the mechanism makes more than {_MOST_PATHS} sequences of choices; make it smaller")
        chance = Chance(decided)
        output = _output(mechanism, database, chance)
        low, high = law.get(output, (Fraction(0), Fraction(0)))
        law[output] = low + chance.weight[0], min(high + chance.weight[1], Fraction(1))
        decided = _next(chance)
    return law


def _output(mechanism: Callable[[Any, Chance], Hashable], database: Any, chance: Chance) -> Hashable:
    try:
        output = mechanism(database, chance)
    except _TooLongError:
        raise
    except Exception as problem:  # an analyst sees an exception, so it is an output
        if isinstance(problem, InputError) and problem.parameter in ("probability", "rate", "count", "distribution"):
            raise
        return f"raised {type(problem).__name__}: {problem}"
    return output if isinstance(output, Hashable) else repr(output)  # type: ignore[redundant-expr]


def _next(chance: Chance) -> list[int] | None:
    """Return the next sequence of choices: the last choice that has another option takes it."""
    for turn in reversed(range(len(chance.taken))):
        if chance.taken[turn] + 1 < chance.options[turn]:
            return [*chance.taken[:turn], chance.taken[turn] + 1]
    return None


@dataclass(frozen=True)
class ExactLoss:
    """Exact privacy loss of a mechanism, compared with the claim.

    Args:
        mechanism: the table, with every query it can answer.
        claimed: the guarantee under test.
        excess: text: by how much the claim is exceeded, and where; ``None`` if it holds.
    """

    mechanism: FiniteMechanism
    claimed: Guarantee | None
    excess: str | None

    @property
    def violated(self) -> bool:
        """Whether the claim is false."""
        return self.excess is not None

    @property
    def epsilon(self) -> Enclosure:
        """Smallest ε at the claim's δ."""
        return self.mechanism.epsilon(delta=getattr(self.claimed, "delta", 0))

    @property
    def worst(self) -> Worst:
        """Neighbours and event with the largest δ at the claimed ε, or at ε = 0."""
        return self.mechanism.worst(epsilon=getattr(self.claimed, "epsilon", 0))

    def to_json(self) -> str:
        """Return the result as JSON text; keys are stable."""
        content = {
            "epsilon": None if not self.epsilon.is_finite else self.epsilon.up,
            "delta": str(getattr(self.claimed, "delta", 0)),
            "claimed": None if self.claimed is None else repr(self.claimed),
            "violated": self.violated,
            "excess": self.excess,
        }
        return json.dumps(content, indent=2)

    def __str__(self) -> str:
        if self.claimed is None:
            return f"the exact epsilon is {self.epsilon}"
        if self.excess is not None:
            return f"REFUTED: {self.excess}. Worst: {self.worst}"
        return f"holds: the exact epsilon is {self.epsilon}, claimed {self.claimed!r}"


def exact(
    mechanism: FiniteMechanism | Mapping[Any, Distribution] | Callable[[Any, Chance], Hashable],
    *,
    databases: Iterable[Hashable] | None = None,
    relation: Relation | str | None = None,
    pairs: Iterable[tuple[Hashable, Hashable]] | None = None,
    claimed: Number | Guarantee | None = None,
) -> ExactLoss:
    """Compute a mechanism's privacy loss exactly and compare it with a claim.

    Args:
        mechanism: a table {database: {output: probability}}, a :class:`~tacit.lab.FiniteMechanism`, or code
            that takes a database and a :class:`Chance`.
        databases: databases on which code is run; tuples of records under a ``relation``.
        relation: which of the databases are neighbours.
        pairs: instead of a relation, the pairs of neighbours; with neither, any two databases are neighbours, as for a
            person's own answer.
        claimed: ε, or a guarantee: pure, (ε, δ), zCDP, GDP or Renyi.
    """
    table = _table(mechanism, databases, relation, pairs)
    claim = claimed if claimed is None or isinstance(claimed, Guarantee) else PureDP(claimed)
    excess = None if claim is None else _excess(table, claim)
    return ExactLoss(table, claim, excess)


def _table(
    mechanism: FiniteMechanism | Mapping[Any, Distribution] | Callable[[Any, Chance], Hashable],
    databases: Iterable[Hashable] | None,
    relation: Relation | str | None,
    pairs: Iterable[tuple[Hashable, Hashable]] | None,
) -> FiniteMechanism:
    if isinstance(mechanism, FiniteMechanism):
        return mechanism
    if isinstance(mechanism, Mapping):
        table: Mapping[Any, Distribution] = mechanism
    elif databases is None:
        raise InputError("databases", "must list the databases on which the code is run")
    else:
        table = {each: tabulate(mechanism, each) for each in databases}
    if relation is None and pairs is None:
        return FiniteMechanism.local(table)
    return FiniteMechanism(table, relation=relation, pairs=pairs)


def _excess(table: FiniteMechanism, claim: Guarantee) -> str | None:
    if isinstance(claim, (PureDP, ApproxDP)):
        if table.is_private(epsilon=claim.epsilon, delta=claim.delta):
            return None
        at = f" at delta {float(claim.delta):g}" if claim.delta else ""
        found = table.epsilon(delta=claim.delta)
        return f"the exact epsilon{at} is {found}, claimed {float(claim.epsilon):g}"
    if isinstance(claim, (ZCDP, RDP)):
        return _renyi_excess(table, claim)
    if isinstance(claim, GDP):
        return _gdp_excess(table, claim)
    raise InputError("claimed", f"{type(claim).__name__} cannot be checked against a table")


def _renyi_excess(table: FiniteMechanism, claim: ZCDP | RDP) -> str | None:
    if isinstance(claim, ZCDP) and claim.delta:
        raise InputError("claimed", "zCDP with a delta has no exact test here; convert it with to_approx first")
    curve = {order: order * claim.rho for order in _ORDERS} if isinstance(claim, ZCDP) else dict(claim.curve)
    for order, bound in curve.items():
        found = table.renyi(order)
        if found.low > bound:
            return f"the exact Renyi divergence of order {float(order):g} is {found}, claimed {float(bound):g}"
    return None


def _gdp_excess(table: FiniteMechanism, claim: GDP) -> str | None:
    for epsilon in (Fraction(i, 4) for i in range(33)):
        allowed, found = claim.delta_at(epsilon).delta, table.delta(epsilon=epsilon)
        if found.low > allowed:
            return f"the exact delta at epsilon {float(epsilon):g} is {found}, claimed {float(allowed):g}"
    return None
