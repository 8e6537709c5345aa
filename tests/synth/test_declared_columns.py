"""Columns with NULL as a value, and columns with bounds, in bins."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tacit
from support.bits import SeededBits
from synth.small_tables import place_of
from tacit.core.errors import InputError, QueryError
from tacit.curator.curator import Curator
from tacit.releases.synthetic_table import SyntheticTable
from tacit.synth.column_bins import EqualBins
from tacit.synth.graphical_model import NoisyMarginal, fit_model
from tacit.synth.synthesis_request import SynthesisRequest
from tacit.synth.synthesis_stages import SynthesisStages

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


def test_null_is_a_value_of_numbers_and_booleans(curator: Curator) -> None:
    names = ["sex", "pregnant", "children", "pay"]
    table = curator.synthesize(
        "t", names, rho="1e4", method="marginals", marginals=[["sex", "pregnant"]], rows=COUNT,
        nulls=["pregnant", "Children", "pay"],
    )  # fmt: skip
    made = table.to_arrow()
    assert [str(each.type) for each in made.schema] == ["string", "bool", "int64", "int64"]
    real = rows()
    for name in ("pregnant", "children"):
        drawn, exact = Counter(made[name].to_pylist()), Counter(real[name].to_pylist())
        assert drawn.keys() == exact.keys()
        assert all(abs(drawn[value] - exact[value]) < 12 for value in exact)
    assert abs(made["pay"].null_count - real["pay"].null_count) < 8
    assert {row["pregnant"] for row in table.marginal(["pregnant"]).to_pylist()} == {"NULL", "False", "True"}
    # Left to themselves, rows with a NULL do not count.
    assert curator.synthesize("t", ["children"], rho="1e4", method="independent").rows == pytest.approx(480, abs=5)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"nulls": ["sex"]}, "null_category"),
        ({"nulls": "pay"}, "list of names"),
        ({"nulls": ["nothing"]}, "no column"),
        ({"source": "SELECT sex FROM t", "nulls": ["sex"]}, "name of a table"),
    ],
)
def test_nulls_that_no_column_can_have_are_refused_before_the_charge(
    curator: Curator, stated: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        curator.synthesize(**({"source": "t", "rho": "1", "method": "mst"} | stated))
    assert curator.history() == ()


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
    stages = SynthesisStages(
        curator.context, SynthesisRequest.of("t", None, "independent", {"rho": "1", "nulls": listed})
    )
    stage = stages.stage(0, [])
    bins = stage.bins["v"]
    counted = stage.counts.count(curator.context, [("v",)])["v",]
    assert len(counted) == len(bins.starts) + nulls
    expected = np.zeros(len(counted), dtype=int)
    np.add.at(expected, [place_of(bins, each) for each in inside], 1)
    if nulls:
        expected[0] += missing
    assert counted.tolist() == expected.tolist()


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
        assert place_of(bins, float(bounds[0])) == 0
        assert place_of(bins, float(bounds[1])) == len(bins.starts) - 1
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
    assert set(table.sample(50)["v"].to_pylist()) <= {Decimal("1.50"), Decimal("2.25")}


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
    assert [(each.columns, each.stddev, each.times) for each in table.quality()] == [(("a",), 2.0, 2)]
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
