"""PostgreSQL tables and views: columns, identity, and SQL that reads columns without failing.

Numbers that are not finite, dates outside the years 1 to 9999, infinite dates, and values too large for the declared
type are NULL, as for every source. ``char(n)`` is read without its padding spaces; ``citext`` as its text, unchanged.

**Identity.** A relation has two identifiers (*marks*): its oid in its database on its server, which renaming does not
change, and its name there, which dropping and creating it again does not change. A view also has those of every
relation it reads, so that a table and a view of it share one budget. So does a table with its parents, children and
partitions: a row of one is a row of the others. A foreign table also has an identifier of the place it stands for, so
that two foreign tables for one place share one budget. (Two views that read a common table also share one budget: a
code list that several populations use is better joined in the query than in the view.) The server is identified by the
system identifier that was created with its data files: a standby and a copy of its files have the same one, a restored
dump has another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tacit.core.errors import InputError
from tacit.engines.postgres.dialect import COLLATION, POSTGRES, decimal_to_double
from tacit.engines.protocol import Marks
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.scalars import cast_sql, within_years
from tacit.engines.stored_units import Form, StoredColumn, check_stored_units
from tacit.query.catalog import Catalog, Table, identifying
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MAX_SCALE,
    TEXT,
    TIMESTAMP,
    Kind,
    SqlType,
    decimal,
)

_WHOLE: Final = ("int2", "int4", "int8")
_FLOATS: Final = ("float4", "float8")
_TEXTS: Final = ("text", "varchar", "bpchar", "citext", "name", "uuid", "json", "jsonb")
_TIMES: Final = ("timestamp", "timestamptz")
#: Exceeds every INTEGER and DECIMAL value.
_NEAR: Final = 10**20
#: Kinds of relations whose rows have a ctid: tables and materialised views; and partitioned tables, whose rows are
#: those of their partitions.
_ADDRESSED: Final = ("r", "m")
_PARTITIONED: Final = "p"

_RELATION = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %s AND (n.nspname = %s OR %s::text IS NULL AND n.nspname = ANY (%s))
  AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
ORDER BY array_position(%s::text[], n.nspname::text)
"""
# The type under domains; enumerations are texts.
_COLUMNS = """
WITH RECURSIVE based AS (
  SELECT a.attname, a.attnum, t.oid AS type, t.typtype, t.typbasetype, t.typname, a.atttypmod AS modifier,
         coalesce(c.collisdeterministic, true) AS exact
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
  WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attname, b.attnum, t.oid, t.typtype, t.typbasetype, t.typname,
         CASE WHEN b.modifier = -1 THEN d.typtypmod ELSE b.modifier END, b.exact
  FROM based b JOIN pg_catalog.pg_type d ON d.oid = b.type JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype
  WHERE b.typtype = 'd'
)
SELECT attname, typname, typtype::text, modifier, exact FROM based WHERE typtype <> 'd' ORDER BY attnum
"""
# The relations that a view reads, directly or not; a table reads itself. Rows of a child or partition are rows of its
# parents, so a family of tables is the same persons, whichever of them is named: those that only inheritance leads to
# share rows with the relation unchanged.
_BASES = """
WITH RECURSIVE edges AS (
  SELECT r.ev_class AS relation, d.refobjid AS other, false AS inherits
  FROM pg_catalog.pg_rewrite r
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_catalog.pg_class'::regclass
  UNION ALL SELECT inhparent, inhrelid, true FROM pg_catalog.pg_inherits
  UNION ALL SELECT inhrelid, inhparent, true FROM pg_catalog.pg_inherits
), below AS (
  SELECT %s::oid AS relation, true AS family
  UNION
  SELECT e.other, b.family AND e.inherits FROM below b JOIN edges e ON e.relation = b.relation
)
SELECT c.oid::bigint, n.nspname, c.relname, bool_or(b.family)
FROM below b JOIN pg_catalog.pg_class c ON c.oid = b.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
GROUP BY 1, 2, 3 ORDER BY 1
"""
# User-defined functions that a view takes rows from: the relations they read are unknown.
_FUNCTIONS = """
SELECT DISTINCT n.nspname || '.' || p.proname
FROM pg_catalog.pg_rewrite r
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
  AND d.refclassid = 'pg_catalog.pg_proc'::regclass
JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE r.ev_class = ANY (%s::oid[]) AND p.proretset AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
ORDER BY 1
"""
# The places that foreign tables stand for: the wrapper, and the options that locate the foreign table.
_FOREIGN = """
SELECT f.ftrelid::bigint, w.fdwname::text, coalesce(s.srvoptions, '{}'), coalesce(f.ftoptions, '{}'), n.nspname::text, c.relname::text
FROM pg_catalog.pg_foreign_table f
JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver
JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE f.ftrelid = ANY (%s::oid[]) ORDER BY 1
"""  # noqa: E501
_WHERE: Final = ("host", "hostaddr", "port", "dbname", "database", "servername", "filename", "program", "query")
# Oids, columns and relations read, of several relations at once.
_SHAPES = """
WITH RECURSIVE below AS (
  SELECT s.nspname, c.relname, c.oid AS root, c.oid AS relation FROM unnest(%s::text[], %s::text[]) AS n(schema, name)
  JOIN pg_catalog.pg_namespace s ON s.nspname = n.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = n.name
  UNION
  SELECT b.nspname, b.relname, b.root, d.refobjid
  FROM below b
  JOIN pg_catalog.pg_rewrite r ON r.ev_class = b.relation
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_catalog.pg_class'::regclass
)
SELECT b.nspname, b.relname, b.root::bigint, array_agg(b.relation::bigint ORDER BY b.relation),
  (WITH RECURSIVE parts AS (
     SELECT inhrelid AS relation FROM pg_catalog.pg_inherits WHERE inhparent = b.root
     UNION
     SELECT i.inhrelid FROM parts p JOIN pg_catalog.pg_inherits i ON i.inhparent = p.relation
   )
   SELECT array_agg(DISTINCT c.relkind::text) FROM parts p JOIN pg_catalog.pg_class c ON c.oid = p.relation),
  (SELECT array_agg(a.attname || ' ' || a.atttypid::text || ' ' || a.atttypmod::text ORDER BY a.attnum)
   FROM pg_catalog.pg_attribute a WHERE a.attrelid = b.root AND a.attnum > 0 AND NOT a.attisdropped)
FROM below b GROUP BY b.nspname, b.relname, b.root
"""
#: One part of a name: in double quotes, where a doubled quote stands for one, or without quotes.
_PART = re.compile(r"""("(?:[^"]|"")+")(?=\.|\Z)|([^".][^.]*)""")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_PUBLIC: Final = ["public"]


