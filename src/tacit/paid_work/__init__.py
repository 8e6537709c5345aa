"""Paid work other than questions: mechanisms, models, workloads and sessions of counting queries.

Modules:
* :mod:`.marginal_counts` — Exact counts of combinations of public values, from the engine, for workloads and synthetic
  tables
* :mod:`.mechanism_release` — Mechanisms used from Python, charged and receipted like questions
* :mod:`.model_fit` — Models fitted to protected rows inside the curator, charged and receipted like questions
* :mod:`.query_session` — Sessions of counting queries: any number of them, of which only the hard ones are paid for
* :mod:`.session_record` — Record of a session in the ledger: its terms, hard answers and its end
* :mod:`.workload_release` — Workloads answered inside the curator, charged and receipted like questions
"""
