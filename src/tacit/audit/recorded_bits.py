"""Random bits recorded in one run and replayed in the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.noise.entropy import BitSource

__all__ = ["RecordingBits", "ReplayingBits"]


class RecordingBits:
    """Genuine bits, written down where they are drawn outside of a mechanism.

    Args:
        source: of the bits.
        inside: whether a mechanism is drawing; then nothing is written down.
    """

    def __init__(self, source: BitSource, inside: Callable[[], bool]) -> None:
        self._source = source
        self._inside = inside
        self.drawn: list[tuple[str, int, Any]] = []

    def word(self) -> int:
        """64 bits."""
        return int(self._noted("word", 64, self._source.word()))

    def bits(self, count: int) -> int:
        """``count`` bits."""
        return int(self._noted("bits", count, self._source.bits(count)))

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` words."""
        drawn = self._source.words(count)
        self._noted("words", count, drawn.copy())
        return drawn

    def _noted(self, kind: str, count: int, value: Any) -> Any:
        if not self._inside():
            self.drawn.append((kind, count, value))
        return value


class ReplayingBits:
    """Replay recorded bits for as long as they are asked for in the same order and sizes; then genuine ones.

    Args:
        drawn: by :class:`RecordingBits`.
        source: of genuine bits.
        inside: whether a mechanism is drawing; it gets genuine bits.
    """

    def __init__(self, drawn: Sequence[tuple[str, int, Any]], source: BitSource, inside: Callable[[], bool]) -> None:
        self._left = list(drawn)
        self._source = source
        self._inside = inside
        #: Whether something else was asked for.
        self.strayed = False

    def word(self) -> int:
        """64 bits."""
        taped = self._next("word", 64)
        return self._source.word() if taped is None else int(taped)

    def bits(self, count: int) -> int:
        """``count`` bits."""
        taped = self._next("bits", count)
        return self._source.bits(count) if taped is None else int(taped)

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` words."""
        taped: NDArray[np.uint64] | None = self._next("words", count)
        return self._source.words(count) if taped is None else taped.copy()

    def _next(self, kind: str, count: int) -> Any:
        if self._inside() or self.strayed:
            return None
        if not self._left or self._left[0][:2] != (kind, count):
            self.strayed = True
            return None
        return self._left.pop(0)[2]
