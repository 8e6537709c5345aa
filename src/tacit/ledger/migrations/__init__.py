"""The tables of a ledger, version by version; one module per database.

Modules:
* :mod:`.postgres` — PostgreSQL: step ``n`` of :data:`MIGRATIONS` turns version ``n`` of the tables into version ``n
  + 1``
* :mod:`.sqlite` — SQLite: step ``n`` of :data:`MIGRATIONS` turns version ``n`` of the tables into version ``n + 1``
"""