class Asks(Protocol):
    """Session that can run a statement."""

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""


#: Oid, oids read, kinds of children and partitions, and columns of a relation.
Shape = tuple[int, list[int], list[str], list[str]]


@dataclass(frozen=True)
class Described:
    """Description of a table or view by the server.

    Args:
        oid: oid of the relation.
        schema: its schema.
        name: its name in the schema.
        kind: PostgreSQL's letter: r(elation), v(iew), m(aterialised view), f(oreign), p(artitioned).
        columns: type name and type modifier by column name.
        bases: oid, schema and name of the relation, of all it reads, and of their parents and children; and whether it
            is the relation itself, a parent or a child of it.
        shape: see :func:`shapes`.
        inexact: columns whose collation compares different texts as equal.
        elsewhere: by oid among ``bases``, an identifier of the place that a foreign table stands for.
    """

    oid: int
    schema: str
    name: str
    kind: str
    columns: Mapping[str, tuple[str, int]]
    bases: Sequence[tuple[int, str, str, bool]]
    shape: Shape
    inexact: frozenset[str]
    elsewhere: Mapping[int, str]

    @property
    def scan(self) -> str:
        """SQL name of the relation, to put after FROM."""
        return f"{POSTGRES.quoted(self.schema)}.{POSTGRES.quoted(self.name)}"


def split_name(text: str, where: str) -> tuple[str | None, str]:
    """Split ``schema.table`` or ``table``; a part that contains a dot is in double quotes."""
    parts = [quoted[1:-1].replace('""', '"') or bare for quoted, bare in _PART.findall(text)]
    if _NAME.fullmatch(text) is None or len(parts) > 2 or "\0" in text:
        raise InputError(
            where, f"must be 'table' or 'schema.table', with double quotes around a part that has dots, got {text!r}"
        )
    return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[0])


