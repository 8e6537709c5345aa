"""The k-fold adaptive composition experiment, runnable.

A secret bit b is fixed. In every round the adversary picks two neighbouring databases and a mechanism of a family M,
depending on all outputs so far, and receives the mechanism's output on database number b. Its *view* V^b is the
sequence of its random coins R and all outputs. Composition theorems bound the distance of the laws of V^0 and V^1.

For finite mechanisms the two laws are computed exactly, round by round. Two views with the same likelihood ratio that
leave the adversary in the same state are merged, which loses nothing: the ratio is a sufficient statistic for b. A
non-adaptive adversary has one state per round, and its 2^k views shrink to a few. For any other mechanism
:func:`tacit.audit.lower_bound` runs :meth:`CompositionExperiment.view` many times for both bits.

>>> from tacit.lab.finite import randomized_response
>>> from tacit.lab.experiment import Move, Repeat
>>> experiment = CompositionExperiment(Repeat(Move(randomized_response(ratio=2), 0, 1)), rounds=10)
>>> views = experiment.exact()
>>> views.delta(ratio=64).value
Fraction(1600, 19683)

*Loss martingale.* The privacy loss of a view v is L(v) = ln(P(v)/Q(v)) = Σ L_i, a sum over rounds. Given what was seen
before, the loss of a round by an ε-DP mechanism is at most ε in size and at most β = ε(e^ε - 1) in expectation; in the
tight form β = ε(e^ε - 1)/(e^ε + 1). So L less its drift is a martingale with bounded steps, and Azuma's inequality says

    Pr[L > kβ + z·√k·ε] <= e^(-z²/2).

With z = √(2 ln(1/δ')) the right side is δ', and the left side the probability of the set of bad views. Nothing is
assumed of the adversary beyond what each round promises, so adaptive ones are included.

*Stopping rules.* :class:`WorstAdversary` has a menu of moves and may order any of them, in any order, as long as a rule
admits what has been ordered. All that matters of a view is its likelihood ratio and what has been ordered, so backward
induction over those two finds the best strategy among all, adaptive ones included. A valid filter keeps the result at
its promise, an invalid one not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final, NamedTuple, Protocol

from tacit.accounting.filters import Filter
from tacit.accounting.prices import Charge
from tacit.core.divergences import (
    Enclosure,
    as_distribution,
    hockey_stick,
    kl_bound,
    kl_divergence,
    max_ratio,
    ratio_bounds,
    renyi_divergence,
)
from tacit.core.errors import AccountingError, BudgetError, InputError
from tacit.core.float_functions import success_limit
from tacit.core.guarantees import RDP, ApproxDP, PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_nonnegative,
    exact_positive,
    exact_probability,
    exp_bounds,
    format_up,
    log_bounds,
    sqrt_bounds,
)
from tacit.core.relations import Relation, as_relation, is_neighbour
from tacit.lab.finite import CompositionBounds, FiniteMechanism, composition_bounds
from tacit.mechanisms.additive import AdditiveNoise
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import Selection
from tacit.mechanisms.sparse_vector import SparseVector


def probability_bounds(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return Clopper-Pearson limits of a probability; each limit individually holds with ``confidence``."""
    tail = 1 - confidence
    low = float(success_limit(successes, trials, tail))
    high = 1 - float(success_limit(trials - successes, trials, tail))
    # Widen by more than the rounding error of the limits.
    return max(low * (1 - 1e-12), 0.0), min(math.nextafter(high * (1 + 1e-12), 2.0), 1.0)


class Releases(Protocol):
    """Protocol of mechanisms, objects with a ``release`` method: those of Tacit, and :class:`FiniteMechanism`."""

    def release(self, raw: Any, /) -> Any:
        """Return one noisy output for the input ``raw``."""


class Move(NamedTuple):
    """Move of the adversary: a mechanism, and its input database for b = 0 and for b = 1.

    ``relation`` is required if the mechanism does not define neighbouring inputs, as a user's object with a
    ``release`` method.
    """

    mechanism: Releases
    left: Any
    right: Any
    relation: Relation | str | None = None


#: One round: one move, or several in parallel.
Turn = Move | Sequence[Move]
#: Predicate: whether a mechanism belongs to the family that the adversary chooses from.
Family = Callable[[Releases], bool]


def as_turn(turn: object) -> tuple[Move, ...]:
    """Return the moves of one round as a tuple; refuse any other object."""
    # A move is a tuple itself.
    moves = tuple(turn) if isinstance(turn, Sequence) and not isinstance(turn, Move) else (turn,)
    if not moves or not all(isinstance(move, Move) for move in moves):
        raise InputError("move", "must be a Move, several of them, or None to stop")
    return tuple(move for move in moves if isinstance(move, Move))


