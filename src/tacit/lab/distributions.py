r"""Distributions of noise as objects: the continuous ones of textbooks and the discrete ones that Tacit draws.

========================= =================================== ======================= ==============================
law                       density or mass                     tail Pr[\\|X\\| >= w]      variance
========================= =================================== ======================= ==============================
:class:`LaplaceLaw`       e^(-\\|x\\|/b)/(2b)                    e^(-w/b)                2b²
:class:`ExponentialLaw`   e^(-x/b)/b, x >= 0                  e^(-w/b)                b²
:class:`GaussianLaw`      e^(-x²/(2σ²))/(σ√(2π))              2Φ(-w/σ)                σ²
:class:`DiscreteLaplaceLaw`  (1-q)/(1+q)·q^\\|x\\|, q = e^(-1/b)  2q^w/(1+q), w >= 1      2q/(1-q)²
:class:`DiscreteGaussianLaw`  e^(-x²/(2σ²))/Σ                 a sum                   at most σ²
========================= =================================== ======================= ==============================

Every number is an :class:`~tacit.core.divergences.Enclosure`: two rationals between which the true value provably lies,
printed as one number if its first ten digits are known. Laws are not sampled here: mechanisms sample their exact
discrete noise. :func:`law_of` returns the law of a mechanism's noise, and ``.chart()`` charts a law.

>>> noise = LaplaceLaw(scale=2)
>>> print(noise.tail(6), noise.std)
0.04978706837 2.828427125
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, Final

from tacit.core.charts import altair, offline
from tacit.core.divergences import Enclosure
from tacit.core.errors import AccountingError, InputError
from tacit.core.normal import normal_cdf_bounds, normal_quantile_bounds
from tacit.core.numbers import (
    Number,
    exact,
    exact_nonnegative,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_nearest,
    format_up,
    log_bounds,
    sqrt_bounds,
)
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.gaussian import GaussianNoise
from tacit.mechanisms.gaussian_profile import discrete_upper_tail_bounds, discrete_weight_bounds
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.laplace import DiscreteLaplace

__all__ = [
    "ContinuousLaw",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "DiscreteLaw",
    "ExponentialLaw",
    "GaussianLaw",
    "LaplaceLaw",
    "Law",
    "chart_laws",
    "law_of",
]

#: Precisions tried in turn, in decimal digits, to decide whether a cdf is below a probability.
_PRECISIONS = (40, 80, 160, 320)


class Law(ABC):
    """Probability law of noise X: density or mass, cdf, tails, quantiles and variance, as enclosures."""

    #: Name of the law in charts and text.
    name: str

    @abstractmethod
    def weight(self, x: Number) -> Enclosure:
        """Return the density at ``x`` of a continuous law, the probability of ``x`` under a discrete law."""

    @abstractmethod
    def cdf(self, x: Number) -> Enclosure:
        """Return Pr[X <= ``x``]."""

    @abstractmethod
    def tail(self, w: Number) -> Enclosure:
        """Return Pr[|X| >= ``w``]."""

    @abstractmethod
    def quantile(self, probability: Number) -> Enclosure | int:
        """Return the smallest x with Pr[X <= x] >= ``probability``: an enclosure, or an integer for a discrete law."""

    @property
    @abstractmethod
    def variance(self) -> Enclosure:
        """Variance of X."""

    @property
    def std(self) -> Enclosure:
        """Standard deviation of X."""
        spread = self.variance
        return Enclosure(sqrt_bounds(Fraction(spread.low))[0], sqrt_bounds(Fraction(spread.high))[1])

    def chart(self, **options: Any) -> Any:
        """Return an Altair chart of the law; options are those of :func:`~tacit.lab.distributions.chart_laws`."""
        return chart_laws(self, **options)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class ContinuousLaw(Law):
    """Law with a density, as in textbooks. In floats its noise is not private, so no mechanism of Tacit samples it."""

    def density(self, x: Number) -> Enclosure:
        """The density at ``x``."""
        return self.weight(x)

    @abstractmethod
    def quantile(self, probability: Number) -> Enclosure:
        """Return an enclosure of the x with Pr[X <= x] = ``probability``."""


class DiscreteLaw(Law):
    """Law on the integers, which mechanisms sample."""

    def mass(self, x: Number) -> Enclosure:
        """Return the probability of the integer ``x``."""
        return self.weight(whole(x, "x"))

    def quantile(self, probability: Number) -> int:
        """Return the smallest integer x with Pr[X <= x] >= ``probability``."""
        wanted = exact_probability(probability, "probability")
        low, high = -1, 1
        while self._is_below(low, wanted) is False:
            low *= 2
        while self._is_below(high, wanted):
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_below(middle, wanted) else (low, middle)
        return high

    def _is_below(self, x: int, wanted: Fraction) -> bool:
        found = self.cdf(x)
        if found.high < wanted or found.low >= wanted:
            return found.high < wanted
        for digits in _PRECISIONS:
            found = self._cdf_at(x, digits)
            if found.high < wanted or found.low >= wanted:
                return found.high < wanted
        raise AccountingError(f"the cdf at {x} is too close to {float_nearest(wanted):g} to call; ask for another one")

    def _cdf_at(self, x: int, digits: int) -> Enclosure:  # noqa: ARG002 - laws that can be refined use them
        return self.cdf(x)


def enclose(low: Fraction, high: Fraction) -> Enclosure:
    """Return an enclosure of a probability, clipped to [0, 1]."""
    return Enclosure(max(low, Fraction(0)), min(high, Fraction(1)))


def whole(x: Number, parameter: str) -> int:
    """Return ``x`` as an integer; refuse any other number."""
    value = exact(x, parameter)
    if value.denominator != 1:
        raise InputError(parameter, "must be a whole number: a discrete law puts its probability on the integers")
    return value.numerator


#: π, enclosed to fifty digits.
_PI: Final = (
    Fraction(314159265358979323846264338327950288419716939937510, 10**50),
    Fraction(314159265358979323846264338327950288419716939937511, 10**50),
)


class ExponentialLaw(ContinuousLaw):
    """Density e^(-x/b)/b for x >= 0: the waiting time of mean ``scale`` = b.

    >>> print(ExponentialLaw(scale=2).tail(6))
    0.04978706837
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = exact_positive(scale, "scale")
        self.name = f"Exponential({format_up(self.scale)})"

    def weight(self, x: Number) -> Enclosure:
        """Return the density at ``x``, zero below 0."""
        at = exact(x, "x")
        if at < 0:
            return Enclosure(Fraction(0), Fraction(0))
        low, high = exp_bounds(-at / self.scale)
        return Enclosure(low / self.scale, high / self.scale)

    def cdf(self, x: Number) -> Enclosure:
        """1 - e^(-x/b)."""
        at = exact(x, "x")
        low, high = exp_bounds(-max(at, Fraction(0)) / self.scale)
        return enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """e^(-w/b)."""
        return enclose(*exp_bounds(-exact_nonnegative(w, "w") / self.scale))

    def quantile(self, probability: Number) -> Enclosure:
        """-b·ln(1 - p)."""
        low, high = log_bounds(1 - exact_probability(probability, "probability"))
        return Enclosure(-high * self.scale, -low * self.scale)

    @property
    def variance(self) -> Enclosure:
        """b²."""
        return Enclosure(self.scale**2, self.scale**2)