def describe(session: Asks, text: str, where: str) -> Described:
    """Return the description of a table or view by name; without a schema, it is looked up in ``public``.

    Raises:
        InputError: there is no such relation.
    """
    schema, name = split_name(text, where)
    found = session.rows(_RELATION, (name, schema, schema, _PUBLIC, _PUBLIC))
    if not found:
        raise InputError(where, f"there is no table or view {text} that this role can see")
    oid, schema, name, kind = found[0]
    known = session.rows(_COLUMNS, (oid,))
    columns = {str(row[0]): ("enum" if row[2] == "e" else str(row[1]), int(row[3])) for row in known}
    inexact = frozenset(str(row[0]) for row in known if row[1] == "citext" or not row[4])
    bases = session.rows(_BASES, (oid,))
    hidden = session.rows(_FUNCTIONS, ([base[0] for base in bases],))
    if hidden:
        raise InputError(
            where,
            f"{text} takes rows from the function {hidden[0][0]}, which hides whose they are; name the "
            "table that it reads, or a view of it",
        )
    foreign = session.rows(_FOREIGN, ([base[0] for base in bases],))
    elsewhere = {row[0]: _elsewhere(*row[1:]) for row in foreign}
    (shape,) = shapes(session, [(schema, name)]).values()
    return Described(oid, schema, name, kind, columns, bases, shape, inexact, elsewhere)


def _elsewhere(wrapper: str, server: Sequence[str], table: Sequence[str], schema: str, name: str) -> str:
    """Return an identifier of the place a foreign table stands for, independent of its and its server's local names."""
    said = dict(option.split("=", 1) for option in (*server, *table))
    # Without an option for its foreign name, a foreign table has the same name there as here.
    there = said.get("schema_name", schema), said.get("table_name", name)
    where = [f"{word}={said[word]}" for word in _WHERE if word in said]
    return " ".join([wrapper, *where, *([] if "filename" in said or "program" in said else there)])


def shapes(session: Asks, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], Shape]:
    """Return the current shape of each relation, by its schema and name.

    A shape is its oid, the oids of all it reads, the kinds of its children and partitions, and its columns. Another
    partition of the same kind is no change: its rows belong to persons of the same population.
    """
    found = session.rows(_SHAPES, ([schema for schema, _ in names], [name for _, name in names]))
    return {(schema, name): (root, below, parts or [], columns) for schema, name, root, below, parts, columns in found}


def type_of(type_name: str, modifier: int) -> SqlType | None:
    """Return the default type of a column, used if its owner declares none."""
    if type_name == "bool":
        return BOOLEAN
    if type_name in _WHOLE:
        return INTEGER
    if type_name in _FLOATS:
        return DOUBLE
    if type_name == "numeric":
        # The modifier encodes precision and scale, plus 4; -1 means no limit.
        scale = (modifier - 4) & 0x7FF if modifier >= 4 else None
        return decimal(scale) if scale is not None and scale <= MAX_SCALE else DOUBLE
    if type_name in (*_TEXTS, "enum"):
        return TEXT
    if type_name == "date":
        return DATE
    return TIMESTAMP if type_name in _TIMES else None


def open_table(described: Described, table: Table, index: int) -> StoredTable:
    """Return a table as the engine reads it.

    Raises:
        InputError: a column is missing, or cannot be read as declared.
    """
    by_name = {name.lower(): name for name in described.columns}
    columns, loose = {}, {}
    for declared in table.columns:
        where, key = f"tables.{table.name}.columns.{declared.name}", declared.name.lower()
        wanted = declared.stored_name
        if wanted.lower() not in by_name:
            raise InputError(where, f"{wanted!r} is not a column of {described.schema}.{described.name}")
        # Names match regardless of case; if two columns differ only in case, the exact name is required.
        name = wanted if wanted in described.columns else by_name[wanted.lower()]
        stored = described.columns[name][0]
        if table.unit is not None and key == table.unit.lower() and name in described.inexact:
            # One person under two spellings would count as two units.
            raise InputError(
                f"tables.{table.name}.unit",
                f"{declared.name} is compared regardless of case or accents there, and byte by byte here; name a view"
                f" that has it in one spelling, such as lower({declared.name}::text)",
            )
        expression = _read(POSTGRES.quoted(name), stored, declared.type)
        if expression is None:
            raise InputError(where, f"cannot read a column of type {stored} as {declared.type}")
        columns[key] = expression
        if stored == "float8" and declared.type == DOUBLE:
            loose[key] = POSTGRES.quoted(name)
    return StoredTable(index, described.scan, columns, _row(described), loose)


