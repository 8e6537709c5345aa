"""Cache of planned statements shared by questions that differ in whole numbers only.

To plan a statement takes DuckDB about as long as to run it over a small table. A copy never changes, so neither does
what a plan may rely on; plans go when it goes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import duckdb

__all__ = ["CursorPool", "PlannedCursor", "StatementTemplate", "shape_of"]

#: Texts, names and lists, which stay as they are, or a whole number as our dialect writes it.
_PARTS = re.compile(
    r"""(?P<kept> '(?:[^']|'')*' | "(?:[^"]|"")*" | \[ (?: '(?:[^']|'')*' | [^\]'] )* \] )
    | CAST\( (?P<number> -?\d+ ) \ AS\ BIGINT\)""",
    re.VERBOSE,
)
_MOST_NUMBERS = 16
#: Characters of a statement whose plan is kept: many long ones would fill the memory.
_LONGEST = 4096
#: Of a cursor; one that has planned more is given up, and its plans with it.
_MOST_PLANS = 32
_MOST_SHAPES = 1024


class StatementTemplate(NamedTuple):
    """A statement with places for whole numbers, and the numbers."""

    text: str
    numbers: tuple[str, ...]


def shape_of(sql: str) -> StatementTemplate:
    """What a statement has in common with others, and what it has not."""
    numbers: list[str] = []

    def placed(found: re.Match[str]) -> str:
        if found["kept"] is not None:
            return found["kept"]
        numbers.append(found["number"])
        return f"CAST(${len(numbers)} AS BIGINT)"

    return StatementTemplate(_PARTS.sub(placed, sql), tuple(numbers))


class CursorPool:
    """Cursors for questions about one copy; safe to use from several threads.

    Args:
        make: a cursor.
    """

    def __init__(self, make: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[PlannedCursor] = []
        self._closed = False
        self._shapes: set[str] = set()

    @contextmanager
    def one(self) -> Iterator[PlannedCursor]:
        """One that nobody else uses; after a failure nobody does any more."""
        with self._lock:
            cursor = self._idle.pop() if self._idle else PlannedCursor(self._make(), self)
        try:
            yield cursor
        except BaseException:
            cursor.close()
            raise
        with self._lock:
            keep = not self._closed and cursor.plans < _MOST_PLANS
            if keep:
                self._idle.append(cursor)
        if not keep:
            cursor.close()

    def is_known(self, text: str) -> bool:
        """Whether a shape was seen before; one that is new may be the last of its kind, and is not worth keeping."""
        with self._lock:
            known = text in self._shapes
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes.add(text)
            return known

    def close(self) -> None:
        """Close those that are here, and the others when they come back."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for cursor in idle:
            cursor.close()


class PlannedCursor:
    """A cursor, and the statements that it has planned. Made by :class:`CursorPool`."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, home: CursorPool) -> None:
        self.cursor = cursor
        self._home = home
        self._names: dict[str, str] = {}

    @property
    def plans(self) -> int:
        """How many it holds."""
        return len(self._names)

    def ask(self, sql: str) -> duckdb.DuckDBPyConnection:
        """Run a statement, by a plan that is kept if there is one."""
        if len(sql) > _LONGEST:
            return self.cursor.execute(sql)
        shape = shape_of(sql)
        name = self._planned(shape)
        if name is None:
            return self.cursor.execute(sql)
        numbers = ", ".join(f"CAST({number} AS BIGINT)" for number in shape.numbers)
        return self.cursor.execute(f"EXECUTE {name}({numbers})")

    def _planned(self, shape: StatementTemplate) -> str | None:
        name = self._names.get(shape.text)
        if name is None and len(shape.numbers) <= _MOST_NUMBERS and self._home.is_known(shape.text):
            name = f"p{len(self._names)}"
            # Where a number decides about the plan itself, DuckDB notices and plans anew.
            self.cursor.execute(f"PREPARE {name} AS {shape.text}")
            self._names[shape.text] = name
        return name

    def close(self) -> None:
        """Give it back to the database."""
        self.cursor.close()
