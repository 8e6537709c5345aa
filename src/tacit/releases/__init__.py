"""Releases: everything that is paid for and kept, and the one life of a charge that pays for it.

Modules:
* :mod:`.accounts` — Account of a population as users see it
* :mod:`.answer` — Answers: noisy values with their intervals, as text, tables, frames and charts
* :mod:`.api_types` — Types of the API: exact numbers and names, and the bases of requests and responses
* :mod:`.batch` — Planned releases: a set of statistics under one total, computed once
* :mod:`.keys` — Keys of a ledger: signing key and group secret, in a file and while the ledger is open
* :mod:`.kinds` — Kinds of releases that are made on request
* :mod:`.mechanism` — Mechanisms used from Python, charged and receipted like queries
* :mod:`.model` — Models fitted to protected rows inside the curator, charged and receipted like queries
* :mod:`.notebook` — Notebooks: objects as HTML, and files to take home
* :mod:`.payment` — Payment: the one life of a charge, reserve → run → sign → commit, and the context of all paid work
* :mod:`.plans` — Plans of queries: parsed, planned and priced once, and kept for the queries that are asked again
* :mod:`.profile` — Profiles: what a table holds that nobody has described, as a set of ordinary queries under one
  charge
* :mod:`.published_numbers` — Published numbers, looked up in signed releases
* :mod:`.query` — Life of a query: parse → plan → quote → reserve → run → add noise → commit → answer
* :mod:`.receipt` — Receipts: signed statements of releases, mechanisms and charges
* :mod:`.release` — Releases of every kind as one resource: a list, one of them by its position, and its files
* :mod:`.release_format` — Canonical, versioned text of released numbers
* :mod:`.synthesis` — Synthetic tables made inside the curator: one charge, a receipt of every measurement, a table that
  is free to use
* :mod:`.synthetic_query` — Queries about synthetic tables, which are asked like public tables, at no cost
* :mod:`.synthetic_table` — Synthetic tables as people use them: rows to draw, a model to ask and to keep, a report of
  what was measured
* :mod:`.workload` — Workloads answered inside the curator, charged and receipted like queries
"""
