"""Planning: releases, noise, price and expected error of a question.

Modules:
* :mod:`.auto_bounds` — ``CLAMP(x, AUTO)``: bounds found privately within the stated price
* :mod:`.budget_shares` — Division of a query's price among its releases
* :mod:`.expected_error` — Expected error of each aggregate, from public parameters
* :mod:`.explain` — Explanation of a plan in text
* :mod:`.expression_cost` — Cost of an expression per row, in row operations
* :mod:`.fanout` — Fan-out: bounds on the rows that a row can meet
* :mod:`.measures` — Integer measurements behind aggregates, with their sensitivities
* :mod:`.noise_distribution` — Distribution of weighted sums of independent integer noise
* :mod:`.plan` — Plan: releases, noise, price and error of a query
* :mod:`.pricing` — Pricing: mechanisms for each block of a query from its share of the budget
* :mod:`.purchase` — Purchase: charge and budget for the stated price in each kind of account
* :mod:`.quantile_tree` — Quantile tree: several ranks from one tree of noisy counts
* :mod:`.release_blocks` — Release blocks: integer vectors of a query and their sensitivities
* :mod:`.work` — Work: bound on the row operations that one unit can cause
"""
