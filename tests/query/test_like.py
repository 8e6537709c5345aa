"""LIKE: what it means, and that no pattern makes it try again what failed before."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import literal
from tacit.query.relational.functions import call
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.types import TEXT


def by_definition(value: str, pattern: str) -> bool:
    body = "".join(".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern)
    return re.fullmatch(body, value, re.DOTALL) is not None


def test_every_short_pattern_on_every_short_text() -> None:
    like = REGISTRY["like"].evaluate
    texts = ["".join(t) for size in range(5) for t in itertools.product("ab\n", repeat=size)]
    patterns = ["".join(p) for size in range(6) for p in itertools.product("ab%_", repeat=size)]
    wrong = [(t, p) for p in patterns[::3] for t in texts[::2] if like(t, p) != by_definition(t, p)]
    assert wrong == []


def test_a_text_that_nearly_fits_many_times_is_no_work() -> None:
    """With a regular expression this took hours, in planning, where both sides are constants."""
    started = time.process_time()
    for pattern in ("%a%a%a%a%ab", "%a_%a_%a_%a_%ac%", "%a_a%a_a%b_a%"):
        made = call("like", literal("a" * 2000, TEXT), literal(pattern, TEXT))
        assert made == literal(False, made.type)
    assert time.process_time() - started < 5


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(Refusal, match="200 characters"):
        call("like", literal("a", TEXT), literal("a" * 201, TEXT))
