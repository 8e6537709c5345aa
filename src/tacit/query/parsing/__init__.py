"""Parsing: SQL text to a checked syntax tree.

Modules:
* :mod:`.option_text` — Reading of ``SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(…)`` from tokens
* :mod:`.parse` — Parser: text to a syntax tree on an allow-list
* :mod:`.query_options` — OPTIONS of ``SELECT WITH DIFFERENTIAL_PRIVACY``
"""
