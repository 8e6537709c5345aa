"""Registry of engines by address: ``duckdb``, ``postgresql://…``, ``spark``, ``spark://…``, ``sc://…``.

Each engine is imported when a project names it and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.engines.duckdb.sources import SourceLike
from tacit.engines.protocol import Engine
from tacit.query.catalog import Catalog
from tacit.query.types import SqlType

__all__ = ["engine_kind", "open_engine", "stored_types"]

_POSTGRES: Final = ("postgresql://", "postgres://")
_SPARK: Final = ("spark://", "sc://", "local[", "databricks://")


def engine_kind(address: object) -> str:
    """``"duckdb"``, ``"postgres"`` or ``"spark"``; what is no text must be a Spark session.

    Raises:
        InputError: the address means none of them. It is not quoted, because it may hold a password.
    """
    if not isinstance(address, str):
        return "spark"
    if address == "duckdb":
        return "duckdb"
    if address.startswith(_POSTGRES):
        return "postgres"
    if address == "spark" or address.startswith(_SPARK):
        return "spark"
    raise InputError("project.engine", "must be 'duckdb', 'postgresql://…', 'spark', 'spark://…' or 'sc://…'")


def stored_types(address: str, names: Mapping[str, str]) -> dict[str, dict[str, SqlType | None]]:
    """The columns of tables of a database and their types, None for types Tacit does not read; no row is read.

    Args:
        address: of the engine; one whose tables have names.
        names: what each table is called there.
    """
    if engine_kind(address) == "postgres":
        from tacit.engines.postgres.engine import read_types

        with _placed():
            return read_types(address, names)
    return {}


def open_engine(
    address: object, catalog: Catalog, sources: Mapping[str, SourceLike], limits: Mapping[str, Any]
) -> Engine:
    """An engine for a project.

    Args:
        address: what the project file says, or a Spark session.
        catalog: the tables.
        sources: where each table's rows are.
        limits: ``memory``, ``threads``, ``seconds`` and ``spill``, as the project file has them.
    """
    with _placed():
        return _opened(address, catalog, sources, limits)


def _opened(address: Any, catalog: Catalog, sources: Mapping[str, SourceLike], limits: Mapping[str, Any]) -> Engine:
    match engine_kind(address):
        case "postgres":
            from tacit.engines.postgres import PostgresEngine, PostgresLimits

            if limits.get("spill") is not None:
                raise InputError("limits.spill", "is for DuckDB: a PostgreSQL server has its own place for that")
            kept = {word: limits.get(word) for word in ("memory", "threads", "seconds")}
            names = {name: source.path or "" for name, source in sources.items()}
            return PostgresEngine(catalog, names, address, PostgresLimits(**kept))
        case "spark":
            from tacit.engines.duckdb import Limits
            from tacit.engines.spark import SparkEngine

            return SparkEngine(catalog, sources, Limits(**limits), session=address)
        case _:
            from tacit.engines.duckdb import DuckDBEngine, Limits

            return DuckDBEngine(catalog, sources, Limits(**limits))


@contextmanager
def _placed() -> Iterator[None]:
    """What an engine says of its address is about a line of the project file."""
    try:
        yield
    except InputError as problem:
        if problem.parameter != "engine":
            raise
        raise InputError("project.engine", problem.problem) from None
