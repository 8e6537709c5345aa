"""Planning: releases, noise, price and expected error of a question.

Modules:
* :mod:`.auto_bounds` — ``CLAMP(x, AUTO)``: bounds found privately within the stated price
* :mod:`.auto_limits` — AUTO ``max_groups`` and ``max_rows``: limits found privately within the stated price
* :mod:`.coarser` — Coarser questions about a release: one whose cells are sums of cells that were released before
* :mod:`.contribution_limits` — Contribution limits: how many groups of a unit count, and how many of its rows in each,
  and who says so
* :mod:`.explain` — Explanation of a plan in text
* :mod:`.left_out` — Table of units by what bounding left out of them, as a second question of every user-level
  question
* :mod:`.measures` — Integer measurements behind aggregates, and the blocks in which they are released, with their
  sensitivities
* :mod:`.nested_keys` — Keys that follow from released keys: quarters of months, wider buckets of integers, classes of
  categories
* :mod:`.noise_distribution` — Distribution of weighted sums of independent integer noise
* :mod:`.plan` — Plan: releases, noise, price and error of a query
* :mod:`.pricing` — Pricing: the charge for a stated price, its division among releases, and the noise that each
  share buys
* :mod:`.quantile_tree` — Quantile tree: several ranks from one tree of noisy counts
* :mod:`.rank_choice` — Quantiles by the exponential mechanism over the steps of a value, and the cells around them that
  give intervals
* :mod:`.set_totals` — Grouping sets in planning: which aggregates have totals, of how many groups a total is the sum,
  and its error
* :mod:`.wide_ranges` — Advice about ranges that are far wider than a question needs, and the CLAMP to write instead
* :mod:`.work` — Work: bound on the row operations that one unit can cause
"""