def in_or_out(mechanism: FiniteMechanism, others: Iterable[Hashable], person: Hashable) -> Move:
    """Return the move between ``others`` plus the person's record (b = 0) and ``others`` alone (b = 1).

    Both are databases of the mechanism's table.

    >>> from tacit.lab.finite import geometric
    >>> in_or_out(geometric(ratio=2, rows=3), [0, 1], person=1)[1:3]
    ((0, 1, 1), (0, 1))
    """
    without = Counter(others)
    known = {frozenset(Counter(_records(label)).items()): label for label in mechanism.databases}
    try:
        left, right = (known[frozenset(rows.items())] for rows in (without + Counter([person]), without))
    except KeyError:
        raise InputError("others", "with or without the person is not a database of the mechanism's table") from None
    return Move(mechanism, left, right)


def private(*, epsilon: Number | None = None, ratio: Number | None = None, delta: Number = 0) -> Family:
    """Return the family of all (ε, δ)-DP mechanisms, given ε or a rational ``ratio`` = e^ε.

    A finite mechanism belongs to it if its table is (ε, δ)-DP; any other mechanism if its stated guarantee implies
    (ε, δ)-DP. An object without a guarantee does not belong.
    """
    odds = ratio_bounds(epsilon=epsilon, ratio=ratio)
    most, slack = odds.log(), exact_probability(delta, "delta", zero=True)

    # The mechanism is kept alive with its verdict, so that its id is not reused.
    tables: dict[int, tuple[FiniteMechanism, bool]] = {}

    def belongs(mechanism: Releases) -> bool:
        if isinstance(mechanism, FiniteMechanism):
            if id(mechanism) not in tables:
                verdict = mechanism.is_private(epsilon=epsilon, ratio=ratio, delta=slack)
                tables[id(mechanism)] = mechanism, verdict
            return tables[id(mechanism)][1]
        promise = getattr(mechanism, "guarantee", None)
        if isinstance(promise, PureDP | ApproxDP):
            allowed = most.high if epsilon is None else exact(epsilon, "epsilon")
            return promise.epsilon <= allowed and promise.delta <= slack
        if promise is None or isinstance(promise, RDP) or not slack:
            return False
        return bool(promise.to_approx(slack).epsilon <= most.high)

    return belongs


def as_family(family: Family | Iterable[Releases] | None) -> Family:
    """Return the family given by a predicate or a list of mechanisms; None admits every mechanism."""
    if family is None:
        return lambda mechanism: True  # noqa: ARG005 - a rule that reads nothing
    if callable(family):
        return family
    members = list(family)
    if not members:
        raise InputError("family", "must hold at least one mechanism")
    # By identity: two tables may be equal, and objects with a release method need not define equality.
    return lambda mechanism: any(mechanism is member for member in members)


def check_move(move: Move, family: Family) -> None:
    """Refuse a move between databases that are not neighbours, or with a mechanism outside the family."""
    if not family(move.mechanism):
        raise InputError("move", "asks for a mechanism outside the family of the experiment; choose one of the family")
    check_neighbours(move)


def check_neighbours(move: Move) -> None:
    """Refuse a move whose two databases are neither equal nor neighbours for its mechanism."""
    mechanism, left, right = move.mechanism, move.left, move.right
    if move.relation is not None:
        near = is_neighbour(left, right, as_relation(move.relation)) or _same(left, right)
    elif isinstance(mechanism, FiniteMechanism):
        near = _same(left, right) or (left, right) in mechanism.pairs
    elif isinstance(mechanism, AdditiveNoise):
        near = _within_noise(mechanism, left, right)
    elif isinstance(mechanism, RandomizedResponse):
        near = left in mechanism.categories and right in mechanism.categories
    elif isinstance(mechanism, Selection | SparseVector):
        gaps = _gaps(left, right)
        near = max(map(abs, gaps), default=Fraction(0)) <= mechanism.sensitivity
        if near and mechanism.monotone and min(gaps) < 0 < max(gaps):
            raise InputError("move", "raises one number and lowers another, where all were declared monotone")
    elif isinstance(mechanism, Mechanism) and isinstance(left, Sequence) and isinstance(right, Sequence):
        near = _same(left, right) or is_neighbour(list(left), list(right), mechanism.relation)
    else:
        raise InputError("move", "does not say which databases are neighbours; give Move(…, relation='add_remove')")
    if not near:
        raise InputError("move", f"{left!r} and {right!r} are not neighbours of the mechanism")


