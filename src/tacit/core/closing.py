"""Base class for objects with a ``close()`` method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """Something that is closed by hand, or when a block ends."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
