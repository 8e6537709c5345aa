"""Lower bound on the privacy loss of any callable, from its outputs, with stated confidence.

If a mechanism is (ε, δ)-DP, then P(S) <= e^ε Q(S) + δ for every event S, where P and Q are the laws of its output on
two neighbours. So an event whose probabilities are *confirmed* to differ more than that proves that it is not.

Samples are used once each: some to learn events, some to choose one, fresh ones to confirm it. The confirmation is two
Clopper–Pearson bounds, exact for any sample size. So the bound is valid whatever the learning does; a mechanism whose
flaw the learned events miss passes, which is no proof of privacy. For that there are :func:`tacit.audit.replay` and
proofs.

*Events.* A score estimates the log-likelihood ratio of an output. Several are tried, from counting equal outputs to a
linear combination of all features; which one, and at which threshold, is decided on samples that are not used
afterwards. No score has to be good for an audit to be valid: a poor score makes a weak event, never a false alarm.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.audit.charts import draw_lower_bound
from tacit.core.charts import save_chart
from tacit.core.errors import InputError, InternalError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number, check_count, exact_probability
from tacit.lab.experiment import probability_bounds
from tacit.mechanisms.base import Mechanism

#: Runs a mechanism once on the data it was made for.
Observer = Callable[[Any], Any]

_MOST_NUMBERS: Final = 64
_MOST_SHAPES: Final = 32
#: Numbers are clipped at this many times the usual spread from the middle.
_FAR: Final = 20.0
_HUGE: Final = 2.0**1000
#: Memory addresses of objects are removed: they are meaningless, and would look like a difference.
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Observation:
    """Features of one output.

    Args:
        label: text that identifies the output; equal outputs have equal labels.
        shape: structure of the output, the text in it, or the exception that was raised.
        numbers: all numbers in the output, in order.
    """

    label: Hashable
    shape: str
    numbers: tuple[int | float, ...]


def observe(mechanism: Observer, data: Any) -> Observation:
    """Run a mechanism once. An exception counts as an output: an analyst sees it."""
    try:
        output = mechanism(data)
    except Exception as problem:
        shape = f"raised {type(problem).__name__}: {problem}"
        return Observation(shape, shape, ())
    numbers: list[int | float] = []
    shape = _walk(output, numbers)
    return Observation((shape, tuple(map(_exactly, numbers))), shape, tuple(numbers))


def _walk(output: Any, numbers: list[int | float]) -> str:
    """Return the structure of an output as text; append its numbers to ``numbers``."""
    if output is None or isinstance(output, (str, bytes)):
        return repr(output)
    if isinstance(output, np.generic):
        return _walk(output.item(), numbers)
    if isinstance(output, (int, float, Fraction)):
        numbers.append(output if isinstance(output, (int, float)) else float(output))
        return "?" if isinstance(output, bool) else "#"
    if isinstance(output, np.ndarray):
        return f"array{output.shape}[{' '.join(_walk(each, numbers) for each in output.ravel().tolist())}]"
    if isinstance(output, Mapping):
        return "{" + ", ".join(f"{key!r}: {_walk(value, numbers)}" for key, value in output.items()) + "}"
    if isinstance(output, (list, tuple)):
        return "[" + " ".join(_walk(each, numbers) for each in output) + "]"
    if isinstance(output, (set, frozenset)):
        return "{" + " ".join(_walk(each, numbers) for each in sorted(output, key=repr)) + "}"
    if is_dataclass(output):
        inside = " ".join(f"{each.name}={_walk(getattr(output, each.name), numbers)}" for each in fields(output))
        return f"{type(output).__name__}({inside})"
    return _ADDRESS.sub("", repr(output))


def _exactly(number: int | float) -> str:
    return number.hex() if isinstance(number, float) else str(number)


@dataclass(frozen=True, eq=False)
class Sample:
    """Outputs of one law, and the features of each."""

    observations: Sequence[Observation]
    table: NDArray[np.float64]


class FeatureReader:
    """Extractor of features; the set of features is fixed on the samples that events are learned from.

    Args:
        observations: observations of both laws.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        usual = [shape for shape, _ in Counter(o.shape for o in observations).most_common(_MOST_SHAPES)]
        # Errors first: of events that distinguish equally well, the first is reported.
        self._shapes = sorted(usual, key=lambda shape: not shape.startswith("raised "))
        self._width = min(max((len(each.numbers) for each in observations), default=0), _MOST_NUMBERS)
        values = _values(observations, self._width)[0]
        low, self._middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        self._spread = np.where(high > low, high - low, 1.0)
        self.names = [f"the shape is {shape}" for shape in self._shapes] + ["how many numbers there are"]
        places = range(1, self._width + 1)
        self.names += [f"number {i}" for i in places]
        self.names += [f"the lowest bit of number {i}" for i in places]
        self.names += [f"what kind of number {i} is" for i in places]
        if self._width > 1:
            self.names += [f"number {i + 1} less number {i}" for i in places[:-1]]
            self.names += ["the largest number", "the smallest number", "the sum of the numbers"]

    def read(self, observations: Sequence[Observation]) -> Sample:
        """Return the features of outputs, one row for each."""
        shapes = {shape: j for j, shape in enumerate(self._shapes)}
        is_shape = np.zeros((len(observations), len(shapes)))
        for row, each in zip(is_shape, observations, strict=True):
            if each.shape in shapes:
                row[shapes[each.shape]] = 1
        counts = np.array([[len(each.numbers)] for each in observations], dtype=np.float64).reshape(-1, 1)
        values, lowest, kinds = _values(observations, self._width)
        # Clipped, so that no outlier dominates a linear score.
        usual = np.clip((values - self._middle) / self._spread, -_FAR, _FAR)
        parts = [is_shape, counts, usual, lowest, kinds]
        if self._width > 1:
            parts += [np.clip(np.diff(values, axis=1), -1e9, 1e9)]
            parts += [f(values, axis=1, keepdims=True) for f in (np.max, np.min)] + [usual.sum(axis=1, keepdims=True)]
        return Sample(observations, np.hstack(parts))


