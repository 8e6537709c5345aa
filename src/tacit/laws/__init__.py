r"""Noise laws as objects: the continuous ones of textbooks and the discrete ones that Tacit draws.

========================= =================================== ======================= ==============================
law                       density or mass                     tail Pr[\\|X\\| >= w]      variance
========================= =================================== ======================= ==============================
:class:`LaplaceLaw`       e^(-\\|x\\|/b)/(2b)                    e^(-w/b)                2b²
:class:`ExponentialLaw`   e^(-x/b)/b, x >= 0                  e^(-w/b)                b²
:class:`GaussianLaw`      e^(-x²/(2σ²))/(σ√(2π))              2Φ(-w/σ)                σ²
:class:`DiscreteLaplaceLaw`  (1-q)/(1+q)·q^\\|x\\|, q = e^(-1/b)  2q^w/(1+q), w >= 1      2q/(1-q)²
:class:`GeometricLaw`     (1-q)·q^x, x = 0, 1, 2, …           q^w                     q/(1-q)²
:class:`DiscreteGaussianLaw`  e^(-x²/(2σ²))/Σ                 a sum                   at most σ²
========================= =================================== ======================= ==============================

Every number is an :class:`~tacit.core.divergences.Enclosure`: two rationals that the true value provably lies between,
which prints as one number where its first ten digits are known. Nothing here draws: releases are made by mechanisms,
whose noise stays exact and discrete. :func:`law_of` gives the law that a mechanism draws from,
and ``.chart()`` draws it.

>>> noise = LaplaceLaw(scale=2)
>>> print(noise.tail(6), noise.std)
0.04978706837 2.828427125

Modules:
* :mod:`.charts` — Charts of laws: density or masses
* :mod:`.continuous` — Continuous laws: Laplace, exponential, Gaussian
* :mod:`.discrete` — Discrete laws that mechanisms draw exactly: discrete Laplace, geometric, discrete Gaussian
* :mod:`.drawn` — Law of the noise that a mechanism draws
* :mod:`.law` — Base class of noise laws
"""

from __future__ import annotations

from tacit.laws.charts import chart_laws
from tacit.laws.continuous import ExponentialLaw, GaussianLaw, LaplaceLaw
from tacit.laws.discrete import DiscreteGaussianLaw, DiscreteLaplaceLaw, GeometricLaw
from tacit.laws.drawn import law_of
from tacit.laws.law import ContinuousLaw, DiscreteLaw, Law

__all__ = [
    "ContinuousLaw",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "DiscreteLaw",
    "ExponentialLaw",
    "GaussianLaw",
    "GeometricLaw",
    "LaplaceLaw",
    "Law",
    "chart_laws",
    "law_of",
]