def table_rows(move: Move) -> list[tuple[Hashable, Fraction, Fraction]]:
    """Return (output, probability if b = 0, probability if b = 1) for every output of a move, as exact rationals."""
    mechanism = move.mechanism
    if not isinstance(mechanism, FiniteMechanism):
        raise AccountingError("exact views need finite mechanisms; for others use tacit.audit.lower_bound")
    check_neighbours(move)
    p, q = mechanism.distribution(move.left), mechanism.distribution(move.right)
    absent = Enclosure(Fraction(0), Fraction(0))
    rows = [(o, p.get(o, absent), q.get(o, absent)) for o in {**p, **q}]
    if not all(a.is_exact and b.is_exact for _, a, b in rows):
        raise AccountingError("exact views need rational probabilities; give the mechanism by a rational ratio")
    return [(o, Fraction(a.low), Fraction(b.low)) for o, a, b in rows if a.low or b.low]


def _within_noise(mechanism: AdditiveNoise, left: Any, right: Any) -> bool:
    gaps = [abs(gap) for gap in _gaps(left, right)]
    if isinstance(mechanism, Laplace):
        return sum(gaps, Fraction(0)) <= mechanism.l1_sensitivity
    if isinstance(mechanism, Gaussian):
        return sum((gap * gap for gap in gaps), Fraction(0)) <= mechanism.l2_squared
    raise InputError("move", "has a mechanism whose sensitivity is not known; give Move(…, relation='add_remove')")


def _gaps(left: Any, right: Any) -> list[Fraction]:
    """Return the difference right - left of each number."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.keys() != right.keys():
            raise InputError("move", "scores other candidates in one world than in the other")
        return [_gap(left[name], right[name]) for name in left]
    mine, theirs = (list(v) if isinstance(v, Iterable) and not isinstance(v, str) else [v] for v in (left, right))
    if len(mine) != len(theirs):
        raise InputError("move", "holds more numbers in one world than in the other")
    return [_gap(a, b) for a, b in zip(mine, theirs, strict=True)]


def _gap(a: Any, b: Any) -> Fraction:
    try:
        return Fraction(b) - Fraction(a)
    except (TypeError, ValueError, OverflowError):
        raise InputError("move", "must hold numbers in both worlds: the mechanism adds noise to them") from None


def _records(label: Hashable) -> Iterable[Hashable]:
    if isinstance(label, Sequence):
        return label
    raise InputError("mechanism", "must have databases of rows; make it with FiniteMechanism.over_universe")


def _same(left: Any, right: Any) -> bool:
    return bool(left == right)


View = tuple[Any, ...]


class Adversary(ABC):
    """Strategy that chooses the moves of each round from the previous outputs.

    The *state* is its memory of the view so far; by default the whole view. An adversary that needs less memory
    overrides :meth:`start` and :meth:`observe`, which makes the exact computation smaller.
    """

    def coins(self) -> Mapping[Any, Number] | None:
        """Return the probabilities of the outcomes of the adversary's random coins R, or ``None`` if it has no coins.

        R is drawn once and is the first entry of the view. No outcome may be ``None``.
        """
        return None

    def start(self) -> Hashable:
        """Return the state before the first round."""
        return ()

    def start_with(self, coins: Hashable) -> Hashable:
        """Return the state before the first round, given the outcome of the coins."""
        return (coins,)

    @abstractmethod
    def choose(self, state: Any) -> Turn | None:
        """Return the next move, or several for one round, or ``None`` to stop."""

    def observe(self, state: Any, output: Hashable) -> Hashable:
        """Return the state after an output; ``output`` of a round with several moves is the tuple of their outputs."""
        return (*state, output)


class Repeat(Adversary):
    """Non-adaptive adversary that repeats one round."""

    def __init__(self, move: Turn) -> None:
        self._move = move

    def start(self) -> Hashable:
        """Return None: the adversary has no memory."""
        return None

    def choose(self, state: Any) -> Turn:  # noqa: ARG002 - the interface gives it
        return self._move

    def observe(self, state: Any, output: Hashable) -> Hashable:  # noqa: ARG002 - the interface gives it
        """Return None: the adversary has no memory."""
        return None


class Strategy(Adversary):
    """Adversary given by a function from the tuple of outputs so far to the next move."""

    def __init__(self, choose: Callable[[View], Turn | None]) -> None:
        self._choose = choose

    def choose(self, state: Any) -> Turn | None:
        return self._choose(state)


class RandomizedStrategy(Strategy):
    """Strategy with random coins R: the function is given the tuple (R, first output, second output, …).

    ``coins`` maps each outcome of R to its probability.
    """

    def __init__(self, coins: Mapping[Any, Number], choose: Callable[[View], Turn | None]) -> None:
        super().__init__(choose)
        self._coins = dict(coins)

    def coins(self) -> Mapping[Any, Number]:
        return self._coins


def coin_law(adversary: Adversary) -> dict[Hashable, Fraction] | None:
    """Return the checked exact probabilities of the adversary's coins; ``None`` if it has no coins."""
    stated = adversary.coins()
    if stated is None:
        return None
    law = as_distribution(stated, "coins")
    if None in law or not all(p.is_exact for p in law.values()):
        raise InputError("coins", "must map outcomes other than None to rational probabilities")
    return {outcome: Fraction(p.low) for outcome, p in law.items() if p.low}