def _row(described: Described) -> str | None:
    """Return SQL of a row's number in its snapshot: block, position in it, and the table if there are several."""
    _, _, parts, _ = described.shape
    if any(kind not in (*_ADDRESSED, _PARTITIONED) for kind in (described.kind, *parts)):
        return None
    at = "CAST(CAST(ctid AS TEXT) AS POINT)"
    place = f"(CAST(({at})[0] AS BIGINT) * 8192 + CAST(({at})[1] AS BIGINT))"
    if described.kind in _ADDRESSED and not parts:
        return place
    # A block number has 32 bits and a position in it 13, so oids are multiplied by 2^45, which exceeds 64 bits.
    return f"(CAST(CAST(tableoid AS BIGINT) AS NUMERIC) * {2**45} + {place})"


def _read(value: str, stored: str, wanted: SqlType) -> str | None:
    """Return SQL that reads a stored column as the declared type and cannot fail; None if there is no sensible cast."""
    if stored in (*_TEXTS, "enum"):
        return cast_sql(POSTGRES, f"(CAST({value} AS TEXT) {COLLATION})", TEXT, wanted)
    match wanted.kind:
        case Kind.BOOLEAN:
            return value if stored == "bool" else f"({value} <> 0)" if stored in _WHOLE else None
        case Kind.INTEGER | Kind.DECIMAL:
            return _read_number(value, stored, wanted)
        case Kind.DOUBLE:
            return _read_double(value, stored)
        case Kind.TEXT if stored.startswith("_"):
            return _read_list(value, stored.removeprefix("_"))
        case Kind.TEXT:
            return POSTGRES.show(value, wanted) if stored in (*_WHOLE, "bool", "date") else None
        case Kind.DATE if stored == "date" or stored in _TIMES:
            day = value if stored == "date" else f"CAST({_read_time(value, stored)} AS DATE)"
            return within_years(POSTGRES, day, wanted)
        case Kind.TIMESTAMP if stored == "date":
            return f"CAST({within_years(POSTGRES, value, DATE)} AS TIMESTAMP)"
        case Kind.TIMESTAMP if stored in _TIMES:
            return _read_time(value, stored)
        case _:
            return None


def _read_list(value: str, stored: str) -> str | None:
    """Return SQL that joins the elements of an array, each after U+001F; without NULL and empty ones."""
    if stored not in (*_TEXTS, *_WHOLE, "bool", "date"):
        return None
    values = f"unnest({value}) WITH ORDINALITY AS listed(e, place) WHERE CAST(e AS TEXT) <> ''"
    text = f"SELECT coalesce(string_agg(chr(31) || CAST(e AS TEXT), '' ORDER BY place), '') FROM {values}"
    return f"(CASE WHEN {value} IS NOT NULL THEN ({text}) END {COLLATION})"


def _read_time(value: str, stored: str) -> str:
    """Return SQL that reads a timestamp; one with a time zone is read as UTC."""
    moment = f"({value} AT TIME ZONE 'UTC')" if stored == "timestamptz" else value
    return within_years(POSTGRES, moment, TIMESTAMP)


def _read_double(value: str, stored: str) -> str | None:
    if stored == "numeric":
        return POSTGRES.finite(POSTGRES.let(value, lambda v: decimal_to_double(v, v)))
    if stored in _WHOLE:
        return f"CAST({value} AS {POSTGRES.double})"
    return POSTGRES.finite(f"CAST({value} AS {POSTGRES.double})") if stored in _FLOATS else None


