"""Exact samplers. Every distribution here is the mathematical one; no decision is left to float rounding.

Modules:
* :mod:`.bernoulli` — Exact Bernoulli draws
* :mod:`.entropy` — Source of all random bits
* :mod:`.gaussian` — Discrete Gaussian noise: P(x) ∝ exp(-x²/(2σ²)) on the integers, for any rational σ² > 0
* :mod:`.inversion` — Inversion of lazily revealed uniforms: fast in floats where provably right, exact elsewhere
* :mod:`.laplace` — Discrete Laplace noise: P(x) = tanh(1/(2t))·exp(-|x|/t) on the integers, for any rational scale t
  > 0
* :mod:`.rounded_normal` — Rounded normal noise: normal noise of variance σ² rounded to whole numbers, for any
  rational σ² > 0
* :mod:`.runs` — Choosing among runs of equally good candidates with exactly the weights of the exponential mechanism
* :mod:`.selection` — Choosing one of many candidates with exactly the probabilities of a selection mechanism
* :mod:`.uniform` — Uniform integers, and real uniforms revealed digit by digit
"""
