"""Synthetic tables: what is measured stays within one budget, neighbours move nothing further than it is paid for."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from support.bits import SeededBits
from synth.small_tables import COLUMNS, counts_of, open_people, people, place_of
from tacit.core.errors import BudgetError, InputError, QueryError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.curator.curator import Curator
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.releases.synthesis import drawn_again, transcript_from_plain, transcripts_of, transcripts_to_text
from tacit.releases.synthetic_table import SyntheticTable
from tacit.synth import count_measurement, graphical_model, table_synthesis
from tacit.synth.count_measurement import DISCRETE_LAPLACE, ROUNDED_GAUSSIAN
from tacit.synth.graphical_model import GraphicalModel, JunctionTree, NoisyMarginal, fit_model, model_cells
from tacit.synth.synthesis_request import SynthesisRequest
from tacit.synth.synthesis_stages import SynthesisStages
from tacit.synth.table_synthesis import SynthesisPlan, Transcript, measure_table

NAMES = "abcd"
CELLS = np.random.default_rng(4).poisson(np.random.default_rng(5).gamma(0.3, 40, (2, 3, 4, 2)))
SIZES = dict(zip(NAMES, CELLS.shape, strict=True))
PLANS = {
    "independent": SynthesisPlan("independent", SIZES, Fraction(1)),
    "marginals": SynthesisPlan("marginals", SIZES, Fraction(1), sets=(("a", "b", "c"), ("c", "d"))),
    "mst": SynthesisPlan("mst", SIZES, Fraction(1)),
    "aim": SynthesisPlan("aim", SIZES, Fraction(1)),
    # Noise hides some values.
    "rare": SynthesisPlan("mst", SIZES, Fraction(1, 1000)),
    "gdp": SynthesisPlan("mst", SIZES, Fraction(2), noise=ROUNDED_GAUSSIAN),
    "pure": SynthesisPlan("aim", SIZES, Fraction(2), noise=DISCRETE_LAPLACE),
    "pure mst": SynthesisPlan("mst", SIZES, Fraction(2), noise=DISCRETE_LAPLACE),
    # So few rows for the price that all of it is spent on columns by themselves.
    "hidden": SynthesisPlan("aim", SIZES, Fraction(1, 10**6)),
}
METHODS = list(PLANS)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rounds than a published table takes."""
    monkeypatch.setattr(table_synthesis, "_ROUNDS", 3)
    monkeypatch.setattr(table_synthesis, "_ROUND_STEPS", 8)
    monkeypatch.setattr(graphical_model, "_SAMPLED", 3_000)


# -- budget and neighbours


@pytest.mark.usefixtures("seeded", "quick")
@pytest.mark.parametrize("method", METHODS)
def test_all_releases_together_cost_no_more_than_the_price(method: str) -> None:
    plan = PLANS[method]
    transcript = measure_table(plan, counts_of(CELLS, NAMES))
    (cost, *_) = plan.noise.currency.cost(transcript.event(ADD_REMOVE), ADD_REMOVE).values()
    assert Fraction(99, 100) * plan.price < cost <= plan.price
    assert (max(len(each.measurement.columns) for each in transcript.measured) == 1) == (
        method in ("independent", "hidden")
    )
    assert {each.measurement.columns for each in transcript.measured} >= {(name,) for name in NAMES}
    back = transcript_from_plain(transcripts_of(transcripts_to_text([transcript]), 1)[0], plan)
    assert back.chosen == transcript.chosen
    assert all(
        np.array_equal(a.noisy, b.noisy) and a.measurement.sigma2 == b.measurement.sigma2
        for a, b in zip(back.measured, transcript.measured, strict=True)
    )


