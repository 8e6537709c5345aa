"""Finite mechanisms: exact answers by hand, both relations, all forms, and the ready examples."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import exp_bounds, log_bounds
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.lab import (
    FiniteMechanism,
    geometric,
    group_privacy,
    leak,
    randomized_response,
    release_random_row,
    sample_rows,
    subsample_then_count,
)

F = Fraction


def test_randomized_response_is_exactly_ln_3() -> None:
    coin = randomized_response(ratio=3)
    assert coin.ratio().value == 3
    assert coin.is_private(ratio=3)
    assert not coin.is_private(ratio="2.999999999")
    assert coin.epsilon() == log_bounds(F(3))
    assert [(p.ratio, p.delta.value) for p in coin.profile([1, 2, 3])] == [(1, F(1, 2)), (2, F(1, 4)), (3, 0)]
    assert coin.profile()[1].epsilon == log_bounds(F(3))
    assert coin.kl().low <= log_bounds(F(3))[1] / 2 <= coin.kl().high + F(1, 10**30)


def test_an_irrational_epsilon_is_decided_however_close() -> None:
    coin = randomized_response(ratio=3)
    low, high = log_bounds(F(3), 200)
    assert coin.is_private(epsilon=high)
    assert not coin.is_private(epsilon=low)


def test_many_categories() -> None:
    coin = randomized_response(ratio=5, categories="abcd")
    assert coin.distribution("a")["a"].value == F(5, 8)
    assert coin.ratio().value == 5
    assert coin.delta(ratio=1).value == F(1, 2)


def test_each_row_answering_for_itself_protects_each_row() -> None:
    coins = randomized_response(ratio=3, rows=3)
    assert len(coins.databases) == 8
    assert len(coins.pairs) == 8 * 3
    assert coins.ratio().value == 3


def test_order_of_rows_matters_only_where_it_is_said_to() -> None:
    # Publishing the first row: as an ordered tuple it is one person's; of a multiset, it is the least record.
    ordered = FiniteMechanism.over_universe(
        lambda rows: {rows[0]: 1}, universe="ab", sizes=2, relation=REPLACE_ONE, form="ordered"
    )
    assert ("a", "b") in ordered.databases
    assert ("b", "a") in ordered.databases
    assert ordered.ratio().value == math.inf
    rows = FiniteMechanism.over_universe(lambda rows: {rows[0]: 1}, universe="ab", sizes=2, relation=REPLACE_ONE)
    assert rows.databases == (("a", "a"), ("a", "b"), ("b", "b"))


def test_ordered_add_remove_takes_out_any_place() -> None:
    mechanism = FiniteMechanism.over_universe(lambda rows: {len(rows): 1}, universe="ab", sizes=[1, 2], form="ordered")
    assert (("a", "b"), ("b",)) in mechanism.pairs
    assert (("b",), ("a", "b")) in mechanism.pairs
    assert (("a", "a"), ("b",)) not in mechanism.pairs


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_folded_geometric_counts_are_tight(relation: object) -> None:
    counts = geometric(ratio=2, rows=3, relation=relation)  # type: ignore[arg-type]
    assert counts.relation is relation
    assert counts.ratio().value == 2
    assert all(sum(p.value for p in counts.distribution(d).values()) == 1 for d in counts.databases)
    worst = counts.worst(ratio=1)
    assert worst.delta.value == F(1, 3)
    p, q = counts.distribution(worst.left), counts.distribution(worst.right)
    assert sum(p[o].value - q[o].value for o in worst.event) == worst.delta.value


def test_histogram_form_and_row_form_agree() -> None:
    forms = [
        FiniteMechanism.over_universe(
            lambda d: {d[1] if isinstance(d, Counter) else d.count(1): 1}, universe=(0, 1), sizes=2, form=form
        )
        for form in ("rows", "histogram")
    ]
    assert forms[0].databases == forms[1].databases
    assert all(forms[0].distribution(d) == forms[1].distribution(d) for d in forms[0].databases)


def test_a_table_may_be_given_by_rows_or_by_histograms() -> None:
    fair, biased = {"x": "1/2", "y": "1/2"}, {"x": "3/4", "y": "1/4"}
    by_rows = FiniteMechanism({("a", "b"): fair, ("a",): biased, ("b", "b"): fair}, relation="add_remove")
    assert set(by_rows.pairs) == {(("a", "b"), ("a",)), (("a",), ("a", "b"))}
    by_histogram = FiniteMechanism([({"a": 1, "b": 1}, fair), ({"a": 1}, biased)], relation="add_remove")
    assert by_histogram.ratio().value == by_rows.ratio().value == 2
    assert by_histogram.distribution({"b": 0, "a": 1}) == by_rows.distribution(("a",))
    assert by_rows.distribution({"b": 1, "a": 1}) == by_rows.distribution(("a", "b"))
    text = FiniteMechanism({"ab": fair, "aa": biased, "bb": fair}, relation="replace_one")
    assert ("aa", "bb") not in text.pairs
    assert len(text.pairs) == 4


def test_releasing_a_random_row_has_a_small_delta_and_is_terrible() -> None:
    lottery = release_random_row(universe="abc", size=4)
    assert lottery.is_private(epsilon=0, delta="1/4")
    assert not lottery.is_private(epsilon=1000, delta="0.24")
    assert lottery.ratio().value == math.inf
    assert lottery.ratio(delta="1/4").value == 1


def test_sampling_rows_is_not_private_for_any_epsilon() -> None:
    sample = sample_rows(universe="abc", size=3, sample=2)
    assert not sample.is_private(epsilon=10**5)
    assert sample.delta(epsilon=50).value == sample.delta(epsilon=0).value == F(2, 3)
    assert sample.epsilon(delta="2/3").high == 0


@pytest.mark.parametrize(("ratio", "rate"), [(3, "1/4"), (2, "1/100"), ("7/2", 1), (5, 0)])
def test_subsampling_amplifies_exactly_as_the_theorem_says(ratio: str, rate: str) -> None:
    counted = subsample_then_count(ratio=ratio, rate=rate, rows=3)
    assert counted.ratio().value == 1 + F(rate) * (F(ratio) - 1)


def test_a_leak_is_exactly_its_delta() -> None:
    assert leak(delta="0.01").delta(epsilon=0).value == leak(delta="0.01").delta(epsilon=9).value == F(1, 100)


def test_irrational_probabilities_come_as_enclosures() -> None:
    low, high = exp_bounds(F(1))
    truth, lie = (low / (1 + low), high / (1 + high)), (1 / (1 + high), 1 / (1 + low))
    coin = FiniteMechanism.local({0: {0: truth, 1: lie}, 1: {0: lie, 1: truth}})
    assert coin.epsilon().low <= 1 <= coin.epsilon().high
    assert coin.is_private(epsilon="1.000001")
    assert not coin.is_private(epsilon="0.999999")
    with pytest.raises(AccountingError, match="not known closely enough"):
        coin.is_private(epsilon=1)
    with pytest.raises(AccountingError, match="only a table of rational"):
        coin.release(0)


def test_postprocessing_merges_and_randomises() -> None:
    counts = geometric(ratio=3, rows=2)
    merged = counts.postprocess(lambda count: "some" if count else "none")
    assert merged.distribution(())["none"].value == counts.distribution(())[0].value
    blurred = counts.postprocess(lambda count: {o: F(1, 6) + (F(1, 2) if o == count else 0) for o in range(3)})
    assert blurred.ratio().value < 3
    assert blurred.relation is ADD_REMOVE


def test_group_privacy_is_measured_and_tight_for_the_geometric_mechanism() -> None:
    check = group_privacy(geometric(ratio=2, rows=3), k=3)
    assert check.is_tight
    assert check.measured.value == 8
    assert group_privacy(geometric(ratio=2, rows=3), k=1).is_tight


def test_group_privacy_with_a_delta_on_the_chain_that_attains_it() -> None:
    # p_{i+1} = 2·p_i + δ attains δ·(2^k - 1) while p stays small.
    delta, p = F(1, 100), F(0)
    chain = {}
    for i in range(4):
        chain[i] = {"yes": p, "no": 1 - p}
        p = 2 * p + delta
    mechanism = FiniteMechanism(chain, pairs=[(i, i + 1) for i in range(3)])
    assert mechanism.ratio(delta=delta).value == 2
    check = group_privacy(mechanism, k=3, delta=delta)
    assert check.is_tight
    assert check.measured.value == 7 * delta
    assert str(check) == "group privacy, 3 units: measured δ = 7/100, bound 7/100: holds, with equality"


def test_a_broken_claim_is_called_broken() -> None:
    check = group_privacy(geometric(ratio=2, rows=3), k=2)
    broken = type(check)(check.theorem, check.quantity, check.bound, check.measured.__class__(F(1), F(1)))
    assert not broken
    assert str(broken).endswith("is BROKEN")


def test_release_follows_the_table(seeded: object) -> None:
    counts = Counter(randomized_response(ratio=3).release(0) for _ in range(4000))
    # Binomial(4000, 3/4): six standard deviations are 164; false alarm below 1e-8 on this fixed seed.
    assert abs(counts[0] - 3000) < 164
    assert set(counts) == {0, 1}


def test_a_table_prints_for_people() -> None:
    assert str(randomized_response(ratio=3)).splitlines() == [
        "database    0    1",
        "       0  3/4  1/4",
        "       1  1/4  3/4",
        "smallest ε: 1.098612289",
    ]
    assert repr(geometric(ratio=2, rows=1)) == "<FiniteMechanism: 3 databases, 4 ordered pairs of neighbours>"
    assert "0 against 1: the output lies in {0}" in str(randomized_response(ratio=3).worst(ratio=1))


def test_bad_tables_are_refused() -> None:
    with pytest.raises(InputError, match="relation: give either a relation, or the pairs"):
        FiniteMechanism({0: [1]})
    with pytest.raises(InputError, match="table: must list at least one"):
        FiniteMechanism({}, relation="add_remove")
    with pytest.raises(InputError, match=r"table\[0\]: must have probabilities that add up to exactly 1"):
        FiniteMechanism.local({0: ["0.5", "0.4"], 1: [1, 0]})
    with pytest.raises(InputError, match="pairs: 2 is not in the table"):
        FiniteMechanism({0: [1], 1: [1]}, pairs=[(0, 2)])
    with pytest.raises(InputError, match=r"use FiniteMechanism\.local"):
        FiniteMechanism({0: [1], 1: [1]}, relation="add_remove")
    with pytest.raises(InputError, match="form: must be"):
        FiniteMechanism.over_universe(lambda _: [1], universe="a", sizes=1, form="columns")
    with pytest.raises(InputError, match="ratio: must be greater than 1"):
        randomized_response(ratio=1)
    lonely = FiniteMechanism({"a": [1]}, relation="add_remove")
    with pytest.raises(AccountingError, match="no two neighbouring"):
        lonely.delta(epsilon=1)
    with pytest.raises(AccountingError, match="no two neighbouring"):
        lonely.is_private(epsilon=1)
    with pytest.raises(InputError, match="table: lists 'ba' twice"):
        FiniteMechanism({"ab": [1], "ba": [1]}, relation="add_remove")
    with pytest.raises(InputError, match=r"database: \{'z': 1\} is not in the table"):
        lonely.distribution({"z": 1})
    with pytest.raises(AccountingError, match="9 steps apart"):
        group_privacy(geometric(ratio=2, rows=3), k=9)
    with pytest.raises(InputError, match="database: 7 is not in the table"):
        randomized_response(ratio=2).distribution(7)
