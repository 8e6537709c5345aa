"""Public limits on the size of a query.

All are properties of the text, so refusing by them reveals nothing about data. They are generous for people and small
enough that no text can make planning slow or deep: the parser is recursive, and every tree below it is walked
recursively.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tacit.query.refusal import Refusal

#: Characters of the whole text.
MAX_CHARACTERS: Final = 50_000
#: Tokens of the whole text.
MAX_TOKENS: Final = 6_000
#: Parentheses, brackets and CASEs that are open at once.
MAX_NESTING: Final = 32
#: Characters of one name.
MAX_IDENTIFIER: Final = 63
#: Characters of one constant.
MAX_LITERAL: Final = 2_000
#: Levels of the parsed tree, chains of AND and OR counted once.
MAX_DEPTH: Final = 80
#: Nodes of the parsed tree.
MAX_NODES: Final = 12_000
#: Columns of one SELECT list or GROUP BY.
MAX_COLUMNS: Final = 256
#: Relational operators of the resolved query, shared parts counted each time they are used.
MAX_RELATIONS: Final = 200
#: Aggregations of one query, each a release of its own.
MAX_PARTS: Final = 24
#: Nodes of one resolved expression.
MAX_EXPRESSION: Final = 4_000
#: Grouping sets of one GROUP BY, and all groups of these sets together.
MAX_SETS: Final = 128
MAX_SET_GROUPS: Final = 50_000
#: Public keys of one query.
MAX_KEYS: Final = 20_000
#: Rows of a public relation that released rows are joined with.
MAX_PUBLIC_ROWS: Final = 100_000
#: Released rows that rows of persons are joined with.
MAX_ROWS_BELOW: Final = 2_000
#: Rows of a join of persons' rows with released rows.
MAX_JOINED: Final = 200_000
#: Pairs of a released and a public row that its condition is tried on (equalities are looked up instead), and of a row
#: and one before it in a running aggregate of released rows.
MAX_PAIRS: Final = 1_000_000
#: Row operations that the rows of one unit may cause in one query (:mod:`tacit.query.planning.work`).
MAX_UNIT_WORK: Final = 1_000_000
#: Row operations of the public relations that are joined with released rows.
MAX_PUBLIC_WORK: Final = 20_000_000
#: Rows of a public table that no engine has counted: in plans that are made without one.
UNKNOWN_ROWS: Final = 100
#: Characters that are kept of each text in rows chosen before a join that multiplies rows.
MAX_TEXT: Final = 1_000

#: Stack depth of a caller up to which most of Python's 1000 frames are left for the query.
_SHALLOW: Final = 200

Result = TypeVar("Result")
_SPACES = "\t\n\r"
_SURROGATES = range(0xD800, 0xE000)


def check_text(sql: str) -> None:
    """Refuse text that is too long or holds characters that no statement needs."""
    if not sql.strip():
        raise Refusal("empty", "There is no statement; write a SELECT.")
    if len(sql) > MAX_CHARACTERS:
        raise Refusal("too_long", f"The text has more than {MAX_CHARACTERS} characters; ask a shorter query.")
    for char in sql:
        code = ord(char)
        if (code < 32 and char not in _SPACES) or code in range(0x7F, 0xA0) or code in _SURROGATES:
            raise Refusal("encoding", f"The text holds the character U+{code:04X}; remove it.")


def check_size(count: int, limit: int, what: str) -> None:
    """Refuse a query that has more than ``limit`` of ``what``."""
    if count > limit:
        raise Refusal("too_large", f"The query has more than {limit} {what}; split it into smaller queries.")


def as_on_a_fresh_stack(work: Callable[[], Result]) -> Result:
    """Return the result of ``work`` as if on a fresh stack, so that every caller may nest queries equally deep.

    Work that fits on the caller's stack runs there. A thread is started only where the caller's stack or the query is
    deep: the query is then too deep if it does not fit on the thread's stack.
    """
    try:
        sys._getframe(_SHALLOW)
    except ValueError:
        # Most of the stack is left.
        try:
            return work()
        except RecursionError:
            pass
        except Refusal as refusal:
            if refusal.reason != "too_deep":
                raise
    with ThreadPoolExecutor(1, "tacit-resolve") as thread:
        try:
            return thread.submit(work).result()
        except RecursionError:
            raise Refusal("too_deep", "The query is nested too deeply; use WITH to name parts.") from None