#: Repetitions of a state's choice to detect randomness, as (most states so far, repetitions); one beyond.
_REPEATS: Final = ((4, 1000), (64, 16))
#: Largest number of steps of an exact computation; a step multiplies integers that grow with the rounds.
_MOST_STEPS: Final = 400_000


@dataclass(frozen=True)
class Views:
    """Exact laws of the views V^0 and V^1, merged by likelihood ratio, and their divergences.

    Every divergence is the larger of the two directions; :meth:`bad_views` is for b = 0 alone.
    """

    rounds: int
    left: dict[Hashable, Fraction]
    right: dict[Hashable, Fraction]
    #: Largest e^ε of the mechanisms that the adversary used, at the δ per round that was given to ``exact``.
    step_ratio: Enclosure
    step_delta: Fraction
    #: Largest number of releases in a view: the number of rounds, or more if rounds have several moves.
    releases: int

    def ratio(self, *, delta: Number = 0) -> Enclosure:
        """Return the exact smallest e^ε for which the view is (ε, δ)-DP."""
        one = Enclosure(Fraction(1), Fraction(1))
        return Enclosure.largest([one, *(max_ratio(*pair, delta=delta) for pair in self._directions())])

    def epsilon(self, *, delta: Number = 0) -> Enclosure:
        """Return the δ-approximate max divergence of the two views; at δ = 0, their max divergence."""
        return self.ratio(delta=delta).log()

    def delta(self, *, epsilon: Number | None = None, ratio: Number | None = None) -> Enclosure:
        """Return the privacy profile δ(ε): the hockey-stick divergence of the two views."""
        return Enclosure.largest(hockey_stick(*pair, epsilon=epsilon, ratio=ratio) for pair in self._directions())

    def kl(self) -> Enclosure:
        """Return the KL divergence of the two views: the expected privacy loss."""
        return Enclosure.largest(kl_divergence(*pair) for pair in self._directions())

    def renyi(self, alpha: Number) -> Enclosure:
        """Return the Renyi divergence of the two views at order ``alpha``."""
        return Enclosure.largest(renyi_divergence(*pair, alpha=alpha) for pair in self._directions())

    def bad_views(self, *, epsilon: Number) -> Enclosure:
        """Return the probability, under b = 0, of the set B of views whose privacy loss ln(P/Q) exceeds ``epsilon``.

        This is the key step in proofs of advanced composition: outside B probabilities differ by at most e^ε, so the
        views are (ε, Pr[B])-DP in this direction. Pr[B] is at least δ(ε) = E[max(0, 1 - e^ε·Q/P)].
        """
        low, high = exp_bounds(exact_nonnegative(epsilon, "epsilon"))
        sure = sum((p for key, p in self.left.items() if self._is_above(key, high)), Fraction(0))
        maybe = sum((p for key, p in self.left.items() if self._is_above(key, low)), Fraction(0))
        return Enclosure(sure, maybe)

    def _is_above(self, key: Hashable, factor: Fraction) -> bool:
        return self.left[key] > factor * self.right[key]

    def bounds(self, *, delta: Number) -> CompositionBounds:
        """Return composition bounds (basic to optimal) for as many releases of the worst mechanism used."""
        if not self.step_ratio.is_finite:
            raise AccountingError("a round has no finite epsilon; compute the views with exact(step_delta=…)")
        return composition_bounds(
            ratio=Fraction(self.step_ratio.high), rounds=self.releases, delta=delta, step_delta=self.step_delta
        )

    def report(self, *, delta: Number) -> str:
        """Return a text that compares the exact privacy of the view with the composition bounds."""
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


