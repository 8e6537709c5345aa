"""The second report: distances from the real data within their sensitivity, paid for by themselves."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from synth.small_tables import counts_of, open_people, people
from tacit.core.errors import BudgetError, InputError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.synth import count_measurement, table_distance
from tacit.synth.table_distance import DistanceMeasurement

CELLS = np.random.default_rng(4).poisson(3.0, (2, 3, 2))
SETS = tuple(itertools.combinations("abc", 2))


@pytest.mark.parametrize(("rows", "relation"), [(1, ADD_REMOVE), (2, ADD_REMOVE), (1, REPLACE_ONE)])
def test_a_unit_moves_the_distances_within_their_sensitivity(
    monkeypatch: pytest.MonkeyPatch, rows: int, relation: Relation
) -> None:
    seen: list[np.ndarray] = []
    monkeypatch.setattr(table_distance, "add_noise", lambda _, raw: seen.append(raw) or raw)
    measured = DistanceMeasurement(SETS, Fraction(1), rows, relation)
    public = counts_of(np.random.default_rng(5).poisson(3.0, CELLS.shape) * 1.3, "abc")  # type: ignore[arg-type]
    expected = {names: public(names).astype(np.float64) for names in SETS}
    measured.release(counts_of(CELLS, "abc"), expected)
    worst = 0.0
    for place in itertools.product(*map(range, CELLS.shape)):
        other = CELLS.copy()
        other[place] += rows
        if relation is REPLACE_ONE:
            other[0, 0, 0] -= rows
        measured.release(counts_of(other, "abc"), expected)
        worst = max(worst, float(((seen[-1] - seen[0]) ** 2).sum()) / measured.l2_squared)
    assert 0.2 < worst <= 1
    assert measured.mechanism.sigma2 == Fraction(measured.l2_squared, 2)
    assert count_measurement.add_noise is not table_distance.add_noise


def test_a_table_is_compared_with_the_data_under_its_own_charge() -> None:
    curator = open_people(people(2000))
    table = curator.synthesize("people", ["sex", "ward", "smoker"], rho="5", method="mst", rows=10)
    check = curator.check_synthetic("people_synthetic", rho="5")
    real, names = people(2000), ["sex", "ward", "smoker"]
    assert check.sets == tuple(itertools.combinations(names, 2))
    for pair, apart in zip(check.sets, check.distances, strict=True):
        counted = {tuple(r[n] for n in pair): 0 for r in table.marginal(pair).to_pylist()}
        for row in real.select(list(pair)).to_pylist():
            counted[tuple(row[n] for n in pair)] += 1
        exact = sum(abs(r["model"] - counted[tuple(r[n] for n in pair)]) for r in table.marginal(pair).to_pylist())
        assert abs(apart - exact / 2 / table.model.total) < 3 * check.wide + 0.01
    assert check.to_arrow().column_names == ["columns", "distance", "low", "high"]
    assert "against the real data" in str(check)
    assert curator.check_receipt(check.receipt).ok
    assert curator.ledger.verify().ok
    assert len(curator.history()) == 2
    again = curator.check_synthetic("people_synthetic", rho="5")
    assert (again.charge.repeated, again.distances) == (True, check.distances)
    assert len(curator.check_synthetic("people_synthetic", [["ward", "SEX"]], rho="1").distances) == 1
    for wrong in ([["street"]], [], ["sex"]):
        with pytest.raises(InputError, match="marginals"):
            curator.check_synthetic("people_synthetic", wrong, rho="1")
    with pytest.raises(InputError, match="max_rows"):
        curator.check_synthetic("people_synthetic", rho="1", max_rows=3)
    with pytest.raises(BudgetError):
        curator.check_synthetic("people_synthetic", rho="900")
    assert len(curator.history()) == 3