def _values(observations: Sequence[Observation], width: int) -> tuple[NDArray[np.float64], ...]:
    """Return of every number its value, its lowest bit, and its kind if it is not finite: one row for each output."""
    values, lowest, kinds = (np.zeros((len(observations), width)) for _ in range(3))
    for i, each in enumerate(observations):
        for j, number in enumerate(each.numbers[:width]):
            if isinstance(number, float) and not math.isfinite(number):
                kinds[i, j] = 1.0 if math.isnan(number) else math.copysign(2.0, number)
            else:
                values[i, j] = float(number) if abs(number) < _HUGE else _HUGE * (1 if number > 0 else -1)
                lowest[i, j] = _lowest_bit(number)
    return values, lowest, kinds


def _lowest_bit(number: int | float) -> int:
    """Return the exponent of the lowest set bit; 0 for zero."""
    if number == 0:
        return 0
    numerator, denominator = number.as_integer_ratio()
    return ((numerator & -numerator).bit_length() - 1) - (denominator.bit_length() - 1)


#: If more than this share of the samples are distinct, equal outputs are not counted.
_FEW: Final = 0.1
_BINS: Final = 40
_STEPS: Final = 25


class Score(NamedTuple):
    """A score of outputs, with its description: larger where the first law is likelier."""

    name: str
    of: Callable[[Sample], NDArray[np.float64]]


