"""Context of paid work: metadata, data, ledger and keys of an open project, and who asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from tacit.engines.protocol import Engine
from tacit.ledger import Ledger
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.request import Account
from tacit.receipts.keyring import Keyring

__all__ = ["Caller", "CuratorContext", "KeyLocks"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Analyst who asks, the key under which a request may be sent again and the conversation (empty for none)."""

    analyst: str
    idempotency_key: str = ""
    conversation: str = ""


class KeyLocks:
    """Locks by key, each kept only while a thread holds it or waits for it.

    Equal questions wait for one another within one process. Two processes may compute an equal question twice; the
    ledger then keeps the first result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Hold the lock for ``key``; an empty key needs none."""
        with self._lock:
            mine = self._held.setdefault(key, threading.Lock()) if key else threading.Lock()
        with mine:
            yield


@dataclass(frozen=True)
class CuratorContext:
    """Everything that paid work needs: public metadata, the data, the ledger that authorises, the keys that sign.

    Args:
        project: its name.
        catalog: public metadata.
        engine: the only part that reads data.
        ledger: the only part that authorises.
        keys: sign receipts, and decide which groups of a unit are kept.
        accounts: for each population the kind of its account.
        version: names the state of the tables given; repeats are free within one.
        locks: equal questions wait for one another.
        closing: set when engine and ledger are about to be closed; a run that is interrupted then has not failed.
    """

    project: str
    catalog: Catalog
    engine: Engine
    ledger: Ledger
    keys: Keyring
    accounts: Mapping[str, Account]
    version: Callable[[Iterable[str]], str]
    locks: KeyLocks = field(default_factory=KeyLocks)
    closing: threading.Event = field(default_factory=threading.Event, compare=False)
    sizes: PublicSizes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", PublicSizes(self.catalog, self.engine, self.version))

    @property
    def measured_catalog(self) -> Catalog:
        """Public metadata, with the sizes that public tables have now."""
        return self.sizes.now()[1]