class LaplaceLaw(ContinuousLaw):
    """Density e^(-|x|/b)/(2b): two exponential laws back to back, each with half of the probability.

    A tail of t scales has probability e^-t, the standard deviation is √2·b.

    >>> law = LaplaceLaw(scale=10)
    >>> print(law.tail(3 * law.scale), law.std)
    0.04978706837 14.14213562
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = exact_positive(scale, "scale")
        self.name = f"Laplace({format_up(self.scale)})"

    @property
    def half(self) -> ExponentialLaw:
        """Exponential law of |X|; half of its density at |x| is the density of X at x."""
        return ExponentialLaw(scale=self.scale)

    def weight(self, x: Number) -> Enclosure:
        """Return the density at ``x``."""
        low, high = self.half.weight(abs(exact(x, "x")))
        return Enclosure(low / 2, high / 2)

    def cdf(self, x: Number) -> Enclosure:
        """e^(x/b)/2 below 0, 1 - e^(-x/b)/2 above."""
        at = exact(x, "x")
        low, high = (end / 2 for end in exp_bounds(-abs(at) / self.scale))
        return enclose(low, high) if at < 0 else enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """e^(-w/b)."""
        return self.half.tail(w)

    def quantile(self, probability: Number) -> Enclosure:
        """b·ln(2p) below the median, -b·ln(2(1 - p)) above."""
        p = exact_probability(probability, "probability")
        low, high = log_bounds(2 * min(p, 1 - p))
        ends = (low * self.scale, high * self.scale)
        return Enclosure(*ends) if p < Fraction(1, 2) else Enclosure(-ends[1], -ends[0])

    @property
    def variance(self) -> Enclosure:
        """2b²."""
        return Enclosure(2 * self.scale**2, 2 * self.scale**2)


class GaussianLaw(ContinuousLaw):
    """Density e^(-x²/(2σ²))/(σ√(2π)); give ``sigma``, or ``sigma2`` = σ² where σ is not rational.

    >>> print(GaussianLaw(sigma=2).tail(4))
    0.0455002639
    """

    def __init__(self, *, sigma: Number | None = None, sigma2: Number | None = None) -> None:
        if (sigma is None) == (sigma2 is None):
            raise InputError("sigma", "give either sigma, or sigma2 = sigma squared, and not both")
        if sigma is not None:
            self.sigma2 = exact_positive(sigma, "sigma") ** 2
        elif sigma2 is not None:
            self.sigma2 = exact_positive(sigma2, "sigma2")
        self._sigma = sqrt_bounds(self.sigma2)
        self.name = f"Gaussian({format_up(self._sigma[1])})"

    def weight(self, x: Number) -> Enclosure:
        """Return the density at ``x``."""
        low, high = exp_bounds(-(exact(x, "x") ** 2) / (2 * self.sigma2))
        root_low, root_high = (sqrt_bounds(2 * pi * self.sigma2)[i] for i, pi in enumerate(_PI))
        return Enclosure(low / root_high, high / root_low)

    def cdf(self, x: Number) -> Enclosure:
        """Φ(x/σ)."""
        at = exact(x, "x")
        ends = sorted(at / sigma for sigma in self._sigma)
        return enclose(normal_cdf_bounds(ends[0])[0], normal_cdf_bounds(ends[1])[1])

    def tail(self, w: Number) -> Enclosure:
        """2Φ(-w/σ)."""
        low, high = self.cdf(-exact_nonnegative(w, "w"))
        return enclose(2 * Fraction(low), 2 * Fraction(high))

    def quantile(self, probability: Number) -> Enclosure:
        """σ·Φ⁻¹(p)."""
        ends = normal_quantile_bounds(exact_probability(probability, "probability"))
        corners = [end * sigma for end in ends for sigma in self._sigma]
        return Enclosure(min(corners), max(corners))

    @property
    def variance(self) -> Enclosure:
        """σ²."""
        return Enclosure(self.sigma2, self.sigma2)


_ZERO: Final = Fraction(0)
#: Smallest scale: below it the noise is 0 except with probability about e^-1000.
_SMALLEST_SCALE: Final = Fraction(1, 1000)
#: Smallest and largest accepted σ².
_SIGMA2: Final = (Fraction(1, 200), Fraction(1 << 30))
#: Largest σ² for which the variance is summed term by term.
_SUMMED: Final = Fraction(10_000)


class DiscreteLaplaceLaw(DiscreteLaw):
    """Mass (1-q)/(1+q)·q^|x| with q = e^(-1/b): the two-sided geometric law of ``scale`` b.

    Moving it by one changes no probability by more than the factor e^(1/b), exactly as for the continuous law.

    >>> law = DiscreteLaplaceLaw(scale=1)
    >>> print(law.mass(0), law.mass(1), law.variance)
    0.4621171573 0.1700034016 1.841347188
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = _scale(scale)
        self.name = f"Discrete Laplace({format_up(self.scale)})"

    def weight(self, x: Number) -> Enclosure:
        """Return the probability of the integer ``x``."""
        q, power = exp_bounds(-1 / self.scale), exp_bounds(-abs(whole(x, "x")) / self.scale)
        return enclose((1 - q[1]) / (1 + q[1]) * power[0], (1 - q[0]) / (1 + q[0]) * power[1])

    def cdf(self, x: Number) -> Enclosure:
        """1 - q^(x+1)/(1+q) for x >= 0, and the mirror image below."""
        return self._cdf_at(math.floor(exact(x, "x")), 40)

    def tail(self, w: Number) -> Enclosure:
        """2·q^w/(1+q), with w rounded up to a whole number; 1 at w = 0."""
        at = math.ceil(exact_nonnegative(w, "w"))
        if at == 0:
            return Enclosure(Fraction(1), Fraction(1))
        low, high = self._side(at, 40)
        return enclose(2 * low, 2 * high)

    @property
    def variance(self) -> Enclosure:
        """2q/(1-q)²."""
        low, high = (2 * q / (1 - q) ** 2 for q in exp_bounds(-1 / self.scale, 60))
        return Enclosure(low, high)

    def _side(self, at: int, digits: int) -> tuple[Fraction, Fraction]:
        """Pr[X >= at], for at >= 1."""
        q, power = exp_bounds(-1 / self.scale, digits), exp_bounds(-at / self.scale, digits)
        return power[0] / (1 + q[1]), power[1] / (1 + q[0])

    def _cdf_at(self, x: int, digits: int) -> Enclosure:
        low, high = self._side(abs(x) if x < 0 else x + 1, digits)
        return enclose(low, high) if x < 0 else enclose(1 - high, 1 - low)


