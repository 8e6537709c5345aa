"""Post-processing of released numbers: estimates, intervals and steps above the aggregation.

Everything here reads released integers, public keys and public parameters, so it costs nothing and cannot look back.

Proof of the intervals: ``intervals.proof.md``.

Modules:
* :mod:`.bounding_bias` — Estimates from the noisy table of what bounding left out: shares of people, and bounds of the
  bias of cells
* :mod:`.cell_expressions` — Expressions over released cells, with intervals
* :mod:`.cells` — Released cell: value, noise events and interval
* :mod:`.level_noises` — Weights of independent noises in sums of released numbers whose noises depend on each other
* :mod:`.mean_variance` — AVG, VARIANCE and STDDEV from a noisy count, a noisy centred sum and a noisy sum of
  centred squares
* :mod:`.parts_in_turn` — Parts of a query in turn: a value that rows are compared with is released before the part
  that reads it
* :mod:`.public_join` — Joins of released rows with public rows
* :mod:`.ratios` — Quotients of two sums of released integers: shares, rates and means of cells
* :mod:`.regroup` — Aggregates and windows of released cells
* :mod:`.result` — From released integers to the rows of an answer, with an interval for every number at any
  confidence
* :mod:`.spread_test` — Test of a variance against a noisy count, a noisy centred sum and noisy centred squares
"""
