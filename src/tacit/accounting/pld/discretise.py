"""Certified discretisation of a privacy loss law: one law that dominates the pair, one that the pair dominates.

*Upper* (connect the dots; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022): mass whose loss lies between two grid
points is split between them in the only proportion that keeps its probability under P *and* under Q. The result
dominates, is the least such law on the grid, and its error is of second order in the step.

*Lower*: outputs whose losses fall into one cell are merged, which is post-processing; the loss of a merged cell is
ln(P(cell)/Q(cell)). Cells are chosen so that this loss is a grid point, and it is rounded down to one otherwise.
Pairs with atoms are first replaced by a slightly noisier member of their family whose atoms fit the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pld.pairs import ACCURACY, Atoms, DiscreteLaplacePair, LaplacePair, LossPair, TwoPoint
from tacit.core.float_functions import solve_tridiagonal

Floats = NDArray[np.float64]

_MOST_POINTS = 1 << 21
_NEWTON_STEPS = 5


class TooFineError(ArithmeticError):
    """The grid would need more points than memory and time allow."""


@dataclass(frozen=True)
class Lattice:
    """Masses under P of the losses ``start``, ``start + step``, …; the remaining mass is at infinity."""

    start: float
    step: float
    masses: Floats
    infinity: float = 0.0
    #: Relative error of each mass beyond the outward rounding.
    rounding: float = 0.0

    @property
    def end(self) -> float:
        """The largest finite loss."""
        return self.start + self.step * (len(self.masses) - 1)


class _Cells(NamedTuple):
    p: Floats
    q: Floats
    p_error: Floats
    q_error: Floats


def upper_lattice(pair: LossPair, step: float, log_tail: float, lowest: float = -math.inf) -> Lattice:
    """Return a law on the grid that dominates ``pair``.

    Tails beyond e^log_tail go to infinity, losses below ``lowest`` are rounded up.
    """
    edges = _edges(pair, step, log_tail, lowest)
    p, q, p_error, q_error = _cells(pair, edges)
    p_high = p + p_error
    with np.errstate(over="ignore", invalid="ignore"):
        up = (p_high - (q - q_error) * np.exp(edges[:-1])) / -math.expm1(-step)
    # Where e^edge overflows the split is unknown, and all of the mass goes up.
    up = np.where(np.isfinite(up), np.clip(up, 0.0, p_high), p_high)
    masses = np.zeros(len(edges))
    masses[1:] += up
    masses[:-1] += p_high - up
    outside = pair.sides(edges[[0, -1]])
    masses[0] += outside.p_below[0] * (1 + ACCURACY)
    infinity = float(outside.p_above[1]) * (1 + ACCURACY)
    return Lattice(float(edges[0]), step, masses, infinity + (2.0**-1060 if infinity else 0.0))


def lower_lattice(pair: LossPair, step: float, log_tail: float, lowest: float = -math.inf) -> Lattice:
    """Return a law on the grid that ``pair`` dominates; mass beyond the reach or below ``lowest`` may be dropped."""
    match pair:
        case TwoPoint():
            return _lower_two_point(pair, step)
        case LaplacePair():
            return _lower_laplace(pair.epsilon, step)
        case DiscreteLaplacePair():
            return _lower_discrete_laplace(pair, step)
        case Atoms():
            return _lower_atoms(pair, step)
        case _ if pair.spacing is not None:
            return _rounded_down(pair, _edges(pair, step, log_tail, lowest), step)
        case _:
            return _lower_smooth(pair, step, _edges(pair, step, log_tail, lowest))


def _edges(pair: LossPair, step: float, log_tail: float, lowest: float) -> Floats:
    low, high = pair.reach(log_tail)
    low = min(max(low, lowest), high)
    first, last = math.floor((low - pair.anchor) / step) - 1, math.ceil((high - pair.anchor) / step)
    if last - first > _MOST_POINTS:
        raise TooFineError
    result: Floats = pair.anchor + step * np.arange(first, last + 1, dtype=np.float64)
    return result


def _cells(pair: LossPair, edges: Floats) -> _Cells:
    """Return the masses between neighbouring edges, as differences of the smaller tails."""
    sides = pair.sides(edges)
    p, p_error = _differences(sides.p_above, sides.p_below)
    q, q_error = _differences(sides.q_above, sides.q_below)
    return _Cells(p, q, p_error, q_error)


def _differences(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    from_above = above[:-1] < below[1:]
    masses = np.where(from_above, above[:-1] - above[1:], below[1:] - below[:-1])
    error = ACCURACY * np.where(from_above, above[:-1], below[1:])
    return np.maximum(masses, 0.0), error


def _lower_smooth(pair: LossPair, step: float, points: Floats) -> Lattice:
    """Return the law of cells around the grid points, moved until the loss of each cell is its grid point.

    Any cells give a valid law; these are found by a few damped Newton steps on all ends at once.
    """
    bounds = np.concatenate((points - step / 2, [points[-1] + step / 2]))
    for _ in range(_NEWTON_STEPS):
        p, q, _, _ = _cells(pair, bounds)
        kept = np.flatnonzero((p > 0) & (q > 0))
        if len(kept) < 3:
            break
        inner = slice(int(kept[0]), int(kept[-1]) + 1)
        ends = slice(inner.start, inner.stop + 1)
        bounds[ends] += _newton(p[inner], q[inner], bounds[ends], points[inner], step)
        bounds = np.maximum.accumulate(bounds)
    return _rounded_down(pair, bounds, step)


def _newton(p: Floats, q: Floats, bounds: Floats, points: Floats, step: float) -> Floats:
    """Return moves of the cells' ends that bring ln(p/q) nearer to ``points``: least squares, a tridiagonal system."""
    losses = np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300))
    off = np.clip(losses - points, -step / 2, step / 2)
    widths = np.maximum(np.diff(bounds), 1e-3 * step)
    density = np.log(np.maximum(p, 1e-300) / widths)
    at_ends = np.concatenate(([density[0]], (density[1:] + density[:-1]) / 2, [density[-1]]))
    # d ln(P/Q) for a small move of either end, by the density of P there and e^{-l} times it for Q.
    left = np.exp(np.minimum(at_ends[:-1] - density, 3.0)) / widths * np.expm1(np.clip(losses - bounds[:-1], 0, step))
    right = np.exp(np.minimum(at_ends[1:] - density, 3.0)) / widths * -np.expm1(np.clip(losses - bounds[1:], -step, 0))
    weights = np.sqrt(p / p.max())
    diagonal = np.zeros(len(bounds))
    diagonal[:-1] += weights * left * left
    diagonal[1:] += weights * right * right
    gradient = np.zeros(len(bounds))
    gradient[:-1] += weights * left * off
    gradient[1:] += weights * right * off
    damped = diagonal + 1e-3 * diagonal.max() * np.maximum(diagonal / diagonal.max(), 1e-9)
    moves = -solve_tridiagonal(damped, weights * left * right, gradient)
    return np.clip(moves, -0.4 * step, 0.4 * step)


