"""Queries about the catalogue, answered by an embedded DuckDB: a database for each part of it that people see, kept answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tacit.core.extras import load_arrow
from tacit.query.catalog import Catalog
from tacit.releases.planner import WeightedLRUCache
from tacit.server.api.worker_runtime import FairExecutor
from tacit.server.pgwire.catalogue_rewriting import MACROS, SCHEMAS, CatalogueRewriting
from tacit.server.pgwire.messages import BINARY, TEXT, WireColumn, data_row
from tacit.server.pgwire.sqlstates import StatementFault
from tacit.server.pgwire.statements import WireStatement, postgres_tree, split_statements
from tacit.server.pgwire.system_tables import DYNAMIC, SystemTable, system_tables
from tacit.server.pgwire.types import ARRAYS, TYPES, encode
from tacit.server.pgwire.variables import VERSION

if TYPE_CHECKING:
    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access

_SECONDS: Final = 2.0
#: A cast of a list of numbers to names, which sqlglot cannot read; tools cast lists of pg_proc, which has no rows.
_REG_LIST: Final = re.compile(r"::\s*(pg_catalog\.)?reg(type|class|proc|role)\[\]", re.IGNORECASE)
#: Rows, cells and characters of an answer, and rows that are fetched at a time.
_MOST_ROWS: Final = 50_000
_MOST_CELLS: Final = 500_000
_MOST_CHARACTERS: Final = 10_000_000
_PIECE: Final = 1_000
#: Catalogues that comments may be about, and that no one may read.
_CLASSES_ELSEWHERE: Final = {"pg_authid": 1260}
_OIDS: Final = {
    "BOOLEAN": 16, "TINYINT": 21, "SMALLINT": 21, "INTEGER": 23, "BIGINT": 20, "UTINYINT": 21, "USMALLINT": 23,
    "UINTEGER": 26, "UINTEGER[]": 1028, "UBIGINT": 1700, "HUGEINT": 1700, "UHUGEINT": 1700, "FLOAT": 700, "DOUBLE": 701, "VARCHAR": 25,
    "DATE": 1082, "TIMESTAMP": 1114, "TIMESTAMP WITH TIME ZONE": 1184, "VARCHAR[]": 1009, "SMALLINT[]": 1005,
    "INTEGER[]": 1007, "BIGINT[]": 1016, "BOOLEAN[]": 1000,
}  # fmt: skip


@dataclass(frozen=True)
class CatalogueResult:
    """Columns and rows of an answer about the catalogue, and the bytes of all rows where they are sent again."""

    columns: tuple[WireColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    #: Of all texts.
    characters: int = 0

    @cached_property
    def as_text(self) -> bytes:
        """The messages of all rows, in text."""
        return self._encoded(TEXT)

    @cached_property
    def as_binary(self) -> bytes:
        """The messages of all rows, in binary."""
        return self._encoded(BINARY)

    def _encoded(self, form: int) -> bytes:
        oids = [column.oid for column in self.columns]
        return b"".join(
            data_row([encode(value, oid, form) for value, oid in zip(row, oids, strict=True)]) for row in self.rows
        )


class WrittenQuery(NamedTuple):
    """A query of the catalogue in DuckDB's words.

    Args:
        sql: the query.
        lasting: whether its answer stays the same.
        changes: name, value and whether it ends with the transaction, of each ``set_config``.
    """

    sql: str
    lasting: bool
    changes: tuple[tuple[str, str, bool], ...] = ()


class SystemCatalog:
    """The tables of the system for those who see the same part of the catalogue; safe to use from several threads."""

    def __init__(self, catalog: Catalog, database: str) -> None:
        import duckdb

        self._database = database
        self._tables: dict[tuple[str, str], SystemTable] = {}
        self._connection = duckdb.connect(
            ":memory:", config={"threads": 1, "memory_limit": "128MB", "autoload_known_extensions": "false",
                                "autoinstall_known_extensions": "false"},
        )  # fmt: skip
        self._fill(system_tables(catalog, database))
        #: Names of columns that hold lists.
        self.lists = {name for table in self._tables.values() for name, kind in table.columns if kind.endswith("[]")}
        self._names = {table.name.lower(): number for number, table in enumerate(catalog.tables, 16384)}

    def _fill(self, tables: Sequence[SystemTable]) -> None:
        pa = load_arrow()

        run = self._connection.execute
        for schema in SCHEMAS.values():
            run(f"CREATE SCHEMA {schema}")
        for each in tables:
            self._tables[each.schema, each.name] = each
            place = f"{SCHEMAS[each.schema]}.{each.name}"
            run(f"CREATE TABLE {place} ({', '.join(f'{name} {kind}' for name, kind in each.columns)})")
            if each.rows:
                names = [name for name, _ in each.columns]
                held = pa.table([pa.array(column) for column in zip(*each.rows, strict=True)], names=names)
                self._connection.register("held", held)
                run(f"INSERT INTO {place} SELECT * FROM held")
                self._connection.unregister("held")
        # Macros are put into the text of a query, so the columns that they read must have names of their own.
        shown = ", ".join(f"({each.oid}, '{each.shown}')" for each in TYPES.values())
        for name, columns, rows in (
            ("x_class", "x_oid, x_name, x_space", "SELECT oid, relname, relnamespace FROM pgc.pg_class"),
            ("x_role", "x_oid, x_name", "SELECT oid, rolname FROM pgc.pg_roles"),
            ("x_description", "x_object, x_part, x_words", "SELECT objoid, objsubid, description FROM pgc.pg_description"),
            ("x_index", "x_oid, x_words, x_column", "SELECT indexrelid, definition, column_name FROM pgc.pg_index"),
            ("x_constraint", "x_oid, x_words", "SELECT oid, definition FROM pgc.pg_constraint"),
            ("x_type", "x_oid, x_name, x_elem, x_shown", "SELECT p.oid, typname, typelem, shown FROM pgc.pg_type p "
             f"JOIN (VALUES {shown}) s(oid, shown) ON s.oid = CASE WHEN typelem > 0 THEN typelem ELSE p.oid END"),
        ):  # fmt: skip
            run(f"CREATE TABLE pgc.{name} AS SELECT * FROM ({rows}) held({columns})")
        words = ", ".join(f"('{word}', 'U', 'unreserved')" for word in _keywords())
        run(f"CREATE TABLE pgc.x_keywords AS SELECT * FROM (VALUES {words}) held(word, catcode, catdesc)")
        for head, body in MACROS.items():
            run(f"CREATE MACRO tacit_{head} AS ({body})")
        for setting, value in (
            ("temp_directory", "''"), ("python_enable_replacements", "false"), ("allow_community_extensions", "false"),
            ("enable_external_access", "false"), ("disabled_filesystems", "'LocalFileSystem'"),
            ("lock_configuration", "true"),
        ):  # fmt: skip
            run(f"SET GLOBAL {setting} = {value}")

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()

    def written(
        self,
        text: str,
        user: str,
        values: Sequence[Any],
        types: Sequence[int],
        settings: Callable[[str], str],
        dynamic: Mapping[str, Callable[[], Sequence[Sequence[Any]]]],
    ) -> WrittenQuery:
        """The query in DuckDB's words, whether its answer stays the same, and the settings that it changes.

        ``dynamic`` holds the contents of the tables about a person's account.

        Raises:
            StatementFault, Refusal: it cannot be answered.
        """
        rewriting = CatalogueRewriting(self, user, values, types, settings, dynamic)
        tree = rewriting.tree(postgres_tree(_REG_LIST.sub("::text[]", text)))
        return WrittenQuery(tree.sql("duckdb"), rewriting.lasting, tuple(rewriting.changes))

    def run(self, sql: str) -> CatalogueResult:
        """Answer a query in DuckDB's words.

        Raises:
            StatementFault: DuckDB cannot, or not in time.
        """
        import duckdb

        cursor = self._connection.cursor()
        timer = threading.Timer(_SECONDS, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            cursor.execute(sql)
            rows, characters = _fetched(cursor)
            columns = tuple(_column(name, str(kind)) for name, kind, *_ in cursor.description or ())
        except duckdb.InterruptException:
            raise StatementFault("57014", "the query about the catalogue took too long") from None
        except duckdb.CatalogException:
            raise StatementFault("42883", "the catalogue has no such table or function") from None
        except duckdb.BinderException:
            raise StatementFault("42703", "the catalogue has no such column, or it has another type") from None
        except duckdb.Error:
            raise StatementFault("0A000", "this query about the catalogue is not supported") from None
        finally:
            timer.cancel()
            cursor.close()
        shown = [_as_text if column.oid == 25 else None for column in columns]
        plain = [
            tuple(cell if how is None else how(cell) for cell, how in zip(row, shown, strict=True)) for row in rows
        ]
        return CatalogueResult(columns, tuple(plain), characters)

    def has(self, schema: str, name: str) -> bool:
        """Whether there is such a table of the system."""
        return (schema, name) in self._tables or (schema == "tacit" and name in DYNAMIC)

    def oid_of_class(self, text: str) -> int | None:
        """The number of a table by its name, as ``regclass`` reads it."""
        if text.isdigit():
            return int(text)
        parts = [part.strip('"') for part in text.split(".")]
        name, schema = parts[-1], parts[-2] if len(parts) > 1 else ""
        if name.lower() in self._names and schema in ("", "public"):
            return self._names[name.lower()]
        rows = self._connection.cursor().execute("SELECT oid FROM pgc.pg_class WHERE relname = ?", [name]).fetchall()
        return int(rows[0][0]) if rows else _CLASSES_ELSEWHERE.get(name)

    def constants(self, user: str) -> dict[str, str]:
        """Texts that functions without arguments return to a person."""
        return {
            "version": f"PostgreSQL {VERSION} (Tacit)",
            "current_database": self._database,
            "current_catalog": self._database,
            "current_schema": "public",
            "current_user": user,
            "session_user": user,
            "user": user,
            "current_role": user,
        }


def _fetched(cursor: Any) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a query, piece by piece, and the characters in them.

    Raises:
        StatementFault: they are too many.
    """
    rows: list[tuple[Any, ...]] = []
    characters = 0
    while piece := cursor.fetchmany(_PIECE):
        rows += piece
        characters += sum(len(cell) for row in piece for cell in row if isinstance(cell, (str, list)))
        if len(rows) > _MOST_ROWS or len(rows) * len(rows[0]) > _MOST_CELLS or characters > _MOST_CHARACTERS:
            raise StatementFault(
                "54000",
                f"a query about the catalogue has at most {_MOST_ROWS} rows, {_MOST_CELLS} cells and "
                f"{_MOST_CHARACTERS} characters",
            )
    return rows, characters


