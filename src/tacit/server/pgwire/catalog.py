"""Queries about the catalogue: rewritten from PostgreSQL's dialect to DuckDB's, and answered by an embedded DuckDB.

Each part of the catalog that some people see has one database, with the tables and functions of :mod:`.system_tables`.
A query may use the functions and types in the lists below; everything else is refused.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tacit.query import limits
from tacit.query.catalog import Catalog
from tacit.releases.plans import WeightedLRUCache
from tacit.server.api.worker_runtime import FairExecutor
from tacit.server.pgwire.protocol import ARRAYS, TYPES, StatementFault, WireColumn
from tacit.server.pgwire.statements import literal_of, postgres_tree
from tacit.server.pgwire.system_tables import DUCKDB_TYPES, MACROS, SCHEMAS, create_system_tables

if TYPE_CHECKING:
    from sqlglot import exp

    from tacit.server.api.worker_runtime import WorkerRuntime
    from tacit.server.identity import Access

#: Functions that PostgreSQL and DuckDB have by the same name.
SAME: Final = frozenset(
    {"unnest", "generate_series", "generate_subscripts", "ltrim", "string_agg", "array_agg", "bool_or", "bool_and",
     "char_length", "octet_length", "array_append", "array_position", "md5", "concat", "row_number", "split_part",
     "json_build_object",
     # Functions of PostgreSQL's catalog that DuckDB has as well.
     "shobj_description", "pg_function_is_visible", "pg_collation_is_visible", "pg_size_pretty",
     "has_schema_privilege", "has_database_privilege", "has_column_privilege"}
)  # fmt: skip
#: Functions for which sqlglot has a class.
CLASSES: Final = frozenset(
    {"Abs", "And", "Any", "Array", "ArrayAgg", "ArrayContains", "ArrayLength", "ArraySize", "ArrayToString", "Avg",
     "Case", "Cast", "Coalesce", "Collate", "Concat", "ConcatWs", "Count", "CurrentCatalog", "CurrentDatabase",
     "CurrentDate", "CurrentRole", "CurrentSchema", "CurrentSchemas", "CurrentSession", "CurrentTimestamp",
     "CurrentUser", "CurrentVersion", "Exists", "Explode", "ExplodingGenerateSeries", "Extract", "First",
     "GenerateSeries", "GroupConcat", "If", "JSONBObject", "JSONObject", "LTrim", "Left", "Length", "Localtimestamp",
     "LogicalAnd", "LogicalOr", "Lower", "MD5", "Max", "Min", "Not", "Nullif", "Or", "Posexplode", "RegexpILike",
     "RegexpLike", "RegexpReplace", "Replace", "Right", "RowNumber", "SessionUser", "SplitPart", "StrPosition",
     "Substring", "Sum", "Trim", "TryCast", "Unnest", "Upper"}
)  # fmt: skip
_NAMES: Final = frozenset(head.partition("(")[0] for head in MACROS)
#: Dynamic tables that a query reads, by the system table or function that shows them.
_DYNAMIC: Final = {
    "pgt.budget": "budget", "pgt.history": "history", "pgc.pg_settings": "x_setting", "current_setting": "x_setting",
}  # fmt: skip
#: Maximum characters of a text that a query lengthens, and numbers of a series: DuckDB's memory limit excludes texts.
_LONGEST: Final = 10_000
_LONGEST_WORD: Final = 200
#: Prefix of the names of common table expressions.
_PART: Final = "tacit part "
_REG: Final = frozenset({"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper"})
#: A cast of a list of numbers to names, which sqlglot cannot read; tools cast lists of pg_proc, which has no rows.
_REG_LIST: Final = re.compile(r"::\s*(pg_catalog\.)?reg(type|class|proc|role)\[\]", re.IGNORECASE)
_WORDS: Final = {"oid": "UINTEGER", "name": "VARCHAR", "char": "VARCHAR", "xid": "BIGINT", "cstring": "VARCHAR",
                 "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]", "sql_identifier": "VARCHAR",
                 "character_data": "VARCHAR", "cardinal_number": "INTEGER", "yes_or_no": "VARCHAR",
                 "aclitem": "VARCHAR", "pg_node_tree": "VARCHAR", "anyarray": "VARCHAR[]"}  # fmt: skip
#: Types that DuckDB knows as well, when they are qualified by the schema.
_PLAIN: Final = {"int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "text": "VARCHAR", "bool": "BOOLEAN",
                 "float4": "FLOAT", "float8": "DOUBLE", "varchar": "VARCHAR", "bpchar": "VARCHAR",
                 "numeric": "DECIMAL(18, 3)", "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ",
                 "json": "VARCHAR", "jsonb": "VARCHAR"}  # fmt: skip
#: List columns that PostgreSQL writes without braces.
_VECTORS: Final = frozenset({"indkey", "indclass", "indcollation", "proargtypes", "tgattr", "partattrs", "partclass"})
#: Types that no column has.
_PSEUDO: Final = {"trigger": 2279, "event_trigger": 3838, "void": 2278, "record": 2249, "internal": 2281, "any": 2276}
#: Catalogs that comments may be about, and that no one may read.
_CLASSES_ELSEWHERE: Final = {"pg_authid": 1260}
_SECONDS: Final = 2.0
#: Maximum rows, cells and characters of an answer, and rows fetched at a time.
_MOST_ROWS: Final = 50_000
_MOST_CELLS: Final = 500_000
_MOST_CHARACTERS: Final = 10_000_000
_PIECE: Final = 1_000
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
#: A failure raised by a system function.
_STATED: Final = re.compile(r"Invalid Input Error: (\d{5}): (.*)")


class WrittenQuery(NamedTuple):
    """A catalog query in DuckDB's dialect.

    Args:
        lasting: whether its answer never changes.
        dynamic: names of the tables that must be read for it.
    """

    sql: str
    lasting: bool
    dynamic: frozenset[str]


@dataclass(frozen=True)
class CatalogueResult:
    """Columns and rows of the answer to a catalog query, and the number of characters of all its texts."""

    columns: tuple[WireColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    characters: int = 0


class SystemCatalog:
    """System tables for people who see the same part of the catalog; thread-safe."""

    def __init__(self, catalog: Catalog, database: str) -> None:
        import duckdb

        self._connection = duckdb.connect(
            ":memory:", config={"threads": 1, "memory_limit": "128MB", "autoload_known_extensions": "false",
                                "autoinstall_known_extensions": "false"},
        )  # fmt: skip
        create_system_tables(self._connection, catalog, database)
        columns = self._connection.execute(
            "SELECT schema_name || '.' || table_name, column_name, data_type LIKE '%[]' FROM duckdb_columns() "
            "WHERE schema_name IN ('pgc', 'pgi', 'pgt')"
        ).fetchall()
        self.tables = {table for table, _, _ in columns}
        #: Names of list columns.
        self.lists = {column for _, column, is_list in columns if is_list}
        for setting, value in (
            ("temp_directory", "''"), ("python_enable_replacements", "false"), ("allow_community_extensions", "false"),
            ("enable_external_access", "false"), ("disabled_filesystems", "'LocalFileSystem'"),
            ("lock_configuration", "true"),
        ):  # fmt: skip
            self._connection.execute(f"SET GLOBAL {setting} = {value}")

    def written(self, text: str, values: Sequence[Any], types: Sequence[int]) -> WrittenQuery:
        """Rewrite a query in DuckDB's dialect.

        Raises:
            StatementFault, Refusal: it cannot be answered.
        """
        rewriting = _Rewriting(self, values, types)
        tree = rewriting.tree(postgres_tree(_REG_LIST.sub("::text[]", text)))
        lasting = rewriting.lasting and not rewriting.dynamic
        return WrittenQuery(tree.sql("duckdb"), lasting, frozenset(rewriting.dynamic))

    def run(self, sql: str, variables: Mapping[str, Any]) -> CatalogueResult:
        """Answer a rewritten query; variables are the user and the rows of dynamic tables.

        Raises:
            StatementFault: DuckDB fails, or takes too long.
        """
        import duckdb

        cursor = self._connection.cursor()
        timer = threading.Timer(_SECONDS, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            for name, value in variables.items():
                cursor.execute(f"SET VARIABLE {name} = ?", [value])
            cursor.execute(sql)
            rows, characters = _fetched(cursor)
            columns = tuple(_column(name, str(kind)) for name, kind, *_ in cursor.description or ())
        except duckdb.InterruptException:
            raise StatementFault("57014", "the query about the catalogue took too long") from None
        except duckdb.CatalogException:
            raise StatementFault("42883", "the catalogue has no such table or function") from None
        except duckdb.BinderException:
            raise StatementFault("42703", "the catalogue has no such column, or it has another type") from None
        except duckdb.Error as problem:
            stated = _STATED.match(str(problem))
            state, words = stated.groups() if stated else ("0A000", "this query about the catalogue is not supported")
            raise StatementFault(state, words) from None
        finally:
            timer.cancel()
            cursor.close()
        # Values whose type has no equivalent are shown as text.
        texts = [column.oid == 25 for column in columns]
        shown = (
            tuple(str(cell) if text and cell is not None else cell for cell, text in zip(row, texts, strict=True))
            for row in rows
        )
        return CatalogueResult(columns, tuple(shown), characters)

    def oid_of_class(self, text: str) -> int | None:
        """Return the oid of a table by its name, as ``regclass`` reads it; None if there is no such table."""
        if text.isdigit():
            return int(text)
        name = text.rpartition(".")[2].strip('"')
        found = "SELECT x_oid FROM x_class WHERE x_name = $1 OR (x_space = 2200 AND lower(x_name) = lower($1))"
        rows = self._connection.cursor().execute(found, [name]).fetchall()
        return int(rows[0][0]) if rows else _CLASSES_ELSEWHERE.get(name)


def _fetched(cursor: Any) -> tuple[list[tuple[Any, ...]], int]:
    """Fetch the rows of a query in batches; return them and the number of characters in them.

    Raises:
        StatementFault: the answer is too large.
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


