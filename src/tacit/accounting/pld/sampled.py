"""Dominating pairs of releases that run on a secret Poisson sample.

Let (P, Q) dominate a release on data with the unit against data without it. On a sample of rate q the unit is there
with probability q, so with it the output has law (1-q)Q + qP and without it Q. Its loss ln(1 - q + q e^L) is
increasing in L, hence the tails follow from those of (P, Q). The other direction, without the unit against with it, has
loss -ln(1 - q + q e^{-L}) for the pair (P, Q) read from the other side. For one pair of neighbours that stays the same
over all releases both are composed, and the larger ε holds (Zhu, Dong and Wang 2022, Theorem 11). Where the neighbours
may change sides from release to release, :class:`EitherPair` dominates both directions at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pld.pairs import LossPair, Sides, normal_sides

__all__ = ["AddedPair", "EitherPair", "RemovedPair", "ReplacedPair", "ThinnedPair"]

Floats = NDArray[np.float64]


class RemovedPair(LossPair):
    """The mixture (1-q)Q + qP against Q: the unit is in the data of the first law."""

    def __init__(self, base: LossPair, rate: float) -> None:
        self._base, self._rate = base, rate
        self.anchor = self._image(base.anchor)

    def _image(self, loss: float) -> float:
        if loss > 600:
            return loss + math.log(self._rate + (1 - self._rate) * math.exp(-loss))
        return math.log1p(self._rate * math.expm1(loss))

    def sides(self, losses: Floats) -> Sides:
        """Tails of (P, Q) at the loss ln(1 + (e^l - 1)/q) that is mapped to l."""
        rate = self._rate
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lifted = np.expm1(np.minimum(losses, 600.0)) / rate
            inner = np.where(losses > 600, losses - math.log(rate), np.log1p(np.maximum(lifted, -1.0)))
        # An atom at the anchor must not slip past its own edge by a rounding of this map.
        inner = np.where(losses == self.anchor, self._base.anchor, inner)
        p_above, p_below, q_above, q_below = self._base.sides(inner)
        return Sides((1 - rate) * q_above + rate * p_above, (1 - rate) * q_below + rate * p_below, q_above, q_below)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """The image of the reach of (P, Q)."""
        low, high = self._base.reach(log_tail)
        return self._image(low), self._image(high)


class AddedPair(LossPair):
    """P against the mixture (1-q)P + qQ: the unit is in the data of the second law only."""

    def __init__(self, base: LossPair, rate: float) -> None:
        self._base, self._rate = base, rate
        self.anchor = self._image(base.anchor)

    def _image(self, loss: float) -> float:
        if loss < -600:
            return loss - math.log(self._rate + (1 - self._rate) * math.exp(loss))
        return -math.log1p(self._rate * math.expm1(-loss))

    def sides(self, losses: Floats) -> Sides:
        """Tails of (P, Q) at the loss -ln(1 + (e^{-l} - 1)/q) that is mapped to l."""
        rate = self._rate
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lifted = np.expm1(np.minimum(-losses, 600.0)) / rate
            inner = -np.where(losses < -600, -losses - math.log(rate), np.log1p(np.maximum(lifted, -1.0)))
        # An atom at the anchor must not slip past its own edge by a rounding of this map.
        inner = np.where(losses == self.anchor, self._base.anchor, inner)
        p_above, p_below, q_above, q_below = self._base.sides(inner)
        return Sides(p_above, p_below, (1 - rate) * p_above + rate * q_above, (1 - rate) * p_below + rate * q_below)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """The image of the reach of (P, Q)."""
        low, high = self._base.reach(log_tail)
        return self._image(low), self._image(high)


class EitherPair(LossPair):
    """The pair that dominates both directions of a sampled release, for a (P, Q) that looks the same from both sides.

    Removing costs more at every γ >= 1 and adding more at every γ < 1, so their maximum has the tails of the first
    above loss zero and those of the second below, and at zero the atom that is left (``pld.proof.md``, section 2).
    """

    def __init__(self, base: LossPair, rate: float) -> None:
        self._removed, self._added = RemovedPair(base, rate), AddedPair(base, rate)
        self.anchor = self._removed.anchor

    def sides(self, losses: Floats) -> Sides:
        """Masses of removing from zero on, masses of adding below."""
        both = zip(self._removed.sides(losses), self._added.sides(losses), strict=True)
        return Sides(*(np.where(losses >= 0, removed, added) for removed, added in both))

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Down as far as adding and up as far as removing goes."""
        return self._added.reach(log_tail)[0], self._removed.reach(log_tail)[1]