class CompositionExperiment:
    """Composition experiment between an adversary and a curator who holds the secret bit b.

    Args:
        adversary: strategy that chooses the moves.
        rounds: largest number of rounds.
        family: mechanisms that the adversary may choose from: a list of them, or a predicate such as
            ``private(ratio=2)``; every mechanism if left out. A move outside it is refused.
    """

    def __init__(self, adversary: Adversary, *, rounds: int, family: Family | Iterable[Releases] | None = None) -> None:
        self.adversary = adversary
        self.rounds = check_count(rounds, "rounds", minimum=0)
        self._family = as_family(family)
        self._coins = coin_law(adversary)

    def view(self, bit: int) -> View:
        """Run the experiment with the secret bit ``bit``; return the view: the coins, if any, then all outputs."""
        if bit not in (0, 1):
            raise InputError("bit", f"must be 0 or 1, got {bit!r}")
        seen: list[Hashable] = []
        state = self.adversary.start()
        if self._coins is not None:
            coins = FiniteMechanism.local({"R": self._coins}).release("R")
            seen.append(coins)
            state = self.adversary.start_with(coins)
        for _ in range(self.rounds):
            turn = self.adversary.choose(state)
            if turn is None:
                break
            output = self._play(turn, bit)
            seen.append(output)
            state = self.adversary.observe(state, output)
        return tuple(seen)

    def _play(self, turn: Turn, bit: int) -> Any:
        moves = as_turn(turn)
        # All moves are checked before any is run: a refused round has no output.
        for move in moves:
            check_move(move, self._family)
        outputs = tuple(move.mechanism.release(move.right if bit else move.left) for move in moves)
        return outputs[0] if isinstance(turn, Move) else outputs

    def exact(self, *, step_delta: Number = 0) -> Views:
        """Return the exact laws of the two views, for finite mechanisms with rational tables.

        ``step_delta`` is the δ at which the bounds state each round's ε; exact divergences do not depend on it.
        """
        slack = exact_probability(step_delta, "step_delta", zero=True)
        return _Exact(self.adversary, self._family, slack).run(self.rounds, self._coins)


Weights = dict[Hashable, tuple[Fraction, Fraction]]


class _Exact:
    """Computation of the exact laws by dynamic programming over (state, likelihood ratio)."""

    def __init__(self, adversary: Adversary, family: Family, step_delta: Fraction) -> None:
        self._adversary = adversary
        self._family = family
        self._step_delta = step_delta
        self._step = Enclosure(Fraction(1), Fraction(1))
        self._known: dict[int, FiniteMechanism] = {}
        self._states = 0
        self._steps = 0

    def run(self, rounds: int, coins: dict[Hashable, Fraction] | None) -> Views:
        live: dict[Hashable, Weights] = {}
        ended: Weights = {}
        if coins is None:
            _add(live.setdefault(self._adversary.start(), {}), Fraction(1), Fraction(1))
        else:
            # R has the same law for b = 0 and b = 1, so it does not change the likelihood ratio of a view.
            for outcome, p in coins.items():
                _add(live.setdefault(self._adversary.start_with(outcome), {}), p, p)
        releases = 0
        for _ in range(rounds):
            following: dict[Hashable, Weights] = {}
            most = 0
            for state, weights in live.items():
                most = max(most, self._advance(state, weights, following, ended))
            releases += most
            live = following
        for weights in live.values():
            for p, q in weights.values():
                _add(ended, p, q)
        left = {key: p for key, (p, _) in ended.items()}
        right = {key: q for key, (_, q) in ended.items()}
        return Views(rounds, left, right, self._step, self._step_delta, max(releases, rounds))

    def _advance(self, state: Hashable, weights: Weights, following: dict[Hashable, Weights], ended: Weights) -> int:
        """Play one round from a state; return its number of moves."""
        turn = self._choice(state)
        if turn is None:
            for p, q in weights.values():
                _add(ended, p, q)
            return 0
        moves = as_turn(turn)
        for outcomes in product(*(self._rows(move) for move in moves)):
            outputs = tuple(output for output, _, _ in outcomes)
            a = math.prod((p for _, p, _ in outcomes), start=Fraction(1))
            b = math.prod((q for _, _, q in outcomes), start=Fraction(1))
            target = following.setdefault(self._next(state, outputs[0] if isinstance(turn, Move) else outputs), {})
            self._steps += len(weights)
            if self._steps > _MOST_STEPS:
                raise AccountingError(
                    f"the exact views take more than {_MOST_STEPS:,} steps, which is minutes and more; take fewer "
                    "rounds, or the bounds of composition_bounds(…) and tacit.compose(…)"
                )
            for p, q in weights.values():
                _add(target, p * a, q * b)
        return len(moves)

    def _choice(self, state: Hashable) -> Turn | None:
        """Return the adversary's choice; repeat it to check that it is a function of the state.

        Randomness that changes one choice in a hundred is nearly always detected, one in a million hardly ever.
        """
        self._states += 1
        turn = self._adversary.choose(state)
        for _ in range(next((times for most, times in _REPEATS if self._states <= most), 1)):
            again = self._adversary.choose(state)
            if not _is_same(turn, again):
                raise AccountingError(
                    "the adversary chose differently from one state: its coins must be part of its view; "
                    "state their law in coins(), or use RandomizedStrategy"
                )
        return turn

    def _next(self, state: Hashable, output: Hashable) -> Hashable:
        following = self._adversary.observe(state, output)
        if following != self._adversary.observe(state, output):
            raise AccountingError("the adversary's memory is random; state the law of its coins in coins()")
        return following

    def _rows(self, move: Move) -> list[tuple[Hashable, Fraction, Fraction]]:
        if not self._family(move.mechanism):
            check_move(move, self._family)
        rows = table_rows(move)
        mechanism = move.mechanism
        if isinstance(mechanism, FiniteMechanism) and id(mechanism) not in self._known:
            # A reference to the mechanism keeps its id from being reused.
            self._known[id(mechanism)] = mechanism
            self._step = Enclosure.largest([self._step, mechanism.ratio(delta=self._step_delta)])
        return rows