class DiscreteGaussianLaw(DiscreteLaw):
    """Mass e^(-x²/(2σ²)) over the sum of all of them; give ``sigma``, or ``sigma2`` = σ². σ is at most 2¹⁵.

    >>> law = DiscreteGaussianLaw(sigma=1)
    >>> print(law.mass(0), law.tail(3))
    0.3989422783 0.009134342836
    """

    def __init__(self, *, sigma: Number | None = None, sigma2: Number | None = None) -> None:
        if (sigma is None) == (sigma2 is None):
            raise InputError("sigma", "give either sigma, or sigma2 = sigma squared, and not both")
        if sigma is not None:
            self.sigma2 = exact_positive(sigma, "sigma") ** 2
        elif sigma2 is not None:
            self.sigma2 = exact_positive(sigma2, "sigma2")
        if not _SIGMA2[0] <= self.sigma2 <= _SIGMA2[1]:
            raise InputError(
                "sigma", "must lie between 0.08 and 2**15 here; beyond it GaussianLaw differs by less than 1e-10"
            )
        self._total = discrete_weight_bounds(self.sigma2)
        self.name = f"Discrete Gaussian({format_up(sqrt_bounds(self.sigma2)[1])})"

    def weight(self, x: Number) -> Enclosure:
        """Return the probability of the integer ``x``."""
        low, high = exp_bounds(-Fraction(whole(x, "x") ** 2) / (2 * self.sigma2))
        return enclose(low / self._total[1], high / self._total[0])

    def cdf(self, x: Number) -> Enclosure:
        """Pr[X <= x], by a sum of tail masses: 1 - Pr[X > x] for x >= 0, Pr[X >= -x] below."""
        at = math.floor(exact(x, "x"))
        low, high = discrete_upper_tail_bounds(self.sigma2, abs(at) if at < 0 else at + 1)
        return enclose(low, high) if at < 0 else enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """Twice the sum of masses from w on, with w rounded up to a whole number; 1 at w = 0."""
        at = math.ceil(exact_nonnegative(w, "w"))
        if at == 0:
            return Enclosure(Fraction(1), Fraction(1))
        low, high = discrete_upper_tail_bounds(self.sigma2, at)
        return enclose(2 * low, 2 * high)

    @property
    def variance(self) -> Enclosure:
        """Σ x²·mass(x), which is at most σ²."""
        if self.sigma2 <= _SUMMED:
            found = self._second_moment()
            return Enclosure(found.low, min(found.high, self.sigma2))
        # Poisson summation: the variance is σ²·(1 - 8π²σ²·Σ k²·e^(-2π²σ²k²)/θ) with θ >= 1, and the sum is tiny.
        return Enclosure(self.sigma2 * (1 - Fraction(1, 10**50)), self.sigma2)

    def _second_moment(self) -> Enclosure:
        """Return Σ x²·mass(x), by summation up to twelve standard deviations and a bound on the rest."""
        reach = math.ceil(12 * sqrt_bounds(self.sigma2)[1]) + 12
        low = high = Fraction(0)
        for x in range(1, reach + 1):
            bottom, top = exp_bounds(-Fraction(x * x) / (2 * self.sigma2))
            low, high = low + 2 * x * x * bottom, high + 2 * x * x * top
        # The ratio of consecutive terms is at most e^(-x/σ²)·(1 + 1/x)²: the rest is bounded by a geometric series.
        ratio = exp_bounds(-Fraction(reach + 1) / self.sigma2)[1] * (1 + Fraction(1, reach + 1)) ** 2
        last = 2 * (reach + 1) ** 2 * exp_bounds(-Fraction((reach + 1) ** 2) / (2 * self.sigma2))[1]
        return Enclosure(low / self._total[1], (high + last / (1 - ratio)) / self._total[0])


