"""Post-processing of released numbers: estimates, intervals and steps above the aggregation.

Everything here reads released integers, public keys and public parameters, so it is free and cannot look back.

Proof of the intervals: ``intervals.proof.md``.

Modules:
* :mod:`.bias` — Estimates from the noisy table of what bounding left out: shares of people, and bounds of the bias of
  cells
* :mod:`.cells` — Released cell: value, noise events and interval; quotients of sums of released integers
* :mod:`.result` — From released integers to the rows of an answer, with an interval for every number at any confidence
* :mod:`.rows` — Rows of released cells: expressions, aggregates, windows and joins, with intervals
"""
