"""``max_rows_total``: what it does to a plan, and its sensitivities on all small units, enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from engines import slow_engine
from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.core.sensitivity import Sensitivity, bounded_total
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.bias import bias_table
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import Plan, make_plan
from tacit.query.refusal import Refusal
from tacit.query.release import inputs
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER, TEXT

LETTERS = ("a", "b", "c")
COLUMNS = (
    Column("id", INTEGER), Column("k", TEXT, categories=LETTERS), Column("free", TEXT),
    Column("x", INTEGER, bounds=(-1, 2)), Column("y", INTEGER, bounds=(0, 2)),
)  # fmt: skip
BY_LETTER = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


def catalog(relation: Relation = ADD_REMOVE, **declared: Any) -> Catalog:
    said = {"max_groups": 2, "max_rows": 2, "unit_rows": 50, **declared}
    return Catalog((Table("t", COLUMNS, population="p", unit="id", **said),), (Population("p", relation),))


def planned(sql: str, where: Catalog | None = None, kind: str = "pure", **asked: Any) -> Plan:
    account = Account(kind, None if kind == "pure" else "1e-6")
    return make_plan(sql, where or catalog(), Request(**{"epsilon": 1, "account": account, **asked}))


def test_noise_is_that_of_the_rows_in_all() -> None:
    plan = planned(BY_LETTER, max_rows_total=5)
    (release,) = plan.releases
    assert (plan.final.max_total, plan.final.max_groups, plan.final.most_in_group) == (5, 3, 5)
    assert release.block.sensitivity == bounded_total(total=5, bounds=(0, 5))
    assert release.noise.scale == Fraction(5) / plan.priced.budget.amount
    assert "max_rows_total 5 (stated" in explain(plan).limits


def test_the_other_bounds_hold_as_well_where_they_are_stated() -> None:
    plan = planned(BY_LETTER, max_rows_total=5, max_rows=2)
    assert plan.releases[0].block.sensitivity == Sensitivity(Fraction(5), Fraction(10), Fraction(2))
    assert planned(BY_LETTER, max_rows_total=5, max_rows=2, kind="zcdp").releases[0].block.sensitivity.l2_squared == 10
    both = planned(BY_LETTER, max_rows_total=50, max_groups=2, max_rows=3)
    assert both.final.max_total is None, "two groups of three rows are no more than fifty rows"
    assert both.releases[0].block.sensitivity.l1 == 6
    assert planned("SELECT COUNT(*) FROM t", max_rows_total=7).releases[0].block.sensitivity.l1 == 7
    ceilings = catalog(max_rows_limit=4)
    assert planned(BY_LETTER, ceilings, max_rows_total=9).final.most_in_group == 4


def test_in_the_text_or_beside_it_and_never_where_it_says_nothing() -> None:
    inside = BY_LETTER.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_total = 5)", 1)
    assert planned(inside).priced == planned(BY_LETTER, max_rows_total=5).priced
    assert planned(inside).digest != planned(inside.replace("= 5", "= 6")).digest
    with pytest.raises(InputError, match="max_rows_total: is 5 in the query and 6 beside it"):
        planned(inside, max_rows_total=6)
    with pytest.raises(Refusal, match="state max_groups and max_rows"):
        planned("SELECT k, MEDIAN(x) FROM t GROUP BY k", max_rows_total=5)
    with pytest.raises(Refusal, match="state max_groups and max_rows"):
        planned("SELECT k, SUM(x, contribution_bounds_per_group => (0, 9)) FROM t GROUP BY k", max_rows_total=5)
    with pytest.raises(InputError, match="max_rows_total"):
        planned(BY_LETTER, max_rows_total=2**20 + 1)


def test_losses_are_those_of_rows_in_all() -> None:
    assert bias_table(planned(BY_LETTER, max_rows_total=5).final) is not None
    causes = [getattr(bias_table(planned(BY_LETTER, max_rows_total=most).final), "causes", ()) for most in (5, 50)]
    assert causes == [("max_rows", "keys"), ("keys",)], "no person has more than unit_rows rows"


QUERIES = (
    "SELECT k, COUNT(*), COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT k, SUM(x) FROM t GROUP BY k",
    "SELECT k, SUM(y), COUNT(*) FROM t GROUP BY k",
    "SELECT k, SUM(x), COUNT(*) FROM t GROUP BY k",
    "SELECT k, AVG(x), COUNT(*) FROM t GROUP BY k",
    "SELECT k, VARIANCE(x) FROM t GROUP BY k",
    "SELECT k, COUNT(*), COUNT(*) FILTER (WHERE y > 0) FROM t GROUP BY k",
    "SELECT free, COUNT(*), AVG(x) FROM t GROUP BY free",
)
#: Rows in all, rows in a group: of a unit with four rows at most.
BOUNDS = ((2, 4), (3, 2), (3, 4))


def units() -> Iterator[list[tuple[Any, ...]]]:
    """Every unit with at most four rows, of three groups and three values."""
    kinds = [(7, letter, letter, x, max(x, 0)) for letter, x in product(LETTERS, (-1, None, 2)) if x is not None]
    kinds += [(7, "a", "a", None, None)]
    for size in range(5):
        yield from (list(chosen) for chosen in combinations_with_replacement(kinds, size))


def moved(plan: Plan) -> list[list[dict[Any, np.ndarray[Any, Any]]]]:
    """For each block, the vector by group of every unit."""
    names = ("id", "k", "free", "x", "y")
    found: list[list[dict[Any, np.ndarray[Any, Any]]]] = [[] for _ in plan.releases]
    for rows in units():
        keys, _, raw = slow_engine.measure(plan.final, {"t": (names, rows)}, b"secret", numbered=False)
        arrays = [np.array(numbers, dtype=object) for numbers in raw]
        for number, release in enumerate(plan.releases):
            vectors = inputs(release.block, arrays)
            found[number].append({key: vectors[i].astype(object) for i, key in enumerate(keys)})
    return found


def gap(one: dict[Any, Any], other: dict[Any, Any]) -> tuple[Any, Any, Any]:
    """l1, squared l2 and l∞ of the difference of two vectors by group."""
    parts: list[Any] = []
    for key in {*one, *other}:
        a, b = one.get(key, 0), other.get(key, 0)
        parts += np.ravel(np.asarray(a - b)).tolist()
    sizes = [abs(part) for part in parts]
    return sum(sizes), sum(size**2 for size in sizes), max(sizes, default=0)


@pytest.mark.deep
@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_no_small_unit_moves_a_block_by_more_than_declared(sql: str, relation: Relation) -> None:
    reached = Fraction(0)
    for total, rows in BOUNDS:
        plan = planned(sql, catalog(relation), kind="zcdp", max_rows_total=total, max_rows=rows)
        assert plan.final.max_total == total
        for release, vectors in zip(plan.releases, moved(plan), strict=True):
            declared = release.block.sensitivity
            distinct = list({tuple(sorted((k, tuple(v)) for k, v in each.items())): each for each in vectors}.values())
            pairs = [(each, {}) for each in distinct]
            if relation is REPLACE_ONE:
                pairs = [(one, other) for i, one in enumerate(distinct) for other in distinct[i + 1 :]]
            for one, other in pairs:
                l1, l2_squared, linf = gap(one, other)
                assert l1 <= declared.l1
                assert l2_squared <= declared.l2_squared
                assert linf <= declared.linf
                reached = max(reached, l1 / declared.l1 if declared.l1 else Fraction(0))
    assert reached == 1 or "VARIANCE" in sql, "some unit moves it as far as declared"
