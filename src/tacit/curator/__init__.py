"""Curator: the object users hold, how it is opened, and conversations with assistants.

Modules:
* :mod:`.conversation` — Conversation with an assistant: a share of an analyst's budget that the person states, and its
  state
* :mod:`.curator` — ``Curator``: the object users hold
* :mod:`.notebook_magic` — Cells of a notebook that are SQL: ``%load_ext tacit``, then ``%%tacit epsilon=0.5``
* :mod:`.opening` — ``tacit.open``: a curator from a project file, or from one file or frame; its ledger and keys
* :mod:`.progress_bar` — Progress bar for long scans on the data owner's terminal
* :mod:`.project_changes` — Effects of an edited project file on its ledger: whether it can be opened, and which answers
  cost anew
"""
