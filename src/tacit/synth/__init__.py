"""Synth: answered workloads of counting queries and synthetic tables, from integers and public sizes.

Modules:
* :mod:`.column_bins` — Bins of bounded columns: equal by a public rule, or by quantiles that were measured; NULL may be
  a value of its own
* :mod:`.count_measurement` — Noisy measurements of counts: an integer strategy, exact noise, the sensitivity of the
  two, and their price
* :mod:`.graphical_model` — Graphical models of a table: fitted to noisy marginals, queried, conditioned and sampled
* :mod:`.marginal_counts` — Exact counts of combinations of public values, from the engine, for workloads and synthetic
  tables
* :mod:`.strategy` — Strategies: the integer queries that get noise, chosen so that the answers to others have the least
  variance
* :mod:`.synthesis_request` — Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the
  ledger
* :mod:`.synthesis_stages` — Stages of a synthetic table: which rows are counted in which bins, what is measured of
  them, and in which order
* :mod:`.table_synthesis` — Measurements for a synthetic table: which marginals are measured, within one budget
* :mod:`.workload` — Workloads: many counting queries over the cross product of some columns, as one value
* :mod:`.workload_answer` — Answers to a workload: every query with its variance, consistent with one another, from the
  noisy integers alone
* :mod:`.workload_plan` — Plans of workloads: which integers get how much noise, and the variance of every answer,
  before data is read
"""