def _keywords() -> list[str]:
    """Words that the reader of queries knows."""
    from sqlglot.dialects.postgres import Postgres

    return sorted({word.lower() for word in Postgres.Tokenizer.KEYWORDS if word.isascii() and word.isalpha()})


_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")


def _column(name: str, kind: str) -> WireColumn:
    found = _DECIMAL.match(kind)
    oid = 1700 if found else _OIDS.get(kind, 25)
    modifier = ((int(found[1]) << 16) | int(found[2])) + 4 if found else -1
    size = TYPES[oid].size if oid not in ARRAYS else -1
    return WireColumn(name, oid, size, modifier)


def _as_text(value: Any) -> Any:
    """Text of values whose type has no equivalent."""
    return value if value is None or isinstance(value, str) else str(value)


#: Bytes of each cache, about.
_CACHED: Final = 8_000_000
#: Memory of a kept cell, as a value and in both formats; and of a statement, for each character of its text.
_PER_CELL: Final = 180
_PER_CHARACTER: Final = 40
#: Longer texts are read anew each time.
_LONGEST_KEPT: Final = 20_000
_MOST_CATALOGUES: Final = 16
#: Threads for queries of the catalogue, how many may wait, and threads for one analyst.
_POOL: Final = (2, 128, 1)


class Catalogues:
    """Tables of the system of one worker, and what is kept of queries about them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Analysts take turns, apart from quotes and budgets: a query may take seconds.
        self.pool = FairExecutor("catalogue", *_POOL)
        self._found: dict[frozenset[str] | None, tuple[str, SystemCatalog]] = {}
        self.results: WeightedLRUCache[tuple[Any, ...], CatalogueResult] = WeightedLRUCache(_CACHED)
        self.statements: WeightedLRUCache[tuple[str, Collection[str]], tuple[WireStatement, ...]] = WeightedLRUCache(
            _CACHED
        )
        #: Types of parameters.
        self.types: WeightedLRUCache[tuple[Any, ...], tuple[int, ...]] = WeightedLRUCache(_CACHED)

    def of(self, runtime: WorkerRuntime, access: Access) -> SystemCatalog:
        """The one for a person; for a thread."""
        catalog = runtime.service.catalog(access)
        key = access.person.populations
        with self._lock:
            known = self._found.get(key)
            if known is None or known[0] != catalog.digest:
                known = (catalog.digest, SystemCatalog(catalog, runtime.service.curator.name))
                if len(self._found) >= _MOST_CATALOGUES:
                    self._found.pop(next(iter(self._found)), None)
                self._found[key] = known
            return known[1]

    def split(self, sql: str, names: frozenset[str]) -> list[WireStatement]:
        """As :func:`split_statements`; equal texts are read once."""
        if len(sql) > _LONGEST_KEPT:
            return split_statements(sql, names)
        known = self.statements.get((sql, names))
        if known is None:
            known = tuple(split_statements(sql, names))
            self.statements.put((sql, names), known, _PER_CHARACTER * (len(sql) + 10))
        return list(known)

    def keep(self, key: tuple[Any, ...], found: CatalogueResult, text: str) -> None:
        """Keep an answer that stays the same."""
        cells = _PER_CELL * (len(found.rows) + 1) * (len(found.columns) + 1)
        # Texts are kept as values and in both formats.
        self.results.put(key, found, len(text) + cells + 3 * found.characters)

    def close(self) -> None:
        """Accept nothing new."""
        self.pool.close()
