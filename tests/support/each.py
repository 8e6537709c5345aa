"""One test of a whole corpus: every case is checked, and all that fail are named with their words.

A test of its own per case costs each process more than most checks do: it is made, set up, and reported three times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

__all__ = ["check_each"]

Case = TypeVar("Case")


def check_each(cases: Sequence[Case], check: Callable[[Case], None]) -> None:
    """Run a check on every case; at least one there must be."""
    assert cases
    failed = []
    for case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as problem:
            failed.append(f"{case}\n    {type(problem).__name__}: {problem}")
    if failed:
        pytest.fail(f"{len(failed)} of {len(cases)} cases:\n" + "\n".join(failed), pytrace=False)
