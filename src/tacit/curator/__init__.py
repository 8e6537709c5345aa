"""Curator: the object users hold, how it is opened, and conversations with assistants.

Modules:
* :mod:`.curator` — ``Curator``: the object users hold, and the interface for asking that others share
* :mod:`.opening` — ``tacit.open``: a curator from a project file, or from one file or frame; its ledger and keys
"""
