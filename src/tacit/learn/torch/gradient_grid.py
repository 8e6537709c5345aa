"""The public grid that gradients are put on: a function of how many numbers a network has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The clip in steps of the grid, for networks of up to :data:`_FEW_NUMBERS` parameters. Noise in one number is about as
#: large, so that a finer grid would cost time and be no better: sums of such numbers are exact in float32, mostly, and
#: noise of this size takes half a word.
STEPS: Final = 1 << 20
#: Numbers up to which that is fine enough: what rounding adds to a gradient's length grows with their root.
_FEW_NUMBERS: Final = 1 << 18
_FINER: Final = 1 << 24


@dataclass(frozen=True)
class GradientGrid:
    """Steps of a grid.

    Attributes:
        steps: of the clip: what one example adds is an integer vector of at most this norm.
        inputs: of 1 in what goes into a layer; what comes back has ``steps / inputs`` per unit of the clip.
    """

    steps: int
    inputs: int

    @classmethod
    def of(cls, numbers: int) -> GradientGrid:
        """The grid for a network with so many trained numbers, which are public."""
        return cls(STEPS, 1 << 7) if numbers <= _FEW_NUMBERS else cls(_FINER, 1 << 8)

    @property
    def longest(self) -> float:
        """Bound on the square of a norm as floats see it: below that of the clip by more than their rounding."""
        return float(self.steps) ** 2 * (1 - 2.0**-9)
