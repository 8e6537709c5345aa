"""The definition drawn: exact for tables, and for noise the δ that is known in closed form."""

from __future__ import annotations

import math
import runpy
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

import tacit
from tacit import laws
from tacit.core.errors import InputError
from tacit.core.normal import gaussian_delta_bounds
from tacit.lab import definition, geometric, leak, randomized_response, save_chart
from tacit.mechanisms.gaussian_profile import discrete_delta_bounds

F = Fraction


@cache
def mass(law: laws.DiscreteLaw, x: int) -> float:
    """Of one value; laws say it with certified bounds, so it is asked for once."""
    return float(law.mass(x).high)


def test_a_finite_mechanism_is_exact() -> None:
    coin = randomized_response(ratio=3)
    found = definition(coin, 0, 1, ratio=2)
    assert found.delta.value == coin.delta(ratio=2).value == F(1, 4)
    assert found.event == {0}
    assert not found.holds("0.24")
    assert found.holds("1/4")
    assert definition(coin, 0, 1, ratio=3).words == "empty"
    assert definition(tacit.RandomizedResponse(gamma="0.25"), True, False, ratio=2).delta.value == F(1, 4)
    assert definition(leak(delta="0.01"), 0, 1, epsilon=5).event == {0}


@pytest.mark.parametrize(("left", "right"), [(0, 1), (1, 0), (5, 2)])
@pytest.mark.parametrize("epsilon", ["0", "0.5", "1.5", "4"])
def test_noise_agrees_with_the_closed_forms(left: int, right: int, epsilon: str) -> None:
    gap, e = abs(left - right), F(epsilon)
    normal = definition(laws.GaussianLaw(sigma=2), left, right, epsilon=e).delta
    low, high = gaussian_delta_bounds(e, F(gap, 2))
    assert low - F(1, 10**30) <= normal.high
    assert normal.low <= high + F(1, 10**30)
    assert float(normal.high) == pytest.approx(float(high), abs=1e-15)
    laplace = definition(laws.LaplaceLaw(scale=2), left, right, epsilon=e).delta
    assert float(laplace.high) == pytest.approx(max(0.0, 1 - math.exp((float(e) - gap / 2) / 2)), abs=1e-12)
    discrete = definition(laws.DiscreteGaussianLaw(sigma=2), left, right, epsilon=e).delta
    assert float(discrete.high) == pytest.approx(float(discrete_delta_bounds(e, F(4), gap)[1]), abs=1e-11)


@pytest.mark.parametrize("law", [laws.DiscreteLaplaceLaw(scale=2), laws.DiscreteGaussianLaw(sigma=3)], ids=str)
@pytest.mark.parametrize(("left", "right"), [(0, 3), (3, 0), (2, 2)])
@pytest.mark.parametrize("epsilon", ["0", "0.5", "1", "1.5"])
def test_discrete_noise_agrees_with_brute_force(law: laws.DiscreteLaw, left: int, right: int, epsilon: str) -> None:
    found = definition(law, left, right, epsilon=epsilon).delta
    total = math.fsum(
        max(mass(law, x - left) - math.exp(float(F(epsilon))) * mass(law, x - right), 0.0) for x in range(-90, 91)
    )
    assert float(found.high) == pytest.approx(total, abs=1e-9)
    assert found.low <= found.high


def test_a_weighted_choice_is_drawn() -> None:
    choose = tacit.Exponential(epsilon=1, sensitivity=1)
    found = definition(choose, {"flu": 0, "cold": 2}, {"flu": 1, "cold": 1}, epsilon="0.5")
    p, q = choose.probabilities([0, 2])[1], choose.probabilities([1, 1])[1]
    assert float(found.delta.high) == pytest.approx(max(p - math.exp(0.5) * q, 0), abs=1e-9)
    assert definition(choose, [0, 2], [1, 1], epsilon=1).delta.high < F(1, 10**9)
    assert definition(tacit.PermuteAndFlip(epsilon=1, sensitivity=1), [0, 2], [1, 1], epsilon="0.2").event == {1}
    with pytest.raises(InputError, match="not neighbours"):
        definition(choose, [0, 2], [3, 2], epsilon=1)
    with pytest.raises(InputError, match="whole sensitivity"):
        definition(tacit.Laplace(epsilon=1, l1_sensitivity="0.5"), 0, 0, epsilon=1)


