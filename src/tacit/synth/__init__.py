"""Synth: answered workloads of counting queries and synthetic tables, from integers and public sizes.

Modules:
* :mod:`.bin_edges` — Edges of bins by private quantiles: a noisy histogram on a fine public grid, and where its
  quantiles are
* :mod:`.column_bins` — Bins of bounded columns: equal by a public rule, or by quantiles that were measured; NULL may be
  a value of its own
* :mod:`.count_chart` — Charts of counts: noisy counts with intervals and, where there is a model, its counts behind
  them
* :mod:`.count_measurement` — Noisy measurements of counts: an integer strategy, exact noise, and the sensitivity of the
  two
* :mod:`.count_noise` — Noise on counts, one object for each currency of a price: which noise it buys, and what
  selections cost in it
* :mod:`.count_price` — Prices of noise on counts: how much of which noise the terms of an account buy, and the charge
* :mod:`.declared_rules` — Rules that an owner declares about a table, from public knowledge: they change the model, and
  no count
* :mod:`.expanded_shares` — Numbers of [0, 1) that follow from a text, for rows that every process draws alike
* :mod:`.graphical_model` — Graphical models of a table: fitted to noisy marginals, queried, conditioned and sampled
* :mod:`.junction_tree` — Junction trees: cliques of columns in a tree, on which the marginals of a graphical model are
  exact
* :mod:`.marginal_counts` — Exact counts of combinations of public values, from the engine, for workloads and synthetic
  tables
* :mod:`.marginal_shares` — Shares of a price for the measurements of marginals, such that the variances of all of them
  are small together
* :mod:`.star_rows` — Rows of two tables as SQL: persons with the number of their rows in the other table, and rows
  beside their person
* :mod:`.strategy` — Strategies: the integer queries that get noise, chosen so that the answers to others have the least
  variance
* :mod:`.synthesis_request` — Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the
  ledger
* :mod:`.synthesis_stages` — Stages of a synthetic table: which rows are counted in which bins, what is measured of
  them, and in which order
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
