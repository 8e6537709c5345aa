"""Moves of an adversary in one round of the composition experiment, and their checks.

A :class:`Move` is a mechanism and two databases. It must be between neighbours, for the relation under which the
mechanism makes its promise, and its mechanism must be of the *family* that the experiment is about. A round may hold
several moves: the same person is in or out of several databases at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from tacit.core.divergences import Enclosure, ratio_bounds
from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import RDP, ApproxDP, PureDP
from tacit.core.numbers import Number, exact, exact_probability
from tacit.core.relations import Relation, as_relation, is_neighbour
from tacit.lab.finite import FiniteMechanism
from tacit.mechanisms.additive import AdditiveNoise
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import Selection
from tacit.mechanisms.sparse_vector import SparseVector


class Releases(Protocol):
    """Anything with a ``release`` method: every mechanism of Tacit, and :class:`FiniteMechanism`."""

    def release(self, raw: Any, /) -> Any:
        """One noisy answer."""


class Move(NamedTuple):
    """Move of the adversary: a mechanism, and the database it sees for b = 0 and for b = 1.

    ``relation`` is needed where the mechanism does not say itself which inputs are neighbours, as an object of one's
    own with a ``release`` method does not.
    """

    mechanism: Releases
    left: Any
    right: Any
    relation: Relation | str | None = None


#: One round: one move, or several at once.
Turn = Move | Sequence[Move]
#: Whether a mechanism belongs to the family that the adversary chooses from.
Family = Callable[[Releases], bool]


def as_turn(turn: object) -> tuple[Move, ...]:
    """The moves of one round."""
    # A move is a tuple itself.
    moves = tuple(turn) if isinstance(turn, Sequence) and not isinstance(turn, Move) else (turn,)
    if not moves or not all(isinstance(move, Move) for move in moves):
        raise InputError("move", "must be a Move, several of them, or None to stop")
    return tuple(move for move in moves if isinstance(move, Move))


def in_or_out(mechanism: FiniteMechanism, others: Iterable[Hashable], person: Hashable) -> Move:
    """The person's record beside ``others`` if b = 0, ``others`` alone if b = 1, as databases of the mechanism's table.

    >>> from tacit.lab.examples import geometric
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
    """The family of all (ε, δ)-DP mechanisms, with e^ε as ``ratio`` where it is rational.

    A finite mechanism belongs to it if its table does; another one if the guarantee that it states is at least that
    strong. Anything without a guarantee does not belong.
    """
    odds = ratio_bounds(epsilon=epsilon, ratio=ratio)
    most, slack = odds.log(), exact_probability(delta, "delta", zero=True)

    # Kept beside its verdict, so that an id is not used again.
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
    """A family given as a rule, as a list of its mechanisms, or not at all, which admits every mechanism."""
    if family is None:
        return lambda mechanism: True  # noqa: ARG005 - a rule that reads nothing
    if callable(family):
        return family
    members = list(family)
    if not members:
        raise InputError("family", "must hold at least one mechanism")
    # By identity: two tables may be equal and two objects with a release method cannot be compared at all.
    return lambda mechanism: any(mechanism is member for member in members)


def check_move(move: Move, family: Family) -> None:
    """Raise unless the move is between neighbours and its mechanism belongs to the family."""
    if not family(move.mechanism):
        raise InputError("move", "asks for a mechanism outside the family of the experiment; choose one of the family")
    check_neighbours(move)


def check_neighbours(move: Move) -> None:
    """Raise unless the two databases of the move are equal or neighbours for its mechanism."""
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
    """Every output of a move on a finite mechanism, with its exact probability in world 0 and in world 1."""
    mechanism = move.mechanism
    if not isinstance(mechanism, FiniteMechanism):
        raise AccountingError("exact views need finite mechanisms; use estimate(…) for the others")
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
    """How far each number rises from the first world to the second."""
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
