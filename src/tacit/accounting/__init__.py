"""Accounting: composition, calibration and filters over events and guarantees.

Modules:
* :mod:`.advanced` — Advanced composition: many small ε cost about the square root of their number
* :mod:`.amplification` — Privacy amplification by Poisson sampling
* :mod:`.basic` — Basic composition: the ε add up, and so do the δ
* :mod:`.calibrate` — Calibration: the smallest noise whose composition meets a target (ε, δ)
* :mod:`.compose` — ``compose``: the guarantee of several releases taken together
* :mod:`.composed` — Result of a composition: an (ε, δ) guarantee, the method that found it, and how tight it is
* :mod:`.composition_plan` — Normal form of a plan to compose: single releases, each with its number of repetitions
* :mod:`.currencies` — Currencies of accounts: pure, approx, zcdp and gdp, one object each
* :mod:`.filters` — Privacy filters: stopping rules that stay valid when every query depends on earlier answers
* :mod:`.gaussian` — Exact composition of Gaussian mechanisms in closed form
* :mod:`.optimal` — Optimal composition of equal (ε, δ) releases: exact, by Kairouz, Oh and Viswanath
* :mod:`.pld` — Privacy loss distributions, certified: an upper and a lower bound on ε that provably enclose the
  true value
* :mod:`.prices` — Price of a release in the currency of a filter, rounded up
* :mod:`.renyi` — Composition in Renyi differential privacy: the divergences add up order by order, one conversion
  at the end
* :mod:`.sampled_gaussian` — Renyi divergence of the Poisson-sampled Gaussian mechanism, at every real order, with a
  proven error
* :mod:`.zcdp` — Composition in zero-concentrated differential privacy: the ρ add up, one conversion at the end
"""