class ReplacedPair(LossPair):
    """(1-q)N(0, 1) + qN(μ, 1) against (1-q)N(0, 1) + qN(-μ, 1): one unit replaced by another in a sampled sum.

    The loss at x is ln(1 - q + q e^{μx-μ²/2}) - ln(1 - q + q e^{-μx-μ²/2}), odd and increasing. It is l where
    μx = l/2 + arsinh(sinh(l/2)·(1-q)/q·e^{μ²/2}).
    """

    def __init__(self, mu: float, rate: float) -> None:
        self._mu, self._rate = mu, rate
        # (1-q)/q·e^{μ²/2}; beyond the range of floats nothing is gained by a grid.
        self._odds = (1 - rate) / rate * math.exp(mu * mu / 2)
        if math.isinf(self._odds):
            raise OverflowError

    def sides(self, losses: Floats) -> Sides:
        """Mixtures of normal tails at the place that has the loss."""
        half = np.abs(losses) / 2
        near = np.arcsinh(np.sinh(np.minimum(half, 40.0)) * self._odds)
        # Where sinh would overflow, 2·sinh is e^, and arsinh w is v + ln(1 + √(1 + e^{-2v})) with v = ln w.
        far = np.maximum(half, 40.0) + math.log(self._odds) - math.log(2)
        far = far + np.log1p(np.sqrt(1 + np.exp(-2 * far)))
        risen = np.where(half > 40, far, near)
        place = np.copysign((half + risen) / self._mu, losses)
        middle, up, down = (normal_sides(place - shift) for shift in (0.0, self._mu, -self._mu))
        first = (self._mixed(here, there) for here, there in zip(middle, up, strict=True))
        second = (self._mixed(here, there) for here, there in zip(middle, down, strict=True))
        return Sides(*first, *second)

    def _mixed(self, middle: Floats, moved: Floats) -> Floats:
        mixture: Floats = (1 - self._rate) * middle + self._rate * moved
        return mixture

    def reach(self, log_tail: float) -> tuple[float, float]:
        """By Φ(-z) <= exp(-z²/2), beyond the farther of the two places."""
        z = math.sqrt(max(-2 * log_tail, 1.0)) + self._mu
        high = self._image(self._mu * z - self._mu**2 / 2) - self._image(-self._mu * z - self._mu**2 / 2)
        return -high, high

    def _image(self, exponent: float) -> float:
        if exponent > 600:
            return exponent + math.log(self._rate)
        return math.log1p(self._rate * math.expm1(exponent))


class ThinnedPair(LossPair):
    """(P, Q) with probability q, and otherwise an output that says nothing: sampling when a unit is *replaced*."""

    def __init__(self, base: LossPair, rate: float) -> None:
        self._base, self._rate = base, rate

    def sides(self, losses: Floats) -> Sides:
        """Tails of (P, Q) times q, and an atom of 1-q at loss zero."""
        atom = np.where(losses < 0, 1 - self._rate, 0.0)
        inner = self._base.sides(losses)
        above = [atom, 1 - self._rate - atom] * 2
        return Sides(*(self._rate * side + rest for side, rest in zip(inner, above, strict=True)))

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Reach of (P, Q), and zero."""
        low, high = self._base.reach(log_tail)
        return min(low, 0.0), max(high, 0.0)
