"""Limits on the text are checked before anything expensive, and just inside them everything works."""

from __future__ import annotations

import pytest

from query.corpus.clinic import CATALOG
from tacit.query import limits
from tacit.query.parsing.parse import _Dialect, _usable, parse
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve


def _reason(sql: str) -> str | None:
    try:
        resolve(sql, CATALOG)
    except Refusal as refusal:
        return refusal.reason
    return None


def test_length() -> None:
    inside = "SELECT COUNT(*) FROM visits".ljust(limits.MAX_CHARACTERS)
    assert _reason(inside) is None
    assert _reason(inside + " ") == "too_long"


def test_tokens() -> None:
    fits = "SELECT COUNT(*) FROM visits WHERE nights IN (" + ", ".join(map(str, range(2_900))) + ")"
    assert _reason(fits) is None
    assert _reason(fits.replace(")", ", 1" * 300 + ")", 2)) in ("too_long", "syntax")


def test_nesting_of_parentheses() -> None:
    def nested(depth: int) -> str:
        return "SELECT SUM(" + "(" * depth + "nights" + ")" * depth + ") FROM visits"

    assert _reason(nested(limits.MAX_NESTING - 1)) is None
    assert _reason(nested(limits.MAX_NESTING)) == "too_deep"


def test_a_literal_may_hold_parentheses() -> None:
    assert _reason("SELECT COUNT(*) FROM visits WHERE note = '" + "(" * 500 + "'") is None


@pytest.mark.parametrize("length", [limits.MAX_IDENTIFIER, limits.MAX_IDENTIFIER + 1])
def test_names(length: int) -> None:
    expected = None if length == limits.MAX_IDENTIFIER else "too_long"
    assert _reason(f"SELECT COUNT(*) AS {'n' * length} FROM visits") == expected
    assert _reason(f'SELECT COUNT(*) AS "{"n" * length}" FROM visits') == expected
    assert _reason(f"SELECT COUNT(*) AS '{'n' * length}' FROM visits") == expected


def test_text_constants() -> None:
    assert _reason(f"SELECT COUNT(*) FROM visits WHERE note = '{'x' * limits.MAX_LITERAL}'") is None
    assert _reason(f"SELECT COUNT(*) FROM visits WHERE note = '{'x' * (limits.MAX_LITERAL + 1)}'") == "too_long"


def test_long_conjunctions_are_one_level() -> None:
    many = " AND ".join(f"nights <> {i}" for i in range(900))
    assert _reason(f"SELECT COUNT(*) FROM visits WHERE {many}") is None
    assert _reason(f"SELECT COUNT(*) FROM visits WHERE {many.replace('AND', 'OR')}") is None


def test_long_sums_are_deep() -> None:
    assert _reason("SELECT SUM(nights" + " + 1" * 60 + ") FROM visits") is None
    assert _reason("SELECT SUM(nights" + " + 1" * 100 + ") FROM visits") == "too_deep"


def test_subqueries_nest_and_then_stop() -> None:
    def nested(depth: int) -> str:
        return "SELECT COUNT(*) FROM " + "(SELECT * FROM " * depth + "visits" + ")" * depth

    reasons = [_reason(nested(depth)) for depth in range(1, 40)]
    assert reasons[:15] == [None] * 15
    assert reasons[-1] == "too_deep"
    assert reasons == sorted(reasons, key=lambda reason: reason is not None)


def test_columns() -> None:
    assert (
        _reason("SELECT " + ", ".join(f"SUM(nights + {i}) AS s{i}" for i in range(limits.MAX_COLUMNS)) + " FROM visits")
        is None
    )


def test_doubling_is_counted_as_often_as_it_happens() -> None:
    def doubled(levels: int) -> str:
        parts = ["t0 AS (SELECT * FROM visits)"]
        parts += [f"t{i + 1} AS (SELECT * FROM t{i} UNION ALL SELECT * FROM t{i})" for i in range(levels)]
        return f"WITH {', '.join(parts)} SELECT COUNT(*) FROM t{levels}"

    assert _reason(doubled(4)) is None
    assert _reason(doubled(50)) == "too_large"


def test_numbers_of_any_size_keep_planning_quick() -> None:
    steps = ["t0 AS (SELECT patient_id, cost AS x FROM visits)"]
    steps += [f"t{i + 1} AS (SELECT patient_id, x * x AS x FROM t{i})" for i in range(40)]
    assert _reason(f"WITH {', '.join(steps)} SELECT COVAR_POP(x, x) FROM t40") == "bounds"
    thirds = ["t0 AS (SELECT patient_id, nights / 3 AS x FROM visits)"]
    thirds += [f"t{i + 1} AS (SELECT patient_id, x / 7 + 1 AS x FROM t{i})" for i in range(40)]
    assert _reason(f"WITH {', '.join(thirds)} SELECT SUM(x) FROM t40") is None


def test_the_deepest_queries_can_still_be_hashed_and_named() -> None:
    steps = ["t0 AS (SELECT patient_id, nights AS x FROM visits)"]
    window = "row_number() OVER (PARTITION BY patient_id ORDER BY x)"
    steps += [f"t{i + 1} AS (SELECT patient_id, x + {window} AS x FROM t{i})" for i in range(90)]
    query = resolve(f"WITH {', '.join(steps)} SELECT AVG(CLAMP(x, 0, 1)) FROM t90", CATALOG)
    sums = ["t0 AS (SELECT patient_id, nights AS x FROM visits)"]
    sums += [f"t{i + 1} AS (SELECT patient_id, x{' + 1' * 50} AS x FROM t{i})" for i in range(45)]
    other = resolve(f"WITH {', '.join(sums)} SELECT AVG(CLAMP(x, 0, 1)) FROM t45", CATALOG)
    assert query.digest != other.digest
    assert hash(query) != hash(other)


def test_wide_keys_do_not_make_planning_long() -> None:
    long = " + ".join(["year(birth)"] * 60)
    query = resolve(f"SELECT birth, {long} AS k, COUNT(*) FROM patients GROUP BY birth, k", CATALOG)
    assert not query.final.public_keys


def test_comments_and_trailing_semicolons_are_harmless() -> None:
    assert parse("SELECT 1 -- a\n;").tree == parse("SELECT /* b */ 1").tree


def test_a_parser_that_cannot_be_made_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by finding every query unreadable."""
    dialect = _Dialect()
    assert _usable(dialect) is dialect

    def parser(**_: object) -> object:
        raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(dialect, "parser", parser)
    with pytest.raises(ImportError, match="uninstall sqlglotc"):
        _usable(dialect)
