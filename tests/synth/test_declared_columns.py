"""Columns with NULL as a value, columns that follow from others or have a condition, and bins by private quantiles."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tacit
from support.bits import SeededBits
from synth.small_tables import counts_of, open_people
from tacit.accounting.currencies import ZERO_CONCENTRATED
from tacit.core.errors import InputError, QueryError
from tacit.core.relations import ADD_REMOVE
from tacit.curator.curator import Curator
from tacit.query.types import INTEGER
from tacit.releases import synthesis as table_synthesis_release
from tacit.releases.synthesis import KeptParts, drawn_again
from tacit.releases.synthetic_table import SyntheticTable
from tacit.synth import table_synthesis
from tacit.synth.column_bins import BINS, EqualBins, QuantileBins, edges_of, grid_strategy
from tacit.synth.graphical_model import NoisyMarginal, fit_model, model_cells
from tacit.synth.marginal_counts import PublicColumn
from tacit.synth.synthesis_request import DeclaredRules, SynthesisRequest
from tacit.synth.synthesis_stages import SynthesisStages
from tacit.synth.table_synthesis import SynthesisPlan, measure_table

COUNT = 600
COLUMNS: dict[str, Any] = {
    "person": {"type": "integer"},
    "sex": {"type": "text", "categories": ["f", "m"]},
    "pregnant": {"type": "boolean"},
    "children": {"type": "integer", "bounds": [0, 4]},
    "zip": {"type": "integer", "bounds": [10, 13]},
    "region": {"type": "text", "categories": ["north", "south"]},
    "pay": {"type": "integer", "bounds": [0, 99_999]},
    "cost": {"type": "decimal", "bounds": [0, 5000], "step": "0.01"},
    "day": {"type": "date", "bounds": ["2000-01-01", "2019-12-31"]},
    "size": {"type": "double", "bounds": [0, 10]},
}


def rows(count: int = COUNT) -> pa.Table:
    """People of whom pay is NULL for a third, and 0 or small for most others."""
    made = np.random.default_rng(2)
    woman = made.integers(0, 2, count) == 0
    place = made.integers(10, 14, count)
    pay = np.where(made.random(count) < 0.5, 0, made.integers(0, 1000, count))
    day = datetime.date(2019, 1, 1)
    return pa.table(
        {
            "person": np.arange(count),
            "sex": np.where(woman, "f", "m"),
            "pregnant": [bool(made.integers(0, 2)) if each else None for each in woman],
            "children": [None if i % 5 == 0 else int(made.integers(0, 5)) for i in range(count)],
            "zip": place,
            "region": np.where(place < 12, "north", "south"),
            "pay": [None if i % 3 == 0 else int(each) for i, each in enumerate(pay)],
            "cost": [Decimal(int(each)) / 100 for each in made.integers(0, 1000, count)],
            "day": [day + datetime.timedelta(int(each)) for each in made.integers(0, 300, count)],
            "size": made.random(count) / 8,
        }
    )


@pytest.fixture
def curator(monkeypatch: pytest.MonkeyPatch) -> Curator:
    """A curator with a large budget and known bits."""
    bits = SeededBits(6)
    monkeypatch.setattr("tacit.noise.entropy.current", lambda: bits)
    return tacit.open(rows(), table="t", unit="person", rho="1e6", delta="1e-3", columns=COLUMNS, max_rows=1)


def test_null_is_a_value_of_numbers_and_booleans(curator: Curator, tmp_path: Path) -> None:
    names = ["sex", "pregnant", "children", "pay"]
    table = curator.synthesize(
        "t", names, rho="1e4", method="marginals", marginals=[["sex", "pregnant"]], rows=COUNT,
        nulls=["pregnant", "Children", "pay"], only_if={"pregnant": {"sex": "f"}},
    )  # fmt: skip
    made = table.to_arrow()
    assert [str(each.type) for each in made.schema] == ["string", "bool", "int64", "int64"]
    real = rows()
    for name in ("pregnant", "children"):
        drawn, exact = Counter(made[name].to_pylist()), Counter(real[name].to_pylist())
        assert drawn.keys() == exact.keys()
        assert all(abs(drawn[value] - exact[value]) < 12 for value in exact)
    assert abs(made["pay"].null_count - real["pay"].null_count) < 8
    assert not any(sex == "m" and value is not None for sex, value in zip(*made.select(names[:2]), strict=True))
    assert {row["pregnant"] for row in table.marginal(["pregnant"]).to_pylist()} == {"NULL", "False", "True"}
    assert set(table.sample(30, {"children": None})["children"].to_pylist()) == {None}
    assert set(table.sample(30, {"pregnant": [True, None]})["pregnant"].to_pylist()) <= {True, None}
    table.save_model(tmp_path / "model")
    again = SyntheticTable.load_model(tmp_path / "model").sample(50, {"pay": None})
    assert again["pay"].null_count == 50
    # Left to themselves, rows with a NULL do not count.
    assert curator.synthesize("t", ["children"], rho="1e4", method="independent").rows == pytest.approx(480, abs=5)


def test_a_determined_column_costs_nothing_and_always_follows(curator: Curator) -> None:
    told = {"region": {"zip": {10: "north", "11": "north", 12: "south", 13: "south"}}}
    table = curator.synthesize("t", ["sex", "zip", "region"], rho="1e4", method="mst", rows=COUNT, determined=told)
    assert {name for each in table.measured for name in each.columns} == {"sex", "zip"}
    made = table.to_arrow()
    assert made.column_names == ["sex", "zip", "region"]
    assert all((row["zip"] < 12) == (row["region"] == "north") for row in made.to_pylist())
    assert table.model.marginal(["region"]).sum() == pytest.approx(table.model.total)
    again = drawn_again(curator.context, curator.released("t_synthetic").receipt.position, 40)
    assert all((row["zip"] < 12) == (row["region"] == "north") for row in again.to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"nulls": ["sex"]}, "null_category"),
        ({"nulls": "pay"}, "list of names"),
        ({"quantiles": ["zip"]}, "few values"),
        ({"quantiles": ["sex"]}, "few values"),
        ({"quantiles": ["nothing"]}, "no column"),
        ({"only_if": {"pregnant": {"sex": "f"}}}, "for NULL, list pregnant"),
        ({"only_if": {"pregnant": {"nothing": 1}}, "nulls": ["pregnant"]}, "columns of the table"),
        ({"impossible": [{"pay": 3}]}, "in bins"),
        ({"impossible": {"pay": 3}}, "list of values"),
        ({"determined": {"region": {"zip": {10: "north"}}}}, "no value for zip = 11"),
        ({"determined": {"region": {"zip": dict.fromkeys((10, 11, 12, 13), "east")}}}, "not a declared value"),
        ({"determined": {"region": "zip"}}, "follows from"),
        ({"source": "SELECT sex FROM t", "nulls": ["sex"]}, "name of a table"),
    ],
)
def test_rules_that_cannot_hold_are_refused_before_the_charge(
    curator: Curator, stated: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        curator.synthesize(**({"source": "t", "rho": "1", "method": "mst"} | stated))
    assert curator.history() == ()


# -- bins by quantiles


def test_every_column_of_the_grid_strategy_is_as_long_as_it_has_levels() -> None:
    for size in (1, 2, 5, 17, 64, 300):
        made = grid_strategy(size)
        columns = [made.apply(column, 0) for column in np.eye(size, dtype=np.int64)[: min(size, 70)]]
        levels = 1 + int(np.ceil(np.log(size) / np.log(4) - 1e-9))
        assert {int(column @ column) for column in columns} == {levels}
        assert made.column_squares[1] == levels
        exact = np.arange(size, dtype=np.float64)
        assert np.allclose(made.solve(made.apply(exact.astype(np.int64), 0).astype(float), 0), exact, atol=1e-6)


def test_edges_have_about_equal_counts_between_them() -> None:
    made = np.random.default_rng(1)
    for counts in (made.poisson(5, 1024), made.poisson(made.exponential(3, 1024)), np.eye(1024)[3] * 100, -np.ones(64)):
        edges = edges_of(counts.astype(float))
        assert edges[0] == 0
        assert list(edges) == sorted(set(edges))
        assert len(edges) <= BINS
        if counts.sum() > 0:
            sums = [counts[a:b].sum() for a, b in zip(edges, [*edges[1:], len(counts)], strict=True)]
            share = counts.sum() / BINS
            alone = [b - a == 1 for a, b in zip(edges, [*edges[1:], len(counts)], strict=True)]
            assert all(found <= share + counts.max() or one for found, one in zip(sums, alone, strict=True))


QUANTILES = ["pay", "cost", "day", "size"]


def test_bins_by_quantiles_are_finer_where_values_are_and_one_charge_pays_for_them(curator: Curator) -> None:
    table = curator.synthesize(
        "t", QUANTILES, rho="200", method="independent", rows=COUNT, quantiles=QUANTILES, nulls=["pay"]
    )
    made, real = table.to_arrow(), rows()
    for name in QUANTILES:
        assert isinstance(table.bins[name], QuantileBins)
        drawn, exact = (np.sort(each[name].drop_null().to_numpy().astype(float)) for each in (made, real))
        at = [0.1, 0.25, 0.5, 0.75, 0.9]
        wide = (exact[-1] - exact[0]) / 8
        assert np.abs(np.quantile(drawn, at) - np.quantile(exact, at)).max() < wide, name
        assert made[name].type == real[name].type or name == "cost"
    assert made["pay"].null_count == pytest.approx(200, abs=8)
    # Equal bins have all pay in one or two of 32.
    equal = EqualBins.of(curator.context.catalog.table("t").find("pay"))  # type: ignore[union-attr, arg-type]
    assert equal is not None
    assert equal.place(999) == 0
    bins = table.bins["pay"]
    assert len({bins.place(value) for value in range(1000)}) > 8
    assert (bins.place(-1), bins.place(100_000), bins.place(None)) == (None, None, 0)
    assert len(curator.history()) == 1
    assert curator.check_receipt(table.receipt).ok
    lines = table.receipt["answers"][0]["mechanisms"]
    assert [line["name"] for line in lines][:4] == [f"bins of t: counts by {name}" for name in QUANTILES]
    again = drawn_again(curator.context, curator.released("t_synthetic").receipt.position, 3)
    assert again.bins == table.bins
    # With equal bins it is another table, and another charge.
    texts = [
        SynthesisStages(
            curator.context, SynthesisRequest.of("t", QUANTILES, {"rho": "200"}, "independent", quantiles=q)
        ).text
        for q in ((), QUANTILES)
    ]
    assert texts[0] != texts[1]


def test_measuring_bins_and_counting_in_them_costs_what_is_charged(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    check = table_synthesis_release.check_charge
    monkeypatch.setattr(table_synthesis_release, "check_charge", lambda *a: (seen.append(a), check(*a))[1])
    curator.synthesize("t", ["sex", "pay"], rho="2", method="independent", quantiles=["pay"], rows=5)
    ((event, guarantee),) = seen
    cost = ZERO_CONCENTRATED.cost(event, ADD_REMOVE)["rho"]
    assert 0.99 * guarantee.rho < cost <= guarantee.rho == 2


class Killed(BaseException):
    """The process dies here."""


def test_a_run_that_died_counts_in_the_bins_that_it_had_found(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_synthesis, "_ROUNDS", 3)
    monkeypatch.setattr(table_synthesis, "_ROUND_STEPS", 8)
    kept: list[Any] = []
    keep = KeptParts.keep

    def dying(self: KeptParts, part: Any) -> None:
        if len(kept) == 3:
            raise Killed
        keep(self, part)
        kept.append(part)

    with monkeypatch.context() as patch:
        patch.setattr(KeptParts, "keep", dying)
        with pytest.raises(Killed):
            curator.synthesize("t", ["sex", "pay", "zip"], rho="3", quantiles=["pay"], rows=10)
    spent = curator.budget().spent
    stages = SynthesisStages(curator.context, SynthesisRequest.of("t", ["sex", "pay"], {"rho": "3"}, "aim"))
    assert len(stages) == 1
    (first,) = kept[0].measured
    table = curator.synthesize("t", ["sex", "pay", "zip"], rho="3", quantiles=["pay"], rows=10)
    assert curator.budget().spent == spent
    grid = EqualBins.grid_of(curator.context.catalog.table("t").find("pay"))  # type: ignore[union-attr, arg-type]
    assert grid is not None
    cells = tuple(each for each in edges_of(first.measurement.solve(first.noisy)) if each < len(grid.starts))
    assert table.bins["pay"] == QuantileBins.on(grid, cells, nulls=False)
    for before, after in zip([m for part in kept[1:] for m in part.measured], table.measured, strict=False):
        assert np.array_equal(before.marginal.counts, after.counts)
    assert curator.ledger.verify().ok


def test_rules_about_columns_that_do_not_exist_are_refused_and_not_passed_over() -> None:
    curator = open_people()
    follows = {"sex": {"f": "a", "m": "b"}}
    for wrong in (
        {"determined": {"wrad": follows}},
        {"impossible": [{"sxe": "f"}]},
        {"only_if": {"wrad": {"sex": "f"}}},
    ):
        with pytest.raises(InputError, match="column"):
            curator.synthesize("people", rho="1", method="independent", **wrong)
    with pytest.raises(InputError, match="inf, which is no"):
        curator.synthesize(
            "people", rho="1", method="independent", nulls=["age"], impossible=[{"age": float("inf"), "sex": "f"}]
        )
    assert curator.history() == ()


def test_rules_that_leave_no_row_are_refused_and_all_others_hold() -> None:
    """Random rules on a small world, against all of its rows."""
    made, names = np.random.default_rng(1), "abcd"
    sizes = dict(zip(names, (2, 3, 2, 2), strict=True))
    columns = {name: PublicColumn(name, 0, INTEGER, tuple(range(size))) for name, size in sizes.items()}
    counts = SimpleNamespace(sizes=sizes, columns=columns)
    refused = 0
    for _ in range(150):
        rules, never = [], np.zeros(tuple(sizes.values()), dtype=bool)
        for _ in range(int(made.integers(2, 7))):
            chosen = sorted(made.choice(4, int(made.integers(1, 4)), replace=False))
            places = {at: made.choice(sizes[names[at]], int(made.integers(1, 3)), replace=False) for at in chosen}
            rules.append({names[at]: [int(place) for place in listed] for at, listed in places.items()})
            never[np.ix_(*(places.get(at, np.arange(size)) for at, size in enumerate(sizes.values())))] = True
        stated = DeclaredRules.of(rules, {}, {})
        if never.all():
            refused += 1
            with pytest.raises(InputError, match="leave"):
                stated.cells(counts, {})  # type: ignore[arg-type]
        else:
            assert stated.cells(counts, {})  # type: ignore[arg-type]
    assert 10 < refused < 140


def test_rules_that_tie_many_columns_are_refused_and_count_for_the_size_of_a_model() -> None:
    sizes = {f"c{at}": 50 for at in range(8)}
    columns = {name: PublicColumn(name, 0, INTEGER, tuple(range(50))) for name in sizes}
    pairs = [{one: 0, other: 0} for one, other in itertools.combinations(sizes, 2)]
    with pytest.raises(InputError, match="tie"):
        DeclaredRules.of(pairs, {}, {}).cells(SimpleNamespace(sizes=sizes, columns=columns), {})  # type: ignore[arg-type]
    # A model of one minute has no room for this pair beside the rules, which would make a clique of three.
    sizes = {"a": 400, "b": 400, "c": 400}
    free, tied = (
        SynthesisPlan("aim", sizes, Fraction(1), minutes=1, tied=tied) for tied in ((), (("a", "b"), ("a", "c")))
    )
    allowed = []
    for plan in (free, tied):
        run = table_synthesis._Run(plan, lambda _: np.zeros(0, dtype=np.int64), lambda _: None, None)
        run._left = Fraction(0)
        allowed.append(list(run._small_enough({("b", "c"): 1, ("a",): 1})))
    assert allowed == [[("b", "c"), ("a",)], [("a",)]]


def test_rules_are_about_dates_and_decimals_as_values_or_as_texts() -> None:
    """Values of Python, and the texts that JSON has for them, are one rule; the ledger draws the table again."""
    first, half = datetime.date(2020, 1, 1), Decimal("0.5")
    count = 60
    table = pa.table(
        {
            "person": np.arange(count),
            "day": [first + datetime.timedelta(days=i % 5) for i in range(count)],
            "sex": ["fm"[i % 2] for i in range(count)],
            "pay": [Decimal(i % 3) / 2 for i in range(count)],
        }
    )
    columns: dict[str, Any] = {
        "day": {"type": "date", "bounds": ["2020-01-01", "2020-01-05"]},
        "sex": {"type": "text", "categories": ["f", "m"]},
        "pay": {"type": "decimal", "bounds": [0, 1], "step": "0.5"},
    }
    terms: dict[str, Any] = {"unit": "person", "max_rows": 1, "rho": "50", "delta": "1e-6", "accounting": "zcdp"}
    curator = tacit.open(table, table="people", columns=columns, **terms)
    for day, pay, nulls in ((first, half, ()), ("2020-01-01", "0.5", ()), (first, 0.5, ("day", "pay"))):
        rules = [{"day": day, "sex": "f"}, {"pay": [pay], "sex": "m"}]
        asked: dict[str, Any] = {"rho": "9", "method": "independent", "impossible": rules, "nulls": nulls}
        for made in (
            curator.synthesize("people", **asked, rows=200),
            drawn_again(curator.context, curator.released("people_synthetic").receipt.position, 200),
        ):
            drawn = made.to_arrow().to_pylist()
            assert not any(row["day"] == first and row["sex"] == "f" for row in drawn)
            assert not any(row["pay"] == half and row["sex"] == "m" for row in drawn)
    for wrong in ({"pay": "0.3"}, {"pay": "1e999999999"}, {"day": "2020-01-09"}, {"day": "soon"}, {"pay": object()}):
        with pytest.raises(InputError, match="impossible"):
            curator.synthesize("people", rho="9", method="independent", impossible=[wrong | {"sex": "f"}])


def test_with_other_rules_it_is_another_table(curator: Curator) -> None:
    """Choices and the model follow from rules, so that they belong to what is repeated and drawn again."""
    asked: dict[str, Any] = {"rho": "100", "method": "independent", "rows": 400}
    first = curator.synthesize("t", ["sex", "zip"], **asked, impossible=[{"sex": "f", "zip": 10}])
    assert curator.synthesize("t", ["sex", "zip"], **asked, impossible=[{"sex": "f", "zip": 10}]).charge.repeated
    for rules in ({"impossible": [{"sex": "m", "zip": 10}]}, {}):
        other = curator.synthesize("t", ["sex", "zip"], **asked, **rules)
        assert not other.charge.repeated
    drawn = (
        drawn_again(curator.context, curator.released(first.receipt.position).receipt.position, 400)
        .to_arrow()
        .to_pylist()
    )
    assert not any(row["sex"] == "f" and row["zip"] == 10 for row in drawn)
    assert any(row["sex"] == "m" and row["zip"] == 10 for row in drawn)


def test_rules_do_not_make_a_model_larger_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = dict.fromkeys("abcdef", 6)
    tied = (*zip("abcde", "bcdef", strict=True), ("a", "f"))
    monkeypatch.setattr(table_synthesis, "LARGEST_MODEL", 6**3 * 4)
    cells = np.random.default_rng(2).integers(0, 9, (6,) * 6)
    plan = SynthesisPlan("mst", sizes, Fraction(1), tied=tied)
    found = measure_table(plan, counts_of(cells, "abcdef"))
    cliques = [*tied, *(each.measurement.columns for each in found.measured)]
    assert model_cells(sizes, cliques) <= 6**3 * 4
    assert all(len(names) == 2 for names in cliques[len(tied) + 6 :])
    for method, sets in (("marginals", (("a", "c", "e"), ("b", "d", "f"))), ("mst", ())):
        small = {} if sets else {"tied": (*tied, ("a", "c", "e", "f"))}
        with pytest.raises(InputError, match="in one model"):
            SynthesisPlan(method, sizes, Fraction(1), sets=sets, **({"tied": tied} | small))  # type: ignore[arg-type]


def test_columns_with_other_signs_in_their_names_are_asked_about() -> None:
    """A name that is written in quotes belongs to the synthetic table as to the real one."""
    columns = {"person": {"type": "integer"}, "visit cost": {"type": "integer", "bounds": [0, 1]}}
    rows = pa.table({"person": range(60), "visit cost": [each % 2 for each in range(60)]})
    curator = tacit.open(rows, table="t", unit="person", rho="1e6", delta="1e-3", columns=columns, max_rows=1)
    curator.synthesize("t", ["visit cost"], rho="1e5", method="independent")
    answer = curator.sql('SELECT "visit cost", COUNT(*) FROM t_synthetic GROUP BY 1 ORDER BY 1')
    assert answer.finished.values == ((0, 30), (1, 30))


# -- bounds


def bounded(name: str, values: list[Any], kind: str, bounds: list[Any], **more: Any) -> Curator:
    """A curator of one column with bounds, each value that of one person."""
    rows = pa.table({"person": list(range(len(values))), name: values})
    columns = {"person": {"type": "integer"}, name: {"type": kind, "bounds": bounds, **more}}
    return tacit.open(rows, table="t", unit="person", rho="9e6", delta="1e-3", columns=columns, max_rows=1)


DAY = datetime.date(2020, 1, 1)
INSIDE: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    # Bounds, values between them with both ends, values beyond; 1010 and 1.01 would be in the last equal bin.
    "integer": ([0, 1000], [0, 2, 500, 1000], [-1, 1001, 1010, 5000, None]),
    "decimal": (["0.5", "80"], [Decimal("0.50"), Decimal("80.00")], [Decimal("0.49"), Decimal("80.01"), None]),
    "double": (["0.3", "1"], [0.3, 0.31, 1.0], [0.2999, 1.0001, 1.01, -1.0, math.nan, math.inf, -math.inf, None]),
    "date": (
        [str(DAY), "2021-01-14"],
        [DAY, datetime.date(2021, 1, 14)],
        [datetime.date(2019, 12, 31), datetime.date(2021, 1, 15), datetime.date(1, 1, 1), None],
    ),
}


@pytest.mark.parametrize("kind", list(INSIDE))
@pytest.mark.parametrize("nulls", [False, True])
def test_rows_beyond_bounds_are_left_out_whatever_the_bins(kind: str, nulls: bool) -> None:
    bounds, inside, beyond = INSIDE[kind]
    curator = bounded("v", [*inside, *beyond], kind, bounds, **({"step": "0.01"} if kind == "decimal" else {}))
    listed = ["v"] if nulls else []
    missing = 0
    if nulls:
        # A value that is no number is none.
        missing = sum(each is None or (isinstance(each, float) and not math.isfinite(each)) for each in beyond)
    for quantiles in ([], ["v"]):
        request = SynthesisRequest.of("t", None, {"rho": "1"}, "independent", nulls=listed, quantiles=quantiles)
        stages = SynthesisStages(curator.context, request)
        last = stages._stage(len(stages) - 1, None)
        bins = last.bins["v"]
        assert isinstance(bins, QuantileBins if quantiles else EqualBins)
        counted = last.counts.count(curator.context, [("v",)])["v",]
        assert len(counted) == len(bins.starts) + nulls
        places = [bins.place(each) for each in inside]
        expected = np.zeros(len(counted), dtype=int)
        np.add.at(expected, places, 1)
        if nulls:
            expected[0] += missing
        assert counted.tolist() == expected.tolist()
        for each in beyond:
            if each is not None:
                assert bins.place(each) is None


@pytest.mark.parametrize(
    ("bounds", "words"),
    [([1e-300, 1], "too many digits"), ([-1.7e308, 1.7e308], "too many digits")],
)
def test_bounds_that_no_bins_can_have_are_refused_before_the_charge(bounds: list[Any], words: str) -> None:
    curator = bounded("v", [0.5], "double", bounds)
    with pytest.raises(InputError, match=f"the bounds of v have {words}"):
        curator.synthesize("t", rho="1", method="independent", rows=5)
    wide = bounded("v", [1, 2], "integer", [-(2**63), 2**63 - 1])
    with pytest.raises(InputError, match="the bounds of v have too many digits"):
        wide.synthesize("t", rho="1", method="independent", rows=5)
    assert len(curator.history()) == len(wide.history()) == 0


def test_drawn_values_are_between_their_bounds_and_of_one_type() -> None:
    shares = np.array([0.0, 0.5, 1 - 2.0**-53])
    for bounds in (["0.1", "0.7"], [1, 20], ["0.3333333333333333", "0.9"], [1e15, 2e15], ["0.5", "0.5"], [0, 1e-9]):
        bins = EqualBins.of(bounded("v", [0.5], "double", bounds).context.catalog.table("t").find("v"))  # type: ignore[union-attr, arg-type]
        assert bins is not None
        drawn = bins.drawn(np.repeat(np.arange(len(bins.starts)), 3), np.tile(shares, len(bins.starts))).to_pylist()
        assert (min(drawn), max(drawn)) == (float(bounds[0]), float(bounds[1]))
        assert bins.place(float(bounds[0])) == 0
        assert bins.place(float(bounds[1])) == len(bins.starts) - 1
    huge = EqualBins(-(2**62), 2**62 - 1, 2**58)
    assert huge.drawn(np.array([0, 31]), np.array([0.0, 1 - 2.0**-53])).to_pylist()[0] == -(2**62)
    # A decimal column has one type, whichever values are drawn, and so have declared decimals.
    cents = EqualBins.of(
        bounded("v", [Decimal("1.00")], "decimal", [-5, 5000], step="0.01").context.catalog.table("t").find("v")  # type: ignore[union-attr, arg-type]
    )
    assert cents is not None
    assert {str(cents.drawn(np.array([at]), np.array([0.0])).type) for at in (0, 1, 31)} == {"decimal128(6, 2)"}
    rows = pa.table({"person": [1, 2], "v": [Decimal("1.50"), Decimal("2.25")]})
    columns = {"person": {"type": "integer"}, "v": {"type": "decimal", "categories": ["1.50", "2.25"]}}
    curator = tacit.open(rows, table="t", unit="person", rho="9e6", delta="1e-3", columns=columns, max_rows=1)
    table = curator.synthesize("t", rho="10", method="independent", rows=9)
    assert str(table.to_arrow()["v"].type) == "decimal128(3, 2)"
    assert set(table.sample(5, {"v": Decimal("2.25")})["v"].to_pylist()) == {Decimal("2.25")}


def test_a_column_of_times_is_refused_with_an_expression_that_would_do() -> None:
    at = datetime.datetime(2020, 1, 1, 7)
    curator = bounded("v", [at, at], "timestamp", ["2020-01-01 00:00:00", "2020-02-01 00:00:00"])
    with pytest.raises(QueryError, match=r"leave it out, or select an expression .* such as CAST\(v AS DATE\)"):
        curator.synthesize("t", rho="1", method="independent", rows=5)
    table = curator.synthesize("SELECT CAST(v AS DATE) AS day FROM t", rho="1", method="independent", rows=5)
    assert str(table.to_arrow()["day"].type) == "date32[day]"


def test_a_report_names_each_set_once_and_says_where_noise_hides_all() -> None:
    noisy = [
        NoisyMarginal(("a",), np.array([60.0, 40.0]), stddev) for stddev in (4.0, 2.0)
    ]  # fmt: skip
    model = fit_model({"a": 2}, noisy)
    table = SyntheticTable("t", noisy, model, {"a": ("x", "y")}, {}, 9)
    assert [(each.columns, each.stddev, each.times) for each in table.best_quality()] == [(("a",), 2.0, 2)]
    assert table.report().count("a: measured") == 1
    assert f"a: measured 2 times, each count within ± {noisy[1].wide('0.95'):.1f} (95%)" in table.report()
    assert "hides" not in table.report()
    far = [NoisyMarginal(("a",), np.array([9000.0, -9000.0]), 9000.0)]
    hidden = SyntheticTable("t", far, fit_model({"a": 2}, far), {"a": ("x", "y")}, {}, 9).report()
    assert "more than 100%" in hidden
    assert "noise hides what was measured" in hidden


def test_a_selected_column_with_too_many_values_is_named(curator: Curator) -> None:
    """Columns of a SELECT are counted value by value; only those of a table are put into bins."""
    with pytest.raises(QueryError, match="day has 7,305 values, and fewer than 4,000 can be counted one by one"):
        curator.synthesize("SELECT sex, day FROM t", rho="1", method="independent")
    assert len(curator.history()) == 0
