"""The table of what bounding leaves out: when it is bought, in which cell a unit is, and what is read off it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.toy_engine import ToyEngine
from tacit.core.errors import InputError
from tacit.core.relations import REPLACE_ONE
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.bias import CASTS, CLIPPING, GROUPS, JOINS, KEYS, ROWS, BiasTable, bias_table
from tacit.query.planning.explain import explain
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan, make_plan
from tacit.query.postprocess.bias import BoundingBias
from tacit.query.postprocess.cells import Affine, CellConfidence, Draw, MeasureBias
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER, TEXT

COLUMNS = (
    Column("patient", INTEGER),
    Column("ward", TEXT, categories=("a", "b", "c")),
    Column("cost", INTEGER, bounds=(0, 100)),
    Column("amount", TEXT),
)
CATALOG = Catalog(
    (
        Table("visits", COLUMNS, population="patients", unit="patient", max_groups=2, max_rows=3),
        Table(
            "people",
            (Column("patient", INTEGER, unique=True), Column("sex", TEXT, categories=("f", "m"))),
            population="patients",
            unit="patient",
        ),
        Table("trips", COLUMNS, population="patients", unit="patient", max_rows=9, unit_rows=3),
        Table("log", (Column("n", INTEGER),), population="patients2", unit="row"),
    ),
    (Population("patients"), Population("patients2")),
)
WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def planned(sql: str, **asked: Any) -> Plan:
    return make_plan(sql, CATALOG, Request(**({"epsilon": 1} | asked)))


@pytest.mark.parametrize(
    ("sql", "causes"),
    [
        ("SELECT COUNT(*) FROM visits", {ROWS}),
        ("SELECT COUNT(DISTINCT patient) FROM visits", set()),
        ("SELECT COUNT(*) FROM people", set()),
        ("SELECT COUNT(*) FROM log", set()),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex", {KEYS}),
        (WARDS, {GROUPS, ROWS, KEYS}),
        ("SELECT ward, COUNT(DISTINCT patient) FROM visits GROUP BY ward", {GROUPS, KEYS}),
        ("SELECT SUM(cost) FROM visits", {ROWS, CLIPPING}),
        ("SELECT SUM(CLAMP(cost, 0, 10)) FROM visits", {ROWS}),
        ("SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)", {CLIPPING}),
        ("SELECT COUNT(*) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)", set()),
        ("SELECT CASE WHEN cost > 5 THEN 'x' ELSE 'y' END AS k, COUNT(*) FROM visits GROUP BY 1", {ROWS}),
    ],
)
def test_causes_are_those_that_are_possible(sql: str, causes: set[str]) -> None:
    plan = planned(sql)
    table = bias_table(plan.final)
    assert set(() if table is None else table.causes) == causes
    assert (plan.bias is not None) == bool(causes)
    assert planned(sql, bias_share=0).bias is None


def test_every_cell_is_listed_once() -> None:
    table = BiasTable((GROUPS, ROWS, CLIPPING, KEYS), 5, 4)
    listed = list(table.listing())
    assert len({cell for cell, *_ in listed}) == len({(causes, b) for _, causes, b in listed}) == len(listed)
    assert len(listed) == 2 * (1 + 7 * 5) == table.cells - 2 * 4, "a unit without a loss has no power of two"


# -- the cell of a unit


def cells_of(sql: str, rows: list[dict[str, Any]], **asked: Any) -> dict[tuple[frozenset[str], int], int]:
    """Number of units in each cell that has any, by causes and bucket."""
    plan = planned(sql, **asked)
    assert plan.bias is not None
    assert plan.priced.bias is not None
    found = ToyEngine({"visits": rows}).measure(MeasurementTask(plan.bias.final, b"secret"))
    counts = [int(count) for count in np.ravel(found.raw[0])]
    return {(causes, bucket): counts[cell] for cell, causes, bucket in plan.priced.bias.table.listing() if counts[cell]}


def visits(*units: dict[str | None, list[int]]) -> list[dict[str, Any]]:
    """Rows of units, each given by its costs in each ward."""
    return [
        {"patient": unit, "ward": ward, "cost": cost}
        for unit, wards in enumerate(units)
        for ward, costs in wards.items()
        for cost in costs
    ]


def test_rows_beyond_max_rows() -> None:
    rows = visits({"a": [1] * 3}, {"a": [1] * 4}, {"a": [1] * 2, "b": [1] * 3}, {"c": [1] * 11})
    found = cells_of("SELECT COUNT(*) FROM visits", rows)
    assert found == {
        (frozenset(), -1): 1,
        (frozenset({ROWS}), 0): 1,
        (frozenset({ROWS}), 1): 1,
        (frozenset({ROWS}), 3): 1,
    }


@pytest.mark.parametrize(
    ("argument", "unread"),
    [
        ("COUNT(CAST(amount AS DECIMAL(10, 2)))", ("1,5", "x")),
        ("SUM(CLAMP(CAST(amount AS DECIMAL(10, 2)), 0, 9) * 1)", ("1,5", "x")),
        ("COUNT(STRPTIME(amount, '%d.%m.%Y'))", ("2024-03-04", "31.12.24")),
    ],
)
def test_texts_that_a_cast_does_not_read_are_lost_rows(argument: str, unread: tuple[str, str]) -> None:
    read = "01.02.2024" if "STRPTIME" in argument else "2.5"
    texts = [[read, None], [read, unread[0]], [unread[0], *unread, None], [None]]
    rows = [{"patient": u, "ward": "a", "cost": 1, "amount": text} for u, each in enumerate(texts) for text in each]
    found = cells_of(f"SELECT {argument} FROM visits", rows)
    one_row = 2 if "SUM" in argument else 0
    assert {loss for loss in found.items() if loss[0][1] < 0} == {((frozenset(), -1), 2)}
    assert {loss for loss in found.items() if loss[0][1] >= 0} == {
        ((frozenset({CASTS}), one_row), 1),
        ((frozenset({CASTS}), one_row + 1), 1),
    }


PAIRS = "SELECT COUNT(*) FROM trips AS a JOIN trips AS b ON a.patient = b.patient AND a.cost < b.cost"


def test_rows_that_are_cut_before_a_join_multiplies_them_are_told() -> None:
    """A person with four rows, of which three enter the join, and persons with three, two and one."""
    table = bias_table(planned(PAIRS).final)
    assert table is not None
    assert table.causes == (JOINS,)
    rows = visits({"a": [1, 2, 3, 4]}, {"a": [1, 2, 3]}, {"a": [1, 2]})
    plan = planned(PAIRS)
    assert plan.bias is not None

    def counted(rows: list[dict[str, Any]]) -> list[int]:
        assert plan.bias is not None
        measured = ToyEngine({"trips": rows}).measure(MeasurementTask(plan.bias.final, b"secret"))
        return [int(count) for count in np.asarray(measured.raw[0]).ravel()]

    both = counted(rows)
    told = {causes: both[cell] for cell, causes, _ in table.listing()}
    assert told == {frozenset(): 2, frozenset((JOINS,)): 1}
    for unit in {row["patient"] for row in rows}:
        without = counted([row for row in rows if row["patient"] != unit])
        assert sum(abs(one - other) for one, other in zip(both, without, strict=True)) == 1


def test_groups_rows_and_keys() -> None:
    rows = visits(
        {"a": [1], "b": [1, 1]},  # nothing
        {"a": [1], "b": [1], "c": [1]},  # a group of one row is lost
        {"a": [1] * 7},  # four rows
        {"a": [1] * 6, "b": [1] * 6, "c": [1] * 6},  # three of six rows stay, in two of three groups: 12 of 18 are lost
        {"z": [1]},  # an undeclared key
        {None: [1, 1], "a": [1] * 4},  # NULL, and one row too many
    )
    assert cells_of(WARDS, rows) == {
        (frozenset(), -1): 1,
        (frozenset({GROUPS}), 0): 1,
        (frozenset({ROWS}), 2): 1,
        (frozenset({GROUPS, ROWS}), 3): 1,
        (frozenset({KEYS}), -1): 1,
        (frozenset({KEYS, ROWS}), 0): 1,
    }


def test_rows_in_all_groups_and_in_each_are_cut_together() -> None:
    """Of 6 rows 4 may count in all groups, and 3 in each: those beyond either are lost, not those beyond both twice."""
    rows = visits({"a": [1] * 5, "b": [1]}, {"a": [1] * 6}, {"a": [1] * 3, "b": [1] * 3}, {"a": [1] * 4})
    sql = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    found = cells_of(sql, rows, max_rows_total=4, max_rows=3)
    assert found == {(frozenset({ROWS}), 1): 3, (frozenset({ROWS}), 0): 1}, "2, 3, 2 and 1"


def test_a_person_counts_once_in_a_group_however_many_rows() -> None:
    rows = visits({"a": [1] * 9}, {"a": [1] * 9, "b": [1], "c": [1]})
    found = cells_of("SELECT ward, COUNT(DISTINCT patient) FROM visits GROUP BY ward", rows)
    assert found == {(frozenset(), -1): 1, (frozenset({GROUPS}), 0): 1}


def test_sums_lose_what_is_beyond_their_total_and_bounds() -> None:
    rows = visits(
        {"a": [10] * 20},  # a total of 200, within 3 times 100
        {"a": [100] * 5},  # 200 too much: two of the largest values, 8 quarters
        {"a": [130]},  # 30 outside: two quarters
        {"a": [-5]},  # below the bounds: one quarter
        {"a": [10**18]},  # farther than is told apart
    )
    assert cells_of("SELECT SUM(cost) FROM visits", rows) == {
        (frozenset(), -1): 1,
        (frozenset({ROWS}), 3): 1,
        (frozenset({CLIPPING}), 1): 1,
        (frozenset({CLIPPING}), 0): 1,
        (frozenset({CLIPPING}), 7): 1,
    }


def test_stated_limits_are_the_ones_that_count() -> None:
    rows = visits({"a": [1] * 4, "b": [1] * 4, "c": [1] * 4})
    assert cells_of(WARDS, rows, max_rows=4) == {(frozenset({GROUPS}), 2): 1}
    assert cells_of(WARDS, rows, max_rows=4, max_groups=3) == {(frozenset(), -1): 1}


# -- price


@pytest.mark.parametrize("account", ["pure", "approx", "zcdp", "gdp"])
@pytest.mark.parametrize("share", ["0.04", "0.5"])
def test_a_share_of_the_price_whatever_the_account(account: str, share: str) -> None:
    # No more than the account holds is spent because noise is Gaussian; of a small one, as much as of any noise.
    paying = Account(account, None, "1e-6", Fraction(1, 10**6))
    plan = planned(WARDS, account=paying, bias_share=share)
    plain = planned(WARDS, account=paying, bias_share=0)
    assert plan.guarantee == plain.guarantee
    assert plan.priced.bias is not None
    assert plan.priced.bias.priced.amount == Fraction(share) * plan.priced.amount
    assert plan.priced.amount == plain.priced.amount
    assert plan.bias is not None
    assert plan.bias.priced.releases[0].block.sensitivity.l1 == 1
    assert len(plan.event.events) == 2


def test_replacing_one_person_moves_two_cells() -> None:
    catalog = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))
    plan = make_plan(WARDS, catalog, Request(epsilon=1))
    assert plan.bias is not None
    moved = plan.bias.priced.releases[0].block.sensitivity
    assert (moved.l1, moved.l2_squared) == (2, 2)


def test_an_accuracy_is_kept_beside_it() -> None:
    plan, plain = planned(WARDS, epsilon=None, within=20), planned(WARDS, epsilon=None, within=20, bias_share=0)
    assert plan.errors[0].bound == plain.errors[0].bound <= 20
    assert plan.priced.budget.amount < plain.priced.amount * Fraction(101, 100) < plan.priced.amount


@pytest.mark.parametrize("share", ["0.6", -1, "x"])
def test_shares_that_are_none(share: Any) -> None:
    with pytest.raises(InputError, match="bias_share"):
        planned(WARDS, bias_share=share)


def test_explain_states_share_and_price() -> None:
    assert "4% of the cost (epsilon 0.04)" in str(explain(planned(WARDS)))
    assert "bias_share is 0; max_groups, max_rows and the list of keys" in str(explain(planned(WARDS, bias_share=0)))
    assert "Bias " not in str(explain(planned("SELECT COUNT(*) FROM people")))


# -- estimates


def estimated(
    sql: str, cells: dict[tuple[frozenset[str], int], int], law: NoiseLaw, noise: int = 0, **options: Any
) -> BoundingBias:
    """Estimates from so many people in some cells, and noise of the same size, with turning sign, in all."""
    plan = planned(sql, **options)
    assert plan.priced.bias is not None
    table = plan.priced.bias.table
    counts = Counter(cells)
    places = {cell: counts[causes, b] for cell, causes, b in table.listing()}
    noisy = tuple(places.get(cell, 0) + noise * (-1) ** cell for cell in range(table.cells))
    return BoundingBias(plan.final, table, noisy, law, Fraction(19, 20))


LAPLACE = NoiseLaw("laplace", Fraction(25))
PEOPLE = {(frozenset[str](), -1): 6900, (frozenset({ROWS}), 0): 2000, (frozenset({ROWS}), 1): 1100}


def test_shares_and_sentences() -> None:
    told = estimated("SELECT COUNT(*) FROM visits", PEOPLE, LAPLACE).told
    (rows,) = told.causes
    assert (told.people, rows.people, rows.share, rows.limit, rows.seen) == (10_000, 3100, Fraction(31, 100), 3, True)
    assert str(told) == "About 31% ± 2.9% of people had rows beyond max_rows = 3; counts are too low: raise max_rows."


def test_noise_alone_is_not_seen_and_hides_no_other_cause() -> None:
    losses = estimated(WARDS, PEOPLE, LAPLACE, noise=20)
    assert losses.seen == {ROWS}
    shares = {cause.cause: cause for cause in losses.causes}
    assert abs(shares[ROWS].share - Fraction(31, 100)) < Fraction(1, 50)
    assert shares[GROUPS].sentence.startswith("fewer than ")
    assert str(losses.told).endswith("people had rows beyond max_rows = 3; counts are too low: raise max_rows.")
    assert str(losses.told).count("people") == 1, "one sentence, on the cause that is seen"
    nothing = estimated(WARDS, {(frozenset(), -1): 10_000}, LAPLACE, noise=20)
    assert nothing.seen == frozenset()
    assert 0 < nothing.most_rows < 4000, "as many people as noise can hide may lose 2, and half of them 4, …"
    few = estimated(WARDS, {(frozenset(), -1): 10}, LAPLACE, noise=20)
    unknown = "Too few people or too little budget to estimate how many exceed max_groups = 2."
    assert str(few.told) == unknown
    assert str(nothing.told) == "", "nothing is likely lost"


def test_a_share_that_is_not_above_its_error_is_not_stated() -> None:
    people = {(frozenset[str](), -1): 40, (frozenset({ROWS}), 0): 300}
    told = estimated("SELECT COUNT(*) FROM visits", people, LAPLACE).told
    assert str(told) == "Some people had rows beyond max_rows = 3; counts are too low: raise max_rows."


def test_the_bound_holds_the_largest_loss_of_each_bucket() -> None:
    exact = estimated("SELECT COUNT(*) FROM visits", PEOPLE, NoiseLaw("none", Fraction(0)))
    assert exact.most_rows == 2000 + 3 * 1100
    noisy = estimated("SELECT COUNT(*) FROM visits", PEOPLE, LAPLACE)
    assert exact.most_rows < noisy.most_rows < 12_000


def test_people_whom_noise_hides_are_supposed_to_be_halved_from_bucket_to_bucket() -> None:
    sql = "SELECT COUNT(*) FROM visits"
    seen = {(frozenset[str](), -1): 6900, (frozenset({ROWS}), 0): 200}
    tail = {(frozenset({ROWS}), b): 64 >> b for b in range(1, 6)}
    lost = 200 + sum(count * (2 ** (b + 1) - 1) for (_, b), count in tail.items())
    assert lost < estimated(sql, seen | tail, LAPLACE).most_rows, "no bucket of the tail stands out from the noise"
    exact = estimated(sql, seen | tail, NoiseLaw("none", Fraction(0)))
    assert exact.most_rows == lost
    # A limit that is not seen adds what noise may hide to what is seen of another.
    both = estimated(WARDS, PEOPLE, LAPLACE).most_rows
    alone = estimated("SELECT COUNT(*) FROM visits", PEOPLE, LAPLACE).most_rows
    assert both > alone + 100


def test_those_whom_a_stated_limit_cuts_unseen_lose_as_much_as_the_limit() -> None:
    """440 people lose 1 to 127 rows, most of them about 20, and noise hides all; AUTO would have seen them."""
    hidden = dict(enumerate((20, 40, 62, 97, 110, 75, 36)))
    cells = {(frozenset({ROWS}), bucket): number for bucket, number in hidden.items()}
    law = NoiseLaw("laplace", Fraction(83))
    stated = estimated("SELECT COUNT(*) FROM visits", {(frozenset(), -1): 20_000} | cells, law, max_rows=32)
    assert stated.seen == frozenset()
    lost = sum(number * 3 * 2 ** (bucket - 1) for bucket, number in hidden.items())
    assert lost < stated.most_rows
    limits = stated.final.limits
    assert limits is not None
    found = replace(limits, rows=replace(limits.rows, stated="auto", found=32))
    assert replace(stated, final=replace(stated.final, limits=found)).most_rows < lost


def test_one_cell_of_people_lacks_no_more_than_the_people_who_lost_a_group() -> None:
    sql = "SELECT ward, COUNT(DISTINCT patient), COUNT(*) FROM visits GROUP BY ward"
    cells = {(frozenset[str](), -1): 9000, (frozenset({GROUPS, ROWS}), 4): 1000}
    people, rows = estimated(sql, cells, NoiseLaw("none", Fraction(0))).biases
    assert (people.up, people.all_up, rows.up) == (1000, 32_000, 32_000)
    assert (people.down, rows.down) == (0, 0)


def test_sums_are_widened_on_both_sides_only_if_clipping_is_seen() -> None:
    sql = "SELECT SUM(cost) FROM visits"
    (cut,) = estimated(sql, {(frozenset({ROWS}), 2): 100}, NoiseLaw("none", Fraction(0))).biases
    assert (cut.down, cut.up, cut.outside) == (0, 100 * Fraction(7, 4) * 100, False)
    (clipped,) = estimated(sql, {(frozenset({CLIPPING}), 2): 100}, NoiseLaw("none", Fraction(0))).biases
    assert (clipped.down, clipped.up, clipped.outside) == (17_500, 17_500, True)


def test_a_share_of_the_loss_is_a_share_of_the_upper_end_and_not_of_the_noisy_number() -> None:
    """Twice its share of the loss: a group of 10 or fewer rows after noise of up to 30 lacks up to 2 · 40."""
    bias = MeasureBias(Fraction(0), Fraction(0), Fraction(0), Fraction(0), relative=Fraction(2))
    level = CellConfidence([NoiseLaw("laplace", Fraction(10))], Fraction(1, 20), [bias])
    for number in (10, -10):
        cell = Affine({Draw(0, 0): Fraction(1)}, Fraction(number), Fraction(1))
        high, width = cell.enclose(level).range.high, level.half_width(0)
        assert high is not None
        assert abs(high - 3 * (number + width)) < 1
