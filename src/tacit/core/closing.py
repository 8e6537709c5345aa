"""Base class for objects with a ``close()`` method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Base of objects that are closed explicitly or at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