def _is_same(turn: Turn | None, again: Turn | None) -> bool:
    """Return whether two choices are equivalent: the same mechanisms and databases, or equal tables."""
    if turn is None or again is None:
        return turn is again
    mine, theirs = as_turn(turn), as_turn(again)
    if len(mine) != len(theirs) or isinstance(turn, Move) != isinstance(again, Move):
        return False
    return all(
        (a.mechanism is b.mechanism and a[1:] == b[1:]) or table_rows(a) == table_rows(b)
        for a, b in zip(mine, theirs, strict=True)
    )


def _add(weights: dict[Hashable, tuple[Fraction, Fraction]], p: Fraction, q: Fraction) -> None:
    if p == 0 and q == 0:
        return
    key = p / q if q else "never under b = 1"
    old_p, old_q = weights.get(key, (Fraction(0), Fraction(0)))
    weights[key] = old_p + p, old_q + q


def azuma(*, steps: Iterable[Number] | None = None, ranges: Iterable[Number] | None = None, above: Number) -> Enclosure:
    """Bound Pr[S >= t] for a martingale S: exp(-t²/(2Σc_i²)) by steps, exp(-2t²/Σr_i²) by ranges.

    Args:
        steps: c_1, …, c_k: the i-th step is at most c_i in size.
        ranges: instead of them r_1, …, r_k: the i-th step lies in an interval of length r_i, wherever that lies.
        above: t, how far the sum exceeds its start.

    >>> print(azuma(ranges=[2] * 100, above=20))
    0.1353352832
    """
    if (steps is None) == (ranges is None):
        raise InputError("steps", "state either steps or ranges, not both and not neither")
    squares = sum((exact_nonnegative(step, "steps") ** 2 for step in steps or ()), Fraction(0))
    squares += sum((exact_nonnegative(length, "ranges") ** 2 for length in ranges or ()), Fraction(0)) / 4
    t = exact_nonnegative(above, "above")
    if squares == 0:
        sure = Fraction(int(t == 0))
        return Enclosure(sure, sure)
    return Enclosure(*exp_bounds(-(t * t) / (2 * squares)))


def loss_threshold(
    *, rounds: int, z: Number, epsilon: Number | None = None, ratio: Number | None = None, tight: bool = False
) -> Enclosure:
    """Return kβ + z·√k·ε, the loss that k rounds exceed with probability at most e^(-z²/2).

    ``tight`` takes β = ε(e^ε - 1)/(e^ε + 1) instead of the lemma's ε(e^ε - 1).

    >>> print(loss_threshold(rounds=100, z="5.2565", epsilon="0.1"))
    6.308209181
    """
    k, width = check_count(rounds, "rounds", minimum=0), exact_nonnegative(z, "z")
    drift = kl_bound(epsilon=epsilon, ratio=ratio, tight=tight)
    if epsilon is not None:
        size = Enclosure(exact_nonnegative(epsilon, "epsilon"), exact_nonnegative(epsilon, "epsilon"))
    else:
        size = Enclosure(*log_bounds(exact_nonnegative(ratio or 0, "ratio")))
    low, high = sqrt_bounds(Fraction(k))
    return Enclosure(k * drift.low + width * low * size.low, k * drift.high + width * high * size.high)