@dataclass(frozen=True)
class OutputEvent:
    """The outputs whose score is at least, or at most, a threshold.

    Args:
        score: a learned score.
        threshold: the threshold, chosen on separate samples.
        above: True for "at least", False for "at most".
    """

    score: Score
    threshold: float
    above: bool

    def holds(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return for each score whether its output is in the event."""
        return scores >= self.threshold if self.above else scores <= self.threshold

    def __str__(self) -> str:
        return (
            f"{self.score.name}: the estimated loss is {'at least' if self.above else 'at most'} {self.threshold:.3g}"
        )


def learn_scores(first: Sample, second: Sample, names: Sequence[str]) -> list[Score]:
    """Learn scores from samples of the two laws; ``names`` are the names of the features."""
    table = np.vstack([first.table, second.table])
    is_first = np.arange(len(table)) < len(first.table)
    varies = np.flatnonzero(np.ptp(table, axis=0) > 0)
    scores = [Score(names[j], _binned(j, table[:, j], is_first)) for j in varies.tolist()]
    if len(scores) > 1:
        scores.append(Score("all features together", _combined(table, is_first)))
    outputs = {each.label for each in (*first.observations, *second.observations)}
    if not scores or len(outputs) <= _FEW * len(table):
        scores.append(Score("equal outputs, counted", _counted(first.observations, second.observations)))
    return scores


def _counted(first: Sequence[Observation], second: Sequence[Observation]) -> Callable[[Sample], NDArray[np.float64]]:
    """Score by the frequency of exactly this output in both samples."""
    ones, twos = Counter(o.label for o in first), Counter(o.label for o in second)
    ratios = {label: _log_ratio(ones[label], len(first), twos[label], len(second)) for label in {*ones, *twos}}
    return lambda sample: np.array([ratios.get(each.label, 0.0) for each in sample.observations])


def _binned(
    column: int, values: NDArray[np.float64], is_first: NDArray[np.bool_]
) -> Callable[[Sample], NDArray[np.float64]]:
    """Score by the shares of both samples in a bin of one feature."""
    edges = np.unique(values)
    if len(edges) > _BINS:
        edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, values)
    ones, twos = (np.bincount(bins[side], minlength=len(edges) + 1) for side in (is_first, ~is_first))
    n, m = int(is_first.sum()), int((~is_first).sum())
    ratios = np.array([_log_ratio(a, n, b, m) for a, b in zip(ones, twos, strict=True)])
    return lambda sample: ratios[np.searchsorted(edges, sample.table[:, column])]


def _combined(table: NDArray[np.float64], is_first: NDArray[np.bool_]) -> Callable[[Sample], NDArray[np.float64]]:
    """Score by logistic regression on all features, standardised."""
    middle, spread = table.mean(axis=0), np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)

    def standard(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.hstack([np.clip((rows - middle) / spread, -1e3, 1e3), np.ones((len(rows), 1))])

    weights = _logistic(standard(table), is_first)
    return lambda sample: np.asarray(standard(sample.table) @ weights, dtype=np.float64)


def _logistic(rows: NDArray[np.float64], is_first: NDArray[np.bool_]) -> NDArray[Any]:
    """Fit ridge-regularised logistic regression by Newton's method."""
    weights = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (chances - is_first) + 1e-3 * weights
        curve = (rows * (chances * (1 - chances))[:, None]).T @ rows + 1e-3 * np.eye(rows.shape[1])
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _log_ratio(a: int, n: int, b: int, m: int) -> float:
    """Estimate ln(P/Q); the estimate stays finite for counts of zero."""
    return float(np.log((a + 0.5) / (n + 1)) - np.log((b + 0.5) / (m + 1)))


_FEWEST: Final = 200
#: Division of the samples among learning, choosing and confirming.
_LEARN, _CHOOSE, _CONFIRM = (0.0, 0.3), (0.3, 0.5), (0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Counts of an event in fresh samples of the law that favours it, and of the other law.

    Args:
        hits: samples of the favouring law in the event.
        misses: samples of the other law in the event.
        samples: number of samples of each law.
        confidence: joint confidence of both bounds.
    """

    hits: int
    misses: int
    samples: int
    confidence: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower bound on the event's probability under the favouring law, and upper bound under the other law."""
        each = (1 + self.confidence) / 2  # either bound may fail
        return (
            probability_bounds(self.hits, self.samples, each)[0],
            probability_bounds(self.misses, self.samples, each)[1],
        )

    def epsilon(self, delta: float) -> float:
        """Return the lower bound on ε at ``delta``: every smaller ε contradicts the bounds."""
        return max(0.0, self.margin(delta))

    def margin(self, delta: float) -> float:
        """Return the lower bound on ε without clamping at 0, so that events that prove nothing can be compared."""
        low, high = self.bounds
        return math.log((low - delta) / high) if low > delta else -math.inf


@dataclass(frozen=True)
class LowerBound:
    """Result of a black-box audit. ``str`` for people, :meth:`to_json` for programs, :meth:`plot` for charts.

    Args:
        epsilon: lower bound on the mechanism's ε at ``delta``, with ``confidence``.
        delta: δ of the bound.
        confidence: probability that the bound is true.
        event: description of the event that distinguishes the neighbours.
        favours: ``"first"`` or ``"second"``: the neighbour on which the event is likelier.
        confirmed: the counts behind the bound.
        claimed: the ε that was claimed at ``delta``, if one was.
        scores: the learned losses of the fresh outputs of both neighbours, for plots.
    """

    epsilon: float
    delta: float
    confidence: float
    event: OutputEvent
    favours: str
    confirmed: Confirmed
    claimed: float | None
    scores: tuple[NDArray[np.float64], NDArray[np.float64]]

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, at the confidence stated."""
        return self.claimed is not None and self.epsilon > self.claimed

    def to_json(self) -> str:
        """Return the result as JSON text; keys are stable."""
        content = {
            "epsilon_at_least": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "claimed_epsilon": self.claimed,
            "violated": self.violated,
            "event": str(self.event),
            "favours": self.favours,
            "seen_in_favoured": self.confirmed.hits,
            "seen_in_other": self.confirmed.misses,
            "samples_of_each": self.confirmed.samples,
        }
        return json.dumps(content, indent=2)

    def __str__(self) -> str:
        sure = f"{100 * self.confidence:g}% sure"
        found = (
            f"epsilon is at least {self.epsilon:.3f} at delta {self.delta:g} ({sure}): an event was seen "
            f"{self.confirmed.hits} times in {self.confirmed.samples} runs on the {self.favours} neighbour and "
            f"{self.confirmed.misses} times on the other. The event: {self.event}."
        )
        if self.claimed is None:
            return found
        verdict = "REFUTED" if self.violated else "not refuted"
        return f"{verdict}: {found} Claimed: epsilon {self.claimed:.3f}."

    def plot(self, path: Any = None) -> Any:
        """Return the ROC curve as an Altair chart; ``path`` saves it."""
        chart = draw_lower_bound(self)
        if path is not None:
            save_chart(chart, path)
        return chart


def lower_bound(
    mechanism: Mechanism | Observer,
    first: Any,
    second: Any,
    *,
    delta: Number = 0,
    claimed: Number | Guarantee | None = None,
    samples: int = 20_000,
    confidence: float = 0.99,
    progress: Callable[[int, int], None] | None = None,
) -> LowerBound:
    """Run a mechanism on two neighbours and bound its privacy loss from below.

    Args:
        mechanism: a Tacit mechanism, or anything that can be called with the data and returns (or raises) something.
        first: a database, as the mechanism takes it.
        second: its neighbour.
        delta: δ at which ε is bounded.
        claimed: the ε, or the guarantee, that is under test; by default a Tacit mechanism's own.
        samples: total number of runs on each neighbour.
        confidence: probability that the bound is true, for any mechanism.
        progress: called now and then with the number of runs done and the total number.
    """
    count = check_count(samples, "samples")
    if count < _FEWEST:
        raise InputError("samples", f"at least {_FEWEST} are needed to learn an event and to confirm it, got {count}")
    if not 0 < confidence < 1:
        raise InputError("confidence", "must lie between 0 and 1, such as 0.99")
    slack = float(exact_probability(delta, "delta", zero=True))
    run = mechanism.release if isinstance(mechanism, Mechanism) else mechanism  # type: ignore[attr-defined]
    guarantee = mechanism.guarantee if claimed is None and isinstance(mechanism, Mechanism) else claimed
    drawn = _draw(run, (first, second), count, progress)
    learn = _between(drawn, *_LEARN)
    reader = FeatureReader([*learn[0], *learn[1]])
    event, favours = _choose(
        learn_scores(reader.read(learn[0]), reader.read(learn[1]), reader.names),
        [reader.read(each) for each in _between(drawn, *_CHOOSE)],
        slack,
        confidence,
    )
    scores = [event.score.of(reader.read(each)) for each in _between(drawn, *_CONFIRM)]
    ours, others = (int(event.holds(each).sum()) for each in (scores if favours == "first" else scores[::-1]))
    confirmed = Confirmed(ours, others, len(scores[0]), confidence)
    return LowerBound(
        epsilon=confirmed.epsilon(slack),
        delta=slack,
        confidence=confidence,
        event=event,
        favours=favours,
        confirmed=confirmed,
        claimed=_epsilon_of(guarantee, slack),
        scores=(scores[0], scores[1]),
    )


_Pair = tuple[list[Observation], list[Observation]]


def _draw(run: Observer, neighbours: tuple[Any, Any], count: int, progress: Callable[[int, int], None] | None) -> _Pair:
    drawn: _Pair = ([], [])
    for i in range(count):
        # In turn, so that any drift during the audit affects both alike.
        for each, data in zip(drawn, neighbours, strict=True):
            each.append(observe(run, data))
        if progress is not None and (i % 256 == 255 or i == count - 1):
            progress(i + 1, count)
        if i == _FEWEST - 1:
            _check_runs(drawn)
    return drawn


def _check_runs(drawn: _Pair) -> None:
    """Refuse samples that are all one error on both neighbours: more likely a wrong call than a private mechanism."""
    shapes = {each.shape for side in drawn for each in side}
    if len(shapes) == 1 and next(iter(shapes)).startswith("raised "):
        raise InputError("mechanism", f"{shapes.pop()}, whichever neighbour it was given")


def _between(drawn: _Pair, start: float, end: float) -> _Pair:
    count = len(drawn[0])
    low, high = int(start * count), int(end * count)
    return drawn[0][low:high], drawn[1][low:high]


def _choose(
    scores: Sequence[Score], samples: Sequence[Sample], delta: float, confidence: float
) -> tuple[OutputEvent, str]:
    """Return the event with the largest bound on separate samples, and the neighbour on which it is likelier."""
    best: tuple[float, OutputEvent, str] | None = None
    for score in scores:
        values = [score.of(each) for each in samples]
        for threshold in _thresholds(values):
            for above, favours in ((True, "first"), (False, "second")):
                event = OutputEvent(score, float(threshold), above)
                inside = [int(event.holds(each).sum()) for each in values]
                ours, others = inside if favours == "first" else inside[::-1]
                looks = Confirmed(ours, others, len(values[0]), confidence).margin(delta)
                if best is None or looks > best[0]:
                    best = looks, event, favours
    if best is None:
        raise InternalError("no score was learned")
    return best[1], best[2]


def _thresholds(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    pooled = np.unique(np.concatenate(scores))
    return pooled if len(pooled) <= 60 else np.unique(np.quantile(pooled, np.linspace(0, 1, 60)))


def _epsilon_of(claimed: Number | Guarantee | None, delta: float) -> float | None:
    if claimed is None:
        return None
    if isinstance(claimed, Guarantee):
        return float(claimed.to_approx(Fraction(delta)).epsilon)
    return float(Fraction(claimed))