def _read_number(value: str, stored: str, wanted: SqlType) -> str | None:
    is_integer = wanted.kind is Kind.INTEGER
    if stored == "numeric":
        # NaN compares larger than every number, so BETWEEN excludes it, as it does infinities and numbers of a hundred
        # thousand digits, whose product would be an error.
        scale = 0 if is_integer else wanted.scale
        near = f"CASE WHEN {value} BETWEEN -{_NEAR} AND {_NEAR} THEN round({value} * {10**scale}) END"
        return POSTGRES.fit_integer(near) if is_integer else POSTGRES.fit_decimal(near)
    if stored in _FLOATS:
        number = POSTGRES.finite(f"CAST({value} AS {POSTGRES.double})")
        return cast_sql(POSTGRES, number, DOUBLE, wanted)
    if stored == "bool":
        return cast_sql(POSTGRES, value, BOOLEAN, wanted)
    if stored not in _WHOLE:
        return None
    whole = value if stored == "int8" else f"CAST({value} AS BIGINT)"
    return whole if is_integer else POSTGRES.fit_decimal(POSTGRES.huge(whole, 10**wanted.scale))


def server_identity(session: Asks) -> str:
    """Return an identifier of the server's data files and the database in them.

    Raises:
        InputError: the role may not call the function, which PostgreSQL allows everyone unless it was revoked.
    """
    ((allowed,),) = session.rows("SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')")
    if not allowed:
        raise InputError("engine", "needs GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() to this role")
    ((number,),) = session.rows("SELECT system_identifier::text FROM pg_catalog.pg_control_system()")
    ((oid, name),) = session.rows(
        "SELECT oid::bigint, datname::text FROM pg_catalog.pg_database WHERE datname = current_database()"
    )
    return f"{number}:{oid}:{name}"


def marks_of(server: str, table: Described) -> Marks:
    """Return the identifiers of a relation and of all relations it reads."""
    system, oid, database = server.split(":", 2)
    marks, rows = [], []
    for number, schema, name, is_family in table.bases:
        found = [f"postgres {system} database {oid} relation {number}", f"postgres {system} {database}.{schema}.{name}"]
        if number in table.elsewhere:
            found.append(f"postgres foreign {table.elsewhere[number]}")
        marks += found
        rows += found if is_family else []
    own = tuple(dict.fromkeys(marks))
    return Marks(version=f"postgres {system}:{oid}:{table.oid}", marks=own, own=own, rows=tuple(dict.fromkeys(rows)))


_FORMS: Final = {
    **dict.fromkeys(("int2", "int4", "int8"), Form.WHOLE),
    **dict.fromkeys(("text", "varchar", "enum", "citext"), Form.TEXT),
    "bpchar": Form.PADDED,
    "uuid": Form.UUID,
    "date": Form.DATE,
    "bool": Form.BOOLEAN,
}


def form_of(type_name: str, modifier: int) -> StoredColumn:
    """Convert a PostgreSQL type to the form in which it stores a unit."""
    if type_name == "numeric" and modifier >= 4:
        # The scale is the lower 11 bits, signed.
        scale = ((modifier - 4) & 0x7FF ^ 0x400) - 0x400
        form = Form.DECIMAL if scale > 0 else Form.WHOLE
        return StoredColumn(form, f"numeric({(modifier - 4) >> 16},{scale})", max(scale, 0))
    return StoredColumn(_FORMS.get(type_name, Form.OTHER), "char(n)" if type_name == "bpchar" else type_name)


def check_identities(catalog: Catalog, described: Mapping[str, Described]) -> None:
    """Refuse tables that would write one unit in two ways; ``described`` is by lower-case table name.

    Raises:
        InputError: see :func:`tacit.engines.stored_units.check_stored_units`.
    """
    found: dict[str, dict[str, list[StoredColumn]]] = {}
    for table in catalog.tables:
        there = described[table.name.lower()]
        stored = {name.lower(): (name, kind) for name, kind in there.columns.items()}
        # If two names differ only in case, the exact one.
        stored |= {
            column.stored_name.lower(): (column.stored_name, there.columns[column.stored_name])
            for column in table.columns
            if column.stored_name in there.columns
        }
        names = identifying(catalog, table)
        for name in sorted(names):
            if stored[table.stored_name(name)][0] in there.inexact:
                raise InputError(
                    f"tables.{table.name}.columns.{name}",
                    "tells persons apart and is compared regardless of case or accents there, and byte by byte here; "
                    f"name a view that has it in one spelling, such as lower({name}::text)",
                )
        found[table.name.lower()] = {name: [form_of(*stored[table.stored_name(name)][1])] for name in names}
    check_stored_units(catalog, found)