def _column(name: str, kind: str) -> WireColumn:
    found = _DECIMAL.match(kind)
    oid = 1700 if found else DUCKDB_TYPES.get(kind, 25)
    modifier = ((int(found[1]) << 16) | int(found[2])) + 4 if found else -1
    return WireColumn(name, oid, TYPES[oid].size if oid not in ARRAYS else -1, modifier)


# -- rewriting


class _Rewriting:
    """Rewrites one query from PostgreSQL's dialect to DuckDB's."""

    def __init__(self, catalog: SystemCatalog, values: Sequence[Any], types: Sequence[int]) -> None:
        self._catalog = catalog
        self._values, self._types = values, types
        self._characters = 0
        self.lasting = True
        self.dynamic: set[str] = set()

    def tree(self, tree: exp.Expr) -> exp.Expr:
        """Return the query that DuckDB answers.

        Raises:
            StatementFault, Refusal: it cannot be answered.
        """
        from sqlglot import exp

        if not isinstance(tree, exp.Query):
            raise StatementFault("0A000", "only queries of the catalogue are answered")
        if tree.find(exp.Into, exp.Lock):
            raise StatementFault("0A000", "nothing can be written")
        _rename_parts(tree)
        for call in tree.find_all(exp.Anonymous, exp.Func):
            anonymous = isinstance(call, exp.Anonymous)
            name = str(call.this).lower() if anonymous else type(call).__name__
            if name not in (_NAMES | SAME if anonymous else CLASSES):
                raise StatementFault("42883", f"the catalogue has no function {name[:63]}")
            if anonymous and name in _DYNAMIC:
                self.dynamic.add(_DYNAMIC[name])
        _name_columns(tree)
        # Children first, so that a node is rewritten after its parts.
        for node in reversed(list(tree.walk())):
            changed = self._node(node)
            if changed is not node:
                node.replace(changed)
        for table in list(tree.find_all(exp.Table)):
            self._relation(table)
        return tree

    def _node(self, node: exp.Expr) -> exp.Expr:
        from sqlglot import exp

        match node:
            case exp.Parameter():
                place = int(node.name) - 1 if node.name.isdigit() else -1
                if not 0 <= place < len(self._values):
                    raise StatementFault("42P02", "there is no parameter of that number")
                self._characters += len(str(self._values[place]))
                if self._characters > limits.MAX_CHARACTERS:
                    raise StatementFault("54000", "the query has too many characters with its parameters")
                return literal_of(self._values[place], self._types[place])
            case exp.Dot() if isinstance(node.this, exp.Identifier) and node.this.name in SCHEMAS:
                # A function or a type, qualified by the schema.
                inside: exp.Expr = node.expression
                return inside
            case exp.Operator():
                return _operator(node)
            case exp.Collate():
                collated: exp.Expr = node.this
                return collated
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Anonymous() if str(node.this).lower() in ("json_build_object", "jsonb_build_object"):
                return exp.Anonymous(this="json_object", expressions=node.expressions)
            case exp.ArrayToString():
                return exp.Anonymous(this="array_to_string", expressions=[node.this, node.expression])
            case exp.ArraySize():
                return exp.Anonymous(this="array_length", expressions=[node.this, exp.Literal.number(1)])
            case exp.Any():
                return _any(node)
            case exp.DPipe() | exp.Concat() | exp.ConcatWs() | exp.Replace() | exp.RegexpReplace():
                return _shortened(node)
            case exp.GenerateSeries():
                end = node.args.get("end")
                if isinstance(end, exp.Literal) and (not end.name.isdigit() or int(end.name) > _LONGEST):
                    raise StatementFault(
                        "54000", f"a series in a query of the catalogue has at most {_LONGEST} numbers"
                    )
            case exp.CurrentTimestamp() | exp.CurrentDate():
                self.lasting = False
            case exp.Column() if node.args.get("db"):
                # pg_catalog.pg_class.relname is a column qualified by table and schema.
                node.set("db", None)
                node.set("catalog", None)
            case exp.Column() if (
                not node.table and not node.this.quoted and node.name.lower() in ("user", "current_role")
            ):
                return exp.Anonymous(this="current_user")
        return node

    def _cast(self, node: exp.Cast | exp.TryCast) -> exp.Expr:
        from sqlglot import exp

        name = node.to.sql("postgres").lower().replace('"', "")
        array = name.endswith("[]")
        bare = name.removesuffix("[]").removeprefix("pg_catalog.").removeprefix("information_schema.").partition("(")[0]
        if bare in _REG:
            return self._reg(bare, node.this)
        if isinstance(node.this, exp.Column) and node.to.is_type(*exp.DataType.TEXT_TYPES, "name"):
            # PostgreSQL's text of a list differs from DuckDB's.
            column = node.this.name.lower()
            if column in _VECTORS:
                return exp.Anonymous(this="array_to_string", expressions=[node.this, exp.Literal.string(" ")])
            if column in self._catalog.lists:
                return exp.Anonymous(this="list_text", expressions=[node.this])
        words = _WORDS.get(bare) or ("." in name and _PLAIN.get(bare))
        if words:
            words += "[]" if array else ""
            return exp.Cast(this=node.this, to=exp.DataType.build(words, dialect="duckdb"))
        return node

    def _reg(self, kind: str, value: exp.Expr) -> exp.Expr:
        """Rewrite a cast to ``regclass``, ``regtype`` and so on; a constant becomes the oid of the object."""
        from sqlglot import exp

        if not isinstance(value, exp.Literal) or (kind == "regtype" and value.name.isdigit()) or kind == "regrole":
            if kind in ("regclass", "regtype"):
                return exp.Anonymous(this=f"{kind}_name", expressions=[value])
            return exp.Cast(this=value, to=exp.DataType.build("VARCHAR"))
        found: int | None
        if kind == "regclass":
            found, state, what = self._catalog.oid_of_class(value.name), "42P01", "table"
        elif kind == "regtype":
            name = value.name.rpartition(".")[2]
            found = next((e.oid for e in TYPES.values() if name in (e.name, e.shown)), _PSEUDO.get(name))
            state, what = "42704", "type"
        elif kind == "regnamespace":
            spaces = {"public": 2200, "pg_catalog": 11, "information_schema": 13200, "tacit": 16383}
            found, state, what = spaces.get(value.name), "3F000", "schema"
        else:
            found, state, what = None, "42883", "function"
        if found is None:
            raise StatementFault(state, f"there is no {what} of that name")
        return _oid(found)

    def _relation(self, table: exp.Table) -> None:
        from sqlglot import exp

        if isinstance(table.this, exp.Func):
            name = str(table.this.this).lower() if isinstance(table.this, exp.Anonymous) else table.this.key
            if name in _NAMES:
                table.replace(_one_row(table))
                return
            if name not in SAME and not isinstance(
                table.this, (exp.Unnest, exp.GenerateSeries, exp.ExplodingGenerateSeries, exp.Explode)
            ):
                raise StatementFault("42883", f"the catalogue has no function {name[:63]} of rows")
            table.set("db", None)
            return
        name, schema = table.name.lower(), table.db.lower()
        if not schema and name.startswith(_PART):
            return
        schema = schema or ("pg_catalog" if name.startswith("pg_") else "public")
        place = f"{SCHEMAS.get(schema, '')}.{name}"
        if place not in self._catalog.tables:
            raise StatementFault(
                "42P01",
                f"the catalogue has no table {schema}.{name}"[:200],
                "A query of the catalogue cannot read declared tables as well; ask two.",
            )
        if place in _DYNAMIC:
            self.dynamic.add(_DYNAMIC[place])
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        table.set("db", exp.to_identifier(SCHEMAS[schema]))
        table.set("catalog", None)


