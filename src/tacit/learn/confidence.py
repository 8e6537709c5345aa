"""Confidence of a classifier: one factor of all scores, from noisy slopes of the loss along it.

Noise, shrinking and few rounds leave scores that are too cautious. How much, one number tells: the factor a at which
the loss of scores a·z is least. The loss is convex in a, so its slope at a few public factors, released once, shows
where it is zero. Which class is the likeliest stays. ``confidence.proof.md`` has the bound.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from tacit.core.numbers import float_nearest
from tacit.learn import release
from tacit.learn.binned import BinnedRows, Floats
from tacit.learn.budget_allocation import Phase
from tacit.learn.integer_rows import Integers, scale_rows
from tacit.learn.losses import GRID, WHOLE, Loss, clip_residuals
from tacit.learn.weights import shared

#: Factors at which slopes are released, in eighths.
FACTORS: Final = (4, 6, 8, 11, 16, 23, 32)
_EIGHTHS: Final = 3
#: Scores count up to this far.
_REACH: Final = 4
#: Steps beyond which scores are cut first: no square leaves 62 bits, whatever the numbers of trees and features.
_FARTHEST: Final = 1 << 24
#: Part of the privacy, beside that of all other releases.
_SHARE: Final = Fraction(1, 12)
#: Below this ε all of the privacy goes to the scores themselves.
LEAST_EPSILON: Final = 3
#: Slopes of fewer times their noise say nothing.
_CERTAIN: Final = 2
#: Size that the logarithm of the factor is expected to have.
_SIZE: Final = 0.5


def confidence_phase(clip: int) -> Phase:
    """Cost of the slopes: a row adds at most clip times the reach to each."""
    return Phase("confidence", len(FACTORS) * (clip * _REACH) ** 2, len(FACTORS), _SHARE)


def raw_slopes(loss: Loss, clip: int, logits: Integers, rows: BinnedRows) -> Integers:
    """Slopes of the loss at each factor before noise, exactly; a row adds at most clip·reach to each.

    Args:
        loss: of the model.
        clip: norm of residuals.
        logits: scores of the rows, in steps of the loss.
        rows: targets and shares.
    """
    logits = np.clip(logits, -_FARTHEST, _FARTHEST)
    near, allowed = scale_rows(logits, _REACH * GRID, smallest=_REACH * GRID), np.full(len(logits), clip)
    total = np.zeros(len(FACTORS), dtype=np.int64)
    for place, factor in enumerate(FACTORS):
        residuals = clip_residuals(loss.residuals(logits * factor >> _EIGHTHS, rows.targets), allowed)
        product = (residuals * near).sum(axis=1, keepdims=True)
        total[place] = shared(np.sign(product) * (np.abs(product) // GRID), rows.shares).sum()
    return total


def scale_of(raw: Integers, sigma2: Fraction) -> float:
    """The factor at which the noisy slope is zero, pulled to one as far as noise asks for."""
    noisy = release.release_gaussian(raw, sigma2) / WHOLE
    noise = math.sqrt(float_nearest(sigma2)) / WHOLE
    slopes, places = _rising(noisy), np.log(np.array(FACTORS) / 8)
    last = int(np.searchsorted(slopes > 0, True))
    if last == 0:
        return float(np.exp(places[0] * _trust(slopes, places, 0, noise)))
    if last == len(slopes):
        return float(np.exp(places[-1] * _trust(slopes, places, len(slopes) - 2, noise)))
    low, high = slopes[last - 1], slopes[last]
    zero = places[last - 1] + (places[last] - places[last - 1]) * -low / max(high - low, 1e-12)
    return float(np.exp(zero * _trust(slopes, places, last - 1, noise)))


def _trust(slopes: Floats, places: Floats, at: int, noise: float) -> float:
    """Trust in a factor: its expected size beside the noise that steepness makes of it.

    Not at all where the slope at a factor of one may be noise.
    """
    # Over three intervals: slopes of neighbours that noise brought out of order are one number.
    low, high = max(at - 1, 0), min(at + 2, len(slopes) - 1)
    steep = (slopes[high] - slopes[low]) / (places[high] - places[low])
    usual = _SIZE**2 / (_SIZE**2 + (noise / max(float(steep), 1e-9)) ** 2)
    beyond = float(slopes[FACTORS.index(8)]) / (_CERTAIN * noise)
    return usual * max(1 - 1 / max(beyond**2, 1e-12), 0.0)


def _rising(values: Floats) -> Floats:
    """The nearest sequence that never falls: averages of neighbours that are out of order."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, few), (other, more) = blocks[-2:]
            blocks[-2:] = [((one * few + other * more) / (few + more), few + more)]
    return np.repeat([value for value, _ in blocks], [count for _, count in blocks])
