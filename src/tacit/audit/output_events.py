"""Search for an event that tells two output laws apart: a learned score and a threshold.

A score estimates the log-likelihood ratio of an output. Several are tried, from counting equal outputs to a linear
combination of all features; which one, and at which threshold, is decided on samples that are not used afterwards.
Nothing here has to be right for an audit to be valid: a poor score makes a weak event, never a false alarm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.audit.output_features import Observation, Sample

__all__ = ["OutputEvent", "Score", "learn_scores"]

#: With more different outputs than this share of the samples, counting equal ones says nothing.
_FEW: Final = 0.1
_BINS: Final = 40
_STEPS: Final = 25


class Score(ABC):
    """Larger where the first law is likelier."""

    #: In words.
    name: str

    @abstractmethod
    def __call__(self, sample: Sample) -> NDArray[np.float64]:
        """The scores of some outputs."""


@dataclass(frozen=True)
class OutputEvent:
    """The outputs whose score is at least, or at most, a threshold.

    Args:
        score: learned before.
        threshold: chosen before.
        above: whether the event is "at least".
    """

    score: Score
    threshold: float
    above: bool

    def holds(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Membership of outputs in the event, by their scores."""
        return scores >= self.threshold if self.above else scores <= self.threshold

    def __str__(self) -> str:
        return (
            f"{self.score.name}: the estimated loss is {'at least' if self.above else 'at most'} {self.threshold:.3g}"
        )


def learn_scores(first: Sample, second: Sample, names: Sequence[str]) -> list[Score]:
    """Scores learned from samples of the two laws; ``names`` says what the columns of their tables are."""
    table = np.vstack([first.table, second.table])
    is_first = np.arange(len(table)) < len(first.table)
    varies = np.flatnonzero(np.ptp(table, axis=0) > 0)
    scores: list[Score] = [Binned(j, names[j], table[:, j], is_first) for j in varies.tolist()]
    if len(scores) > 1:
        scores.append(Combined(table, is_first))
    outputs = {each.label for each in (*first.observations, *second.observations)}
    if not scores or len(outputs) <= _FEW * len(table):
        scores.append(Counted(first.observations, second.observations))
    return scores


class Counted(Score):
    """By how often exactly this output was seen."""

    name = "equal outputs, counted"

    def __init__(self, first: Sequence[Observation], second: Sequence[Observation]) -> None:
        ones, twos = Counter(o.label for o in first), Counter(o.label for o in second)
        self._scores = {
            label: _log_ratio(ones[label], len(first), twos[label], len(second)) for label in {*ones, *twos}
        }

    def __call__(self, sample: Sample) -> NDArray[np.float64]:
        return np.array([self._scores.get(each.label, 0.0) for each in sample.observations])


class Binned(Score):
    """By the share of both samples in a bin of one feature."""

    def __init__(self, column: int, name: str, values: NDArray[np.float64], is_first: NDArray[np.bool_]) -> None:
        self.name = name
        self._column = column
        distinct = np.unique(values)
        if len(distinct) > _BINS:
            distinct = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
        self._edges = distinct
        bins = np.searchsorted(self._edges, values)
        ones = np.bincount(bins[is_first], minlength=len(self._edges) + 1)
        twos = np.bincount(bins[~is_first], minlength=len(self._edges) + 1)
        n, m = int(is_first.sum()), int((~is_first).sum())
        self._scores = np.array([_log_ratio(a, n, b, m) for a, b in zip(ones, twos, strict=True)])

    def __call__(self, sample: Sample) -> NDArray[np.float64]:
        bins = np.searchsorted(self._edges, sample.table[:, self._column])
        return np.asarray(self._scores[bins], dtype=np.float64)


class Combined(Score):
    """A logistic regression on all features, standardised."""

    name = "all features together"

    def __init__(self, table: NDArray[np.float64], is_first: NDArray[np.bool_]) -> None:
        self._middle = table.mean(axis=0)
        self._spread = np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)
        self._weights = _logistic(self._standard(table), is_first)

    def __call__(self, sample: Sample) -> NDArray[np.float64]:
        return np.asarray(self._standard(sample.table) @ self._weights, dtype=np.float64)

    def _standard(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = np.clip((table - self._middle) / self._spread, -1e3, 1e3)
        return np.hstack([scaled, np.ones((len(table), 1))])


def _logistic(rows: NDArray[np.float64], is_first: NDArray[np.bool_]) -> NDArray[Any]:
    """Ridge-regularised logistic regression by Newton's method."""
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
    """An estimate of ln(P/Q) that stays finite for counts of zero."""
    return float(np.log((a + 0.5) / (n + 1)) - np.log((b + 0.5) / (m + 1)))
