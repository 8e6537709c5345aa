"""Curator: the path from a question to an answer.

Modules:
* :mod:`.answer` — Life of a question: parse → plan → quote → reserve → run → add noise → commit → answer
* :mod:`.conversation` — Conversation with an assistant: a share of an analyst's budget that the person states, and its
  state
* :mod:`.curator` — ``Curator``: the object users hold
* :mod:`.opening` — ``tacit.open``: a curator from a project file, or from one file or frame; its ledger and keys
* :mod:`.planner` — Planner with a cache of recent questions and plans
* :mod:`.project_changes` — Effects of an edited project file on its ledger: whether it can be opened, and which answers
  cost anew
* :mod:`.question_context` — Context of questions: that of paid work, with recent plans
* :mod:`.quote` — Quote: effect and price of a question, free, before any data is read
* :mod:`.synthetic_questions` — Questions about synthetic tables that were paid for: answered like those about public
  tables, for nothing
* :mod:`.views` — Views of an answer: text, tables, charts
"""
