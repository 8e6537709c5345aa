"""Relational algebra with ownership of rows.

Modules:
* :mod:`.algebra` — Relational algebra: nodes that an engine computes below the final aggregation, windows, and
  rewriting of their trees
* :mod:`.expressions` — Typed scalar expressions: frozen, comparable, hashable, and free of sqlglot
* :mod:`.functions` — Every function a query may use below or above the aggregation; all of them are **total**
* :mod:`.narrowing` — Narrowing: knowledge about columns and keys that follows from conditions in the text, and whether
  the range of a value follows from several columns
* :mod:`.ownership` — Ownership of rows: the only constructors of relations, each of which keeps ownership true or
  refuses
"""
