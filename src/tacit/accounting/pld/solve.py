"""From the tilted law of the total loss to ε at a given δ, on either side."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pld.convolve import TiltedSum
from tacit.core.float_functions import recur

__all__ = ["lower_epsilon", "upper_epsilon"]

Floats = NDArray[np.float64]

#: Exponents beyond these would leave the range in which masses and their errors can be compared.
_LARGE, _SMALL = 300.0, 700.0


def upper_epsilon(total: TiltedSum, delta: float) -> float | None:
    """An ε that holds at ``delta``, or ``None`` where the window cannot show one."""
    at = total.centre
    room = delta - total.total.infinity * (1 + 1e-12)
    # Above the window: at most e^{K - λh} times the tilted mass there.
    beyond = total.above * math.exp(min(-total.tilt * (float(total.losses[-1]) - at), 700.0))
    exponent = _scaled(room, total)
    if exponent > _LARGE or (exponent < -_SMALL and (beyond or room <= 0)):
        return None
    if exponent < -_SMALL:
        # So little is allowed that only the largest loss will do, and no loss exceeds it.
        return total.total.end
    scaled = math.exp(exponent) * (1 - total.relative) - beyond
    masses = np.maximum(total.masses + total.error, 0.0) * (1 + total.relative)
    return _cross(total, masses, scaled) if scaled > 0 else None


def lower_epsilon(total: TiltedSum, delta: float) -> float | None:
    """An ε below which no statement at ``delta`` can go, or ``None`` where the window cannot show one."""
    exponent = _scaled(delta, total)
    if not -_SMALL < exponent < _LARGE:
        return None
    masses = np.maximum(total.masses - total.error, 0.0) * (1 - total.relative)
    # Mass from outside the window, wrapped onto it, may be part of what is counted.
    wrapped = total.below + total.above
    return _cross(total, masses, math.exp(exponent) * (1 + total.relative), wrapped, lower=True)


def _scaled(value: float, total: TiltedSum) -> float:
    """The logarithm of δ over e^{K - λ·centre}, the scale of the masses once they are tilted back around the centre."""
    scale = total.log_scale - total.tilt * total.centre
    return math.log(value) - scale if value > 0 else -math.inf


def _cross(total: TiltedSum, masses: Floats, room: float, wrapped: float = 0.0, *, lower: bool = False) -> float | None:
    """The ε at which Σ_{l > ε} u(l)(1 - e^{ε-l}) falls to ``room``, with u the masses tilted back and scaled."""
    tilt, step = total.tilt, total.total.step
    with np.errstate(over="ignore"):
        back = np.exp(np.minimum(-tilt * (total.losses - total.centre), 700.0))
    u = (masses * back)[::-1]
    above = np.concatenate(([0.0], np.cumsum(u)[:-1]))
    # Recurrences of positive terms for D_j = Σ_{i>j} u_i (1 - e^{-(i-j)s}) and C_j = Σ_{i>j} u_i e^{-(i-j)s}.
    factor = math.exp(-step)
    deltas = recur(-math.expm1(-step) * above, factor)
    rests = recur(factor * np.concatenate(([0.0], u[:-1])), factor)
    if wrapped:
        # At any ε a mass weighs at most e^{-λε}·e^{-λy}(1 - e^{-y}) with y > 0 its distance, a multiple of the step.
        best = max(math.log1p(1 / tilt) / step, 1.0)
        peak = max(-math.expm1(-m * step) * math.exp(-tilt * m * step) for m in (math.floor(best), math.ceil(best)))
        deltas = deltas - wrapped * peak * back[::-1]
    if not np.isfinite(deltas).all():
        return None
    exceeds = deltas > room
    if not exceeds.any():
        return None if lower else float(total.losses[0])
    j = int(np.argmax(exceeds))
    found, gap, rest = float(total.losses[::-1][j]), deltas[j] - room, rests[j]
    if rest <= 0:
        return found if lower else found + step
    return min(found + math.log1p(gap / rest), found + step)