def _rename_parts(tree: exp.Expr) -> None:
    """Rename common table expressions so that their names exist nowhere in DuckDB.

    A CTE's name is visible only within its query; elsewhere DuckDB would resolve it to a table of its own.
    """
    from sqlglot import exp

    parts = list(tree.find_all(exp.CTE))
    named = {each.alias.lower() for each in parts}
    for table in tree.find_all(exp.Table):
        if table.name.lower() in named and not table.db and not isinstance(table.this, exp.Func):
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(_PART + table.name.lower(), quoted=True))
    for each in parts:
        each.args["alias"].set("this", exp.to_identifier(_PART + each.alias.lower(), quoted=True))


def _shortened(node: exp.Expr) -> exp.Expr:
    """Bound the length of texts that are joined or replaced in, so that no chain of them grows without limit.

    DuckDB's memory limit does not count texts.
    """
    from sqlglot import exp

    parts = list(node.iter_expressions())
    if any(isinstance(part, exp.Array) for part in parts):
        # Lists are joined, as psql does with options of tables.
        return node
    many = isinstance(node, (exp.Replace, exp.RegexpReplace))
    for place, part in enumerate(parts):
        # Each match is replaced by the whole replacement text.
        longest = _LONGEST_WORD if many and place else _LONGEST
        if not isinstance(part, exp.Literal) or len(part.name) > longest:
            bound = exp.Literal.number(longest)
            part.replace(exp.Anonymous(this="bounded", expressions=[part.copy(), bound]))
    return node


