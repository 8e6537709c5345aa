"""Planning: releases, noise, cost and expected error of a query.

Modules:
* :mod:`.auto_bounds` — ``CLAMP(x, AUTO)``: bounds found privately within the stated cost
* :mod:`.auto_limits` — AUTO contribution bounds: found privately within the stated cost; ``max_rows_total``
* :mod:`.bias` — Bias table: noisy counts of units by what bounding left out of them, and its query
* :mod:`.explain` — Explanation of a plan in text
* :mod:`.measures` — Integer measurements behind aggregates, with their sensitivities and the limits of one unit's
  contribution
* :mod:`.noise` — Distribution of weighted sums of independent integer noise
* :mod:`.plan` — Plan: releases, noise, cost and error of a query, before and after a search for AUTO
* :mod:`.pricing` — Pricing: the charge for a stated cost or accuracy, its division among releases, and the noise that
  each share buys
* :mod:`.releases` — Releases: vectors of integers with their sensitivities and the noise they get, and those of a query
  together
* :mod:`.work` — Work: bound on the row operations that one unit can cause
"""