@dataclass(frozen=True)
class AzumaPoint:
    """Loss threshold for one z, the exact probability of a larger loss, and Azuma's bound on it."""

    z: Fraction
    threshold: Enclosure
    probability: Enclosure
    bound: Enclosure

    @property
    def holds(self) -> bool:
        """Whether the exact probability is proven to be at most the bound."""
        return self.probability.high <= self.bound.high

    def __str__(self) -> str:
        return (
            f"z = {float(self.z):g}: Pr[loss > {self.threshold.up:.4f}] = {self.probability.up:.3e} "
            f"<= e^(-z²/2) = {self.bound.up:.3e}"
        )


def azuma_points(views: Views, zs: Iterable[Number], *, tight: bool = False) -> tuple[AzumaPoint, ...]:
    """Return, for each z, the exact probability that the loss of the views exceeds kβ + z√k·ε, and Azuma's bound.

    k is the number of releases in a view, ε that of the worst mechanism used; ``tight`` takes the tight drift β.
    """
    step = views.step_ratio
    if not step.is_exact:
        raise AccountingError("the mechanisms have no exact e^ε; give them by a rational ratio")
    points = []
    for value in zs:
        z = exact_nonnegative(value, "z")
        threshold = loss_threshold(rounds=views.releases, z=z, ratio=Fraction(step.high), tight=tight)
        # The lower end of the threshold gives an upper bound on the probability.
        found = views.bad_views(epsilon=max(Fraction(threshold.low), Fraction(0)))
        points.append(AzumaPoint(z, threshold, found, Enclosure(*exp_bounds(-z * z / 2))))
    return tuple(points)


class LossStep(NamedTuple):
    """One round of a run: its output, privacy loss (in nats), conditional expected loss, and the sums so far.

    ``martingale`` is the sum of losses less the sum of expected losses: its conditional expectation after the next
    round is its present value.
    """

    output: Any
    loss: float
    expected: float
    total: float
    martingale: float


def loss_path(experiment: CompositionExperiment, view: Sequence[Any]) -> list[LossStep]:
    """Return the privacy loss of each round of a ``view`` from the experiment, for finite mechanisms.

    The loss of a round is ln(P/Q) of its output, for b = 0 against b = 1; its conditional expectation under b = 0 is
    the KL divergence of the two laws.
    """
    adversary, outputs = experiment.adversary, list(view)
    if adversary.coins() is None:
        state = adversary.start()
    else:
        if not outputs:
            raise InputError("view", "must begin with the adversary's coins")
        state = adversary.start_with(outputs.pop(0))
    steps: list[LossStep] = []
    total = martingale = 0.0
    for output in outputs:
        turn = adversary.choose(state)
        if turn is None:
            raise InputError("view", "goes on after the adversary has stopped")
        moves = as_turn(turn)
        parts = (output,) if isinstance(turn, Move) else tuple(output)
        loss = expected = 0.0
        for move, part in zip(moves, parts, strict=True):
            rows = {seen: (p, q) for seen, p, q in table_rows(move)}
            if part not in rows:
                raise InputError("view", "holds an output that the mechanism cannot give")
            p, q = rows[part]
            loss += _log(p, q)
            expected += kl_divergence({o: a for o, (a, _) in rows.items()}, {o: b for o, (_, b) in rows.items()}).up
        total += loss
        martingale += loss - expected
        steps.append(LossStep(output, loss, expected, total, martingale))
        state = adversary.observe(state, output)
    return steps


def _log(p: Fraction, q: Fraction) -> float:
    if p == 0 or q == 0:
        return float("inf") if q == 0 else float("-inf")
    low, high = log_bounds(p / q)
    return float((low + high) / 2)


#: Number of orders of each move of the menu.
Orders = tuple[int, ...]
Rule = Callable[[Orders], bool]


class _State(NamedTuple):
    likelihood: Fraction | None
    orders: Orders


