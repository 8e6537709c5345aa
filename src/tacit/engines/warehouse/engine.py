"""Engine without data: writes the statement that measures queries, and reads the integers that a warehouse returns.

DuckDB, PostgreSQL and Spark (Databricks) have their own dialects. For other databases a statement is written in few
operations that cannot fail (:class:`Portable`) and parsed to a syntax tree, whose nodes must be on an allow-list. Each
operation that databases name or round differently is replaced by the database's own; SQLGlot prints the rest. *Trials*
are queries whose results are returned with the counts. They test what must be right for the integers to be exact:
division, wide sums, casts, the order of texts, dates, bit operations and the hash. For a database that was never run
here, correctness is assured only as far as its trials test it.

One statement measures everything. Its columns are ``statistic`` (a digest of the aggregation, or ``trial``), ``part``
(the number of a statement or a trial), ``g`` (the number of a group), ``place`` (of a spread measure) and integers
``n0``, ``n1``, … as text, so that no client rounds them. Groups are numbered, and must be public: neither the statement
nor its result contains a private group key.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import exp

from tacit.core.canonical import digest_of
from tacit.core.errors import InputError, InternalError
from tacit.engines.duckdb.dialect import DuckDB
from tacit.engines.protocol import Engine, Marks, Measurements, MeasurementTask, SourceLike
from tacit.engines.sql.bounding import Groups
from tacit.engines.sql.dialect import Dialect, Template
from tacit.engines.sql.engine import Answered, read_measurements
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.statements import Statement, Writer
from tacit.query.catalog import ROW, Catalog, Column, Table
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, scanned
from tacit.query.types import DATE, INTEGER, Kind, SqlType, Value

#: Dialects that SQLGlot prints, and all dialects.
PRINTED: Final = ("snowflake", "bigquery", "trino", "clickhouse")
DIALECTS: Final = ("duckdb", "postgresql", "spark", "databricks", *PRINTED)
_LARGEST_DOUBLE: Final = "1.7976931348623157e308"
_BIGINT: Final = 2**63


class Portable(DuckDB):
    """Dialect of operations that every database has, with markers for those that differ between databases."""

    fit_integer = Template(f"(CASE WHEN {{0}} BETWEEN {-_BIGINT} AND {_BIGINT - 1} THEN CAST({{0}} AS BIGINT) END)")
    # NaN compares larger than every number, or all its comparisons are false.
    is_finite = Template(f"(abs({{0}}) <= CAST('{_LARGEST_DOUBLE}' AS DOUBLE))")
    xor = Template("TACIT_XOR({0}, {1})")
    hexadecimal = Template("TACIT_HEX({0})")
    longest = 10**9

    def number(self, value: float) -> str:
        """Cast the digits."""
        return f"CAST('{value!r}' AS DOUBLE)"

    def bound(self, value: str, body: Callable[[str], str]) -> str:  # noqa: ARG002 - no value is longer
        """Raise: no value is long enough to be named."""
        raise InternalError("a portable statement names no value")

    def whole_type(self, largest: int) -> str:
        """Return BIGINT, or the wide type."""
        return "BIGINT" if largest < _BIGINT else self.wide

    def divided(self, left: str, right: str, *, wide: bool) -> str:  # noqa: ARG002 - the same mark for both
        """Return a marker for division towards zero."""
        return f"TACIT_DIV({left}, {right})"

    def total(self, value: str, largest: int | None = None) -> str:  # noqa: ARG002 - sums of 64 bits wrap in some
        """Sum in the wide type."""
        return f"sum({self.huge(f'({value})')})"

    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:  # noqa: ARG002 - typed by themselves
        """Compare the value with one constant after the other."""
        tests = [f"{value} IS NULL" if item.startswith("CAST(NULL") else f"{value} = {item}" for item in items]
        return f"(CASE {' '.join(f'WHEN {test} THEN {place}' for place, test in enumerate(tests))} END)"

    def place_among(self, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
        """Use :meth:`position`."""
        return self.position(value, [self.constant(item, kind) for item in values], kind)


_PORTABLE: Final = Portable()


def writer_of(dialect: str) -> tuple[Dialect, type[Writer]]:
    """Return the dialect of a database, and the writer of its statements.

    Raises:
        InputError: there is no dialect of this name.
    """
    match dialect:
        case "duckdb":
            from tacit.engines.duckdb.dialect import DUCKDB

            return DUCKDB, Writer
        case "postgresql":
            from tacit.engines.postgres.dialect import POSTGRES
            from tacit.engines.postgres.engine import PostgresWriter

            return POSTGRES, PostgresWriter
        case "spark" | "databricks":
            from tacit.engines.spark.dialect import SPARK
            from tacit.engines.spark.engine import SparkWriter

            return SPARK, SparkWriter
        case _ if dialect in PRINTED:
            return _PORTABLE, Writer
    raise InputError("dialect", f"must be one of {', '.join(DIALECTS)}")


def printed(sql: str, dialect: str) -> str:
    """Return a statement in the SQL dialect of a database.

    Raises:
        Refusal: the statement needs an operation that is not known to mean the same in that database.
    """
    if dialect not in PRINTED:
        return sql
    tree = sqlglot.parse_one(sql, read="duckdb")
    for node in tree.walk():
        known = isinstance(node, _ALLOWED) and (not isinstance(node, exp.Anonymous) or node.name in _MARKS)
        if not known:
            raise Refusal(
                "unsupported",
                f"{type(node).__name__.upper()} is not written for {dialect}; ask for counts, sums and averages over "
                "plain columns, or copy the table to Parquet and use DuckDB.",
            )
    # The deepest nodes first, so that a replacement contains the replacements of its children.
    for node in reversed(list(tree.walk(bfs=True))):
        other = _respelled(node, dialect)
        if other is not node:
            node.replace(other)
    return tree.sql(dialect=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE)


def _respelled(node: Any, dialect: str) -> Any:
    kind = type(node)
    if isinstance(node, exp.Anonymous) and node.name in _MARKS:
        return _marked(node.name, [each.copy() for each in node.expressions], dialect)
    if kind in _BITS:
        return _bits(kind, node.this.copy(), node.expression.copy(), dialect)
    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.INT128 and dialect != "clickhouse":
        return exp.DataType.build("BIGNUMERIC" if dialect == "bigquery" else "DECIMAL(38, 0)", dialect=dialect)
    if isinstance(node, exp.Filter) and isinstance(node.this, exp.Count | exp.Sum):
        counted = exp.Literal.number(1) if isinstance(node.this.this, exp.Star) else node.this.this.copy()
        kept = exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=counted)])
        return type(node.this)(this=kept)
    if isinstance(node, exp.MD5):
        return _md5(node.this.copy(), dialect)
    if isinstance(node, exp.Left):
        return exp.Substring(this=node.this.copy(), start=exp.Literal.number(1), length=node.expression.copy())
    if isinstance(node, exp.Length) and dialect == "clickhouse":
        return exp.Anonymous(this="lengthUTF8", expressions=[node.this.copy()])
    return node


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _marked(name: str, of: list[Any], dialect: str) -> Any:
    if name == "TACIT_XOR":
        return _bits(exp.BitwiseXor, of[0], of[1], dialect)
    if name == "TACIT_HEX":
        (digits,) = of
        spelled: dict[str, Callable[[], Any]] = {
            "snowflake": lambda: _call("TO_NUMBER", digits, exp.Literal.string("XXXXXXX")),
            "bigquery": lambda: exp.Cast(
                this=_call("CONCAT", exp.Literal.string("0x"), digits), to=exp.DataType.build("BIGINT")
            ),
            "trino": lambda: _call("from_base", digits, exp.Literal.number(16)),
            "clickhouse": lambda: _call(
                "reinterpretAsInt64",
                _call("reverse", _call("unhex", _call("concat", exp.Literal.string("0"), digits))),
            ),
        }
        return spelled[dialect]()
    left, right = (exp.Paren(this=each) for each in of)
    if dialect == "clickhouse":
        return _call("intDiv", left, right)
    if dialect == "bigquery":
        return _call("DIV", left, right)
    # (x - x mod y) / y is exact, whatever the scale of a quotient.
    rest = exp.Paren(this=exp.Sub(this=left.copy(), expression=exp.Mod(this=left.copy(), expression=right.copy())))
    return exp.Paren(this=exp.Div(this=rest, expression=right, typed=True, safe=False))


def _bits(kind: type, left: Any, right: Any, dialect: str) -> exp.Expression:
    if dialect == "bigquery":
        return exp.Paren(this=kind(this=exp.Paren(this=left), expression=exp.Paren(this=right)))
    return _call(_BITS[kind][{"snowflake": 0, "trino": 1, "clickhouse": 2}[dialect]], left, right)


def _md5(text: Any, dialect: str) -> exp.Expression:
    match dialect:
        case "snowflake":
            return _call("MD5", text)
        case "bigquery":
            return _call("TO_HEX", _call("MD5", text))
        case "trino":
            return _call("LOWER", _call("TO_HEX", _call("MD5", _call("TO_UTF8", text))))
    return _call("lower", _call("hex", _call("MD5", text)))


_BITS: Final[Mapping[type, tuple[str, str, str]]] = {
    exp.BitwiseAnd: ("BITAND", "bitwise_and", "bitAnd"),
    exp.BitwiseOr: ("BITOR", "bitwise_or", "bitOr"),
    exp.BitwiseXor: ("BITXOR", "bitwise_xor", "bitXor"),
    exp.BitwiseRightShift: ("BITSHIFTRIGHT", "bitwise_right_shift", "bitShiftRight"),
}
_MARKS: Final = frozenset({"TACIT_DIV", "TACIT_XOR", "TACIT_HEX"})
_ALLOWED: Final = (
    exp.Select, exp.From, exp.Subquery, exp.TableAlias, exp.Table, exp.Alias, exp.Column, exp.Identifier, exp.Literal,
    exp.Star, exp.Where, exp.Group, exp.Order, exp.Ordered, exp.Window, exp.RowNumber, exp.Union, exp.Distinct,
    exp.With, exp.CTE, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Paren,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Null,
    exp.Boolean, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs, exp.Floor, exp.Count, exp.Sum, exp.Anonymous,
    exp.Filter, exp.MD5, exp.Left, exp.Length, exp.DPipe, exp.Var, *_BITS,
)  # fmt: skip


def trials(d: Dialect = _PORTABLE) -> list[tuple[str, str]]:
    """Return queries of one column ``n`` that test a session, each with the text of its correct result."""

    def whole(number: int) -> str:
        return f"CAST({number} AS BIGINT)"

    def of(expression: str, *columns: str) -> str:
        # Computed over rows, so that no planner folds the constants by other rules.
        rows = " UNION ALL ".join(f"SELECT {column} AS x" for column in columns)
        return f"SELECT {expression} AS n FROM {d.derived(rows)}"

    md5 = int(hashlib.md5(b"1:a", usedforsecurity=False).hexdigest()[:7], 16)
    bits = 1_234_567_890_123
    shifted = d.xor("x", "(x >> 30)")
    return [
        (of(f"{d.divided('x', whole(2), wide=False)}", whole(-7)), "-3"),
        (of(d.divided(d.huge("x", 3), d.huge(whole(2)), wide=True), whole(_BIGINT - 1)), str((_BIGINT - 1) * 3 // 2)),
        (of(d.total("x"), whole(_BIGINT - 1), whole(_BIGINT - 1), whole(5)), str(2 * (_BIGINT - 1) + 5)),
        (of("CAST(floor(x) AS BIGINT)", d.number(-0.5)), "-1"),
        (of("CAST(floor(x * " + d.number(131072.0) + " + " + d.number(0.49999999999999994) + ") AS BIGINT)",
            d.number(0.1)), "13107"),
        (of("CASE WHEN x < 'a' THEN 1 ELSE 0 END", "'B'"), "1"),
        (of("CASE WHEN x = 'A' OR x = 'a ' THEN 1 ELSE 0 END", "'a'"), "0"),
        (of(f"CASE WHEN x < {d.constant(dt.date(2024, 3, 1), DATE)} THEN 1 ELSE 0 END", "DATE '2024-02-29'"), "1"),
        (of("count(x)", f"CAST(NULL AS {d.storage(INTEGER)})", whole(1)), "1"),
        (of(f"({shifted} & 1073741823)", whole(bits)), str((bits ^ bits >> 30) & 1073741823)),
        (of(d.hexadecimal("left(md5(x), 7)"), "'1:a'"), str(md5)),
    ]  # fmt: skip


# Statements out, integers in ------------------------------------------------------------------------------------------


_TRIAL: Final = "trial"
_COLUMNS: Final = ("statistic", "part", "g", "place")
_WHOLE: Final = re.compile(r"-?[0-9]{1,38}\Z")


@dataclass(frozen=True)
class Counts:
    """Integers returned by a warehouse: result rows by statistic and part, after its trials have passed."""

    rows: Mapping[tuple[str, int], Sequence[tuple[int, int | None, tuple[int, ...]]]]


class WarehouseEngine(Engine):
    """Engine for tables that a warehouse measures, by a statement that somebody else runs.

    Args:
        catalog: the tables, with all types declared.
        sources: their names in the warehouse.
        counts: integers that the warehouse returned; None before that.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, SourceLike], counts: Counts | None = None) -> None:
        self._catalog = catalog
        self._sources = dict(sources)
        self._counts = counts

    def with_counts(self, counts: Counts) -> WarehouseEngine:
        """Return an engine with the integers that the warehouse returned."""
        return WarehouseEngine(self._catalog, self._sources, counts)

    def check(self, final: FinalAggregation) -> None:
        """Refuse what cannot be measured by one statement, or would return private group keys."""
        if final.seeks_limits or final.seeks_bounds:
            raise Refusal(
                "unsupported",
                "AUTO looks at the data first, and a warehouse is measured once: state numbers.",
            )
        if final.keys and not final.public_keys:
            raise Refusal("unsupported", "A warehouse brings back counts of declared groups alone: declare categories.")
        for name in scanned(final.source):
            table = self._catalog.table(name)
            if table is None or table.public or table.unit in (None, ROW):
                raise Refusal("unsupported", f"{name} cannot be measured elsewhere: it needs a unit column.")

    def statement(self, finals: Sequence[FinalAggregation], secret: bytes, dialect: str) -> str:
        """Return the one statement that measures several aggregations, preceded by trials of the session.

        Raises:
            InputError: the dialect does not exist.
            Refusal: the dialect does not support an aggregation.
        """
        d, _ = writer_of(dialect)
        written = [(label_of(final), self._written(final, secret, dialect)) for final in finals]
        width = max(2, *(2 + len(s.measures) for _, statements in written for s in statements))
        selects = [
            self._select(d, _TRIAL, number, sql, "0", "", ["n"], width) for number, (sql, _) in enumerate(trials(d))
        ]
        for label, statements in written:
            for part, each in enumerate(statements):
                names = ["n"] if each.is_spread else ["units", *(f"v{i}" for i in range(len(each.measures)))]
                place = "place" if each.is_spread else ""
                selects.append(self._select(d, label, part, each.sql, "g", place, names, width))
        return "\nUNION ALL\n".join(printed(each, dialect) for each in selects) + "\n"

    def _written(self, final: FinalAggregation, secret: bytes, dialect: str) -> Sequence[Statement]:
        d, writer = writer_of(dialect)
        tables = {
            name.lower(): _stored(d, number, table, self._sources[table.name].path or table.name)
            for number, table in enumerate(self._catalog.tables)
            for name in [table.name]
        }
        return writer.of(d, final, tables, secret).statements()

    @staticmethod
    def _select(
        d: Dialect, label: str, part: int, sql: str, group: str, place: str, names: Sequence[str], width: int
    ) -> str:
        """Select the rows of a statement in the columns common to all statements."""
        numbers = [f"CAST({name} AS {d.text_type})" for name in names]
        numbers += [f"CAST(NULL AS {d.text_type})"] * (width - len(names))
        shown = ", ".join(f"{sql} AS n{i}" for i, sql in enumerate(numbers))
        where = f"CAST({place or 'NULL'} AS BIGINT)"
        return (
            f"SELECT '{label}' AS statistic, CAST({part} AS BIGINT) AS part, CAST({group} AS BIGINT) AS g, "
            f"{where} AS place, {shown} FROM {d.derived(sql)}"
        )

    def measure(self, work: MeasurementTask) -> Measurements:
        """Return the measurements of an aggregation from the integers that the warehouse returned.

        Raises:
            InputError: the result has none of its integers, or not all.
        """
        if self._counts is None or work.bias is not None:
            raise InputError("measured", "this project's tables are in a warehouse: tacit measure writes what to run")
        final, label, answered = work.final, label_of(work.final), []
        groups = Groups(final).count
        for part, each in enumerate(self._written(final, work.key_secret, "duckdb")):
            found = self._counts.rows.get((label, part))
            if found is None:
                raise InputError("measured", f"has no rows of statement {part} of {label}; run all of measure.sql")
            wanted = 1 if each.is_spread else 1 + len(each.measures)
            seen: set[tuple[int, int | None]] = set()
            rows: list[tuple[int, ...]] = []
            for group, place, numbers in found:
                key = group, place
                fits = 0 <= group < groups and len(numbers) == wanted and (place is None) != each.is_spread
                if not fits or key in seen:
                    raise InputError("measured", f"does not fit statement {part} of {label}: group {group}")
                seen.add(key)
                rows.append((group, *([] if place is None else [place]), *numbers))
            answered.append(Answered(each, rows))
        return read_measurements(final, answered)

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:  # noqa: ARG002
        """Refuse: no rows are read here."""
        raise Refusal("unsupported", "Public tables of a warehouse are not read: leave them out.")

    def interrupt(self) -> None:
        """Do nothing: no query runs here."""

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def marks(self, table: str) -> Marks | None:
        """Return the table's name in the warehouse as its identifier."""
        name = f"warehouse {self._sources[table].path}"
        return Marks(name, (name,), (name,))