def _operator(node: exp.Operator) -> exp.Expr:
    from sqlglot import exp

    sign = str(node.args["operator"]).rpartition(".")[2]
    left, right = node.this, node.expression
    right = right.this if isinstance(right, exp.Collate) else right
    kinds: dict[str, type[exp.Expr]] = {
        "~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, ">": exp.GT,
        "~~": exp.Like, "+": exp.Add, "||": exp.DPipe,
    }  # fmt: skip
    if sign in kinds:
        return kinds[sign](this=left, expression=right)
    if sign in ("!~", "!~*", "!~~"):
        return exp.Not(this=exp.Paren(this=kinds[sign[1:]](this=left, expression=right)))
    raise StatementFault("42883", "the catalogue does not know this operator")


def _oid(number: int) -> exp.Expr:
    from sqlglot import exp

    return exp.Cast(this=exp.Literal.number(number), to=exp.DataType.build("UINTEGER", dialect="duckdb"))


def _any(node: exp.Any) -> exp.Expr:
    """Rewrite ``ANY('{r,v}')``, a driver's untyped list, to ``ANY(ARRAY[…])``, and drop the ARRAY around a subquery."""
    from sqlglot import exp

    held = node.this.this if isinstance(node.this, exp.Paren) else node.this
    if isinstance(held, exp.Array) and len(held.expressions) == 1 and isinstance(held.expressions[0], exp.Query):
        inner = held.expressions[0]
        return exp.Any(this=inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner))
    if not isinstance(held, exp.Literal) or not held.is_string or not held.name.startswith("{"):
        return node
    parts = [part.strip().strip('"') for part in held.name.strip("{}").split(",") if part.strip()]
    make = exp.Literal.number if all(part.isdigit() for part in parts) else exp.Literal.string
    return exp.Any(this=exp.Paren(this=exp.Array(expressions=[make(part) for part in parts])))