def test_an_exponential_alone_is_not_private() -> None:
    law = laws.ExponentialLaw(scale=1)
    assert float(definition(law, 0, 1, epsilon=50).delta.high) == pytest.approx(1 - math.exp(-1))
    assert definition(law, 1, 0, epsilon=1).delta.high == 0
    assert float(definition(law, 1, 0, epsilon="0.5").delta.high) == pytest.approx(1 - math.exp(-0.5))


def test_a_mechanism_is_drawn_with_the_noise_it_draws() -> None:
    found = definition(tacit.Laplace(epsilon=1, l1_sensitivity=1), 10, 11, epsilon="0.5")
    assert "Discrete Laplace(1) around 10" in str(found)
    assert found.words == "x <= 10"
    assert definition(tacit.Laplace(epsilon=1, l1_sensitivity=1), 11, 10, epsilon="0.5").words == "x >= 11"
    assert definition(tacit.Laplace(epsilon=1, l1_sensitivity=1), 10, 11, epsilon=1).delta.high == 0
    with pytest.raises(InputError, match="not neighbours"):
        definition(tacit.Laplace(epsilon=1, l1_sensitivity=1), 10, 13, epsilon=1)
    with pytest.raises(InputError, match="not neighbours"):
        definition(geometric(ratio=2, rows=2), (), (1, 1), epsilon=1)
    with pytest.raises(InputError, match="whole number"):
        definition(laws.DiscreteLaplaceLaw(scale=1), "0.5", 1, epsilon=1)
    with pytest.raises(InputError, match="finite mechanism"):
        definition(tacit.SparseVector(epsilon=1, sensitivity=1, threshold=3), 0, 1, epsilon=1)  # type: ignore[arg-type]


def test_charts_hold_the_numbers_and_render(tmp_path: Path) -> None:
    still = definition(randomized_response(ratio=3), 0, 1, ratio=2).chart()
    rows = still.to_dict()["data"]["values"]
    assert rows[0]["x"] == 0
    assert rows[0]["p"] == 0.75
    assert rows[0]["cap"] == pytest.approx(0.5)
    assert rows[0]["floor"] == pytest.approx(0.25 / 2)
    for chart in (still, definition(laws.GaussianLaw(sigma=1), 0, 1, epsilon=1).interactive()):
        assert any(layer["encoding"]["y"].get("field") == "floor" for layer in chart.to_dict()["layer"][:5])
    assert rows[0]["p"] - rows[0]["kept"] == pytest.approx(0.25)
    moving = definition(laws.GaussianLaw(sigma=1), 0, 1, epsilon=1).interactive().to_dict()
    assert moving["params"][0]["name"] == "epsilon"
    assert moving["params"][0]["bind"]["input"] == "range"
    drawn = moving["data"]["values"]
    area = sum(max(row["p"] - row["kept"], 0) * row["width"] for row in drawn)
    assert area == pytest.approx(0.1269367375, abs=1e-4)
    for name, chart in (
        ("still.svg", still),
        ("noise.svg", definition(laws.LaplaceLaw(scale=1), 0, 1, epsilon="0.5").chart()),
        ("page.html", definition(laws.LaplaceLaw(scale=1), 0, 1, epsilon="0.5").interactive()),
    ):
        save_chart(chart, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.deep
def test_the_figures_of_the_documentation_can_be_drawn(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "docs" / "figures"
    runpy.run_path(str(folder / "definition.py"))["draw"](tmp_path)
    for name in ("laws", "definition-gaussian", "definition-count", "composition-azuma"):
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")
        assert (folder / f"{name}.svg").read_text().startswith("<svg")
