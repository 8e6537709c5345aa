"""Releases: everything that is paid for and kept, and the one life of a charge that pays for it.

Modules:
* :mod:`.accounts` — Account of a population as users see it
* :mod:`.api_types` — Types of the API: exact numbers and names, and the bases of requests and responses
* :mod:`.batch` — Planned releases: a set of statistics under one total, computed once
* :mod:`.batch_file` — File of a planned release: named statistics and one total
* :mod:`.budget_split` — Division of a planned release's total among its statistics
* :mod:`.delivery` — Charges that have no outcome yet, and their delivery
* :mod:`.keys` — Keys of a ledger: signing key and group secret, in a file and while the ledger is open
* :mod:`.kinds` — Kinds of releases that are made on request
* :mod:`.mechanism` — Mechanisms used from Python, charged and receipted like questions
* :mod:`.model` — Models fitted to protected rows inside the curator, charged and receipted like questions
* :mod:`.notebook_tables` — HTML for notebooks: quotes, budgets, tables, histories and models; every text is escaped
* :mod:`.payment` — Payment: the one life of a charge, reserve → run → sign → commit, and the context of all paid work
* :mod:`.planner` — Planner with a cache of recent questions and plans
* :mod:`.published_table` — Comparison of a published table with the receipt of its release
* :mod:`.query` — Life of a question: parse → plan → quote → reserve → run → add noise → commit → answer
* :mod:`.quote` — Quote: effect and price of a question, free, before any data is read
* :mod:`.receipt` — Receipts: signed statements of releases, mechanisms and charges
* :mod:`.release` — Releases of every kind as one resource: a list, one of them by its position, and its files
* :mod:`.release_format` — Canonical, versioned text of released numbers
* :mod:`.report_page` — Report of a planned release as one HTML page
* :mod:`.synthesis` — Synthetic tables made inside the curator: one charge, a receipt of every measurement, a table that
  is free to use
* :mod:`.synthetic_questions` — Questions about synthetic tables that were paid for: answered like those about public
  tables, for nothing
* :mod:`.synthetic_star` — Two synthetic tables that belong together: persons, and rows of theirs that point to them by
  a made-up key
* :mod:`.synthetic_table` — Synthetic tables as people use them: rows to draw, a model to ask and to keep, a report of
  what was measured
* :mod:`.verify_receipt` — Offline verification of receipts
* :mod:`.views` — Views of an answer: text, tables, charts
* :mod:`.workload` — Workloads answered inside the curator, charged and receipted like questions
"""
