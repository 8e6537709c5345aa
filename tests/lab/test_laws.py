"""Laws of noise: their numbers against scipy and brute force, and the drawn law beside the textbook's."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tacit
from tacit import laws
from tacit.core.divergences import Enclosure
from tacit.core.errors import InputError

CONTINUOUS = [
    (laws.LaplaceLaw(scale="2.5"), stats.laplace(scale=2.5)),
    (laws.ExponentialLaw(scale="0.4"), stats.expon(scale=0.4)),
    (laws.GaussianLaw(sigma=3), stats.norm(scale=3)),
    (laws.GaussianLaw(sigma2=2), stats.norm(scale=math.sqrt(2))),
]
DISCRETE = [
    laws.DiscreteLaplaceLaw(scale="0.7"),
    laws.DiscreteLaplaceLaw(scale=4),
    laws.DiscreteGaussianLaw(sigma2="0.25"),
    laws.DiscreteGaussianLaw(sigma=5),
]


def close(value: Enclosure, other: float, rel: float = 1e-9) -> None:
    assert value.low <= value.high
    assert float(value.low) == pytest.approx(other, rel=rel, abs=1e-300)
    assert float(value.high) == pytest.approx(other, rel=rel, abs=1e-300)


@pytest.mark.parametrize(("law", "other"), CONTINUOUS, ids=lambda item: str(item) if isinstance(item, laws.Law) else "")
def test_continuous_laws_agree_with_scipy(law: laws.ContinuousLaw, other: object) -> None:
    for x in (-7.5, -1.0, 0.0, 0.25, 3.0, 11.0):
        close(law.density(x), other.pdf(x))
        close(law.cdf(x), other.cdf(x))
    for w in (0.0, 0.5, 4.0, 9.0):
        close(law.tail(w), other.sf(w) + other.cdf(-w) if w else 1.0)
    for p in ("0.001", "0.3", "0.5", "0.975"):
        assert float(law.quantile(p).high) == pytest.approx(other.ppf(float(p)), abs=1e-12)
    close(law.variance, other.var())
    close(law.std, other.std())


@pytest.mark.parametrize("law", DISCRETE, ids=str)
def test_discrete_laws_are_sums_of_their_masses(law: laws.DiscreteLaw) -> None:
    masses = {x: float(law.mass(x).high) for x in range(-120, 121)}
    assert math.fsum(masses.values()) == pytest.approx(1, abs=1e-10)
    for x in (-9, -1, 0, 1, 2, 17):
        close(law.cdf(x), math.fsum(p for y, p in masses.items() if y <= x), rel=1e-8)
        close(law.cdf(Fraction(2 * x + 1, 2)), math.fsum(p for y, p in masses.items() if y <= x), rel=1e-8)
    for w in (0, 1, 2, 6):
        close(law.tail(w), math.fsum(p for y, p in masses.items() if abs(y) >= w))
    close(law.tail("1.5"), math.fsum(p for y, p in masses.items() if abs(y) >= 2))
    close(law.variance, math.fsum(p * y**2 for y, p in masses.items()), rel=1e-8)
    for p in ("0.001", "0.3", "0.6", "0.999"):
        x = law.quantile(p)
        assert law.cdf(x).low >= Fraction(p) > law.cdf(x - 1).high


def test_the_textbook_of_the_laplace_law() -> None:
    law = laws.LaplaceLaw(scale=7)
    for t in (1, 2, 5):
        close(law.tail(t * law.scale), math.exp(-t))
    close(law.std, math.sqrt(2) * 7)
    for x in (-3, 0, 2):
        assert law.density(x).low == law.half.density(abs(x)).low / 2


@pytest.mark.parametrize(
    ("sigma2", "zero", "three", "variance"),
    [
        ("0.25", 0.7865707070419479, 1.1979455936e-8, 0.215012675088138486),
        ("1", 0.398942278266861706, 0.00443184838823, 0.999999788767728083),
        ("100", 0.0398942280401432678, 0.0381387815461, 100.0),
    ],
)
def test_discrete_gaussian_vectors(sigma2: str, zero: float, three: float, variance: float) -> None:
    law = laws.DiscreteGaussianLaw(sigma2=sigma2)
    close(law.mass(0), zero, rel=1e-11)
    close(law.mass(3), three, rel=1e-11)
    close(law.variance, variance, rel=1e-11)


def test_large_sigmas_are_enclosed() -> None:
    law = laws.DiscreteGaussianLaw(sigma=2000)
    close(law.variance, 4e6, rel=1e-12)
    with pytest.raises(InputError, match="sigma"):
        laws.DiscreteGaussianLaw(sigma=10**6)


def test_the_distance_to_the_textbook_law_is_decided_at_zero() -> None:
    """Laplace noise rounded to integers exceeds the discrete law everywhere but at 0."""
    for scale in ("0.7", "4"):
        drawn, textbook = laws.DiscreteLaplaceLaw(scale=scale), laws.LaplaceLaw(scale=scale)

        def gap(x: int, drawn: laws.DiscreteLaw = drawn, textbook: laws.ContinuousLaw = textbook) -> float:
            cell = textbook.cdf(x + Fraction(1, 2)).high - textbook.cdf(x - Fraction(1, 2)).low
            return float(drawn.mass(x).high - cell)

        assert all(gap(x) < 1e-12 < gap(0) for x in range(1, 60))
        assert math.fsum(abs(gap(x)) for x in range(-90, 91)) / 2 == pytest.approx(gap(0), rel=1e-6)


def test_the_law_of_a_mechanism_is_what_it_draws(seeded: object) -> None:
    """Chi-square of 40,000 draws against the masses; the true scale passes, 4/5 and 5/4 of it do not."""
    mechanism = tacit.Laplace(epsilon="0.5", l1_sensitivity=1)
    draws = np.array(mechanism.release([0] * 40_000))

    def p_value(law: laws.DiscreteLaw) -> float:
        counts = [int((draws == x).sum()) for x in range(-8, 9)]
        shares = [float(law.mass(x).high) for x in range(-8, 9)]
        counts.append(len(draws) - sum(counts))
        shares.append(1 - sum(shares))
        return float(stats.chisquare(counts, [s * len(draws) for s in shares]).pvalue)

    assert p_value(laws.law_of(mechanism)) > 1e-6
    assert p_value(laws.DiscreteLaplaceLaw(scale="1.6")) < 1e-6
    assert p_value(laws.DiscreteLaplaceLaw(scale="2.5")) < 1e-6


def test_laws_of_other_mechanisms() -> None:
    gaussian = tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1)
    law = laws.law_of(gaussian)
    assert isinstance(law, laws.DiscreteGaussianLaw)
    assert law.sigma2 == gaussian.sigma2
    assert law.tail(gaussian.error("0.05") + 1).high <= Fraction(1, 20) < law.tail(gaussian.error("0.05")).low
    with pytest.raises(InputError, match="to have a law of noise"):
        laws.law_of(tacit.RandomizedResponse(gamma="0.25"))  # type: ignore[arg-type]


def test_laws_and_numbers_show_themselves_shortly() -> None:
    assert repr(laws.LaplaceLaw(scale=2)) == "<Laplace(2)>"
    assert repr(laws.LaplaceLaw(scale=2).tail(6)) == "Enclosure(0.04978706837)"
    assert repr(laws.LaplaceLaw(scale=2).variance) == "Enclosure(8)"
    assert "0" in repr(laws.GaussianLaw(sigma=2).tail(1000))


def test_words_of_errors() -> None:
    with pytest.raises(InputError, match="whole number"):
        laws.DiscreteLaplaceLaw(scale=1).mass("0.5")
    with pytest.raises(InputError, match="sigma squared"):
        laws.GaussianLaw()
    with pytest.raises(InputError, match="twice"):
        laws.chart_laws(laws.LaplaceLaw(scale=1), laws.LaplaceLaw(scale=1))


def test_charts_hold_the_numbers() -> None:
    law = laws.DiscreteLaplaceLaw(scale=2)
    drawn = laws.chart_laws(law, laws.LaplaceLaw(scale=2), reach=5).to_dict()
    rows = [row for layer in drawn["layer"] for row in layer["data"]["values"]]
    assert {"x": 0.0, "y": law.mass(0).up, "law": law.name} in rows
    assert {row["x"] for row in rows if row["law"] == law.name} == set(map(float, range(-5, 6)))
    assert law.chart(reach=3).to_dict()["layer"]
