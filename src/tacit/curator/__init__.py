"""Curator: the path from a question to an answer.

Modules:
* :mod:`.accounts` — Account of a population as users see it
* :mod:`.answer` — Life of a question: parse → plan → quote → reserve → run → add noise → commit → answer
* :mod:`.curator` — ``Curator``: the object users hold
* :mod:`.departure` — Departure of an outcome: when it may become known
* :mod:`.failed_runs` — Failed runs as durable outcomes of their charge
* :mod:`.key_locks` — Locks by key: equal questions wait for one another
* :mod:`.lru_cache` — Thread-safe LRU cache bounded by total weight
* :mod:`.mechanism_release` — Mechanisms used from Python, charged and receipted like questions
* :mod:`.model_fit` — Models fitted to protected rows inside the curator, charged and receipted like questions
* :mod:`.opened_ledger` — Open ledger with its keys and source digests
* :mod:`.opening` — ``tacit.open``: a curator from a project file, or from one file or frame
* :mod:`.planner` — Planner with a cache of recent questions and plans
* :mod:`.quote` — Quote: effect and price of a question, free, before any data is read
* :mod:`.unit_change` — Change of an account's unit by an operator
* :mod:`.views` — Views of an answer: text, tables, charts
"""
