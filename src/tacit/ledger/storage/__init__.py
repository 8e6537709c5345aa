"""Storage: databases with statements, short transactions and versions of their tables.

The tables of the ledger and the tables of people are two schemas on it. It knows nothing of what they mean.

Modules:
* :mod:`.database` — Interface of a database, its errors, and its tables
* :mod:`.postgres_database` — PostgreSQL databases: connection pool, transactions, errors
* :mod:`.sqlite_database` — SQLite databases, in a file or in memory: connections, gate, transactions, errors
"""
