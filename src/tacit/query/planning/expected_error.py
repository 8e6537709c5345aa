"""Expected error of each aggregate, from public parameters.

Counts and sums have one error whatever the data. Averages and variances divide by the number of values, so their
error is stated for a number that is *supposed*; quantiles are off by so many values in rank, and the most common
category by so many values in count. All errors are about the bounded, quantised truth: what clamping and dropped
groups take away is not noise and is not in them.

With V values in truth, noise of at most v, c, s steps in their number, centred sum and squares, and h the largest
distance from the centre:

* average: |C/V - C′/V′| <= (c + h·v)/(V - v); released jointly, at most w/V, where w bounds both noises of the block
  (as in ``mechanisms/mean.proof.md``);
* variance: with a the bound of the average, (s + h²·v)/(V - v) + 2h·a + a²; times V/(V-1) for the sample form;
* standard deviation: |√x - √y| <= √|x - y|.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tacit.core.numbers import sqrt_bounds
from tacit.mechanisms.base import per_output_beta
from tacit.query.planning.noise_distribution import NoiseLaw

if TYPE_CHECKING:
    from tacit.query.planning.pricing import Priced
from tacit.query.planning.quantile_tree import rank_error
from tacit.query.question import Aggregate, AggregateKind, FinalAggregation

__all__ = ["ExpectedError", "error_kind", "expected_error"]

_SAMPLE = (AggregateKind.VAR_SAMP, AggregateKind.STDDEV_SAMP)
_DEVIATIONS = (AggregateKind.STDDEV_SAMP, AggregateKind.STDDEV_POP)
_RANKED = (AggregateKind.MIN, AggregateKind.MAX, AggregateKind.QUANTILE)


def error_kind(kind: AggregateKind) -> str:
    """What an error is counted in: ``"value"``, ``"rank"`` or ``"count"``; see :class:`ExpectedError`."""
    if kind is AggregateKind.MOST_COMMON:
        return "count"
    return "rank" if kind in _RANKED else "value"


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The error of one cell of an aggregate.

    Args:
        label: of the aggregate.
        bound: exceeded with probability at most 1 - confidence; None when it depends on what is not known beforehand.
        kind: ``"value"``, ``"rank"`` (so many values before or after in order) or ``"count"`` (so many values fewer
            than the most common has).
        supposing: the number of values in a group for which it holds; None when it holds for any.
        power: ``bound`` is to be multiplied by this power of the larger of the AUTO bounds, which are not found yet.
    """

    label: str
    bound: Fraction | None
    kind: str
    supposing: int | None = None
    power: int = 0


def expected_error(
    final: FinalAggregation, aggregate: Aggregate, priced: Priced, beta: Fraction, suppose: int | None
) -> ExpectedError:
    """The error of one cell of ``aggregate`` that is exceeded with probability at most ``beta``."""
    kind = aggregate.kind
    if kind is AggregateKind.MOST_COMMON:
        return ExpectedError(aggregate.label, _choice_error(final, aggregate, priced, beta), "count")
    first = aggregate.measures[0]
    if kind in _RANKED:
        release = priced.release_of(first)
        fraction = {AggregateKind.MIN: Fraction(0), AggregateKind.MAX: Fraction(1)}.get(kind, aggregate.parameter)
        if release.block.tree is None or fraction is None or release.mechanism == "constant":
            return ExpectedError(aggregate.label, Fraction(0), "rank")
        bound = rank_error(release.block.tree, release.law(first), fraction, beta / 2)
        return ExpectedError(aggregate.label, bound, "rank")
    if len(aggregate.measures) == 1:
        measure = final.measures[first]
        return ExpectedError(
            aggregate.label, priced.release_of(first).law(first).error(beta) * measure.unit_of_value, "value"
        )
    if suppose is None:
        return ExpectedError(aggregate.label, None, "value")
    return ExpectedError(aggregate.label, _moment_error(final, aggregate, priced, beta, suppose), "value", suppose)


def _choice_error(final: FinalAggregation, aggregate: Aggregate, priced: Priced, beta: Fraction) -> Fraction:
    index = aggregate.measures[0]
    release, width = priced.release_of(index), final.measures[index].width
    if release.mechanism == "constant":
        return Fraction(0)
    # Two noisy counts change places only if their noises together bridge the gap.
    return 2 * release.law(index).error(per_output_beta(beta, width))


def _moment_error(
    final: FinalAggregation, aggregate: Aggregate, priced: Priced, beta: Fraction, people: int
) -> Fraction | None:
    total = final.measures[aggregate.measures[1]]
    half = max(total.high - total.centre, total.centre - total.low)
    each = beta / len(aggregate.measures)
    noises = [priced.release_of(index).law(index).error(each) for index in aggregate.measures]
    left = people - noises[0]
    if left <= 0:
        return None
    mean = (noises[1] + half * noises[0]) / left
    block = priced.release_of(aggregate.measures[1]).block
    if len(aggregate.measures) == 2:
        if len(block.forms) == 2:
            law = priced.release_of(aggregate.measures[1]).law(aggregate.measures[1])
            both = NoiseLaw(law.kind, law.scale).error(per_output_beta(beta, 2))
            mean = min(mean, both / people)
        return min(mean, Fraction(2 * half)) * total.step
    spread = (noises[2] + half**2 * noises[0]) / left + 2 * half * mean + mean**2
    if aggregate.kind in _SAMPLE:
        if people < 2:
            return None
        spread *= Fraction(people, people - 1)
    spread *= total.step**2
    return sqrt_bounds(spread)[1] if aggregate.kind in _DEVIATIONS else spread
