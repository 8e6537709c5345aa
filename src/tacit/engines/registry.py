"""Registry of engines by address: ``duckdb``, ``postgresql://…``, ``sc://…``, ``warehouse``.

The only module outside an engine's own package that names an engine: to add an engine, add its package and its lines
here. An engine is imported only when a project names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.engines.protocol import DoctorCheck, Engine, Limits, SourceLike

if TYPE_CHECKING:
    import duckdb

    from tacit.engines.duckdb.csv_lines import CsvReport
    from tacit.engines.files import CsvFormat
    from tacit.engines.warehouse import WarehouseEngine
    from tacit.query.catalog import Catalog, Table
    from tacit.query.query import FinalAggregation
    from tacit.query.types import SqlType

_POSTGRES: Final = ("postgresql://", "postgres://")


def engine_kind(address: object) -> str:
    """Return ``"duckdb"``, ``"postgres"``, ``"spark"`` or ``"warehouse"`` for an engine address.

    An address that is not a string must be a Spark session.

    Raises:
        InputError: the address names no engine. The message does not quote it, because it may hold a password.
    """
    if not isinstance(address, str):
        return "spark"
    if address == "duckdb":
        return "duckdb"
    if is_database_address(address):
        return "postgres"
    if address.startswith("sc://"):
        return "spark"
    if address == "warehouse":
        return "warehouse"
    raise InputError("project.engine", "must be 'duckdb', 'postgresql://…', 'sc://…' or 'warehouse'")


def is_database_address(text: str) -> bool:
    """Whether a source is the address of a database server rather than a file name."""
    return text.startswith(_POSTGRES)


def source_kind(engine: str, text: str, *, is_file_name: bool, is_folder: bool) -> str:
    """Return what a source is for a kind of engine: ``"file"``, ``"folder"`` (of Parquet files) or ``"table"``."""
    if engine == "duckdb" or (engine == "spark" and is_file_name and "://" not in text):
        return "file"
    return "folder" if engine == "spark" and ("://" in text or is_folder) else "table"


def is_spark_frame(frame: Any) -> bool:
    """Whether an object is a Spark frame, by its methods: Databricks and Spark Connect have their own classes."""
    return hasattr(frame, "createOrReplaceTempView") and hasattr(frame, "sparkSession")


def frame_types(frame: Any) -> dict[str, SqlType | None]:
    """Return the columns of a Spark frame with their types, None for types Tacit does not read; reads no row."""
    from tacit.engines.spark.sources import types_of

    return types_of(frame)


def stored_types(address: str, names: Mapping[str, str]) -> dict[str, dict[str, SqlType | None]]:
    """Return the columns of database tables with their types, None for types Tacit does not read; reads no row."""
    if engine_kind(address) == "postgres":
        from tacit.engines.postgres.engine import read_types

        with _placed():
            return read_types(address, names)
    return {}


def stored_names(address: str) -> list[str]:
    """Return the readable tables and views of a database, as ``schema.table``."""
    from tacit.engines.postgres.engine import read_names

    with _placed():
        return read_names(address)


def open_engine(address: Any, catalog: Catalog, sources: Mapping[str, SourceLike], limits: Mapping[str, Any]) -> Engine:
    """Open the engine of a project.

    Args:
        address: the engine's address in the project file, or a Spark session.
        catalog: the tables.
        sources: where each table's rows are.
        limits: ``memory``, ``threads``, ``seconds`` and ``spill`` from the project file.
    """
    with _placed():
        match engine_kind(address):
            case "postgres":
                from tacit.engines.postgres import PostgresEngine

                return PostgresEngine(catalog, _names(sources), address, Limits(**limits))
            case "spark":
                from tacit.engines.spark import SparkEngine

                return SparkEngine(catalog, sources, Limits(**limits), session=address)
            case "warehouse":
                from tacit.engines.warehouse import WarehouseEngine

                return WarehouseEngine(catalog, sources)
            case _:
                from tacit.engines.duckdb import DuckDBEngine

                return DuckDBEngine(catalog, sources, Limits(**limits))


def warehouse_statement(engine: Engine, finals: Sequence[FinalAggregation], secret: bytes, dialect: str) -> str:
    """Return the statement that measures aggregations in a warehouse.

    Raises:
        InputError: the project's tables are not in a warehouse, or the dialect does not exist.
        Refusal: the dialect does not support an aggregation.
    """
    return _warehouse(engine).statement(finals, secret, dialect)


def warehouse_measured(engine: Engine, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Engine:
    """Return the warehouse engine together with the measurements that the warehouse computed.

    Raises:
        InputError: the project's tables are not in a warehouse, the result table has another form, or a self-check
            of the statement failed.
    """
    from tacit.engines.warehouse.engine import read_counts

    return _warehouse(engine).with_counts(read_counts(names, rows))


def _warehouse(engine: Engine) -> WarehouseEngine:
    from tacit.engines.warehouse import WarehouseEngine

    if not isinstance(engine, WarehouseEngine):
        raise InputError("project.engine", 'must be "warehouse" for tables that are measured elsewhere')
    return engine


def doctor_checks(address: str, catalog: Catalog, sources: Mapping[str, SourceLike]) -> Iterable[DoctorCheck]:
    """Return checks of a database server or Spark, of access rights and of the tables; none for DuckDB."""
    match engine_kind(address):
        case "postgres":
            from tacit.engines.postgres.engine import look_at

            return look_at(address, catalog, _names(sources))
        case "spark":
            from tacit.engines.spark.engine import look_at as look_at_spark

            return look_at_spark(address, catalog, sources)
        case _:
            return ()


def csv_losses(source: SourceLike, table: Table) -> CsvReport:
    """Report everything in a table's CSV files that no row shows, for the data owner only."""
    from tacit.engines.duckdb.sources import report_csv

    return report_csv(source, table)


def csv_header(file: str, form: CsvFormat) -> tuple[str, ...]:
    """Return the column names in the first line of a CSV file; reads no row.

    Raises:
        InputError: the file has no header line.
    """
    from tacit.engines.duckdb.csv_lines import read_header

    return read_header(file, "source", form)


@contextmanager
def open_unprotected(catalog: Catalog, sources: Mapping[str, SourceLike]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an unprotected database whose views are the tables of a catalog, read as the DuckDB engine reads them."""
    from tacit.engines.duckdb.sources import open_views

    with open_views(catalog, sources) as connection:
        yield connection


def warm() -> None:
    """Import the DuckDB engine, which most projects use, before worker processes are forked."""
    import tacit.engines.duckdb  # noqa: F401


def _names(sources: Mapping[str, SourceLike]) -> dict[str, str]:
    return {name: source.path or "" for name, source in sources.items()}


@contextmanager
def _placed() -> Iterator[None]:
    """Raise an InputError about the engine as one about the line ``project.engine`` of the project file."""
    try:
        yield
    except InputError as problem:
        if problem.parameter != "engine":
            raise
        raise InputError("project.engine", problem.problem) from None