def _scale(scale: Number) -> Fraction:
    value = exact_positive(scale, "scale")
    if value < _SMALLEST_SCALE:
        raise InputError("scale", "must be at least 1/1000; below it the noise is 0 but for a probability of e^-1000")
    return value


#: Mechanisms and samplers of noise.
Drawn = AdditiveNoise | OnGrid | LaplaceNoise | GaussianNoise | DiscreteLaplace | DiscreteGaussian


def law_of(mechanism: Drawn) -> DiscreteLaw:
    """Return the law of a mechanism's noise on one integer; for floats, in steps of the mechanism's grid.

    >>> from tacit.mechanisms.laplace import Laplace
    >>> law = law_of(Laplace(epsilon="0.5", l1_sensitivity=1))
    >>> print(law, law.tail(7))
    Discrete Laplace(2) 0.03759328618
    """
    noise = mechanism.noise if isinstance(mechanism, AdditiveNoise | OnGrid) else mechanism
    match noise:
        case LaplaceNoise() | DiscreteLaplace():
            return DiscreteLaplaceLaw(scale=noise.scale)
        case GaussianNoise() | DiscreteGaussian():
            return DiscreteGaussianLaw(sigma2=noise.sigma2)
    raise InputError("mechanism", "must add Laplace or Gaussian noise to have a law of noise")


