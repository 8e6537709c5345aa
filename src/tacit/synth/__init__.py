"""Synth: answered workloads of counting queries and synthetic tables, from integers and public sizes.

Modules:
* :mod:`.bin_edges` — Edges of bins by private quantiles: a noisy histogram on a fine public grid, and where its
  quantiles are
* :mod:`.count_chart` — Charts of counts: noisy counts with intervals, and the counts of a model behind them
* :mod:`.count_measurement` — Noisy measurements of counts: an integer strategy, exact noise, and the sensitivity of
  the two
* :mod:`.count_noise` — Noise on counts, one object for each currency of a price: which noise it buys, and what
  selections cost in it
* :mod:`.expanded_shares` — Numbers of [0, 1) that follow from a text, for rows that every process draws alike
* :mod:`.graphical_model` — Graphical models of a table: fitted to noisy marginals, queried, conditioned and sampled
* :mod:`.junction_tree` — Junction trees: cliques of columns in a tree, on which the marginals of a graphical model are
  exact
* :mod:`.marginal_shares` — Shares of a price for the measurements of marginals, such that the variances of all of them
  are small together
* :mod:`.strategy` — Strategies: the integer queries that get noise, chosen so that the answers to others have the
  least variance
* :mod:`.table_synthesis` — Measurements for a synthetic table: which marginals are measured, within one budget
* :mod:`.value_pools` — Pools of rare values: values of a column that a marginal counts together, because noise would
  hide each by itself
* :mod:`.whole_counts` — Answers to a workload as counts of one made-up table: whole numbers, not negative, every total
  the sum of its parts
* :mod:`.workload` — Workloads: many counting queries over the cross product of some columns, as one value
* :mod:`.workload_answer` — Answers to a workload: every query with its variance, consistent with one another, from the
  noisy integers alone
* :mod:`.workload_form` — Workloads as plain lists and texts, for JSON and TOML: one entry for each part, which are
  added up
* :mod:`.workload_plan` — Plans of workloads: which integers get how much noise, and the variance of every answer,
  before data is read
"""
