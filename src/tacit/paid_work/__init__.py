"""Paid work other than questions: mechanisms, models and workloads.

Modules:
* :mod:`.marginal_counts` — Exact counts of combinations of public values, from the engine, for workloads and synthetic
  tables
* :mod:`.mechanism_release` — Mechanisms used from Python, charged and receipted like questions
* :mod:`.model_fit` — Models fitted to protected rows inside the curator, charged and receipted like questions
* :mod:`.workload_release` — Workloads answered inside the curator, charged and receipted like questions
"""
