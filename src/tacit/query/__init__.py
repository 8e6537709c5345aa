"""Query: from SQL text and public metadata to a plan; touches no data.

Modules:
* :mod:`.aggregates` — Aggregates: one module for each family, one table of all entries
* :mod:`.catalog` — Catalog: public metadata about tables, units and columns; one type of unit for each population
* :mod:`.contribution` — Contribution numbers: ``max_groups`` and ``max_rows``, each a whole number or AUTO
* :mod:`.limits` — Public limits on the size of a query
* :mod:`.parsing` — Parsing: SQL text to a checked syntax tree
* :mod:`.planning` — Planning: releases, noise, cost and expected error of a query
* :mod:`.postprocess` — Post-processing of released numbers: estimates, intervals and steps above the aggregation
* :mod:`.query` — Query: the final aggregation and the steps on its released cells
* :mod:`.refusal` — Refusal of a query, with code and message
* :mod:`.relational` — Relational algebra with ownership of rows
* :mod:`.release` — Release: exact integers become noisy ones
* :mod:`.request` — Request: cost or accuracy, account and options of a query
* :mod:`.resolve` — From SQL text and a catalog to a resolved query
* :mod:`.rules` — Rewrite rules, each from a query to an equivalent one
* :mod:`.types` — Types of the query language, their Python values, and domains: public knowledge about values
"""
