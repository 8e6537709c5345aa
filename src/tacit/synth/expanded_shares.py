"""Numbers of [0, 1) that follow from a text, for rows that every process draws alike."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


class ExpandedShares:
    """Numbers of [0, 1) that follow from a text; the text is public, and so is what is drawn with them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._calls = 0

    def __call__(self, count: int) -> NDArray[np.float64]:
        """So many numbers, other ones at each call."""
        self._calls += 1
        words = hashlib.shake_256(f"{self._calls} {self._text}".encode()).digest(8 * count)
        return (np.frombuffer(words, dtype="<u8") >> np.uint64(11)).astype(np.float64) * 2.0**-53
