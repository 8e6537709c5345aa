"""Release of sums of gradients through a strategy: encoded in exact integers, noised once, decoded from what came out.

Encoding sees raw sums and is exact: C·G on the integer grid, rounded down at public places. Decoding multiplies by C⁻¹;
it sees released numbers alone and may use floats. ``correlated.proof.md`` has the argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import BudgetError
from tacit.learn import release
from tacit.learn.integer_rows import Integers
from tacit.learn.torch.toeplitz import GRID_BITS, STATE_BITS, Bands, Buffers

Floats = NDArray[np.float64]

#: A coordinate of a sum of gradients beyond this is cut, which moves no two sums further apart: 2²⁰ rows of one sign.
_LARGEST_SUM: Final = 1 << 44
#: Likewise of a buffer.
_LARGEST_STATE: Final = 1 << 61
_LOW: Final = (1 << GRID_BITS) - 1


class CorrelatedRelease:
    """The noisy gradients of one run, step by step.

    Args:
        made: coefficients of the strategy.
        sigma2: σ² of the noise, in steps of the grid.
    """

    def __init__(self, made: Bands | Buffers, sigma2: Fraction) -> None:
        self._sigma2 = sigma2
        self._encoder, self._decoder = (_memory(made, exact=exact) for exact in (True, False))
        self._open = False
        self._released = 0

    def check_whole(self) -> None:
        """Refuse to go on after a step that was broken off: later ones would be decoded with a gap."""
        if self._open:
            raise BudgetError("a step was broken off after its sum was encoded; with a strategy the run ends here")

    def release(self, raw: Integers, step: int) -> Floats:
        """The sum of gradients of a step, counted from 0, with its correlated noise."""
        # A step that was counted and never encoded leaves rows fewer steps apart than their sensitivity allows for.
        self._open |= self._released != step
        self.check_whole()
        self._open = True
        noisy = release.release_gaussian(self._encoded(raw), self._sigma2)
        decoded: Floats = noisy - self._decoder.recalled()
        self._decoder.remember(decoded)
        self._released += 1
        self._open = False
        return decoded

    def _encoded(self, raw: Integers) -> Integers:
        cut = np.clip(raw, -_LARGEST_SUM, _LARGEST_SUM)
        encoded: Integers = cut + self._encoder.recalled()
        self._encoder.remember(cut)
        return encoded


class _Memory(Protocol):
    """Earlier vectors, as far as C looks back."""

    def recalled(self) -> Any:
        """Σ c_k times the vector of k steps ago, over k >= 1; rounded down if exact."""

    def remember(self, vector: Any) -> None:
        """One more vector."""


def _memory(made: Bands | Buffers, *, exact: bool) -> _Memory:
    if isinstance(made, Bands):
        return _ExactBands(made) if exact else _FloatBands(made)
    return _ExactBuffers(made) if exact else _FloatBuffers(made)


class _ExactBands:
    def __init__(self, made: Bands) -> None:
        self._after = made.after
        self._past: deque[Integers] = deque(maxlen=len(made.after))

    def recalled(self) -> Any:
        return _weighted(zip(self._after, self._past, strict=False))

    def remember(self, vector: Integers) -> None:
        self._past.appendleft(vector)


class _FloatBands:
    def __init__(self, made: Bands) -> None:
        self._after = [each / (1 << GRID_BITS) for each in made.after]
        self._past: deque[Floats] = deque(maxlen=len(made.after))

    def recalled(self) -> Any:
        return sum((weight * past for weight, past in zip(self._after, self._past, strict=False)), start=0.0)

    def remember(self, vector: Floats) -> None:
        self._past.appendleft(vector)


class _ExactBuffers:
    def __init__(self, made: Buffers) -> None:
        self._made = made
        self._held: list[Integers] | None = None

    def recalled(self) -> Any:
        if self._held is None:
            return 0
        return _weighted(zip(self._made.weights, self._held, strict=True)) >> STATE_BITS

    def remember(self, vector: Integers) -> None:
        added = vector << STATE_BITS
        if self._held is None:
            self._held = [added.copy() for _ in self._made.decays]
            return
        for place, decay in enumerate(self._made.decays):
            kept: Any = _weighted([(decay, self._held[place])])
            self._held[place] = np.clip(kept + added, -_LARGEST_STATE, _LARGEST_STATE)


class _FloatBuffers:
    def __init__(self, made: Buffers) -> None:
        self._weights, self._decays = (
            [each / (1 << GRID_BITS) for each in part] for part in (made.weights, made.decays)
        )
        self._held: list[Any] = [0.0] * len(self._decays)

    def recalled(self) -> Any:
        return sum((weight * held for weight, held in zip(self._weights, self._held, strict=True)), start=0.0)

    def remember(self, vector: Floats) -> None:
        self._held = [decay * held + vector for decay, held in zip(self._decays, self._held, strict=True)]


def _weighted(pairs: Iterable[tuple[int, Integers]]) -> Any:
    """⌊Σ weight·vector / 2²⁰⌋ exactly: vectors in two halves, of which only the lower ones have a remainder."""
    high: Any = 0
    low: Any = 0
    for weight, vector in pairs:
        high = high + weight * (vector >> GRID_BITS)
        low = low + weight * (vector & _LOW)
    return high + (low >> GRID_BITS)
