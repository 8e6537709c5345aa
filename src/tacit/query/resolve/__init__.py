"""From SQL text and a catalog to a resolved query.

Modules:
* :mod:`.aggregation` — Aggregation: aggregate calls read, and the final aggregation built from them and its keys
* :mod:`.category_constants` — Constants that a column of declared categories never equals: a misspelt filter is refused
  before it is charged
* :mod:`.constants` — Constants and names of types in SQL text
* :mod:`.grouping_sets` — Grouping sets of a GROUP BY: the lists of key terms that ROLLUP, CUBE and GROUPING SETS stand
  for
* :mod:`.json_texts` — Members of JSON in a text: ``x ->> 'key'``, JSON_EXTRACT_STRING, JSON_VALUE and their like
* :mod:`.kept_public_rows` — Public rows that an outer join keeps though no row of a person meets them
* :mod:`.lists` — Lists: texts that a sign divides, as tests of membership and as rows
* :mod:`.public_keys` — Public keys: the finite sets of values that key expressions can have, as far as declarations say
* :mod:`.public_order` — Order and limits of rows: ORDER BY, LIMIT and OFFSET of public rows become a place that each
  row has
* :mod:`.released_cells` — SELECT over cells that are released: everything is free and cannot look back
* :mod:`.released_relation` — Released relation: rows that are released, while the queries above them are resolved
* :mod:`.scalars` — Scalar expressions: from syntax to typed expressions, over the names of one scope
* :mod:`.select` — One SELECT over its source: keys, aggregates, windows, HAVING, the SELECT list, ORDER BY and LIMIT
* :mod:`.series` — Lists in FROM: VALUES, and GENERATE_SERIES and RANGE, which are written out while planning
* :mod:`.sql_functions` — SQL function names and their meanings
* :mod:`.sql_statements` — Statements: WITH, SELECT, UNION ALL and subqueries; from SQL text and a catalog to a resolved
  query
* :mod:`.subquery_values` — Subqueries that stand for a value: public, or released by a part of the query of its own
* :mod:`.suggestions` — Suggestions: the nearest query that is accepted, for a query that is refused
* :mod:`.summarize` — ``SUMMARIZE table``: an ordinary query that has a row for each column
* :mod:`.tables_and_columns` — Tables and columns of a SELECT: FROM with its joins, and the SELECT list with stars and
  lists spread out
* :mod:`.time_arithmetic` — Arithmetic of times in SQL text: dates plus and minus days and intervals, differences,
  parts, AT TIME ZONE
* :mod:`.time_functions` — Functions of time that are made of others: parts, intervals, names, formats, ages
* :mod:`.time_zones` — Time zones: clocks of named places, from and to UTC, as expressions of constants
* :mod:`.unit_rows` — SELECT below the final aggregation: a relation, whose aggregates are exact, inside units or over
  public data
* :mod:`.windows` — Windows: OVER, named windows and their frames, from syntax to a call over the rows of one partition
"""

from __future__ import annotations

from tacit.query.resolve.sql_statements import is_accepted, resolve, resolve_any, resolve_rows

__all__ = ["is_accepted", "resolve", "resolve_any", "resolve_rows"]
