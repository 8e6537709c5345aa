"""Hooks at the inputs and outputs of mechanisms, for recording and replay.

Nothing in the mechanisms knows of this. A recording replaces their methods from the outside, for as long as a ``with``
block lasts and for the code that runs inside it; afterwards they are what they were. There is no switch, variable or
setting that data, a question or an analyst could reach.

A seam says of one call what went in as numbers, what the mechanism was calibrated for, and how an output that is frozen
leaves the mechanism behind (a stream that said yes has one yes less to give).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tacit.core.guarantees import Guarantee
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.key_order import plain_order
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import Selection
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK

#: A group of so many units exists in every neighbouring database as well, so its key may be kept in both.
_KEPT_FROM: Final = 2


@dataclass(frozen=True)
class CallInputs:
    """Inputs of one call.

    Args:
        mechanism: its name and public parameters; must be equal on neighbours.
        entries: the numbers that went in, by place or by key.
        declared: the largest move in each norm: ``l1``, ``l2 squared``, ``linf``, ``entries`` (how many may move).
        absent_is_zero: whether a key that one neighbour lacks counts as zero.
        guarantee: what the call costs, if it says so.
        stream: where one price pays for many calls, what they belong to.
    """

    mechanism: str
    entries: Mapping[Any, Any]
    declared: Mapping[str, Fraction] = field(default_factory=dict)
    absent_is_zero: bool = False
    guarantee: Guarantee | None = None
    stream: object | None = None


@contextmanager
def _stateless(_: Any, __: Any) -> Iterator[None]:
    """Most mechanisms remember nothing."""
    yield


@dataclass(frozen=True)
class Hook:
    """Method or function to intercept.

    Args:
        owner: the class or module that has it.
        attribute: its name there.
        read: what a call was given; takes the call's arguments, ``self`` first.
        choose: what to give instead of the true output while recording, where neighbours must both be able to give it.
        leaving: around a true run of the mechanism; afterwards it is in the state it has after giving a frozen output.
        align: the frozen output as the neighbour has to be given it, from the tape's reading, its output and this one.
    """

    owner: Any
    attribute: str
    read: Callable[..., CallInputs]
    choose: Callable[..., Any] | None = None
    leaving: Callable[[Any, Any], AbstractContextManager[None]] = _stateless
    align: Callable[[CallInputs, Any, CallInputs], Any] | None = None


def seams() -> Iterator[Hook]:
    """Every seam there is now: of Tacit's mechanisms, of a user's own, and of the rooms above that are in use."""
    yield Hook(AdditiveNoise, "release", _read_additive)
    yield Hook(OnGrid, "release", _read_on_grid)
    yield Hook(PartitionSelection, "release", _read_partition, choose=_keep_partition, align=_align_partition)
    yield Hook(RandomizedResponse, "release", _read_response)
    yield Hook(RandomizedResponse, "release_many", _read_responses)
    for method in ("ask", "ask_value"):
        yield Hook(SparseVector, method, _read_question, leaving=_one_yes_less)
    for choice in (Exponential, NoisyMax, PermuteAndFlip, TopK):
        yield Hook(choice, "release", _read_scores)
    for kind in _below(Mechanism):
        if not kind.__module__.startswith("tacit.mechanisms.") and "release" in vars(kind):
            yield Hook(kind, "release", _read_unknown)
    # Rooms above this one, which it must not import: found by name, if another module has loaded them.
    query, learn = (sys.modules.get(f"tacit.{room}.release") for room in ("query", "learn"))
    if query is not None:
        yield Hook(query, "draw", _read_draw, choose=_keep_drawn, align=_align_drawn)
    if learn is not None:
        for name in ("release_gaussian", "release_laplace"):
            yield Hook(learn, name, _read_fit)


def _below(kind: type) -> Iterator[Any]:
    each: type
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _numbers(value: Any) -> dict[Hashable, Any]:
    """Numbers by place; exact, so that a difference of one rounding is one."""
    if isinstance(value, Mapping):
        return {key: _exactly(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return {(value.shape, i): _exactly(each) for i, each in enumerate(value.ravel().tolist())}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return {i: _exactly(each) for i, each in enumerate(value)}
    return {0: _exactly(value)}


def _exactly(value: Any) -> Any:
    """A number as a Fraction; what is not one (NaN, text) as text, and a mechanism will refuse it."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return Fraction(value) if isinstance(value, (int, float, Fraction)) else repr(value)
    except (ValueError, OverflowError):
        return repr(value)


def _read_additive(self: Any, value: Any) -> CallInputs:
    if isinstance(self, Gaussian):
        declared = {"l2 squared": self.l2_squared}
        public = f"Gaussian(l2_squared={self.l2_squared}, {self.guarantee!r})"
    else:
        moved = getattr(self, "l1_sensitivity", None)
        declared = {} if moved is None else {"l1": Fraction(moved)}
        public = f"{type(self).__name__}(l1_sensitivity={moved}, {self.guarantee!r})"
    return CallInputs(public, _numbers(value), declared, guarantee=self.guarantee)


def _read_on_grid(self: OnGrid, value: Any) -> CallInputs:
    return CallInputs(f"OnGrid({self.grid!r}, {self.guarantee!r})", _numbers(value), guarantee=self.guarantee)


