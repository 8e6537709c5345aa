"""Charges: the one life of a charge, the account it is made to, and failures as callers may know them.

Modules:
* :mod:`.accounts` — Account of a population as users see it
* :mod:`.notebook_tables` — HTML for notebooks: quotes, budgets, tables, histories and models; every text is escaped
* :mod:`.payment` — Payment: the one life of a charge, reserve → run → sign → commit, and the context of all paid work
"""
