"""Planning: releases, noise, price and expected error of a query.

Modules:
* :mod:`.accuracy` — Accuracy: the smallest price at which every error that is asked for is kept
* :mod:`.auto_bounds` — ``CLAMP(x, AUTO)``: bounds found privately within the stated price
* :mod:`.auto_limits` — AUTO contribution bounds: found privately within the stated price
* :mod:`.blocks` — Blocks in which measurements are released, with their sensitivities
* :mod:`.delta_budgets` — Budgets of accounts with a delta, of zCDP and of GDP: conversions, rounded so that they never
  promise too much
* :mod:`.explain` — Explanation of a plan in text
* :mod:`.found_parts` — Plans of parts once something is found: released values, AUTO bounds, AUTO limits; noise and
  price stay
* :mod:`.join_spread` — Spread of a join: the equalities by which its rows are looked up, and how many rows meet each
  other
* :mod:`.bias` — Table of units by what bounding left out of them, which every user-level query buys
* :mod:`.bias_query` — Query that counts units in the cells of the table of what bounding left out: for
  engines that count them in SQL
* :mod:`.measures` — Integer measurements behind aggregates, with their sensitivities and the limits of one unit's
  contribution
* :mod:`.noise_distribution` — Distribution of weighted sums of independent integer noise
* :mod:`.plan` — Plan: releases, noise, price and error of a query
* :mod:`.pricing` — Pricing: the charge for a stated price, its division among releases, and the noise that each share
  buys
* :mod:`.quantile_tree` — Quantile tree: several ranks from one tree of noisy counts
* :mod:`.rank_choice` — Quantiles by the exponential mechanism over the steps of a value, and the cells around them that
  give intervals
* :mod:`.releases` — Releases: vectors of integers with the noise they get, the selection of private keys, and all of a
  query together
* :mod:`.set_totals` — Grouping sets in planning: which aggregates have totals, of how many groups a total is the sum,
  and its error
* :mod:`.total_bound` — ``max_rows_total``: a bound on the rows of one unit in all groups of an answer together
* :mod:`.work` — Work: bound on the row operations that one unit can cause
"""
