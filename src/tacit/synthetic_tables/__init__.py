"""Synthetic tables of protected data: requested, measured in stages under one charge, and free to use.

Modules:
* :mod:`.column_bins` — Bins of bounded columns: equal by a public rule, or by quantiles that were measured; NULL may be
  a value of its own
* :mod:`.declared_rules` — Rules that an owner declares about a table, from public knowledge: they change the model, and
  no count
* :mod:`.star_rows` — Rows of two tables as SQL: persons with the number of their rows in the other table, and rows
  beside their person
* :mod:`.synthesis_parts` — Texts of what was released about synthetic tables, and the parts of a run that the ledger
  keeps while it goes on
* :mod:`.synthesis_request` — Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the
  ledger
* :mod:`.synthesis_stages` — Stages of a synthetic table: which rows are counted in which bins, what is measured of
  them, and in which order
* :mod:`.synthetic_star` — Two synthetic tables that belong together: persons, and rows of theirs that point to them by
  a made-up key
* :mod:`.synthetic_table` — Synthetic tables as people use them: rows to draw, a model to ask and to keep, a report of
  what was measured
* :mod:`.table_synthesis_release` — Synthetic tables made inside the curator: one charge, a receipt of every
  measurement, a table that is free to use
"""
