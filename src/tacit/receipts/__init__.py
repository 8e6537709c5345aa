"""Receipts: signing keys, signed statements and their verification.

Modules:
* :mod:`.key_rotation` — Rotation of the signing key
* :mod:`.keys` — Keys of a ledger: signing key and group secret, in a file and while the ledger is open
* :mod:`.ledger_comparison` — Comparison of a receipt with the ledger it refers to
* :mod:`.receipt` — Receipts: signed statements of releases, mechanisms and charges
* :mod:`.release_format` — Canonical, versioned text of released numbers
* :mod:`.verify_receipt` — Offline verification of receipts
"""
