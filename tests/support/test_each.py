"""A test of a whole corpus: all cases that fail are named, whatever they fail with."""

from __future__ import annotations

import pytest

from support.each import check_each


def test_every_case_that_fails_is_named() -> None:
    def check(case: int) -> None:
        if case == 2:
            with pytest.raises(ValueError, match="never"):
                pass
        assert case != 3, "three"
        _ = 1 / (case - 4)

    with pytest.raises(pytest.fail.Exception) as caught:
        check_each([1, 2, 3, 4, 5], check)
    said = str(caught.value)
    assert said.startswith("3 of 5 cases:")
    assert [word in said for word in ("DID NOT RAISE", "three", "ZeroDivisionError")] == [True] * 3
    check_each([1, 5], check)
    with pytest.raises(AssertionError):
        check_each([], check)