def _rounded_down(pair: LossPair, bounds: Floats, step: float) -> Lattice:
    """Return the law of the merged cells, each loss rounded down to a grid that is moved down a little.

    A cell whose loss is slightly below its grid point would lose a whole step. Moving the grid down by a part of a step
    costs every cell that part; the cheapest move is taken.
    """
    p, q, p_error, q_error = _cells(pair, bounds)
    p, q = np.maximum(p - p_error, 0.0), q + q_error
    kept = p > 0
    p, q, ends = p[kept], q[kept], bounds[1:][kept]
    if not len(p):
        return Lattice(0.0, step, np.zeros(1))
    with np.errstate(divide="ignore"):
        # Where Q underflows only the end of the cell is known; a smaller loss is safe.
        places = (np.minimum(np.log(p) - np.log(q), ends) - pair.anchor) / step
    missing = np.round(places) - places
    order = np.argsort(missing)[::-1]
    # Moving by `missing` of a cell saves that cell and all cells that miss by less.
    cost = np.concatenate(([0.0], np.cumsum(p[order])[:-1])) + np.maximum(missing[order], 0.0)
    moved = max(float(missing[order][np.argmin(cost)]), 0.0) + 1e-12
    at = np.floor(places + moved)
    # Mass far below the first cell is dropped; for the lower law less mass is safe.
    first = max(float(at.min()), math.floor((bounds[0] - pair.anchor) / step) - 2.0)
    kept = at >= first
    masses: Floats = np.bincount((at[kept] - first).astype(np.int64), weights=p[kept], minlength=1).astype(np.float64)
    return Lattice(pair.anchor + (first - moved) * step, step, masses)