#: Colours that stay apart for colour-blind readers and in grey.
_COLOURS: Final = ("#0072b2", "#d08700", "#00805a", "#c0392b", "#7b3294", "#4c566a")
_POINTS: Final = 240


def chart_laws(*laws: Law, reach: Number | None = None, title: str | None = None) -> Any:
    """Chart densities as lines and masses as bars with a dot, over ±``reach``, by default all but a thousandth.

    Masses and densities share the axis because integers are one apart.
    """
    alt = altair()
    _check(laws)
    ends = _reach(laws, reach)
    names = [law.name for law in laws]
    colour = _colour(alt, names)
    across = alt.X("x:Q", title="noise x", scale=alt.Scale(domain=[float_nearest(end) for end in ends], nice=False))
    layers = []
    for law in laws:
        data = alt.Chart(_data(alt, _heights(law, *ends)))
        upwards = alt.Y("y:Q", title="density, or probability of an integer")
        if isinstance(law, ContinuousLaw):
            layers.append(data.mark_line(strokeWidth=2).encode(x=across, y=upwards, color=colour))
        else:
            layers.append(data.mark_rule(strokeWidth=2, opacity=0.55).encode(x=across, y=upwards, color=colour))
            layers.append(data.mark_point(filled=True, size=28).encode(x=across, y=upwards, color=colour))
    return _finished(alt.layer(*layers), title or "Laws of noise")


def _check(laws: tuple[Law, ...]) -> None:
    if not 1 <= len(laws) <= len(_COLOURS):
        raise InputError("laws", f"must be one to {len(_COLOURS)} laws")
    if len({law.name for law in laws}) != len(laws):
        raise InputError("laws", "must not name one law twice")


def _reach(laws: tuple[Law, ...], reach: Number | None) -> tuple[Fraction, Fraction]:
    end = exact_positive(reach, "reach") if reach is not None else max(Fraction(_upper(law)) for law in laws)
    signed = any(law.weight(-1).high > 0 for law in laws)
    return (-end if signed else Fraction(0)), end


def _upper(law: Law) -> Fraction:
    found = law.quantile("0.9995")
    return Fraction(found if isinstance(found, int) else found.high) + 1


def _heights(law: Law, low: Fraction, high: Fraction) -> list[dict[str, Any]]:
    if isinstance(law, ContinuousLaw):
        step = (high - low) / _POINTS
        # The kink of a Laplace law at 0 is a point of the grid.
        places = sorted({low + step * i for i in range(_POINTS + 1)} | {Fraction(0)})
        if law.weight(-1).high == 0:
            places = [x for x in places if x >= 0]
    else:
        places = [Fraction(x) for x in range(math.ceil(low), math.floor(high) + 1)]
    return [{"x": float_nearest(x), "y": law.weight(x).up, "law": law.name} for x in places]


def _colour(alt: Any, names: list[str]) -> Any:
    scale = alt.Scale(domain=names, range=list(_COLOURS[: len(names)]))
    return alt.Color("law:N", scale=scale, legend=alt.Legend(title=None, orient="top", symbolType="square"))


def _data(alt: Any, rows: list[dict[str, Any]]) -> Any:
    return alt.Data(values=rows)


def _finished(chart: Any, title: str) -> Any:
    return offline(
        chart.properties(width=520, height=280, title=title)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=14)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0")
    )
