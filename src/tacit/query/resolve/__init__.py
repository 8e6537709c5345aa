"""From SQL text and a catalog to a resolved query.

Modules:
* :mod:`.aggregation` — Aggregation: calls of aggregates and windows, the final aggregation, and the public values of
  its keys
* :mod:`.public_rows` — Rows that anyone may see: released relations, order and limits of public rows, and public rows
  that an outer join keeps without a match
* :mod:`.scalars` — Scalar expressions: from syntax to typed expressions, over the names of one scope
* :mod:`.select` — One SELECT over its source: keys, aggregates, windows, HAVING, the SELECT list, ORDER BY and LIMIT
* :mod:`.sql_functions` — Functions by their SQL names, members of JSON texts, and lists
* :mod:`.statements` — Statements: WITH, SELECT, UNION ALL and subqueries; from SQL text and a catalog to a resolved
  query
* :mod:`.subqueries` — Subqueries: IN and EXISTS, and those that stand for a value, public or released
* :mod:`.suggestions` — Suggestions: the nearest query that is accepted, for a query that is refused
* :mod:`.tables` — Tables and columns of a SELECT: FROM with its joins and lists, and the SELECT list with stars spread
  out
* :mod:`.times` — Times in SQL text: functions, intervals, formats and time zones
"""

from __future__ import annotations

from tacit.query.resolve.statements import is_accepted, resolve, resolve_any, resolve_rows

__all__ = ["is_accepted", "resolve", "resolve_any", "resolve_rows"]
