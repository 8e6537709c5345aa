"""Curator: the object users hold, how it is opened, and conversations with assistants.

Modules:
* :mod:`.curator` — ``Curator``: the object users hold; conversations with assistants; a progress bar on the owner's
  terminal
* :mod:`.notebook_magic` — Cells of a notebook that are SQL: ``%load_ext tacit``, then ``%%tacit epsilon=0.5``
* :mod:`.opening` — ``tacit.open``: a curator from a project file, or from one file or frame; its ledger and keys;
  effects of an edited project file
"""
