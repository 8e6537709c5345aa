"""Parsing: SQL text to a checked syntax tree.

Modules:
* :mod:`.parse` — Parser: text to a syntax tree on an allow-list, and the OPTIONS in it
* :mod:`.spellings` — Spellings of other databases, turned into the ones that the resolver knows
* :mod:`.sql_text` — Names, constants and queries as SQL text
"""