class Replay:
    """Runs once with noise, and then on other data with the same outputs, so that both take the same path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: list[list[tuple[Any, np.ndarray]]] = []
        self.outputs: list[Any] = []
        self.place = 0
        gaussian, choose = count_measurement.add_noise, table_synthesis.choose
        monkeypatch.setattr(count_measurement, "add_noise", self._through(gaussian))
        monkeypatch.setattr(table_synthesis, "choose", self._through(choose))
        # Samples of a model are drawn from bits that have nothing to do with the data; here the same for all.
        monkeypatch.setattr(graphical_model, "uniform", lambda count: self.bits.random(count))

    def _through(self, release: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def passed(mechanism: Any, raw: Any) -> Any:
            self.inputs[-1].append((mechanism, np.array(raw, dtype=object).ravel()))
            if len(self.inputs) == 1:
                self.outputs.append(release(mechanism, raw))
            self.place += 1
            return self.outputs[self.place - 1]

        return passed

    def run(self, plan: SynthesisPlan, cells: np.ndarray) -> None:
        self.inputs.append([])
        self.place = 0
        self.bits = np.random.default_rng(8)
        measure_table(plan, counts_of(cells, NAMES))


@pytest.mark.usefixtures("seeded", "quick")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "relation"), [(1, ADD_REMOVE), (3, ADD_REMOVE), (2, REPLACE_ONE)])
def test_neighbours_move_every_release_within_its_sensitivity(
    monkeypatch: pytest.MonkeyPatch, method: str, rows: int, relation: Relation
) -> None:
    stated = PLANS[method]
    plan = replace(stated, rows=rows, relation=relation)
    replay = Replay(monkeypatch)
    replay.run(plan, CELLS)
    worst = []
    # One unit with all its rows in one cell, or spread; where units are replaced, the other one elsewhere.
    for places in ([(0, 0, 0, 0)] * rows, [(1, 2, 3, 1)] * rows, [(0, 1, 2, 1), (1, 0, 0, 0), (1, 1, 1, 1)][:rows]):
        other = CELLS.copy()
        for place in places:
            other[place] += 1
        if relation is REPLACE_ONE:
            other[0, 2, 1, 0] -= min(rows, CELLS[0, 2, 1, 0])
        replay.run(plan, other)
        first, second = replay.inputs[0], replay.inputs[-1]
        assert len(first) == len(second)
        for (mechanism, left), (same, right) in zip(first, second, strict=True):
            moved = [int(x) for x in left - right]
            if hasattr(mechanism, "l2_squared"):
                assert mechanism.sigma2 == same.sigma2
                worst.append(sum(x * x for x in moved) / mechanism.l2_squared)
            elif isinstance(mechanism, RoundedGaussian):
                assert mechanism.sigma2 == same.sigma2
                worst.append(sum(x * x for x in moved) / mechanism.l2_sensitivity**2)
            elif isinstance(mechanism, Laplace):
                assert mechanism.scale == same.scale
                worst.append(sum(map(abs, moved)) / mechanism.l1_sensitivity)
            else:
                assert (mechanism.epsilon, mechanism.sensitivity) == (same.epsilon, same.sensitivity)
                worst.append(max(map(abs, moved)) / mechanism.sensitivity)
    assert max(worst) <= 1
    assert max(worst) > (0.9 if relation is ADD_REMOVE else 0.4)


@pytest.mark.usefixtures("seeded")
def test_a_spanning_tree_has_the_pairs_that_depend_on_one_another() -> None:
    made = np.random.default_rng(1)
    a, c = made.integers(0, 3, 5000), made.integers(0, 3, 5000)
    b, d = np.where(made.random(5000) < 0.9, a, made.integers(0, 3, 5000)), c
    cells = np.zeros((3, 3, 3, 3), dtype=np.int64)
    np.add.at(cells, (a, b, c, d), 1)
    plan = SynthesisPlan("mst", dict.fromkeys(NAMES, 3), Fraction(1))
    chosen = [each.columns for each in measure_table(plan, counts_of(cells, NAMES)).chosen]
    assert set(chosen[:2]) == {("a", "b"), ("c", "d")}
    assert len(chosen) == 3


@pytest.mark.parametrize(
    "stated",
    [{"method": "best"}, {"sizes": {}}, {"method": "marginals"}, {"method": "aim", "sets": (("a", "z"),)}],
)
def test_what_cannot_be_planned_is_refused(stated: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        SynthesisPlan(**({"method": "mst", "sizes": SIZES, "price": Fraction(1)} | stated))


def test_a_run_cannot_exceed_its_budget() -> None:
    run = table_synthesis._Run(PLANS["mst"], counts_of(CELLS, NAMES), lambda _: None)
    run._measure(("a",), Fraction(2, 3))
    with pytest.raises(Exception, match="exceed the budget"):
        run._measure(("b",), Fraction(1, 2))


# -- models


def brute_force(potentials: dict[tuple[str, ...], np.ndarray]) -> np.ndarray:
    table = np.zeros(tuple(SIZES.values()))
    for names, values in potentials.items():
        shape = tuple(SIZES[name] if name in names else 1 for name in NAMES)
        table = table + values.reshape(shape)
    weights = np.exp(table)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(
    "cliques", [["ab", "bc", "cd"], ["ab", "bc", "ac", "d"], ["a", "b", "cd"], ["abc", "cd", "ad"]]
)
def test_probabilities_of_a_model_are_those_of_the_whole_table(cliques: list[str]) -> None:
    made = np.random.default_rng(2)
    potentials = {tuple(c): made.normal(0, 1, tuple(SIZES[name] for name in c)) for c in cliques}
    whole = brute_force(potentials)
    for node, table in JunctionTree(SIZES, list(potentials)).probabilities(potentials).items():
        others = tuple(axis for axis, name in enumerate(NAMES) if name not in node)
        order = [sorted(node).index(name) for name in node]
        assert np.allclose(table, whole.sum(axis=others).transpose(order))
    model = GraphicalModel(SIZES, potentials, 1000.0)
    for pair in itertools.combinations(NAMES, 2):
        others = tuple(axis for axis, name in enumerate(NAMES) if name not in pair)
        assert np.allclose(model.marginal(pair), 1000 * whole.sum(axis=others))
        assert np.abs(model.marginals([pair])[pair] - 1000 * whole.sum(axis=others)).sum() < 30
    assert np.allclose(model.marginal("adb"), 1000 * whole.sum(axis=2).transpose(0, 2, 1))


def test_a_model_fits_what_was_measured_and_has_no_more_structure() -> None:
    sets = [("a",), ("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    counted = counts_of(CELLS, NAMES)
    measured = [NoisyMarginal(names, counted(names).astype(float), 1.0) for names in sets]
    model = fit_model(SIZES, measured, iterations=300, close=0)
    for noisy in measured:
        assert np.abs(model.marginal(noisy.columns) - noisy.counts).sum() < 1e-3 * model.total
    # Counts of one set twice are their mean, weighted by their precision.
    twice = [*measured, NoisyMarginal(("a",), counted(("a",)) + np.array([30.0, -30.0]), 1e-3)]
    assert fit_model(SIZES, twice).marginal("a") == pytest.approx(counted(("a",)) + np.array([30.0, -30.0]), rel=1e-3)


def test_the_size_of_a_model_is_that_of_its_tree() -> None:
    for cliques in (["ab", "bc"], ["ab", "bc", "ac"], ["ab", "bc", "cd", "ad"], []):
        listed = [tuple(each) for each in cliques]
        assert model_cells(SIZES, listed) == JunctionTree(SIZES, listed).cells
    assert model_cells(SIZES, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]) == 2 * 3 * 2 + 3 * 4 * 2


def test_minutes_say_how_large_a_model_may_grow_from_public_numbers_alone() -> None:
    small, large = (SynthesisPlan("aim", SIZES, Fraction(1), minutes=m).largest_model for m in (1, 60))
    assert large == pytest.approx(60 * small, rel=0.01)
    for wrong in (0, 1441, True, 1.5):
        with pytest.raises(InputError, match="minutes"):
            SynthesisPlan("aim", SIZES, Fraction(1), minutes=wrong)  # type: ignore[arg-type]


# -- through the curator


@pytest.fixture(scope="module")
def published() -> Iterator[tuple[Curator, SyntheticTable]]:
    """A table that is made once."""
    bits = SeededBits(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.noise.entropy.current", lambda: bits)
        curator = open_people(people(3000))
        yield curator, curator.synthesize("people", ["sex", "ward", "age"], rho="2", method="mst", rows=3000)


def test_a_published_table_is_like_the_real_one(published: tuple[Curator, SyntheticTable]) -> None:
    _, table = published
    drawn, real = table.to_arrow(), people(3000)
    assert drawn.num_rows == 3000
    assert drawn.column_names == ["sex", "ward", "age"]
    assert drawn.schema.field("age").type == pa.int64()
    for pair in (("sex", "ward"), ("ward", "age")):
        ours, theirs = (Counter(zip(*(t[name].to_pylist() for name in pair), strict=True)) for t in (drawn, real))
        apart = sum(abs(ours[key] - theirs[key]) for key in ours | theirs)
        assert apart / 2 / 3000 < 0.05


def test_the_report_compares_with_independent_columns(published: tuple[Curator, SyntheticTable]) -> None:
    """Its columns depend on one another; shuffled ones do not, and a table of single columns cannot know."""
    _, table = published
    seen, noise = table.beyond_independence() or (0, 0)
    assert seen > 3 * noise > 0
    assert "independent columns" in table.report()
    assert "no more than independent columns" not in table.report()
    rows, made = people(1000), np.random.default_rng(2)
    apart = pa.table({name: rows.column(name).take(made.permutation(1000)) for name in rows.column_names})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.noise.entropy.current", partial(SeededBits, 5))
        shuffled = open_people(apart).synthesize("people", ["sex", "ward", "age"], rho="0.2", method="mst")
        single = open_people(rows).synthesize("people", ["sex", "ward"], rho="1", method="independent")
    assert "the table is worth no more than independent columns" in shuffled.report()
    assert single.beyond_independence() is None
    assert "the table is one of independent columns" in single.report()


def test_it_is_charged_once_and_its_receipt_lists_every_release(published: tuple[Curator, SyntheticTable]) -> None:
    curator, table = published
    assert curator.check_receipt(table.receipt).ok
    lines = table.receipt["answers"][0]["mechanisms"]
    assert len(lines) == 3 + 2 + 2
    assert len(curator.history()) == 1
    again = curator.synthesize("people", ["sex", "ward", "age"], rho="2", method="mst", rows=50)
    assert again.charge.repeated
    assert again.to_arrow().num_rows == 50
    assert len(curator.history()) == 1
    assert curator.ledger.verify().ok


def test_it_is_asked_and_saved_for_nothing(published: tuple[Curator, SyntheticTable], tmp_path: Path) -> None:
    _, table = published
    assert 1300 < table.to_arrow()["sex"].to_pylist().count("f") < 1700
    table.save(tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 3000
    table.save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == "sex,ward,age"
    with pytest.raises(InputError):
        table.save(tmp_path / "t.txt")
    assert table.sample(7).num_rows == 7
    quality = {each.columns: each for each in table.quality()}
    assert set(quality) == {each.columns for each in table.measured}
    assert all(each.distance < 0.1 for each in quality.values())
    assert "not measured, so nothing is promised: 1 of 3 pairs" in table.report()


def test_a_table_is_drawn_again_from_the_ledger_for_nothing(
    published: tuple[Curator, SyntheticTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    curator, table = published
    (told,) = curator.releases()
    assert (told.names, told.source, told.kind) == (("people_synthetic",), "people", "synthesis")
    monkeypatch.setattr(type(curator.context.engine), "measure", lambda *_: pytest.fail("data was read"))
    again = drawn_again(curator.context, curator.released("people_synthetic").receipt.position, 20)
    assert again.charge.repeated
    assert again.receipt.to_json() == table.receipt.to_json()
    assert again.to_arrow().num_rows == 20
    assert np.allclose(again.model.marginal(["ward"]), table.model.marginal(["ward"]))
    assert len(curator.history()) == 1
    for wrong in ("nothing", 10**6, 0):
        with pytest.raises(InputError):
            curator.released(wrong)


def test_counts_have_an_interval_where_they_were_measured(published: tuple[Curator, SyntheticTable]) -> None:
    _, table = published
    real = Counter(people(3000)["ward"].to_pylist())
    rows = table.marginal(["ward"]).to_pylist()
    assert [row["ward"] for row in rows] == ["a", "b", "c"]
    for row in rows:
        assert row["low"] < row["measured"] < row["high"]
        assert row["low"] - 40 < real[row["ward"]] < row["high"] + 40
    (never,) = table.not_measured
    assert all(row["measured"] is None and row["model"] >= 0 for row in table.marginal(never).to_pylist())
    with pytest.raises(InputError):
        table.marginal(["ward", "ward"])


def test_a_crash_after_the_charge_is_resumed_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_people()

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("tacit.releases.synthesis.measure_table", killed)
        with pytest.raises(Killed):
            curator.synthesize("people", ["sex", "ward"], rho="1", method="mst", rows=10)
    assert curator.releases() == ()
    spent = curator.budget().spent
    table = curator.synthesize("people", ["sex", "ward"], rho="1", method="mst", rows=10)
    assert table.to_arrow().num_rows == 10
    assert curator.budget().spent == spent
    assert len(curator.history()) == 1
    assert len(curator.releases()) == 1


def test_the_order_of_rows_and_columns_changes_nothing_that_is_charged() -> None:
    rows = people(200)
    texts = []
    for table, columns in ((rows, ["sex", "ward"]), (rows.take(np.arange(200)[::-1]), ["ward", "sex"])):
        request = SynthesisRequest.of("people", columns, "mst", {"rho": "1"})
        stages = SynthesisStages(open_people(table).context, request)
        ready = stages.stage(0, [])
        counted = ready.counts.count(open_people(table).context, [("sex", "ward")])["sex", "ward"]
        texts.append((stages.guarantee, ready.plan.price, sorted(map(sorted, ready.plan.candidates)), counted.tolist()))
    assert texts[0] == texts[1]


def test_wide_integers_are_put_into_bins_by_a_public_rule() -> None:
    rows = pa.table({"person": [1, 2, 3, 4], "pay": [-5, 0, 994, 7000], "sex": ["f", "m", "m", "f"]})
    columns = {"person": {"type": "integer"}, "pay": {"type": "integer", "bounds": [-5, 994]}, "sex": COLUMNS["sex"]}
    curator = tacit.open(rows, table="t", unit="person", rho="5", delta="1e-3", columns=columns, max_rows=1)
    ready = SynthesisStages(curator.context, SynthesisRequest.of("t", None, "independent", {"rho": "1"})).stage(0, [])
    assert list(ready.counts.sizes) == ["pay", "sex"]
    counted = ready.counts.count(curator.context, [("pay",)])["pay",]
    # The last row has a value beyond the bounds.
    assert int(counted.sum()) == 3
    bins = ready.bins["pay"]
    places = np.flatnonzero(counted)
    drawn = bins.drawn(places, np.array([0.0, 0.999999])[: len(places)])
    assert drawn[0].as_py() == -5 + bins.width * places[0]
    assert max(drawn.to_pylist()) <= 994
    assert ready.counts.sizes["pay"] == 32
    every = bins.drawn(np.repeat(np.arange(32), 2), np.tile([0.0, 0.999999], 32))
    assert (min(every.to_pylist()), max(every.to_pylist())) == (-5, 994)


def test_what_cannot_be_synthesised_is_refused_before_it_is_charged() -> None:
    curator = open_people()
    for arguments in (
        {"source": "nowhere"},
        {"source": 3},
        {"columns": ["person"]},
        {"columns": "sex"},
        {"columns": ["nothing"]},
        {"method": "best"},
        {"method": "marginals"},
        {"rows": 0},
        {"epsilon": None, "rho": None},
        {"within": 3},
    ):
        with pytest.raises((InputError, QueryError)):
            curator.synthesize(**({"source": "people", "rho": "1"} | arguments))  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        curator.synthesize("people", rho="1000", method="mst")
    assert curator.history() == ()


def test_a_transcript_is_empty_before_it_begins() -> None:
    assert Transcript().marginals == []


# -- what is refused


class Killed(BaseException):
    """The process dies here."""


def test_decimals_doubles_and_dates_are_put_into_bins_and_come_back_as_such() -> None:
    days = [
        datetime.date(2020, 1, 1),
        datetime.date(2022, 12, 31),
        datetime.date(2021, 6, 1),
        datetime.date(1999, 1, 1),
    ]
    rows = pa.table(
        {
            "person": [1, 2, 3, 4],
            "cost": [Decimal("0.00"), Decimal("5000.00"), Decimal("157.29"), Decimal("6000.00")],
            "size": [0.0, 10.0, 0.3125, 2.0],
            "day": days,
        }
    )
    columns = {
        "person": {"type": "integer"},
        "cost": {"type": "decimal", "bounds": [0, 5000], "step": "0.01"},
        "size": {"type": "double", "bounds": [0, 10]},
        "day": {"type": "date", "bounds": ["2020-01-01", "2022-12-31"]},
    }
    curator = tacit.open(rows, table="t", unit="person", rho="9e6", delta="1e-3", columns=columns, max_rows=1)
    table = curator.synthesize("t", rho="1e6", method="marginals", marginals=[["cost", "size"]], rows=300)
    made = table.to_arrow()
    assert [str(each.type) for each in made.schema] == ["decimal128(6, 2)", "double", "date32[day]"]
    # The fourth row is beyond two bounds, so that three rows count; at this price nearly all come back in their bins.
    for name, exact in (("cost", rows["cost"]), ("size", rows["size"]), ("day", rows["day"])):
        bins = table.bins[name]
        real = {place_of(bins, value) for value in exact.to_pylist()[:3]}
        assert sum(place_of(bins, value) in real for value in made[name].to_pylist()) > 285
        assert place_of(bins, exact.to_pylist()[0]) == 0
    assert table.bins["cost"].label(1) == "156.26 to 312.51"
    asked = curator.sql("SELECT MIN(day) AS first, MAX(cost) AS dear FROM t_synthetic")
    assert asked.is_public


@pytest.mark.usefixtures("seeded", "quick")
def test_choices_that_are_not_stored_are_told_to_no_person() -> None:
    """A run that dies makes its choices again under the same charge, so that progress may not speak of them."""
    for method in ("mst", "aim"):
        said: list[str] = []
        plan = SynthesisPlan(method, SIZES, Fraction(10))  # type: ignore[arg-type]
        made = measure_table(plan, counts_of(CELLS, NAMES), said.append)
        pairs = [", ".join(each.measurement.columns) for each in made.measured if len(each.measurement.columns) > 1]
        assert pairs
        assert not any(f"measured {pair}:" in line for line in said for pair in pairs)
        assert len(said) == len(made.measured)


@pytest.mark.parametrize(
    ("terms", "price"),
    [
        ({"accounting": None, "rho": None, "delta": None, "epsilon": "3"}, {"epsilon": "1e-11"}),
        ({"accounting": "gdp", "rho": None, "delta": None, "mu": "3"}, {"mu": "1e-12"}),
    ],
)
def test_a_price_that_buys_nothing_is_refused_before_it_is_charged(
    terms: dict[str, Any], price: dict[str, str]
) -> None:
    curator = open_people(**terms)
    for method in ("aim", "mst", "independent"):
        with pytest.raises(InputError, match="too small"):
            curator.synthesize("people", method=method, **price)  # type: ignore[arg-type, misc]
    assert curator.history() == ()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("terms", "price", "noise"),
    [
        ({"accounting": None, "rho": None, "delta": None, "epsilon": "30"}, {"epsilon": "10"}, "Laplace"),
        ({"accounting": "gdp", "rho": None, "epsilon": "30"}, {"epsilon": "10", "delta": "1e-6"}, "RoundedGaussian"),
    ],
)
def test_tables_of_other_accounts_have_receipts_that_hold(
    terms: dict[str, Any], price: dict[str, str], noise: str
) -> None:
    curator = open_people(**terms)
    table = curator.synthesize("people", method="aim", rows=50, **price)  # type: ignore[arg-type]
    assert curator.check_receipt(table.receipt).ok
    assert {line["mechanism"] for line in table.receipt["answers"][0]["mechanisms"]} == {noise, "ChosenMarginal"}
    counts = table.marginal(["sex"])
    true = [people()["sex"].to_pylist().count(sex) for sex in "fm"]
    assert all(abs(a - b) < 60 for a, b in zip(counts["measured"].to_pylist(), true, strict=True))
