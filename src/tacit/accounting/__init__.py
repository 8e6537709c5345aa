"""Accounting: composition, calibration and filters over events and guarantees.

Modules:
* :mod:`.calibrate` — Calibration: the smallest noise whose composition meets a target (ε, δ)
* :mod:`.compose` — ``compose``: the guarantee of several releases taken together
* :mod:`.composition_plan` — Plan to compose in normal form, single releases with their repetitions; and the result of
  a composition
* :mod:`.currencies` — Currencies of accounts: pure, approx, zcdp and gdp, one object each
* :mod:`.filters` — Privacy filters: stopping rules that stay valid when every query depends on earlier answers
* :mod:`.gaussian` — Exact composition of Gaussian mechanisms in closed form
* :mod:`.pairwise` — Composition of releases of which an (ε, δ) is known: basic, advanced and optimal
* :mod:`.pld` — Privacy loss distributions, certified: an upper and a lower bound on ε that provably enclose the true
  value
* :mod:`.prices` — Price of a release in the currency of a filter, rounded up
* :mod:`.renyi` — Composition in Renyi differential privacy: the divergences add up order by order, one conversion at
  the end
* :mod:`.sampled_gaussian` — Renyi divergence of the Poisson-sampled Gaussian mechanism, at every real order, with a
  proven error
* :mod:`.zcdp` — Composition in zero-concentrated differential privacy: the ρ add up, one conversion at the end
"""
