"""Curator: the path from a question to an answer.

Modules:
* :mod:`.accounts` — Account of a population as users see it
* :mod:`.answer` — Life of a question: parse → plan → quote → reserve → run → add noise → commit → answer
* :mod:`.column_bins` — Bins of bounded columns: equal by a public rule, or by quantiles that were measured; NULL may be
  a value of its own
* :mod:`.context` — Context of paid work: metadata, data, ledger and keys of an open project, and who asks
* :mod:`.conversation` — Conversation with an assistant: a share of an analyst's budget that the person states, and its
  state
* :mod:`.curator` — ``Curator``: the object users hold
* :mod:`.declared_rules` — Rules that an owner declares about a table, from public knowledge: they change the model, and
  no count
* :mod:`.failures` — Failures as callers may know them: an id, or that a charged run failed
* :mod:`.marginal_counts` — Exact counts of combinations of public values, from the engine, for workloads and synthetic
  tables
* :mod:`.mechanism_release` — Mechanisms used from Python, charged and receipted like questions
* :mod:`.model_fit` — Models fitted to protected rows inside the curator, charged and receipted like questions
* :mod:`.opening` — ``tacit.open``: a curator from a project file, or from one file or frame; its ledger and keys
* :mod:`.payment` — Payment: the one life of a charge, reserve → run → sign → commit
* :mod:`.planner` — Planner with a cache of recent questions and plans
* :mod:`.project_changes` — Effects of an edited project file on its ledger: whether it can be opened, and which answers
  cost anew
* :mod:`.query_session` — Sessions of counting queries: any number of them, of which only the hard ones are paid for
* :mod:`.quote` — Quote: effect and price of a question, free, before any data is read
* :mod:`.reuse` — Releases that the ledger holds, found again for coarser questions that are sums of their cells
* :mod:`.synthesis_parts` — Texts of what was released about synthetic tables, and the parts of a run that the ledger
  keeps while it goes on
* :mod:`.synthesis_request` — Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the
  ledger
* :mod:`.synthesis_stages` — Stages of a synthetic table: which rows are counted in which bins, what is measured of
  them, and in which order
* :mod:`.synthetic_check` — A second report about a synthetic table: its distance from the real data, released with
  noise and paid for by itself
* :mod:`.synthetic_questions` — Questions about synthetic tables that were paid for: answered like those about public
  tables, for nothing
* :mod:`.synthetic_star` — Two synthetic tables that belong together: persons, and rows of theirs that point to them by
  a made-up key
* :mod:`.synthetic_table` — Synthetic tables as people use them: rows to draw, a model to ask and to keep, a report of
  what was measured
* :mod:`.table_synthesis_release` — Synthetic tables made inside the curator: one charge, a receipt of every
  measurement, a table that is free to use
* :mod:`.views` — Views of an answer: text, tables, charts
* :mod:`.workload_release` — Workloads answered inside the curator, charged and receipted like questions
"""
