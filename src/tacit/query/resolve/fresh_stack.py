"""Stack of its own for work that may nest deeply, so that every caller may nest equally deep."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tacit.query.refusal import Refusal

__all__ = ["as_on_a_fresh_stack"]

Result = TypeVar("Result")
#: So many calls deep, a caller leaves most of Python's thousand to the query.
_SHALLOW: Final = 200


def as_on_a_fresh_stack(work: Callable[[], Result]) -> Result:
    """Result of ``work`` on a stack of its own, so that every caller may nest queries equally deep.

    A query that is resolved on the caller's stack is resolved there too. A thread is started only where a caller is
    deep already, or a query is: then it is the thread that says whether it is too deep.
    """
    if _is_shallow():
        try:
            return work()
        except RecursionError:
            pass
        except Refusal as refusal:
            if refusal.reason != "too_deep":
                raise
    return _on_a_fresh_stack(work)


def _is_shallow() -> bool:
    """Whether most of the stack is left."""
    try:
        sys._getframe(_SHALLOW)
    except ValueError:
        return True
    return False


def _on_a_fresh_stack(work: Callable[[], Result]) -> Result:
    outcome: list[Result | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except RecursionError:
            outcome.append(Refusal("too_deep", "The query is nested too deeply; use WITH to name parts."))
        except BaseException as problem:  # handed to the caller below
            outcome.append(problem)

    thread = threading.Thread(target=run, name="tacit-resolve", daemon=True)
    thread.start()
    thread.join()
    (found,) = outcome
    if isinstance(found, BaseException):
        raise found
    return found
