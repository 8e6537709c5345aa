"""Planning: releases, noise, price and expected error of a query.

Modules:
* :mod:`.auto_bounds` — ``CLAMP(x, AUTO)``: bounds found privately within the stated price
* :mod:`.auto_limits` — AUTO contribution bounds: found privately within the stated price; ``max_rows_total``
* :mod:`.bias` — Table of units by what bounding left out of them, which every user-level query buys, and its query
* :mod:`.explain` — Explanation of a plan in text
* :mod:`.measures` — Integer measurements behind aggregates, with their sensitivities and the limits of one unit's
  contribution
* :mod:`.noise` — Distribution of weighted sums of independent integer noise
* :mod:`.plan` — Plan: releases, noise, price and error of a query; plans once something is found
* :mod:`.pricing` — Pricing: the charge for a stated price or accuracy, its division among releases, and the noise that
  each share buys
* :mod:`.releases` — Releases: vectors of integers with their sensitivities and the noise they get, and all of a query
  together
* :mod:`.work` — Work: bound on the row operations that one unit can cause
"""
