"""Thread-safe LRU cache bounded by total weight."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = ["WeightedLRUCache"]

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")

#: One thing may take this share of the whole, so that a single long text does not drive out all others.
_SHARE: Final = 16


class WeightedLRUCache(Generic[Key, Item]):
    """Things by key; where all of them weigh too much, those go first that were not used for longest.

    Safe to use from several threads. What is kept must never change, because several of them may hold it.

    Args:
        most: what all things together may weigh.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._items: OrderedDict[Key, tuple[Item, int]] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """Total weight."""
        return self._weight

    def get(self, key: Key) -> Item | None:
        """Value under a key, if any."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: Key, item: Item, weight: int) -> Item:
        """Keep a value, unless it weighs too much; returns the value in force for its key: the one kept first."""
        if weight * _SHARE > self._most:
            return item
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                return found[0]
            self._items[key] = item, weight
            self._weight += weight
            while self._weight > self._most:
                _, (_, freed) = self._items.popitem(last=False)
                self._weight -= freed
        return item

    def __len__(self) -> int:
        return len(self._items)
