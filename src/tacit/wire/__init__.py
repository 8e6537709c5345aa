"""Wire format: JSON of responses.

Modules:
* :mod:`.responses` — JSON of responses: answers, quotes, budgets, tables, histories
"""
