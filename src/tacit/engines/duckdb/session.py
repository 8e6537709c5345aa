"""Session of one question in DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDBSession"]


class DuckDBSession:
    """A cursor, and whether it has been told to stop: work between and after statements asks for itself.

    Args:
        cursor: of one question, but maybe of others after it.
        ask: runs a statement that only differs in numbers from others; unless given, as any other.
    """

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, ask: Callable[[str], duckdb.DuckDBPyConnection] | None = None
    ) -> None:
        self.cursor = cursor
        self.ask = ask or cursor.execute
        self._lock = threading.Lock()
        self._stopped = False
        self._ended = False

    def interrupt(self) -> None:
        """Stop it; may be called again."""
        with self._lock:
            self._stopped = True
            if not self._ended:
                self.cursor.interrupt()

    def end(self) -> None:
        """What comes now is for others."""
        with self._lock:
            self._ended = True

    def percent(self) -> float:
        """How much of the statement that runs is done."""
        return max(0.0, self.cursor.query_progress())

    def check(self) -> None:
        """Stop here, if it has been told to.

        Raises:
            InterruptedError: it has.
        """
        if self._stopped:
            raise InterruptedError("INTERRUPT between statements")
