"""Ordinary SQL about Arrow tables that are public: no files, no network, nothing protected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb


def query_arrow(sql: str, tables: Mapping[str, Any]) -> Any:
    """The result of a statement over Arrow tables by name, as an Arrow table."""
    with duckdb.connect(config={"enable_external_access": False, "python_enable_replacements": False}) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()