def _lower_two_point(pair: TwoPoint, step: float) -> Lattice:
    """Return the law with both losses a little nearer to zero, a whole number of steps apart."""
    width = math.floor((pair.high + pair.low) / step * (1 + 1e-13))
    if width == 0:
        return Lattice(0.0, step, np.ones(1))
    # The excess is subtracted from ``low``: a pair with smaller losses on either side is dominated.
    low = min(pair.low, width * step - pair.high)
    if low <= 0:
        return Lattice(0.0, step, np.ones(1))
    high = width * step - low
    top = math.expm1(-low) / math.expm1(-high - low)
    masses = np.zeros(width + 1)
    masses[0], masses[-1] = 1 - top, top
    return Lattice(-low, step, masses * (1 - ACCURACY))


def _lower_laplace(epsilon: float, step: float) -> Lattice:
    """Return Laplace noise of a slightly larger scale: both atoms on the grid, cells two steps wide in between."""
    width = math.floor(2 * epsilon / step * (1 + 1e-13))
    if width == 0:
        return Lattice(0.0, step, np.ones(1))
    epsilon = width * step / 2
    masses = np.zeros(width + 1)
    masses[0], masses[-1] = math.exp(-epsilon) / 2, 0.5
    # Cells from the top down; by symmetry the loss of a cell is exactly its middle.
    tops = np.arange(width, 1, -2)
    masses[tops - 1] += np.exp((tops - 2) * step / 2 - epsilon) / 2 * math.expm1(step)
    if width % 2:
        # One step is left over above the lower atom and is rounded down to it.
        masses[0] += math.exp(-epsilon) / 2 * math.expm1(step / 2)
    return Lattice(-epsilon, step, masses * (1 - ACCURACY))


def _lower_discrete_laplace(pair: DiscreteLaplacePair, step: float) -> Lattice:
    stride = math.floor(2 / pair.scale / step * (1 + 1e-13))
    if stride == 0:
        # Continuous Laplace noise is discrete Laplace noise with independent noise added, hence dominated by it.
        return _lower_laplace(pair.epsilon, step)
    if pair.shift * stride > _MOST_POINTS:
        raise TooFineError
    rate = stride * step / 2
    a = math.exp(-rate)
    x = np.arange(pair.shift, -1, -1)
    atoms = -math.expm1(-rate) / (1 + a) * np.exp(-rate * x)
    atoms[0], atoms[-1] = math.exp(-rate * pair.shift) / (1 + a), 1 / (1 + a)
    masses = np.zeros(pair.shift * stride + 1)
    masses[::stride] = atoms
    return Lattice(-rate * pair.shift, step, masses * (1 - ACCURACY))


def _lower_atoms(pair: Atoms, step: float) -> Lattice:
    """Return symmetric atoms ε, 0, -ε with a smaller ε that fits the grid; for other atoms, no loss at all."""
    epsilon = pair.anchor
    half = math.floor(epsilon / step * (1 + 1e-13))
    if len(pair.losses) != 3 or half == 0:
        return Lattice(0.0, step, np.ones(1))
    neutral = float(np.diff(pair.sides(np.array([-epsilon, 0.0])).p_below)[0])
    shrunk = half * step
    masses = np.zeros(2 * half + 1)
    masses[-1] = (1 - neutral) / (1 + math.exp(-shrunk))
    masses[0] = masses[-1] * math.exp(-shrunk)
    masses[half] = neutral
    return Lattice(-shrunk, step, masses * (1 - ACCURACY))