def label_of(final: FinalAggregation) -> str:
    """Return the label of an aggregation in the statement and its result."""
    return digest_of(final.text)[:16]


def read_counts(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Counts:
    """Parse the result of a statement, and check its trials.

    Raises:
        InputError: a column is missing, a value is not an integer, or a trial failed, which the message names.
    """
    places = {name.lower(): place for place, name in enumerate(names)}
    missing = [name for name in (*_COLUMNS, "n0") if name not in places]
    if missing:
        raise InputError("measured", f"has no column {missing[0]}; hand over all that measure.sql returns")
    numbers = [places[name] for name in sorted((n for n in places if _NUMBER.match(n)), key=lambda n: int(n[1:]))]
    found: dict[tuple[str, int], list[tuple[int, int | None, tuple[int, ...]]]] = {}
    for row in rows:
        label, part, group, place = (row[places[name]] for name in _COLUMNS)
        cells = [row[at] for at in numbers if row[at] not in (None, "")]
        key = str(label), _whole(part)
        found.setdefault(key, []).append(
            (_whole(group), None if place in (None, "") else _whole(place), tuple(map(_whole, cells)))
        )
    for number, (_, expected) in enumerate(trials()):
        if found.get((_TRIAL, number)) != [(0, None, (int(expected),))]:
            raise InputError("measured", f"trial {number} failed: that session does not compute as the statement means")
    return Counts(found)


_NUMBER: Final = re.compile(r"n[0-9]+\Z")


def _whole(cell: Any) -> int:
    # In a CSV file a cell that a spreadsheet would take for a formula may have an apostrophe in front.
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).removeprefix("'")
    if not _WHOLE.match(text):
        raise InputError("measured", "holds something else than whole numbers")
    return int(text)


def _stored(d: Dialect, number: int, table: Table, source: str) -> StoredTable:
    """Return a table by its name in the warehouse, with columns in the types in which values are stored."""
    scan = ".".join(d.quoted(part) for part in source.split("."))
    columns = {column.name.lower(): _column(d, column) for column in table.columns}
    return StoredTable(number, scan, columns, None)


def _column(d: Dialect, column: Column) -> str:
    name = d.quoted(column.stored_name)
    match column.type.kind:
        case Kind.INTEGER:
            return f"CAST({name} AS BIGINT)"
        case Kind.DECIMAL:
            scale = column.type.scale
            return f"CAST(CAST({name} AS DECIMAL(38, {scale})) * {10**scale} AS BIGINT)"
        case Kind.DOUBLE:
            return d.finite(f"CAST({name} AS {d.double})")
        case _:
            return name
