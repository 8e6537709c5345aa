"""From the lecture to the call: every row runs, gives what it says, and agrees with the textbook's number."""

from __future__ import annotations

import ast
import contextlib
import io
import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from lecture.row import HEADER, Row  # noqa: E402
from lecture.table import PAGE, ROWS, page  # noqa: E402


def run(row: Row) -> tuple[Any, str]:
    """Evaluate a row; return the value and what an interpreter shows of it."""
    space: dict[str, Any] = {}
    exec(HEADER, space)
    tree = ast.parse(row.call.strip())
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "the last line must be an expression"
    exec(compile(tree, row.concept, "exec"), space)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        result = eval(compile(ast.Expression(last.value), row.concept, "eval"), space)
    text = shown.getvalue().strip()
    return (ast.literal_eval(text) if re.fullmatch(r"[-+.e\d]+|None", text) else text or result), text or repr(result)


def agrees(row: Row, found: Any) -> bool:
    """Whether ``found`` is related to the textbook's number, computed without Tacit, as the row says."""
    wanted = eval(row.truth, {"math": math, "Fraction": Fraction})
    if wanted is None or isinstance(wanted, bool | str | list):
        assert row.how == "="
        return type(found) is type(wanted) and bool(found == wanted)
    if isinstance(wanted, tuple):
        assert row.how == "="
        return all(math.isclose(a, b, rel_tol=row.within) for a, b in zip(found, wanted, strict=True))
    if row.how == "=":
        return math.isclose(found, wanted, rel_tol=row.within, abs_tol=1e-15)
    return bool(found <= wanted) if row.how == "<=" else bool(found >= wanted)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", row.concept))
def test_every_row_runs_and_agrees_with_the_textbook(row: Row) -> None:
    found, shown = run(row)
    assert shown == row.value
    assert agrees(row, found), f"{found} is not {row.how} {row.truth}"


def test_the_table_has_the_rows_of_the_course() -> None:
    assert len(ROWS) == 125
    assert len({row.concept for row in ROWS}) == 125
    assert all(row.how in ("=", "<=", ">=") for row in ROWS)
    # An agreement up to a thousandth is still one; more would be a different number.
    assert all(row.within <= 1e-3 for row in ROWS)


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(), "run: python docs/lecture/table.py"
    assert f"{PAGE.name}" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", row.concept))
def test_every_row_has_a_place_and_a_test(row: Row) -> None:
    assert (ROOT / "docs" / row.place).exists()
    file, _, name = row.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_a_wrong_number_is_caught() -> None:
    row = next(row for row in ROWS if row.how == "=" and "exp(-3)" in row.truth)
    assert agrees(row, math.exp(-3))
    assert not agrees(row, math.exp(-3) * 1.001)
    assert not agrees(replace(row, truth="math.exp(-2)"), math.exp(-3))
    bound = next(row for row in ROWS if row.how == "<=")
    assert not agrees(replace(bound, truth="-1"), 0)
    with pytest.raises(NameError):
        agrees(replace(row, truth="tacit.Laplace"), 0)
