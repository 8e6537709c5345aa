"""The k-fold adaptive composition experiment, as a thing that runs.

A secret bit b is fixed. In every round the adversary picks two neighbouring databases and a mechanism, from all it
has seen so far, and is given the mechanism's output on database number b. Its *view* V^b is everything it saw. The
question of composition is how far the laws of V^0 and V^1 can be apart.

For finite mechanisms the two laws are computed exactly, round by round. Two views with the same likelihood ratio that
leave the adversary in the same state are merged, which loses nothing: the ratio is a sufficient statistic for b. An
adversary that does not adapt has one state per round, and its 2^k views shrink to a few. For other mechanisms
:meth:`CompositionExperiment.estimate` runs the experiment many times and reports a confidence bound.

>>> from tacit.accounting.lab.examples import randomized_response
>>> experiment = CompositionExperiment(Repeat(Move(randomized_response(ratio=2), 0, 1)), rounds=10)
>>> views = experiment.exact()
>>> views.delta(ratio=64).value
Fraction(1600, 19683)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from tacit.accounting.lab.bounds import CompositionBounds, composition_bounds
from tacit.accounting.lab.confidence import probability_bounds
from tacit.accounting.lab.finite import FiniteMechanism
from tacit.core.divergences import Enclosure, hockey_stick, kl_divergence, max_ratio, renyi_divergence
from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import Number, check_count, exact_probability, float_nearest, format_up

__all__ = ["Adversary", "CompositionExperiment", "EstimatedLoss", "Move", "Releases", "Repeat", "Strategy", "Views"]

View = tuple[Any, ...]


class Releases(Protocol):
    """Anything with a ``release`` method: every mechanism of Tacit, and :class:`FiniteMechanism`."""

    def release(self, raw: Any, /) -> Any:
        """One noisy answer."""


class Move(NamedTuple):
    """What the adversary asks for in one round: a mechanism, and the database it sees for b = 0 and for b = 1."""

    mechanism: Releases
    left: Any
    right: Any


class Adversary(ABC):
    """Chooses each round from what it has seen.

    What it has seen is kept as a *state*; by default the whole view. An adversary that needs less says so by
    overriding :meth:`start` and :meth:`observe`, and the exact computation becomes as small as its memory.
    """

    def start(self) -> Hashable:
        """The state before the first round."""
        return ()

    @abstractmethod
    def choose(self, state: Any) -> Move | None:
        """The next move, or ``None`` to stop."""

    def observe(self, state: Any, output: Hashable) -> Hashable:
        """The state after an output was seen."""
        return (*state, output)


class Repeat(Adversary):
    """The same move in every round: composition without adaptivity."""

    def __init__(self, move: Move) -> None:
        self._move = move

    def start(self) -> Hashable:
        """Nothing is remembered."""
        return None

    def choose(self, state: Any) -> Move:  # noqa: ARG002 - the interface gives it
        """Always the same move."""
        return self._move

    def observe(self, state: Any, output: Hashable) -> Hashable:  # noqa: ARG002 - the interface gives it
        """Nothing is remembered."""
        return None


class Strategy(Adversary):
    """An adversary given by a function from the tuple of outputs so far to the next move."""

    def __init__(self, choose: Callable[[View], Move | None]) -> None:
        self._choose = choose

    def choose(self, state: Any) -> Move | None:
        """What the function says."""
        return self._choose(state)


@dataclass(frozen=True)
class Views:
    """The exact laws of V^0 and V^1, merged by likelihood ratio, and what they say about privacy.

    Every number is the worse of the two directions.
    """

    rounds: int
    left: dict[Hashable, Fraction]
    right: dict[Hashable, Fraction]
    #: e^ε of the worst mechanism that the adversary used, at the δ of each round that was given to ``exact``.
    step_ratio: Enclosure
    step_delta: Fraction

    def ratio(self, *, delta: Number = 0) -> Enclosure:
        """The smallest e^ε for which the view is (ε, δ)-DP: exact."""
        one = Enclosure(Fraction(1), Fraction(1))
        return Enclosure.largest([one, *(max_ratio(*pair, delta=delta) for pair in self._directions())])

    def epsilon(self, *, delta: Number = 0) -> Enclosure:
        """The δ-approximate max divergence of the two views; at δ = 0, their max divergence."""
        return self.ratio(delta=delta).log()

    def delta(self, *, epsilon: Number | None = None, ratio: Number | None = None) -> Enclosure:
        """The privacy profile: the hockey-stick divergence of the two views."""
        return Enclosure.largest(hockey_stick(*pair, epsilon=epsilon, ratio=ratio) for pair in self._directions())

    def kl(self) -> Enclosure:
        """The expected privacy loss."""
        return Enclosure.largest(kl_divergence(*pair) for pair in self._directions())

    def renyi(self, alpha: Number) -> Enclosure:
        """The Renyi divergence at order ``alpha``."""
        return Enclosure.largest(renyi_divergence(*pair, alpha=alpha) for pair in self._directions())

    def bounds(self, *, delta: Number) -> CompositionBounds:
        """What basic, advanced, zCDP and optimal composition allow for as many rounds of the worst mechanism used."""
        if not self.step_ratio.is_finite:
            raise AccountingError("a round has no finite epsilon; compute the views with exact(step_delta=…)")
        return composition_bounds(
            ratio=Fraction(self.step_ratio.high), rounds=self.rounds, delta=delta, step_delta=self.step_delta
        )

    def report(self, *, delta: Number) -> str:
        """The exact privacy of the view beside the bounds, as text."""
        at = exact_probability(delta, "delta", zero=True)
        lines = [
            f"{self.rounds} rounds, each at most ε = {self.step_ratio.log()}, δ = {format_up(self.step_delta)}",
            f"  max divergence of the views            {self.epsilon()}",
            f"  {format_up(at)}-approximate max divergence".ljust(41) + f"{self.epsilon(delta=at)}",
            f"  expected loss (KL)                     {self.kl()}",
            f"  total variation                        {self.delta(ratio=1)}",
            f"bounds on ε at δ = {format_up(at)}:",
            str(self.bounds(delta=at)),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"views of {self.rounds} rounds with {len(self.left)} different likelihood ratios; ε = {self.epsilon()}"

    def _directions(self) -> tuple[tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]], ...]:
        return (self.left, self.right), (self.right, self.left)


class EstimatedLoss(NamedTuple):
    """What many runs prove with confidence: the view is not (ε, δ)-DP for any ε below ``epsilon_bound``."""

    epsilon_bound: float
    delta: Fraction
    confidence: Fraction
    trials: int
    event: frozenset[Hashable]

    def __str__(self) -> str:
        return (
            f"ε >= {self.epsilon_bound:.4g} at δ = {format_up(self.delta)}, with confidence "
            f"{float_nearest(self.confidence):g}, from {self.trials} runs of each world"
        )


class CompositionExperiment:
    """``rounds`` rounds between an adversary and a curator who holds the bit b."""

    def __init__(self, adversary: Adversary, *, rounds: int) -> None:
        self.adversary = adversary
        self.rounds = check_count(rounds, "rounds", minimum=0)

    def view(self, bit: int) -> View:
        """One run: everything that the adversary sees when the secret bit is ``bit``."""
        if bit not in (0, 1):
            raise InputError("bit", f"must be 0 or 1, got {bit!r}")
        state, seen = self.adversary.start(), []
        for _ in range(self.rounds):
            move = self.adversary.choose(state)
            if move is None:
                break
            output = move.mechanism.release(move.right if bit else move.left)
            seen.append(output)
            state = self.adversary.observe(state, output)
        return tuple(seen)

    def exact(self, *, step_delta: Number = 0) -> Views:
        """The exact laws of the two views, for finite mechanisms with rational tables.

        ``step_delta`` is the δ at which each round's ε is stated in the bounds; it changes no exact number.
        """
        return _Exact(self.adversary, exact_probability(step_delta, "step_delta", zero=True)).run(self.rounds)

    def estimate(
        self,
        *,
        trials: int,
        delta: Number = 0,
        confidence: Number = "0.95",
        summary: Callable[[View], Hashable] = lambda view: view,
    ) -> EstimatedLoss:
        """A lower bound on ε from ``trials`` runs of each world, for mechanisms that can only be run.

        Half of the runs choose the event that tells the worlds apart best; the other half test it, with
        Clopper-Pearson bounds on its two probabilities. ``summary`` shortens a view to what is worth comparing; as
        post-processing it can hide a loss but never invent one.
        """
        n = check_count(trials, "trials", minimum=2)
        slack, sure = exact_probability(delta, "delta", zero=True), exact_probability(confidence, "confidence")
        worlds = [[summary(self.view(bit)) for _ in range(n)] for bit in (0, 1)]
        trained = [Counter(world[: n // 2]) for world in worlds]
        tested = [Counter(world[n // 2 :]) for world in worlds]
        first, event = max(
            ((b, _best_event(trained[b], trained[1 - b], n // 2, slack)) for b in (0, 1)),
            key=lambda found: _loss(trained[found[0]], trained[1 - found[0]], found[1], n // 2, slack, sure),
        )
        bound = _loss(tested[first], tested[1 - first], event, n - n // 2, slack, sure)
        return EstimatedLoss(max(bound, 0.0), slack, sure, n, event)


class _Exact:
    """Dynamic programming over (state, likelihood ratio)."""

    def __init__(self, adversary: Adversary, step_delta: Fraction) -> None:
        self._adversary = adversary
        self._step_delta = step_delta
        self._step = Enclosure(Fraction(1), Fraction(1))
        self._known: dict[int, FiniteMechanism] = {}

    def run(self, rounds: int) -> Views:
        live: dict[Hashable, dict[Hashable, tuple[Fraction, Fraction]]] = {}
        ended: dict[Hashable, tuple[Fraction, Fraction]] = {}
        _add(live.setdefault(self._adversary.start(), {}), Fraction(1), Fraction(1))
        for _ in range(rounds):
            following: dict[Hashable, dict[Hashable, tuple[Fraction, Fraction]]] = {}
            for state, weights in live.items():
                self._advance(state, weights, following, ended)
            live = following
        for weights in live.values():
            for p, q in weights.values():
                _add(ended, p, q)
        left = {key: p for key, (p, _) in ended.items()}
        right = {key: q for key, (_, q) in ended.items()}
        return Views(rounds, left, right, self._step, self._step_delta)

    def _advance(
        self,
        state: Hashable,
        weights: dict[Hashable, tuple[Fraction, Fraction]],
        following: dict[Hashable, dict[Hashable, tuple[Fraction, Fraction]]],
        ended: dict[Hashable, tuple[Fraction, Fraction]],
    ) -> None:
        move = self._adversary.choose(state)
        if move is None:
            for p, q in weights.values():
                _add(ended, p, q)
            return
        for output, a, b in self._rows(move):
            target = following.setdefault(self._adversary.observe(state, output), {})
            for p, q in weights.values():
                _add(target, p * a, q * b)

    def _rows(self, move: Move) -> list[tuple[Hashable, Fraction, Fraction]]:
        rows = table_rows(move)
        mechanism = move.mechanism
        if isinstance(mechanism, FiniteMechanism) and id(mechanism) not in self._known:
            # Keeping the mechanism keeps its id from being used again.
            self._known[id(mechanism)] = mechanism
            self._step = Enclosure.largest([self._step, mechanism.ratio(delta=self._step_delta)])
        return rows


def table_rows(move: Move) -> list[tuple[Hashable, Fraction, Fraction]]:
    """Every output of a move on a finite mechanism, with its exact probability in world 0 and in world 1."""
    mechanism = move.mechanism
    if not isinstance(mechanism, FiniteMechanism):
        raise AccountingError("exact views need finite mechanisms; use estimate(…) for the others")
    if move.left != move.right and (move.left, move.right) not in mechanism.pairs:
        raise InputError("move", f"{move.left!r} and {move.right!r} are not neighbours of the mechanism")
    p, q = mechanism.distribution(move.left), mechanism.distribution(move.right)
    absent = Enclosure(Fraction(0), Fraction(0))
    rows = [(o, p.get(o, absent), q.get(o, absent)) for o in {**p, **q}]
    if not all(a.is_exact and b.is_exact for _, a, b in rows):
        raise AccountingError("exact views need rational probabilities; give the mechanism by a rational ratio")
    return [(o, Fraction(a.low), Fraction(b.low)) for o, a, b in rows if a.low or b.low]


def _add(weights: dict[Hashable, tuple[Fraction, Fraction]], p: Fraction, q: Fraction) -> None:
    if p == 0 and q == 0:
        return
    key = p / q if q else "never under b = 1"
    old_p, old_q = weights.get(key, (Fraction(0), Fraction(0)))
    weights[key] = old_p + p, old_q + q


def _best_event(mine: Counter[Hashable], theirs: Counter[Hashable], runs: int, delta: Fraction) -> frozenset[Hashable]:
    """The outcomes of largest empirical ratio, as many of them as give the largest (p - δ)/q, q smoothed."""
    order = sorted(mine, key=lambda outcome: (mine[outcome] + 1) / (theirs[outcome] + 1), reverse=True)
    best, size, hits, misses = Fraction(-1), 0, 0, 0
    for index, outcome in enumerate(order, start=1):
        hits += mine[outcome]
        misses += theirs[outcome]
        # A few imagined misses keep rare outcomes, which the second half would not confirm, from winning.
        score = (Fraction(hits, runs) - delta) / Fraction(misses + 5, runs)
        if score > best:
            best, size = score, index
    return frozenset(order[:size])


def _loss(
    mine: Counter[Hashable],
    theirs: Counter[Hashable],
    event: frozenset[Hashable],
    runs: int,
    delta: Fraction,
    confidence: Fraction,
) -> float:
    each = (1 + float_nearest(confidence)) / 2
    low = probability_bounds(sum(mine[o] for o in event), runs, each)[0] - float_nearest(delta)
    high = probability_bounds(sum(theirs[o] for o in event), runs, each)[1]
    return math.log(low / high) if low > 0 else -math.inf