def _read_scores(self: Selection[Any], scores: Any, candidates: Any = None) -> CallInputs:
    entries = _numbers(scores)
    if candidates is not None:
        entries = dict(zip(map(repr, candidates), entries.values(), strict=False))
    declared = {"linf": self.sensitivity}
    public = f"{type(self).__name__}(sensitivity={self.sensitivity}, {self.guarantee!r})"
    return CallInputs(public, entries, declared, guarantee=self.guarantee)


def _read_question(self: SparseVector, value: Any) -> CallInputs:
    declared = {"linf": self._sensitivity}
    return CallInputs(repr(self), _numbers(value), declared, guarantee=self.guarantee, stream=self)


@contextmanager
def _one_yes_less(self: SparseVector, output: Any) -> Iterator[None]:
    left = self._left
    yield
    self._left = left - (output is not None and output is not False)


def _read_response(self: RandomizedResponse, answer: Any) -> CallInputs:
    return CallInputs(repr(self), {0: repr(answer)}, {"entries": Fraction(1)}, guarantee=self.guarantee)


def _read_responses(self: RandomizedResponse, answers: Iterable[Any]) -> CallInputs:
    entries = {i: repr(answer) for i, answer in enumerate(answers)}
    return CallInputs(repr(self), entries, {"entries": Fraction(1)}, guarantee=self.guarantee)


def _read_partition(self: PartitionSelection, units: Any) -> CallInputs:
    touched = Fraction(self._touched)
    declared = {"l1": touched, "linf": Fraction(1)}
    return CallInputs(repr(self), _numbers(units), declared, isinstance(units, Mapping), self.guarantee)


def _keep_partition(_: PartitionSelection, units: Any) -> Any:
    if isinstance(units, Mapping):
        counts = list(units.values())
        return [key for i, key in plain_order(units).items() if counts[i] >= _KEPT_FROM]
    kept = np.asarray(units) >= _KEPT_FROM
    return kept if isinstance(units, np.ndarray) else kept.tolist()


def _align_partition(before: CallInputs, output: Any, after: CallInputs) -> Any:
    """Kept keys in their public order; one that is gone from the neighbour is left out, and its absence will show."""
    if not before.absent_is_zero:
        return output
    kept = set(output)
    return [key for key in plain_order(after.entries).values() if key in kept]


def _read_unknown(self: Mechanism, *args: Any, **kwargs: Any) -> CallInputs:
    """A user's own mechanism: what it calls its sensitivity is taken for it."""
    names = {"l1_sensitivity": "l1", "l2_squared": "l2 squared", "linf_sensitivity": "linf"}
    declared = {norm: Fraction(getattr(self, name)) for name, norm in names.items() if hasattr(self, name)}
    if hasattr(self, "l2_sensitivity"):
        declared["l2 squared"] = Fraction(self.l2_sensitivity) ** 2
    values = [*args, *kwargs.values()]
    entries = {(i, place): each for i, value in enumerate(values) for place, each in _numbers(value).items()}
    return CallInputs(f"{type(self).__name__}({self.guarantee!r})", entries, declared, guarantee=self.guarantee)


def _read_draw(step: Any, keys: Any, raw: Any) -> CallInputs:
    """A mechanism of a query plan: noise with a block's sensitivity, draws of quantiles, or a selection of keys."""
    if hasattr(step, "fractions"):
        return _read_ranks(step, keys, raw)
    entries = {
        (key, i): int(value)
        for key, row in zip(keys, raw, strict=True)
        for i, value in enumerate(np.ravel(row).tolist())
    }
    selection = not hasattr(step, "block")
    if selection:
        touched = Fraction(step.groups * (1 if step.relation.value == "add_remove" else 2))
        declared = {"l1": touched, "linf": Fraction(1)}
    else:
        moves = step.block.sensitivity
        declared = {"l1": moves.l1, "l2 squared": moves.l2_squared, "linf": moves.linf}
    return CallInputs(repr(step), entries, declared, selection)


def _read_ranks(step: Any, keys: Any, raw: Any) -> CallInputs:
    """Places that occur in each group, and how many values each has; one that does not occur has none."""
    entries = {
        (key, int(place)): int(count) for key, counted in zip(keys, raw, strict=True) for place, count in counted
    }
    most = Fraction(step.rows * (1 if step.relation.value == "add_remove" else 2))
    return CallInputs(repr(step), entries, {"l1": step.groups * most, "linf": most}, absent_is_zero=True)


def _keep_drawn(step: Any, keys: Any, raw: Any) -> Any:  # noqa: ARG001 - named as it may be called
    is_selection = not hasattr(step, "block") and not hasattr(step, "fractions")
    return raw >= _KEPT_FROM if is_selection else NotImplemented


def _align_drawn(before: CallInputs, output: Any, after: CallInputs) -> Any:
    if not before.absent_is_zero or output.dtype != np.bool_:
        return output
    kept = {key for (key, _), keep in zip(before.entries, output, strict=True) if keep}
    return np.array([key in kept for key, _ in after.entries], dtype=np.bool_)


def _read_fit(raw: Any, *noise: Fraction, **named: Fraction) -> CallInputs:
    """Learners calibrate elsewhere, so only shape and noise are compared here; their own tests know the sensitivity."""
    return CallInputs(f"noise of {[*noise, *named.values()]}", _numbers(raw))
