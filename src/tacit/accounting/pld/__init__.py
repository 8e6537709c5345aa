"""Privacy loss distributions, certified: an upper and a lower bound on ε that provably enclose the true value.

``pld.proof.md`` has the arguments.

Modules:
* :mod:`.account` — Certified accountant: lower and upper bounds on ε for any list of releases
* :mod:`.convolve` — The law of the sum of many independent losses, by one FFT per law, with every error bounded
* :mod:`.discretise` — Certified discretisation of a privacy loss law: one that dominates the pair, one that the pair
  dominates
* :mod:`.pairs` — Dominating pairs of laws, seen through their privacy loss; among them those of the noise that Tacit
  adds
* :mod:`.translate` — Translation of events to dominating pairs, in both directions
"""