def _one_row(table: exp.Table) -> exp.Expr:
    """Return a subquery with the value of a function in FROM, and its ordinality if the query names it."""
    from sqlglot import exp

    alias = table.args.get("alias")
    columns = [each.name for each in alias.columns] if alias is not None else []
    name = columns[0] if columns else alias.name if alias is not None else "value"
    values = [exp.alias_(table.this.copy(), name), *(exp.alias_("1", each) for each in columns[1:])]
    held = exp.TableAlias(this=exp.to_identifier(table.alias or name))
    return exp.Subquery(this=exp.select(*values), alias=held)


def _name_columns(tree: exp.Query) -> None:
    """Name the columns of a query as PostgreSQL does, before functions are rewritten."""
    from sqlglot import exp

    select = tree
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    if isinstance(select, exp.Select):
        select.set("expressions", [_named(each) for each in select.expressions])


def _named(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    if isinstance(node, exp.Alias):
        # Names without quotes are in small letters.
        held = node.args["alias"]
        if isinstance(held, exp.Identifier) and not held.quoted:
            held.set("this", held.name.lower())
        return node
    if isinstance(node, (exp.Star, exp.Column)) or node.is_star:
        return node
    inner = node
    while isinstance(inner, (exp.Paren, exp.Collate)) or (isinstance(inner, exp.Dot) and inner.this.name in SCHEMAS):
        inner = inner.expression if isinstance(inner, exp.Dot) else inner.this
    name = "?column?"
    if isinstance(inner, exp.Cast):
        below = inner.this.expression if isinstance(inner.this, exp.Dot) else inner.this
        name = inner.to.sql("postgres").lower().rpartition(".")[2]
        if isinstance(below, (exp.Column, exp.Anonymous)):
            name = below.name.lower() if isinstance(below, exp.Anonymous) else below.name
    elif isinstance(inner, exp.Anonymous):
        name = str(inner.this).lower()
    elif isinstance(inner, exp.Func) and not isinstance(inner, (exp.Binary, exp.Connector)):
        name = inner.sql_name().lower()
        name = {"current_catalog": "current_database", "current_version": "version"}.get(name, name)
    return exp.alias_(node.copy(), name, quoted=True)


# -- what is kept

#: Approximate bytes of cached answers, and of one cached cell.
_CACHED: Final = 8_000_000
_PER_CELL: Final = 180
_MOST_CATALOGUES: Final = 16
#: Threads for catalog queries, queries that may wait, and threads for one analyst.
_POOL: Final = (2, 128, 1)


class Catalogues:
    """System tables of one worker, and a cache of answers to queries about them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Separate from the pool of quotes and budgets, since a catalog query may take seconds; analysts take turns.
        self.pool = FairExecutor("catalogue", *_POOL)
        self._found: dict[frozenset[str] | None, tuple[str, SystemCatalog]] = {}
        self.results: WeightedLRUCache[tuple[Any, ...], CatalogueResult] = WeightedLRUCache(_CACHED)

    def of(self, runtime: WorkerRuntime, access: Access) -> SystemCatalog:
        """Return the system tables for a person; called in a thread."""
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

    def keep(self, key: tuple[Any, ...], found: CatalogueResult, text: str) -> None:
        """Cache an answer that never changes."""
        cells = _PER_CELL * (len(found.rows) + 1) * (len(found.columns) + 1)
        self.results.put(key, found, len(text) + cells + found.characters)

    def close(self) -> None:
        """Accept nothing new."""
        self.pool.close()
