"""Relational algebra with ownership of rows.

Modules:
* :mod:`.algebra` — Relational algebra: nodes that an engine computes below the final aggregation, and rewriting of
  their trees
* :mod:`.derived_ranges` — Derived ranges: whether the range of a value follows from several columns, or from the most
  rows of a person
* :mod:`.expressions` — Typed scalar expressions: frozen, comparable, hashable, and free of sqlglot
* :mod:`.functions` — Every function a query may use below or above the aggregation; all of them are **total**
* :mod:`.narrowing` — Narrowing: knowledge about columns and keys that follows from conditions in the text
* :mod:`.ownership` — Ownership of rows: the only constructors of relations, each of which keeps ownership true or
  refuses
* :mod:`.window_calls` — Window functions over the rows of one unit: calls, frames and the order of rows
"""