class WorstAdversary(Adversary):
    """Adversary that attains the largest δ; run it in a :class:`CompositionExperiment` to see its views."""

    def __init__(self, menu: Sequence[Move], rule: Rule, rounds: int, ratio: Fraction) -> None:
        self._menu = tuple(menu)
        self._rule = rule
        self._rounds = rounds
        self._ratio = ratio
        self._rows = [table_rows(move) for move in self._menu]
        self._known: dict[_State, tuple[Fraction, int | None]] = {}

    @property
    def delta(self) -> Fraction:
        """Exact largest δ at e^ε = ratio, for b = 0 against b = 1."""
        return self._best(self.start())[0]

    def start(self) -> _State:
        """Return the initial state: likelihood ratio 1, no orders."""
        return _State(Fraction(1), (0,) * len(self._menu))

    def choose(self, state: Any) -> Move | None:
        """Return the move that leads to the largest δ, or None to stop."""
        if state.likelihood is None:
            return None
        choice = self._best(state)[1]
        return None if choice is None else self._menu[choice]

    def observe(self, state: Any, output: Hashable) -> Hashable:
        """Return the state after an output: the new likelihood ratio, and one more order."""
        choice = self._best(state)[1]
        if choice is None:
            raise InputError("state", "is one in which the adversary has stopped")
        orders = _one_more(state.orders, choice)
        a, b = next((a, b) for seen, a, b in self._rows[choice] if seen == output)
        return _State(state.likelihood * a / b if b else None, orders)

    def _best(self, state: _State) -> tuple[Fraction, int | None]:
        """Return the largest E_Q[max(0, P/Q - e^ε)] from this state on, per unit of Q, and the move that attains it."""
        if state in self._known:
            return self._known[state]
        likelihood = state.likelihood or Fraction(0)
        best: tuple[Fraction, int | None] = (max(Fraction(0), likelihood - self._ratio), None)
        if sum(state.orders) < self._rounds:
            for choice in range(len(self._menu)):
                orders = _one_more(state.orders, choice)
                if self._rule(orders):
                    value = self._value(likelihood, orders, choice)
                    if value > best[0]:
                        best = value, choice
        self._known[state] = best
        return best

    def _value(self, likelihood: Fraction, orders: Orders, choice: int) -> Fraction:
        value = Fraction(0)
        for _, a, b in self._rows[choice]:
            # An output that is impossible for b = 1 counts with its whole probability.
            value += b * self._best(_State(likelihood * a / b, orders))[0] if b else likelihood * a
        return value


def worst_adversary(menu: Sequence[Move], *, rule: Rule, rounds: int, ratio: Number) -> WorstAdversary:
    """Return the adversary of at most ``rounds`` orders that maximises δ at e^ε = ``ratio``, under ``rule``.

    ``rule`` decides whether the numbers of orders of each move are admitted; it must be monotone: fewer orders than
    admitted ones are admitted too. :func:`admitted_by` makes a rule of a filter, :func:`curve_fits` one of exact
    composition.
    """
    if not menu:
        raise InputError("menu", "must hold at least one move")
    return WorstAdversary(menu, rule, check_count(rounds, "rounds", minimum=0), exact_positive(ratio, "ratio"))


def admitted_by(make_filter: Callable[[], Filter], charges: Sequence[Charge]) -> Rule:
    """Return the rule of a filter; ``charges[i]`` is the charge of the i-th move of the menu."""

    def rule(orders: Orders) -> bool:
        budget = make_filter()
        try:
            for charge, count in zip(charges, orders, strict=True):
                if count:
                    budget.charge(charge, count)
        except BudgetError:
            return False
        return True

    return _remembered(rule)


def curve_fits(menu: Sequence[Move], *, ratio: Number, delta: Number) -> Rule:
    """Return the "natural" rule: compose the orders exactly, as if fixed in advance, and compare with ``delta``.

    Stopping by a privacy loss distribution or by optimal composition is this rule. It is not a valid filter.
    """
    promised = exact_probability(delta, "delta", zero=True)

    def rule(orders: Orders) -> bool:
        plan = [move for move, count in zip(menu, orders, strict=True) for _ in range(count)]
        fixed = Strategy(lambda view: plan[len(view)])
        composed = CompositionExperiment(fixed, rounds=len(plan)).exact()
        return composed.delta(ratio=ratio).high <= promised

    return _remembered(rule)


def _remembered(rule: Rule) -> Rule:
    known: dict[Orders, bool] = {}

    def remembered(orders: Orders) -> bool:
        if orders not in known:
            known[orders] = rule(orders)
        return known[orders]

    return remembered


def _one_more(orders: Orders, choice: int) -> Orders:
    return (*orders[:choice], orders[choice] + 1, *orders[choice + 1 :])
