"""Mechanisms: releases with a stated guarantee, a stated error, and a proof beside the code.

Modules:
* :mod:`.additive` — Adding noise to numbers: the part that Laplace and Gaussian noise share
* :mod:`.base` — Base class of mechanisms: guarantee, error and input
* :mod:`.counts` — Counts of people released at once: histograms over public bins, and counting queries that overlap
  as they please
* :mod:`.exponential` — The exponential mechanism: choose a candidate, better ones exponentially more often
* :mod:`.gaussian` — The Gaussian mechanism, on integers and on a grid of floats
* :mod:`.gaussian_profile` — Privacy profile of discrete Gaussian noise, as proven bounds: delta at an epsilon, and
  tails
* :mod:`.grid` — A public lattice for floats: multiples of a power of two that is chosen without looking at the data
* :mod:`.key_order` — Public order and form of the keys of a mapping
* :mod:`.laplace` — The Laplace mechanism, on integers and on a grid of floats
* :mod:`.mean` — The mean of one bounded value per person, with the number of people public or private; see
  ``mean.proof.md``
* :mod:`.noise_interval` — Intervals for sums of independent noises with real coefficients, with proven coverage
* :mod:`.noisy_max` — Report noisy max: the candidate with the largest noisy score, and its margin
* :mod:`.partition_selection` — Partition selection: private choice of group keys by their number of units
* :mod:`.permute_and_flip` — Permute-and-flip: selection with at most the error of the exponential mechanism under
  pure DP
* :mod:`.planning` — Planning: any three of people, privacy, error and confidence give the fourth
* :mod:`.randomized_response` — Randomized response: each person perturbs their own answer
* :mod:`.residual_basis` — Residual basis of tables of counts: marginals with noise of their own, and cells that agree
  with all of them
* :mod:`.rounded_gaussian` — Rounded Gaussian noise on integers, whose guarantee is μ-GDP itself
* :mod:`.selection_scores` — Exact scores of candidates, shared by the selection mechanisms
* :mod:`.sparse_vector` — The sparse vector technique: ask as many queries as you like, pay only for those that exceed
  a threshold
* :mod:`.top_k` — The k best candidates, one exponential mechanism after the other
"""
