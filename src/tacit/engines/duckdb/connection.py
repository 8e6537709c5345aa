"""Locked DuckDB connection that reads the declared sources only.

After opening: no file, network or Python object is reachable except the declared files, no extension can be installed
or loaded, the configuration is locked, and memory and threads are limited. The analyst's text never comes here; the
lock is for the day a mistake in this package lets some of it through. What it leaves open: statements run here could
write to declared files, so the process should not be able to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.table_cache import DATABASE
from tacit.engines.duckdb.sources import DuckDBTable, SourceLike, open_source
from tacit.engines.duckdb.unit_columns import check_identities, check_row_numbers
from tacit.query.catalog import Catalog

if TYPE_CHECKING:
    import duckdb

__all__ = ["Limits", "memory_limit", "open_locked"]

_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True)
class Limits:
    """What one engine may use.

    Args:
        memory: a size such as ``"4GB"``; a question that needs more fails. None for most of the machine's.
        threads: how many cores; None for all.
        seconds: how long one question may take; None for no limit.
        spill: a directory for intermediate rows that exceed memory; None to keep them off disk.
    """

    memory: str | None = None
    threads: int | None = None
    seconds: float | None = None
    spill: str | None = None


def open_locked(
    catalog: Catalog, sources: Mapping[str, SourceLike], limits: Limits
) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection, dict[str, DuckDBTable]]:
    """A locked connection, a cursor of it that can tell progress, and every table as it is read there."""
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        _set(connection, "autoinstall_known_extensions", "false")
        _set(connection, "autoload_known_extensions", "false")
        _set(connection, "python_enable_replacements", "false")
        tables: dict[str, DuckDBTable] = {}
        files: set[str] = set()
        by_name = {name.lower(): source for name, source in sources.items()}
        for index, table in enumerate(catalog.tables):
            if table.name.lower() not in by_name:
                raise InputError(f"sources.{table.name}", "is missing: every table of the catalog needs a source")
            check_row_numbers(connection, by_name[table.name.lower()], table)
            stored, read = open_source(connection, by_name[table.name.lower()], table, index)
            tables[table.name.lower()] = stored
            files |= set(read)
        check_identities(connection, catalog, sources, tables)
        connection.execute(f"ATTACH ':memory:' AS {DATABASE} (COMPRESS true)")
        watched = _watched(connection)
        _lock(connection, sorted(files), limits)
    except Exception:
        connection.close()
        raise
    return connection, watched, tables


def _watched(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Progress is counted only where a cursor says so, and after the lock none can; DuckDB itself prints nothing."""
    cursor = connection.cursor()
    cursor.execute("SET enable_progress_bar = true")
    cursor.execute("SET enable_progress_bar_print = false")
    return cursor


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """How many bytes the database may use."""
    ((shown,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = str(shown).split()
    return int(float(number) * 1024 ** _SIZES.index(unit))


def _lock(connection: duckdb.DuckDBPyConnection, files: list[str], limits: Limits) -> None:
    if limits.memory is not None:
        _set(connection, "memory_limit", DUCKDB.text(limits.memory))
    if limits.threads is not None:
        _set(connection, "threads", str(int(limits.threads)))
    _set(connection, "temp_directory", DUCKDB.text(limits.spill or ""))
    # The order of rows decides nothing, and keeping it costs memory.
    _set(connection, "preserve_insertion_order", "false")
    # Joins run in the order of the plan, whose intermediate rows are bounded, and read what it says: both of these
    # decide by what the tables hold, the second by the smallest and largest key of the other side.
    _set(connection, "disabled_optimizers", "'join_order,join_filter_pushdown'")
    _set(connection, "ieee_floating_point_ops", "true")
    _set(connection, "allow_community_extensions", "false")
    _set(connection, "allow_persistent_secrets", "false")
    _set(connection, "enable_logging", "false")
    _set(connection, "allowed_paths", f"[{', '.join(map(DUCKDB.text, files))}]")
    _set(connection, "enable_external_access", "false")
    if not files and limits.spill is None:
        # Attached databases are open already; nothing else is to be opened, and they cannot be opened again for
        # writing.
        _set(connection, "disabled_filesystems", "'LocalFileSystem'")
    _set(connection, "lock_configuration", "true")


def _set(connection: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    # GLOBAL: cursors start from the database's settings, not from those of the connection they are made of.
    connection.execute(f"SET GLOBAL {name} = {value}")
